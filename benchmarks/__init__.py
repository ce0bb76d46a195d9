"""Measures threadkeep beside the naive way, other stores and the raw limit; never a test."""

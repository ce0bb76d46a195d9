"""Measures threadkeep beside the naive way, other stores and the raw limit; no part of the tests."""

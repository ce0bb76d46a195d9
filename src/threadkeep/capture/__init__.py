"""Capture: find what agents wrote on this machine, and keep all of it, once."""

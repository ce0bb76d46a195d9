"""Placeholder until the API settles."""

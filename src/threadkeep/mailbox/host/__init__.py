"""The host's side: posting, delivering, sweeping, and what it may be asked to do."""

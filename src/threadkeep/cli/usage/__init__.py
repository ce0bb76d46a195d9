"""What agents used: tokens and what they cost."""

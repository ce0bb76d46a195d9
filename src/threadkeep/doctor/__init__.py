"""Health: is everything captured, and what to do where it is not."""

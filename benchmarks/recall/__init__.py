"""How well, and how fast, recall finds what was said and done."""

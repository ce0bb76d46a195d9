"""Full-text search of a state file: its words, its two kinds of index, and what fills them."""

"""`threadkeep tui`: the captured history in a terminal, with the filters and keys of the page."""

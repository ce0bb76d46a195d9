"""OpenCode: its database, and the tree of files of older versions."""

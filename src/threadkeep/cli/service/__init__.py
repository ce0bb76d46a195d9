"""The commands that run threadkeep in the background."""

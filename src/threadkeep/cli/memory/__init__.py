"""The commands that ask memory."""

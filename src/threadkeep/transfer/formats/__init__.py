"""The formats of other programs, one module each, that a session can be written in."""

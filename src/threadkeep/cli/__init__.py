"""The `threadkeep` command: parses, calls Home, prints."""

from threadkeep.cli.app import program as main

__all__ = ["main"]

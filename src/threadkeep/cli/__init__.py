"""The `threadkeep` command: parses, calls Home, prints."""

from threadkeep.cli.app import main

__all__ = ["main"]

"""`threadkeep up`: everything at once."""

from threadkeep.cli.up.up import up

__all__ = ["COMMANDS"]

COMMANDS = (up,)

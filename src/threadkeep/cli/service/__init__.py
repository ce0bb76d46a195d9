"""The commands that run threadkeep in the background, as they stand at the top level."""

from threadkeep.cli.service.serve import serve
from threadkeep.cli.service.service import service

__all__ = ["COMMANDS"]

COMMANDS = (serve, service)

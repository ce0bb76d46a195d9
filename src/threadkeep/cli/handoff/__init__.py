"""Hand-off between agents: a captured session in another program's format, or in the program."""

from threadkeep.cli.handoff.export import export
from threadkeep.cli.handoff.resume import resume

__all__ = ["COMMANDS"]

COMMANDS = (export, resume)

"""The commands that ask memory, as they stand at the top level."""

from threadkeep.cli.memory.answers import ask, context, fixed
from threadkeep.cli.memory.learning import embed, enrich
from threadkeep.cli.memory.recall import open_, recall, similar
from threadkeep.cli.memory.timeline import timeline

__all__ = ["COMMANDS"]

COMMANDS = (recall, ask, timeline, fixed, similar, context, open_, enrich, embed)

"""The captured history: what agents did on this machine, as commands at the top level."""

from threadkeep.cli.history.capture import capture, watch
from threadkeep.cli.history.forget import forget
from threadkeep.cli.history.knowledge import knowledge
from threadkeep.cli.history.listing import sessions
from threadkeep.cli.history.redacting import redact
from threadkeep.cli.history.search import search
from threadkeep.cli.history.show import raw, show
from threadkeep.cli.history.sources import sources
from threadkeep.cli.history.usage import usage

__all__ = ["COMMANDS"]

COMMANDS = (
    *(capture, watch, sessions, show, search, sources, usage, raw),
    *(forget, redact, knowledge),
)

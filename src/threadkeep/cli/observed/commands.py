"""The commands about what shells, browsers and CI did, as they stand at the top level."""

from threadkeep.cli.observed.aliases import ALIASES
from threadkeep.cli.observed.browsers import browser, native_host
from threadkeep.cli.observed.ci import github
from threadkeep.cli.observed.ci_listing import lessons
from threadkeep.cli.observed.events import events
from threadkeep.cli.observed.probing import probe
from threadkeep.cli.observed.running import run
from threadkeep.cli.observed.sending import send_event
from threadkeep.cli.observed.shells import import_history, shell_init

__all__ = ["COMMANDS"]

COMMANDS = (
    *(events, run, shell_init, import_history, browser, github, lessons, probe, send_event),
    *(native_host, *ALIASES),
)

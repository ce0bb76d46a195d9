"""Names under which Hippo's own scripts call: the same commands, left out of the help page."""

from copy import copy

import click

from threadkeep.cli.observed.browsers import native_host
from threadkeep.cli.observed.ci import poll
from threadkeep.cli.observed.ci_listing import pending


def _alias(command: click.Command, name: str) -> click.Command:
    same = copy(command)
    same.name, same.hidden = name, True
    return same


ALIASES = (
    _alias(native_host, "native-messaging-host"),
    _alias(poll, "gh-poll"),
    _alias(pending, "gh-pending-notifications"),
)

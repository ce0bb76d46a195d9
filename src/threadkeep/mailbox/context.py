"""What every verb of either side works with."""

import secrets
from collections.abc import Callable
from typing import NamedTuple

from threadkeep.base.clock import Clock, iso
from threadkeep.mailbox.folder import Folder
from threadkeep.mailbox.ids import Below, Prefix, new_id
from threadkeep.mailbox.policy import DEFAULT, Policy
from threadkeep.mailbox.times import find_zone, sqlite_form


class MailContext(NamedTuple):
    """The surroundings of a verb: the folder, the time, and how patient to be.

    `running` is the host's knowledge whether a container works in the folder, None if it has none.
    """

    folder: Folder
    clock: Clock
    zone: str = "UTC"
    policy: Policy = DEFAULT
    agent_group: str | None = None
    session: str = ""
    running: Callable[[], bool] | None = None
    random: Below = secrets.randbelow

    def checked(self) -> "MailContext":
        """Give the context itself; refuse a zone that is not known here."""
        find_zone(self.zone)
        return self

    def now_sql(self) -> str:
        """Give the time as the database writes it."""
        return sqlite_form(self.clock())

    def now_iso(self) -> str:
        """Give the time as messages carry it."""
        return iso(self.clock())

    def new_id(self, prefix: Prefix) -> str:
        """Make an id."""
        return new_id(prefix, self.clock(), self.random)

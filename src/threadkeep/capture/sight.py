"""What there is to see of a source: its logs, and the places that could not be looked into."""

import os
from collections.abc import Iterable
from functools import cache

import msgspec

from threadkeep.capture.troubles import exists
from threadkeep.sources.records import Log, Source, UnreadablePlace, UserHome


class SourceLogs(msgspec.Struct, frozen=True):
    """The logs of one source as they are now, and what stayed hidden."""

    logs: list[Log]
    roots: list[str]  # those that exist
    unseen: list[UnreadablePlace]

    def hides(self, path: str) -> bool:
        """Tell whether a log may still be there, behind a door that is closed to us."""
        return is_below(path, [one.path for one in self.unseen if not one.is_link])


def see(source: Source, user: UserHome) -> SourceLogs:
    """Look for the logs of a source, and hear of every place that cannot be looked into."""
    unseen: dict[str, UnreadablePlace] = {}

    def hear(one: UnreadablePlace) -> None:
        unseen.setdefault(one.path, one)

    whose = msgspec.structs.replace(user, tell=hear, projects=cache(user.projects))
    logs = list(source.find(whose))
    roots = [str(root) for root in source.roots(whose) if exists(root)]
    return SourceLogs(logs, roots, list(unseen.values()))


def is_below(path: str, places: Iterable[str]) -> bool:
    """Tell whether a path is one of these places, or lies below one."""
    return any(path == place or path.startswith(place + os.sep) for place in places)


def rooted(log: Log, roots: Iterable[str]) -> Log:
    """Give a log the nearest of the roots that it lies below; one that is a root was named."""
    above = [root for root in roots if log.path.startswith(root + os.sep)]
    if log.root or not above:
        return log
    return msgspec.structs.replace(log, root=max(above, key=len))

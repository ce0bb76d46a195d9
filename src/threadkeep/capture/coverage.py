"""Coverage: is everything on the disk in the store? Judged by the files, not by our own word."""

from collections.abc import Iterator, Mapping

import msgspec

from threadkeep.capture.intake import CaptureContext
from threadkeep.capture.records import SourceLogs, see
from threadkeep.knowledge.archive import LogState, all_looks, keeps_sums
from threadkeep.knowledge.health import CoverageCounts, UnknownRecord, count_stored, unknown_records
from threadkeep.sources.records import Log, Source


class SourceCoverage(msgspec.Struct):
    """How much of one source is in the store."""

    name: str
    agent: str
    places: list[str]  # the folders and files that are looked into and exist
    looked: list[str] = []  # all that are looked for, on every system that its program runs on
    found: int = 0  # logs on the disk
    current: int = 0  # of these, logs that are wholly captured or kept out on purpose
    excluded: int = 0
    bytes_found: int = 0
    bytes_current: int = 0
    gone: int = 0  # logs that are in the store only: their agent deleted them
    behind: list[str] = []  # some of those that are not current
    unseen: dict[str, str] = {}  # places that cannot be read: why, and what to do
    passed: dict[str, str] = {}  # links and others' folders, which are passed over on purpose
    unchecked: int = 0  # line logs that somebody touched since all that was read was compared
    variables: list[str] = []  # those of the environment that name other places
    checked_at: int | None = None  # when the line log was compared whose turn is longest ago

    @property
    def percent(self) -> float:
        """The part of the bytes on the disk that is in the store."""
        return 100.0 * self.bytes_current / self.bytes_found if self.bytes_found else 100.0


class Coverage(msgspec.Struct):
    """What is on the disk, what is in the store, and what was not understood."""

    sources: list[SourceCoverage]
    stored: dict[str, CoverageCounts]
    unknown: list[UnknownRecord]


_SHOWN_BEHIND = 5


class _AskedVariables(Mapping[str, str]):
    """An environment that notes which variables a source asks for: they can move its logs."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env
        self.names: set[str] = set()

    def __getitem__(self, name: str) -> str:
        self.names.add(name)
        return self._env[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._env)

    def __len__(self) -> int:
        return len(self._env)


def cover(around: CaptureContext, sources: Mapping[str, Source]) -> Coverage:
    """Look at every log on the disk, without opening one, and compare it with the store."""
    with around.store.read() as tx:
        parts, sums = [], keeps_sums(tx)
        for name, source in sources.items():
            known = all_looks(tx, name, sums=sums)
            seen = see(source, around.user)
            asked = _AskedVariables(around.user.env)
            looked = source.roots(msgspec.structs.replace(around.user, env=asked))
            part = SourceCoverage(name, source.agent, seen.roots, [str(root) for root in looked])
            part.variables = sorted(asked.names)
            _compare(part, known, seen)
            for one in seen.unseen:
                (part.unseen if one.is_failure else part.passed)[one.path] = one.told
            if source.kind == "lines":
                _check(part, known, seen.logs)
            parts.append(part)
        stored, unknown = count_stored(tx), unknown_records(tx)
    return Coverage(parts, stored, unknown)


def _compare(part: SourceCoverage, known: dict[str, LogState], seen: SourceLogs) -> None:
    found = {log.path: log for log in seen.logs}
    part.found = len(found)
    part.gone = sum(not seen.hides(path) for path in known if path not in found)
    for path, log in found.items():
        looks = known.get(path)
        size = log.stamp.size
        part.bytes_found += size
        if looks is not None and looks.is_current(log.stamp) and not looks.failed:
            part.current += 1
            part.bytes_current += size
            part.excluded += looks.excluded_by is not None
        else:
            part.bytes_current += min(size, _held(looks)) if looks else 0
            if len(part.behind) < _SHOWN_BEHIND:
                part.behind.append(path)


def _check(part: SourceCoverage, known: dict[str, LogState], found: list[Log]) -> None:
    """Tell what is known of the bytes that were read: whether they are still the same."""
    pairs = [(known[log.path], log) for log in found if log.path in known]
    read = [(looks, log) for looks, log in pairs if looks.read_to]
    part.unchecked = sum(
        not (looks.is_checked and looks.is_untouched(log.stamp)) for looks, log in read
    )
    part.checked_at = min((looks.checked_at or 0 for looks, _ in read), default=None) or None


def _held(looks: LogState) -> int:
    """Return how much of a log that changed is in the store: what was read before it grew."""
    return looks.read_to if looks.failed else max(0, looks.stamp[0])

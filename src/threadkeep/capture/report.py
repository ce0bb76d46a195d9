"""What a run of capture did, and how far it is."""

from collections.abc import Callable

import msgspec


class HarnessReport(msgspec.Struct):
    """What was found and taken of one program."""

    found: int = 0  # logs on the disk
    changed: int = 0  # of these, logs with something new
    excluded: int = 0
    lines: int = 0  # archived in this run
    source_bytes: int = 0
    entries: int = 0
    segments: int = 0
    memories: int = 0  # notes that came or changed
    bad_lines: int = 0
    masked_lines: int = 0
    unknown: dict[str, int] = {}
    errors: dict[str, str] = {}  # path -> what happened
    passed: dict[str, str] = {}  # path -> why it was passed over on purpose


class CaptureReport(msgspec.Struct):
    """What one run did, by program."""

    harnesses: dict[str, HarnessReport] = {}
    seconds: float = 0.0
    dry_run: bool = False

    def of(self, harness: str) -> HarnessReport:
        """Give the part of one program."""
        return self.harnesses.setdefault(harness, HarnessReport())

    @property
    def errors(self) -> int:
        """How many logs could not be read."""
        return sum(len(part.errors) for part in self.harnesses.values())


class Progress(msgspec.Struct):
    """How far a run is."""

    logs_done: int = 0
    logs_total: int = 0
    bytes_done: int = 0
    bytes_total: int = 0
    entries: int = 0
    errors: int = 0
    path: str = ""


Watcher = Callable[[Progress], None]


def silent(_: Progress) -> None:
    """Show nothing."""

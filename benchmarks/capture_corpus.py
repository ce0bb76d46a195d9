"""User homes full of transcripts: real ones where they are at hand, else made-up ones.

Real transcripts are optional data: THREADKEEP_SHARED, or `shared` beside the project. To have more
of them they are repeated, each time with other ids, so that nothing looks like what was seen.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.capture_made import Clerk
from benchmarks.capture_run import REPO

# A log that was written to in the last minute may still grow, and is looked at again.
_LONG_AGO_NS: Final = 1_760_000_000 * 10**9
_ID: Final = re.compile(
    rb"(\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b"
    rb"|\b(?:msg|req|toolu|call)_[A-Za-z0-9]{12,}"
    rb'|(?:(?<=\bagent-)|(?<="agentId":"))[0-9a-f]{7,17}\b)'
)
_CLAUDE, _CODEX = Path(".claude", "projects"), Path(".codex", "sessions")
_TEMPLATE_BYTES: Final = 4_000_000


class Corpus(NamedTuple):
    """A user home, and how many bytes of transcripts are in it."""

    home: Path
    claude: int
    codex: int
    real: bool

    @property
    def size(self) -> int:
        """All bytes of all transcripts."""
        return self.claude + self.codex


class Template:
    """A text with ids in it, to be written again and again with others."""

    def __init__(self, data: bytes) -> None:
        self._pieces = _ID.split(data)  # every second one is an id

    def copy(self, number: int) -> bytes:
        """Return copy `number`; the first, 0, is the text itself."""
        if not number:
            return b"".join(self._pieces)
        pieces = self._pieces.copy()
        pieces[1::2] = [_other(name, number) for name in pieces[1::2]]
        return b"".join(pieces)


def _other(name: bytes, copy: int) -> bytes:
    """Return the id of a copy; a UUID keeps its end, which is where numbered ones differ."""
    if name[8:9] != b"-":
        return name + b"%04x" % copy
    return b"%s%04x%s" % (name[:24], int(name[24:28], 16) ^ copy, name[28:])


def build(home: Path, copies: int) -> Corpus:
    """Fill a user home with transcripts of Claude Code and Codex, repeated `copies` times."""
    found = real_logs()
    if found:
        for path, target in found:
            name, content = Template(str(target).encode()), Template(path.read_bytes())
            for copy in range(copies):
                _write(home / name.copy(copy).decode(), content.copy(copy))
    else:
        _make_up(home, copies)
    return _measured(home, real=bool(found))


def one_long_log(home: Path, size: int) -> Corpus:
    """Write one session of Claude Code of about `size` bytes, no id twice."""
    template = Template(Clerk(5).claude("one-long-session", _TEMPLATE_BYTES))
    path = home / _CLAUDE / "-home-u-app" / "one-long-session.jsonl"
    path.parent.mkdir(parents=True)
    with path.open("wb") as file:
        for copy in range(max(1, round(size / _TEMPLATE_BYTES))):
            file.write(template.copy(copy))
    _settle(path)
    return _measured(home, real=False)


def many_short_logs(home: Path, count: int) -> Corpus:
    """Write so many sessions of Claude Code of a few lines each, over fifty projects."""
    clerk = Clerk(6)
    template = Template(clerk.claude("a-short-session", 1_500))
    for number in range(count):
        session = clerk.uuid()
        path = home / _CLAUDE / f"-home-u-app{number % 50}" / f"{session}.jsonl"
        _write(path, template.copy(number).replace(b"a-short-session", session.encode()))
    return _measured(home, real=False)


def real_logs() -> list[tuple[Path, Path]]:
    """Find the real transcripts, each with its place in a user home; none if they are not here."""
    data = Path(os.environ.get("THREADKEEP_SHARED") or REPO.parent / "shared") / "data" / "harness"
    return [*_below(data, "claude/*/projects", _CLAUDE), *_below(data, "codex/*/sessions", _CODEX)]


# ------------------------------------------------------------------ files


def _below(data: Path, folders: str, target: Path) -> Iterator[tuple[Path, Path]]:
    for folder in sorted(data.glob(folders)):
        for path in sorted(folder.rglob("*.json*")):
            yield path, target / path.relative_to(folder)


def _settle(path: Path) -> None:
    os.utime(path, ns=(_LONG_AGO_NS, _LONG_AGO_NS))


def _measured(home: Path, *, real: bool) -> Corpus:
    return Corpus(home, _size(home / _CLAUDE), _size(home / _CODEX), real)


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*.jsonl"))


def _make_up(home: Path, copies: int) -> None:
    """Write about 20 MB, nine tenths of it Claude Code's, in sessions of 570 KB."""
    clerk = Clerk(4)
    for _ in range(32 * copies):
        session = clerk.uuid()
        _write(home / _CLAUDE / "-home-u-app" / f"{session}.jsonl",
               clerk.claude(session, 570_000))  # fmt: skip
    for _ in range(4 * copies):
        session = clerk.uuid()
        name = f"rollout-2026-01-05T08-00-00-{session}.jsonl"
        _write(home / _CODEX / "2026" / "01" / "05" / name, clerk.codex(session, 570_000))


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    _settle(path)

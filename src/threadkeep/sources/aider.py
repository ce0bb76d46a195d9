"""Aider: a Markdown file in each project, to which every run appends what was said.

A run begins at `# aider chat started at …`. The person's lines begin with `#### `, the program's
own with `> `, and both end with two blanks, which tells them from an answer that quotes or has
headings; a run whose first such line has no blanks went through an editor that strips them, and
there the beginnings alone decide. Everything else is the model's.

A run is a session. Its records hold the file's lines as they are: joined, they give the file.
Only the start of a run has a time, of this machine's zone, so all that is in it has that time.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import msgspec

from threadkeep.base.text import pattern
from threadkeep.knowledge.records import Entry, Usage
from threadkeep.sources.common import (
    Gatherer,
    GathererState,
    number as count,
    plain,
    strange_name,
    table,
    text,
)
from threadkeep.sources.files import LogFile
from threadkeep.sources.folders import entry_stamp, file_stamp, listed
from threadkeep.sources.records import DocumentItem, Harvest, Log, Stamp, UnreadablePlace, UserHome

FILE_NAME: Final = ".aider.chat.history.md"
# Aider has no central place. These are where people keep their projects; beside them only what
# the user names is walked, and where other agents worked is looked at.
_PLACES: Final = (
    *("projects", "src", "code", "repos", "work", "dev", "git", "Documents", "Projects"),
    *("Code", "workspace", "Developer"),
)
_DEPTH: Final = 3
_NAMED_DEPTH: Final = 8
_NOT_PROJECTS: Final = frozenset(
    (
        *("node_modules", "vendor", "venv", "env", "site-packages", "__pycache__", "target"),
        *("build", "dist", "out", "Library", "Pods", "DerivedData", "bower_components"),
    )
)
_HEADER: Final = b"# aider chat started at "
_STARTED: Final = pattern(rb"# aider chat started at (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)[ \r]*\Z")

Who = Literal["user", "tool", "assistant"]


# ---------------------------------------------------------------------- the file


class AiderRun(NamedTuple):
    """One run of the program: the lines it wrote, from its header on."""

    session_id: str
    place: str  # which of the runs that started in the same second
    started: str  # as the header says, empty for what comes before the first one
    data: bytes


def runs_of(path: str, data: bytes) -> list[AiderRun]:
    """Cut a history into its runs; joined, they are the history."""
    starts = list(_headers(data))
    if not starts or data[: starts[0][0]].strip():
        starts.insert(0, (0, ""))  # the beginning was cut off, or this is no history
    starts[0] = (0, starts[0][1])
    seen: dict[str, int] = {}
    found = []
    for (begin, started), (end, _) in zip(starts, [*starts[1:], (len(data), "")], strict=True):
        place = seen.get(started, 0)
        seen[started] = place + 1
        found.append(
            AiderRun(_session_id(path, started, place), str(place), started, data[begin:end])
        )
    return found


def _headers(data: bytes) -> Iterator[tuple[int, str]]:
    """Yield where each run begins, with the blank line before its header, and when it did."""
    at = data.find(_HEADER)
    while at >= 0:
        end = data.find(b"\n", at)
        match = _STARTED.match(data[at : end if end >= 0 else len(data)])
        if match and (at == 0 or data[at - 1] == ord("\n")):
            blank = at > 0 and (at == 1 or data[at - 2] == ord("\n"))
            yield at - blank, match[1].decode()
        at = data.find(_HEADER, at + 1)


def _session_id(path: str, started: str, place: int) -> str:
    named = os.fsencode(f"{path}\n{started}\n{place}")
    return blake2b(named, digest_size=8).hexdigest()


def local_ms(started: str) -> int | None:
    """Read the time of a header, which is in this machine's zone."""
    try:
        moment = datetime.fromisoformat(started)
        return round(moment.timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        return None


def messages_of(lines: list[str]) -> Iterator[tuple[Who, str]]:
    """Cut the lines behind a header into messages; joined, their texts are the lines."""
    who: Who = "assistant"
    held: list[str] = []
    for line, speaker in zip(lines, _speakers(lines), strict=True):
        if held and _begins(held, who, line, speaker):
            yield who, "".join(held)
            held = []
        who = who if held else speaker
        held.append(line)
    if held:
        yield who, "".join(held)


def _begins(held: list[str], who: Who, line: str, speaker: Who) -> bool:
    """Blank lines belong to what they follow; two prompts with one between them are two."""
    if not line.strip():
        return False
    return speaker != who or (speaker == "user" and not held[-1].strip())


def _speakers(lines: list[str]) -> Iterator[Who]:
    strict: bool | None = None
    for line in lines:
        marked, spaced = _marked(line), line.rstrip("\r\n").endswith("  ")
        if marked and strict is None:
            strict = spaced
        yield marked if marked and (spaced or not strict) else "assistant"


def _marked(line: str) -> Who | None:
    if line.startswith("####") and line[4:5] in {" ", "\n", "\r", ""}:
        return "user"
    if line.startswith(">") and line[1:2] in {" ", "\n", "\r", ""}:
        return "tool"
    return None


# ---------------------------------------------------------------------- records and entries


class _Record(msgspec.Struct, omit_defaults=True):
    who: Literal["run", "user", "tool", "assistant"]
    key: str
    at: int | None
    text: str
    session: str = ""  # of the first record only
    started: str = ""


def _records(run: AiderRun) -> Iterator[_Record]:
    at = local_ms(run.started)
    lines = _lines(run.data.decode("utf-8", "replace"))
    behind = _header_length(lines) if run.started else 0
    head = "".join(lines[:behind])
    yield _Record("run", f"{run.place}.0", at, head, run.session_id, run.started)
    for place, (who, said) in enumerate(messages_of(lines[behind:]), 1):
        yield _Record(who, f"{run.place}.{place}", at, said)


def _lines(content: str) -> list[str]:
    """Cut at line feeds only: `splitlines` would also cut inside of what somebody typed."""
    *whole, rest = content.split("\n")
    return [f"{line}\n" for line in whole] + ([rest] if rest else [])


def _header_length(lines: list[str]) -> int:
    """How many lines the header has, with the blank ones around it."""
    named = False
    for place, line in enumerate(lines):
        if line.strip():
            if named:
                return place
            named = True
    return len(lines)


def _entries(record: object) -> list[Entry]:
    fields = table(record)
    at = count(fields.get("at")) or None
    reader = _READERS.get(text(fields.get("who")))
    return reader(text(fields.get("key")), at, text(fields.get("text"))) if reader else []


def _typed(key: str, at: int | None, raw: str) -> list[Entry]:
    shown = "\n".join(line[5:].rstrip() for line in raw.split("\n") if line.strip()).strip()
    # Answers to the program's own questions are written like prompts.
    asked = "(Y)es/(N)o" in shown or shown == "<blank>"
    return [Entry(key, "user", "note" if asked else "prompt", at, shown)] if shown else []


def _printed(raw: str) -> list[str]:
    return [line[1:].strip() for line in raw.split("\n") if line.startswith(">")]


def _console(key: str, at: int | None, raw: str) -> list[Entry]:
    """What the program said; what it did to files is named apart."""
    lines = _printed(raw)
    shown = "\n".join(lines).strip()
    found = [Entry(key, "system", "note", at, shown)] if shown else []
    for place, line in enumerate(lines, 1):
        for begin, tool in _DEEDS.items():
            if line.startswith(begin):
                done = line.removeprefix(begin)
                found.append(Entry(f"{key}#{place}", "assistant", "tool_call", at, done, tool=tool))
                found[-1].input = {_GIVEN[tool]: done}
    return found


_DEEDS: Final = {"Applied edit to ": "edit", "Commit ": "commit", "Running ": "run"}
_GIVEN: Final = {"edit": "path", "commit": "message", "run": "command"}


def _answer(key: str, at: int | None, raw: str) -> list[Entry]:
    said, thought = raw.strip(), ""
    if said.startswith("<thinking-content-"):
        thought, _, said = said.partition("</thinking-content-")
        thought, said = (piece.partition(">")[2].strip() for piece in (thought, said))
    found = [Entry(key, "assistant", "text", at, said)] if said else []
    if thought:
        found.insert(0, Entry(f"{key}#thoughts", "assistant", "reasoning", at, thought))
    return found


def _header(_key: str, _at: int | None, _raw: str) -> list[Entry]:
    return []


_READERS: Final = {"run": _header, "user": _typed, "tool": _console, "assistant": _answer}
_COUNT: Final = pattern(r"(\d{1,12}(?:\.\d{1,6})?)([kM]?) (sent|received|cache write|cache hit)")
_SCALE: Final = {"": 1, "k": 1_000, "M": 1_000_000}
_MODEL: Final = ("Model: ", "Main model: ")


def usage_of(line: str, key: str, at: int | None, model: str) -> Usage:
    """Read a line like `Tokens: 4.1k sent, 1.2k received. Cost: …`."""
    found = {what: round(float(size) * _SCALE[unit]) for size, unit, what in _COUNT.findall(line)}
    hit, written = found.get("cache hit", 0), found.get("cache write", 0)
    return Usage(
        key=key,
        at=at,
        model=model,
        input=max(0, found.get("sent", 0) - hit - written),
        output=found.get("received", 0),
        cache_read=hit,
        cache_write=written,
    )


# ---------------------------------------------------------------------- the source


class AiderParser:
    """Reads one run."""

    def __init__(self, log: Log, state: bytes | None) -> None:
        kept = msgspec.msgpack.decode(state, type=GathererState) if state else None
        self._gatherer = Gatherer(log, "Aider", kept)
        self._gatherer.facts.cwd = plain(str(Path(log.path).parent))

    def feed(self, record: Any, line: bytes, number: int) -> list[Entry]:
        """Take the next record."""
        del line, number
        fields = table(record)
        who = text(fields.get("who"))
        if who == "run":
            self._gatherer.session_id = text(fields.get("session")) or self._gatherer.session_id
        elif who == "tool":
            self._learn(fields)
        elif who not in _READERS:
            self._gatherer.wonder([strange_name(record, who)])
        return self._gatherer.keep(_entries(record))

    def _learn(self, fields: dict[str, Any]) -> None:
        facts, at = self._gatherer.facts, count(fields.get("at")) or None
        begin = f"{self._gatherer.session_id}:{text(fields.get('key'))}"
        for place, line in enumerate(_printed(text(fields.get("text")))):
            if line.startswith("Tokens: "):
                self._gatherer.spend(usage_of(line, f"{begin}:{place}", at, facts.model))
            elif line.startswith(_MODEL):
                named = line.partition(": ")[2].partition(" with ")[0]
                facts.model = named.partition(",")[0].strip() or facts.model
            elif line.startswith("Aider v"):
                facts.version = line.removeprefix("Aider v").strip()

    def harvest(self) -> Harvest:
        """Return what came up since the last call."""
        return self._gatherer.harvest()

    def state(self) -> bytes:
        """Return what a new parser needs to continue from here."""
        return msgspec.msgpack.encode(self._gatherer.kept())


class AiderSource:
    """The chat histories of Aider."""

    agent: Final = "aider"
    kind: Final = "document"

    def roots(self, user: UserHome) -> list[Path]:
        """Name the folders to look into, and the files that may be alone in theirs."""
        usual = [user.home / place for place in _PLACES]
        return [*_single_files(user), *dict.fromkeys([*usual, *user.roots, *_projects(user)])]

    def find(self, user: UserHome) -> Iterator[Log]:
        """Yield the histories; one that two names lead to is given once."""
        found: dict[str, Stamp] = {}
        for path in _single_files(user):
            _note(found, path, file_stamp(path, user, is_root=True))
        guessing = msgspec.structs.replace(user, tell=_if_ours(user))
        for place in _PLACES:
            found.update(_walk(str(user.home / place), guessing, _DEPTH, is_root=True))
        for root in user.roots:
            if not os.path.lexists(root):
                fix = "mount it, or take it out of [capture] roots"
                user.tell(UnreadablePlace(str(root), "it is not there", fix, is_ours=False))
            found.update(_walk(str(root), user, _NAMED_DEPTH, is_root=True))
        for folder in _projects(user):
            _note(found, folder / FILE_NAME, file_stamp(folder / FILE_NAME, guessing))
        seen: set[tuple[int, int]] = set()
        for name in sorted(found):
            stamp = found[name]
            if (stamp.device, stamp.inode) not in seen:
                seen.add((stamp.device, stamp.inode))
                yield Log(name, stamp, project_dir=plain(Path(name).parent.name))

    def parser(self, log: Log, state: bytes | None) -> AiderParser:
        """Make a parser for one run."""
        return AiderParser(log, state)

    def entries(self, record: Any, line: bytes, number: int) -> list[Entry]:
        """Read one record alone."""
        del line, number
        return _entries(record)

    def items(self, log: Log) -> Iterable[DocumentItem]:
        """Yield the runs in the history."""
        for run in runs_of(log.path, _content(log)):
            yield DocumentItem(run.session_id, blake2b(run.data, digest_size=16).hexdigest())

    def records(self, log: Log, item: str) -> Iterable[tuple[str, bytes]]:
        """Yield the header of a run, then its messages."""
        for run in runs_of(log.path, _content(log)):
            if run.session_id == item:
                for record in _records(run):
                    yield record.key, msgspec.json.encode(record)


def _content(log: Log) -> bytes:
    with LogFile(log.path, log.root) as file:
        return file.whole()


def _single_files(user: UserHome) -> list[Path]:
    named = user.env.get("AIDER_CHAT_HISTORY_FILE", "")
    path = user.home / named[2:] if named.startswith("~/") else Path(named)
    # A relative name means another file in each project: nothing that could be found here.
    return [user.home / FILE_NAME, *([path] if path.is_absolute() else [])]


def _note(found: dict[str, Stamp], path: Path, stamp: Stamp | None) -> None:
    if stamp is not None:
        found[str(path)] = stamp


def _projects(user: UserHome) -> list[Path]:
    """Name the folders in which agents worked, and the repositories that these are in.

    Aider writes into the repository's folder, wherever in it somebody works.
    """
    found: dict[str, None] = {}
    seen: set[str] = set()
    for folder in map(str, user.projects()):
        found[folder] = None
        place = folder
        while place not in seen:  # as for a folder before
            seen.add(place)
            if os.path.lexists(f"{place}/.git"):
                found[place] = None
                break
            place = os.path.dirname(place)  # noqa: PTH120  (a Path for each would cost more)
    return [Path(folder) for folder in found]


def _if_ours(user: UserHome) -> Callable[[UnreadablePlace], None]:
    """Tell of a closed folder among the user's own files if it is the user's own.

    Databases and containers keep folders there that belong to others; nobody ran Aider in them.
    """

    def tell(unseen: UnreadablePlace) -> None:
        try:
            ours = os.lstat(unseen.path).st_uid == os.geteuid()
        except OSError:
            ours = False
        user.tell(unseen._replace(is_ours=ours))

    return tell


def _walk(
    folder: str, user: UserHome, depth: int, *, is_root: bool = False
) -> Iterator[tuple[str, Stamp]]:
    for entry in listed(folder, user, is_root=is_root):
        if entry.name == FILE_NAME:
            stamp = entry_stamp(entry, user)
            if stamp is not None:
                yield entry.path, stamp
        elif depth > 0 and _may_hold_projects(entry):
            yield from _walk(entry.path, user, depth - 1)


def _may_hold_projects(entry: os.DirEntry[str]) -> bool:
    hidden = entry.name.startswith(".") or entry.name in _NOT_PROJECTS
    try:
        return not hidden and entry.is_dir(follow_symlinks=False)
    except OSError:
        return False  # it went away while we looked


SOURCE: Final = AiderSource()

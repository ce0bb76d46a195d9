"""An export as a ZIP file, a folder or its one JSON file, read conversation by conversation.

Nothing is unpacked to the disk. An export may be hundreds of megabytes on one line, and may be made
to hurt: entries, sizes and what a conversation takes in memory are bounded.
"""

import json
import lzma
import re
import zipfile
import zlib
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import IO, Any, ClassVar, Final, Literal

import msgspec

from threadkeep.base.compression import most_unpacked
from threadkeep.base.files import translate_os
from threadkeep.errors import Damaged, Invalid, NotFound, TooLarge
from threadkeep.knowledge.records import Entry
from threadkeep.sources.common import table
from threadkeep.sources.folders import stamp_of
from threadkeep.sources.format import Keyed, Read, RecordParser, encoded
from threadkeep.sources.records import DocumentItem, Log, Parser, UserHome

_CONVERSATIONS: Final = re.compile(r"(?:[^/]+/)?conversations(?:-\d{1,6})?\.json")
_MOST_ENTRIES: Final = 200_000
_LARGEST_LIST: Final = 64 * 1024 * 1024  # bytes of a ZIP file's list of entries
_LARGEST_CONVERSATION: Final = 64 * 1024 * 1024  # characters
_PIECE: Final = 1024 * 1024
_END_OF_ZIP: Final = b"PK\x05\x06"
_END_OF_ZIP64: Final = b"PK\x06\x06"
_ELSEWHERE: Final = 0xFFFFFFFF  # in the place of a size: the newer record has it
_TAIL: Final = 66 * 1024 + 200  # the longest comment of a ZIP file, and what is around it


# ---------------------------------------------------------------------- conversations of a file


def conversations(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the conversations of an export, one in memory at a time."""
    with _opened(path) as texts:
        for text in texts:
            for value in _values(text, path):
                if isinstance(value, dict):
                    yield value


@contextmanager
def _opened(path: Path) -> Iterator[Iterable[Iterator[str]]]:
    """Open an export; give the texts of its lists of conversations, in the order of their names."""
    try:
        if path.is_dir():
            named = sorted(one for one in path.iterdir() if _CONVERSATIONS.fullmatch(one.name))
            _need(named, path)
            yield (_plain(one) for one in named if not one.is_symlink())
        elif zipfile.is_zipfile(path):
            _refuse_long_lists(path)
            with zipfile.ZipFile(path) as archive:
                yield [_unpacked(archive, entry, path) for entry in _entries(archive, path)]
        else:
            yield [_plain(path)]
    except FileNotFoundError:
        raise NotFound(f"there is no file {path}", hint="give the export's ZIP file") from None
    except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, NotImplementedError, EOFError) as error:
        msg = f"{path} is not a complete ZIP file: {error}"
        raise Damaged(msg, hint="download the export again") from error
    except OSError as error:
        raise translate_os(error, path, "cannot read") from error


def _need(found: object, path: Path) -> None:
    if not found:
        msg = f"{path} holds no conversations.json"
        raise Invalid(msg, hint="give the ZIP file as the service sent it")


def _refuse_long_lists(path: Path) -> None:
    """Refuse a ZIP file whose list of entries would fill the memory before any is looked at."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL))
        tail = file.read()
    end, newer = tail.rfind(_END_OF_ZIP), tail.rfind(_END_OF_ZIP64)
    size = _number(tail[end + 12 : end + 16]) if end >= 0 else 0
    if size == _ELSEWHERE:
        size = _number(tail[newer + 40 : newer + 48]) if newer >= 0 else 0
    if size > _LARGEST_LIST:
        msg = f"{path} has a list of entries of {size:,} bytes"
        raise TooLarge(msg, hint="no service exports such a file; check where it came from")


def _number(data: bytes) -> int:
    return int.from_bytes(data, "little")


def _entries(archive: zipfile.ZipFile, path: Path) -> list[zipfile.ZipInfo]:
    listed = archive.infolist()
    if len(listed) > _MOST_ENTRIES:
        msg = f"{path} has {len(listed):,} entries"
        raise TooLarge(msg, hint="no service exports such a file; check where it came from")
    found = sorted(
        (entry for entry in listed if _CONVERSATIONS.fullmatch(entry.filename)),
        key=lambda entry: entry.filename,
    )
    _need(found, path)
    for entry in found:
        if entry.flag_bits & 1:
            raise Invalid(f"{entry.filename} in {path} is encrypted", hint="unpack it first")
    return found


def _unpacked(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, path: Path) -> Iterator[str]:
    with archive.open(entry) as file:
        yield from _decoded(file, path, most_unpacked(entry.compress_size))


def _plain(path: Path) -> Iterator[str]:
    with path.open("rb") as file:
        yield from _decoded(file, path, None)


def _decoded(file: IO[bytes], path: Path, most: int | None) -> Iterator[str]:
    """Yield the text of a stream; one that unpacks to far more than it should is refused."""
    decoder = getincrementaldecoder("utf-8-sig")("replace")
    taken = 0
    while data := file.read(_PIECE):
        taken += len(data)
        if most is not None and taken > most:
            msg = f"{path} unpacks to more than {most:,} bytes"
            raise TooLarge(msg, hint="unpack it by hand, and import its conversations.json")
        yield decoder.decode(data)
    yield decoder.decode(b"", final=True)


_decoder: Final = json.JSONDecoder(strict=False)
_BETWEEN: Final = " \t\r\n,["


def _values(text: Iterator[str], path: Path) -> Iterator[Any]:
    """Yield the values of one JSON list, as soon as each is whole.

    A value that is not whole is tried again when as much again has come: however long it is, it is
    gone through twice at most.
    """
    held, tried = "", 0
    for piece in text:
        held += piece
        if len(held) < 2 * tried:
            continue
        held = held.lstrip(_BETWEEN)
        while held and held[0] != "]":
            try:
                value, end = _decoder.raw_decode(held)
            except (ValueError, RecursionError):
                tried = len(held)
                break
            yield value
            held, tried = held[end:].lstrip(_BETWEEN), 0
        if len(held) > _LARGEST_CONVERSATION:
            msg = f"a conversation in {path} has more than {_LARGEST_CONVERSATION:,} characters"
            raise TooLarge(msg, hint="it was not read; what comes before it is kept")
    held = held.lstrip(_BETWEEN)
    if held and held[0] != "]":
        yield from _last(held, path)


def _last(held: str, path: Path) -> Iterator[Any]:
    try:
        while held and held[0] != "]":
            value, end = _decoder.raw_decode(held)
            yield value
            held = held[end:].lstrip(_BETWEEN)
    except (ValueError, RecursionError) as error:
        msg = f"{path} is not a complete list of conversations: {error}"
        raise Damaged(
            msg, hint="download the export again; what comes before it is kept"
        ) from error


# ---------------------------------------------------------------------- as a source


# The sessions of a conversation by name, each with its records.
Sessions = Iterable[tuple[str, list[Keyed]]]


class ExportSource(msgspec.Struct):
    """Conversations of one service; without a file it only reads what was imported before.

    A later export repeats everything: what did not change since is passed over, and what is gone
    from it stays.
    """

    agent: str
    label: str
    sessions: Callable[[dict[str, Any]], Sessions]
    read: Read
    file: Path | None = None
    current: dict[str, list[Keyed]] = {}  # of the conversation that is being imported

    kind: ClassVar[Literal["document"]] = "document"

    def of(self, file: Path) -> "ExportSource":
        """Return the source of one export."""
        return msgspec.structs.replace(self, file=file, current={})

    def roots(self, user: UserHome) -> list[Path]:
        """Name none: an export is handed over."""
        del user
        return []

    def find(self, user: UserHome) -> Iterator[Log]:
        """Yield the export; all exports of a service are one log, wherever their files lie."""
        del user
        if self.file is not None:
            yield Log(f"{self.agent} export", stamp_of(self.file.stat()))

    def parser(self, log: Log, state: bytes | None) -> Parser:
        """Make a parser that starts afresh."""
        del state
        return RecordParser(log, self.label, self.read, None)

    def entries(self, record: Any, line: bytes, number: int) -> list[Entry]:
        """Read one record alone."""
        del line
        return self.read(record, number).entries

    def items(self, log: Log) -> Iterable[DocumentItem]:
        """Yield the sessions; each can be read until the next is asked for."""
        del log
        for conversation in conversations(self.file) if self.file is not None else ():
            for name, records in self.sessions(table(conversation)):
                lines = list(encoded(records))
                self.current = {name: [(key, line) for key, line in lines]}
                mark = blake2b(b"\n".join(line for _, line in lines), digest_size=16)
                yield DocumentItem(name, mark.hexdigest())

    def records(self, log: Log, item: str) -> Iterable[tuple[str, bytes]]:
        """Yield the records of the session that was named last."""
        del log
        return encoded(self.current.get(item, []))

"""The rows of a session as JSONL, JSON or CSV: pure functions from rows to pieces of text.

JSONL is the canonical format and JSON its nested twin; both give every row back exactly. CSV is
for spreadsheets: one line per part, with the columns of its session and message before it.
"""

import csv
import io
from collections.abc import Iterable, Iterator
from typing import Any

from threadkeep.base import json
from threadkeep.base.text import join_pairs
from threadkeep.chat.raw_rows import SessionRows, others_of
from threadkeep.chat.records import Json
from threadkeep.chat.rows import CHUNK, COLUMNS, MESSAGE, PART, SESSION

Sessions = Iterable[SessionRows]

# A spreadsheet takes a cell that begins with one of these for a formula. The apostrophe in front
# keeps it a text; a text that begins with an apostrophe gets one too, so that taking one away
# always gives the text back.
_GUARDED = tuple("=+-@\t\r\n'＝＋－＠")
_OTHERS = "other_columns"


def jsonl(sessions: Sessions) -> Iterator[str]:
    """Write one record a line: the session, then each message followed by its parts.

    Chunks of unknown types follow the parts of their message.
    """
    for rows in sessions:
        yield _record(SESSION, rows.session)
        for message, parts in rows.messages:
            yield _record(MESSAGE, message)
            for part in parts:
                yield _record(PART, part)
            for chunk in rows.chunks.get(message["id"], ()):
                yield _record(CHUNK, chunk)


def _record(kind: str, row: Json) -> str:
    return f'{{"type":"{kind}","data":{json.encode(row)}}}\n'


def json_document(sessions: Sessions) -> Iterator[str]:
    """Write one session as a document."""
    for rows in sessions:
        yield from _document(rows)
        yield "\n"


def json_array(sessions: Sessions) -> Iterator[str]:
    """Write sessions as an array of documents."""
    before = "[\n"
    for rows in sessions:
        yield before
        yield from _document(rows)
        before = ",\n"
    yield "\n]\n" if before == ",\n" else "[]\n"


def _document(rows: SessionRows) -> Iterator[str]:
    yield f'{{"session":{json.encode(rows.session)},\n"messages":['
    before = "\n"
    for message, parts in rows.messages:
        yield f'{before}{{"message":{json.encode(message)},"parts":['
        before = "\n"
        for part in parts:
            yield before + json.encode(part)
            before = ",\n"
        chunks = rows.chunks.get(message["id"])
        yield f'],"chunks":{json.encode(chunks)}}}' if chunks else "]}"
        before = ",\n"
    yield "]}"


# ---------------------------------------------------------------------- CSV


def csv_table(sessions: Sessions) -> Iterator[str]:
    """Write one line per part; a message without parts, or a session without messages, has one.

    Columns that we do not know are together in one JSON cell, so the header is always the same.
    """
    yield _csv_line(
        [
            *(f"session.{name}" for name in (*COLUMNS[SESSION], _OTHERS)),
            *(f"message.{name}" for name in (*COLUMNS[MESSAGE], _OTHERS)),
            *(*COLUMNS[PART], _OTHERS),
        ]
    )
    for rows in sessions:
        session = _cells(SESSION, rows.session)
        for message, parts in rows.messages or [({}, [])]:
            about = [*session, *_cells(MESSAGE, message)]
            chunks = [_as_part(row) for row in rows.chunks.get(message.get("id", ""), ())]
            for part in [*parts, *chunks] or [{}]:
                yield _csv_line([*about, *_cells(PART, part)])


def _as_part(chunk: Json) -> Json:
    """Put a chunk of an unknown type into the columns of a part; it has no id and no place."""
    return {**chunk, "type": json.decode(chunk["data_json"]).get("type")}


def _cells(kind: str, row: Json) -> list[str]:
    others = others_of(kind, row)
    values = [row.get(name) for name in COLUMNS[kind]]
    return [_cell(value) for value in (*values, json.encode(others) if others else None)]


def _cell(value: Any) -> str:
    if not isinstance(value, str):
        return "" if value is None else json.encode(value)
    # Half of a character cannot be written as UTF-8: it shows as its number.
    text = join_pairs(value).encode("utf-8", "backslashreplace").decode()
    return f"'{text}" if text.startswith(_GUARDED) else text


def _csv_line(cells: list[str]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer).writerow(cells)
    return buffer.getvalue()

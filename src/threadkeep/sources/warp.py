"""Warp: a database that keeps what was asked, when, where and of which model; no answers."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from threadkeep.base.sqlite.foreign import ForeignDatabase
from threadkeep.knowledge.records import Entry, SessionFacts
from threadkeep.sources.blocks import moment, spoken
from threadkeep.sources.common import numbered, rows, strange_name, table, text
from threadkeep.sources.format import Databases, Keyed, Told, decoded, read_rows
from threadkeep.sources.places import place

_FOLDERS: Final = ("warp-terminal", "warp-terminal-preview")
_GROUP: Final = "~/Library/Group Containers/2BBY89MBSN.dev.warp/Library/Application Support"
_ASKED: Final = ("exchange_id", "start_ts", "input", "model_id", "working_directory")


def _sessions(database: ForeignDatabase) -> Iterator[tuple[str, object]]:
    columns = ("conversation_id", "exchange_id", "output_status")
    asked: dict[str, list[object]] = {}
    for row in read_rows(database, "ai_queries", columns, "ORDER BY start_ts"):
        asked.setdefault(text(row.get("conversation_id")), []).append(row)
    yield from ((name, told) for name, told in asked.items() if name)


def _split(database: ForeignDatabase, session: str, _path: Path) -> Iterator[Keyed]:
    rest = "WHERE conversation_id = ? ORDER BY start_ts"
    for row in read_rows(database, "ai_queries", _ASKED, rest, (session,)):
        own = text(row.get("exchange_id"))
        yield own, {**row, "type": "query", "input": decoded(row.get("input"))}


def _read(record: Any, number: int) -> Told:
    fields = table(record)
    if fields.get("type") != "query":
        return Told(unknown=[strange_name(record, fields.get("type"))])
    said = text(fields.get("start_ts")).replace(" ", "T")
    at = moment(f"{said}Z" if said and not said.endswith("Z") else said)
    told = Told(
        facts=SessionFacts(
            cwd=text(fields.get("working_directory")), model=text(fields.get("model_id"))
        )
    )
    for one in map(table, rows(fields.get("input"))):
        told.entries += _input(one, at, told.unknown)
    numbered(told.entries, text(fields.get("exchange_id")) or str(number))
    return told


def _input(one: dict[str, Any], at: int | None, strange: list[str]) -> list[Entry]:
    for kind, asked in one.items():
        if kind == "Query":
            return spoken("user", "prompt", text(table(asked).get("text")), at)
        if kind != "ActionResult":  # what a tool gave back is not kept as a text
            strange.append(strange_name(one, "input", kind))
    return []


SOURCE: Final = Databases(
    agent="warp",
    label="Warp",
    places=(
        place(
            [
                *(f"{{state}}/{name}" for name in _FOLDERS),
                *(f"{_GROUP}/dev.warp.Warp-{name}" for name in ("Stable", "Preview")),
                "{local}/warp/Warp/data",
            ],
            "warp.sqlite",
        ),
    ),
    sessions=_sessions,
    split=_split,
    read=_read,
)

"""What a state file takes on disk, and where it goes."""

from collections.abc import Iterable
from typing import Final

from threadkeep.base.tx import Row, Tx
from threadkeep.state.context import Json, StateContext

_LARGEST: Final = 10
_GROUPS: Final = ("messages", "sessions", "indexes", "full_text", "side_tables", "other")
_FULL_TEXT: Final = ("messages_fts", "tk_search")
_MESSAGE_PARTS: Final = (
    *("content", "tool_calls", "reasoning", "reasoning_details"),
    "codex_reasoning_items",
)
_SESSION_PARTS: Final = ("system_prompt", "model_config")


def size_report(ctx: StateContext, tx: Tx) -> Json:
    """Measure a store: bytes by kind of data and by column, the largest sessions, counts.

    Where SQLite cannot tell the pages of each table, `measured` is False: `by_group` is then
    estimated from the lengths of the values, and `indexes` is what remains.
    """
    page, pages, free = (_pragma(tx, n) for n in ("page_size", "page_count", "freelist_count"))
    messages = tx.one("payload_by_column") or (0,) * 6
    sessions = tx.one("session_payload") or (0,) * 3
    payload = dict(zip(_MESSAGE_PARTS, messages[1:], strict=True))
    payload |= dict(zip(_SESSION_PARTS, sessions[1:], strict=True))
    measured = bool(tx.value("has_dbstat"))
    groups = _measured(tx) if measured else _estimated(ctx, tx, (pages - free) * page, payload)
    return {
        "path": str(ctx.db.path),
        "file_bytes": pages * page,
        "wal_bytes": ctx.db.wal.size(),
        "free_bytes": free * page,
        "measured": measured,
        "by_group": groups,
        "payload_bytes": payload,
        "counts": {"sessions": sessions[0], "messages": messages[0], **_side_counts(ctx, tx)},
        "largest": [_largest(row) for row in tx.all("largest_sessions", {"limit": _LARGEST})],
    }


def _pragma(tx: Tx, name: str) -> int:
    return int(tx.execute(f"PRAGMA {name}").fetchone()[0])


def _side_counts(ctx: StateContext, tx: Tx) -> dict[str, int]:
    if not ctx.side:
        return {}
    blobs = tx.one("blob_sizes") or (0, 0, 0)
    rewound, offloaded = tx.one("side_counts") or (0, 0)
    return {"rewound_messages": rewound, "offloaded_values": offloaded, "blobs": blobs[0]}


def _largest(row: Row) -> Json:
    return dict(zip(("id", "title", "source", "messages", "bytes"), row, strict=True))


# ---------------------------------------------------------------------- groups


def _measured(tx: Tx) -> dict[str, int]:
    return _sums((_group(str(row[1]), str(row[2])), int(row[3])) for row in tx.all("pages_by_tree"))


def _group(table: str, kind: str) -> str:
    if table.startswith(_FULL_TEXT):
        return "full_text"
    if table.startswith("tk_"):
        return "side_tables"
    if table in ("messages", "sessions"):
        return "indexes" if kind == "index" else table
    return "other"


def _sums(sizes: Iterable[tuple[str, int]]) -> dict[str, int]:
    sums = dict.fromkeys(_GROUPS, 0)
    for group, size in sizes:
        sums[group] += size
    return sums


def _estimated(ctx: StateContext, tx: Tx, used: int, payload: dict[str, int]) -> dict[str, int]:
    known = {
        "messages": sum(payload[name] for name in _MESSAGE_PARTS),
        "sessions": sum(payload[name] for name in _SESSION_PARTS),
        "full_text": _text_index(ctx, tx),
        "side_tables": int((tx.one("blob_sizes") or (0, 0, 0))[2]) if ctx.side else 0,
    }
    return _sums([*known.items(), ("indexes", max(0, used - sum(known.values())))])


def _text_index(ctx: StateContext, tx: Tx) -> int:
    has_contracts = tx.one("has_text_index") is not None
    return (int(tx.value("text_index_bytes")) if has_contracts else 0) + (
        int(tx.value("side_index_bytes")) if ctx.side else 0
    )

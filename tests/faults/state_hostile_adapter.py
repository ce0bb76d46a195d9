"""Hostile values for every field of the session store (see hostile_protocol.py)."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

REPO = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPO / "src"), str(REPO)]

from tests.faults.hostile_protocol import Target, one_field_will_do, serve  # noqa: E402
from threadkeep.state.session_db import SessionDB  # noqa: E402

TEXTS = ("content", "tool_name", "tool_call_id", "finish_reason", "reasoning")
ACCOUNTS = ("model", "billing_provider", "billing_base_url", "billing_mode", "cost_status")
DETAILS = ("tool_calls", "reasoning_details", "codex_reasoning_items")


def last(db: SessionDB, session: str) -> dict[str, Any]:
    return db.get_messages(session, limit=1, latest=True)[0]


# Each gives back, one after the other, what the fields of its kind made of the value. ----------


def texts(db: SessionDB, value: str) -> Iterator[Any]:
    if one_field_will_do(value):
        db.create_session("t", "cli")
        db.append_message("t", "user", value)
        yield last(db, "t")["content"]
        return
    db.create_session("s", value, value, {"v": value}, value, value)
    session = db.get_session("s") or {}
    yield from (session[field] for field in ("source", "model", "system_prompt", "user_id"))
    yield json.loads(session["model_config"])["v"]
    db.create_session("t", "cli")  # each change of a session rewrites its row, prompt and all
    fields: dict[str, Any] = dict.fromkeys(TEXTS, value)
    db.append_message("t", "assistant", **fields, tool_calls=[value])
    message = last(db, "t")
    yield from (message[field] for field in TEXTS)
    yield message["tool_calls"][0]
    turn = db.get_messages_as_conversation("t")[-1]
    yield turn["content"]
    yield turn.get("reasoning", "")
    db.append_messages("t", [{"role": "user", "content": [{"type": "text", "text": value}]}])
    yield last(db, "t")["content"][0]["text"]
    db.update_system_prompt("t", value)
    db.end_session("t", value)
    ended = db.get_session("t") or {}
    yield ended["system_prompt"]
    yield ended["end_reason"]
    yield from accounted(db, value)
    titled(db, value)
    db.search_messages(value)


def accounted(db: SessionDB, value: str) -> Iterator[Any]:
    """Names of providers and models; an empty one is as good as none."""
    db.create_session("u", "cli")
    names: dict[str, Any] = dict.fromkeys(ACCOUNTS, value)
    db.update_token_counts("u", 1, 1, **names)
    session = db.get_session("u") or {}
    yield from (session[field] or "" for field in ACCOUNTS)
    db.usage(by="model")


def titled(db: SessionDB, value: str) -> None:
    """A title is cleaned or refused with ValueError, as the contract wants; it never breaks."""
    try:
        db.set_session_title("u", value)
    except ValueError:
        return
    db.get_next_title_in_lineage(value)
    db.resolve_session_by_title(value)


def ids(db: SessionDB, value: str) -> Iterator[Any]:
    yield db.create_session(value, "cli")
    yield (db.get_session(value) or {})["id"]
    first = db.append_message(value, "user", "x", idempotency_key=f"k{value}")
    again = db.append_message(value, "user", "x", idempotency_key=f"k{value}")
    yield last(db, value)["session_id"] if first == again else "stored twice"
    yield db.resolve_session_id(value)
    db.create_session("child", "cli", parent_session_id=value, relation="branch")
    yield (db.get_session("child") or {})["parent_session_id"]
    db.set_session_pinned(value)
    db.list_sessions_rich()
    yield (db.export_session(value) or {})["id"]


def values(db: SessionDB, value: Any) -> Iterator[Any]:
    db.create_session("s", "cli", model_config={"v": value})
    yield json.loads((db.get_session("s") or {})["model_config"])["v"]
    details: dict[str, Any] = {field: [value] for field in DETAILS}
    db.append_message("s", "assistant", value, **details)
    message = last(db, "s")
    yield message["content"]
    yield message["tool_calls"][0]
    turn = db.get_messages_as_conversation("s")[-1]
    yield from (turn[field][0] for field in DETAILS)


def lines(db: SessionDB, value: str) -> Iterator[Any]:
    db.create_session("s", "cli")
    db.append_message("s", "assistant", value, tool_calls=value)
    message = last(db, "s")
    yield message["content"]
    yield message["tool_calls"]


def queries(db: SessionDB, value: str) -> Iterator[Any]:
    db.ensure_session("s")
    db.append_message("s", "user", "hello-world 日本語 content rank")
    for sort in ("rank", "newest", "oldest"):
        db.search_messages(value, sort=sort)
    db.search_messages(value, [value], [value], [value])
    db.resolve_session_id(value)
    db.resolve_session_by_title(value)
    db.list_sessions_rich(source=value)
    yield value


def names(db: SessionDB, value: str) -> Iterator[Any]:
    """No text of a caller becomes a file's name: not even that of the session in a backup."""
    db.create_session(value, "cli")
    yield str(db.backup())


SLOTS: dict[str, Callable[[SessionDB, Any], Iterator[Any]]] = {
    "text": texts,
    "id": ids,
    "json": values,
    "jsontext": lines,
    "query": queries,
    "filename": names,
}


def clear(db: SessionDB) -> None:
    for session in db.search_sessions(limit=-1):
        db.delete_session(session["id"])


if __name__ == "__main__":
    serve(Target("session store", SessionDB, SLOTS, SessionDB.check, clear))

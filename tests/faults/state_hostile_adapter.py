"""Hostile values for every field of the session store, one JSON object per line.

The protocol is that of hostile_adapter.py: a value goes through every field it could stand in,
every field must give it back the same, and after each value the store must pass its own check.
"""

import argparse
import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

REPO = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPO / "src"), str(REPO)]

from tests.faults.chat_adapter import report_bug  # noqa: E402
from threadkeep.errors import ThreadkeepError  # noqa: E402
from threadkeep.state.session_db import SessionDB  # noqa: E402

TEXTS = ("content", "tool_name", "tool_call_id", "finish_reason", "reasoning")
ACCOUNTS = ("model", "billing_provider", "billing_base_url", "billing_mode", "cost_status")
DETAILS = ("tool_calls", "reasoning_details", "codex_reasoning_items")


def last(db: SessionDB, session: str) -> dict[str, Any]:
    return db.get_messages(session, 1, latest=True)[0]


# Each gives back, one after the other, what the fields of its kind made of the value. ----------


def texts(db: SessionDB, value: str) -> Iterator[Any]:
    db.create_session("s", value, value, {"v": value}, value, value)
    session = db.get_session("s") or {}
    yield from (session[field] for field in ("source", "model", "system_prompt", "user_id"))
    yield json.loads(session["model_config"])["v"]
    db.create_session("t", "cli")  # each change of a session writes its row anew, prompt and all
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


def answer(db: SessionDB, slot: str, value: Any) -> dict[str, Any]:
    """Pass a value through every field of a slot; the first that changed it is the answer."""
    try:
        given = list(SLOTS[slot](db, value))
    except ThreadkeepError as error:
        return {"ok": False, "error": f"{type(error).__name__}: {error}"[:200]}
    problems = db.check()
    if problems:
        return {"ok": True, "back": f"the store fails its check: {problems[0]}"}
    changed = [back for back in given if dumped(back) != dumped(value)]
    return {"ok": True, "back": shown(changed[0]) if changed else given[0]}


def dumped(value: Any) -> str:
    return json.dumps(value, default=repr)


def shown(value: Any) -> Any:
    """Make what cannot be told in JSON tellable; it is a change in any case."""
    return repr(value) if isinstance(value, bytes) else value


def clear(db: SessionDB) -> None:
    for session in db.search_sessions(limit=-1):
        db.delete_session(session["id"])


def main() -> None:
    parser = argparse.ArgumentParser(description="Hostile values for the session store.")
    parser.add_argument("--db", required=True)
    parser.add_argument("--root", required=True)
    options = parser.parse_args()
    inside = SessionDB(Path(options.root) / "inside.db")
    with SessionDB(options.db) as db, inside:
        for line in sys.stdin:
            asked = json.loads(line)
            used = inside if asked["slot"] == "filename" else db
            said = answer(used, asked["slot"], asked["value"])
            os.write(1, json.dumps({"id": asked["id"], **said}).encode() + b"\n")
            clear(used)


if __name__ == "__main__":
    try:
        main()
    except Exception:  # noqa: BLE001
        report_bug(traceback.format_exc())

"""Reading a session back as AI SDK messages: the transcript, the model's view, or everything."""

from collections import defaultdict
from operator import itemgetter
from typing import Any, Literal

from threadkeep.base.text import from_sql
from threadkeep.base.tx import Tx
from threadkeep.chat.journal import unfinished
from threadkeep.chat.records import Json, Message, message_of, read_object
from threadkeep.chat.wire.protocol import normalize_part
from threadkeep.errors import Invalid

View = Literal["transcript", "model", "all"]
VIEWS = ("transcript", "model", "all")
COMPACTION = "data-compaction"
_POSITION = itemgetter(1)  # of a row of the query session_part_data


def read_part(data_json: str | bytes, kind: str) -> Json:
    """Decode a part; older writers' field names become the AI SDK's."""
    part = read_object(data_json)
    if isinstance(data_json, bytes) or "_" in data_json:
        # Every old name has an underscore: most parts are spared a copy, a fifth of a load.
        part = normalize_part(part)
    if kind == COMPACTION and "data" not in part:
        # Older writers put the payload itself into the column.
        part = {"type": COMPACTION, "data": {k: v for k, v in part.items() if k != "type"}}
    part.setdefault("type", kind)
    return part


def ui_message(message: Message, parts: list[Json]) -> Json:
    """Put a message and its parts into the AI SDK's shape."""
    shaped: Json = {"id": message.id, "role": message.role, "parts": parts}
    if message.metadata:
        shaped["metadata"] = message.metadata
    return shaped


def load(tx: Tx, session_id: str) -> list[tuple[Message, Json]]:
    """Read every message of a session in order, exact up to the last committed chunk."""
    rows = tx.all("session_messages", {"session_id": session_id})
    parts = _parts_by_message(tx, session_id)
    recordings = {
        from_sql(row[0]): row[4] for row in tx.all("session_recordings", {"session_id": session_id})
    }
    loaded = []
    for row in rows:
        message = message_of(row)
        shaped = ui_message(message, parts.get(row[0], []))
        if message.id in recordings:
            exact = unfinished(tx, session_id, shaped, recordings[message.id])
            shaped["parts"] = exact.state.message()["parts"]
        loaded.append((message, shaped))
    return loaded


def _parts_by_message(tx: Tx, session_id: str) -> dict[str | bytes, list[Json]]:
    """Return the parts of each message in order; the keys are the ids as the database has them."""
    rows = tx.all("session_part_data", {"session_id": session_id})
    rows.sort(key=_POSITION)
    parts: defaultdict[str | bytes, list[Json]] = defaultdict(list)
    for message_id, _, kind, data_json in rows:
        parts[message_id].append(read_part(data_json, from_sql(kind)))
    return parts


def stored_message(tx: Tx, message: Message) -> Json:
    """Read one message as its rows have it: behind in a part that is growing."""
    rows = tx.all("message_parts", {"message_id": message.id})
    return ui_message(message, [read_part(row[5], from_sql(row[4])) for row in rows])


def load_message(tx: Tx, message: Message) -> Json:
    """Read one message, exact up to the last committed chunk."""
    shaped = stored_message(tx, message)
    recording = tx.one("get_recording", {"message_id": message.id})
    if recording is not None:
        exact = unfinished(tx, message.session_id, shaped, recording[4])
        shaped["parts"] = exact.state.message()["parts"]
    return shaped


def check_view(view: str) -> None:
    """Refuse a view that does not exist."""
    if view not in VIEWS:
        msg = f"there is no view {view!r}"
        raise Invalid(msg, hint="use one of: " + ", ".join(VIEWS))


def select(loaded: list[tuple[Message, Json]], view: str) -> list[Json]:
    """Choose what a view shows of a session's messages."""
    if view == "all":
        return [shaped for _, shaped in loaded]
    shown = [(message, shaped) for message, shaped in loaded if counts(message)]
    if view == "transcript":
        return [shaped for _, shaped in shown]
    return model_view([shaped for _, shaped in shown])


def counts(message: Message) -> bool:
    """A hidden message and one that queued are not part of the conversation."""
    return not message.hidden and not message.queued


def compaction_of(shaped: Json) -> Json | None:
    """Return the payload of a compaction marker, None for any other message."""
    for part in shaped["parts"]:
        if part.get("type") == COMPACTION and isinstance(part.get("data"), dict):
            payload: Json = part["data"]
            return payload
    return None


def model_start(shown: list[Json]) -> tuple[int, int] | None:
    """Find the newest compaction marker and where the verbatim tail before it begins.

    Gives (first message of the tail, marker), or None when nothing was compacted.
    """
    for place in range(len(shown) - 1, -1, -1):
        payload = compaction_of(shown[place])
        if payload is not None:
            ids = [message["id"] for message in shown[:place]]
            start = payload.get("tail_start_id")
            known = isinstance(start, str) and start in ids
            return (ids.index(start) if known else place), place
    return None


def model_view(shown: list[Json]) -> list[Json]:
    """Resolve compaction at read time: the summary, the verbatim tail, and what came after.

    The summary is a message of the user's role: providers want the conversation to begin with
    one. Older markers inside the tail are left out; only the newest counts.
    """
    found = model_start(shown)
    if found is None:
        return shown
    start, place = found
    marker = shown[place]
    payload: dict[str, Any] = compaction_of(marker) or {}
    summary: Json = {
        "id": marker["id"],
        "role": "user",
        "parts": [{"type": "text", "text": str(payload.get("summary", ""))}],
        "metadata": {"compaction": True},
    }
    tail = [message for message in shown[start:place] if compaction_of(message) is None]
    return [summary, *tail, *shown[place + 1 :]]

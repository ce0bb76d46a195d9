"""Reading a session back as AI SDK messages: the transcript, the model's view, or everything."""

from itertools import groupby, islice
from operator import eq, itemgetter
from typing import Any, Literal, NamedTuple

from threadkeep.base.text import from_sql
from threadkeep.base.tx import Row, Tx
from threadkeep.chat.journal import unfinished
from threadkeep.chat.records import Json, Message, is_noted_aside, read_object
from threadkeep.chat.wire.protocol import normalize_part
from threadkeep.errors import Invalid

View = Literal["transcript", "model", "all"]
VIEWS = ("transcript", "model", "all")
COMPACTION = "data-compaction"
# Of a row of session_part_data, and of one of session_message_data.
_POSITION, _TIME = itemgetter(1), itemgetter(4)


def read_part(data_json: str | bytes, kind: str | bytes) -> Json:
    """Decode a part; older writers' field names become the AI SDK's."""
    part = read_object(data_json)
    # Every old name has an underscore: most parts are spared a copy, a fifth of a load.
    if data_json.__class__ is bytes or "_" in data_json:
        part = normalize_part(part)
    if kind == COMPACTION and "data" not in part:
        # Older writers put the payload itself into the column.
        part = {"type": COMPACTION, "data": {k: v for k, v in part.items() if k != "type"}}
    if "type" not in part:
        part["type"] = from_sql(kind)
    return part


def ui_message(message: Message, parts: list[Json]) -> Json:
    """Put a message and its parts into the AI SDK's shape."""
    shaped: Json = {"id": message.id, "role": message.role, "parts": parts}
    if message.metadata:
        shaped["metadata"] = message.metadata
    return shaped


class Loaded(NamedTuple):
    """The messages of a session in order, and the ids of those that are hidden or queued."""

    messages: list[Json]
    aside: set[str]

    def conversation(self) -> list[Json]:
        """Leave out what is aside."""
        if not self.aside:
            return self.messages
        return [message for message in self.messages if message["id"] not in self.aside]


def load(tx: Tx, session_id: str) -> Loaded:
    """Read every message of a session in order, exact up to the last committed chunk."""
    rows = tx.all("session_message_data", {"session_id": session_id})
    parts = _parts_by_message(tx, session_id)
    recordings = {
        from_sql(row[0]): row[4] for row in tx.all("session_recordings", {"session_id": session_id})
    }
    messages, aside = [], set()
    for raw_id, raw_role, metadata_json, hidden_at, _ in _by_id_where_equal(rows):
        message_id = raw_id if raw_id.__class__ is str else from_sql(raw_id)
        role = raw_role if raw_role.__class__ is str else from_sql(raw_role)
        shaped: Json = {"id": message_id, "role": role, "parts": parts.get(raw_id) or []}
        if hidden_at is not None:
            aside.add(message_id)
        if metadata_json != "{}" and (metadata := read_object(metadata_json)):
            shaped["metadata"] = metadata
            if ("hidden_at" in metadata or "queued_at" in metadata) and is_noted_aside(
                role, metadata
            ):
                aside.add(message_id)
        if message_id in recordings:
            exact = unfinished(tx, session_id, shaped, recordings[message_id])
            shaped["parts"] = exact.state.message()["parts"]
        messages.append(shaped)
    return Loaded(messages, aside)


def _by_id_where_equal(rows: list[Row]) -> list[Row]:
    """Sort the messages of one time by their ids, as the query `session_messages` does.

    Our own never have the same time, and SQLite takes a quarter of a load to sort for the case.
    """
    times = [row[4] for row in rows]
    if not any(map(eq, times, islice(times, 1, None))):
        return rows
    return [row for _, equal in groupby(rows, _TIME) for row in sorted(equal, key=_bytewise)]


def _bytewise(row: Row) -> tuple[bool, bytes]:
    """Compare ids as SQLite does: by their bytes, and blobs behind texts."""
    raw = row[0]
    return (True, raw) if isinstance(raw, bytes) else (False, raw.encode())


def _parts_by_message(tx: Tx, session_id: str) -> dict[str | bytes, list[Json]]:
    """Return the parts of each message in order; the keys are the ids as the database has them."""
    parts: dict[str | bytes, list[Json]] = {}
    rows = tx.all("session_part_data", {"session_id": session_id})
    rows.sort(key=_POSITION)
    for message_id, _, kind, data_json in rows:
        part = read_part(data_json, kind)
        known = parts.get(message_id)
        if known is None:
            parts[message_id] = [part]
        else:
            known.append(part)
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


def select(loaded: Loaded, view: str) -> list[Json]:
    """Choose what a view shows of a session's messages."""
    if view == "all":
        return loaded.messages
    shown = loaded.conversation()
    return shown if view == "transcript" else model_view(shown)


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

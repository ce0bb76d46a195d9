"""What people put on sessions and messages: stars, tags, notes. Capture leaves them be."""

import re
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Final, NamedTuple

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from threadkeep.base.tx import Row, Tx
from threadkeep.base.verbs import Name
from threadkeep.errors import Invalid, NotFound
from threadkeep.knowledge.records import CapturedSession
from threadkeep.knowledge.results import NO_LABELS, Labels, Window
from threadkeep.knowledge.sessions import find_session

TagName = Annotated[str, Meta(min_length=1, max_length=40)]
Note = Annotated[str, Meta(max_length=4000)]

_TAG: Final = re.compile(r"[^\s,\"'\\<>]{1,40}")
_MESSAGE: Final = re.compile(r"message:([0-9]{1,18})")
_MOST: Final = 10_000


class Labelled(msgspec.Struct, frozen=True):
    """A session or message with something put on it."""

    ref: str  # of a session agent:id, of a message message:12
    session: str  # the session that it is, or is in
    key: str  # of the message; empty for the session itself
    at: int  # when something was last put on it
    labels: Labels


class TagCount(msgspec.Struct, frozen=True):
    """A tag, and on how many sessions and messages it is."""

    tag: str
    count: int


class _Place(NamedTuple):
    """What is labelled: a session, or the message of it that has a key."""

    harness: str
    session_id: str
    key: str = ""


def put_labels(
    tx: Tx,
    ref: Name,
    *,
    now: int,
    star: bool | None = None,
    add: Sequence[TagName] = (),
    remove: Sequence[TagName] = (),
    note: Note | None = None,
) -> Labels:
    """Star a session or message, add and remove tags, write a note; an empty note takes it away."""
    place = _place_of(tx, ref)
    values = {**place._asdict(), "now": now}
    for tag in map(tag_of, remove):
        tx.run("take_label", {**place._asdict(), "what": "tag", "value": tag})
    for tag in map(tag_of, add):
        tx.run("put_label", {**values, "what": "tag", "value": tag})
    if star is not None:
        step = "put_label" if star else "take_label"
        given = values if star else place._asdict()
        tx.run(step, {**given, "what": "star", "value": ""})
    if note is not None:
        tx.run("take_note", place._asdict())
        if note.strip():
            tx.run("put_label", {**values, "what": "note", "value": note.strip()})
    return labels_of_session(tx, place.harness, place.session_id).get(place.key, NO_LABELS)


def tag_of(text: str) -> str:
    """Return a tag as it is kept: in lower case, without a `#`; what is no tag is refused."""
    tag = text.strip().removeprefix("#").casefold()
    if not _TAG.fullmatch(tag):
        hint = "use up to 40 letters, digits and '-', '_', '.', ':' or '/'"
        raise Invalid(f"{text[:40]!r} can't be a tag", hint=hint)
    return tag


def labels_of(tx: Tx, ref: Name) -> Labels:
    """Return the star, tags and note of a session or message."""
    place = _place_of(tx, ref)
    return labels_of_session(tx, place.harness, place.session_id).get(place.key, NO_LABELS)


def _place_of(tx: Tx, ref: str) -> _Place:
    message = _MESSAGE.fullmatch(ref)
    if message is None:
        session = find_session(tx, ref)
        return _Place(session.agent, session.session_id)
    row = tx.one("labelled_entry", {"id": int(message[1])})
    if row is None:
        raise NotFound(f"there is no {ref}", hint="it may have been forgotten, or have changed")
    return _Place(*row)


def labels_of_session(tx: Tx, agent: str, session_id: str) -> dict[str, Labels]:
    """Return what was put on a session and on its messages, by key; the session's own is empty."""
    if "tk_labels" not in tx.tables():
        return {}
    rows = tx.all("labels_of_session", {"harness": agent, "session_id": session_id})
    return _grouped(rows)


def with_labels(tx: Tx, session: CapturedSession, window: Window) -> Window:
    """Add what was put on the messages of a window."""
    found = labels_of_session(tx, session.agent, session.session_id)
    if not found.keys() - {""}:
        return window
    messages = (replace(one, labels=found.get(one.key, NO_LABELS)) for one in window.messages)
    return replace(window, messages=tuple(messages))


def labels_of_sessions(tx: Tx, numbers: Iterable[int]) -> dict[int, Labels]:
    """Return what was put on some sessions themselves, by their numbers."""
    if "tk_labels" not in tx.tables():
        return {}
    values = {"ids": msgspec.json.encode(list(numbers)).decode()}
    return _grouped(tx.all("labels_of_sessions", values))


def _grouped(rows: Iterable[Row]) -> dict[Any, Labels]:
    found: dict[Any, dict[str, list[str]]] = {}
    for key, what, value in rows:
        found.setdefault(key, {}).setdefault(what, []).append(value)
    return {
        key: Labels("star" in one, tuple(one.get("tag", ())), "\n".join(one.get("note", ())))
        for key, one in found.items()
    }


def labelled(tx: Tx) -> list[Labelled]:
    """List what has a star, a tag or a note, what was labelled last first."""
    if "tk_labels" not in tx.tables():
        return []
    found = []
    for harness, session_id, key, at, _ in tx.all("labels_latest", {"limit": _MOST}):
        place = _Place(harness, session_id, key)
        session = f"{harness}:{session_id}"
        entry = tx.value("entry_of_label", place._asdict()) if key else None
        if key and entry is None:  # its log changed, and has no such message now
            continue
        labels = labels_of_session(tx, harness, session_id).get(key, NO_LABELS)
        ref = f"message:{entry}" if key else session
        found.append(Labelled(ref, session, key, at, labels))
    return found


def tags(tx: Tx) -> list[TagCount]:
    """List the tags, the most used first."""
    if "tk_labels" not in tx.tables():
        return []
    return [TagCount(*row) for row in tx.all("tags_counted")]

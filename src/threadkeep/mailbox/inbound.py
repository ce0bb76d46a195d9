"""What the host writes into inbound.db: mail, tasks, places; all inside one transaction given."""

from collections.abc import Collection, Iterable, Iterator
from hashlib import blake2b
from itertools import count
from typing import Any

from threadkeep.base.tx import Tx
from threadkeep.errors import Conflict, Invalid, NotFound
from threadkeep.mailbox.given import need_place, need_text, shown
from threadkeep.mailbox.ids import question_row_id
from threadkeep.mailbox.records import Destination, Mail, Place
from threadkeep.mailbox.rows import keep_in_hash, mail_of
from threadkeep.mailbox.times import read_moment

LIVE = frozenset(("pending", "paused"))
KINDS = frozenset(("chat", "chat-sdk", "task", "webhook", "system"))
_DERIVED = 8


def check_kind(kind: str) -> None:
    """Refuse a kind that NanoClaw's container would take and never show."""
    if not isinstance(kind, str) or kind not in KINDS:
        hint = "use one of " + ", ".join(sorted(KINDS))
        raise Invalid(f"there is no kind of mail {shown(kind)}", hint=hint)


class NewMail:
    """Mail that is about to be written; everything but kind and content has a default."""

    __slots__ = ("content", "fields", "id")

    def __init__(
        self,
        id: str,  # noqa: A002  (the column's name)
        kind: str,
        content: str,
        timestamp: str,
        place: Place,
        **more: Any,
    ) -> None:
        """Shape a row; `more` may give process_after, recurrence, series_id, trigger and others."""
        self.id = id
        self.content = content
        self.fields = {
            "kind": kind,
            "timestamp": timestamp,
            "status": more.get("status", "pending"),
            "process_after": more.get("process_after"),
            "recurrence": more.get("recurrence"),
            "series_id": more.get("series_id"),
            "trigger": int(bool(more.get("trigger", True))),
            "source_session_id": more.get("source_session_id"),
            "on_wake": int(bool(more.get("on_wake", False))),
        }
        self.at(place)

    def at(self, place: Place) -> None:
        """Say where it comes from."""
        self.fields["platform_id"] = place.platform_id
        self.fields["channel_type"] = place.channel_type
        self.fields["thread_id"] = place.thread_id


def put(
    tx: Tx, new: NewMail, *, ended: Collection[str] = (), same_mail_ms: int | None = None
) -> tuple[Mail, bool]:
    """Write mail once; give it, and whether it is new.

    The same id with the same content is the same mail, told twice. The same id with other
    content is other mail whose platform reused the id: it is kept under an id derived from it.
    So is mail under an id that is `ended`: the container has answered for one that is gone, and
    would never show it. With `same_mail_ms` the same content is other mail, too, if it comes so
    long after the first one, and that one is over: its platform counts from the start again.
    """
    for row_id in names_for(new):
        there = find(tx, row_id)
        if there is None and row_id not in ended:
            break
        if there is not None and _same(there, new) and not _outlived(there, new, same_mail_ms):
            return there, False
    fields = {**new.fields, "id": row_id, "content": new.content}
    fields["series_id"] = fields["series_id"] or row_id
    tx.run("insert_mail", fields)
    mail = find(tx, row_id)
    if mail is None:  # our own trigger left it out
        msg = f"the series {fields['series_id']!r} has a run that is still to come"
        raise Conflict(msg, hint="cancel or change that one")
    keep_in_hash(tx, mail)
    return mail, True


def names_for(new: NewMail) -> Iterator[str]:
    """Give the ids that mail may have: its own, then others that follow from its content."""
    yield new.id
    said = f"{new.fields['kind']}\0{new.content}"
    for number in count():
        text = f"{said}\0{number}" if number else said
        yield f"{new.id}~{blake2b(text.encode(), digest_size=_DERIVED // 2).hexdigest()}"


def _outlived(there: Mail, new: NewMail, after_ms: int | None) -> bool:
    first, again = read_moment(there.timestamp), read_moment(new.fields["timestamp"])
    if after_ms is None or first is None or again is None or there.status in LIVE:
        return False
    return again - first >= after_ms


def _same(there: Mail, new: NewMail) -> bool:
    fields = new.fields
    place = Place(fields["channel_type"], fields["platform_id"], fields["thread_id"])
    return (there.kind, there.raw, there.place) == (fields["kind"], new.content, place)


def find(tx: Tx, message_id: str) -> Mail | None:
    """Give mail by its id, None if there is none."""
    row = tx.one("mail", {"id": message_id})
    return None if row is None else mail_of(row)


def get(tx: Tx, message_id: str) -> Mail:
    """Give mail by its id, or raise NotFound."""
    mail = find(tx, message_id)
    if mail is None:
        msg = f"there is no inbound message {message_id[:80]!r}"
        raise NotFound(msg, hint="`threadkeep mail ls` shows what is there")
    return mail


def bury(tx: Tx, mail: Mail, reason: str, tries: int, now: str) -> None:
    """Give mail up: it stays failed, with the reason."""
    tx.run("settle", {"id": mail.id, "status": "failed", "tries": tries})
    tx.run("bury", {"id": mail.id, "reason": reason, "now": now})


def answer_to(tx: Tx, question_id: str) -> Mail | None:
    """Give the first answer to a question, None if there is none."""
    begin = question_row_id(question_id, 0)[:-1]
    rows = tx.all("answers_to", {"first": begin, "end": begin[:-1] + "."})
    found = (mail_of(row) for row in rows)
    return next((mail for mail in found if mail.content.get("questionId") == question_id), None)


def write_destinations(tx: Tx, destinations: Iterable[Destination]) -> int:
    """Replace all names the agent may write to; give how many there are."""
    rows = list(destinations)
    names = [row.name for row in rows]
    for name, *_ in tx.all("destinations"):
        if name not in names:
            tx.run("drop_destination", {"name": name})
    for number, row in enumerate(rows):
        if row.name in names[:number]:
            hint = "give each destination a name of its own"
            raise Conflict(f"two destinations are called {shown(row.name)}", hint=hint)
        if row.type not in ("channel", "agent"):
            msg = f"destination {shown(row.name)} has the type {shown(row.type)}"
            raise Invalid(msg, hint="use channel or agent")
        need_text(row.name, "name of a destination")
        if not need_place(row.place).known:
            msg = f"destination {shown(row.name)} does not say where it is"
            raise Invalid(msg, hint="give channel_type and platform_id, or agent_group_id")
        tx.run("set_destination", _destination(row))
    return len(rows)


def _destination(row: Destination) -> dict[str, str | None]:
    """Give a row without what its type does not have: newer containers then know no name at all."""
    fields = {name: getattr(row, name) for name in row.__struct_fields__}
    other = ("agent_group_id",) if row.type == "channel" else ("channel_type", "platform_id")
    return {**fields, **dict.fromkeys(other)}


def write_routing(tx: Tx, place: Place) -> None:
    """Set where mail goes that names no destination."""
    need_place(place)
    tx.run(
        "set_routing",
        {
            "channel_type": place.channel_type,
            "platform_id": place.platform_id,
            "thread_id": place.thread_id,
        },
    )


def look_up(tx: Tx, which: str | int) -> Mail:
    """Give mail by its id or its number."""
    if isinstance(which, str):
        return get(tx, which)
    row = tx.one("mail_by_seq", {"seq": which})
    if row is None:
        hint = "inbound numbers are even; `threadkeep mail ls` shows what is there"
        raise NotFound(f"there is no inbound message number {which}", hint=hint)
    return mail_of(row)

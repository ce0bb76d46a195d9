"""What the host writes into inbound.db: mail, tasks, places; all inside one transaction given."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from hashlib import blake2b
from itertools import count, takewhile
from typing import Any, Final

from threadkeep.base import json
from threadkeep.base.clock import iso
from threadkeep.base.tx import Tx
from threadkeep.errors import Conflict, Invalid, NotFound
from threadkeep.mailbox import content as shapes
from threadkeep.mailbox.arguments import need_place, need_str, need_text, optional_str, shown
from threadkeep.mailbox.attachments import Stage, folder_for, is_safe_name, stage, stage_what_can_be
from threadkeep.mailbox.context import MailContext, question_row_id
from threadkeep.mailbox.records import Destination, Json, Mail, Place
from threadkeep.mailbox.recurrence import check_recurrence, next_due
from threadkeep.mailbox.rows import keep_in_hash, mail_of, normal_moment, parse_moment, read_moment

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
    """Return the ids that mail may have: its own, then others that follow from its content."""
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
    """Return mail by its id, None if there is none."""
    row = tx.one("mail", {"id": message_id})
    return None if row is None else mail_of(row)


def get(tx: Tx, message_id: str) -> Mail:
    """Return mail by its id, or raise NotFound."""
    mail = find(tx, message_id)
    if mail is None:
        msg = f"there is no inbound message {message_id[:80]!r}"
        raise NotFound(msg, hint="`threadkeep mail ls` lists the mail")
    return mail


def bury(tx: Tx, mail: Mail, reason: str, tries: int, now: str) -> None:
    """Give mail up: it stays failed, with the reason."""
    tx.run("settle", {"id": mail.id, "status": "failed", "tries": tries})
    tx.run("bury", {"id": mail.id, "reason": reason, "now": now})


def answer_to(tx: Tx, question_id: str) -> Mail | None:
    """Return the first answer to a question, None if there is none."""
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
    """Return mail by its id or its number."""
    if isinstance(which, str):
        return get(tx, which)
    row = tx.one("mail_by_seq", {"seq": which})
    if row is None:
        hint = "inbound numbers are even; `threadkeep mail ls` lists the mail"
        raise NotFound(f"there is no inbound message number {which}", hint=hint)
    return mail_of(row)


# ------------------------------------------------------------------------------
# Mail to the agent: from what a caller gives to a row that is safe to keep.

Moment = datetime | str | int
_ID_BYTES: Final = 1024


def insert_message(
    ctx: MailContext,
    kind: str,
    content: Json | str,
    *,
    message_id: str | None = None,
    place: Place | None = None,
    timestamp: Moment | None = None,
    process_after: Moment | None = None,
    hops: int = 0,
    from_platform: bool = False,
    **more: Any,
) -> Mail:
    """Write mail of any kind, its attachments first.

    A message `from_platform` is not to be had again: its words are kept when its files cannot be,
    and its id may be one that the platform has used before.
    """
    check_kind(kind)
    if place is not None:
        need_place(place)
    row_id = ctx.new_id("msg") if message_id is None else platform_id(message_id)
    said = ctx.now_iso() if timestamp is None else normal_moment(timestamp, ctx.zone) or ""
    more["process_after"] = normal_moment(process_after, ctx.zone)
    # Nameless files are called after the time. Told twice, mail must find its files again.
    named_ms = ctx.clock() if timestamp is None else parse_moment(timestamp, ctx.zone)
    stage_all = stage_what_can_be if from_platform else stage
    row_id, text = _with_files_kept(ctx, row_id, kind, content, named_ms, stage_all)
    new = NewMail(row_id, kind, text, said, place or Place(), **more)
    ended = frozenset[str]() if message_id is None else _ended(ctx, new)
    same_mail_ms = ctx.policy.same_mail_ms if from_platform else None
    with ctx.folder.inbound.write() as tx:
        if place is None:
            new.at(Place(*(tx.one("routing") or ())))
        mail, is_new = put(tx, new, ended=ended, same_mail_ms=same_mail_ms)
        if is_new and hops:
            tx.run("set_hops", {"id": mail.id, "hops": hops})
        return mail


def _ended(ctx: MailContext, new: NewMail) -> frozenset[str]:
    """Return the first ids for mail that the container has answered for."""
    with ctx.folder.outbound.read(owner_runs=ctx.running) as tx:
        return frozenset(takewhile(lambda name: _has_end(tx, name), names_for(new)))


def _has_end(tx: Tx, message_id: str) -> bool:
    ack = tx.one("ack_of", {"id": message_id})
    return ack is not None and ack[0] != "processing"


def platform_id(message_id: str) -> str:
    """Refuse an id that no platform has; slashes are no fault, as in Google Chat's."""
    try:
        fits = (
            0 < len(need_str(message_id, "id of a message").encode()) <= _ID_BYTES
            and "\0" not in message_id
        )
    except UnicodeEncodeError:
        fits = False
    if not fits:
        msg = f"{shown(message_id)} cannot be the id of a message"
        raise Invalid(msg, hint=f"no NUL, at most {_ID_BYTES} bytes")
    return message_id


def checked_id(message_id: str) -> str:
    """Refuse an id that could not be the name of a folder for attachments."""
    if not is_safe_name(message_id):
        msg = f"{shown(message_id)} cannot be the id of a message"
        raise Invalid(msg, hint="no slashes, no NUL, at most 255 bytes")
    return message_id


def _with_files_kept(
    ctx: MailContext, row_id: str, kind: str, content: Json | str, named_ms: int, stage_all: Stage
) -> tuple[str, str]:
    """Make files of the attachments; give the id of the row and its text."""
    value = json.decode(content) if isinstance(content, str) else content
    if kind == "task" and isinstance(value, dict):
        shapes.check_task(value)
    files = value.get("attachments") if isinstance(value, Mapping) else None
    if not isinstance(files, list) or not any(_has_data(file) for file in files):
        return row_id, shapes.compact(value, ctx.policy.content_bytes)
    shapes.compact({**value, "attachments": []}, ctx.policy.content_bytes)
    try:
        staged = stage_all(ctx.folder.path, folder_for(row_id), files, named_ms)
    except Conflict:  # the platform reused an id for other files
        digest = blake2b(f"{kind}\0{json.encode(value)}".encode(), digest_size=4).hexdigest()
        row_id = f"{row_id}~{digest}"
        staged = stage_all(ctx.folder.path, folder_for(row_id), files, named_ms)
    return row_id, shapes.compact({**value, "attachments": staged}, ctx.policy.content_bytes)


def _has_data(file: Any) -> bool:
    return isinstance(file, Mapping) and file.get("data") is not None


def insert_task(
    ctx: MailContext,
    prompt: str,
    *,
    process_after: Moment | None = None,
    recurrence: str | None = None,
    script: str | None = None,
    id: str | None = None,  # noqa: A002  (the column's name)
    place: Place | None = None,
) -> Mail:
    """Give the agent a task, at once or later, once or again and again (cron).

    A recurring one without a time begins at its next due time.
    """
    need_text(prompt, "prompt")
    optional_str(script, "script")
    if place is not None:
        need_place(place)
    with ctx.folder.inbound.write() as tx:
        return put_task(ctx, tx, prompt, process_after, recurrence, script, task_id=id, place=place)


def put_task(
    ctx: MailContext,
    tx: Tx,
    prompt: str,
    process_after: Moment | None,
    recurrence: str | None,
    script: str | None,
    *,
    task_id: str | None = None,
    place: Place | None = None,
    origin: str | None = None,
) -> Mail:
    """Write a task inside a transaction; `origin` is the session of the agent that asked."""
    need_text(prompt, "prompt")
    row_id = ctx.new_id("task") if task_id is None else checked_id(task_id)
    cron = None if recurrence is None else check_recurrence(recurrence, ctx.zone)
    due = normal_moment(process_after, ctx.zone)
    if cron is not None and due is None:
        due = iso(round(next_due(cron, ctx.clock(), ctx.zone).timestamp() * 1000))
    text = shapes.compact(shapes.task(prompt, script, origin), ctx.policy.content_bytes)
    home = Place(*(tx.one("routing") or ()))
    where = place or (home if home.known else Place())
    fields = {"process_after": due, "recurrence": cron}
    return put(tx, NewMail(row_id, "task", text, ctx.now_iso(), where, **fields))[0]


def note(ctx: MailContext, text: str, *, trigger: bool = False) -> Mail:
    """Tell the agent something in the host's own name; on its own it does not wake the agent."""
    place = Place("agent", ctx.agent_group)
    row_id = ctx.new_id("sys")
    content = shapes.note(need_str(text, "text"))
    return insert_message(ctx, "chat", content, message_id=row_id, place=place, trigger=trigger)


def answer(
    ctx: MailContext,
    question_id: str,
    option: str,
    *,
    user_id: str = "user",
    place: Place | None = None,
    asked_ms: int | None = None,
) -> Mail:
    """Answer a question of the agent's, once: of several answers the first counts.

    It wakes nobody by itself; the one who asked is waiting.
    """
    need_text(question_id, "question id")
    at = ctx.clock() if asked_ms is None else asked_ms
    row_id = checked_id(question_row_id(question_id, at))
    said = shapes.compact(shapes.answer(question_id, option, user_id), ctx.policy.content_bytes)
    with ctx.folder.inbound.write() as tx:
        where = place or Place(*(tx.one("routing") or ()))
        new = NewMail(row_id, "system", said, ctx.now_iso(), where, trigger=False)
        return answer_to(tx, question_id) or put(tx, new)[0]

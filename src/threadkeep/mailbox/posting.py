"""Mail to the agent: from what a caller gives to a row that is safe to keep."""

from collections.abc import Mapping
from datetime import datetime
from hashlib import blake2b
from itertools import takewhile
from typing import Any, Final

from threadkeep.base import json
from threadkeep.base.clock import iso
from threadkeep.base.tx import Tx
from threadkeep.errors import Conflict, Invalid
from threadkeep.mailbox import content as shapes, inbound
from threadkeep.mailbox.attachments import Stage, stage, stage_what_can_be
from threadkeep.mailbox.context import MailContext
from threadkeep.mailbox.given import need_place, need_str, need_text, optional_str, shown
from threadkeep.mailbox.ids import question_row_id
from threadkeep.mailbox.inbound import NewMail
from threadkeep.mailbox.names import folder_for, is_safe_name
from threadkeep.mailbox.records import Json, Mail, Place
from threadkeep.mailbox.recurrence import check_recurrence, next_due
from threadkeep.mailbox.times import normal_moment, parse_moment

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
    inbound.check_kind(kind)
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
        mail, is_new = inbound.put(tx, new, ended=ended, same_mail_ms=same_mail_ms)
        if is_new and hops:
            tx.run("set_hops", {"id": mail.id, "hops": hops})
        return mail


def _ended(ctx: MailContext, new: NewMail) -> frozenset[str]:
    """Give the first ids for mail that the container has answered for."""
    with ctx.folder.outbound.read(owner_runs=ctx.running) as tx:
        return frozenset(takewhile(lambda name: _has_end(tx, name), inbound.names_for(new)))


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
    process_after: Moment | None,
    recurrence: str | None,
    script: str | None,
    *,
    task_id: str | None = None,
    place: Place | None = None,
) -> Mail:
    """Write a task; a recurring one without a time begins at its next due time."""
    need_text(prompt, "prompt")
    optional_str(script, "script")
    if place is not None:
        need_place(place)
    with ctx.folder.inbound.write() as tx:
        return put_task(
            ctx, tx, prompt, process_after, recurrence, script, task_id=task_id, place=place
        )


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
    return inbound.put(tx, NewMail(row_id, "task", text, ctx.now_iso(), where, **fields))[0]


def note(ctx: MailContext, text: str, *, trigger: bool) -> Mail:
    """Write a word of the host itself."""
    place = Place("agent", ctx.agent_group)
    row_id = ctx.new_id("sys")
    content = shapes.note(need_str(text, "text"))
    return insert_message(ctx, "chat", content, message_id=row_id, place=place, trigger=trigger)


def answer(
    ctx: MailContext,
    question_id: str,
    option: str,
    user_id: str,
    place: Place | None,
    asked_ms: int | None,
) -> Mail:
    """Write the answer to a question, once: of several the first counts.

    It wakes nobody by itself; the one who asked is waiting.
    """
    need_text(question_id, "question id")
    at = ctx.clock() if asked_ms is None else asked_ms
    row_id = checked_id(question_row_id(question_id, at))
    said = shapes.compact(shapes.answer(question_id, option, user_id), ctx.policy.content_bytes)
    with ctx.folder.inbound.write() as tx:
        where = place or Place(*(tx.one("routing") or ()))
        new = NewMail(row_id, "system", said, ctx.now_iso(), where, trigger=False)
        return inbound.answer_to(tx, question_id) or inbound.put(tx, new)[0]

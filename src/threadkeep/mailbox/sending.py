"""Mail from the agent: where it goes, and in which shape."""

import os
import re
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from threadkeep.errors import Invalid
from threadkeep.mailbox import content as shapes, outbound, reading
from threadkeep.mailbox.attachments import clear_outbox, place_outbox, read_files
from threadkeep.mailbox.context import Context
from threadkeep.mailbox.given import (
    need_dict,
    need_each,
    need_seconds,
    need_str,
    need_text,
    optional_str,
    shown,
)
from threadkeep.mailbox.ids import platform_part
from threadkeep.mailbox.records import Destination, Json, OutMail, Place
from threadkeep.mailbox.recurrence import check_recurrence, next_due
from threadkeep.mailbox.times import normal_moment

Moment = datetime | str | int
# Nowhere: for mail to the host itself.
_HOST: Final = Place()
# An id of ours that had to differ, and the ending that tells agent groups apart.
_DERIVED: Final = re.compile(r"~[0-9a-f]{8}$")
_GROUP: Final = re.compile(r":ag-[0-9]+-[0-9a-z]+$")


def send(
    ctx: Context,
    text: str,
    *,
    to: str | None,
    files: Sequence[str | Path | tuple[str, bytes]],
    message_id: str | None,
    **more: Any,
) -> OutMail:
    """Send words, and files with them; the files are in the outbox before the message is."""
    row_id = ctx.new_id("msg") if message_id is None else message_id
    said: Json = {"text": need_str(text, "text")}
    place, newest = where(ctx, to)
    more["in_reply_to"] = optional_str(more.get("in_reply_to"), "in_reply_to") or newest
    if more.get("unless_said") is not None:
        need_seconds(more["unless_said"], "unless_said")
    found = read_files(_files(files))
    if found:
        said["files"] = list(found)
    raw, _ = outbound.check(ctx, row_id, "chat", said, more.get("deliver_after"))
    there = None if message_id is None else outbound.written(ctx, row_id, "chat", raw)
    if there is not None:
        return there
    place_outbox(ctx.folder.path, row_id, found)
    sent = outbound.put(ctx, "chat", said, place, message_id=row_id, **more)
    if found and sent.id != row_id:  # it was said before, so nobody will ask for these files
        clear_outbox(ctx.folder.path, row_id)
    return sent


def _files(files: Sequence[str | Path | tuple[str, bytes]]) -> list[tuple[str, bytes] | Path]:
    given = need_each(files, (str, Path, tuple), "files")
    return [_file(one) if isinstance(one, tuple) else Path(os.path.abspath(one)) for one in given]


def _file(given: tuple[Any, ...]) -> tuple[str, bytes]:
    match given:
        case (str() as name, bytes() as data):
            return name, data
    raise Invalid(f"{shown(given)} is no file", hint="give a path, or a name with its bytes")


def send_content(
    ctx: Context, kind: str, said: Json, *, to: str | None, message_id: str | None = None
) -> OutMail:
    """Send content of another shape."""
    place, newest = where(ctx, to)
    return outbound.put(ctx, kind, said, place, message_id=message_id, in_reply_to=newest)


def card(ctx: Context, shape: Json, fallback: str, to: str | None) -> OutMail:
    """Send a card, with text for channels that cannot show one."""
    text = need_str(fallback, "fallback")
    said = {"type": "card", "card": need_dict(shape, "card"), "fallbackText": text}
    return send_content(ctx, "chat-sdk", said, to=to)


def where(ctx: Context, to: str | None) -> tuple[Place, str | None]:
    """Find where mail goes, and the newest message from there, which it answers."""
    with ctx.folder.inbound.read() as tx:
        place = choose(to, reading.routing_in(tx), reading.destinations_in(tx))
        asked = {"channel_type": place.channel_type, "platform_id": place.platform_id}
        asked["now"] = ctx.now_sql()
        newest = tx.one("newest_of_place", asked)
    return place, None if newest is None else newest[0]


def choose(to: str | None, routing: Place, known: Sequence[Destination]) -> Place:
    """Choose the place for a name; without one, the session's own, or the only one there is."""
    if optional_str(to, "destination") is None:
        if routing.known:
            return routing
        if len(known) == 1:
            return known[0].place
        raise Invalid(
            "this session has no place of its own to send to", hint=_names(known) or _NOBODY
        )
    for destination in known:
        if destination.name == to:
            place = destination.place
            return routing if place.same_chat(routing) else place
    raise Invalid(f"there is no destination {shown(to)}", hint=_names(known) or _NOBODY)


_NOBODY: Final = "the host has named nobody to write to"


def _names(known: Sequence[Destination]) -> str:
    return "name one of " + ", ".join(d.name for d in known) if known else ""


# ------------------------------------------------------------------ edits and reactions


def edit(ctx: Context, seq: int, text: str) -> OutMail:
    """Change the words of a message."""
    target, place = target_of(ctx, seq)
    return outbound.put(ctx, "chat", shapes.edit(target, need_str(text, "text")), place)


def react(ctx: Context, seq: int, emoji: str) -> OutMail:
    """React to a message."""
    said = need_text(emoji, "emoji")
    target, place = target_of(ctx, seq)
    return outbound.put(ctx, "chat", shapes.reaction(target, said), place)


def target_of(ctx: Context, seq: int) -> tuple[str, Place]:
    """Give what the channel calls a message, and where it is."""
    mail = reading.mail(ctx, seq)
    if isinstance(mail, OutMail):
        return reading.platform_id_of(ctx, mail.id) or mail.id, mail.place
    return platform_name(mail.id, ctx.agent_group), mail.place


def platform_name(message_id: str, agent_group: str | None) -> str:
    """Give the platform's own id of inbound mail: without our endings, which no channel knows."""
    plain = _DERIVED.sub("", message_id)
    if agent_group:
        return platform_part(plain, agent_group)
    return _GROUP.sub("", plain)


# ------------------------------------------------------------------ mail to the host


def act(ctx: Context, action: str, /, **fields: Any) -> OutMail:
    """Ask the host to do something."""
    said = {**fields, "action": need_text(action, "action")}
    return outbound.put(ctx, "system", said, _HOST, message_id=ctx.new_id("sys"))


def on_task(ctx: Context, action: str, task_id: str, **fields: Any) -> OutMail:
    """Ask the host to do something with a task."""
    return act(ctx, action, taskId=need_text(task_id, "task id"), **fields)


def schedule(
    ctx: Context,
    prompt: str,
    process_after: Moment | None,
    recurrence: str | None,
    script: str | None,
) -> str:
    """Ask for a task; what the host could not accept is refused here, where it can be mended."""
    need_text(prompt, "prompt")
    optional_str(script, "script")
    if process_after is None and recurrence is None:
        hint = "give process_after, or recurrence, or both"
        raise Invalid("a task needs a time", hint=hint)
    task_id = ctx.new_id("task")
    routing = reading.routing(ctx)
    cron = None if recurrence is None else check_recurrence(recurrence, ctx.zone)
    act(
        ctx,
        "schedule_task",
        taskId=task_id,
        prompt=prompt,
        script=script,
        recurrence=cron,
        platformId=routing.platform_id,
        channelType=routing.channel_type,
        threadId=routing.thread_id,
        **_first_run(ctx, process_after, cron),
    )
    return task_id


def _first_run(ctx: Context, process_after: Moment | None, cron: str | None) -> Json:
    """Say when a task runs first. A NanoClaw host takes no time for at once.

    So a series without one gets its next time as this side reckons it; a host that knows the
    word `firstRun` reckons again, in a zone that may be another.
    """
    if process_after is not None or cron is None:
        return {"processAfter": normal_moment(process_after, ctx.zone)}
    due = next_due(cron, ctx.clock(), ctx.zone)
    return {"processAfter": normal_moment(due), "firstRun": shapes.FROM_RECURRENCE}


_CHANGES: Final = {"prompt", "script", "process_after", "recurrence"}


def update_task(ctx: Context, task_id: str, changes: Json) -> OutMail:
    """Ask for a change of a task; a recurrence or script of None is taken away."""
    odd = sorted(set(changes) - _CHANGES)
    if odd or not changes:
        what = f"a task has no {odd[0]}" if odd else "nothing was to change"
        raise Invalid(what, hint="give " + ", ".join(sorted(_CHANGES)))
    if "prompt" in changes:
        need_text(changes["prompt"], "prompt")
    optional_str(changes.get("script"), "script")
    said = {name: value for name, value in changes.items() if name != "process_after"}
    if said.get("recurrence") is not None:
        said["recurrence"] = check_recurrence(said["recurrence"], ctx.zone)
    if changes.get("process_after") is not None:
        said["processAfter"] = normal_moment(changes["process_after"], ctx.zone)
    return on_task(ctx, "update_task", task_id, **said)

"""Questions of the agent to people, commands to its host, and the answers to both."""

import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from threadkeep.errors import Busy, Invalid
from threadkeep.mailbox import content as shapes, versions
from threadkeep.mailbox.arguments import need_seconds, need_text, optional_str
from threadkeep.mailbox.commands import CommandRefused, CommandReply
from threadkeep.mailbox.container import inbox, outbound
from threadkeep.mailbox.context import MailContext, answer_row_id
from threadkeep.mailbox.records import Json, Mail, OutMail, Place
from threadkeep.mailbox.recurrence import check_recurrence, next_due
from threadkeep.mailbox.rows import normal_moment

_EVERY: Final = 1.0
_FIRST_LOOK, _LAST_LOOK = 0.02, 0.5  # seconds between two looks for the answer to a command


def ask(
    ctx: MailContext,
    question: str,
    options: Sequence[str | Json],
    *,
    title: str = "Question",
    to: str | None = None,
) -> str:
    """Ask a question with buttons; return its id, for `answer` and `wait_for_answer`."""
    question_id = ctx.new_id("msg")
    said = shapes.question(question_id, title, question, options)
    return outbound.send_content(ctx, "chat-sdk", said, to=to, message_id=question_id).id


def answer(ctx: MailContext, question_id: str) -> Json | None:
    """Return the answer to a question if it has arrived, and mark it as completed."""
    need_text(question_id, "question id")
    for mail in inbox.system_mail(ctx):
        if answers(mail, question_id):
            inbox.finish(ctx, [mail], "completed", None)
            return mail.content
    return None


def answers(mail: Mail, question_id: str | None = None) -> bool:
    """Return whether mail is the answer to a question, to this one if it is named."""
    said = mail.content
    if said.get("type") != "question_response":
        return False
    return question_id is None or said.get("questionId") == question_id


def wait_for_answer(ctx: MailContext, question_id: str, timeout: float = 300.0) -> Json | None:
    """Wait for the answer to a question; None if there is none in time."""
    deadline = time.monotonic() + need_seconds(timeout, "timeout")
    while True:
        found = answer(ctx, question_id)
        left = deadline - time.monotonic()
        if found is not None or left <= 0:
            return found
        ctx.folder.beat()
        time.sleep(min(_EVERY, left))


# ------------------------------------------------------------------ commands to the host


def run_command(
    ctx: MailContext, words: str, flags: Mapping[str, Any], timeout: float
) -> CommandReply:
    """Run a command of the host; give what it answers, and the words to print, if it has any."""
    frame = _answered(ctx, _request(ctx, words, flags), timeout)
    human = frame.get("human")
    return CommandReply(_data(frame), human if isinstance(human, str) else None)


def carry_out(ctx: MailContext, words: str, flags: Mapping[str, Any], timeout: float) -> OutMail:
    """Run a command of the host, and give the request once it was done; a refusal is raised."""
    asked = _request(ctx, words, flags)
    _data(_answered(ctx, asked, timeout))
    return asked


def _request(ctx: MailContext, words: str, flags: Mapping[str, Any]) -> OutMail:
    request_id = ctx.new_id("cli")
    said = shapes.command(request_id, "-".join(need_text(words, "command").split()), flags)
    return outbound.put(ctx, "system", said, Place(), message_id=request_id)


def _answered(ctx: MailContext, asked: OutMail, timeout: float) -> Json:
    deadline = time.monotonic() + need_seconds(timeout, "timeout")
    pause = _FIRST_LOOK
    while True:
        found = inbox.find(ctx, answer_row_id(asked.id))
        if found is not None:
            inbox.finish(ctx, [found], "completed", None)
            frame = found.content.get("frame")
            return frame if isinstance(frame, dict) else {}
        left = deadline - time.monotonic()
        if left <= 0:
            msg = f"the host has not answered {asked.content['command']!r} within {timeout:g} s"
            raise Busy(msg, hint="is it running? the request may still be carried out later")
        ctx.folder.beat()
        time.sleep(min(pause, left))
        pause = min(pause * 2, _LAST_LOOK)


def _data(frame: Json) -> Any:
    if frame.get("ok") is True:
        return frame.get("data")
    error = frame.get("error")
    told = error if isinstance(error, dict) else {}
    code, words = told.get("code"), told.get("message")
    raise CommandRefused(str(code or "transport-error"), str(words or "the host gave no reason"))


# ------------------------------------------------------------------------------
# Tasks that the agent asks its host for, in the language that the host understands.
#
# Older hosts take actions such as `schedule_task`, later ones `ncl` commands; each passes over what
# it does not know without a word. So a host that is not ours is asked first, once in the life of a
# container, and where nothing answers nothing is written.

Moment = datetime | str | int
_CHANGES: Final = {"prompt", "script", "process_after", "recurrence"}
_NONE: Final = "none"  # takes a script or a recurrence away
_WORDS: Final = {
    "cancel_task": "tasks-cancel",
    "pause_task": "tasks-pause",
    "resume_task": "tasks-resume",
    "update_task": "tasks-update",
}


class Language:
    """What the host of a folder understands, once it is known; good for one life of a container."""

    def __init__(self) -> None:
        self._has_commands: bool | None = None

    def forget(self) -> None:
        """Start over: another host may be there after a restart."""
        self._has_commands = None

    def has_commands(self, ctx: MailContext, timeout: float) -> bool:
        """Return whether the host takes commands for tasks; it is asked unless it is one of ours.

        Ours takes both, and need not be waited for. Whatever else the folder shows may be older
        than the host that serves it now.
        """
        if self._has_commands is None:
            there = versions.look(ctx)
            if there.our_host and there.host is None:
                return False
            self._has_commands = _ask(ctx, timeout)
        return self._has_commands


def _ask(ctx: MailContext, timeout: float) -> bool:
    try:
        run_command(ctx, "tasks-list", {}, timeout)
    except CommandRefused as error:
        return error.code != "unknown-command"
    return True


def schedule(
    ctx: MailContext,
    language: Language,
    prompt: str,
    process_after: Moment | None,
    recurrence: str | None,
    script: str | None,
    *,
    name: str | None,
    often: bool,
    timeout: float,
) -> str:
    """Ask for a task; what the host could not accept is refused here, where it can be mended."""
    need_text(prompt, "prompt")
    optional_str(script, "script")
    optional_str(name, "name")
    if process_after is None and recurrence is None:
        hint = "give process_after, or recurrence, or both"
        raise Invalid("a task needs a time", hint=hint)
    cron = None if recurrence is None else check_recurrence(recurrence, ctx.zone)
    when = normal_moment(process_after, ctx.zone)
    if language.has_commands(ctx, timeout):
        given = {"prompt": prompt, "name": name, "recurrence": cron, "script": script}
        flags: Json = {"process_after": when, **given}
        flags["dangerously_override_recurrence_limit"] = often or None
        made = run_command(ctx, "tasks-create", _given(flags), timeout).data
        return str(made["series_id"])
    task_id = ctx.new_id("task")
    routing = inbox.routing(ctx)
    outbound.act(
        ctx,
        "schedule_task",
        taskId=task_id,
        prompt=prompt,
        script=script,
        recurrence=cron,
        platformId=routing.platform_id,
        channelType=routing.channel_type,
        threadId=routing.thread_id,
        **_first_run(ctx, when, cron),
    )
    return task_id


def _given(flags: Json) -> Json:
    return {name: value for name, value in flags.items() if value is not None}


def _first_run(ctx: MailContext, when: str | None, cron: str | None) -> Json:
    """Say when a task runs first. A NanoClaw host takes no time for at once.

    So a series without one gets its next time as this side reckons it; a host that knows the
    word `firstRun` reckons again, in a zone that may be another.
    """
    if when is not None or cron is None:
        return {"processAfter": when}
    due = next_due(cron, ctx.clock(), ctx.zone)
    return {"processAfter": normal_moment(due), "firstRun": shapes.FROM_RECURRENCE}


def on_task(
    ctx: MailContext, language: Language, action: str, task_id: str, timeout: float
) -> OutMail:
    """Ask the host to do something with a task."""
    need_text(task_id, "task id")
    if language.has_commands(ctx, timeout):
        return carry_out(ctx, _WORDS[action], {"id": task_id}, timeout)
    return outbound.act(ctx, action, taskId=task_id)


def update_task(
    ctx: MailContext, language: Language, task_id: str, changes: Json, timeout: float
) -> OutMail:
    """Ask for a change of a task; a recurrence or script of None is taken away."""
    need_text(task_id, "task id")
    odd = sorted(set(changes) - _CHANGES)
    if odd or not changes:
        what = f"a task has no field {odd[0]}" if odd else "nothing to change"
        raise Invalid(what, hint="give " + ", ".join(sorted(_CHANGES)))
    if "prompt" in changes:
        need_text(changes["prompt"], "prompt")
    optional_str(changes.get("script"), "script")
    said = {name: value for name, value in changes.items() if name != "process_after"}
    if said.get("recurrence") is not None:
        said["recurrence"] = check_recurrence(said["recurrence"], ctx.zone)
    when = normal_moment(changes.get("process_after"), ctx.zone)
    if language.has_commands(ctx, timeout):
        flags = {name: _NONE if value is None else value for name, value in said.items()}
        flags |= _given({"id": task_id, "process_after": when})
        return carry_out(ctx, _WORDS["update_task"], flags, timeout)
    more = {} if when is None else {"processAfter": when}
    return outbound.act(ctx, "update_task", taskId=task_id, **said, **more)

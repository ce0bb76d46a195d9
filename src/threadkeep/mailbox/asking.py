"""Questions of the agent to people, commands to its host, and the answers to both."""

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from threadkeep.errors import Busy
from threadkeep.mailbox import acks, content as shapes, outbound, reading, sending
from threadkeep.mailbox.commands import CommandRefused, CommandReply
from threadkeep.mailbox.context import MailContext
from threadkeep.mailbox.given import need_seconds, need_text
from threadkeep.mailbox.ids import answer_row_id
from threadkeep.mailbox.records import Json, Mail, OutMail, Place

_EVERY: Final = 1.0
_FIRST_LOOK, _LAST_LOOK = 0.02, 0.5  # seconds between two looks for the answer to a command


def ask(
    ctx: MailContext, question: str, options: Sequence[str | Json], title: str, to: str | None
) -> str:
    """Send a question; its id is the id of its message."""
    question_id = ctx.new_id("msg")
    said = shapes.question(question_id, title, question, options)
    return sending.send_content(ctx, "chat-sdk", said, to=to, message_id=question_id).id


def answer(ctx: MailContext, question_id: str) -> Json | None:
    """Give an answer that has come, and acknowledge it."""
    need_text(question_id, "question id")
    for mail in reading.system_mail(ctx):
        if answers(mail, question_id):
            acks.finish(ctx, [mail], "completed", None)
            return mail.content
    return None


def answers(mail: Mail, question_id: str | None = None) -> bool:
    """Tell whether mail is the answer to a question, to this one if it is named."""
    said = mail.content
    if said.get("type") != "question_response":
        return False
    return question_id is None or said.get("questionId") == question_id


def wait_for_answer(ctx: MailContext, question_id: str, timeout: float) -> Json | None:
    """Look for an answer each second, and once more when the time is up."""
    deadline = time.monotonic() + need_seconds(timeout, "timeout")
    while True:
        found = answer(ctx, question_id)
        left = deadline - time.monotonic()
        if found is not None or left <= 0:
            return found
        ctx.folder.beat()
        time.sleep(min(_EVERY, left))


# ------------------------------------------------------------------ commands to the host


def command(ctx: MailContext, words: str, flags: Mapping[str, Any], timeout: float) -> Any:
    """Run a command of the host as `ncl` does, and give what it answers; a refusal is raised."""
    return run_command(ctx, words, flags, timeout).data


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
        found = reading.find(ctx, answer_row_id(asked.id))
        if found is not None:
            acks.finish(ctx, [found], "completed", None)
            frame = found.content.get("frame")
            return frame if isinstance(frame, dict) else {}
        left = deadline - time.monotonic()
        if left <= 0:
            msg = f"the host has not answered {asked.content['command']!r} within {timeout:g} s"
            raise Busy(msg, hint="is it running? what was asked may still be done when it is")
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

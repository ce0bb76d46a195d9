"""Questions of the agent, and their answers."""

import time
from collections.abc import Sequence
from typing import Final

from threadkeep.mailbox import acks, content as shapes, reading, sending
from threadkeep.mailbox.context import Context
from threadkeep.mailbox.given import need_seconds, need_text
from threadkeep.mailbox.records import Json, Mail

_EVERY: Final = 1.0


def ask(
    ctx: Context, question: str, options: Sequence[str | Json], title: str, to: str | None
) -> str:
    """Send a question; its id is the id of its message."""
    question_id = ctx.new_id("msg")
    said = shapes.question(question_id, title, question, options)
    return sending.send_content(ctx, "chat-sdk", said, to=to, message_id=question_id).id


def answer(ctx: Context, question_id: str) -> Json | None:
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


def wait_for_answer(ctx: Context, question_id: str, timeout: float) -> Json | None:
    """Look for an answer each second, and once more when the time is up."""
    deadline = time.monotonic() + need_seconds(timeout, "timeout")
    while True:
        found = answer(ctx, question_id)
        left = deadline - time.monotonic()
        if found is not None or left <= 0:
            return found
        ctx.folder.beat()
        time.sleep(min(_EVERY, left))

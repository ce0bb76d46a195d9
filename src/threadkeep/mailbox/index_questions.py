"""Questions that wait for somebody to press a button."""

from collections.abc import Sequence
from typing import Any

from threadkeep.base import json
from threadkeep.base.clock import iso
from threadkeep.base.tx import Tx
from threadkeep.errors import Invalid, NotFound
from threadkeep.mailbox.given import need_name, optional_name
from threadkeep.mailbox.index_records import PendingQuestion
from threadkeep.mailbox.index_rows import MailIndexContext, need_session


def add_question(
    ctx: MailIndexContext,
    tx: Tx,
    question_id: str,
    *,
    session_id: str,
    message_out_id: str,
    title: str,
    options: Sequence[Any],
    platform_id: str | None = None,
    channel_type: str | None = None,
    thread_id: str | None = None,
) -> bool:
    """Keep a question until it is answered; False if it was kept before, which then stays."""
    params = {
        "question_id": need_name(question_id, "question id"),
        "session_id": need_session(tx, session_id).id,
        "message_out_id": need_name(message_out_id, "message id"),
        "title": need_name(title, "question title"),
        "options_json": json.encode(_need_options(options)),
        "platform_id": optional_name(platform_id, "platform id"),
        "channel_type": optional_name(channel_type, "channel type"),
        "thread_id": optional_name(thread_id, "thread id"),
        "now": iso(ctx.clock()),
    }
    return tx.run("insert_question", params) == 1


def _need_options(options: object) -> list[Any]:
    if not isinstance(options, (list, tuple)) or not options:
        msg = "a question needs a list of options to choose from"
        raise Invalid(msg, hint="pass options as a list with at least one entry")
    return list(options)


def question(_ctx: MailIndexContext, tx: Tx, question_id: str) -> PendingQuestion:
    """Give a question that waits for its answer."""
    return _need_question(tx, question_id)


def take_question(_ctx: MailIndexContext, tx: Tx, question_id: str) -> PendingQuestion:
    """Give a question and forget it: of two who press a button only one gets it."""
    found = _need_question(tx, question_id)
    tx.run("delete_question", {"question_id": found.question_id})
    return found


def forget_questions(_ctx: MailIndexContext, tx: Tx, session_id: str) -> int:
    """Forget every question of a session; give how many there were."""
    return tx.run("delete_questions_of", {"session_id": need_session(tx, session_id).id})


def _need_question(tx: Tx, question_id: object) -> PendingQuestion:
    row = tx.one("get_question", {"question_id": need_name(question_id, "question id")})
    if row is None:
        msg = f"no question {question_id!r} waits for an answer"
        raise NotFound(msg, hint="it was answered before, or its session was cleared")
    values = dict(zip(PendingQuestion.__struct_fields__, row, strict=True))
    return PendingQuestion(**{**values, "options": json.decode(values["options"])})

"""The loop of an agent: wait for mail, work on it, answer, and say what became of it."""

import itertools
import logging
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from threadkeep.errors import Busy, Conflict, Invalid, NotFound
from threadkeep.mailbox import content as shapes, tasks
from threadkeep.mailbox.arguments import need_each, shown
from threadkeep.mailbox.container import outbound
from threadkeep.mailbox.container.requests import answers
from threadkeep.mailbox.notices import is_note
from threadkeep.mailbox.records import Mail, Place

if TYPE_CHECKING:
    from threadkeep.mailbox.container.container import Container


log = logging.getLogger(__name__)

# What a handler gives back: words for whoever wrote, nothing, or words for names it chooses.
Reply = str | None | Sequence[tuple[str, str]]
Handler = Callable[[list[Mail]], Reply]

CLEARED: Final = "The conversation starts over."
_MOST: Final = 200  # of one turn
_SAID_LATELY_S: Final = 60.0
_ANSWERED_S: Final = 3600.0  # longer than all pauses between the tries of one message


def run_agent(
    container: "Container",
    handler: Handler,
    *,
    stop: threading.Event,
    every: float = 1.0,
    provider: str = "claude",
) -> None:
    """Process mail until `stop` is set: one turn at a time, the oldest mail first.

    `handler` gets the mail of a turn and gives the answer. An exception from it fails the mail
    with its words as the reason, and the loop continues.
    """
    container.start(provider)
    try:
        worked = True
        for turn in itertools.count():
            if stop.wait(0 if worked else every):
                return
            worked = _try_step(container, handler, stop)
            if turn == 0 and not worked:
                container.poll(1)  # the moment of waking is over, though there was nothing to do
    finally:
        container.stop()


def _try_step(container: "Container", handler: Handler, stop: threading.Event) -> bool:
    try:
        return step(container, handler, stop)
    except Busy as error:  # the host is in the middle of something long
        log.warning("the mailbox is not free, trying again: %s", error)
        return False


def step(container: "Container", handler: Handler, stop: threading.Event | None = None) -> bool:
    """Take one turn, if there is mail to process; return whether there was anything to do.

    Mail that came for information only is handed over with the next that wants an answer. An
    answer to a question that nobody waits for any more wants one.
    """
    late = [mail for mail in container.system_mail() if answers(mail)]
    if not late and not container.triggered():
        return False
    turn = next_turn(container.poll(_MOST), container.context.policy.prompt_mails)
    if late:
        turn = [*late, *(mail for mail in turn if not is_command(mail))][:_MOST]
    taken = set(container.claim(turn))
    mails = [mail for mail in turn if mail.id in taken]
    if not mails:
        return False
    if stop is not None and stop.is_set():
        container.release(mails)
        return False
    container.beat()
    if is_command(mails[0]):
        _clear(container, mails)
    else:
        _work(container, handler, mails)
    container.beat()
    return True


def next_turn(waiting: Sequence[Mail], batch: int) -> list[Mail]:
    """Choose the mail of one turn: whole batches, up to the first in which some wants an answer.

    A command to forget the conversation has a turn of its own, in its place.
    """
    turn: list[Mail] = []
    for begin in range(0, len(waiting), batch):
        turn += waiting[begin : begin + batch]
        if any(mail.trigger for mail in turn):
            break
    first = next((number for number, mail in enumerate(turn) if is_command(mail)), None)
    if first is None:
        return turn
    return turn[:first] or turn[:1]


def is_command(mail: Mail) -> bool:
    """Return whether somebody who may speak to the agent wants the conversation forgotten."""
    return mail.trigger and mail.kind in ("chat", "chat-sdk") and shapes.is_clear(mail.content)


def _clear(container: "Container", mails: list[Mail]) -> None:
    container.clear()
    _finish(container, mails, CLEARED)


def _work(container: "Container", handler: Handler, mails: list[Mail]) -> None:
    try:
        reply = handler(mails)
    except Exception as error:
        log.warning("an agent failed on %d messages: %s", len(mails), error, exc_info=error)
        container.fail(mails, _reason(error))
        return
    _finish(container, mails, reply)


def _finish(container: "Container", mails: list[Mail], reply: Reply) -> None:
    """Send the answer, then say that the mail is done: after a crash it is sent no second time.

    An answer that cannot be sent at all fails the mail; a full disk or a lock only delays it.
    """
    try:
        _send(container, mails, reply)
    except (Invalid, NotFound, Conflict) as error:
        container.fail(mails, _reason(error))
    else:
        container.complete(mails)


def _send(container: "Container", mails: list[Mail], reply: Reply) -> None:
    asked = _answered(mails)
    if isinstance(reply, str):
        _answer(container, asked, reply)
        return
    chosen = _chosen(reply)
    for to, _ in chosen:
        outbound.where(container.context, to)  # all names are known before the first is written to
    for to, text in chosen:
        container.send(text, to=to, unless_said=_SAID_LATELY_S)


def _chosen(reply: object) -> list[tuple[str, str]]:
    """Return the words for each name; refuse what is none of the things a handler may give."""
    given = [] if reply is None else need_each(reply, (tuple, list), "answers of a handler")
    for one in given:
        if [type(part) for part in one] != [str, str]:
            msg = f"a handler returned {shown(one)} as an answer"
            raise Invalid(msg, hint="give a text, None, or pairs of a name and a text")
    return given


def _answer(container: "Container", asked: Mail, text: str) -> None:
    if not text.strip():
        return
    if asked.kind == "task" and tasks.series_of_thread(container.routing().thread_id):
        # The session of a task has no chat: what it says at the end is its log.
        container.insert_message(
            tasks.KIND,
            {"text": tasks.line(text)},
            Place(),
            in_reply_to=asked.id,
            unless_said=_ANSWERED_S,
        )
    elif asked.place.known and not is_note(asked):
        container.insert_message(
            "chat",
            {"text": text},
            asked.place,
            in_reply_to=asked.id,
            unless_said=_ANSWERED_S,
        )
    else:  # a word of the host itself: to answer it would be to write to oneself
        container.send(text, in_reply_to=asked.id, unless_said=_ANSWERED_S)


def _answered(mails: list[Mail]) -> Mail:
    """Return the message that an answer belongs to: the last that wanted one."""
    wanting = [mail for mail in mails if mail.trigger or answers(mail)] or mails
    return wanting[-1]


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"

"""Words of the host to the agent about mail that came to nothing."""

from collections.abc import Iterable, Sequence
from typing import Final

from threadkeep.base.tx import Tx
from threadkeep.mailbox import content as shapes, inbound
from threadkeep.mailbox.context import MailContext
from threadkeep.mailbox.inbound import NewMail
from threadkeep.mailbox.records import Mail, OutMail, Place

_WORDS: Final = 60  # of a message: enough to know it again
_REASON: Final = 300
_MOST: Final = 10
# The note must fit, however many failed at once and whatever they are called.
_ABOUT: Final = 1000
_ID: Final = 512


def tell(ctx: MailContext, tx: Tx, text: str, about: Iterable[str] = ()) -> Mail:
    """Write a note inside a transaction; it wakes nobody, so no loop of failures can begin.

    `about` names the messages it speaks of, for whoever follows one of them later.
    """
    named = [message_id for message_id in about if len(message_id) <= _ID]
    said = {**shapes.note(text), "about": named[:_ABOUT]}
    place = Place("agent", ctx.agent_group)
    new = NewMail(
        ctx.new_id("sys"), "chat", shapes.compact(said), ctx.now_iso(), place, trigger=False
    )
    return inbound.put(tx, new)[0]


def tell_failed(ctx: MailContext, tx: Tx, failures: Sequence[tuple[Mail, str]]) -> Mail | None:
    """Tell about mail to the agent that failed, all of it in one note; notes are not spoken of."""
    worth = [(mail, reason) for mail, reason in failures if not is_note(mail)]
    if not worth:
        return None
    lines = [
        f"Message {called(mail)} failed: {shortened(reason)}" for mail, reason in worth[:_MOST]
    ]
    if len(worth) > _MOST:
        lines.append(f"So did {len(worth) - _MOST} more.")
    return tell(ctx, tx, "\n".join(lines), [mail.id for mail, _ in worth])


def is_note(mail: Mail) -> bool:
    """Tell whether mail is a word of the host itself."""
    return mail.place.channel_type == "agent" and mail.content.get("senderId") == "system"


def called(mail: Mail | OutMail) -> str:
    """Name a message as the agent knows it: its number, and its first words."""
    words = " ".join(mail.text.split())
    shown = words if len(words) <= _WORDS else f"{words[: _WORDS - 1]}…"
    number = mail.id if mail.seq is None else str(mail.seq)
    return f'{number} ("{shown}")' if shown else number


def shortened(reason: str) -> str:
    """Return a reason in one line of reasonable length."""
    line = " ".join(reason.split())
    return line if len(line) <= _REASON else f"{line[: _REASON - 1]}…"

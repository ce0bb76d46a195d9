"""`threadkeep mail poll`, `ack` and `echo`: the agent's side."""

import click

from threadkeep.cli.command import Call, command
from threadkeep.cli.mail.group import containing, looking, message_ref, session_argument
from threadkeep.cli.mail.words import mail_json, place_text, words_of
from threadkeep.cli.options import limit_option
from threadkeep.cli.output import document, note, table, write
from threadkeep.errors import Invalid
from threadkeep.mailbox.container.container import Container
from threadkeep.mailbox.container.inbox import poll as poll_mail
from threadkeep.mailbox.records import Mail


@command(
    "poll", "threadkeep mail poll last", "threadkeep mail poll ./box --claim --json", lists=True
)
@session_argument
@click.option("--claim", is_flag=True, help="Take the mail in hand; then `ack` says how it went.")
@click.option("--first", is_flag=True, help="As at a start: with mail for the moment of waking.")
@limit_option(10, "At most so many.")
def poll(call: Call, *, session: str, claim: bool, first: bool, limit: int) -> None:
    """Show the mail that waits for the agent, the oldest first, as the agent would get it."""
    ctx = looking(call, session)
    found = poll_mail(ctx, max(limit, 0), first=first)
    claimed = containing(call, session).claim(found) if claim else []
    shown = [mail for mail in found if not claim or mail.id in claimed]
    if call.as_json:
        call.answer(
            "mail", session=ctx.session, mail=[mail_json(mail) for mail in shown], claimed=claimed
        )
        return
    columns = ("number", "id", "kind", "place", "text")
    table(columns, [_row(mail) for mail in shown], wide="text", spare=("place", "kind"))
    if not shown:
        note("nothing waits for the agent")


def _row(mail: Mail) -> tuple[str, ...]:
    return (
        str(mail.seq),
        str(mail.id),
        str(mail.kind),
        place_text(mail.place),
        words_of(mail.content),
    )


@command(
    "ack",
    "threadkeep mail ack last msg-17",
    'threadkeep mail ack last 4 --failed "the file is not there"',
    "threadkeep mail ack ./box 4 6 --release",
)
@session_argument
@click.argument("messages", nargs=-1, required=True)
@click.option("--failed", metavar="REASON", help="It could not be done: it becomes a dead letter.")
@click.option("--release", is_flag=True, help="Give it back untouched, for the next poll.")
def ack(
    call: Call, *, session: str, messages: tuple[str, ...], failed: str | None, release: bool
) -> None:
    """Say what became of MESSAGES to the agent, named by number or id: they are done.

    The first word on a message counts.
    """
    if failed is not None and release:
        raise Invalid("mail is failed or given back, not both", hint="leave one out")
    container = containing(call, session)
    ids = list(dict.fromkeys(_inbound_id(container, message) for message in messages))
    if release:
        container.release(ids)
    elif failed is not None:
        container.fail(ids, failed)
    else:
        container.complete(ids)
    if call.as_json:
        word = "released" if release else "completed" if failed is None else "failed"
        document(session=container.context.session, **{word: ids})
        return
    for message_id in ids:
        write(message_id)


def _inbound_id(container: Container, message: str) -> str:
    found = container.mail(message_ref(message))
    if not isinstance(found, Mail):
        msg = f"{message} is mail from the agent"
        raise Invalid(msg, hint="even numbers are mail to the agent: those can be acknowledged")
    return found.id

"""`threadkeep mail ncl`: a command of the host, asked for from the agent's side."""

import click

from threadkeep.cli.command import SECONDS, Call, command
from threadkeep.cli.mail.group import containing, session_argument
from threadkeep.cli.output import document, json_text, write
from threadkeep.mailbox.commands import read_typed
from threadkeep.mailbox.container.requests import run_command


@command(
    "ncl",
    "threadkeep mail ncl last tasks list",
    'threadkeep mail ncl ./box tasks create --prompt "Feed the cat" --recurrence "0 9 * * *"',
    "threadkeep mail ncl last help create",
)
@session_argument
@click.option(
    "--timeout",
    type=SECONDS,
    default=30.0,
    show_default=True,
    help="Seconds to wait for it.",
)
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED)
def ncl(call: Call, *, session: str, timeout: float, words: tuple[str, ...]) -> None:
    """Run a host command as the agent, mostly `tasks …`, and print the answer.

    This is what `ncl` does inside NanoClaw's containers. Flags of the command follow its WORDS.
    A host must be running (`threadkeep mail serve`), for it is the host that answers.
    """
    typed, flags = read_typed(words)
    answer = run_command(containing(call, session).context, typed, flags, timeout)
    if call.as_json:
        document(data=answer.data)
    else:
        write(json_text(answer.data) if answer.human is None else answer.human)


ncl.context_settings = {"ignore_unknown_options": True}

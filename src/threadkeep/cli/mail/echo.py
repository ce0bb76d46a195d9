"""`threadkeep mail echo`: the smallest agent there is, to try a host with."""

import os
import signal

import click

from threadkeep.base.clock import now_ms
from threadkeep.cli.command import SECONDS, Call, command
from threadkeep.cli.ending import ended_by_signals
from threadkeep.cli.mail.group import containing, optional_session
from threadkeep.cli.mail.words import Json
from threadkeep.cli.output import document, note
from threadkeep.mailbox.container.agent_loop import run_agent
from threadkeep.mailbox.container.container import Container, open_here
from threadkeep.mailbox.records import Mail

_LATER_MS = 1000


@command(
    "echo",
    'threadkeep mail serve --agent "threadkeep mail echo" --channel-log out.jsonl',
    "threadkeep mail echo ./box",
)
@optional_session
@click.option(
    "--every", type=SECONDS, default=0.2, show_default=True, help="Seconds between two looks."
)
def echo(call: Call, *, session: str | None, every: float) -> None:
    """Work as an agent that answers every message with its own words, until it is ended.

    Without SESSION in the folder that THREADKEEP_MAIL names. A file comes back in capitals. `ask …`
    asks back with buttons, `remind …` sets a task for a second later, and `crash …` kills the agent
    the first time it tries.
    """
    container = open_here() if session is None else containing(call, session)
    told = EchoAgent(container)
    with container, ended_by_signals() as stop:
        note(f"the echo agent works in {container.context.folder.path}")
        run_agent(container, told.answer, stop=stop, every=every, provider="echo")
    if call.as_json:
        document(folder=container.context.folder.path, answered=told.count)


class EchoAgent:
    """What the echo agent says to the mail it is told."""

    def __init__(self, container: Container) -> None:
        self.count = 0
        self._container = container

    def answer(self, mails: list[Mail]) -> str | None:
        """Answer all mail of one turn."""
        self.count += len(mails)
        lines = [line for mail in mails if (line := self._answer_one(mail)) is not None]
        return "\n".join(lines) or None

    def _answer_one(self, mail: Mail) -> str | None:
        said = mail.content
        if said.get("type") == "question_response":
            return f"You chose: {said.get('selectedOption')}"
        if not mail.trigger:
            return None
        if mail.kind == "task":
            return f"Done: {mail.text}"
        if mail.text.startswith("crash ") and mail.tries == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        if mail.text.startswith("ask "):
            self._container.ask(mail.text[4:], ["Yes", "No"], title="The echo asks")
            return None
        if mail.text.startswith("remind "):
            self._container.schedule(mail.text[7:], process_after=now_ms() + _LATER_MS)
            return f"I will: {mail.text[7:]}"
        return self._echo(mail, said)

    def _echo(self, mail: Mail, said: Json) -> str | None:
        files = said.get("attachments")
        names = [one["name"] for one in files or () if isinstance(one, dict) and "name" in one]
        if not names:
            return f"Echo: {mail.text}"
        data = [(name, self._container.attachment(mail, name).upper()) for name in names]
        self._container.send(f"Echo: {mail.text}", files=data, in_reply_to=mail.id)
        return None

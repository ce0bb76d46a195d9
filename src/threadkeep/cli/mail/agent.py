"""`threadkeep mail poll`, `ack` and `echo`: the agent's side."""

import base64
import os
import shlex
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from threadkeep import Home, Mailroom
from threadkeep.base.clock import now_ms
from threadkeep.cli.command import SECONDS, Call, command, program
from threadkeep.cli.mail import group
from threadkeep.cli.options import limit_option
from threadkeep.cli.output import document, json_text, note, one_line, table, write
from threadkeep.cli.signals import ended_by_signals, stopped_by_signals
from threadkeep.errors import Invalid, ThreadkeepError
from threadkeep.mailbox.adapters import FileAdapter, Outgoing
from threadkeep.mailbox.commands import read_typed
from threadkeep.mailbox.container.agent_loop import run_agent
from threadkeep.mailbox.container.container import Container, open_here
from threadkeep.mailbox.container.inbox import poll as poll_mail
from threadkeep.mailbox.context import Policy
from threadkeep.mailbox.host.sweep import SweepReport
from threadkeep.mailbox.index_records import MailboxSession
from threadkeep.mailbox.records import Mail
from threadkeep.mailbox.runner import ProcessRunner


@command(
    "poll", "threadkeep mail poll last", "threadkeep mail poll ./box --claim --json", lists=True
)
@group.session_argument
@click.option("--claim", is_flag=True, help="Claim the mail; `ack` then reports how it went.")
@click.option("--first", is_flag=True, help="Include mail that is due only when the agent starts.")
@limit_option(10, "At most N.")
def poll(call: Call, *, session: str, claim: bool, first: bool, limit: int) -> None:
    """Show the mail waiting for the agent, oldest first, as the agent would get it."""
    ctx = group.looking(call, session)
    found = poll_mail(ctx, max(limit, 0), first=first)
    claimed = group.containing(call, session).claim(found) if claim else []
    shown = [mail for mail in found if not claim or mail.id in claimed]
    if call.as_json:
        call.answer(
            "mail",
            session=ctx.session,
            mail=[group.mail_json(mail) for mail in shown],
            claimed=claimed,
        )
        return
    columns = ("number", "id", "kind", "place", "text")
    table(columns, [_row(mail) for mail in shown], wide="text", spare=("place", "kind"))
    if not shown:
        note("No mail is waiting for the agent")


def _row(mail: Mail) -> tuple[str, ...]:
    return (
        str(mail.seq),
        str(mail.id),
        str(mail.kind),
        group.place_text(mail.place),
        group.words_of(mail.content),
    )


@command(
    "ack",
    "threadkeep mail ack last msg-17",
    'threadkeep mail ack last 4 --failed "the file is not there"',
    "threadkeep mail ack ./box 4 6 --release",
)
@group.session_argument
@click.argument("messages", nargs=-1, required=True)
@click.option("--failed", metavar="REASON", help="Report failure: it becomes a dead letter.")
@click.option("--release", is_flag=True, help="Release it untouched for the next poll.")
def ack(
    call: Call, *, session: str, messages: tuple[str, ...], failed: str | None, release: bool
) -> None:
    """Acknowledge MESSAGES to the agent, by number or id, as done.

    The first acknowledgement of a message counts.
    """
    if failed is not None and release:
        raise Invalid("use --failed or --release, not both", hint="leave one out")
    container = group.containing(call, session)
    ids = list(dict.fromkeys(_inbound_id(container, message) for message in messages))
    if release:
        container.release(ids)
    elif failed is not None:
        container.fail(ids, failed)
    else:
        container.complete(ids)
    if call.as_json:
        word = "released" if release else "completed" if failed is None else "failed"
        document(session=container.session, **{word: ids})
        return
    for message_id in ids:
        write(message_id)


def _inbound_id(container: Container, message: str) -> str:
    found = container.mail(group.message_ref(message))
    if not isinstance(found, Mail):
        msg = f"{message} is mail from the agent"
        raise Invalid(msg, hint="even numbers are mail to the agent: those can be acknowledged")
    return found.id


# ------------------------------------------------------------------------------
# `threadkeep mail echo`: the smallest agent there is, to try a host with.

_LATER_MS = 1000


@command(
    "echo",
    'threadkeep mail serve --agent "threadkeep mail echo" --channel-log out.jsonl',
    "threadkeep mail echo ./box",
)
@group.optional_session
@click.option(
    "--every", type=SECONDS, default=0.2, show_default=True, help="Seconds between two looks."
)
def echo(call: Call, *, session: str | None, every: float) -> None:
    """Run an agent that echoes every message, until stopped.

    Default SESSION: the folder in THREADKEEP_MAIL. A file is returned in capitals. `ask …` asks
    back with buttons, `remind …` schedules a task one second later, and `crash …` kills the agent
    on its first attempt.
    """
    container = open_here() if session is None else group.containing(call, session)
    told = EchoAgent(container)
    with container, ended_by_signals() as stop:
        note(f"the echo agent works in {container.path}")
        run_agent(container, told.answer, stop=stop, every=every, provider="echo")
    if call.as_json:
        document(folder=container.path, answered=told.count)


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

    def _echo(self, mail: Mail, said: group.Json) -> str | None:
        files = said.get("attachments")
        names = [one["name"] for one in files or () if isinstance(one, dict) and "name" in one]
        if not names:
            return f"Echo: {mail.text}"
        data = [(name, self._container.attachment(mail, name).upper()) for name in names]
        self._container.send(f"Echo: {mail.text}", files=data, in_reply_to=mail.id)
        return None


# ------------------------------------------------------------------------------
# `threadkeep mail ncl`: a command of the host, asked for from the agent's side.


@command(
    "ncl",
    "threadkeep mail ncl last tasks list",
    'threadkeep mail ncl ./box tasks create --prompt "Feed the cat" --recurrence "0 9 * * *"',
    "threadkeep mail ncl last help create",
)
@group.session_argument
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

    This is what `ncl` does inside NanoClaw's containers. Flags of the command follow its WORDS. A
    host must be running (`threadkeep mail serve`) to answer.
    """
    typed, flags = read_typed(words)
    answer = group.containing(call, session).run_command(typed, flags, timeout)
    if call.as_json:
        document(data=answer.data)
    else:
        write(json_text(answer.data) if answer.human is None else answer.human)


ncl.context_settings = {"ignore_unknown_options": True}


# ------------------------------------------------------------------------------
# `threadkeep mail demo`: a host and an echo agent, two processes, exchanging mail live.

_AGENT = (sys.executable, "-m", "threadkeep", "mail", "echo", "--every", "0.1")
_CHANNEL, _CHAT = "demo", "you"
_PAUSE = 0.05
_PATIENCE = 60.0
_FILE = "note.txt"


@command("demo", "threadkeep mail demo", "threadkeep mail demo --keep ./try")
@click.option("--keep", metavar="FOLDER", help="Keep the mailroom in this folder.")
def demo(call: Call, *, keep: str | None) -> None:
    """Exchange mail between a host and an echo agent in another process.

    A greeting, a question with buttons, a file, a task for later, and an agent killed in the middle
    of its work. The demo stops on its own.
    """
    with _place(keep) as folder, ProcessRunner(_AGENT) as runner, stopped_by_signals():
        channel = Channel(folder / "channel.jsonl", quiet=call.as_json)
        room = Home(folder).mailroom(
            adapters={_CHANNEL: channel}, runner=runner, policy=Policy(backoff_s=1)
        )
        with room:
            session = room.new_session("echo", _CHANNEL, _CHAT)
            note(f"the host is process {os.getpid()}; the mailbox is {room.folder(session).path}\n")
            talk = Talk(room, session, channel)
            talk.play()
        if call.as_json:
            kept = folder if keep else None
            document(session=session.id, folder=kept, said=talk.said, heard=channel.texts())
        if keep:
            _what_next(folder)


@contextmanager
def _place(keep: str | None) -> Iterator[Path]:
    if keep is not None:
        yield Path(keep).absolute()
        return
    with tempfile.TemporaryDirectory(prefix="threadkeep-mail-") as folder:
        yield Path(folder)


class Channel:
    """The channel of the demo: keeps each message in a file, once, and shows it."""

    honours_key = True

    def __init__(self, path: Path, *, quiet: bool) -> None:
        self.heard: list[Outgoing] = []
        self.quiet = quiet
        self._file = FileAdapter(path)

    def send(self, mail: Outgoing) -> str | None:
        """Keep a message, and show it."""
        name = self._file.send(mail)
        self.heard.append(mail)
        files = "".join(f" [{file.name}: {_peek(file.data)}]" for file in mail.files)
        self.show("agent → you", mail.seq, group.words_of(mail.content) + files)
        return name

    def show(self, way: str, number: int | None, text: str) -> None:
        """Show a message of either direction."""
        if not self.quiet:
            write(f"{way:<13}", "cyan" if way.startswith("you") else "green", end="")
            write(f"#{number:<4} {one_line(text)}")

    def texts(self) -> list[str]:
        """Return what was heard, in order."""
        return [group.words_of(mail.content) for mail in self.heard]


def _peek(data: bytes) -> str:
    return data.decode("utf-8", "replace").strip()


class Talk:
    """The host's part of the demo: says something, and works until the answer is there."""

    def __init__(self, room: Mailroom, session: MailboxSession, channel: Channel) -> None:
        self.said: list[str] = []
        self._room = room
        self._session = session
        self._channel = channel
        self._deadline = time.monotonic() + _PATIENCE

    def play(self) -> None:
        """Play all scenes."""
        self._say("Hello")
        self._until("Echo: Hello")
        self._say("ask Shall we continue?")
        question = self._wait(lambda: next(iter(self._questions()), None))
        self._show_said("[presses the button: Yes]", self._room.answer(question, "Yes").seq)
        self._until("You chose: Yes")
        data = base64.b64encode(b"kept safe\n").decode()
        self._say("A file", attachments=[{"name": _FILE, "type": "file", "data": data}])
        self._until("Echo: A file")
        self._say("remind say goodbye")
        self._until("Done: say goodbye")
        self._say("crash while you work on this")
        self._until("Echo: crash while you work on this")

    def _say(self, text: str, **more: Any) -> None:
        (mail,) = self._room.receive(_CHANNEL, _CHAT, text, sender="you", **more)
        files = "".join(f" [{file['name']}]" for file in more.get("attachments", ()))
        self._show_said(text + files, mail.seq)

    def _show_said(self, text: str, number: int | None) -> None:
        self.said.append(text)
        self._channel.show("you → agent", number, text)

    def _questions(self) -> Iterator[str]:
        for mail in self._channel.heard:
            if "questionId" in mail.content:
                yield str(mail.content["questionId"])

    def _until(self, text: str) -> None:
        self._wait(lambda: text if text in self._channel.texts() else None)

    def _wait(self, found: Callable[[], str | None]) -> str:
        """Do the host's regular work until something is there."""
        while (there := found()) is None:
            if time.monotonic() > self._deadline:
                raise ThreadkeepError(f"the agent was silent for {_PATIENCE:.0f} s")
            self._room.deliver(self._session)
            self._tell(self._room.sweep(self._session)[self._session.id])
            time.sleep(_PAUSE)
        return there

    def _tell(self, swept: SweepReport) -> None:
        if swept.reset is not None and swept.reset.retried:
            note("the agent died with mail in hand; the host gives it out again in a second")
        if swept.started:
            note("the host starts the agent")


def _what_next(folder: Path) -> None:
    mail = f"{program(sys.argv[0])} --home {shlex.quote(str(folder))} mail"
    note(f"\nThe mailroom is in {folder}. Try next:")
    for words in ("ls", "ls last", "trace last 10", "verify --all"):
        write(f"  {mail} {words}", err=True)

"""`threadkeep mail demo`: a host and an echo agent, two processes, exchanging mail live."""

import base64
import os
import shlex
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from threadkeep import Home, Mailroom
from threadkeep.cli.command import Call, command
from threadkeep.cli.demo import program
from threadkeep.cli.ending import stopped_by_signals
from threadkeep.cli.mail.words import words_of
from threadkeep.cli.output import document, note, one_line, write
from threadkeep.errors import ThreadkeepError
from threadkeep.mailbox.adapters import FileAdapter, Outgoing
from threadkeep.mailbox.context import Policy
from threadkeep.mailbox.host.sweep import SweepReport
from threadkeep.mailbox.index_records import MailboxSession
from threadkeep.mailbox.runner import ProcessRunner

_AGENT = (sys.executable, "-m", "threadkeep", "mail", "echo", "--every", "0.1")
_CHANNEL, _CHAT = "demo", "you"
_PAUSE = 0.05
_PATIENCE = 60.0
_FILE = "note.txt"


@command("demo", "threadkeep mail demo", "threadkeep mail demo --keep ./try")
@click.option("--keep", metavar="FOLDER", help="Leave the mailroom there, to look into.")
def demo(call: Call, *, keep: str | None) -> None:
    """Exchange mail between a host and an echo agent in a process of its own.

    A greeting, a question with buttons, a file, a task for later, and an agent that is killed in
    the middle of its work. It ends by itself.
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
        self.show("agent → you", mail.seq, words_of(mail.content) + files)
        return name

    def show(self, way: str, number: int | None, text: str) -> None:
        """Show a message of either direction."""
        if not self.quiet:
            write(f"{way:<13}", "cyan" if way.startswith("you") else "green", end="")
            write(f"#{number:<4} {one_line(text)}")

    def texts(self) -> list[str]:
        """Give what was heard, in order."""
        return [words_of(mail.content) for mail in self.heard]


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
        self._say("ask Shall we go on?")
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

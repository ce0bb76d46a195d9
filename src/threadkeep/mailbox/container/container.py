"""The container's side of one session folder: takes mail, answers for it, sends mail of its own."""

import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Self

from threadkeep.base.clock import Clock, now_ms, zone_name
from threadkeep.base.presence import ExclusiveLock
from threadkeep.mailbox.arguments import need_text
from threadkeep.mailbox.commands import CommandReply
from threadkeep.mailbox.container import agent_loop, inbox, outbound, requests
from threadkeep.mailbox.container.agent_loop import Handler
from threadkeep.mailbox.context import DEFAULT, MailContext, Policy
from threadkeep.mailbox.folder import Folder, bring_up_outbound
from threadkeep.mailbox.host.sweep import PrunedMail, prune
from threadkeep.mailbox.records import Destination, Json, Mail, OutMail, Place

Moment = datetime | str | int
Which = str | Mail
COMMAND_S: Final = 30.0  # as long as `ncl` waits for its answer


class Container:
    """The container's side of one session; several processes may each have one.

    The one that runs the agent calls `start` first.
    """

    def __init__(
        self,
        folder: str | Path | Folder,
        *,
        clock: Clock = now_ms,
        zone: str = "UTC",
        policy: Policy = DEFAULT,
    ) -> None:
        """Open the container's side of a folder that the host has made."""
        place = (folder if isinstance(folder, Folder) else Folder(folder)).need()
        place.outbound.takes_turns = True
        bring_up_outbound(place)
        group, session = inbox.names(place)
        self.context = MailContext(place, clock, zone, policy, group, session).checked()
        self._first = True
        self._alone: ExclusiveLock | None = None
        self._language = requests.Language()

    # ------------------------------------------------------------------ life

    @property
    def session(self) -> str:
        """The session whose mail this is."""
        return self.context.session

    @property
    def path(self) -> Path:
        """The folder of the session."""
        return self.context.folder.path

    def start(self, provider: str = "claude") -> int:
        """Begin to work for the session, alone; give how many orphaned claims were released.

        Claims of an earlier life are released: the mail comes again. A second container in the
        same folder is refused as long as this one lives.
        """
        need_text(provider, "provider")
        if self._alone is None:
            self._alone = ExclusiveLock(self.context.folder.agent_lock_path, "an agent")
        self._first = True
        self._language.forget()
        return inbox.start(self.context, provider)

    def stop(self) -> None:
        """Let another container work in the folder."""
        if self._alone is not None:
            self.context.folder.forget_heartbeat()  # or it would count as the life of another
            self._alone.close()
            self._alone = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def beat(self) -> None:
        """Show a sign of life; the host ends a container that shows none for long."""
        self.context.folder.beat()

    def run(
        self,
        handler: Handler,
        *,
        stop: threading.Event,
        every: float = 1.0,
        provider: str = "claude",
    ) -> None:
        """Work on mail with `handler`, one turn at a time, until `stop` is set."""
        agent_loop.run_agent(self, handler, stop=stop, every=every, provider=provider)

    # ------------------------------------------------------------------ mail to the agent

    def poll(self, limit: int | None = None) -> list[Mail]:
        """Give the oldest mail that is due and in nobody's hands.

        Mail for the moment of waking comes with the first poll only.
        """
        most = self.context.policy.prompt_mails if limit is None else limit
        found = inbox.poll(self.context, most, first=self._first)
        self._first = False  # only now: a poll that failed was none
        return found

    def triggered(self) -> bool:
        """Tell whether any mail that is due wants an answer, not only to be known."""
        return inbox.triggered(self.context, first=self._first)

    def system_mail(self) -> list[Mail]:
        """Give the open answers and other mail for the program itself."""
        return inbox.system_mail(self.context)

    def claim(self, mails: Iterable[Which]) -> list[str]:
        """Take mail in hand; give the ids that are ours now.

        What somebody else has, or had often enough, is left out; the latter is given up.
        """
        return inbox.claim(self.context, mails)

    def complete(self, mails: Iterable[Which]) -> None:
        """Say that mail was dealt with."""
        inbox.finish(self.context, mails, "completed", None)

    def fail(self, mails: Iterable[Which], reason: str) -> None:
        """Say that mail could not be dealt with, and why; it is not tried again by itself."""
        inbox.finish(self.context, mails, "failed", reason)

    def release(self, mails: Iterable[Which]) -> int:
        """Give mail back untouched, for the next poll."""
        return inbox.release(self.context, mails)

    # ------------------------------------------------------------------ mail from the agent

    def send(
        self,
        text: str,
        *,
        to: str | None = None,
        files: Sequence[str | Path | tuple[str, bytes]] = (),
        in_reply_to: str | None = None,
        deliver_after: Moment | None = None,
        unless_said: float | None = None,
        id: str | None = None,  # noqa: A002  (the column's name)
    ) -> OutMail:
        """Send a chat message, to a name of `destinations` or to where the session's mail goes.

        It answers the newest message from there unless `in_reply_to` names another. With
        `unless_said`, the same words in answer to the same message within so many seconds are
        sent once.
        """
        return outbound.send(
            self.context,
            text,
            to=to,
            files=files,
            in_reply_to=in_reply_to,
            deliver_after=deliver_after,
            unless_said=unless_said,
            message_id=id,
        )

    def edit(self, seq: int, text: str) -> OutMail:
        """Change a message by its number."""
        return outbound.edit(self.context, seq, text)

    def react(self, seq: int, emoji: str) -> OutMail:
        """React to a message by its number."""
        return outbound.react(self.context, seq, emoji)

    def card(self, card: Json, fallback: str, *, to: str | None = None) -> OutMail:
        """Send a card, with text for channels that cannot show one."""
        return outbound.card(self.context, card, fallback, to)

    def insert_message(self, kind: str, content: Json | str, place: Place, **more: Any) -> OutMail:
        """Write any outbound row; the other verbs are this with a shape."""
        return outbound.put(self.context, kind, content, place, **more)

    # ------------------------------------------------------------------ questions

    def ask(
        self,
        question: str,
        options: Sequence[str | Json],
        *,
        title: str = "Question",
        to: str | None = None,
    ) -> str:
        """Ask a question with buttons; give its id, for `answer` and `wait_for_answer`."""
        return requests.ask(self.context, question, options, title, to)

    def answer(self, question_id: str) -> Json | None:
        """Give the answer to a question if it is there, and be done with it."""
        return requests.answer(self.context, question_id)

    def wait_for_answer(self, question_id: str, timeout: float = 300.0) -> Json | None:
        """Wait for the answer to a question; None if nobody answers in time."""
        return requests.wait_for_answer(self.context, question_id, timeout)

    # ------------------------------------------------------------------ tasks

    def schedule(
        self,
        prompt: str,
        *,
        process_after: Moment | None = None,
        recurrence: str | None = None,
        script: str | None = None,
        name: str | None = None,
        often: bool = False,
        timeout: float = COMMAND_S,
    ) -> str:
        """Ask the host for a task of our own, later or again and again; give its id.

        A host that is not ours is waited for, `timeout` seconds at most: it makes the id, of the
        `name`. Later hosts refuse more than four runs a day without a script unless `often`.
        """
        return requests.schedule(
            self.context,
            self._language,
            prompt,
            process_after,
            recurrence,
            script,
            name=name,
            often=often,
            timeout=timeout,
        )

    def cancel_task(self, task_id: str, *, timeout: float = COMMAND_S) -> OutMail:
        """Ask the host to drop a task, with all its later runs."""
        return self._on_task("cancel_task", task_id, timeout)

    def pause_task(self, task_id: str, *, timeout: float = COMMAND_S) -> OutMail:
        """Ask the host to hold a task."""
        return self._on_task("pause_task", task_id, timeout)

    def resume_task(self, task_id: str, *, timeout: float = COMMAND_S) -> OutMail:
        """Ask the host to go on with a task."""
        return self._on_task("resume_task", task_id, timeout)

    def _on_task(self, action: str, task_id: str, timeout: float) -> OutMail:
        return requests.on_task(self.context, self._language, action, task_id, timeout)

    def update_task(
        self, task_id: str, /, *, timeout: float = COMMAND_S, **changes: Any
    ) -> OutMail:
        """Ask the host to change prompt, script, process_after or recurrence of a task."""
        return requests.update_task(self.context, self._language, task_id, changes, timeout)

    def command(
        self, words: str, flags: Mapping[str, Any] | None = None, *, timeout: float = COMMAND_S
    ) -> Any:
        """Run a command of the host, as `ncl` would, and give what it answers.

        Raise CommandRefused with its code if the host refuses it, Busy if it does not answer.
        """
        return self.run_command(words, flags or {}, timeout).data

    def run_command(self, words: str, flags: Mapping[str, Any], timeout: float) -> CommandReply:
        """Do the same; give also the words to print, if the host has any."""
        return requests.run_command(self.context, words, flags, timeout)

    def act(self, action: str, /, **fields: Any) -> OutMail:
        """Ask the host for anything else it knows how to do."""
        return outbound.act(self.context, action, **fields)

    def tasks(self) -> list[Mail]:
        """List the tasks of this folder that are still to come.

        Later NanoClaw hosts keep them elsewhere: `command("tasks list")` gives those.
        """
        return inbox.tasks(self.context)

    # ------------------------------------------------------------------ what is known

    def mail(self, which: str | int) -> Mail | OutMail:
        """Give mail by its id or number: even numbers came in, odd ones went out."""
        return inbox.mail(self.context, which)

    def target(self, seq: int) -> tuple[str, Place]:
        """Give what the channel calls a message of either direction, and where it is.

        That is what an edit or a reaction needs.
        """
        return outbound.target_of(self.context, seq)

    def destinations(self) -> list[Destination]:
        """List the names that mail can be sent to."""
        return inbox.destinations(self.context)

    def routing(self) -> Place:
        """Give where mail goes that names no destination."""
        return inbox.routing(self.context)

    def attachment(self, mail: Mail, name: str) -> bytes:
        """Read a file that came with mail."""
        return inbox.attachment(self.context, mail, name)

    # ------------------------------------------------------------------ memory

    def get_state(self, key: str) -> str | None:
        """Give a value that was kept between starts."""
        return outbound.get_state(self.context, key)

    def set_state(self, key: str, value: str | None) -> None:
        """Keep a value between starts; None forgets it."""
        outbound.set_state(self.context, key, value)

    def clear(self) -> int:
        """Forget the conversations that would be continued; give how many there were."""
        return outbound.forget_conversations(self.context)

    def prune(
        self, *, older_than_ms: int | None = None, keep: int | None = None, dry_run: bool = False
    ) -> PrunedMail:
        """Remove old mail of ours that is delivered, by age, by how many stay, or by both."""
        return prune(self.context, older_than_ms, keep, dry_run=dry_run)

    def tool_started(self, tool: str, timeout_ms: int | None = None) -> None:
        """Tell the host which tool runs now, and for how long it may."""
        outbound.set_tool(self.context, tool, timeout_ms)

    def tool_ended(self) -> None:
        """Tell the host that no tool runs."""
        outbound.set_tool(self.context, None, None)


def open_here(environ: Mapping[str, str] | None = None) -> Container:
    """Open the mailbox of the sandbox this program runs in: THREADKEEP_MAIL, else /workspace.

    Times without a zone are meant in that of the sandbox: TZ, else the system's, else UTC.
    """
    names = os.environ if environ is None else environ
    place = names.get("THREADKEEP_MAIL", "/workspace")
    return Container(place, zone=zone_name(None, names))

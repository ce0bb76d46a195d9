"""The container's side of one session folder: takes mail, answers for it, sends mail of its own."""

import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Self

from threadkeep.base.clock import Clock, now_ms, zone_name
from threadkeep.base.presence import ExclusiveLock
from threadkeep.base.verbs import calls
from threadkeep.mailbox.arguments import need_text
from threadkeep.mailbox.container import agent_loop, inbox, outbound, requests
from threadkeep.mailbox.container.agent_loop import Handler
from threadkeep.mailbox.context import DEFAULT, MailContext, Policy
from threadkeep.mailbox.folder import Folder, bring_up_outbound
from threadkeep.mailbox.host import sweep as sweeps
from threadkeep.mailbox.records import Json, Mail, OutMail, Place

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
        """Start as the session's only container; return how many orphaned claims were released.

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
        """Write a heartbeat; the host stops a container without one for too long."""
        self.context.folder.beat()

    def run(
        self,
        handler: Handler,
        *,
        stop: threading.Event,
        every: float = 1.0,
        provider: str = "claude",
    ) -> None:
        """Process mail with `handler`, one turn at a time, until `stop` is set."""
        agent_loop.run_agent(self, handler, stop=stop, every=every, provider=provider)

    # ------------------------------------------------------------------ mail to the agent

    def poll(self, limit: int | None = None) -> list[Mail]:
        """Return the oldest mail that is due and not claimed.

        Mail for the moment of waking comes with the first poll only.
        """
        most = self.context.policy.prompt_mails if limit is None else limit
        found = inbox.poll(self.context, most, first=self._first)
        self._first = False  # only now: a poll that failed was none
        return found

    def triggered(self) -> bool:
        """Return whether any due mail should wake the agent."""
        return inbox.triggered(self.context, first=self._first)

    system_mail = calls(inbox.system_mail)
    claim = calls(inbox.claim)

    def complete(self, mails: Iterable[Which]) -> None:
        """Mark mail as completed."""
        inbox.finish(self.context, mails, "completed", None)

    def fail(self, mails: Iterable[Which], reason: str) -> None:
        """Mark mail as failed, with a reason; it is not retried automatically."""
        inbox.finish(self.context, mails, "failed", reason)

    release = calls(inbox.release)

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

    edit = calls(outbound.edit)
    react = calls(outbound.react)
    card = calls(outbound.card)

    def insert_message(self, kind: str, content: Json | str, place: Place, **more: Any) -> OutMail:
        """Write any outbound row; the other verbs are this with a shape."""
        return outbound.put(self.context, kind, content, place, **more)

    # ------------------------------------------------------------------ questions

    ask = calls(requests.ask)
    answer = calls(requests.answer)
    wait_for_answer = calls(requests.wait_for_answer)

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
        """Request a task for the agent itself, once or recurring; return its id.

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
        """Ask the host to cancel a task, with all its later runs."""
        return self._on_task("cancel_task", task_id, timeout)

    def pause_task(self, task_id: str, *, timeout: float = COMMAND_S) -> OutMail:
        """Ask the host to put a task on hold."""
        return self._on_task("pause_task", task_id, timeout)

    def resume_task(self, task_id: str, *, timeout: float = COMMAND_S) -> OutMail:
        """Ask the host to resume a task."""
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
        """Run a command of the host, as `ncl` would, and return its answer.

        Raise CommandRefused with its code if the host refuses it, Busy if it does not answer.
        """
        return self.run_command(words, flags or {}, timeout).data

    run_command = calls(requests.run_command)

    def act(self, action: str, /, **fields: Any) -> OutMail:
        """Request any other action that the host has registered."""
        return outbound.act(self.context, action, **fields)

    tasks = calls(inbox.tasks)

    # ------------------------------------------------------------------ what is known

    mail = calls(inbox.mail)
    target = calls(outbound.target_of)
    destinations = calls(inbox.destinations)
    routing = calls(inbox.routing)
    attachment = calls(inbox.attachment)

    # ------------------------------------------------------------------ memory

    get_state = calls(outbound.get_state)
    set_state = calls(outbound.set_state)
    clear = calls(outbound.forget_conversations)
    prune = calls(sweeps.prune)

    def tool_started(self, tool: str, timeout_ms: int | None = None) -> None:
        """Tell the host which tool is running, and how long it may take."""
        outbound.set_tool(self.context, tool, timeout_ms)

    def tool_ended(self) -> None:
        """Tell the host that no tool is running."""
        outbound.set_tool(self.context, None, None)


def open_here(environ: Mapping[str, str] | None = None) -> Container:
    """Open the mailbox of the sandbox this program runs in: THREADKEEP_MAIL, else /workspace.

    Times without a zone are meant in that of the sandbox: TZ, else the system's, else UTC.
    """
    names = os.environ if environ is None else environ
    place = names.get("THREADKEEP_MAIL", "/workspace")
    return Container(place, zone=zone_name(None, names))

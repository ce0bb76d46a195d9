"""What an agent may ask of its host: mail of kind `system`.

An action may be done again after a crash, with a message of the same key; those here have no
second effect then, and handlers that are registered must not have one either.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, NoReturn, Protocol

from threadkeep.errors import Invalid
from threadkeep.mailbox import commands, content as shapes, inbound, tasks
from threadkeep.mailbox.adapters import Adapter, Outgoing, Refused, Sent, ToldByAnswer
from threadkeep.mailbox.context import MailContext
from threadkeep.mailbox.records import Json, OutMail, Place
from threadkeep.mailbox.task_commands import COMMANDS

Handler = Callable[[MailContext, Outgoing], None]
COMMAND: Final = "cli_request"
_SHOWN: Final = 200


def act(
    ctx: MailContext,
    mail: Outgoing,
    handlers: Mapping[str, Handler],
    others: commands.Others = tuple,
) -> None:
    """Do what a message asks for; what cannot be done is refused with the reason.

    `others` gives the agent's other sessions, in which its commands find tasks, too.
    """
    action = mail.content.get("action")
    if not isinstance(action, str) or not action:
        raise Refused("it names no action", hint='send {"action": …}')
    handler = _OURS.get(action) or handlers.get(action)
    if handler is None and action == COMMAND:
        commands.answer(ctx, mail, COMMANDS, others)
        return
    if handler is None:
        known = ", ".join(sorted({*_OURS, COMMAND, *handlers}))
        _refuse_unknown(ctx, mail, f"unknown action {action[:80]!r}", f"this host knows {known}")
    try:
        handler(ctx, mail)
    except Refused:
        raise
    except Invalid as error:
        raise Refused(f"{action}: {error.message}", hint=error.hint) from error


def _refuse_unknown(ctx: MailContext, mail: Outgoing, what: str, hint: str) -> NoReturn:
    """Tell whoever waits for an answer in one; nobody else is told by it."""
    refused = Refused(what, hint=hint)
    if not mail.content.get("requestId"):
        raise refused
    commands.write_frame(ctx, mail, commands.refusal(mail, "unknown-command", str(refused)))
    raise ToldByAnswer(what, hint=hint)


def _schedule(ctx: MailContext, mail: Outgoing) -> None:
    said = mail.content
    task_id = _task_id(said)
    prompt, script = _text(said, "prompt") or "", _text(said, "script")
    if _is_scheduled(ctx, task_id, prompt, script):
        return
    place = Place(_text(said, "channelType"), _text(said, "platformId"), _text(said, "threadId"))
    cron = _text(said, "recurrence") or None
    ours = cron is not None and said.get("firstRun") == shapes.FROM_RECURRENCE
    inbound.insert_task(
        ctx,
        prompt,
        process_after=None if ours else _text(said, "processAfter") or None,
        recurrence=cron,
        script=script,
        id=task_id,
        place=place if place.known else None,
    )


def _is_scheduled(ctx: MailContext, task_id: str, prompt: str, script: str | None) -> bool:
    """Tell whether this very task is there already, from before a crash."""
    with ctx.folder.inbound.read() as tx:
        there = inbound.find(tx, task_id)
    if there is None:
        return False
    known = there.content
    if (there.kind, known.get("prompt"), known.get("script")) == ("task", prompt, script):
        return True
    msg = f"schedule_task: there is other mail with the id {task_id[:80]!r}"
    raise Refused(msg, hint="give each task an id of its own")


def _update(ctx: MailContext, mail: Outgoing) -> None:
    said = mail.content
    task_id = _task_id(said)
    changes: Json = {}
    for key, name in _CHANGES.items():
        if key in said:
            changes[name] = _text(said, key) or None
    for name in ("prompt", "process_after"):
        if name in changes and changes[name] is None:
            raise Refused(f"update_task: {name} cannot be empty", hint="give one, or leave it out")
    if not changes:
        hint = "give " + ", ".join(_CHANGES)
        raise Refused("update_task: nothing to change", hint=hint)
    _tell_if_none(ctx, mail, tasks.update(ctx, task_id, changes))


def _on_task(verb: Callable[[MailContext, str], int]) -> Handler:
    def handler(ctx: MailContext, mail: Outgoing) -> None:
        _tell_if_none(ctx, mail, verb(ctx, _task_id(mail.content)))

    return handler


def _tell_if_none(ctx: MailContext, mail: Outgoing, changed: int) -> None:
    if changed:
        return
    action, task_id = mail.content["action"], mail.content["taskId"][:_SHOWN]
    inbound.insert_message(
        ctx,
        "chat",
        shapes.note(f'{action}: no live task matched id "{task_id}".'),
        message_id=mail.derived_id("sys"),
        place=Place("agent", ctx.agent_group),
        trigger=False,
    )


def _task_id(said: Json) -> str:
    task_id = _text(said, "taskId")
    if not task_id:
        raise Refused(f"{said['action']}: it names no task", hint="give taskId")
    return task_id


def _text(said: Json, key: str) -> str | None:
    value: Any = said.get(key)
    if value is None or isinstance(value, str):
        return value
    kind = type(value).__name__
    raise Refused(f"{said['action']}: {key} must be text, not {kind}", hint="pass a string")


_CHANGES: Final = {
    "prompt": "prompt",
    "script": "script",
    "processAfter": "process_after",
    "recurrence": "recurrence",
}
_OURS: Final[Mapping[str, Handler]] = {
    "schedule_task": _schedule,
    "cancel_task": _on_task(tasks.cancel),
    "pause_task": _on_task(tasks.pause),
    "resume_task": _on_task(tasks.resume),
    "update_task": _update,
}


# ------------------------------------------------------------------------------
# The post office: whom the delivery of one session asks where a message goes.

SYSTEM = "system"
AGENT = "agent"
# What is meant for people; any other kind without a place is a record, and goes to nobody.
_FOR_PEOPLE = frozenset(("chat", "chat-sdk"))


class PostOffice(Protocol):
    """What a delivery needs to know; each verb may raise Refused or NotNow."""

    def adapter_for(self, channel_type: str) -> Adapter | None:
        """Return the channel of this type, None if there is none now."""

    def check(self, mail: Outgoing) -> None:
        """Refuse a message to where its agent may not send."""

    def pass_on(self, mail: Outgoing) -> str | None:
        """Bring a message to another agent; once, however often it is called."""

    def act(self, mail: Outgoing) -> None:
        """Do what the agent asks of the host; once, however often it is called."""

    def asked(self, mail: Outgoing) -> None:
        """Remember a question before it is sent; once, however often it is called."""

    def keep(self, mail: Outgoing) -> None:
        """Keep what goes to nobody; once, however often it is called."""


class Route(NamedTuple):
    """The way of one message, and what can be said of it after a crash."""

    send: Callable[[Outgoing], object]
    repeatable: bool
    was_sent: Callable[[str], Sent | bool | None] | None = None
    is_channel: bool = False


def is_record(mail: OutMail) -> bool:
    """Tell whether mail goes to nobody: a `task_log`, or a later kind that names no place."""
    return not mail.place.known and mail.kind != SYSTEM and mail.kind not in _FOR_PEOPLE


def route_of(post: PostOffice, mail: OutMail) -> Route | None:
    """Find the way of a message, None if its channel is not there now."""
    if mail.kind == SYSTEM:
        return Route(post.act, repeatable=True)
    if is_record(mail):
        return Route(post.keep, repeatable=True)
    if mail.place.channel_type == AGENT:
        return Route(post.pass_on, repeatable=True)
    adapter = post.adapter_for(mail.place.channel_type or "")
    if adapter is None:
        return None
    keeps_keys = getattr(adapter, "honours_key", False) is True
    ask = getattr(adapter, "was_sent", None)
    return Route(adapter.send, keeps_keys, ask if callable(ask) else None, is_channel=True)


class LocalPost:
    """The post office of a single folder: channels and tasks, no other agents.

    Without an index there is no list of who may send where: its channels carry everything.
    """

    def __init__(
        self,
        context: MailContext,
        adapters: Mapping[str, Adapter],
        handlers: Mapping[str, Handler] | None = None,
    ) -> None:
        self._context = context
        self._adapters = adapters
        self._handlers = handlers or {}

    def adapter_for(self, channel_type: str) -> Adapter | None:
        """Return the channel of this type."""
        return self._adapters.get(channel_type)

    def check(self, mail: Outgoing) -> None:
        """Refuse nothing."""

    def pass_on(self, mail: Outgoing) -> str | None:
        """Refuse: one folder knows no other agents."""
        msg = f"the agent {mail.place.platform_id!r} cannot be reached from here"
        raise Refused(msg, hint="deliver with a Mailroom, which knows all agents")

    def act(self, mail: Outgoing) -> None:
        """Do what the agent asks of the host."""
        act(self._context, mail, self._handlers)

    def asked(self, mail: Outgoing) -> None:
        """Remember nothing: whoever answers names the question."""

    def keep(self, mail: Outgoing) -> None:
        """Keep what a run of a task says of itself."""
        tasks.keep(self._context, mail)

"""The post office: whom the delivery of one session asks where a message goes."""

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from threadkeep.mailbox import actions, task_log
from threadkeep.mailbox.adapters import Adapter, Outgoing, Refused, Sent
from threadkeep.mailbox.context import MailContext
from threadkeep.mailbox.records import OutMail

SYSTEM = "system"
AGENT = "agent"
# What is meant for people; any other kind without a place is a record, and goes to nobody.
_FOR_PEOPLE = frozenset(("chat", "chat-sdk"))


class PostOffice(Protocol):
    """What a delivery needs to know; each verb may raise Refused or NotNow."""

    def adapter_for(self, channel_type: str) -> Adapter | None:
        """Give the channel of this type, None if there is none now."""

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
        handlers: Mapping[str, actions.Handler] | None = None,
    ) -> None:
        self._context = context
        self._adapters = adapters
        self._handlers = handlers or {}

    def adapter_for(self, channel_type: str) -> Adapter | None:
        """Give the channel of this type."""
        return self._adapters.get(channel_type)

    def check(self, mail: Outgoing) -> None:
        """Refuse nothing."""

    def pass_on(self, mail: Outgoing) -> str | None:
        """Refuse: one folder knows no other agents."""
        msg = f"the agent {mail.place.platform_id!r} cannot be reached from here"
        raise Refused(msg, hint="deliver with a Mailroom, which knows all agents")

    def act(self, mail: Outgoing) -> None:
        """Do what the agent asks of the host."""
        actions.act(self._context, mail, self._handlers)

    def asked(self, mail: Outgoing) -> None:
        """Remember nothing: whoever answers names the question."""

    def keep(self, mail: Outgoing) -> None:
        """Keep what a run of a task says of itself."""
        task_log.keep(self._context, mail)

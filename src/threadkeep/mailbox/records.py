"""What a mailbox holds, as plain values."""

from typing import Any, Literal

import msgspec

from threadkeep.base import json
from threadkeep.errors import Invalid

Direction = Literal["in", "out"]
DeliveryState = Literal["prepared", "sending", "sent", "failed", "unknown"]
Json = dict[str, Any]
# The channel of copies of what was said in a sibling session: to be read, never to be answered.
ECHO = "session-echo"


class Place(msgspec.Struct, frozen=True):
    """Where mail comes from or goes to; the chat of a channel `agent` is an agent group."""

    channel_type: str | None = None
    platform_id: str | None = None
    thread_id: str | None = None

    @property
    def known(self) -> bool:
        """Tell whether mail can be sent there at all: a copy from a sibling session is not."""
        return bool(self.channel_type and self.platform_id) and self.channel_type != ECHO

    def same_chat(self, other: "Place") -> bool:
        """Tell whether both are one chat, whatever the thread."""
        return (self.channel_type, self.platform_id) == (other.channel_type, other.platform_id)


class Mail(msgspec.Struct, frozen=True):
    """One row of messages_in: mail to the agent."""

    id: str
    seq: int | None
    kind: str
    timestamp: str
    status: str
    process_after: str | None
    recurrence: str | None
    series_id: str | None
    tries: int
    trigger: bool
    place: Place
    raw: str
    source_session_id: str | None
    on_wake: bool

    @property
    def content(self) -> Json:
        """What was said; text that is not a JSON object counts as the text of a chat."""
        return read_content(self.raw)

    @property
    def text(self) -> str:
        """The words in it: a chat's text or a task's prompt."""
        found = self.content
        said = found.get("text", found.get("prompt", ""))
        return said if isinstance(said, str) else ""


class OutMail(msgspec.Struct, frozen=True):
    """One row of messages_out: mail from the agent. `raw` is None if it is over the size limit."""

    id: str
    seq: int | None
    in_reply_to: str | None
    timestamp: str
    deliver_after: str | None
    kind: str
    place: Place
    raw: str | None

    @property
    def content(self) -> Json:
        """What was said; text that is not a JSON object counts as the text of a chat."""
        return read_content(self.raw or "")

    @property
    def text(self) -> str:
        """The words in it."""
        said = self.content.get("text", "")
        return said if isinstance(said, str) else ""


class Claim(msgspec.Struct, frozen=True):
    """A message in the container's hands; `tries` is None if the container counts none."""

    message_id: str
    claimed_at: str
    tries: int | None = None


class Destination(msgspec.Struct, frozen=True):
    """A name the agent may write to."""

    name: str
    display_name: str | None
    type: str
    channel_type: str | None = None
    platform_id: str | None = None
    agent_group_id: str | None = None

    @property
    def place(self) -> Place:
        """Where mail to this name goes."""
        if self.type == "agent":
            return Place("agent", self.agent_group_id)
        return Place(self.channel_type, self.platform_id)


class ToolState(msgspec.Struct, frozen=True):
    """The tool that the container runs now."""

    current_tool: str | None = None
    declared_timeout_ms: int | None = None
    started_at: str | None = None


class DeadLetter(msgspec.Struct, frozen=True):
    """Mail that will not be retried automatically, and why."""

    id: str
    seq: int | None
    direction: Direction
    state: str
    reason: str
    tries: int
    at: str
    retried_as: str | None
    text: str


class Delivery(msgspec.Struct, frozen=True):
    """Where one outbound message is on its way."""

    message_out_id: str
    seq: int | None
    state: DeliveryState
    key: str
    place: str
    attempts: int
    due: str | None
    held: bool
    reason: str | None
    changed: str


def read_content(raw: str) -> Json:
    """Read the JSON of a row; what is no object is shown as plain text."""
    try:
        found = json.decode(raw)
    except Invalid:
        found = None
    return found if isinstance(found, dict) else {"text": raw}

"""One neutral form of a conversation, between the programs that keep conversations."""

from collections.abc import Callable
from typing import Any, Literal

import msgspec

from threadkeep.knowledge.records import Image
from threadkeep.sources.copy_marks import copy_mark

Role = Literal["user", "assistant", "tool", "system"]


class ExportText(msgspec.Struct, frozen=True, tag="text"):
    """What was asked or answered."""

    text: str


class Reasoning(msgspec.Struct, frozen=True, tag="reasoning"):
    """What the agent thought."""

    text: str


class Summary(msgspec.Struct, frozen=True, tag="summary"):
    """What a compaction left of all that came before it."""

    text: str


class ExportNote(msgspec.Struct, frozen=True, tag="note"):
    """What a program put in: context in the user's name, or a notice that no model was shown."""

    text: str
    error: bool = False


class ToolCall(msgspec.Struct, frozen=True, tag="tool_call"):
    """What the agent did; its id is that of its result."""

    name: str
    id: str
    input: Any


class ToolResult(msgspec.Struct, frozen=True, tag="tool_result"):
    """What came back."""

    id: str
    output: str
    error: bool = False
    name: str = ""
    images: tuple[Image, ...] = ()


class Picture(msgspec.Struct, frozen=True, tag="image"):
    """What was shown."""

    image: Image


Block = ExportText | Reasoning | Summary | ExportNote | ToolCall | ToolResult | Picture


class ExportMessage(msgspec.Struct, frozen=True):
    """Blocks that one side said together."""

    role: Role
    blocks: tuple[Block, ...]
    at: int | None = None  # epoch milliseconds
    model: str = ""
    origin: str = ""  # where it was said, `harness:session_id`, if not in this very session


class ConversationInfo(msgspec.Struct, frozen=True):
    """What is known of a session beside what was said in it."""

    harness: str
    session_id: str
    title: str = ""
    cwd: str = ""
    git_branch: str = ""
    model: str = ""
    started_at: int | None = None


class Conversation(msgspec.Struct, frozen=True):
    """A session, whichever program it is of."""

    about: ConversationInfo
    messages: tuple[ExportMessage, ...] = ()

    def mark(self, message: ExportMessage | None = None) -> dict[str, Any]:
        """Give the field that marks what is written of a message, or of all, as a copy."""
        own = f"{self.about.harness}:{self.about.session_id}"
        said = own if message is None else message.origin or own
        return copy_mark(said, own)


class NewSession(msgspec.Struct, frozen=True):
    """What is new about a session that is written: its id, the time, and where ids come from."""

    session_id: str
    now: int  # epoch milliseconds
    digits: Callable[[], str]  # gives 32 hex digits, others each time

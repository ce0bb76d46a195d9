"""Every format that a session can be written in."""

from collections.abc import Callable
from typing import Final

from threadkeep.export.ai_sdk import ai_sdk
from threadkeep.export.claude_code import claude_code
from threadkeep.export.codex import codex
from threadkeep.export.openai import hermes, openai
from threadkeep.export.opencode import opencode
from threadkeep.export.plain import jsonl, markdown
from threadkeep.export.records import Conversation, NewSession

Writer = Callable[[Conversation, NewSession], str]

WRITERS: Final[dict[str, Writer]] = {
    "claude-code": claude_code,
    "codex": codex,
    "opencode": opencode,
    "ai-sdk": ai_sdk,
    "openai": openai,
    "hermes": hermes,
    "markdown": markdown,
    "jsonl": jsonl,
}

"""What the user said last, for choosing a place to go back to."""

from typing import Any, Final

from threadkeep.base.tx import Tx
from threadkeep.state.content import decode_content
from threadkeep.state.context import Json, StateContext
from threadkeep.state.preview import describe_skill_call

_LONGEST: Final = 80
# How the summaries of compactions begin; one may stand behind text that was kept.
_SUMMARY: Final = ("[CONTEXT COMPACTION — REFERENCE ONLY]", "[CONTEXT SUMMARY]:")
_BELOW: Final = "[END OF PRIOR CONTEXT — COMPACTION SUMMARY BELOW]"


def list_recent_user_messages(
    _ctx: StateContext,
    tx: Tx,
    session_id: str,
    limit: int = 20,
    include_inactive: bool = False,  # noqa: FBT001, FBT002
) -> list[Json]:
    """Give the last things that the user said, the newest first: id, timestamp and preview.

    Notes of programs and summaries of compactions stand under the user's name, and are left out.
    """
    # Some of what is read are summaries: twice as many and a few leave enough of the others.
    params = {"session_id": session_id, "inactive": include_inactive, "limit": int(limit) * 2 + 5}
    found: list[Json] = []
    for message_id, timestamp, column in tx.all("user_messages", params):
        content = decode_content(column)
        if len(found) < int(limit) and not is_summary(content):
            preview = _shortened(_shown(content))
            found.append({"id": message_id, "timestamp": timestamp, "preview": preview})
    return found


def is_summary(content: Any) -> bool:
    """Tell whether a content is, or ends with, the summary of a compaction."""
    text = content if isinstance(content, str) else " ".join(_texts(content))
    return text.rpartition(_BELOW)[2].lstrip().startswith(_SUMMARY)


def _texts(content: Any) -> list[str]:
    parts = content if isinstance(content, list) else []
    texts = [part.get("text") for part in parts if isinstance(part, dict)]
    return [text for text in texts if isinstance(text, str) and text]


def _shown(content: Any) -> str:
    if isinstance(content, str):
        return describe_skill_call(content) or content
    if isinstance(content, list):
        return " ".join(_texts(content)).strip() or "[multimodal content]"
    return ""


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 3]}..."

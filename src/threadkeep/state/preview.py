"""The preview of a session: how its first message by the user begins, on one line."""

import re
from typing import Final

from threadkeep.base.tx import Tx

_LONGEST: Final = 60
_HEAD: Final = 63  # of these an end may be cut off: so much is looked at, as in Hermes
_EXCERPT: Final = 400
_JOINT: Final = "\x1e"
# Hermes puts the text of a skill into the message that calls it; these are its words.
_SKILL: Final = re.compile(r'\[IMPORTANT: The user has invoked the (?:"([^"]*)")?')
_SKILL_BEGIN: Final = "[IMPORTANT: The user has invoked the "
_ONE_SKILL: Final = "The full skill content is loaded below.]"
_BUNDLE: Final = " skill bundle,"
_TYPED: Final = "The user has provided the following instruction alongside the skill invocation: "
_NOTE: Final = "\n\n[Runtime note:"
_TYPED_FOR_BUNDLE: Final = "\nUser instruction: "
_FIRST_OF_BUNDLE: Final = "\n\n[Loaded as part of the "


def preview_of(tx: Tx, session_id: str) -> str:
    """Give the beginning of the first thing that the user said, on one line."""
    head, tail = tx.one("first_user_text", {"session_id": session_id}) or (None, None)
    return "" if head is None else shape_preview(str(head), tail)


def shape_preview(head: str, tail: str | None = None) -> str:
    """Make a preview of a text, or of the beginning and the end of a long one."""
    if not head.startswith(_SKILL_BEGIN):
        return _shortened(_on_one_line(head[:_HEAD]).strip())
    text = _on_one_line(head if tail is None else head[:_EXCERPT] + _JOINT + tail).strip()
    called = describe_skill_call(text)
    return _shortened(text.split(_JOINT)[0] if called is None else called)


def describe_skill_call(text: str, separator: str = " — ") -> str | None:
    """Show a message with the text of a skill as it was typed: command and instruction.

    None if the message calls no skill.
    """
    found = _SKILL.match(text)
    if found is None:
        return None
    name = (found[1] or "").strip()
    command = name if name.startswith("/") else f"/{name}"
    typed = " ".join((_typed(text) or "").split(_JOINT)[0].split())
    if typed:
        return f"{command}{separator}{typed}" if name else typed
    return command if name else None


def _typed(text: str) -> str | None:
    """Give what was typed with the call: before the skills of a bundle, behind a single one."""
    if _BUNDLE in text:
        _, _, rest = text.partition(_TYPED_FOR_BUNDLE)
        return rest.partition(_FIRST_OF_BUNDLE)[0].strip()
    if _ONE_SKILL in text and _TYPED in text:
        return text.rpartition(_TYPED)[2].partition(_NOTE)[0].strip()
    return None


def _on_one_line(text: str) -> str:
    return text.replace("\n", " ").replace("\r", " ")


def _shortened(text: str) -> str:
    return text[:_LONGEST] + ("..." if len(text) > _LONGEST else "")

"""The JSON inside mail: its shapes, written compactly, refused when it is too large.

Compact matters: NanoClaw finds answers by searching for `"questionId":"…"` in the text.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from threadkeep.base import json
from threadkeep.errors import Invalid, TooLarge
from threadkeep.mailbox.arguments import need_each, need_str, need_text
from threadkeep.mailbox.records import Json

MAX_CONTENT: Final = 4 * 1024 * 1024  # bytes of one row; attachments are files
CLEAR: Final = "/clear"
FROM_RECURRENCE: Final = "recurrence"  # a task that names no time of its own


def compact(content: Json | str, limit: int = MAX_CONTENT) -> str:
    """Write content as compact JSON; text must be a JSON object already and is rewritten."""
    value: Any = json.decode(content) if isinstance(content, str) else content
    if not isinstance(value, dict):
        raise Invalid(
            f"mail content must be a JSON object, not {type(value).__name__}",
            hint='a chat is {"text": …}, a task {"prompt": …}',
        )
    text = json.encode(value)
    size = len(text.encode())
    if size > limit:
        raise TooLarge(
            f"the content has {size:,} bytes; {limit:,} are allowed",
            hint="send large things as attachments",
        )
    return text


def chat(text: str, *, sender: str, sender_id: str, **more: Any) -> Json:
    """Shape a chat message to the agent."""
    said = {"sender": sender, "senderId": sender_id, "text": text}
    return {key: need_str(value, key) for key, value in said.items()} | more


def note(text: str) -> Json:
    """Shape a word of the host itself to the agent."""
    return {"text": text, "sender": "system", "senderId": "system"}


def task(prompt: str, script: str | None = None, origin: str | None = None) -> Json:
    """Shape a task; `origin` is the session of the agent that asked for it."""
    said: Json = {"prompt": prompt, "script": script}
    return said if origin is None else {**said, "originSessionId": origin}


def task_of(content: Json) -> Json:
    """Return the content of a task; a very old one is plain text, which is its prompt."""
    if "prompt" in content or set(content) != {"text"}:
        return content
    return task(content["text"])


def check_task(content: Json) -> None:
    """Refuse a task whose words are no text: NanoClaw's list of tasks would break on it."""
    for key in ("prompt", "script"):
        said = content.get(key)
        if said is not None and not isinstance(said, str):
            msg = f"the {key} of a task must be text, not {type(said).__name__}"
            raise Invalid(msg, hint="quote it")


def answer(question_id: str, option: str, user_id: str) -> Json:
    """Shape the answer to a question."""
    return {
        "type": "question_response",
        "questionId": question_id,
        "selectedOption": need_str(option, "option"),
        "userId": need_str(user_id, "user id"),
    }


def command(request_id: str, words: str, flags: Mapping[str, Any]) -> Json:
    """Shape a command to the host, as `ncl` sends it."""
    asked = {"requestId": request_id, "command": words, "args": dict(flags)}
    return {"action": "cli_request", **asked}


def edit(message_id: str, text: str) -> Json:
    """Shape the change of a message that was sent."""
    return {"operation": "edit", "messageId": message_id, "text": text}


def reaction(message_id: str, emoji: str) -> Json:
    """Shape a reaction to a message."""
    return {"operation": "reaction", "messageId": message_id, "emoji": emoji}


def question(question_id: str, title: str, text: str, options: Sequence[str | Json]) -> Json:
    """Shape a question with buttons; an option is a label, or label, selectedLabel and value."""
    given = need_each(options, (str, dict), "options")
    if not given:
        raise Invalid("a question needs options", hint="give at least one to choose from")
    return {
        "type": "ask_question",
        "questionId": question_id,
        "title": need_text(title, "title"),
        "question": need_text(text, "question"),
        "options": [_option(one) for one in given],
    }


def _option(given: str | Json) -> Json:
    if isinstance(given, str):
        return {"label": given, "selectedLabel": given, "value": given}
    label = given.get("label")
    if not isinstance(label, str) or not label:
        raise Invalid("an option needs a label", hint='pass a text, or {"label": …, "value": …}')
    return {
        "label": label,
        "selectedLabel": given.get("selectedLabel", label),
        "value": given.get("value", label),
    }


def is_question(content: Json) -> bool:
    """Tell whether outbound content is a question that wants an answer."""
    return (
        content.get("type") == "ask_question"
        and bool(content.get("title"))
        and bool(content.get("options"))
    )


def is_clear(content: Json) -> bool:
    """Tell whether somebody asks the agent to forget the conversation."""
    text = content.get("text")
    return isinstance(text, str) and text.strip() == CLEAR

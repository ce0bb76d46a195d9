"""ChatGPT's data export: each conversation is a tree, of which one branch is shown.

The branch that is shown is the session. What an edit or another try left behind is a session of its
own for each end of the tree, below the first, with what only that branch has.
"""

from collections.abc import Iterator
from typing import Any, Final

from threadkeep.knowledge.records import Image, SessionFacts
from threadkeep.sources.blocks import call, moment, result, spoken
from threadkeep.sources.common import numbered, rows, strange_name, table, text
from threadkeep.sources.exports.archive import ExportSource
from threadkeep.sources.format import Keyed, Told, decoded

_LONGEST: Final = 100_000  # nodes of a branch: in a damaged file they may stand in a circle
_QUIET: Final = frozenset(("reasoning_recap", "model_editable_context", "app_pairing_content"))


def _sessions(conversation: dict[str, Any]) -> Iterator[tuple[str, list[Keyed]]]:
    mapping = {name: table(node) for name, node in table(conversation.get("mapping")).items()}
    own = text(conversation.get("conversation_id")) or text(conversation.get("id"))
    title = text(conversation.get("title"))
    own = own or f"{title}@{conversation.get('create_time')}"
    about = {name: value for name, value in conversation.items() if name != "mapping"}
    above = {text(node.get("parent")) for node in mapping.values()}
    leaves = [name for name in mapping if name not in above]
    current = text(conversation.get("current_node"))
    shown = _branch(mapping, current if current in mapping else (leaves[-1] if leaves else ""))
    yield own, _records(own, "", about, mapping, shown)
    seen = set(shown)
    for leaf in leaves:
        rest = [name for name in _branch(mapping, leaf) if name not in seen]
        if rest and any(table(mapping[name].get("message")) for name in rest):
            seen.update(rest)
            yield f"{own}/{leaf}", _records(f"{own}/{leaf}", own, about, mapping, rest)


def _branch(mapping: dict[str, dict[str, Any]], leaf: str) -> list[str]:
    """Walk from a node up to the root; give the names in the order of the conversation."""
    found: dict[str, None] = {}
    while leaf in mapping and leaf not in found and len(found) < _LONGEST:
        found[leaf] = None
        leaf = text(mapping[leaf].get("parent"))
    return list(reversed(found))


def _records(
    own: str,
    parent: str,
    about: dict[str, Any],
    mapping: dict[str, dict[str, Any]],
    branch: list[str],
) -> list[Keyed]:
    found: list[Keyed] = [
        ("conversation", {"type": "conversation", "id": own, "parent": parent, "data": about})
    ]
    at, called = moment(about.get("create_time")), ""
    for name in branch:
        message = table(mapping[name].get("message"))
        at = moment(message.get("create_time")) or at  # some have none: then that of the one above
        if message:
            called = name if _is_call(message) else called
            node = {"type": "node", "id": name, "parent": mapping[name].get("parent"), "at": at}
            found.append((name, {**node, "call": called, "data": message}))
    return found


def _is_call(message: dict[str, Any]) -> bool:
    """An answer that is meant for a tool is a call of it; what the tool says then is the result."""
    role = table(message.get("author")).get("role")
    return role == "assistant" and text(message.get("recipient")) not in {"", "all"}


def _read(record: Any, number: int) -> Told:
    fields = table(record)
    data, key = table(fields.get("data")), text(fields.get("id")) or str(number)
    match fields.get("type"):
        case "conversation":
            return Told(facts=_facts(data, text(fields.get("parent"))))
        case "node":
            told = _message(data, moment(fields.get("at")), key, text(fields.get("call")))
            for entry in numbered(told.entries, key):
                entry.parent = text(fields.get("parent"))
            return told
        case other:
            return Told(unknown=[strange_name(record, other)])


def _facts(about: dict[str, Any], parent: str) -> SessionFacts:
    return SessionFacts(
        title=text(about.get("title")),
        model=text(about.get("default_model_slug")),
        slug=text(about.get("gizmo_id")) or text(about.get("conversation_template_id")),
        parent_session_id=parent,
    )


def _message(message: dict[str, Any], at: int | None, key: str, called: str) -> Told:
    about, content = table(message.get("metadata")), table(message.get("content"))
    model, told = text(about.get("model_slug")), Told()
    told.facts = SessionFacts(model=model) if model else None
    shown, images = _shown(content, told.unknown)
    hidden = about.get("is_visually_hidden_from_conversation") is True
    role = table(message.get("author")).get("role")
    if role == "user":
        kind: Any = "note" if hidden or content.get("content_type") == _CONTEXT else "prompt"
        told.entries = spoken("user", kind, shown, at)
        for file in map(table, rows(about.get("attachments"))):
            told.entries += spoken("user", "note", f"[file] {text(file.get('name'))}", at)
    elif role == "tool":
        named = text(table(message.get("author")).get("name"))
        failed = content.get("content_type") == "system_error"
        told.entries = [result(called, shown, at, named, error=failed)]
    elif _is_call(message):
        given = decoded(shown) if shown[:1] == "{" else shown
        told.entries = [call(text(message.get("recipient")), key, given, at, model)]
    elif role == "assistant":
        said: Any = "reasoning" if content.get("content_type") == "thoughts" else "text"
        told.entries = spoken("assistant", said, shown, at, model)
    elif role == "system":
        told.entries = spoken("system", "note", shown, at)
    else:
        told.unknown.append(strange_name(message, "role", role))
    for entry in told.entries[:1]:
        entry.images = images
    return told


_CONTEXT: Final = "user_editable_context"  # the user's own instructions, which stand in each chat


def _shown(content: dict[str, Any], strange: list[str]) -> tuple[str, tuple[Image, ...]]:
    kind, shown = text(content.get("content_type")), ""
    match kind:
        case "text" | "multimodal_text":
            return _parts(content.get("parts"), strange)
        case "code" | "execution_output" | "system_error" | "tether_quote":
            shown = text(content.get("text"))
        case "tether_browsing_display":
            shown = text(content.get("result")) or text(content.get("summary"))
        case "thoughts":
            thoughts = [table(one) for one in rows(content.get("thoughts"))]
            lines = [(text(one.get("summary")), text(one.get("content"))) for one in thoughts]
            shown = "\n\n".join("\n".join(filter(None, pair)) for pair in lines)
        case "user_editable_context":
            both = (content.get("user_profile"), content.get("user_instructions"))
            shown = "\n".join(filter(None, map(text, both)))
        case _ if kind not in _QUIET:
            strange.append(strange_name(content, "content", kind))
    return shown, ()


def _parts(parts: object, strange: list[str]) -> tuple[str, tuple[Image, ...]]:
    found, images = [], []
    for part in rows(parts):
        fields = table(part)
        kind = text(fields.get("content_type"))
        if isinstance(part, str):
            found.append(part)
        elif kind == "image_asset_pointer":
            images.append(Image("image/png", url=text(fields.get("asset_pointer"))))
            found.append("[image]")
        elif "transcription" in kind:
            found.append(text(fields.get("text")))
        elif kind.startswith(("audio", "real_time", "video")):
            found.append(f"[{kind.partition('_')[0]}]")
        else:
            strange.append(strange_name(part, "part", kind))
    return "\n".join(filter(None, found)), tuple(images)


SOURCE: Final = ExportSource(agent="chatgpt", label="ChatGPT", sessions=_sessions, read=_read)

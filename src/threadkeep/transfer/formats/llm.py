"""llm: the SQL of a database with one thread, which `llm chat -d FILE` takes for its own log.

The program keeps all conversations in one database. A session that is handed over gets one of its
own, as nobody else is to write into that one. Of the migrations of llm 0.36 that of its message
store is done here; the program does the others when it opens the file. Messages are named by a
hash over what they say and the one before, as the program names them, so that it adds to the
thread and does not begin it anew. No model is named: the program takes the one that is set.
"""

import json
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any, Final

from threadkeep.sources.copy_marks import Notice, as_note
from threadkeep.transfer import conversation

_MIGRATION: Final = "m023_message_store"
_TABLES: Final = {
    "messages": "hash TEXT PRIMARY KEY, parent_hash TEXT REFERENCES messages(hash), role TEXT,"
    " provider_metadata TEXT",
    "parts": "id INTEGER PRIMARY KEY, message_hash TEXT REFERENCES messages(hash),"
    " position INTEGER, type TEXT, tool_name TEXT, text TEXT, payload TEXT",
    "part_attachments": "part_id INTEGER REFERENCES parts(id),"
    ' attachment_id TEXT REFERENCES attachments(id), "order" INTEGER,'
    ' PRIMARY KEY (part_id, attachment_id, "order")',
    "part_fragments": "part_id INTEGER REFERENCES parts(id),"
    ' fragment_id INTEGER REFERENCES fragments(id), "order" INTEGER,'
    ' PRIMARY KEY (part_id, fragment_id, "order")',
    "threads": "id TEXT PRIMARY KEY, name TEXT, tip_message_hash TEXT REFERENCES messages(hash),"
    " forked_from TEXT REFERENCES threads(id), datetime_utc TEXT",
    "turns": "id TEXT PRIMARY KEY, thread_id TEXT REFERENCES threads(id),"
    " parent_message_hash TEXT REFERENCES messages(hash),"
    " tip_message_hash TEXT REFERENCES messages(hash), model TEXT, resolved_model TEXT,"
    " options_json TEXT, schema_id TEXT REFERENCES schemas(id), input_tokens INTEGER,"
    " output_tokens INTEGER, token_details TEXT, duration_ms INTEGER, datetime_utc TEXT",
    "turn_tools": "turn_id TEXT REFERENCES turns(id), tool_id INTEGER REFERENCES tools(id),"
    " PRIMARY KEY (turn_id, tool_id)",
    "turn_fragments": "turn_id TEXT REFERENCES turns(id),"
    ' fragment_id INTEGER REFERENCES fragments(id), "order" INTEGER, kind TEXT,'
    ' PRIMARY KEY (turn_id, fragment_id, kind, "order")',
    "turn_search": "id INTEGER PRIMARY KEY, turn_id TEXT REFERENCES turns(id), prompt TEXT,"
    " response TEXT",
    "tool_instantiations": "turn_id TEXT REFERENCES turns(id), tool_call_id TEXT, name TEXT,"
    " plugin TEXT, arguments TEXT, PRIMARY KEY (turn_id, tool_call_id)",
    "_llm_migrations": "name TEXT PRIMARY KEY, applied_at TEXT",
}
_INDEXES: Final = {
    "idx_messages_parent_hash": "messages (parent_hash)",
    "idx_part_fragments_fragment_id": "part_fragments (fragment_id)",
    "idx_turns_thread_id": "turns (thread_id)",
    "idx_turn_fragments_fragment_id": "turn_fragments (fragment_id)",
}
_UNIQUE: Final = {
    "idx_parts_message_hash_position": "parts (message_hash, position)",
    "idx_turn_search_turn_id": "turn_search (turn_id)",
}
# The words of turns can be searched: an index that is kept by triggers.
_SEARCH: Final = """\
CREATE VIRTUAL TABLE turn_search_fts USING fts5 (prompt, response, content=turn_search);
CREATE TRIGGER turn_search_ai AFTER INSERT ON turn_search BEGIN
  INSERT INTO turn_search_fts (rowid, prompt, response)
  VALUES (new.rowid, new.prompt, new.response); END;
CREATE TRIGGER turn_search_ad AFTER DELETE ON turn_search BEGIN
  INSERT INTO turn_search_fts (turn_search_fts, rowid, prompt, response)
  VALUES ('delete', old.rowid, old.prompt, old.response); END;
CREATE TRIGGER turn_search_au AFTER UPDATE ON turn_search BEGIN
  INSERT INTO turn_search_fts (turn_search_fts, rowid, prompt, response)
  VALUES ('delete', old.rowid, old.prompt, old.response);
  INSERT INTO turn_search_fts (rowid, prompt, response)
  VALUES (new.rowid, new.prompt, new.response); END;
"""

Part = dict[str, Any]


def llm(told: conversation.Conversation, new: conversation.NewSession) -> str:
    """Write a conversation as the SQL of a database that llm can continue with."""
    return "".join(f"{line}\n" for line in _script(told, new))


def _script(told: conversation.Conversation, new: conversation.NewSession) -> Iterator[str]:
    yield "BEGIN;"
    yield from (f"CREATE TABLE {name} ({columns});" for name, columns in _TABLES.items())
    yield from (f"CREATE INDEX {name} ON {columns};" for name, columns in _INDEXES.items())
    yield from (f"CREATE UNIQUE INDEX {name} ON {columns};" for name, columns in _UNIQUE.items())
    yield _SEARCH.rstrip()
    now = conversation.stamp(new.now)
    yield _row("_llm_migrations", _MIGRATION, now)
    tip = None
    bare: Part = {"role": "user", "parts": [_text("")], "note": True}
    for message, mark in conversation.carrying(told, _messages(told), bare):
        marked = as_note(mark) if message.pop("note", False) else mark
        whole = json.loads(_written({**message, "provider_metadata": marked}))
        above, tip = tip, _hash(whole, tip)
        yield _row("messages", tip, above, whole["role"], _written(whole["provider_metadata"]))
        for place, part in enumerate(whole["parts"]):
            kind, said = part.pop("type"), part.pop("text", None)
            name, rest = part.get("name"), _written(part) if part else None
            yield _row("parts", None, tip, place, kind, name, said, rest)
    begun = conversation.stamp(told.about.started_at or new.now)
    own = new.session_id
    yield _row("threads", own, told.about.title, tip, None, begun)
    yield _row("turns", own, own, None, tip, "", *[None] * 7, now)
    yield "COMMIT;"


def _hash(message: Part, above: str | None) -> str:
    """Name a message as the program does: by what it says, and by the one before it."""
    node = {"parent": above, "message": message}
    whole = json.dumps(node, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return f"b2:{blake2b(whole.encode(), digest_size=16).hexdigest()}"


def _written(value: Any) -> str:
    """Write a value as JSON, without half characters, which no database takes."""
    plain = json.dumps(json.loads(conversation.encoded(value)), ensure_ascii=False)
    return plain.encode("utf-8", "replace").decode()


def _row(table: str, *values: str | int | None) -> str:
    return f"INSERT INTO {table} VALUES ({', '.join(map(_literal, values))});"  # noqa: S608


def _literal(value: str | int | None) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, int):
        return str(value)
    plain = value.encode("utf-8", "replace").decode().replace("'", "''")
    return "'" + plain.replace("\0", "' || char(0) || '") + "'"


def _messages(
    told: conversation.Conversation,
) -> Iterator[tuple[conversation.ExportMessage, Part | Notice]]:
    for message in told.messages:
        match message.role:
            case "system":
                for notice in conversation.notices_of(message):
                    yield message, notice
            case "assistant":
                yield message, {"role": "assistant", "parts": [*map(_part, message.blocks)]}
            case "tool":
                yield message, {"role": "tool", "parts": [*map(_part, message.blocks)]}
            case _:
                for asked in _asked(message):
                    yield message, asked


def _asked(message: conversation.ExportMessage) -> Iterator[Part]:
    """Part what the person said from what was said in the person's name."""
    shown = [conversation.described(image) for image in conversation.pictures_in(message)]
    for block in message.blocks:
        match block:
            case conversation.ExportText(text=said):
                yield {"role": "user", "parts": [_text("\n".join([said, *shown]))]}
                shown = []
            case conversation.ExportNote(text=said) | conversation.Summary(text=said):
                yield {"role": "user", "parts": [_text(said)], "note": True}
            case conversation.ToolResult():
                yield {"role": "tool", "parts": [_part(block)]}
    if shown:
        yield {"role": "user", "parts": [_text("\n".join(shown))]}


def _part(block: conversation.Block) -> Part:
    match block:
        case conversation.Reasoning(text=said):
            return {"type": "reasoning", "text": said}
        case conversation.ToolCall():
            given = conversation.as_object(block.input)
            about = {"name": block.name, "arguments": given, "tool_call_id": block.id}
            return {"type": "tool_call", **about}
        case conversation.ToolResult():
            output = "\n".join([block.output, *map(conversation.described, block.images)])
            about = {"name": block.name, "output": output, "tool_call_id": block.id}
            failed = {"exception": "failed"} if block.error else {}
            return {"type": "tool_result", **about, **failed}
        case conversation.Picture(image=image):
            return _text(conversation.described(image))
        case _:
            return _text(block.text)


def _text(said: str) -> Part:
    return {"type": "text", "text": said}

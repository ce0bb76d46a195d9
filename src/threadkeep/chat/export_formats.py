"""The rows of a session as JSONL, JSON or CSV: pure functions from rows to pieces of text.

JSONL is the canonical format and JSON its nested twin; both give every row back exactly. CSV is
for spreadsheets: one line per part, with the columns of its session and message before it.
"""

import csv
import io
import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from threadkeep.base import json
from threadkeep.base.clock import iso
from threadkeep.base.text import join_pairs, printable
from threadkeep.chat import views
from threadkeep.chat.diff import split_turns
from threadkeep.chat.raw_rows import SessionRows, others_of
from threadkeep.chat.records import Json, Message, Session, message_of, session_of
from threadkeep.chat.rows import CHUNK, COLUMNS, MESSAGE, PART, SESSION
from threadkeep.chat.views import counts, read_part, ui_message

Sessions = Iterable[SessionRows]

# A spreadsheet takes a cell that begins with one of these for a formula. The apostrophe in front
# keeps it a text; a text that begins with an apostrophe gets one too, so that taking one away
# always gives the text back.
_GUARDED = tuple("=+-@\t\r\n'＝＋－＠")
_OTHERS = "other_columns"


def jsonl(sessions: Sessions) -> Iterator[str]:
    """Write one record a line: the session, then each message followed by its parts.

    Chunks of unknown types follow the parts of their message.
    """
    for rows in sessions:
        yield _record(SESSION, rows.session)
        for message, parts in rows.messages:
            yield _record(MESSAGE, message)
            for part in parts:
                yield _record(PART, part)
            for chunk in rows.chunks.get(message["id"], ()):
                yield _record(CHUNK, chunk)


def _record(kind: str, row: Json) -> str:
    return f'{{"type":"{kind}","data":{json.encode(row)}}}\n'


def json_document(sessions: Sessions) -> Iterator[str]:
    """Write one session as a document."""
    for rows in sessions:
        yield from _document(rows)
        yield "\n"


def json_array(sessions: Sessions) -> Iterator[str]:
    """Write sessions as an array of documents."""
    before = "[\n"
    for rows in sessions:
        yield before
        yield from _document(rows)
        before = ",\n"
    yield "\n]\n" if before == ",\n" else "[]\n"


def _document(rows: SessionRows) -> Iterator[str]:
    yield f'{{"session":{json.encode(rows.session)},\n"messages":['
    before = "\n"
    for message, parts in rows.messages:
        yield f'{before}{{"message":{json.encode(message)},"parts":['
        before = "\n"
        for part in parts:
            yield before + json.encode(part)
            before = ",\n"
        chunks = rows.chunks.get(message["id"])
        yield f'],"chunks":{json.encode(chunks)}}}' if chunks else "]}"
        before = ",\n"
    yield "]}"


# ---------------------------------------------------------------------- CSV


def csv_table(sessions: Sessions) -> Iterator[str]:
    """Write one line per part; a message without parts, or a session without messages, has one.

    Columns that we do not know are together in one JSON cell, so the header is always the same.
    """
    yield _csv_line(
        [
            *(f"session.{name}" for name in (*COLUMNS[SESSION], _OTHERS)),
            *(f"message.{name}" for name in (*COLUMNS[MESSAGE], _OTHERS)),
            *(*COLUMNS[PART], _OTHERS),
        ]
    )
    for rows in sessions:
        session = _cells(SESSION, rows.session)
        for message, parts in rows.messages or [({}, [])]:
            about = [*session, *_cells(MESSAGE, message)]
            chunks = [_as_part(row) for row in rows.chunks.get(message.get("id", ""), ())]
            for part in [*parts, *chunks] or [{}]:
                yield _csv_line([*about, *_cells(PART, part)])


def _as_part(chunk: Json) -> Json:
    """Put a chunk of an unknown type into the columns of a part; it has no id and no place."""
    return {**chunk, "type": json.decode(chunk["data_json"]).get("type")}


def _cells(kind: str, row: Json) -> list[str]:
    others = others_of(kind, row)
    values = [row.get(name) for name in COLUMNS[kind]]
    return [_cell(value) for value in (*values, json.encode(others) if others else None)]


def _cell(value: Any) -> str:
    if not isinstance(value, str):
        return "" if value is None else json.encode(value)
    # Half of a character cannot be written as UTF-8: it shows as its number.
    text = join_pairs(value).encode("utf-8", "backslashreplace").decode()
    return f"'{text}" if text.startswith(_GUARDED) else text


def _csv_line(cells: list[str]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer).writerow(cells)
    return buffer.getvalue()


# ------------------------------------------------------------------------------
# A session as a readable Markdown transcript that its own content cannot break.
#
# What was said stays Markdown, inside a block quote: a heading, a list or a code block left open
# ends
# with the quote, and HTML shows as the text it is. Everything else stands in code blocks whose
# fence
# is longer than any run of backticks inside.

_FENCE = re.compile(r"`{3,}(?=[^`]*$)|~{3,}")
# A fence inside a list or a quote ends with it, which is more than these few lines can see.
_NESTED_FENCE = re.compile(r"[\s>*+\-0-9.)]+(?:```|~~~)")
# Inside a line: an escaped character, a code span, backticks without their other end, a tag.
_INLINE = re.compile(r"\\.|(`+)(?!`).+?(?<!`)\1(?!`)|(?P<open>`+)|(?P<tag><(?=[A-Za-z/!?]))")
_OUTSIDE_CODE = re.compile(r"\\.|(?P<tag><(?=[A-Za-z/!?]))")
_LONG_LINE = 10_000
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#+!|~-])")
_LONGEST_URL = 300


def markdown(sessions: Iterable[SessionRows]) -> Iterator[str]:
    """Write transcripts one after the other, a rule between them."""
    for number, rows in enumerate(sessions):
        if number:
            yield "\n---\n\n"
        yield from _transcript(rows)


def _transcript(rows: SessionRows) -> Iterator[str]:
    session = session_of(tuple(rows.session.get(name) for name in COLUMNS[SESSION]))
    loaded = [_loaded(message, parts) for message, parts in rows.messages]
    shown = [shaped for message, shaped in loaded if counts(message)]
    yield _head(session, len(loaded) - len(shown))
    for turn in split_turns(shown):
        yield f"\n## Turn {turn.number}\n" if turn.number else "\n## Before the first turn\n"
        for message in turn.messages:
            yield f"\n### {_speaker(message)}\n"
            unknown = rows.chunks.get(message["id"], ())
            chunks = [json.decode(chunk["data_json"]) for chunk in unknown]
            for part in (*message["parts"], *chunks):
                block = part_markdown(part)
                if block:
                    yield f"\n{block}\n"


def _loaded(row: Json, parts: list[Json]) -> tuple[Message, Json]:
    message = message_of(tuple(row.get(name) for name in COLUMNS[MESSAGE]))
    read = [read_part(part["data_json"], part["type"]) for part in parts]
    return message, ui_message(message, read)


def _head(session: Session, left_out: int) -> str:
    facts = {
        "session": code(session.id),
        "agent": code(session.agent),
        "model": code(model_name(session.model)) if session.model else "",
        "workspace": code(session.workspace_root) if session.workspace_root else "",
        "begun": iso(session.created_at),
        "last change": iso(session.updated_at),
        "tokens": f"{session.total_tokens:,}" if session.total_tokens else "",
        "cost": f"${session.cost_usd:.4f}" if session.cost_usd else "",
        "not shown": f"{left_out:,} hidden or queued messages" if left_out else "",
    }
    listed = "".join(f"- {name}: {value}\n" for name, value in facts.items() if value)
    return f"# {inline(session.title or 'Untitled session')}\n\n{listed}"


def model_name(model: Json) -> str:
    """Name a model in one word: provider, model, variant."""
    named = [model.get(name) for name in ("provider_id", "model_id", "tier", "variant")]
    return "/".join(str(name) for name in named if name) or json.encode(model)


def _speaker(message: Json) -> str:
    metadata = message.get("metadata") or {}
    model, usage = metadata.get("model"), metadata.get("usage")
    said = [inline(str(message["role"]).capitalize())]
    if isinstance(model, dict) and model:
        said.append(code(model_name(model)))
    if isinstance(usage, dict) and message["role"] == "assistant":
        used = [f"{inline(str(n))} {inline(str(v))}" for n, v in usage.items() if v]
        said.append(", ".join(used) + " tokens" if used else "")
    return " · ".join(word for word in said if word)


# ---------------------------------------------------------------------- parts


def part_markdown(part: Json) -> str:
    """Write one part; the empty text for one that only marks a step."""
    match part:
        case {"type": "step-start"}:
            block = ""
        case {"type": "text", "text": str(text)}:
            block = quoted(text)
        case {"type": "steering-message", "parts": [*said]}:
            block = "\n\n".join(["**User**, in the middle of the reply:", *_steering(said)])
        case {"type": "reasoning", "text": str(text)}:
            block = _folded("Reasoning", fenced(text, "text")) if text else ""
        case {"toolCallId": _}:
            block = _tool(part)
        case {"type": views.COMPACTION, "data": {"summary": summary}}:
            block = _folded("Summary of what came before", fenced(str(summary), "text"))
        case {"url": str(url)}:
            block = _link(part, url)
        case _:
            block = f"{code(str(part['type']))}\n\n{_json_block(part)}"
    return block


def _steering(said: list[Any]) -> Iterator[str]:
    for part in said:
        is_part = isinstance(part, dict) and isinstance(part.get("type"), str)
        yield part_markdown(part) if is_part else _json_block(part)


def _tool(part: Json) -> str:
    name = str(part.get("toolName") or str(part["type"]).removeprefix("tool-"))
    blocks = [f"**Tool** {code(name)} · {inline(str(part.get('state', '')))}"]
    for field, title in (("input", "Input"), ("rawInput", "Input"), ("output", "Output")):
        if part.get(field) is not None:
            blocks.append(f"{title}:\n\n{_block(part[field])}")
    if part.get("errorText") is not None:
        blocks.append(f"Error:\n\n{_block(part['errorText'])}")
    return "\n\n".join(blocks)


def _link(part: Json, url: str) -> str:
    kind = str(part["type"])
    title = part.get("title") or part.get("filename") or part.get("mediaType")
    named = f" · {inline(str(title))}" if title else ""
    if len(url) > _LONGEST_URL:
        return f"{code(kind)}{named} · {len(url):,} characters"
    return f"{code(kind)}{named} · {code(url)}"


def _block(value: Any) -> str:
    return fenced(value, "text") if isinstance(value, str) else _json_block(value)


def _json_block(value: Any) -> str:
    text = json.encode(value)
    try:
        return fenced(msgspec.json.format(text, indent=2), "json")
    except msgspec.DecodeError:  # half a character inside: legal, but not for msgspec
        return fenced(text, "json")


def _folded(title: str, body: str) -> str:
    return f"<details>\n<summary>{title}</summary>\n\n{body}\n\n</details>"


# ---------------------------------------------------------------------- text


def fenced(text: str, language: str) -> str:
    """Put text into a code block that nothing in it can end."""
    shown = printable(text)
    fence = "`" * max(3, _longest_run(shown) + 1)
    return f"{fence}{language}\n{shown}\n{fence}"


def code(text: str) -> str:
    """Put text into a code span on one line."""
    shown = " ".join(printable(text).split())
    ticks = "`" * (_longest_run(shown) + 1)
    pad = " " if shown.startswith("`") or shown.endswith("`") or not shown else ""
    return f"{ticks}{pad}{shown}{pad}{ticks}"


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)


def inline(text: str) -> str:
    """Put text into a line so that none of it is taken for Markdown or HTML."""
    return _SPECIAL.sub(r"\\\1", " ".join(printable(text).split()))


def quoted(text: str) -> str:
    """Quote Markdown that somebody wrote: it reads as meant, but reaches no further than here."""
    lines = printable(text).split("\n")
    return "\n".join(f"> {line}" if line else ">" for line in _without_html(lines))


def _without_html(lines: Iterable[str]) -> Iterator[str]:
    """Escape tags outside of code. Where it is not sure what is code, escape them there too."""
    fence, unsure, open_span = "", False, False
    for line in lines:
        begins = _FENCE.match(line)
        unsure = unsure or (not fence and bool(_NESTED_FENCE.match(line)))
        open_span = open_span and bool(line.strip())
        if unsure or len(line) > _LONG_LINE:
            yield _OUTSIDE_CODE.sub(_escaped, line)
        elif fence:
            fence = "" if _closes(line, fence) else fence
            yield line
        elif begins:
            fence, open_span = begins[0], False
            yield line
        else:
            pattern = _OUTSIDE_CODE if open_span else _INLINE
            yield pattern.sub(_escaped, line)
            open_span = open_span or any(found["open"] for found in _INLINE.finditer(line))


def _closes(line: str, fence: str) -> bool:
    indent = len(line) - len(line.lstrip(" "))
    rest = line.strip(" \t")
    return indent <= 3 and rest.startswith(fence) and not rest.strip(fence[0])  # noqa: PLR2004


def _escaped(found: re.Match[str]) -> str:
    return "\\<" if found["tag"] else found[0]

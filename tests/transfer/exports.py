"""Conversations of all shapes, and ways to read back what was written of them."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from hashlib import blake2b
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
from hypothesis import strategies as st

from threadkeep.base.json import decode_line
from threadkeep.base.sqlite.from_script import database_of
from threadkeep.knowledge.records import Entry, Image
from threadkeep.sources import (
    continue_dev,
    copilot_cli,
    gemini_cli,
    goose,
    gptme,
    grok_build,
    kimi_code,
    llm_logs,
    mistral_vibe,
    pi,
    qwen_code,
)
from threadkeep.sources.chat_store import read_record as read_chat
from threadkeep.sources.claude import transcripts
from threadkeep.sources.cline import sessions as cline_sessions
from threadkeep.sources.codex import rollouts
from threadkeep.sources.format import DocumentFiles, Documents, encoded
from threadkeep.sources.opencode.database import message_line, part_line
from threadkeep.sources.opencode.messages import read_record as read_opencode
from threadkeep.sources.records import Log, Source, Stamp
from threadkeep.sources.state_store import read_record as read_state
from threadkeep.transfer.conversation import (
    Block,
    Conversation,
    ConversationInfo,
    ExportMessage,
    ExportNote,
    ExportText,
    NewSession,
    Picture,
    Reasoning,
    Summary,
    ToolCall,
    ToolResult,
    as_object,
    blocks_of,
    described,
    from_entries,
    loose_result,
    pair,
)
from threadkeep.transfer.hand_off import WRITERS

Flat = list[tuple[Any, ...]]

NOW = 1_790_000_000_000
SESSION = "0199aaaa-0000-7000-8000-000000000001"
ROUND_TRIP = (
    *("claude-code", "codex", "opencode", "pi", "qwen-code", "kimi-code"),
    *("ai-sdk", "openai", "hermes"),
)


def new() -> NewSession:
    numbers = count(1)
    return NewSession(
        SESSION, NOW, lambda: blake2b(b"%d" % next(numbers), digest_size=16).hexdigest()
    )


def written(form: str, told: Conversation) -> str:
    return WRITERS[form](told, new())


# ---------------------------------------------------------------------- made-up conversations

words = st.text(min_size=1, max_size=40).filter(lambda text: bool(text.strip()))
images = st.builds(
    Image, st.sampled_from(["image/png", "image/jpeg"]), st.sampled_from(["aGk=", "QUJD"])
)
inputs = st.dictionaries(
    st.text(max_size=6),
    st.text(max_size=12) | st.integers(-(2**40), 2**40) | st.lists(st.booleans(), max_size=2),
    max_size=3,
)


@st.composite
def turns(draw: st.DrawFn, number: int) -> list[ExportMessage]:
    """Make a prompt and what an agent did about it: several steps, each with its calls."""
    shown = [Picture(image) for image in draw(st.lists(images, max_size=2))]
    at = NOW - 1_000_000 + number * 10_000
    found = [ExportMessage("user", (ExportText(draw(words)), *shown), at)]
    if draw(st.booleans()):
        note = ExportNote(draw(words), draw(st.booleans()))
        found.append(ExportMessage(draw(st.sampled_from(["user", "system"])), (note,), at))
    for step in range(draw(st.integers(0, 3))):
        found += draw(steps(f"{number}-{step}", at + step))
    if draw(st.integers(0, 5)) == 0:
        found.append(ExportMessage("user", (Summary(draw(words)),), at))
    return found


@st.composite
def steps(draw: st.DrawFn, name: str, at: int) -> list[ExportMessage]:
    blocks: list[Block] = [Reasoning(text) for text in draw(st.lists(words, max_size=1))]
    blocks += [ExportText(text) for text in draw(st.lists(words, max_size=2))]
    given = draw(st.lists(inputs | st.text(min_size=1, max_size=20), max_size=2))
    calls = [ToolCall(f"tool{place}", f"c{name}-{place}", one) for place, one in enumerate(given)]
    results: list[Block] = []
    for call in calls:
        if draw(st.integers(0, 5)):
            output, error = draw(st.text(max_size=30)), draw(st.booleans())
            pictures = tuple(draw(st.lists(images, max_size=1)))
            results.append(ToolResult(call.id, output, error, call.name, pictures))
    if draw(st.integers(0, 7)) == 0:
        results.append(ToolResult(f"lost{name}", draw(words), error=False))
    found = (
        [ExportMessage("assistant", (*blocks, *calls), at, "large-1")] if blocks or calls else []
    )
    return [*found, *([ExportMessage("tool", tuple(results), at)] if results else [])]


@st.composite
def conversations(draw: st.DrawFn) -> Conversation:
    messages = [one for number in range(draw(st.integers(0, 4))) for one in draw(turns(number))]
    about = ConversationInfo(
        "pi", "s-1", draw(words), "/home/demo/code", "main", "large-1", NOW - 2_000_000
    )
    return Conversation(about, tuple(messages))


# ---------------------------------------------------------------------- flat, to compare


def flat(told: Conversation) -> Flat:
    """Return every block as a plain value, with who said it."""
    return [_flat(message.role, block) for message, block in blocks_of(told)]


def _flat(role: str, block: Block) -> tuple[Any, ...]:
    match block:
        case ToolCall():
            return (role, "call", block.name, block.id, block.input)
        case ToolResult():
            return (role, "result", block.id, block.output, block.error, block.images)
        case Picture(image=image):
            return (role, "image", image)
        case ExportNote():
            return (role, "note", block.text, block.error)
        case ExportText() | Reasoning() | Summary():
            return (role, str(block.__struct_config__.tag), block.text)


def held(form: str, told: Conversation) -> Flat:
    """Return what a format can hold of a conversation: words for what it has no place for."""
    in_words = _IN_WORDS.get(form)
    if in_words is None:
        return list(_with_pairs(form, told))
    found = in_words(told)
    return list(found if form == "codex" else _with_objects(found))


_WITH_THE_CALL = {"continue", "gemini-cli"}
_WITH_NOTES = {"copilot-cli", "gemini-cli"}


def _joined(form: str, told: Conversation) -> Iterator[tuple[Any, ...]]:
    """Join the texts of an answer, before its calls.

    Continue has each result behind its call; gptme does not say of a result that it failed, and
    keeps what stands in the person's name with the program's own notices.
    """
    pairs = pair(told.messages)
    for number, message in enumerate(told.messages):
        texts = [one.text for one in message.blocks if isinstance(one, ExportText)]
        said = "\n".join(texts).strip() if message.role == "assistant" else ""
        yield from [("assistant", "text", said)] if said else []
        for place, block in enumerate(message.blocks):
            if isinstance(block, ToolResult) and form in _WITH_THE_CALL:
                is_loose = form == "gemini-cli" and (number, place) not in pairs.answered
                yield from [("system", "note", loose_result(block), False)] if is_loose else []
            elif isinstance(block, ToolResult):
                yield _described(block, error=form == "copilot-cli" and block.error)
            elif form in _WITH_NOTES and isinstance(block, ExportNote):
                failed = message.role == "system" and block.error
                yield (message.role, "note", block.text, failed)
            elif isinstance(block, ExportNote) or (isinstance(block, Summary) and form == "gptme"):
                failed = isinstance(block, ExportNote) and block.error
                yield ("system", "note", block.text, message.role == "system" and failed)
            elif form == "gemini-cli" and isinstance(block, Summary):
                yield ("user", "summary", f"{gemini_cli.SNAPSHOT}\n{block.text}")
            elif message.role != "assistant" or isinstance(block, ToolCall):
                yield _flat(message.role, block)
            result = pairs.result_of.get((number, place))
            if result is not None and form in _WITH_THE_CALL:
                yield _described(result, error=result.error)


def _in_cline(told: Conversation) -> Iterator[tuple[Any, ...]]:
    """Return results with words for pictures, and what stands in the person's name as a note."""
    for message, block in blocks_of(told):
        if isinstance(block, ToolResult):
            yield _described(block, error=block.error)
        elif isinstance(block, (ExportNote, Summary)):
            failed = message.role == "system" and isinstance(block, ExportNote) and block.error
            yield (message.role, "note", block.text, failed)
        else:
            yield _flat(message.role, block)


def _in_goose(told: Conversation) -> Iterator[tuple[Any, ...]]:
    """Return what stands in the person's name as a note."""
    for message, block in blocks_of(told):
        if isinstance(block, (ExportNote, Summary)):
            failed = message.role == "system" and isinstance(block, ExportNote) and block.error
            yield (message.role, "note", block.text, failed)
        else:
            yield _flat(message.role, block)


def _in_grok(told: Conversation) -> Iterator[tuple[Any, ...]]:
    """Return results that do not say that they failed, and summaries as notes."""
    for block in _joined("copilot-cli", told):
        if block[1] == "result":
            yield (*block[:4], False, *block[5:])
        else:
            yield (*block[:1], "note", block[2], False) if block[1] == "summary" else block


def _described(result: ToolResult, *, error: bool) -> tuple[Any, ...]:
    return ("tool", "result", result.id, _with_words(result.output, result.images), error, ())


def _without_flags(blocks: Flat) -> Flat:
    is_context = [block[:2] == ("user", "note") for block in blocks]
    told = zip(blocks, is_context, strict=True)
    return [(*block[:3], False) if context else block for block, context in told]


def _with_objects(blocks: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    for block in blocks:
        yield (*block[:4], as_object(block[4])) if block[1] == "call" else block


def _in_codex(blocks: Flat) -> Iterator[tuple[Any, ...]]:
    for block in blocks:
        if block[1] == "note" and block[0] == "user":
            yield ("system", *block[1:3], False)
        elif block[1] == "result" and block[4]:
            yield (*block[:3], _with_words(block[3], block[5]), True, ())
        else:
            yield block


def _in_qwen_code(blocks: Flat) -> Iterator[tuple[Any, ...]]:
    for block in _without_flags(blocks):
        if block[1] == "result" and block[5]:
            yield (*block[:3], _with_words(block[3], block[5]), block[4], ())
        else:
            yield block


def _in_pi(blocks: Flat) -> Iterator[tuple[Any, ...]]:
    for block in blocks:
        is_context = block[:2] == ("user", "note")
        yield ("system", "note", block[2], False) if is_context else block


def _with_words(said: str, shown: tuple[Image, ...]) -> str:
    return "\n".join([said, *map(described, shown)])


def _with_pairs(form: str, told: Conversation) -> Iterator[tuple[Any, ...]]:
    """Put each result behind its call; a chat completion has all of a step behind the step."""
    pairs = pair(told.messages)
    is_chat = form in ("openai", "hermes")
    for number, message in enumerate(told.messages):
        behind: Flat = []
        for place, block in enumerate(message.blocks):
            if isinstance(block, ToolResult):
                if (number, place) not in pairs.answered:
                    role = "user" if is_chat else "assistant"
                    yield (role, "text", loose_result(block))
                continue
            found = _flat(message.role, block)
            if not isinstance(block, ToolCall):
                yield from behind
                behind = []
            if isinstance(block, ExportNote):
                error = False
                found = ("user" if form == "opencode" else "system", "note", block.text, error)
            yield found if form == "ai-sdk" else next(_with_objects([found]))
            result = pairs.result_of.get((number, place))
            if isinstance(block, ToolCall) and result is not None:
                if is_chat:
                    behind += _in_chat(result)
                else:
                    said, shown = result.output, result.images
                    if result.error:
                        said, shown = _with_words(said, shown), ()
                    yield ("tool", "result", result.id, said, result.error, shown)
        yield from behind


def _in_chat(result: ToolResult) -> Flat:
    own = ("tool", "result", result.id, result.output, result.error, ())
    return [own, *(("user", "image", image) for image in result.images)]


_IN_WORDS: dict[str, Callable[[Conversation], Iterable[tuple[Any, ...]]]] = {
    "claude-code": lambda told: _without_flags(flat(told)),
    "kimi-code": lambda told: _without_flags(flat(told)),
    "codex": lambda told: _in_codex(flat(told)),
    "qwen-code": lambda told: _in_qwen_code(flat(told)),
    "pi": lambda told: _in_pi(flat(told)),
    "cline": _in_cline,
    "llm": _in_cline,
    "goose": _in_goose,
    "grok-build": _in_grok,
    "mistral-vibe": _in_grok,
    **{form: partial(_joined, form) for form in ("continue", "gemini-cli", "copilot-cli", "gptme")},
}


# ---------------------------------------------------------------------- reading back


def read_back(form: str, text: str) -> Conversation:
    """Read what was written with the source of its program."""
    entries, harness = _READERS[form](text)
    return from_entries(ConversationInfo(harness, SESSION), entries)


def _fed(source: Source, text: str) -> list[Entry]:
    parser = source.parser(Log(f"/x/{SESSION}.jsonl", Stamp(0, 0, 0, 0), SESSION), None)
    found: list[Entry] = []
    for number, line in enumerate(text.encode().split(b"\n")):
        for record in decode_line(line) if line else ():
            entries = parser.feed(record, line, number)
            found += entries
    assert parser.harvest().unknown == {}
    assert len({entry.key for entry in found}) == len(found)
    return found


def _from_opencode(text: str) -> tuple[list[Entry], str]:
    entries: list[Entry] = []
    last = ""
    for message in json.loads(text)["messages"]:
        line, about = message_line(message["info"]["id"], json.dumps(message["info"]))
        lines = [line]
        for part in message["parts"]:
            lines.append(part_line(part["id"], about, json.dumps(part)))
            assert last < message["info"]["id"] < part["id"]
        last = message["info"]["id"]
        for place, one in enumerate(lines):
            found, unknown = read_opencode(msgspec.json.decode(one), place)
            assert not unknown
            entries += found
    return entries, "opencode"


def _from_ui(text: str) -> tuple[list[Entry], str]:
    entries: list[Entry] = []
    for message in json.loads(text):
        for number, part in enumerate(message["parts"]):
            row = {"id": f"{message['id']}-{number}", "type": part["type"], "data_json": part}
            frame = {"type": "part", "session": "s", "role": message["role"], "row": row}
            entries += read_chat(frame).entries
    return entries, "chat"


def _from_rows(rows: list[dict[str, Any]]) -> tuple[list[Entry], str]:
    found: list[Entry] = []
    for number, row in enumerate(rows):
        named = {**row, "id": number}
        found += read_state({"type": "message", "session": "s", "row": named}).entries
    return found, "state"


def _from_goose(text: str) -> tuple[list[Entry], str]:
    lines = []
    for message in json.loads(text)["conversation"]:
        row = {
            "role": message["role"],
            "content_json": message["content"],
            "created_timestamp": message["created"],
            "metadata_json": message["metadata"],
        }
        lines.append(json.dumps(goose.message_record(message["id"], row)))
    return _fed(goose.SOURCE, "\n".join(lines)), "goose"


def _from_llm(text: str) -> tuple[list[Entry], str]:
    with TemporaryDirectory() as folder:
        path = Path(folder, "logs.db")
        path.write_bytes(database_of(text))
        log = Log(str(path), Stamp(0, 0, 0, 0), SESSION)
        lines = [line.decode() for _, line in llm_logs.SOURCE.records(log, SESSION)]
    return _fed(llm_logs.SOURCE, "\n".join(lines)), "llm"


def _from_document(
    source: Documents, text: str, beside: Mapping[str, bytes] = {}
) -> tuple[list[Entry], str]:
    path = Path(f"/x/{SESSION}.json")
    log = Log(str(path), Stamp(0, 0, 0, 0), SESSION)
    files = {path.with_name(name): data for name, data in beside.items()}
    split = source.split(DocumentFiles(log, {path: text.encode(), **files}))
    lines = b"\n".join(line for _, line in encoded(split))
    return _fed(source, lines.decode()), source.agent


_READERS: dict[str, Callable[[str], tuple[list[Entry], str]]] = {
    "claude-code": lambda text: (_fed(transcripts.SOURCE, text), "claude-code"),
    "codex": lambda text: (_fed(rollouts.SOURCE, text), "codex"),
    "opencode": _from_opencode,
    "pi": lambda text: (_fed(pi.SOURCE, text), "pi"),
    "qwen-code": lambda text: (_fed(qwen_code.SOURCE, text), "qwen-code"),
    "kimi-code": lambda text: (_fed(kimi_code.SOURCE, text), "kimi-code"),
    "gptme": lambda text: (_fed(gptme.SOURCE, text), "gptme"),
    "goose": _from_goose,
    "llm": _from_llm,
    "continue": partial(_from_document, continue_dev.SOURCE),
    "mistral-vibe": partial(
        _from_document,
        mistral_vibe.OLDER,
        beside={"meta.json": b'{"start_time": "2026-09-21T14:13:20Z"}'},
    ),
    "grok-build": partial(_from_document, grok_build.SOURCE),
    "gemini-cli": lambda text: (_fed(gemini_cli.SOURCE, text), "gemini-cli"),
    "cline": partial(_from_document, cline_sessions.SOURCE),
    "copilot-cli": lambda text: (_fed(copilot_cli.SOURCE, text), "copilot-cli"),
    "ai-sdk": _from_ui,
    "openai": lambda text: _from_rows(json.loads(text)),
    "hermes": lambda text: _from_rows(json.loads(text)["messages"]),
}

"""What most sources need: times, and the text of tool calls."""

import os
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from threadkeep.base.json import compact
from threadkeep.knowledge.records import Entry, Image, Segment, SessionFacts, Usage
from threadkeep.sources.records import Harvest, Log

_TOO_BIG = 2**63
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


def iso_ms(text: object) -> int | None:
    """Read an ISO time as epoch milliseconds; None if it is no time. Without a zone it is UTC."""
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // _MILLISECOND


def number(value: object) -> int:
    """Return a count from a log as an integer, 0 if it is none that a database can hold."""
    return int(value) if isinstance(value, (int, float)) and abs(value) < _TOO_BIG else 0


def text(value: object) -> str:
    """Return a text from a log, empty if it is none."""
    return value if isinstance(value, str) else ""


def table(value: object) -> dict[str, Any]:
    """Return an object from a log, empty if it is none."""
    return value if isinstance(value, dict) else {}


def rows(value: object) -> list[Any]:
    """Return a list from a log, empty if it is none."""
    return value if isinstance(value, list) else []


def describe_input(given: object) -> str:
    """Write out a tool's input to be read and searched: commands bare, else `key: value`."""
    if isinstance(given, str):
        return given
    if not isinstance(given, dict):
        return "" if given is None else _rendered(given)
    lines = []
    for key, value in given.items():
        if type(value) is bool:  # these and numbers are most of what is no text
            shown = "true" if value else "false"
        else:
            shown = value if isinstance(value, str) else _rendered(value)
        lines.append(shown if key in {"command", "cmd"} and value is shown else f"{key}: {shown}")
    return "\n".join(lines)


def _rendered(value: object) -> str:
    try:
        return compact(value)
    except (RecursionError, ValueError):  # nested beyond reason
        return "…"


def block_text(content: object) -> str:
    """Join the texts of a message's content: a string, or blocks with a `text`."""
    if isinstance(content, str):
        return content
    found = [
        block if isinstance(block, str) else text(table(block).get("text"))
        for block in rows(content)
    ]
    return "\n".join(piece for piece in found if piece)


# ------------------------------------------------------------------------------
# Segments: how a conversation is cut into slices of a size that can be summed up.
#
# A prompt begins a new slice if more than five minutes passed since the last one, or if the slice
# already holds more than 12,000 characters. Both numbers and the hash are the contract's, so that
# other programs of it continue where we stopped.

GAP_MS: Final = 300_000
MAX_CHARACTERS: Final = 12_000
PROMPT_CHARACTERS: Final = 500
TEXT_CHARACTERS: Final = 300
TOOL_CHARACTERS: Final = 120
_SHOWN_PROMPTS: Final = 30
_SHOWN_TOOLS: Final = 60
_SHOWN_TEXTS: Final = 5


class OpenSegment(msgspec.Struct):
    """The slice that is still growing; a parser keeps it in its state."""

    index: int = -1  # none yet
    start: int = 0
    end: int = 0
    cwd: str = ""
    project_dir: str = ""
    git_branch: str = ""
    prompts: list[str] = []
    tools: list[tuple[str, str]] = []
    texts: list[str] = []
    messages: int = 0
    characters: int = 0
    last_prompt: int | None = None


class Segmenter:
    """Cuts the entries of one session, taken in order; for agents without rules of their own."""

    def __init__(self, log: Log, label: str, state: OpenSegment | None = None) -> None:
        """Start afresh or continue; `label` names the program in the summary."""
        self._log = log
        self._label = label
        self.open = state or OpenSegment()
        self._closed: list[Segment] = []

    def add(self, entry: Entry, facts: SessionFacts) -> None:
        """Take the next entry; nothing counts before the first prompt."""
        if entry.kind == "prompt":
            self._prompt(entry, facts)
        elif self.open.index < 0:
            return
        else:
            self._other(entry)
        current = self.open
        current.messages += 1
        current.end = max(current.end, entry.at or 0)
        current.cwd = facts.cwd or current.cwd

    def take(self, session_id: str, facts: SessionFacts) -> list[Segment]:
        """Return the slices closed since the last call, and the open one as it is now."""
        closed, self._closed = self._closed, []
        if self.open.index >= 0:
            closed.append(msgspec.structs.replace(self._finished(facts), is_open=True))
        for segment in closed:
            segment.session_id = session_id
        return closed

    def _prompt(self, entry: Entry, facts: SessionFacts) -> None:
        current, at = self.open, entry.at or self.open.end
        gap = current.last_prompt is not None and at - current.last_prompt > GAP_MS
        if current.index < 0 or gap or current.characters > MAX_CHARACTERS:
            self._begin(at, facts)
        self.open.last_prompt = at
        self._keep(self.open.prompts, entry.text.strip()[:PROMPT_CHARACTERS])

    def _begin(self, at: int, facts: SessionFacts) -> None:
        if self.open.index >= 0:
            self._closed.append(self._finished(facts))
        cwd = facts.cwd or self.open.cwd
        self.open = OpenSegment(
            index=self.open.index + 1,
            start=at,
            end=at,
            cwd=cwd,
            project_dir=last_component(cwd) or self._log.project_dir,
            git_branch=facts.git_branch,
        )

    def _other(self, entry: Entry) -> None:
        current = self.open
        if entry.kind == "text":
            self._keep(current.texts, entry.text.strip()[:TEXT_CHARACTERS])
        elif entry.kind == "tool_call":
            summary = entry.text.strip()[:TOOL_CHARACTERS]
            current.tools.append((entry.tool, summary))
            current.characters += len(entry.tool) + len(summary)

    def _keep(self, kept: list[str], text: str) -> None:
        if text:
            kept.append(text)
            self.open.characters += len(text)

    def _finished(self, facts: SessionFacts) -> Segment:
        # Signed when it is closed, so that it does not matter when somebody takes it.
        current = self.open
        return Segment(
            session_id="",
            index=current.index,
            start=current.start,
            end=max(current.end, current.start),
            project_dir=current.project_dir,
            cwd=current.cwd,
            summary=summarise(self._label, current, is_subagent=self._log.is_subagent),
            prompts=list(current.prompts),
            tools=list(current.tools),
            texts=list(current.texts),
            messages=current.messages,
            git_branch=current.git_branch or None,
            is_subagent=facts.is_subagent or self._log.is_subagent,
            parent_session_id=facts.parent_session_id or self._log.parent_session_id,
            model=facts.model,
            agent=facts.agent,
            slug=facts.slug,
            title=facts.title,
        )


def summarise(label: str, slice_: OpenSegment, *, is_subagent: bool) -> str:
    """Sum up a slice in the words of the contract: requests, work, the first answers."""
    place = f"subagent, project: {slice_.cwd}" if is_subagent else f"project: {slice_.cwd}"
    parts = [f"{label} session ({place})"]
    asked = [f'  {n}. "{prompt}"' for n, prompt in enumerate(slice_.prompts[:_SHOWN_PROMPTS], 1)]
    done = [f"  - {name}: {summary}" for name, summary in slice_.tools[:_SHOWN_TOOLS]]
    said = [f'  - "{text}"' for text in slice_.texts[:_SHOWN_TEXTS]]
    for title, lines, total in (
        ("User requests:", asked, len(slice_.prompts)),
        ("Work performed:", done, len(slice_.tools)),
        ("Assistant responses (excerpts):", said, len(said)),
    ):
        if lines:
            more = [f"  … (+{total - len(lines)} more)"] if total > len(lines) else []
            parts.append("\n".join([title, *lines, *more]))
    return "\n\n".join(parts)


def last_component(path: str) -> str:
    """Return the last part of a path of any system."""
    return path.replace("\\", "/").rstrip("/").rpartition("/")[2]


# ------------------------------------------------------------------------------
# What every parser with the common rules for segments needs beside its own reading.

_UNKNOWN_NAMES: Final = 200
_NAME_CHARACTERS: Final = 80


class GathererState(msgspec.Struct):
    """What a gatherer needs to continue after a restart."""

    session_id: str
    facts: SessionFacts = msgspec.field(default_factory=SessionFacts)
    open: OpenSegment = msgspec.field(default_factory=OpenSegment)
    fed: bool = False  # before the first record the path alone says whose this is


class Gatherer:
    """Collects what comes up beside the entries of one session: facts, usage, segments."""

    def __init__(self, log: Log, label: str, kept: GathererState | None = None) -> None:
        """Start afresh or continue; `label` names the program in the summaries."""
        self._log = log
        kept = kept or begun(log)
        self.session_id = kept.session_id
        self.facts = kept.facts
        self.segmenter = Segmenter(log, label, kept.open)
        self._fed = kept.fed
        self._usage: list[Usage] = []
        self._unknown: dict[str, int] = {}

    def stamp(self, entries: list[Entry]) -> list[Entry]:
        """Say of each entry whose it is, if the log's path does not say so already."""
        self._fed = True
        if self.session_id != self._log.session_id:
            for entry in entries:
                entry.session_id = self.session_id
        return entries

    def keep(self, entries: list[Entry]) -> list[Entry]:
        """Take the entries of a record into the segments, and give them stamped."""
        for entry in entries:
            if not entry.origin:  # what was handed over was learned from where it was said
                self.segmenter.add(entry, self.facts)
        return self.stamp(entries)

    def spend(self, usage: Usage | None) -> None:
        """Take what an answer cost; nothing is no answer."""
        if usage and (usage.input or usage.output or usage.cache_read or usage.cache_write):
            self._usage.append(usage)

    def wonder(self, names: Iterable[str]) -> None:
        """Count record types that are not known here."""
        for name in names:
            short = name[:_NAME_CHARACTERS]
            if short in self._unknown or len(self._unknown) < _UNKNOWN_NAMES:
                self._unknown[short] = self._unknown.get(short, 0) + 1

    def harvest(self) -> Harvest:
        """Return what came up since the last call."""
        usage, self._usage = self._usage, []
        unknown, self._unknown = self._unknown, {}
        for row in usage:
            row.session_id = self.session_id
        return Harvest(
            facts={self.session_id: msgspec.structs.replace(self.facts)} if self._fed else {},
            usage=usage,
            segments=self.segmenter.take(self.session_id, self.facts),
            unknown=unknown,
        )

    def kept(self) -> GathererState:
        """Return what a new gatherer needs to continue from here."""
        return GathererState(self.session_id, self.facts, self.segmenter.open, self._fed)


def begun(log: Log) -> GathererState:
    """Return what is known of a session before its first record."""
    parent = log.parent_session_id or ""
    return GathererState(
        log.session_id, SessionFacts(parent_session_id=parent, is_subagent=log.is_subagent)
    )


def plain(name: str) -> str:
    """Make a file's name a text that any store can hold: a name may be any bytes."""
    return os.fsencode(name).decode("utf-8", "replace")


def strange_name(record: object, *names: object) -> str:
    """Name a record that is not known: by its type, and what is narrower."""
    if not isinstance(record, dict):
        return f"({type(record).__name__})"
    return "/".join(name for name in map(text, names) if name) or "(no type)"


def numbered(entries: list[Entry], key: str) -> list[Entry]:
    """Return the entries of one record their keys: the record's own, then with a number."""
    for place, entry in enumerate(entries):
        entry.key = f"{key}#{place}" if place else key
    return entries


# ------------------------------------------------------------------------------
# Pictures in a conversation, as each program writes them down; their bytes are never touched.

_DATA: Final = "data:"
_UNKNOWN_TYPE: Final = "image/png"
# Longer than any media type: what follows it in a data URL are the bytes.
_HEAD: Final = 100
_TYPES: Final = ("mimeType", "mime_type", "mediaType", "media_type", "mime")


def picture(block: object) -> Image | None:
    """Read a block that holds a picture, or names one; None if it is anything else."""
    fields = table(block)
    inside = table(fields.get("inlineData")) or table(fields.get("fileData"))
    if inside:
        return _image(inside)
    kind = text(fields.get("type"))
    if "image" not in kind and kind not in {"file", "media"}:
        return None
    found = _image(table(fields.get("source")) or fields)
    # Anything else than a picture may hang on a message as a file.
    is_picture = "image" in kind or (found is not None and _is_picture(found.media_type))
    return found if is_picture else None


def _is_picture(media_type: str) -> bool:
    """Some programs name only the first half of a media type."""
    return media_type.partition("/")[0] == "image"


def pictures(content: object) -> tuple[Image, ...]:
    """Read all pictures of a message's content, or of what a tool gave back."""
    found = [picture(block) for block in rows(content)]
    return tuple(image for image in found if image is not None)


def linked(url: str, media_type: str = "") -> Image:
    """Make the picture that an address leads to; `data:` addresses say themselves what they are."""
    named = _type_in(url) if url.startswith(_DATA) else ""
    return Image(named or media_type or _UNKNOWN_TYPE, url=url)


def _image(fields: dict[str, Any]) -> Image | None:
    media_type = next(filter(None, (text(fields.get(name)) for name in _TYPES)), "")
    url = _address(fields)
    if url:
        return linked(url, media_type)
    data = text(fields.get("data")) or text(fields.get("image"))
    if data.startswith((_DATA, "http://", "https://")):
        return linked(data, media_type)
    return Image(media_type or _UNKNOWN_TYPE, data=data) if data else None


def _address(fields: dict[str, Any]) -> str:
    """Return the address: a text, or an object around it."""
    for name in ("url", "image_url", "imageUrl", "fileUri", "file_uri"):
        value = fields.get(name)
        found = text(value) or text(table(value).get("url"))
        if found:
            return found
    return ""


def _type_in(url: str) -> str:
    return url[len(_DATA) : _HEAD].partition(",")[0].partition(";")[0]

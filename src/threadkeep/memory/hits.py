"""Hits as they are shown: the row behind a number, with its place and a snippet."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, tzinfo
from typing import Any, Final, NamedTuple, cast

import msgspec

from threadkeep.base.match import phrases_in
from threadkeep.base.text import decoded, one_line, pattern
from threadkeep.base.tx import Tx
from threadkeep.base.words import contains_unspaced, fold, head_of, index_words, stem
from threadkeep.knowledge import hit_rows
from threadkeep.knowledge.query import Kind
from threadkeep.knowledge.search_index import run_title, strings_in
from threadkeep.memory.question import Question
from threadkeep.memory.records import Hit

# ------------------------------------------------------------------------------
# Snippets: the stretch of a text that has most of what was asked for, with the words marked.
#
# Words are compared one by one, by their stems. One regular expression for each question
# would take four milliseconds to compile, more than all the rest of a hit.

MARKS: Final = (">>>", "<<<")
_LOOKED_INTO: Final = 64 * 1024  # characters: who wants more opens the hit
_MOST_SPANS: Final = 400
_WORD: Final = pattern(r"[^\W_]+")
_CAMEL: Final = pattern(r"(?<=[a-z])(?=[A-Z])")


class Marks(NamedTuple):
    """What is marked: stems of words, beginnings of words, and runs of characters."""

    stems: frozenset[str] = frozenset()
    heads: tuple[str, ...] = ()  # what words with these stems begin with
    prefixes: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()


class SnippetMark(NamedTuple):
    """A marked stretch, and the word that it stands for."""

    start: int
    end: int
    word: str


def marks_of(question: Question) -> Marks:
    """Return what to mark for a question."""
    stems, prefixes, runs = set[str](), set[str](), set[str]()
    for clue in question.clues:
        for phrase in phrases_in(clue.match):
            if any(map(contains_unspaced, phrase.words)):
                runs.add("".join(phrase.words))
            elif phrase.prefix:
                prefixes.add(phrase.words[-1].lower())
            else:
                stems.update(stem(fold(word)) for word in phrase.words)
    heads = set(map(head_of, stems))
    return Marks(frozenset(stems), *(tuple(sorted(some)) for some in (heads, prefixes, runs)))


def cut(text: str, marks: Marks, width: int = 240) -> str:
    """Cut about `width` characters out of a text and mark the words; a cut end shows as `...`."""
    text = text[:_LOOKED_INTO]
    spans = _spans(text, marks) if any(marks) else []
    start, end = _window(text, spans, width)
    pieces = ["..." if start else ""]
    at = start
    for span in spans:
        if at <= span.start and span.end <= end:
            pieces += [text[at : span.start], MARKS[0], text[span.start : span.end], MARKS[1]]
            at = span.end
    return "".join([*pieces, text[at:end], "..." if end < len(text) else ""])


def _spans(text: str, marks: Marks) -> list[SnippetMark]:
    # Most words of a text come again and again, and few are marked: each is looked at once, and
    # only those that are marked are looked for.
    found = [
        SnippetMark(at, at + len(token), word)
        for token in set(_WORD.findall(text))
        if (word := _marked(token, marks))
        for at in _places(text, token)
    ]
    found = sorted(found)[:_MOST_SPANS]
    for run in marks.runs:
        at = text.find(run)
        while at >= 0 and len(found) < _MOST_SPANS:
            found.append(SnippetMark(at, at + len(run), run))
            at = text.find(run, at + len(run))
    return _apart(found)


def _places(text: str, token: str) -> Iterator[int]:
    """Yield where a word begins that is not a part of another."""
    at = text.find(token)
    while at >= 0:
        end = at + len(token)
        if not text[at - 1 : at].isalnum() and not text[end : end + 1].isalnum():
            yield at
        at = text.find(token, end)


def _apart(spans: list[SnippetMark]) -> list[SnippetMark]:
    """Drop spans that lie over others."""
    kept: list[SnippetMark] = []
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        if not kept or span.start >= kept[-1].end:
            kept.append(span)
    return kept


def _marked(token: str, marks: Marks) -> str:
    """Return the word that a token stands for; nothing if it was not asked for."""
    word = token.lower() if token.isascii() else " ".join(index_words(token))
    if word.startswith(marks.heads) and (stemmed := stem(word)) in marks.stems:
        return stemmed
    if word.startswith(marks.prefixes):
        return word
    # Most words have one case, and there a pattern that splits nothing takes half of the time.
    if token == word or token[1:].islower() or token.isupper():
        return ""
    parts = _CAMEL.split(token)
    inner = (stem(part.lower()) for part in parts) if len(parts) > 1 else ()
    return next((part for part in inner if part in marks.stems), "")


def _window(text: str, spans: list[SnippetMark], width: int) -> tuple[int, int]:
    """Choose the stretch with most words in it; the first one if several have as many."""
    if not spans or len(text) <= width:
        return 0, min(len(text), width)
    starts = [span.start for span in spans]
    best, most, last = spans[0], 0, spans[0]
    for at, span in enumerate(spans):
        until = bisect_right(starts, span.start + width)
        words = len({one.word for one in spans[at:until]})
        if words > most:
            best, most, last = span, words, spans[until - 1]
    slack = max(0, width - (last.end - best.start))
    start = min(max(0, best.start - slack // 2), max(0, len(text) - width))
    space = text.find(" ", start, min(best.start, start + 20)) if start else -1
    start = space + 1 if space >= 0 else start
    return start, min(len(text), start + max(width, best.end - start))


WIDTH: Final = 240
NO_MARKS: Final = Marks()
# Of a node's content, beside its summary: what was written as sentences.
_SENTENCES: Final = ("intent", "key_decisions", "design_decisions", "problems_encountered")
# What is opened by a name of its own and found as something else.
_SHOWN_AS: Final = {"segment": "message", "memory": "node"}
# The names under which the contract's own programs know the agents.
_SHORT: Final = {"claude-code": "claude"}


class HitText(NamedTuple):
    """A thing, whole: its hit without a snippet, and its text."""

    hit: Hit
    text: str


def short_name(harness: str) -> str:
    """Return the name of an agent as it stands in a source: `claude` for Claude Code."""
    return _SHORT.get(harness, harness)


def message_hit(message: hit_rows.SessionMessage, text: str, marks: Marks = NO_MARKS) -> Hit:
    """Make the hit of a message."""
    row, session, segment = message
    name = short_name(session.agent)
    return Hit(
        ref=f"message:{row.id}",
        kind="message",
        score=0.0,
        at=row.at,
        title=one_line(session.name),
        snippet=cut(text, marks, WIDTH),
        contract_ref=name if segment is None else f"{name}-{segment}",
        agent=session.agent,
        project=session.project or None,
        cwd=session.cwd or None,
        branch=session.git_branch or None,
        session_id=session.session_id,
        key=row.key,
        role=row.role,
        part=row.kind,
        tool=row.tool or None,
        outcome="failure" if row.error else None,
    )


def load_thing(tx: Tx, kind: str, number: int, *, indexed: bool = True) -> HitText | None:
    """Read a thing by its kind and its number in its own table; None if it is not to be seen.

    Of a file without our index (`indexed`) less is known about nodes.
    """
    row = hit_rows.thing_row(tx, kind, number, indexed=indexed)
    if row is None:
        return None
    title, text = _described(tx, kind, row)
    return HitText(_thing_hit(tx, kind, row, title), text)


def thing_hit(thing: HitText, marks: Marks = NO_MARKS) -> Hit:
    """Return the hit of a thing with its snippet."""
    return msgspec.structs.replace(thing.hit, snippet=cut(thing.text, marks, WIDTH))


def _described(tx: Tx, kind: str, row: Sequence[Any]) -> tuple[str, str]:
    title, text = decoded(row[2]), decoded(row[3])
    if kind == "node":
        return hit_rows.summary_of(title), note_of(title) or text
    if kind == "run":
        name = run_title(title) or f"run {row[0]}"
        said = f"{decoded(row[12])} {row[9]}: {name}"
        return name, "\n".join([said, *hit_rows.texts_of_run(tx, row[0])])
    return title, text


def note_of(content: str) -> str:
    """Return what a node says in sentences; the words it is only found by stay out."""
    fields = hit_rows.fields_of(content)
    summary = fields.get("summary")
    if not isinstance(summary, str) or not summary:
        return "\n".join(strings_in(content))
    lines = [summary]
    for name in (name for name in _SENTENCES if fields.get(name)):
        told = strings_in(msgspec.json.encode(fields.get(name)).decode())
        lines += [line for line in told if line.rstrip(".…") not in summary]
    return "\n".join(lines)


def _thing_hit(tx: Tx, kind: str, row: Sequence[Any], title: str) -> Hit:
    number, at, about, _text, source, harness, cwd, branch, session, outcome, own, url, repo = row
    if kind == "segment":
        source = f"{short_name(harness)}-{number}"
    if kind == "node":
        source = next(iter(evidence_of(tx, number, 1)), source)
    if kind in {"node", "lesson"} and (of := hit_rows.session_of(tx, kind, number)) is not None:
        harness, session = of
    folder = decoded(cwd) or None
    place = (decoded(repo) or folder or "").replace("\\", "/").rstrip("/")
    project, ended = place.rpartition("/")[2] or None, decoded(outcome) or None
    if kind == "node":
        title = hit_rows.title_of(hit_rows.fields_of(decoded(about)), ended, project) or title
    return Hit(
        ref=f"{kind}:{number}",
        kind=cast("Kind", _SHOWN_AS.get(kind, kind)),
        score=0.0,
        at=at,
        title=one_line(title),
        snippet="",
        contract_ref=source,
        agent=harness,
        project=project,
        cwd=folder,
        branch=decoded(branch) or None,
        session_id=session,
        outcome=ended,
        uuid=own if kind in {"node", "memory"} else None,
        url=decoded(url) or None,
    )


def evidence_of(tx: Tx, node: int, limit: int = 100) -> list[str]:
    """Name what a node rests on, in the contract's form: shell-1, claude-5, browser-2."""
    rows = hit_rows.evidence_rows(tx, node, limit)
    return [f"{short_name(harness) if harness else name}-{n}" for name, n, harness in rows]


# ------------------------------------------------------------------------------
# How hits are told to a reader: who said it, how long ago, how far it is to be trusted.

_SECOND: Final = 1000
# From so many seconds on it is told in this unit.
_UNITS: Final = (
    (365 * 86_400, "year"),
    (30 * 86_400, "month"),
    (7 * 86_400, "week"),
    (86_400, "day"),
    (3_600, "hour"),
    (60, "minute"),
)
_SAID: Final = {
    "user": "user said",
    "assistant": "agent said",
    "tool": "tool output (untrusted)",
    "system": "program notice",
}
_KINDS: Final[dict[Kind, str]] = {
    "message": "message",
    "node": "summary",
    "command": "shell command",
    "visit": "web page (untrusted)",
    "run": "CI",
    "lesson": "lesson",
}


def label_of(hit: Hit) -> str:
    """Say who or what a hit's text comes from, and whether that is to be trusted."""
    if hit.kind == "message" and hit.role is not None:
        return _SAID.get(hit.role, _KINDS["message"])
    return _KINDS[hit.kind]


def ago(at: int | None, now: int) -> str:
    """Say how long ago something was, in words."""
    if at is None:
        return "at an unknown time"
    seconds = max(0, now - at) // _SECOND
    for size, unit in _UNITS:
        if seconds >= size:
            count = seconds // size
            return f"{count} {unit}{'s' if count > 1 else ''} ago"
    return "just now"


def day_of(at: int | None, zone: tzinfo = UTC) -> str:
    """Return the day of a moment; empty if it is unknown or no calendar has it."""
    if at is None:
        return ""
    try:
        return datetime.fromtimestamp(at / _SECOND, zone).strftime("%Y-%m-%d")
    except (OverflowError, OSError, ValueError):
        return ""

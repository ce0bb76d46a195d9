"""The redactor: finds secrets in texts and raw JSON lines, and masks them alone.

Everything is done on UTF-8 bytes: lowering is a table look-up there and places stay the same.
"""

import json
import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Final, NamedTuple, Self, TypeVar

from threadkeep.base.text import pattern
from threadkeep.capture.redact.rules import MASK, Rule, own_rules
from threadkeep.capture.redact.search import KeywordIndex, RuleMatch, Search, hits, make_plan
from threadkeep.capture.redact.values import entropy, kinds_of

# ------------------------------------------------------------------------------
# Pieces of a text to be replaced: joined where they overlap, kept inside the values of JSON.

_STRING: Final = pattern(rb'"([^"\\]*(?:\\.[^"\\]*)*)"(\s*:)?', re.DOTALL)
_LINE: Final = pattern(rb"[^\s][^\n]*(?<!\r)")
_FRAME: Final = pattern(rb"[^A-Za-z]*-----(?:BEGIN|END)[ A-Z0-9]{0,60}-----\s*")
_ASCII: Final = 0x80
_UNICODE_ESCAPE: Final = 6  # a backslash, u, and four digits


class MaskSpan(NamedTuple):
    """A piece of a text, what takes its place, and the rule that found it."""

    start: int
    end: int
    rule: str
    mask: bytes

    def within(self, start: int, size: int) -> "MaskSpan | None":
        """Return the span as a text sees it that begins at a place; None if it lies outside."""
        first, last = max(0, self.start - start), min(size, self.end - start)
        return MaskSpan(first, last, self.rule, self.mask) if first < last else None

    def covers(self, match: re.Match[bytes], group: int | str) -> bool:
        """Tell whether the group of a match lies in this span."""
        return self.start <= match.start(group) and match.end(group) <= self.end


class MaskPlace(NamedTuple):
    """Where a mask stands in a text, and the rule that put it there."""

    rule: str
    place: int


def joined(spans: Iterable[MaskSpan]) -> list[MaskSpan]:
    """Sort spans and make one of those that overlap; the first one's mask is kept."""
    result: list[MaskSpan] = []
    for span in sorted(spans, key=_order):
        if result and span.start < result[-1].end:
            first = result[-1]
            if span.end > first.end:
                result[-1] = MaskSpan(first.start, span.end, first.rule, first.mask)
        else:
            result.append(span)
    return result


def _order(span: MaskSpan) -> tuple[int, int]:
    return span[0], -span[1]


def replaced(data: bytes, spans: Sequence[MaskSpan]) -> bytes:
    """Put the masks in place of the spans, which are in order and apart."""
    edges = [0, *(edge for span in spans for edge in (span.start, span.end)), len(data)]
    kept = [data[start:end] for start, end in list(pairwise(edges))[::2]]
    masks = [*(span.mask for span in spans), b""]
    return b"".join(piece + mask for piece, mask in zip(kept, masks, strict=True))


def apart(spans: Sequence[MaskSpan], spared: Collection[str]) -> list[MaskSpan]:
    """Return the spans that touch none of those that spared rules found."""
    free = joined(span for span in spans if span.rule in spared)
    starts = [span.start for span in free]
    result = []
    for span in spans:
        last = bisect_left(starts, span.end) - 1
        if last < 0 or free[last].end <= span.start:
            result.append(span)
    return result


def moved(marks: Sequence[MaskPlace], spans: Sequence[MaskSpan]) -> list[MaskPlace]:
    """Return the marks of a text after these spans of it were replaced, and theirs."""
    result: list[MaskPlace] = []
    shift = at = 0
    for span in [*spans, None]:
        while at < len(marks) and (span is None or marks[at].place < span.end):
            if span is None or marks[at].place < span.start:
                result.append(marks[at]._replace(place=marks[at].place + shift))
            at += 1
        if span is not None:
            result.append(MaskPlace(span.rule, span.start + shift))
            shift += len(span.mask) - (span.end - span.start)
    return result


def line_by_line(data: bytes, spans: Iterable[MaskSpan]) -> list[MaskSpan]:
    """Cut spans at the ends of lines, which stay; blanks and the frame of a key stay too.

    So a key in lines has the same masks in whatever pieces its lines arrive.
    """
    result: list[MaskSpan] = []
    for span in spans:
        if data.find(b"\n", *span[:2]) < 0 and data.find(b"-----", *span[:2]) < 0:
            result.append(span)
            continue
        lines = _LINE.finditer(data, span.start, span.end)
        kept = (line.span() for line in lines if _FRAME.fullmatch(line[0]) is None)
        result.extend(MaskSpan(*pair, span.rule, span.mask) for pair in kept)
    return result


def whole_letters(data: bytes, span: MaskSpan) -> MaskSpan:
    """Widen a span that begins or ends inside a letter of UTF-8."""
    start, end = span.start, span.end
    if data[start] < _ASCII and (end == len(data) or data[end] < _ASCII):
        return span
    while start > 0 and _continues(data, start):
        start -= 1
    while _continues(data, end):
        end += 1
    return MaskSpan(start, end, span.rule, span.mask)


def _continues(data: bytes, place: int) -> bool:
    return place < len(data) and data[place] & 0xC0 == 0x80  # noqa: PLR2004  (UTF-8)


def is_json(line: bytes) -> bool:
    """Tell whether a line is one JSON value that can hold text."""
    if line.lstrip()[:1] not in {b"{", b"[", b'"'}:
        return False
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def string_values(line: bytes) -> Iterator[tuple[int, int]]:
    """Yield where the texts of a JSON line begin and end; names of members are left out."""
    for string in _STRING.finditer(line):
        if string[2] is None:
            yield string.span(1)


def inside(
    line: bytes, spans: Sequence[MaskSpan], values: Iterable[tuple[int, int]]
) -> list[MaskSpan]:
    """Cut spans to the texts of a JSON line, and never through an escape."""
    cut: list[MaskSpan] = []
    place = 0
    for start, end in values:
        while place < len(spans) and spans[place].end <= start:
            place += 1
        at = place
        while at < len(spans) and spans[at].start < end:
            span = spans[at]
            at += 1
            first = _before_escape(line, max(span.start, start))
            last = _behind_escape(line, min(span.end, end))
            if first < last:
                cut.append(MaskSpan(first, last, span.rule, span.mask))
    return joined(cut)


def _before_escape(line: bytes, place: int) -> int:
    escape = _escape_around(line, place)
    return escape[0] if escape else place


def _behind_escape(line: bytes, place: int) -> int:
    escape = _escape_around(line, place)
    return escape[1] if escape else place


def _escape_around(line: bytes, place: int) -> tuple[int, int] | None:
    """Return both ends of the escape that a place lies in the middle of."""
    if line.find(b"\\", max(0, place - _UNICODE_ESCAPE), place) < 0:
        return None
    for start in range(place - 1, max(place - _UNICODE_ESCAPE, -1), -1):
        if line[start] == 0x5C and _backslashes_until(line, start) % 2 == 1:  # noqa: PLR2004
            end = start + (_UNICODE_ESCAPE if line[start + 1 : start + 2] == b"u" else 2)
            return (start, end) if end > place else None
    return None


def _backslashes_until(line: bytes, place: int) -> int:
    start = place
    while start >= 0 and line[start] == 0x5C:  # noqa: PLR2004
        start -= 1
    return place - start


# ------------------------------------------------------------------------------
# The texts of a block: a line of JSON is one, and all lines between two of those are one.
#
# So a key that a program printed line by line is one text, and its lines are masked together.

# How far a secret may continue from one piece to the next: more than the longest token, and for
# keys in lines more than the longest of those.
_TOKEN: Final = 8 * 1024
_KEY: Final = 64 * 1024
_BEGINNING: Final = b"PRIVATE KEY"


class TextBlock(NamedTuple):
    """A piece of a block that is masked as one."""

    start: int
    end: int
    as_json: bool

    def __len__(self) -> int:
        return self.end - self.start


def texts_at(data: bytes, places: Sequence[int]) -> Iterator[TextBlock]:
    """Return the texts in which these places lie, in their order, each once."""
    done = 0
    for place in places:
        if place >= done:
            start = data.rfind(b"\n", done, place) + 1 or done
            end = data.find(b"\n", place) + 1 or len(data)
            text = TextBlock(start, end, as_json=True)
            if not is_json(data[start:end]):
                text = TextBlock(_back(data, start, done), _on(data, end), as_json=False)
            yield text
            done = text.end


def _on(data: bytes, end: int) -> int:
    """Return where the lines that are no JSON end."""
    while end < len(data):
        following = data.find(b"\n", end) + 1 or len(data)
        if _is_json(data, end, following):
            return end
        end = following
    return end


def _back(data: bytes, start: int, done: int) -> int:
    while start > done:
        previous = data.rfind(b"\n", done, start - 1) + 1 or done
        if _is_json(data, previous, start):
            return start
        start = previous
    return start


def _is_json(data: bytes, start: int, end: int) -> bool:
    return data[start : start + 1] in {b"{", b"[", b'"', b" ", b"\t"} and is_json(data[start:end])


def edges(before: bytes, data: bytes, after: bytes) -> Iterator[tuple[bytes, int]]:
    """Return what lies around both ends of a piece, and where in it the piece begins."""
    if before := beginning_of(before):
        yield before + data[:_KEY], len(before)
    if after:
        start = max(0, len(data) - _TOKEN)
        yield data[start:] + after[:_TOKEN], -start


def beginning_of(before: bytes) -> bytes:
    """Return the end of what came before a piece, as far as a secret may have begun there."""
    key = before.rfind(_BEGINNING, max(0, len(before) - _KEY))
    if key >= 0 and (start := before.rfind(b"-----BEGIN", 0, key)) >= 0:
        return before[start:]
    return b"" if before.endswith(b"\n") else before[-_TOKEN:]


def lines_of(data: bytes, marks: Sequence[MaskPlace]) -> Iterator[tuple[str, int, int]]:
    """Return the rule, the line and the place in the line of each mark."""
    line = start = done = 0
    for mark in marks:
        line += data.count(b"\n", done, mark.place)
        start = data.rfind(b"\n", done, mark.place) + 1 or start
        done = mark.place
        yield mark.rule, line, mark.place - start


# ------------------------------------------------------------------------------
# Why a value was taken for a secret, in words that a person can check.

_SHAPED = "its shape"


def why(found: RuleMatch) -> str:
    """Tell what speaks for a finding: the name before it, its length, letters and disorder."""
    value = found.value
    facts = [f"{len(value)} characters", f"{entropy(value):.1f} bits each", kinds_of(value)]
    return f"{found.rule.description or found.rule.id} ({_name(found)}; {', '.join(facts)})"


def _name(found: RuleMatch) -> str:
    groups = found.match.groupdict()
    for name in ("word", "prefix"):
        if groups.get(name):
            tail = groups.get("tail") or b""
            return f"{name} `{(groups[name] + tail).decode('utf-8', 'replace')}`"
    return _SHAPED


# ------------------------------------------------------------------------------
# The marker `<private>…</private>`: what is between is replaced, to the end if it is open.

PRIVATE: Final = "[PRIVATE]"
# What every opening marker ends with, in lower case. Go writes < and > in JSON as six letters.
ENDINGS: Final = (b"private>", rb"private\u003e")

_OPENING: Final = pattern(rb"(?:<|\\u003c)private(?:>|\\u003e)", re.IGNORECASE)
_CLOSING: Final = pattern(rb"(?:<|\\u003c)\\?/private(?:>|\\u003e)", re.IGNORECASE)


def private_spans(
    data: bytes, start: int, end: int, *, lines: bool = False
) -> list[tuple[int, int]]:
    """Return where the private parts between two places begin and end.

    With `lines` these are the lines of a log: an open part ends with its line, for nobody wrote
    all that follows into it.
    """
    spans: list[tuple[int, int]] = []
    while (opening := _OPENING.search(data, start, end)) is not None:
        closing = _CLOSING.search(data, opening.end(), end)
        rest = data.find(b"\n", opening.end(), end) if lines else -1
        start = closing.end() if closing is not None else (rest if rest >= 0 else end)
        spans.append((opening.start(), start))
    return spans


T = TypeVar("T", str, bytes)

PRIVATE_RULE: Final = "private"  # the name of what was marked as private; no rule finds it
_MASK: Final = MASK.encode()
# Its places are looked at by `markers.py`; as a rule it finds nothing.
_MARKER: Final = Rule(id=PRIVATE_RULE, regex=re.compile(b"(?!)"), keywords=ENDINGS, back=0)
_ROUNDS: Final = 8  # masks can bring two pieces of text together once or twice, not forever
_TEMPLATE: Final = pattern(r"\$(?:\$|(\d+)|\{(\w+)\}|([A-Za-z_]\w*))")


class SecretMatch(NamedTuple):
    """A secret in a text: the rule that found it, where it begins and ends, what speaks for it."""

    rule: str
    start: int
    end: int
    why: str = ""


class MaskNote(NamedTuple):
    """A mask in a block: its rule, its line, and where in the masked line it begins."""

    rule: str
    line: int
    place: int


class MaskedBlock(NamedTuple):
    """A block without its secrets, and where they were; without any, the same object."""

    data: bytes
    notes: Sequence[MaskNote] = ()


class Redactor:
    """Masks secrets and private parts. It keeps no state, so threads can share it."""

    def __init__(
        self,
        rules: Sequence[Rule],
        spared: Collection[str] = (),
        *,
        first: Callable[[], Sequence[Rule]] = tuple,
    ) -> None:
        """Take rules; what a spared one finds stays, whichever other rules find it as well.

        `first` gives further ones, which stand before them, when something is to be masked.
        """
        self._named = rules
        self._first = first
        self._spared = frozenset(spared)

    @classmethod
    def default(cls, extra_rules: Sequence[Rule] = ()) -> Self:
        """Return a redactor with the rules of threadkeep, and any others after them."""
        # To read and compile our own takes 100 ms, and most captures find nothing to mask.
        return cls(extra_rules, first=own_rules)

    def __reduce__(self) -> tuple[type[Self], tuple[Sequence[Rule], Collection[str]]]:
        return type(self), (self._rules, self._spared)  # another process plans again

    @cached_property
    def _rules(self) -> Sequence[Rule]:
        return [*self._first(), *self._named]

    @cached_property
    def _plan(self) -> KeywordIndex:
        return make_plan([*self._rules, _MARKER])

    @cached_property
    def _everywhere(self) -> Sequence[Rule]:
        return [rule for rule in self._rules if not rule.keywords]

    @cached_property
    def _marking(self) -> frozenset[int]:
        together = enumerate(self._plan.rules)
        return frozenset(number for number, some in together if _MARKER in some)

    @property
    def names(self) -> Sequence[str]:
        """The names of its rules."""
        return [rule.id for rule in self._rules]

    def sparing(self, names: Collection[str]) -> Self:
        """Return a redactor that leaves what these rules find; without names, this one."""
        return type(self)(self._rules, self._spared.union(names)) if names else self

    def text(self, text: str) -> str:
        """Mask the secrets of a text; this is the hook that the stores take."""
        data = text.encode("utf-8", "surrogatepass")
        masked, _ = self._masked(data, as_json=False)
        return text if masked is data else masked.decode("utf-8", "surrogatepass")

    def json_line(self, line: str) -> str:
        """Mask the texts of a raw JSON line; its members and their names stay as they are."""
        return self.block(line)

    def block(self, lines: T) -> T:
        """Mask a block of whole lines; one without secrets comes back as the same object."""
        if isinstance(lines, bytes):
            return self.piece(lines).data
        data = lines.encode("utf-8", "surrogatepass")
        masked = self.piece(data).data
        return lines if masked is data else masked.decode("utf-8", "surrogatepass")

    def piece(self, data: bytes, before: bytes = b"", after: bytes = b"") -> MaskedBlock:
        """Mask a piece of a log, and say where; the number of its lines stays the same.

        `before` and `after` are the raw bytes beside it, if a secret may continue there: a key over
        many lines, a line that was too long to be read at once. They are looked at, not given.
        """
        spans, marked = self._spans(data)
        for window, shift in edges(before, data, after):
            crossing, _ = self._spans(window)
            spans += [one for span in crossing if (one := span.within(shift, len(data)))]
        places = [*(span.start for span in spans), *marked]
        if not places:
            return MaskedBlock(data)
        return self._masked_texts(data, texts_at(data, sorted(places)), joined(spans))

    def scan(self, text: str) -> list[SecretMatch]:
        """Find the secrets of a text, by place, without masking them."""
        data = text.encode("utf-8", "surrogatepass")
        reasons: dict[str, tuple[RuleMatch, ...]] = {}
        for found in self._search(data, []):
            reasons[found.rule.id] = (*reasons.get(found.rule.id, ()), found)
        return [
            SecretMatch(
                span.rule,
                _letters(data, span.start),
                _letters(data, span.end),
                next(why(one) for one in reasons[span.rule] if span.covers(one.match, one.group)),
            )
            for span in self._spans(data)[0]
        ]

    def _masked_texts(
        self, data: bytes, texts: Iterable[TextBlock], spans: Sequence[MaskSpan]
    ) -> MaskedBlock:
        """Mask the texts that have something to hide; the rest of the block stays."""
        pieces: list[bytes] = []
        notes: list[MaskNote] = []
        done = at = 0
        line = 0
        for text in texts:
            while at < len(spans) and spans[at].end <= text.start:
                at += 1
            own = list(_inside(spans, at, text))
            whole = data[text.start : text.end]
            masked, marks = self._masked(whole, as_json=text.as_json, first=own, lines=True)
            line += data.count(b"\n", done, text.start)
            notes += [
                MaskNote(rule, line + row, place) for rule, row, place in lines_of(masked, marks)
            ]
            line += whole.count(b"\n")
            pieces += (data[done : text.start], masked)
            done = text.end
        result = b"".join([*pieces, data[done:]])
        return MaskedBlock(data) if result == data else MaskedBlock(result, notes)

    def _masked(
        self,
        data: bytes,
        *,
        as_json: bool,
        first: Sequence[MaskSpan] | None = None,
        lines: bool = False,
    ) -> tuple[bytes, Sequence[MaskPlace]]:
        """Mask until nothing is found any more, so that a second run changes nothing.

        `first` is what is known to be there; `lines`: no mask may go over the end of a line.
        """
        marks: Sequence[MaskPlace] = ()
        again = False
        for turn in range(_ROUNDS):
            marked: Sequence[int] = ()
            if turn == 0 and first:
                spans = list(first)
            else:
                spans, marked = self._spans(data, again=again, as_json=as_json)
                again = True
            if as_json:
                spans = inside(data, spans, string_values(data)) if spans else spans
                texts = list(string_values(data)) if marked else []
            else:
                texts = [(0, len(data))] if marked else []
            pairs = [p for one in texts for p in private_spans(data, *one, lines=lines)]
            private = [MaskSpan(*pair, PRIVATE_RULE, PRIVATE.encode()) for pair in pairs]
            spans = joined([*private, *spans]) if private else spans
            if lines:
                spans = line_by_line(data, spans)
            if not spans:
                break
            data, marks = replaced(data, spans), moved(marks, spans)
        return data, marks

    def _search(self, data: bytes, marked: list[int]) -> Iterator[RuleMatch]:
        """Yield all that the rules find; `marked` gets where a private part may begin."""
        search = Search(data)
        for found in hits(self._plan, data):
            yield from search.look(self._plan, found)
            marked += [start for start, _, number in found if number in self._marking]
        yield from search.look_everywhere(self._everywhere)

    def _spans(
        self, data: bytes, *, again: bool = False, as_json: bool = False
    ) -> tuple[list[MaskSpan], list[int]]:
        """Return what is to be masked, and where a private part may begin."""
        sure: list[MaskSpan] = []
        likely: list[
            MaskSpan
        ] = []  # of two that found the same, the rule that knows a form is named
        marked: list[int] = []
        for match, group, rule in self._search(data, marked):
            if rule.replacement is None:
                span = MaskSpan(*match.span(group), rule.id, _MASK)
            elif again:
                continue
            else:
                span = MaskSpan(
                    *match.span(), rule.id, _filled(rule.replacement, match, as_json=as_json)
                )
            if span.start < span.end and _MASK not in data[span.start : span.end]:
                (likely if rule.generic else sure).append(whole_letters(data, span))
        spans = sure + likely
        return joined(apart(spans, self._spared) if self._spared else spans), marked


def _inside(spans: Sequence[MaskSpan], at: int, text: TextBlock) -> Iterator[MaskSpan]:
    """Return the spans from one on that lie in a text, as the text sees them."""
    while at < len(spans) and spans[at].start < text.end:
        one = spans[at].within(text.start, len(text))
        if one is not None and one.mask == _MASK:  # what a template says depends on the text
            yield one
        at += 1


def _filled(template: str, match: re.Match[bytes], *, as_json: bool) -> bytes:
    """Fill a replacement such as `$1=***`; in a JSON line its own letters are escaped."""
    pieces: list[bytes] = []
    place = 0
    for use in _TEMPLATE.finditer(template):
        pieces.append(_literal(template[place : use.start()], as_json=as_json))
        pieces.append(_part(match, use[1] or use[2] or use[3]))
        place = use.end()
    return b"".join([*pieces, _literal(template[place:], as_json=as_json)])


def _literal(text: str, *, as_json: bool) -> bytes:
    return json.dumps(text)[1:-1].encode() if as_json else text.encode()


def _part(match: re.Match[bytes], name: str | None) -> bytes:
    if name is None:
        return b"$"
    try:
        return match[int(name) if name.isdigit() else name] or b""
    except IndexError:
        return b""  # as Rust's regex crate does with a group that is not there


def _letters(data: bytes, place: int) -> int:
    return len(data[:place].decode("utf-8", "surrogatepass"))

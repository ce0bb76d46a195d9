"""The redactor: finds secrets in texts and raw JSON lines, and masks them alone.

Everything is done on UTF-8 bytes: lowering is a table look-up there and places stay the same.
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final, NamedTuple, Self, TypeVar

from threadkeep.redact.anchors import KeywordIndex, hits, make_plan
from threadkeep.redact.blocks import TextBlock, edges, lines_of, texts_at
from threadkeep.redact.evidence import why
from threadkeep.redact.markers import ENDINGS, PRIVATE, private_spans
from threadkeep.redact.rules import MASK, Rule, own_rules
from threadkeep.redact.search import RuleMatch, Search
from threadkeep.redact.spans import (
    MaskPlace,
    MaskSpan,
    apart,
    inside,
    joined,
    line_by_line,
    moved,
    replaced,
    string_values,
    whole_letters,
)

T = TypeVar("T", str, bytes)

PRIVATE_RULE: Final = "private"  # the name of what was marked as private; no rule finds it
_MASK: Final = MASK.encode()
# Its places are looked at by `markers.py`; as a rule it finds nothing.
_MARKER: Final = Rule(id=PRIVATE_RULE, regex=re.compile(b"(?!)"), keywords=ENDINGS, back=0)
_ROUNDS: Final = 8  # masks can bring two pieces of text together once or twice, not for ever
_TEMPLATE: Final = re.compile(r"\$(?:\$|(\d+)|\{(\w+)\}|([A-Za-z_]\w*))")


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

    __slots__ = ("_everywhere", "_marking", "_plan", "_rules", "_spared")

    def __init__(self, rules: Sequence[Rule], spared: Collection[str] = ()) -> None:
        """Take rules; what a spared one finds stays, whichever other rules find it as well."""
        self._rules = rules
        self._spared = frozenset(spared)
        self._plan: KeywordIndex = make_plan([*rules, _MARKER])
        self._everywhere = [rule for rule in rules if not rule.keywords]
        together = enumerate(self._plan.rules)
        self._marking = frozenset(number for number, some in together if _MARKER in some)

    @classmethod
    def default(cls, extra_rules: Sequence[Rule] = ()) -> Self:
        """Give a redactor with the rules of threadkeep, and any others after them."""
        return cls([*own_rules(), *extra_rules])

    def __reduce__(self) -> tuple[type[Self], tuple[Sequence[Rule], Collection[str]]]:
        return type(self), (self._rules, self._spared)  # another process plans anew

    @property
    def names(self) -> Sequence[str]:
        """The names of its rules."""
        return [rule.id for rule in self._rules]

    def sparing(self, names: Collection[str]) -> Self:
        """Give a redactor that leaves what these rules find; without names, this one."""
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

        `before` and `after` are the raw bytes beside it, if a secret may go on there: a key over
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

    def may_contain(self, text: str) -> bool:
        """Tell, quickly, whether a text has anything that a rule must look at."""
        data = text.encode("utf-8", "surrogatepass")
        return bool(self._everywhere) or any(hits(self._plan, data))

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
        """Give what is to be masked, and where a private part may begin."""
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
    """Give the spans from one on that lie in a text, as the text sees them."""
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

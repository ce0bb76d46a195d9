"""The redactor: finds secrets in texts and raw JSON lines, and masks them alone.

Everything is done on UTF-8 bytes: lowering is a table look-up there and places stay the same.
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, Self, TypeVar

from threadkeep.redact.anchors import Hit, Plan, hits, make_plan
from threadkeep.redact.judges import JUDGES
from threadkeep.redact.looks import entropy
from threadkeep.redact.markers import ENDINGS, PRIVATE, private_spans
from threadkeep.redact.rules import MASK, Rule, own_rules
from threadkeep.redact.spans import (
    Span,
    inside,
    is_json,
    joined,
    replaced,
    string_values,
    whole_letters,
)

T = TypeVar("T", str, bytes)

_MASK: Final = MASK.encode()
_MARKER: Final = Rule(id="private", regex=re.compile(b""), keywords=ENDINGS)
_ROUNDS: Final = 8  # masks can bring two pieces of text together once or twice, not for ever
_WIDE: Final = 256  # a longer value that is no secret is not looked at again from its middle
_TEMPLATE: Final = re.compile(r"\$(?:\$|(\d+)|\{(\w+)\}|([A-Za-z_]\w*))")
# A word ends before an escaped line break, a colour code of a terminal and a percent code.
_EDGE: Final = re.compile(rb"(?<![A-Za-z0-9_])|(?<=\\[nrtbf])|(?<=[0-9\[]m)|(?<=%[0-9A-Fa-f]{2})")


class Finding(NamedTuple):
    """A secret in a text: the rule that found it, and where it begins and ends."""

    rule: str
    start: int
    end: int


class Redactor:
    """Masks secrets and private parts. It keeps no state, so threads can share it."""

    __slots__ = ("_everywhere", "_plan", "_rules")

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = rules
        self._plan: Plan = make_plan([*rules, _MARKER])
        self._everywhere = [rule for rule in rules if not rule.keywords]

    @classmethod
    def default(cls, extra_rules: Sequence[Rule] = ()) -> Self:
        """Give a redactor with the rules of threadkeep, and any others after them."""
        return cls([*own_rules(), *extra_rules])

    def __reduce__(self) -> tuple[type[Self], tuple[Sequence[Rule]]]:
        return type(self), (self._rules,)  # another process plans anew

    def text(self, text: str) -> str:
        """Mask the secrets of a text; this is the hook that the stores take."""
        data = text.encode("utf-8", "surrogatepass")
        masked = self._masked(data, as_json=False)
        return text if masked is data else masked.decode("utf-8", "surrogatepass")

    def json_line(self, line: str) -> str:
        """Mask the texts of a raw JSON line; its members and their names stay as they are."""
        data = line.encode("utf-8", "surrogatepass")
        masked = self._line(data)
        return line if masked is data else masked.decode("utf-8", "surrogatepass")

    def block(self, lines: T) -> T:
        """Mask a block of whole JSON lines; one without secrets comes back as the same object."""
        if isinstance(lines, bytes):
            return self._block(lines)
        data = lines.encode("utf-8", "surrogatepass")
        masked = self._block(data)
        return lines if masked is data else masked.decode("utf-8", "surrogatepass")

    def scan(self, text: str) -> list[Finding]:
        """Find the secrets of a text, by place, without masking them."""
        data = text.encode("utf-8", "surrogatepass")
        spans = self._spans(data, self._hits(data))
        return [
            Finding(span.rule, _letters(data, span.start), _letters(data, span.end))
            for span in spans
        ]

    def may_contain(self, text: str) -> bool:
        """Tell, quickly, whether a text has anything that a rule must look at."""
        data = text.encode("utf-8", "surrogatepass")
        return bool(self._everywhere) or bool(self._hits(data))

    def _hits(self, data: bytes) -> list[Hit]:
        return hits(self._plan, data)

    def _block(self, data: bytes) -> bytes:
        """Find all places in one go, then work on the lines that hold one."""
        found = self._hits(data)
        places = [span.start for span in self._spans(data, found)]
        places += [hit.start for hit in found if hit.rule is _MARKER]
        if not places:
            return data
        pieces: list[bytes] = []
        done = 0
        for place in sorted(places):
            if place >= done:
                start = data.rfind(b"\n", done, place) + 1 or done
                end = data.find(b"\n", place) + 1 or len(data)
                pieces += (data[done:start], self._line(data[start:end]))
                done = end
        masked = b"".join([*pieces, data[done:]])
        return data if masked == data else masked

    def _line(self, line: bytes) -> bytes:
        looked_at = bool(self._everywhere) or bool(self._hits(line))
        return self._masked(line, as_json=is_json(line)) if looked_at else line

    def _masked(self, data: bytes, *, as_json: bool) -> bytes:
        """Mask until nothing is found any more, so that a second run changes nothing."""
        for turn in range(_ROUNDS):
            found = self._hits(data)
            spans = self._spans(data, found, again=turn > 0, as_json=as_json)
            marked = any(hit.rule is _MARKER for hit in found)
            if as_json:
                spans = inside(data, spans, string_values(data)) if spans else spans
                texts = list(string_values(data)) if marked else []
            else:
                texts = [(0, len(data))] if marked else []
            private = [pair for text in texts for pair in private_spans(data, *text)]
            spans = joined(
                [*(Span(*pair, "private", PRIVATE.encode()) for pair in private), *spans]
            )
            if not spans:
                break
            data = replaced(data, spans)
        return data

    def _spans(
        self, data: bytes, found: Sequence[Hit], *, again: bool = False, as_json: bool = False
    ) -> list[Span]:
        spans = []
        for match, rule in self._matches(data, found):
            if rule.replacement is None:
                span = Span(*match.span(_group(match, rule)), rule.id, _MASK)
            elif again:
                continue
            else:
                span = Span(
                    *match.span(), rule.id, _filled(rule.replacement, match, as_json=as_json)
                )
            if span.start < span.end and _MASK not in data[span.start : span.end]:
                spans.append(whole_letters(data, span))
        return joined(spans)

    def _matches(self, data: bytes, found: Sequence[Hit]) -> Iterator[tuple[re.Match[bytes], Rule]]:
        seen: dict[str, int] = {}  # how far each rule has looked
        for hit in found:
            if hit.rule is not _MARKER:
                look = _look_around if hit.rule.back else _look_at
                yield from ((match, hit.rule) for match in look(data, hit, seen))
        for rule in self._everywhere:
            yield from ((m, rule) for m in rule.regex.finditer(data) if _is_secret(rule, m))


def _look_at(data: bytes, hit: Hit, seen: dict[str, int]) -> Iterator[re.Match[bytes]]:
    """Match a rule right at its keyword."""
    rule = hit.rule
    if hit.start < seen.get(rule.id, 0) or (rule.edge and not _EDGE.match(data, hit.start)):
        return
    match = rule.regex.match(data, hit.start)
    if match is None:
        return
    if _is_secret(rule, match):
        seen[rule.id] = match.end()
        yield match
    elif match.end() - match.start() > _WIDE:
        seen[rule.id] = match.end()


def _look_around(data: bytes, hit: Hit, seen: dict[str, int]) -> Iterator[re.Match[bytes]]:
    """Search for a rule near its keyword, once for keywords that stand close together."""
    rule = hit.rule
    if hit.end + rule.reach // 2 < seen.get(rule.id, 0):
        return
    start, end = max(0, hit.start - rule.back), hit.end + rule.reach
    seen[rule.id] = end
    for match in rule.regex.finditer(data, start, end):
        if _is_secret(rule, match):
            yield match


def _group(match: re.Match[bytes], rule: Rule) -> int | str:
    """Give the group that holds the secret."""
    named = rule.regex.groupindex
    if "quoted" in named:
        return "bare" if match["quoted"] is None else "quoted"
    if rule.group or not match.re.groups or "body" in named:
        return rule.group
    return next((n for n, text in enumerate(match.groups(), 1) if text), 0)


def _is_secret(rule: Rule, match: re.Match[bytes]) -> bool:
    value = match[_group(match, rule)] or b""
    if rule.entropy and entropy(value) < rule.entropy:
        return False
    for allowed in rule.allowed:
        target = match[0] if allowed.of_match else value
        if any(regex.search(target) for regex in allowed.regexes):
            return False
        if any(word in value.lower() for word in allowed.stopwords):
            return False
    return rule.judge is None or JUDGES[rule.judge](match, value)


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

"""Permission rules: which one decides, and a sentence that says why.

    {"permission": "bash", "pattern": "git push:*", "action": "allow", "source": "session"}

A manifest's deny is absolute. Otherwise the most specific matching rule wins: a named permission
beats a glob such as `mcp_*`, which beats `*`; then the pattern with more literal characters; then
one without wildcards. Ties go to the later `added_at`, then to deny over ask over allow.
Nothing matches: ask. Nobody there to ask (headless): deny.

Patterns match the whole target, which is a command line, a path, a URL or a host:

    *  **  ?  [abc] [!abc]    any text, any text, one character, one of these (or none of them)
    git push:*  git push *    that command alone, or with anything after it

A deny or ask is read widely: it also covers a command that stands after a shell operator such as
`;`. An allow is read narrowly: where its pattern is a path, `*` stays within one folder (`**` does
not), and a path that climbs with `..` or a command with a shell operator is only allowed by a
pattern without wildcards or by one that allows everything.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from threadkeep.errors import Invalid

Rule = dict[str, Any]

_ACTIONS: Final = ("allow", "ask", "deny")  # in rising order of caution
_SOURCES: Final = ("manifest", "project", "session")
_MAX_LENGTH: Final = 4096
_EVERYTHING: Final = ("*", "**")
_GLOB_PIECE: Final = re.compile(r"\*+|\[[^\]]+\]|.", re.DOTALL)
_CLASS_PIECE: Final = re.compile(r"(.)(?:-(.))?", re.DOTALL)
_SHELL_OPERATOR: Final = re.compile(r"[;&|<>`\n\r]|\$\(")
_CLIMBING: Final = re.compile(r"(?:^|[/\\\s])\.\.(?:$|[/\\\s])")


class Verdict(msgspec.Struct, frozen=True):
    """What may happen, the rule that decided, and why."""

    action: str
    rule: Rule | None
    reason: str
    considered: list[tuple[Rule, str]]


class _Match(msgspec.Struct, frozen=True):
    rule: Rule
    at: int
    rank: tuple[int, int, int, int]

    @property
    def order(self) -> tuple[tuple[int, int, int, int], int, int, int]:
        caution = _ACTIONS.index(self.rule["action"])
        return self.rank, self.rule.get("added_at", -1), caution, self.at


def evaluate(
    permission: str,
    target: str,
    rules: Sequence[Mapping[str, Any]],
    *,
    parent_rules: Sequence[Mapping[str, Any]] = (),
    headless: bool = False,
) -> Verdict:
    """Decide whether `permission` may act on `target` under the rules of all sources together.

    What the rules of the parent session deny stays denied here, whatever the child's rules say.
    A rule that cannot be read is ignored, and `considered` says so.
    """
    considered, matches = _consider(permission, target, rules)
    verdict = _decide(permission, target, considered, matches)
    if parent_rules:
        verdict = _under_parent(verdict, evaluate(permission, target, parent_rules))
    if headless and verdict.action == "ask":
        reason = f"{verdict.reason}; nobody is there to ask, so it is denied"
        verdict = msgspec.structs.replace(verdict, action="deny", reason=reason)
    return verdict


def validate_rule(obj: object) -> Rule:
    """Check one rule and fill in its source; unknown fields are kept as they are."""
    if not isinstance(obj, Mapping):
        raise Invalid(
            f"a permission rule must be an object, not {type(obj).__name__}",
            hint="pass rules as a list of dicts with permission, pattern and action",
        )
    rule = {"permission": "", "pattern": "", "action": "", "source": "session", **obj}
    for field in ("permission", "pattern"):
        value = rule[field]
        if not isinstance(value, str) or not 0 < len(value) <= _MAX_LENGTH:
            raise Invalid(
                f"permission rule: {field!r} must be text of 1 to {_MAX_LENGTH} characters",
                hint="'*' stands for everything",
            )
    _check_choice(rule, "action", _ACTIONS)
    _check_choice(rule, "source", _SOURCES)
    added_at = rule.get("added_at", 0)
    if type(added_at) is not int or added_at < 0:
        raise Invalid(
            "permission rule: 'added_at' must be a whole number of milliseconds",
            hint="give the epoch time in milliseconds, or leave it out",
        )
    return rule


def _check_choice(rule: Rule, field: str, choices: tuple[str, ...]) -> None:
    if rule[field] not in choices:
        raise Invalid(
            f"permission rule: {field!r} must be one of {', '.join(choices)}",
            hint=f"set rule[{field!r}]",
        )


# --- deciding


def _consider(
    permission: str, target: str, rules: Sequence[Mapping[str, Any]]
) -> tuple[list[tuple[Rule, str]], list[_Match]]:
    """Say of every rule why it does not apply, or that it does."""
    considered: list[tuple[Rule, str]] = []
    matches: list[_Match] = []
    for at, given in enumerate(rules):
        try:
            rule = validate_rule(given)
        except Invalid as error:
            shown = dict(given) if isinstance(given, Mapping) else {}
            considered.append((shown, f"ignored: {error}"))
            continue
        mismatch = _mismatch(permission, target, rule)
        if not mismatch:
            matches.append(_Match(rule, at, _specificity(rule)))
        considered.append((rule, mismatch))
    return considered, matches


def _mismatch(permission: str, target: str, rule: Rule) -> str:
    """Why the rule does not apply; empty when it does."""
    if not _glob(rule["permission"], permission, narrow=False):
        return f"is about {rule['permission']}, not {permission}"
    pattern, allow = rule["pattern"], rule["action"] == "allow"
    commands = [] if allow else [part.strip() for part in _SHELL_OPERATOR.split(target)]
    if not any(_covers(pattern, part, narrow=allow) for part in (target, *commands)):
        return "its pattern does not match"
    if allow and pattern not in _EVERYTHING and not _is_literal(pattern):
        if _CLIMBING.search(target) and "/" in pattern:
            return "allows no path that climbs with '..'"
        if _SHELL_OPERATOR.search(target) and "://" not in pattern:
            return "allows one command, and this has a shell operator in it"
    return ""


def _specificity(rule: Rule) -> tuple[int, int, int, int]:
    permission, pattern = rule["permission"], rule["pattern"]
    named = _literals(permission)
    kind = 2 if named == len(permission) else int(permission not in _EVERYTHING)
    literals = _literals(_command(pattern) or pattern)
    return kind, named if kind == 1 else 0, literals, int(_is_literal(pattern))


def _decide(
    permission: str, target: str, considered: list[tuple[Rule, str]], matches: list[_Match]
) -> Verdict:
    if not matches:
        reason = f"no rule is about {_quote(permission, target)}, so it must be asked for"
        return Verdict("ask", None, reason, considered)
    ranked = sorted(matches, key=lambda match: match.order, reverse=True)
    absolute = [match for match in ranked if _is_absolute(match.rule)]
    winner = (absolute or ranked)[0]
    losers = [match for match in ranked if match is not winner]
    outcome = {match.at: f"matches, but {_why(winner, match)}" for match in losers}
    outcome[winner.at] = "decides"
    full = [(rule, outcome.get(at, text)) for at, (rule, text) in enumerate(considered)]
    return Verdict(winner.rule["action"], winner.rule, _sentence(winner, losers), full)


def _is_absolute(rule: Rule) -> bool:
    return bool(rule["source"] == "manifest" and rule["action"] == "deny")


def _sentence(winner: _Match, losers: list[_Match]) -> str:
    """Name the winner and the best rule that would have decided otherwise."""
    action = winner.rule["action"]
    says = f"{_name(winner.rule)} says {action}"
    others = [match for match in losers if match.rule["action"] != action] or losers
    if not others:
        return f"{says}; no other rule matches"
    other = others[0]
    also = f"{_name(other.rule)} says {other.rule['action']}"
    return f"{says}; {also}, but {_why(winner, other)}"


def _name(rule: Rule) -> str:
    return f"{rule['source']} rule {_quote(rule['permission'], rule['pattern'])}"


def _why(winner: _Match, loser: _Match) -> str:
    """Say what the winner had over the loser, in the order in which it is decided."""
    if _is_absolute(winner.rule):
        return "a manifest's deny is absolute"
    if winner.rank[:2] != loser.rank[:2]:
        return f"{winner.rule['permission']} is more specific than {loser.rule['permission']}"
    if winner.rank != loser.rank:
        return f"{winner.rule['pattern']} is more specific than {loser.rule['pattern']}"
    if winner.order[1] != loser.order[1]:
        return "the later rule wins between equals"
    if winner.order[2] != loser.order[2]:
        return "the more careful rule wins between equals"
    return "it says the same"


def _under_parent(child: Verdict, parent: Verdict) -> Verdict:
    if parent.action != "deny" or child.action == "deny":
        return child
    reason = f"the parent session denies it ({parent.reason}), and a child cannot undo that"
    return Verdict("deny", parent.rule, reason, [*child.considered, *parent.considered])


def _quote(permission: str, pattern: str) -> str:
    return f'{permission} "{pattern}"'


# --- patterns


def _covers(pattern: str, target: str, *, narrow: bool) -> bool:
    """Match a target, reading `command:*` and `command *` as that command with anything after."""
    command = _command(pattern)
    if command is not None and target.startswith(command):
        rest = target[len(command) :]
        if not rest or rest[0].isspace():
            return True
    in_folder = narrow and "/" in pattern and "://" not in pattern and " " not in pattern
    return _glob(pattern, target, narrow=in_folder)


def _command(pattern: str) -> str | None:
    command = pattern.removesuffix(":*") if pattern.endswith(":*") else pattern.removesuffix(" *")
    return None if command == pattern or not _is_literal(command) else command


def _glob(pattern: str, target: str, *, narrow: bool) -> bool:
    """Match a glob against the whole target; with `narrow` only `**` crosses a slash.

    All places in the pattern are followed at once, one bit each, so that no pattern is slow:
    a regular expression takes minutes for `*a*a*a*a*a*a*b` on a long target.
    """
    if pattern in _EVERYTHING:
        return True
    if _is_literal(pattern):
        return pattern == target
    pieces = _GLOB_PIECE.findall(pattern)
    stars = _places(pieces, lambda piece: piece[0] == "*")
    crossing = _places(pieces, lambda piece: piece[:2] == "**") if narrow else stars
    steps: dict[str, int] = {}
    state = 1 | (stars & 1) << 1
    for character in target:
        slash = narrow and character == "/"
        step = steps.get(character)
        if step is None:
            takes = partial(_takes, character=character, slash=slash)
            step = steps[character] = _places(pieces, takes)
        state = (state & step) << 1 | state & (crossing if slash else stars)
        state |= (state & stars) << 1  # a star may stand for nothing
        if not state:
            return False
    return bool(state >> len(pieces) & 1)


def _places(pieces: list[str], wanted: Callable[[str], bool]) -> int:
    return sum(1 << at for at, piece in enumerate(pieces) if wanted(piece))


def _takes(piece: str, character: str, *, slash: bool) -> bool:
    """Tell whether this piece of a pattern stands for this one character."""
    if len(piece) == 1 and piece not in "*?":
        return piece == character
    if slash or piece[0] == "*":
        return False
    if piece == "?":
        return True
    negated = len(piece) > len("[!]") and piece[1] in "!^"
    ranges = _CLASS_PIECE.findall(piece[2 if negated else 1 : -1])
    inside = any(low <= character <= (high or low) for low, high in ranges)
    return inside != negated


def _is_literal(pattern: str) -> bool:
    return _literals(pattern) == len(pattern)


def _literals(pattern: str) -> int:
    return sum(len(piece) == 1 and piece not in "*?" for piece in _GLOB_PIECE.findall(pattern))

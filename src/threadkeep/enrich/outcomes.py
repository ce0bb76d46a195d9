"""How work ended, judged from its last attempts and its last words."""

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from threadkeep.knowledge.drafts import Outcome


class Attempt(NamedTuple):
    """One try of something; `ok` is None where nobody can tell."""

    key: str
    ok: bool | None


_GOOD: Final = re.compile(
    r"\b(?:done|fixed|completed?|implemented|committed|pushed|merged|updated|added|created|removed"
    r"|renamed|replaced|works|working now|passes|passing|all (?:tests )?pass|successfully|resolved"
    r"|is (?:now )?in place|verified|ready|landed|opened|written|wrapped|all green|finished)\b",
    re.IGNORECASE,
)
_BAD: Final = re.compile(
    r"\b(?:still fail\w*|unable to|could ?n[o']t|cannot|can't|failed to|not working|blocked|gave up"
    r"|d(?:id|oes) ?n[o']t work|no luck|remains? broken|hit (?:my|the|your) \w{0,20} ?limit)\b",
    re.IGNORECASE,
)
_UNHAPPY: Final = re.compile(
    r"^(?:no[,. ]|nope|still |that'?s (?:wrong|not)|wrong|it (?:still )?(?:does ?n[o']t|fails)"
    r"|does ?n[o']t work|not what|huh|revert|undo|stop)",
    re.IGNORECASE,
)


def last_attempts(attempts: Iterable[Attempt]) -> dict[str, bool]:
    """Give how the last try of each thing ended, where that is known."""
    return {attempt.key: attempt.ok for attempt in attempts if attempt.ok is not None}


def outcome_of(attempts: Iterable[Attempt]) -> Outcome:
    """Judge by the last try of each thing: what failed first and then worked is a success."""
    ends = last_attempts(attempts)
    if not ends:
        return "unknown"
    if all(ends.values()):
        return "success"
    return "partial" if any(ends.values()) else "failure"


def outcome_of_work(
    attempts: Sequence[Attempt],
    last_words: str,
    last_prompt: str,
    *,
    changed: bool,
    broken_off: bool,
) -> Outcome:
    """Judge a piece of an agent's work: by what was checked, else by what was said at its end."""
    checked = outcome_of(attempts)
    if checked == "unknown":
        checked = _by_words(last_words, changed=changed)
    if checked == "success" and (broken_off or _UNHAPPY.match(last_prompt)):
        return "partial"
    return checked


def _by_words(last_words: str, *, changed: bool) -> Outcome:
    if _BAD.search(last_words):
        return "partial" if changed or _GOOD.search(last_words) else "failure"
    return "success" if _GOOD.search(last_words) else "unknown"


def tries(attempts: Sequence[Attempt], key: str) -> str:
    """Say how the tries of one thing went, in plain words; empty if nobody can tell."""
    ends = [attempt.ok for attempt in attempts if attempt.key == key and attempt.ok is not None]
    failed = ends.count(False)
    if not ends:
        return ""
    if not failed:
        return "passed" if len(ends) == 1 else f"passed {len(ends)} times"
    times = "" if failed == 1 else f" {failed} times"
    return f"failed{times}, then passed" if ends[-1] else f"failed{times}"

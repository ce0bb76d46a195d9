"""Lessons: a failure that comes back, counted by repository, tool, rule and place."""

from typing import NamedTuple

import msgspec

from threadkeep.base.tx import Tx
from threadkeep.knowledge.archive import digest

_DAY_MS = 86_400_000


class LessonKey(NamedTuple):
    """What makes two failures the same; an empty text where nobody knows."""

    repo: str
    tool: str = ""
    rule_id: str = ""
    path_prefix: str = ""


def key_digest(key: LessonKey) -> bytes:
    """Return the digest by which counted failures name their lesson."""
    return digest(msgspec.json.encode(tuple(key)))


class LessonRules(msgspec.Struct, frozen=True):
    """How often a failure must come, and within how many days, to become a lesson."""

    min_occurrences: int = 2
    window_days: int = 30


class PendingLesson(NamedTuple):
    """A failure that is not a lesson yet."""

    times: int
    first_seen_at: int


class Lesson(msgspec.Struct, frozen=True):
    """A failure that came back."""

    id: int
    repo: str
    tool: str
    rule_id: str
    path_prefix: str
    summary: str
    fix_hint: str | None
    occurrences: int
    first_seen_at: int
    last_seen_at: int


def summarize(key: LessonKey) -> str:
    """Name a lesson in one line, as other programs of the contract do."""
    return f"{key.tool}:{key.rule_id} in {key.path_prefix}"


def count_once_more(before: PendingLesson | None, at: int, window_ms: int) -> PendingLesson:
    """Count a failure together with those before it, as far as they are within the window."""
    if before is None or at - before.first_seen_at > window_ms:
        return PendingLesson(1, at)
    if before.first_seen_at - at > window_ms:  # an old run came to light late
        return before
    return before._replace(times=before.times + 1)


def learn(tx: Tx, key: LessonKey, rules: LessonRules, at: int, summary: str | None = None) -> bool:
    """Count one failure; tell whether it is a lesson from now on, or was one before."""
    named = key._asdict()
    if tx.count("lesson_seen_again", {**named, "at": at}):
        return True
    row = tx.one("lesson_waiting", named)
    before = None if row is None else PendingLesson(*row)
    waiting = count_once_more(before, at, rules.window_days * _DAY_MS)
    if waiting == before:
        return False
    if waiting.times < rules.min_occurrences:
        tx.run("drop_lesson_waiting", named)  # it may stand there in another spelling
        tx.run("put_lesson_waiting", {**named, **waiting._asdict()})
        return False
    latest = at if before is None else max(at, before.first_seen_at)
    said = summarize(key) if summary is None else summary
    lesson = {"summary": said, "last_seen_at": latest, **waiting._asdict()}
    tx.run("put_lesson", {**named, **lesson})
    tx.run("drop_lesson_waiting", named)
    return True


def note_fix(tx: Tx, key: LessonKey, hint: str, at: int) -> bool:
    """Write down what ended a failure that is a lesson; tell whether that is news.

    A success before the failure was last seen has not ended it.
    """
    return tx.count("put_fix_hint", {**key._asdict(), "hint": hint, "at": at}) > 0


def list_lessons(
    tx: Tx,
    repo: str | None = None,
    path: str | None = None,
    tool: str | None = None,
    limit: int = 10,
) -> list[Lesson]:
    """Return the lessons that come most often; `path` may be a file, a folder or its beginning."""
    values = {"repo": repo, "path": path, "tool": tool, "limit": limit}
    return [Lesson(*row) for row in tx.all("list_lessons", values)]

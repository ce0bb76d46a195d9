"""Lessons: counted by key, within their window, and found again."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.capture.github.conftest import Poller
from tests.capture.github.server import Ci
from tests.support.knowledge import NOW
from threadkeep.base.config import GithubSettings
from threadkeep.base.tx import Sql
from threadkeep.knowledge.lessons import (
    LessonKey,
    LessonRules,
    PendingLesson,
    count_once_more,
    learn,
    list_lessons,
)
from threadkeep.knowledge.store import KnowledgeStore

DAY = 86_400_000
KEY = LessonKey("o/r", "ruff", "F401", "src/app/")


class Book:
    def __init__(self, store: KnowledgeStore) -> None:
        self.db = store.context.db

    def learn(self, day: float, key: LessonKey = KEY, **rules: int) -> bool:
        with self.db.write() as tx:
            return learn(tx, key, LessonRules(**rules), NOW + int(day * DAY))

    def lessons(self, **wanted: Any) -> list[tuple[str, int]]:
        with self.db.read() as tx:
            return [(one.summary, one.occurrences) for one in list_lessons(tx, **wanted)]

    def waiting(self) -> list[tuple[Any, ...]]:
        with self.db.read() as tx:
            return tx.all(Sql("SELECT count, first_seen_at FROM lesson_pending"))


@pytest.fixture
def book(tmp_path: Path) -> Any:
    with KnowledgeStore.open(tmp_path / "knowledge.db") as store:
        yield Book(store)


def test_the_second_time_makes_a_lesson(book: Book) -> None:
    assert not book.learn(0)
    assert book.waiting() == [(1, NOW)]
    assert book.learn(29)
    assert book.waiting() == []
    with book.db.read() as tx:
        (lesson,) = list_lessons(tx)
    assert lesson.summary == "ruff:F401 in src/app/"
    assert (lesson.occurrences, lesson.fix_hint) == (2, None)
    assert (lesson.first_seen_at, lesson.last_seen_at) == (NOW, NOW + 29 * DAY)


def test_one_repository_in_two_spellings_is_one(book: Book) -> None:
    assert not book.learn(0)
    assert book.learn(1, KEY._replace(repo="O/R"))
    assert book.learn(2)
    assert [times for _, times in book.lessons()] == [3]
    assert book.waiting() == []


def test_a_lesson_goes_on_counting_outside_the_window(book: Book) -> None:
    book.learn(0)
    book.learn(1)
    assert book.learn(400)
    assert book.lessons() == [("ruff:F401 in src/app/", 3)]


def test_a_failure_outside_the_window_starts_anew(book: Book) -> None:
    book.learn(0)
    assert not book.learn(31)
    assert book.waiting() == [(1, NOW + 31 * DAY)]
    assert book.learn(32)


def test_the_window_and_the_number_are_settings(book: Book) -> None:
    assert book.learn(0, min_occurrences=1)
    other = KEY._replace(rule_id="E501")
    for day in range(4):
        assert not book.learn(day, other, min_occurrences=5, window_days=3)
    assert not book.learn(4, other, min_occurrences=5, window_days=3)
    for day in range(5, 8):
        assert not book.learn(day, other, min_occurrences=5, window_days=3)
    assert book.learn(7, other, min_occurrences=5, window_days=3)


def test_an_old_run_that_comes_to_light_late_counts_for_nothing(book: Book) -> None:
    book.learn(100)
    assert not book.learn(0)
    assert book.waiting() == [(1, NOW + 100 * DAY)]
    assert book.learn(90)
    with book.db.read() as tx:
        (lesson,) = list_lessons(tx)
    assert (lesson.first_seen_at, lesson.last_seen_at) == (NOW + 100 * DAY, NOW + 100 * DAY)


def test_another_key_is_another_lesson(book: Book) -> None:
    for field in LessonKey._fields:
        assert not book.learn(0, KEY._replace(**{field: "x"}))
    assert not book.learn(0)


@given(st.lists(st.integers(0, 100), min_size=1))
def test_a_count_is_of_failures_within_the_window(days: list[int]) -> None:
    waiting: PendingLesson | None = None
    for day in days:
        waiting = count_once_more(waiting, day, 30)
    assert waiting is not None
    assert waiting.first_seen_at in days
    near = [day for day in days if abs(day - waiting.first_seen_at) <= 30]
    assert 1 <= waiting.times <= len(near)
    if max(days) - min(days) <= 30:
        assert waiting == (len(days), days[0])


def test_lessons_are_found_by_repository_tool_and_path(book: Book) -> None:
    for path in ("src/app/", "src/lib/", "docs/x.md/", ""):
        for _ in range(3 if path == "src/lib/" else 2):
            book.learn(0, KEY._replace(path_prefix=path))
    assert len(book.lessons()) == 4
    assert book.lessons(limit=1) == [("ruff:F401 in src/lib/", 3)]
    assert book.lessons(repo="o/other") == []
    assert len(book.lessons(repo="o/r", tool="ruff")) == 4
    assert book.lessons(tool="mypy") == []
    assert book.lessons(path="src/app/deep/main.py") == [("ruff:F401 in src/app/", 2)]
    assert len(book.lessons(path="src")) == 2
    assert book.lessons(path="docs/x.md") == [("ruff:F401 in docs/x.md/", 2)]
    assert book.lessons(path="docs/x.mdx") == []


def test_failures_are_counted_at_the_time_they_happened(ci: Ci, poller: Poller) -> None:
    poller.settings = GithubSettings(watched_repos=("octo/app",))
    ci.add_failure(1, "F401 unused", updated_at="2026-10-01T00:00:00Z")
    ci.add_failure(2, "F401 unused", updated_at="2027-01-01T00:00:00Z")
    poller.poll_well()
    assert poller.read(list_lessons) == []
    ci.add_failure(3, "F401 unused", "E501 long", updated_at="2099-01-01T00:00:00Z")
    poller.poll_well()
    (lesson,) = poller.read(list_lessons)
    assert (lesson.rule_id, lesson.occurrences, lesson.last_seen_at) == ("F401", 2, NOW)

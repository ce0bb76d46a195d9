"""What is remembered: how many answers, for how long, and what is worth being a little old."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from threadkeep.knowledge.library import AnswerCache


class Clocks:
    """A clock on the wall, and one of work."""

    def __init__(self) -> None:
        self.now = 0.0
        self.work = 0.0

    def making(self, value: str, seconds: float = 0.0) -> Callable[[], str]:
        def make() -> str:
            self.work += seconds
            return value

        return make


def kept(clocks: Clocks, size: int = 3) -> AnswerCache:
    return AnswerCache(size, lambda: clocks.now, lambda: clocks.work)


def test_only_the_latest_are_remembered() -> None:
    clocks = Clocks()
    some = kept(clocks, 2)
    for key in ("a", "b", "a", "c"):  # asking for `a` again keeps it
        some.get(key, clocks.making(key))
    assert some.get("a", clocks.making("new")) == "a"
    assert some.get("b", clocks.making("new")) == "new"


def test_a_new_version_is_made_at_once_where_that_is_quick() -> None:
    clocks = Clocks()
    some = kept(clocks)
    assert some.latest("k", 1, clocks.making("one", 0.1)) == "one"
    assert some.latest("k", 1, clocks.making("never")) == "one"
    assert some.latest("k", 2, clocks.making("two")) == "two"


def test_what_took_long_is_given_again_for_twenty_times_as_long() -> None:
    clocks = Clocks()
    some = kept(clocks)
    some.latest("k", 1, clocks.making("one", 1.0))
    clocks.now = 19.9
    assert some.latest("k", 2, clocks.making("two")) == "one"
    clocks.now = 20.1
    assert some.latest("k", 2, clocks.making("two")) == "two"


def test_what_has_a_weight_is_kept_up_to_so_much() -> None:
    some = AnswerCache(10, weigh=len)
    made: list[str] = []

    def get(text: str) -> str:
        def make() -> str:
            made.append(text)
            return text

        return some.get(text, make)

    for text in ("aaaa", "bbbb", "aaaa", "cccc", "bbbb", "x" * 11, "bbbb", "x" * 11):
        assert get(text) == text
    # The oldest goes for the newest; what is heavier than all of it is not kept, and costs nobody.
    assert made == ["aaaa", "bbbb", "cccc", "bbbb", "x" * 11, "x" * 11]


def test_nothing_is_given_after_its_version_where_nothing_is_worth_it() -> None:
    work = iter(range(100))
    some = AnswerCache(now=lambda: 0.0, work=lambda: float(next(work)), worth=0)
    assert some.latest("key", 1, lambda: "old") == "old"
    assert some.latest("key", 2, lambda: "new") == "new"


def test_of_two_who_want_the_same_at_once_one_does_the_work() -> None:
    some = AnswerCache()
    begun, go = threading.Event(), threading.Event()
    calls: list[int] = []

    def make() -> str:
        calls.append(1)
        begun.set()
        assert go.wait(30)
        return "made"

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(some.latest, "key", 1, make)
        assert begun.wait(30)
        second = pool.submit(some.latest, "key", 1, make)
        assert some.latest("key", 2, lambda: "newer") == "newer"  # another version waits for nobody
        go.set()
        assert (first.result(30), second.result(30)) == ("made", "made")
    assert len(calls) == 1


def test_a_failure_is_told_to_all_who_wait_and_is_not_kept() -> None:
    some = AnswerCache()
    with pytest.raises(ValueError, match="no"):
        some.get("key", _refuse)
    assert some.get("key", lambda: "yes") == "yes"


def _refuse() -> str:
    raise ValueError("no")

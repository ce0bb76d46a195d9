"""What is remembered: how many answers, for how long, and what is worth being a little old."""

from collections.abc import Callable

from threadkeep.browse.kept import Kept


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


def kept(clocks: Clocks, size: int = 3) -> Kept:
    return Kept(size, lambda: clocks.now, lambda: clocks.work)


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

"""Ids: thirty characters, always rising, whatever the clock does."""

import itertools
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest
from hypothesis import given, strategies as st

from tests.conftest import REPO
from tests.support.ids import is_id, time_of
from threadkeep.base.ids import IdSource
from threadkeep.errors import Invalid

SHAPE = re.compile(r"msg_[0-9a-f]{12}[0-9A-Za-z]{14}")
FIRST_WRAP = 1786706395136  # 2026-08-14T11:19:55.136Z, where the guide's formula starts again at 0
SECOND_WRAP = 1855425871872  # 2028-10-17T20:04:31.872Z


def mint(times: list[int], prefix: str = "msg") -> list[str]:
    remaining = iter(times)
    source = IdSource(lambda: next(remaining))
    return [source.new(prefix) for _ in times]


def assert_rising(ids: list[str]) -> None:
    assert all(a < b for a, b in itertools.pairwise(ids))
    assert {len(i) for i in ids} == {30}


def stuck(ms: int) -> Callable[[], int]:
    return lambda: ms


def test_ids_have_the_shape_of_the_contract() -> None:
    (only,) = mint([FIRST_WRAP])
    assert SHAPE.fullmatch(only)
    assert only.startswith(f"msg_{FIRST_WRAP:012x}")


def test_ten_thousand_ids_in_one_millisecond_rise() -> None:
    ids = mint([FIRST_WRAP] * 10_000)
    assert_rising(ids)
    assert {time_of(i) for i in ids} == {FIRST_WRAP}


@pytest.mark.parametrize("wrap", [FIRST_WRAP, SECOND_WRAP])
def test_ids_rise_where_the_packed_formula_wraps(wrap: int) -> None:
    times = [wrap + step for step in range(-50, 50)]
    ids = mint(times)
    assert_rising(ids)
    assert [time_of(i) for i in ids] == times


def test_ids_rise_through_a_clock_that_steps_back() -> None:
    ids = mint([1_000_000, 999_000, 0, -5, 999_999, 1_000_000, 1_000_001])
    assert_rising(ids)
    assert [time_of(i) for i in ids] == [1_000_000] * 6 + [1_000_001]


def test_a_full_counter_carries_into_the_milliseconds() -> None:
    source = IdSource(stuck(1_700_000_000_000))
    source._ms, source._counter = 1_700_000_000_000, 62**3 - 2
    ids = [source.new("prt") for _ in range(4)]
    assert_rising(ids)
    assert [time_of(i) for i in ids] == [1_700_000_000_000] + [1_700_000_000_001] * 3
    assert ids[0][16:19] == "zzz"
    assert ids[1][16:19] == "000"


@given(st.lists(st.integers(-1000, 2**48 - 2), min_size=1, max_size=200))
def test_any_clock_gives_rising_ids(times: list[int]) -> None:
    assert_rising(mint(times))


def test_a_clock_beyond_the_last_id_is_refused() -> None:
    with pytest.raises(Invalid, match="10889"):
        IdSource(stuck(2**48)).new("msg")


def test_threads_share_one_source_without_a_repeat() -> None:
    source = IdSource(stuck(1))
    made: list[list[str]] = [[] for _ in range(8)]

    def work(into: list[str]) -> None:
        into.extend(source.new("msg") for _ in range(2_000))

    threads = [threading.Thread(target=work, args=(into,)) for into in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for into in made:
        assert_rising(into)
    counters = [i[4:19] for into in made for i in into]
    assert len(set(counters)) == 16_000


def test_two_sources_at_the_same_moment_do_not_collide() -> None:
    one, two = IdSource(stuck(7)), IdSource(stuck(7))
    assert not {one.new("msg") for _ in range(1000)} & {two.new("msg") for _ in range(1000)}


FORK_WHILE_LOCKED = """
import os, sys
from tests.support.ids import is_id
from threadkeep.base.ids import IdSource
source = IdSource()
with source._lock:
    child = os.fork()
    if child == 0:
        os._exit(0 if is_id(source.new("msg"), "msg") else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_child_is_not_stopped_by_a_lock_its_parent_held() -> None:
    env = os.environ | {"PYTHONPATH": str(REPO / "src")}
    done = subprocess.run(
        [sys.executable, "-c", FORK_WHILE_LOCKED], env=env, timeout=60, check=False
    )
    assert done.returncode == 0


@pytest.mark.parametrize(
    "text",
    [
        "",
        "msg_",
        "ses_0123456789ab00000000000000",
        "msg_0123456789AB00000000000000",
        "msg_0123456789ab0000000000000",
        "msg_0123456789ab000000000000000",
        "msg_0123456789ab0000000000000\n",
        "msg-0123456789ab00000000000000",
        "../../../../../../../etc/passwd",
    ],
)
def test_is_id_refuses_what_is_not_ours(text: str) -> None:
    assert not is_id(text, "msg")


def test_is_id_and_time_of_know_our_ids() -> None:
    (only,) = mint([123], "toolcall")
    assert is_id(only, "toolcall")
    assert time_of(only) == 123
    assert time_of("chatcmpl-123") is None
    assert time_of("msg_xyz") is None

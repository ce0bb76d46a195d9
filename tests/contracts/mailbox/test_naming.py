"""Names an agent can write, folders it can have, and ids: pure functions, for any text."""

import re
import string
from random import Random

import pytest
from hypothesis import given, strategies as st

from threadkeep.mailbox.context import (
    Prefix,
    channel_message_id,
    new_id,
    platform_part,
    question_row_id,
)
from threadkeep.mailbox.index_groups import distinct_name, folder_name, local_name

NAME = re.compile("[a-z0-9]+(-[a-z0-9]+)*")
PREFIXES: st.SearchStrategy[Prefix] = st.sampled_from(
    ["sess", "msg", "appr-note", "sys-resp", "ag"]
)
TIMES = st.integers(0, 4_000_000_000_000)


@pytest.mark.parametrize(
    "text, name",
    [
        ("Family", "family"),
        ("Team: Build & Ship!", "team-build-ship"),
        ("--edge--", "edge"),
        ("a__b", "a-b"),
        ("Straße 7", "stra-e-7"),
        ("家族", "unnamed"),
        ("", "unnamed"),
        ("../../etc", "etc"),
    ],
)
def test_a_local_name_is_lower_case_with_dashes(text: str, name: str) -> None:
    assert local_name(text) == name


@given(st.text())
def test_any_text_gives_a_name_an_agent_can_write(text: str) -> None:
    assert NAME.fullmatch(local_name(text))


@given(st.text())
def test_a_local_name_is_its_own_local_name(text: str) -> None:
    assert local_name(local_name(text)) == local_name(text)


@given(st.text())
def test_a_folder_is_the_beginning_of_the_local_name_and_fits_a_file_system(text: str) -> None:
    folder = folder_name(text)
    assert NAME.fullmatch(folder)
    assert len(folder) <= 100
    assert local_name(text).startswith(folder)


def test_a_long_name_is_cut_between_its_words() -> None:
    assert folder_name("x" * 99 + " end") == "x" * 99
    assert folder_name("x" * 400) == "x" * 100


@pytest.mark.parametrize(
    "taken, name",
    [
        ([], "ops"),
        (["dev"], "ops"),
        (["ops"], "ops-2"),
        (["ops", "ops-2", "ops-3"], "ops-4"),
        (["ops", "ops-3"], "ops-2"),
    ],
)
def test_a_name_that_is_taken_gets_the_first_free_number(taken: list[str], name: str) -> None:
    assert distinct_name("ops", taken) == name


@given(st.lists(st.sampled_from(["a", "a-2", "a-3", "b"]), max_size=12))
def test_names_given_one_after_the_other_never_meet(wanted: list[str]) -> None:
    taken: set[str] = set()
    for name in wanted:
        taken.add(distinct_name(name, taken))
    assert len(taken) == len(wanted)


# ---------------------------------------------------------------------- ids


@given(PREFIXES, TIMES, st.randoms(use_true_random=False))
def test_an_id_says_its_kind_and_time_and_ends_in_six_characters(
    prefix: Prefix, ms: int, random: Random
) -> None:
    made = new_id(prefix, ms, random.randrange)
    found = re.fullmatch("(.+)-([0-9]+)-([0-9a-z]{6})", made)
    assert found is not None
    assert (found[1], found[2]) == (prefix, str(ms))


def test_every_character_of_base_36_can_come() -> None:
    tails = {new_id("msg", 7, lambda _below, n=n: n)[-6:] for n in range(36)}  # type: ignore[misc]
    assert tails == {digit * 6 for digit in string.digits + string.ascii_lowercase}


def test_ids_of_one_moment_differ() -> None:
    assert len({new_id("msg", 7) for _ in range(100)}) == 100


def test_the_answer_to_a_question_is_named_after_it() -> None:
    assert question_row_id("msg-1-abcdef", 5) == "qr-msg-1-abcdef-5"


@given(st.text(), st.text())
def test_the_platform_s_own_id_comes_back(platform_id: str, group: str) -> None:
    assert platform_part(channel_message_id(platform_id, group), group) == platform_id


@pytest.mark.parametrize(
    "message_id, part",
    [
        ("42:ag-1", "42"),
        ("a:b:c:ag-1", "a:b:c"),
        ("42:ag-1:ag-1", "42:ag-1"),
        ("42:ag-2", "42:ag-2"),
        ("42", "42"),
        ("42-ag-1", "42-ag-1"),
    ],
)
def test_only_the_exact_ending_is_taken_off(message_id: str, part: str) -> None:
    assert platform_part(message_id, "ag-1") == part

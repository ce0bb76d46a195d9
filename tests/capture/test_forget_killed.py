"""A forgetting that is killed leaves nothing done, or something that the next run completes."""

import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.lengths import at_length
from tests.support.children import exit_code, fork
from tests.support.forgetting import (
    add_node,
    all_sessions,
    bytes_left,
    masked_history,
    plant_rows,
    ran,
    rows,
    said,
    write_claude,
)
from tests.support.user_homes import assert_sound
from threadkeep.base.sqlite.connect import PLAIN, Tuning, open_writer
from threadkeep.capture.capture import History
from threadkeep.knowledge.query import Query

WORD = "zanzibar"
KILLED = 9
Action = Callable[[History], object]


def make(folder: Path) -> tuple[Path, Path]:
    """A store in which one session, lines of another and some rows say the word."""
    user, file = folder / "user", folder / "k.db"
    write_claude(user, "s1", [said("s1", 1, WORD), *ran("s1", 2, f"make {WORD}", f"at {WORD}")])
    write_claude(user, "s2", [said("s2", 1, "a duck"), said("s2", 2, "a goose")])
    with masked_history(file, user) as history:
        history.capture()
    (segment,) = rows(file, "SELECT id FROM agentic_sessions WHERE session_id = 's1'")[0]
    add_node(file, f"on {WORD}", segment=segment)
    return file, user


def copied(place: tuple[Path, Path], name: str) -> tuple[Path, Path]:
    """Copy a store that nobody has open."""
    target = place[0].with_name(name)
    shutil.copyfile(place[0], target)
    return target, place[1]


def statements(place: tuple[Path, Path], action: Action, die_at: int = -1) -> list[str]:
    """Run an action and give what its writer ran; die before the statement of a number."""
    ran_: list[str] = []

    def note(sql: str) -> None:
        if len(ran_) == die_at:
            os._exit(KILLED)
        ran_.append(sql)

    def watched(file: Path, tuning: Tuning = PLAIN) -> sqlite3.Connection:
        connection = open_writer(file, tuning)
        connection.set_trace_callback(note)
        return connection

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("threadkeep.base.sqlite.connections.open_writer", watched)
        with masked_history(*place) as history:
            action(history)
    return ran_


def killed_at(place: tuple[Path, Path], action: Action, point: int) -> bool:
    """Run an action in a process that dies before a statement; tell whether it did."""
    return exit_code(fork(lambda: statements(place, action, point))) == KILLED


def turning_points(ran_: list[str]) -> list[int]:
    """Return the places before and behind everything that reaches the file."""
    marks = ("COMMIT", "VACUUM", "PRAGMA wal_checkpoint")
    places = [n for n, sql in enumerate(ran_) if sql.startswith(marks)]
    return sorted({n for place in places for n in (place, place + 1) if n < len(ran_)})


def look(place: tuple[Path, Path]) -> object:
    with masked_history(*place) as history:
        found = [hit.shown.entry.text for hit in history.search("duck")]
        return all_sessions(history), found


def clean(place: tuple[Path, Path]) -> bool:
    left = bytes_left(place[0]).lower()
    return WORD.encode() not in left and not rows(place[0], "SELECT * FROM tk_cleaning")


@pytest.mark.faults
@pytest.mark.parametrize("again", ["forget", "capture"])
def test_sessions_are_forgotten_in_the_end(tmp_path: Path, again: str) -> None:
    def act(history: History) -> object:
        return history.forget(Query(session=("s1",)))

    def complete(history: History) -> object:
        return act(history) if again == "forget" else history.capture()

    origin = make(tmp_path)
    before = look(origin)
    whole = copied(origin, "whole.db")
    every = turning_points(statements(whole, act))
    wanted = look(whole)
    assert len(every) >= 10
    for point in every[:: at_length(1, 3)]:
        place = copied(origin, f"{point}.db")
        assert killed_at(place, act, point)
        named = rows(place[0], "SELECT 1 FROM tk_forgotten")
        with masked_history(*place) as history:
            complete(history)
        if again == "capture" and not named:
            assert look(place) == before  # killed before anything was said
        else:
            assert look(place) == wanted
            assert clean(place)
        assert_sound(place[0])


@pytest.mark.faults
def test_lines_and_rows_are_forgotten_in_the_end(tmp_path: Path) -> None:
    def act(history: History) -> object:
        return history.forget(Query(pattern=WORD))

    origin = make(tmp_path)
    plant_rows(origin[0], WORD)
    whole = copied(origin, "whole.db")
    every = turning_points(statements(whole, act))
    wanted = look(whole)
    for point in every[:: at_length(1, 3)]:
        place = copied(origin, f"{point}.db")
        assert killed_at(place, act, point)
        with masked_history(*place) as history:
            history.capture()  # as it would happen meanwhile
            act(history)
        assert look(place) == wanted
        assert clean(place)
        assert_sound(place[0])


def test_an_index_that_was_cut_off_is_finished_while_others_write(tmp_path: Path) -> None:
    place = make(tmp_path)

    class Stop(Exception):
        pass

    def stop(_: object) -> None:
        raise Stop

    with masked_history(*place) as history:
        with pytest.raises(Stop):
            history.reindex(stop)
        write_claude(place[1], "s3", [said("s3", 1, "a duck of later")])
        history.capture()
        assert len(history.search("duck")) == 2
        assert history.reindex() == 6
        assert len(history.search("duck")) == 2
    assert_sound(place[0])


def test_a_reader_in_the_way_is_told_and_the_next_capture_cleans_up(tmp_path: Path) -> None:
    place = make(tmp_path)
    reader = sqlite3.connect(place[0], isolation_level=None)
    with masked_history(*place) as history:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM tk_entries").fetchone()
        assert history.forget(Query(session=("s1",))).unfinished
        assert not history.search(WORD)
        reader.close()
        history.capture()
    assert clean(place)
    assert_sound(place[0])


def test_two_at_once_take_nothing_else(tmp_path: Path) -> None:
    place = make(tmp_path)
    with masked_history(*place) as one, masked_history(*place) as two:
        kept = all_sessions(two)["s2"]
        seen: list[object] = []

        def meanwhile(progress: object) -> None:
            if not seen:
                seen.append(progress)
                two.forget(Query(session=("s1",)))
                write_claude(place[1], "s3", [said("s3", 1, "a heron")])
                two.capture()

        one.forget(Query(session=("s1",), since=0), show=meanwhile)
        one.forget(Query(pattern="nothing at all"), show=meanwhile)
        left = all_sessions(one)
        assert left["s2"] == kept
        assert left["s3"][1] == ["a heron"]
        assert left.keys() == {"s2", "s3"}
    assert clean(place)

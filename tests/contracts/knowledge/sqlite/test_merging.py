"""Merging, for any two files: of rows that are alike there are as many as in the fuller file."""

import tempfile
from collections import Counter
from contextlib import closing
from pathlib import Path

from hypothesis import given, settings, strategies as st

from tests.lengths import examples
from tests.support.knowledge import ask, assert_sound, clock
from threadkeep.base.database import Database
from threadkeep.base.tx import Sql
from threadkeep.knowledge.merge import MergeCounts, merge_knowledge
from threadkeep.knowledge.opening import open_knowledge

Events = list[tuple[int, str]]
EVENTS = st.lists(st.tuples(st.integers(1, 3), st.sampled_from(["ls", "make", "a\0b", "é"])))


def open_with(path: Path, events: Events, first: int) -> Database:
    """Make a file with some commands of one shell, numbered from `first` on."""
    database = open_knowledge(path, lambda _: {}, clock=clock).database
    with database.write() as tx:
        tx.run(
            Sql(
                "INSERT INTO sessions (id, start_time, terminal, shell, hostname, username,"
                " created_at) VALUES (?, 1, NULL, 'zsh', 'h', 'u', 1)"
            ),
            (first,),
        )
        for number, (at, command) in enumerate(events, first):
            tx.run(
                Sql(
                    "INSERT INTO events (id, session_id, timestamp, command, duration_ms, cwd,"
                    " hostname, shell, created_at) VALUES (?, ?, ?, ?, 1, '/', 'h', 'zsh', 1)"
                ),
                (number, first, at, command),
            )
    return database


def held(path: Path) -> Counter[tuple[int, str]]:
    return Counter(ask(path, "SELECT timestamp, command FROM events"))


@settings(max_examples=examples(25))
@given(EVENTS, EVENTS)
def test_a_merge_is_the_union_and_is_done_once(theirs: Events, ours: Events) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path, other = Path(folder) / "ours.db", Path(folder) / "theirs.db"
        with (
            closing(open_with(other, theirs, 5)) as source,
            closing(open_with(path, ours, 1)) as target,
        ):
            first = merge_knowledge(source, target)
            again = merge_knowledge(source, target)
        union = Counter(theirs) | Counter(ours)
        assert held(path) == union
        assert first["events"].new == union.total() - len(ours)
        assert again["events"] == MergeCounts(there=len(theirs))
        assert first["sessions"] == MergeCounts(there=1)
        assert held(other) == Counter(theirs)
        assert_sound(path)

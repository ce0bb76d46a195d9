"""What capture hands over is learned from as if it were read from the archive, and nothing else."""

from collections.abc import Callable
from pathlib import Path

import msgspec

from tests.support.tickets import column
from tests.support.user_homes import made_up_home
from threadkeep.base.tx import Sql
from threadkeep.capture.capture import History
from threadkeep.home.home import Home
from threadkeep.knowledge.query import Query
from threadkeep.knowledge.recent_entries import RecentEntries
from threadkeep.knowledge.records import Entry, EntryRow
from threadkeep.service.learn import enrich, learn_all, learn_recent

Learn = Callable[[Home, History, RecentEntries], object]


def nodes_of(folder: Path, learn: Learn | None) -> tuple[list[str], list[str]]:
    """Capture, learn what is handed over and then the rest; give the nodes and lessons."""
    user = made_up_home(folder / "user")
    home = Home(folder / "home", environ={})
    with home.history(user_home=user) as history:
        hand_over = None if learn is None else lambda recent: learn(home, history, recent)
        assert history.capture(learn=hand_over).errors == 0
        enrich(home, history, at_once=True)
        learn_all(home, history)
        with history.store.context.db.read() as tx:
            nodes = column(tx, "SELECT content FROM knowledge_nodes ORDER BY content")
            lessons = column(tx, "SELECT summary FROM lessons ORDER BY summary")
    return nodes, lessons


def test_nodes_are_the_same_as_those_made_of_the_archive(tmp_path: Path) -> None:
    told: list[int] = []

    def learn(home: Home, history: History, recent: RecentEntries) -> None:
        told.append(learn_recent(home, history, recent))

    handed, read = nodes_of(tmp_path / "handed", learn), nodes_of(tmp_path / "read", None)
    assert sum(told) > 3
    assert handed == read


def test_the_archive_is_not_read_for_what_is_at_hand(tmp_path: Path) -> None:
    made = []

    def learn(home: Home, history: History, recent: RecentEntries) -> None:
        with history.store.context.db.write() as tx:
            tx.run(Sql("UPDATE tk_blocks SET data = x'00'"))
        made.append(enrich(home, history, queues=("agentic",), at_once=True, recent=recent))

    nodes_of(tmp_path, learn)
    assert made[0].queues["agentic"].nodes > 3
    assert made[0].errors == []


def test_what_was_forgotten_meanwhile_is_not_learned_from(tmp_path: Path) -> None:
    forgotten = []

    def learn(home: Home, history: History, recent: RecentEntries) -> None:
        forgotten.append(history.forget(Query(agent=("codex",))).sessions)
        learn_recent(home, history, recent)

    nodes, _ = nodes_of(tmp_path, learn)
    assert forgotten[0] > 0
    assert nodes
    assert not any('"codex"' in node for node in nodes)


def entry(key: str, text: str) -> Entry:
    return Entry(key, "user", "prompt", 0, text)


def row(number: int, key: str, hashed: int) -> EntryRow:
    return EntryRow(number, 1, key, 1, 0, 0, "user", "prompt", 0, None, error=False, hash=hashed)


def test_a_text_counts_only_for_the_row_that_holds_it() -> None:
    recent = RecentEntries()
    recent.add(1, entry("a", "said"), 7)
    assert recent.get(row(1, "a", 7)) == entry("a", "said")
    assert recent.get(row(1, "a", 8)) is None  # masked, or said anew
    assert recent.get(row(1, "b", 7)) is None  # the number was given again
    assert recent.get(row(2, "a", 7)) is None
    recent.clear()
    assert recent.get(row(1, "a", 7)) is None


def test_the_oldest_go_when_there_are_too_many() -> None:
    recent = RecentEntries(most=10)
    for number, text in enumerate(("four", "four", "four"), 1):
        recent.add(number, entry(str(number), text), 0)
    assert recent.get(row(1, "1", 0)) is None
    assert recent.get(row(3, "3", 0)) is not None
    assert recent.size == 8
    recent.add(4, msgspec.structs.replace(entry("4", "long " * 9), kind="reasoning"), 0)
    assert recent.get(row(4, "4", 0)) is None  # nothing is learned from what was thought
    assert recent.size == 8

"""The archive: every line as it was, each block once, and damage named."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from tests.lengths import examples
from tests.support.toy_sources import conversation, said
from tests.support.worlds import World
from threadkeep.base.tx import Sql
from threadkeep.errors import Damaged
from threadkeep.knowledge import archive
from threadkeep.knowledge.archive import LineWriter, drop_lines, read_lines
from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.testing import KnowledgeFactory

any_lines = st.lists(st.binary(max_size=60).map(lambda raw: raw.replace(b"\n", b"")), max_size=30)


@pytest.fixture
def world(tmp_path: Path, knowledge_factory: KnowledgeFactory) -> World:
    return World(tmp_path, knowledge_factory)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeStore:
    return KnowledgeStore.open(tmp_path_factory.mktemp("archive") / "knowledge.db")


def add_log(store: KnowledgeStore) -> int:
    with store.context.db.write() as tx:
        sql = "INSERT INTO tk_logs (reader, harness, path) VALUES ('t', 'pi', hex(randomblob(9)))"
        return tx.insert(Sql(sql)) or 0


def append(store: KnowledgeStore, log: int, lines: list[bytes]) -> None:
    with store.context.db.write() as tx:
        writer = LineWriter(tx, log)
        for line in lines:
            writer.append(line)
        writer.finish()


def stored(store: KnowledgeStore, log: int) -> list[bytes]:
    with store.context.db.read() as tx:
        return list(read_lines(tx, log))


def blocks(store: KnowledgeStore, log: int) -> list[tuple[int, int, bytes]]:
    sql = (
        "SELECT l.first_line, l.lines, b.digest FROM tk_log_blocks l "
        "JOIN tk_blocks b ON b.id = l.block_id WHERE log_id = ? ORDER BY first_line"
    )
    with store.context.db.read() as tx:
        return tx.all(Sql(sql), (log,))


def all_blocks(store: KnowledgeStore) -> int:
    with store.context.db.read() as tx:
        return int(tx.value(Sql("SELECT count(*) FROM tk_blocks")))


@settings(max_examples=examples(40))
@given(lines=any_lines, cuts=st.lists(st.integers(0, 30), max_size=4), block=st.integers(1, 300))
def test_lines_come_back_and_blocks_do_not_depend_on_the_pieces(
    store: KnowledgeStore, lines: list[bytes], cuts: list[int], block: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(archive, "BLOCK_BYTES", block)
        before = all_blocks(store)
        whole, pieces = add_log(store), add_log(store)
        append(store, whole, lines)
        after = all_blocks(store)
        places = sorted({0, *(min(cut, len(lines)) for cut in cuts), len(lines)})
        for start, end in zip(places, [*places[1:], len(lines)], strict=True):
            append(store, pieces, lines[start:end])
        assert stored(store, whole) == stored(store, pieces) == lines
        assert blocks(store, whole) == blocks(store, pieces)
        assert all_blocks(store) == after  # shared, and nothing left of the way there
        with store.context.db.write() as tx:
            drop_lines(tx, whole)
        assert stored(store, pieces) == lines
        with store.context.db.write() as tx:
            drop_lines(tx, pieces)
        assert all_blocks(store) == before


@given(first=st.integers(0, 12), count=st.integers(0, 12))
@settings(max_examples=examples(30))
def test_any_part_of_the_lines_can_be_read(store: KnowledgeStore, first: int, count: int) -> None:
    lines = [b"%d" % number for number in range(10)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(archive, "BLOCK_BYTES", 7)
        log = add_log(store)
        append(store, log, lines)
    with store.context.db.read() as tx:
        assert list(read_lines(tx, log, first, count)) == lines[first : first + count]


def test_two_logs_with_the_same_beginning_share_its_blocks(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "BLOCK_BYTES", 500)
    world.write(conversation(40), "a")
    world.write(conversation(40) + said(99), "b")
    world.capture()
    used, kept = world.ask("SELECT count(*), count(DISTINCT block_id) FROM tk_log_blocks")[0]
    assert used > kept
    assert world.ask("SELECT count(*) FROM tk_blocks") == [(kept,)]
    assert [raw + b"\n" for raw in world.raw("b")] == (conversation(40) + said(99)).splitlines(
        keepends=True
    )


def test_a_growing_log_leaves_no_old_blocks_behind(world: World) -> None:
    for number in range(12):
        world.append(said(number))
        world.capture()
    assert world.ask("SELECT count(*) FROM tk_blocks") == [(1,)]


@pytest.mark.parametrize(
    "damage",
    [lambda data: bytes(len(data)), lambda data: data[:20], lambda _: b""],
    ids=["zeros", "cut", "empty"],
)
def test_a_damaged_block_is_named_and_other_sessions_are_not_affected(
    world: World, damage: Callable[[bytes], bytes]
) -> None:
    world.write(conversation(5, text="mine"), "a")
    world.write(conversation(5), "b")
    world.capture()
    ((block, data),) = world.ask(
        "SELECT k.id, data FROM tk_blocks AS k JOIN tk_log_blocks ON block_id = k.id"
        " JOIN tk_logs AS l ON l.id = log_id WHERE session_id = 'a'"
    )
    world.ask("UPDATE tk_blocks SET data = ? WHERE id = ?", damage(data), block)
    with pytest.raises(Damaged, match=f"block {block}"):
        world.raw("a")
    assert world.texts("b") == [f"word{n}" for n in range(5)]
    world.append(said(9), "a")
    world.append(said(9), "b")
    report = world.capture()
    assert list(report.of("pi").errors) == [str(world.log("a"))]
    assert world.texts("b")[-1] == "word9"


def test_a_block_with_other_text_is_damaged_too(world: World) -> None:
    world.write(conversation(3), "a")
    world.write(conversation(4), "b")
    world.capture()
    first, second = [row[0] for row in world.ask("SELECT id FROM tk_blocks ORDER BY id")]
    world.ask(
        "UPDATE tk_blocks SET (data, size) = (SELECT data, size FROM tk_blocks WHERE id = ?) "
        "WHERE id = ?",
        second,
        first,
    )
    with pytest.raises(Damaged, match=f"block {first}"):
        world.raw("a")


def test_a_missing_block_is_damage(world: World) -> None:
    world.write(conversation(3), "a")
    world.capture()
    world.ask("DELETE FROM tk_blocks")
    with pytest.raises(Damaged, match="missing"):
        world.raw("a")

"""Line logs in every state that a crash, a careless program or a rotation leaves them in."""

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from tests.lengths import examples
from tests.support.toy_sources import conversation, line, said
from tests.support.worlds import World
from threadkeep.capture import intake, logs as line_logs
from threadkeep.capture.redact.engine import MaskedBlock
from threadkeep.sources import files
from threadkeep.testing import KnowledgeFactory

WHOLE = b'{"id": "last", "kind": "text", "text": "whole"}'
MINUTE = 60_000


@pytest.fixture
def world(tmp_path: Path, knowledge_factory: KnowledgeFactory) -> World:
    return World(tmp_path, knowledge_factory)


def captured_at_once(folder: Path, data: bytes) -> World:
    other = World(folder)
    other.write(data)
    other.capture()
    return other


# ---------------------------------------------------------------------- the end of a log


def test_a_line_being_written_waits_until_it_is_whole(world: World) -> None:
    world.write(conversation(3) + b'{"id": "half", "kind": "te')
    report = world.capture()
    assert world.lines_report(report).lines == 3
    world.append(b'xt", "text": "done"}\n')
    report = world.capture()
    assert (world.lines_report(report).lines, world.lines_report(report).bad_lines) == (1, 0)
    assert world.texts()[-1] == "done"


def test_a_whole_record_without_its_line_feed_is_taken_at_once(world: World) -> None:
    world.write(conversation(3) + WHOLE)
    assert world.lines_report(world.capture()).lines == 4
    assert world.texts()[-1] == "whole"


def test_a_line_feed_that_comes_later_adds_no_line(world: World, tmp_path: Path) -> None:
    world.write(conversation(3) + WHOLE)
    world.capture()
    world.append(b"\n")
    assert world.lines_report(world.capture()).lines == 0
    world.append(said(9))
    world.capture()
    once = captured_at_once(tmp_path / "once", conversation(3) + WHOLE + b"\n" + said(9))
    assert world.held() == once.held()


def test_text_glued_to_a_line_that_was_taken_is_the_next_line(world: World) -> None:
    world.write(WHOLE)
    world.capture()
    world.append(said(3))
    world.capture()
    assert world.raw() == [WHOLE, said(3).rstrip()]
    assert world.texts() == ["whole", "word3"]


def test_a_torn_line_that_nobody_finishes_is_kept_as_it_is(world: World) -> None:
    world.write(conversation(2) + b'{"id": "to')
    world.capture()
    assert world.log_row()["lines"] == 2
    world.now += 2 * MINUTE
    part = world.lines_report(world.capture())
    assert (part.lines, part.bad_lines) == (1, 1)
    assert world.raw()[-1] == b'{"id": "to'
    assert world.lines_report(world.capture()).changed == 0


def test_a_log_of_one_line_without_any_line_feed(world: World) -> None:
    world.write(WHOLE)
    world.capture()
    assert world.raw() == [WHOLE]


def test_an_empty_log_is_known_and_has_nothing(world: World) -> None:
    world.write(b"")
    world.capture()
    assert world.log_row()["lines"] == 0
    assert world.lines_report(world.capture()).changed == 0
    world.append(conversation(2))
    world.capture()
    assert world.texts() == ["word0", "word1"]


def test_the_zeros_that_a_crash_leaves_are_no_record_and_hide_none(world: World) -> None:
    world.write(said(0) + b"\0" * 500)
    world.capture()
    world.append(said(1))
    part = world.lines_report(world.capture())
    assert (part.lines, part.bad_lines) == (1, 0)
    assert world.texts() == ["word0", "word1"]
    assert world.raw() == [said(0)[:-1], b"\0" * 500 + said(1)[:-1]]


# ---------------------------------------------------------------------- strange lines


def test_strange_lines_are_kept_byte_for_byte_and_only_bad_ones_counted(world: World) -> None:
    good = [
        said(0)[:-1] + b"\r",
        b"",
        b"   ",
        said(1)[:-1] + b"\0\0" + said(2)[:-1],
        said(3)[:-1] + said(4)[:-1],
        b'{"id": "bytes", "kind": "text", "text": "\xff\xfe"}',
        b'{"id": "lone", "kind": "text", "text": "\\ud800"}',
        b'{"id": "nan", "kind": "text", "text": "n", "x": NaN}',
        b'{"id": "huge", "kind": "text", "text": "h", "x": ' + b"9" * 400 + b"}",
        b"[1, 2]",
        b"null",
    ]
    bad = [
        b"not json",
        b"[" * 100_000,
        b'{"id": ' + b"9" * 10_000 + b"}",
        b"\xff\xfe\x00",
        b'{"text": "a',
    ]
    data = b"\n".join([*good, *bad]) + b"\n"
    world.write(b"\xef\xbb\xbf" + data)
    part = world.lines_report(world.capture())
    assert b"\n".join(world.raw()) + b"\n" == b"\xef\xbb\xbf" + data
    assert (part.lines, part.bad_lines, part.errors) == (len(good) + len(bad), len(bad), {})
    assert world.texts() == [*(f"word{n}" for n in range(5)), "\ufffd\ufffd", "\ufffd", "n", "h"]


def test_a_number_that_no_column_can_hold_costs_one_log_at_most(world: World) -> None:
    world.write(said(0) + line(id="x", kind="text", text="late", at=2**70) + said(1), "one")
    world.write(conversation(3), "two")
    report = world.capture()
    assert list(world.lines_report(report).errors) == [str(world.log("one"))]
    assert world.texts("two") == ["word0", "word1", "word2"]


def test_a_line_longer_than_the_limit_is_kept_in_parts(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "LONGEST_LINE", 4000)
    monkeypatch.setattr(files, "PIECE_BYTES", 1000)
    long = b"x" * 9_500
    world.write(said(0) + long + b"\n" + said(1))
    part = world.lines_report(world.capture())
    assert part.bad_lines == part.lines - 2 == 3
    assert b"".join(world.raw()) == said(0)[:-1] + long + said(1)[:-1]
    assert world.texts() == ["word0", "word1"]


def test_the_parts_of_a_long_line_do_not_depend_on_when_it_is_read(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(files, "LONGEST_LINE", 4000)
    monkeypatch.setattr(files, "PIECE_BYTES", 1000)
    data = said(0) + b"x" * 9_500 + b"\n" + said(1) + b"y" * 4000 + b"\n" + b"z" * 4001 + b"\n"
    once = captured_at_once(tmp_path / "once", data)
    for at in range(0, len(data), 333):
        world.append(data[at : at + 333])
        world.capture()
    assert world.held() == once.held()


# ---------------------------------------------------------------------- in pieces


def pieces_of(data: bytes, cuts: list[int]) -> list[bytes]:
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[a:b] for a, b in pairwise(places)]


texts = st.sampled_from(["plain", "two words", "Grüße", "x" * 300, "", "tab\there"])


@st.composite
def logs(draw: st.DrawFn) -> bytes:
    """Draw a log: entries, repeated and changed ones, facts, usage, unknown and broken lines."""
    kinds = st.sampled_from(["said", "again", "changed", "title", "usage", "odd", "bad", "blank"])
    lines: list[bytes] = []
    for number, kind in enumerate(draw(st.lists(kinds, max_size=14))):
        if kind == "said":
            lines.append(said(number, draw(texts), cwd="/u/a"))
        elif kind == "again" and lines:
            lines.append(draw(st.sampled_from(lines)))
        elif kind == "changed":
            at = draw(st.integers(0, 10**7))
            lines.append(line(id="same", kind="text", text=draw(texts), at=at, error=True))
        elif kind == "title":
            lines.append(line(title=draw(texts)))
        elif kind == "usage":
            lines.append(line(id=f"u{number % 3}", usage=draw(st.integers(0, 99))))
        elif kind == "odd":
            lines.append(line(kind="new-kind"))
        elif kind == "bad":
            lines.append(b'{"text": \r\n')
        elif kind == "blank":
            lines.append(b"\n")
    return b"".join(lines)


@settings(max_examples=examples(40))
@given(data=logs(), cuts=st.lists(st.integers(0, 3000), max_size=6), block=st.integers(40, 2000))
def test_a_log_read_in_pieces_gives_the_same_rows_as_read_at_once(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, cuts: list[int], block: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("threadkeep.knowledge.archive.BLOCK_BYTES", block)
        folder = tmp_path_factory.mktemp("pieces")
        once = captured_at_once(folder / "once", data)
        world = World(folder / "pieces")
        for piece in pieces_of(data, cuts):
            world.append(piece)
            world.capture()
        assert world.held() == once.held()
        assert (
            [raw + b"\n" for raw in world.raw()] == data.splitlines(keepends=True)
            if (world.ask("SELECT 1 FROM tk_sessions"))
            else True
        )


@settings(max_examples=examples(20))
@given(data=logs(), piece=st.integers(1, 400), batch=st.integers(1, 900))
def test_where_batches_end_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, piece: int, batch: int
) -> None:
    folder = tmp_path_factory.mktemp("batches")
    once = captured_at_once(folder / "once", data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "PIECE_BYTES", piece)
        patch.setattr(intake, "BATCH_BYTES", batch)
        assert captured_at_once(folder / "small", data).held() == once.held()


def test_the_session_that_a_log_names_itself_does_not_depend_on_pieces(
    world: World, tmp_path: Path
) -> None:
    lines = [line(title="first", session="real"), *(said(n, session="real") for n in range(4))]
    once = captured_at_once(tmp_path / "once", b"".join(lines))
    for one in lines:
        world.append(one)
        world.capture()
    assert world.held() == once.held()


# ---------------------------------------------------------------------- while it changes


def test_what_is_written_while_a_log_is_read_is_not_lost(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.write(conversation(3))
    late = iter([conversation(2, start=3), b'{"id": "ha'])

    def grow(*_: object) -> None:
        world.append(next(late, b""))

    world.capture(show=grow)
    world.append(b'lf", "kind": "text", "text": "end"}\n')
    world.capture()
    assert world.texts() == [*(f"word{n}" for n in range(5)), "end"]


def test_cursors_of_other_programs_are_written_for_the_whole_log_only(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Codex(type(world.sources["toy"])):  # type: ignore[misc]
        agent = "codex"

    monkeypatch.setattr(intake, "BATCH_BYTES", 200)
    monkeypatch.setattr(files, "PIECE_BYTES", 100)
    world.sources = {"codex": Codex()}
    path = world.write(conversation(30))
    world.capture()
    keys = world.ask("SELECT source_key, last_seen_updated_at, last_id FROM agentic_cursor")
    assert keys == [(f"codex-{path.stat().st_ino}", world.now, "one")]


@pytest.mark.parametrize("wanted", [4096, 100])
def test_head_bytes_are_remembered_up_to_a_limit(world: World, wanted: int) -> None:
    data = (conversation(200) if wanted == line_logs.HEAD_BYTES else conversation(5))[:-1]
    world.write(data + b"\n")
    world.capture()
    assert world.log_row()["head_size"] == min(line_logs.HEAD_BYTES, len(data) + 1)


def test_masked_lines_are_counted_and_stay_lines(world: World) -> None:
    def mask(data: bytes, _before: bytes, _after: bytes) -> MaskedBlock:
        masked = data.replace(b"word1", b"[REDACTED]")
        return MaskedBlock(data if masked == data else masked)

    world.mask = mask
    world.write(conversation(3))
    assert world.lines_report(world.capture()).masked_lines == 1
    assert world.texts() == ["word0", "[REDACTED]", "word2"]
    world.append(conversation(2, start=3))
    assert world.lines_report(world.capture()).masked_lines == 0
    assert len(world.raw()) == 5

"""One session: windows of its transcript, its turns, what is found in it, and how to go on."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.support.remembered import Machine, iso, ms
from tests.support.toy_sources import ToyDocuments, conversation
from tests.support.worlds import World
from threadkeep.errors import Conflict, Invalid, NotFound
from threadkeep.knowledge.library import Browse
from threadkeep.knowledge.session_detail import resume_command
from threadkeep.knowledge.transcript import span
from threadkeep.sources.registry import foreign_sources
from threadkeep.testing import KnowledgeFactory

STEPS = (
    (0, "prompt", "Why does the Build fail?"),
    (1, "make build", "ld: cannot find -lssl", True),
    (2, "text", "The library is missing: installing it."),
    (3, "apt install libssl-dev", "done", False),
    (10, "prompt", "Now run the TESTS, please"),
    (11, "make test", "all 12 passed", False),
    (12, "text", "All tests passed; 100% green, naïve café included."),
)


@contextmanager
def browsing(world: World) -> Iterator[Browse]:
    with world.store(read_only=True) as store:
        yield Browse(store, world.sources, clock=lambda: ms(14))


@pytest.fixture(scope="module")
def browse(
    tmp_path_factory: pytest.TempPathFactory, lasting_factory: KnowledgeFactory
) -> Iterator[Browse]:
    machine = Machine(tmp_path_factory.mktemp("machine"), lasting_factory)
    machine.pi("older", (-60, "prompt", "an older one"))
    machine.pi("talk-1", *STEPS)
    machine.pi("talk-2", (30, "prompt", "a newer one"))
    machine.world.capture()
    with browsing(machine.world) as opened:
        yield opened


def test_a_window_has_every_block_whole_and_in_order(browse: Browse) -> None:
    window = browse.window("pi:talk-1")
    kinds = [block.part for block in window.messages]
    assert kinds == [
        *("prompt", "tool_call", "tool_result", "text", "tool_call", "tool_result"),
        *("prompt", "tool_call", "tool_result", "text"),
    ]
    assert window.total == len(window.messages) == 10
    assert [block.position for block in window.messages] == list(range(10))
    assert [block.turn for block in window.messages] == [0] * 6 + [1] * 4
    failed = window.messages[2]
    assert (failed.error, failed.text, failed.role) == (True, "ld: cannot find -lssl", "tool")
    assert window.messages[1].call_id == failed.call_id != ""
    assert window.messages[1].tool == "bash"


def test_windows_are_found_by_key_name_and_position(browse: Browse) -> None:
    whole = browse.window("pi:talk-1").messages
    middle = whole[5]
    assert browse.window("pi:talk-1", at=middle.key, limit=1).messages == (middle,)
    assert browse.window("pi:talk-1", at=middle.ref, limit=1).messages == (middle,)
    assert browse.window("pi:talk-1", at=5, limit=3).messages == whole[4:7]
    assert browse.window("pi:talk-1", after=7).messages == whole[8:]
    assert browse.window("pi:talk-1", before=3, limit=2).messages == whole[1:3]
    assert browse.window("pi:talk-1", at=99, limit=2).messages == whole[8:]
    with pytest.raises(NotFound, match="no message 'nothing'"):
        browse.window("pi:talk-1", at="nothing")


@given(
    st.integers(0, 50),
    *(st.none() | st.integers(-5, 60) for _ in range(3)),
    st.integers(-1, 60),
)
def test_a_window_never_leaves_the_session(
    total: int, at: int | None, before: int | None, after: int | None, limit: int
) -> None:
    start, end = span(total, at, before, after, limit)
    assert 0 <= start <= end <= total
    assert end - start <= max(1, limit)
    if at is not None and 0 <= at < total:
        assert start <= at < end
    elif at is None and before is not None:
        assert end <= max(0, before)
    elif at is None and after is not None and end > start:
        assert start > after


def test_a_session_is_told_with_its_turns_and_neighbours(browse: Browse) -> None:
    detail = browse.session("talk-1")
    assert (detail.listed.ref, detail.newer, detail.older) == (
        *("pi:talk-1", "pi:talk-2", "pi:older"),
    )
    assert detail.listed.live
    assert detail.log_path is not None
    assert detail.log_path.endswith("2026_talk-1.jsonl")
    assert detail.resume == "cd /u/app && pi --session talk-1"
    first, second = detail.turns
    assert (first.prompt, first.position, first.tools, first.errors) == (
        *("Why does the Build fail?", 0, 2, 1),
    )
    assert (first.at, first.ended_at) == (ms(0), ms(3))
    assert (second.turn, second.position, second.ended_at) == (1, 6, ms(12))


def test_sessions_are_found_as_elsewhere(browse: Browse) -> None:
    assert browse.session("talk-2").listed.ref == "pi:talk-2"
    with pytest.raises(Conflict):
        browse.session("talk")
    with pytest.raises(NotFound):
        browse.session("pi:nobody")


@pytest.mark.parametrize(
    "words, positions",
    [
        ("tests", [6, 7, 9]),  # any case, and `test` by the index
        ("stall  LIB", [4]),  # in the middle of words, any space between them
        ("passing", [8, 9]),  # another form of the word, by the index
        ("100%", [9]),
        ("naïve", [9]),
        ("make build", [1]),
        ("", []),
        ("   ", []),
        ("\x00", []),
        ('"', []),
        ("nowhere at all", []),
    ],
)
def test_words_are_found_in_one_session(browse: Browse, words: str, positions: list[int]) -> None:
    spots = browse.find("pi:talk-1", words)
    assert [spot.position for spot in spots] == positions
    assert all(">>>" in spot.snippet for spot in spots)
    with pytest.raises(Invalid, match="limit must be a number from 1 to 1000, not 0"):
        browse.find("pi:talk-1", words, limit=0)


# ---------------------------------------------------------------------- tokens, branches, order


def said(number: int, parent: int | None, role: str, text: str, **message: Any) -> dict[str, Any]:
    """Make a record of Claude Code."""
    return {
        "type": role,
        "uuid": f"u-{number}",
        "parentUuid": None if parent is None else f"u-{parent}",
        "sessionId": "tree",
        "timestamp": iso(number).replace("+00:00", "Z"),
        "cwd": "/u/app",
        "message": {"role": role, "content": [{"type": "text", "text": text}], **message},
    }


def answer(number: int, parent: int, text: str, tokens: int) -> dict[str, Any]:
    usage = {"input_tokens": tokens, "output_tokens": 10}
    model = {"id": f"msg-{number}", "model": "claude-opus-4-5", "usage": usage}
    return said(number, parent, "assistant", text, **model)


def test_turns_have_their_tokens_and_branches_are_counted(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.sources = foreign_sources()
    records = [
        said(0, None, "user", "begin"),
        answer(1, 0, "first answer", 100),
        said(2, 1, "user", "go left"),
        answer(3, 2, "went left", 200),
        said(4, 1, "user", "no, go right"),
        answer(5, 4, "went right", 400),
    ]
    lines = "".join(json.dumps(record) + "\n" for record in records)
    world.write(lines.encode(), to=tmp_path / ".claude" / "projects" / "-u-app" / "tree.jsonl")
    world.capture()
    with browsing(world) as browse:
        detail = browse.session("claude-code:tree")
        assert [turn.input for turn in detail.turns] == [100, 200, 400]
        assert sum(turn.cost or 0 for turn in detail.turns) == detail.listed.cost
        blocks = browse.window("claude-code:tree").messages
        assert [(block.position, block.branches) for block in blocks if block.branches] == [
            *((2, 2), (4, 2)),
        ]


def document(*texts: str) -> bytes:
    """Make a document in which each text is said a minute after the one before."""
    said_ = {
        f"k{number}": {"id": f"k{number}", "kind": "prompt", "at": ms(number), "text": text}
        for number, text in enumerate(texts)
    }
    return json.dumps({"talk": said_}).encode()


def test_what_came_out_of_a_database_is_shown_in_the_order_of_time(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.sources = {"toy-docs": ToyDocuments()}
    place = tmp_path / "docs" / "one.json"
    world.write(document("first", "second", "third"), to=place)
    world.capture()
    world.now += 60_000
    world.write(document("first, changed", "second", "third"), to=place)
    world.capture()
    with browsing(world) as browse:
        texts = [block.text for block in browse.window("aider:talk").messages]
    assert texts == ["first, changed", "second", "third"]


def test_a_session_whose_source_is_gone_still_has_its_blocks(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.write(conversation(3))
    world.capture()
    world.sources = {}
    with browsing(world) as browse:
        window = browse.window("pi:one")
        assert [(block.part, block.text) for block in window.messages] == [
            *(("prompt", ""), ("text", ""), ("tool_call", "")),
        ]
        assert browse.session("pi:one").turns[0].prompt == ""


def test_a_window_follows_what_is_written(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.write(conversation(3))
    world.capture()
    with browsing(world) as browse:
        assert browse.window("pi:one").total == 3
        world.append(conversation(2, start=3))
        world.capture()
        window = browse.window("pi:one", after=2)
        assert window.total == 5
        assert [block.text for block in window.messages] == ["word3", "word4"]


@pytest.mark.parametrize(
    "harness, command",
    [
        ("claude-code", "cd '/u/my app' && claude --resume 'a b'"),
        ("codex", "codex resume 'a b'"),
        ("opencode", "cd '/u/my app' && opencode --session 'a b'"),
        ("cursor", "cursor-agent --resume='a b'"),
        ("gptme", "gptme --name 'a b'"),
        ("llm", "llm chat --cid 'a b'"),
        ("continue", "cn --fork 'a b'"),
        ("cline", "cline --id 'a b'"),
        ("amp", "amp threads continue 'a b'"),
        ("droid", "droid --resume 'a b'"),
        ("mailbox", None),
    ],
)
def test_the_command_that_goes_on_with_a_session(harness: str, command: str | None) -> None:
    assert resume_command(harness, "a b", "/u/my app") == command


def test_a_part_of_a_session_is_resumed_by_no_program() -> None:
    assert resume_command("kimi-code", "session_1/explore", "/u") is None

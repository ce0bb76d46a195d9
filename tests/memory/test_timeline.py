"""timeline: everything that happened, mixed in the order of time, each with a way to open it."""

from datetime import date, timedelta, timezone
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings, strategies as st

from tests.lengths import examples
from tests.support.knowledge import ask, do
from tests.support.remembered import START, Machine, ms
from threadkeep.errors import Invalid
from threadkeep.knowledge.query import Query
from threadkeep.knowledge.records import EntryRow, GitState
from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.memory.fixed import fixed
from threadkeep.memory.memory import Memory
from threadkeep.memory.opened import turns_of
from threadkeep.memory.timeline import Moment, commit_text, in_time, near, span_of, timeline
from threadkeep.testing import KnowledgeFactory

CLAUDE = "5e550000-0000-4000-8000-000000000001"
DAY = START.date()
KINDS = st.sampled_from(["command", "prompt", "visit", "run"])
MOMENTS = st.lists(
    st.builds(
        Moment,
        at=st.integers(0, 50),
        kind=KINDS,
        text=st.sampled_from("abc"),
        ref=st.integers(0, 999).map("command:{}".format),
        outcome=st.sampled_from(["success", "failure"]),
    ),
    max_size=20,
)


@pytest.fixture
def machine(tmp_path: Path, knowledge_factory: KnowledgeFactory) -> Machine:
    return Machine(tmp_path, knowledge_factory)


def told(moments: list[Moment]) -> list[tuple[str, str]]:
    return [(moment.kind, moment.text) for moment in moments]


def test_everything_is_mixed_in_the_order_of_time(machine: Machine) -> None:
    machine.pi(
        "p1",
        (1, "prompt", "make the parser quick"),
        (2, "make bench", "ok", False),
        (3, "make bench", "boom", True),
        (4, "text", "on it"),
        (6, "text", "done, it is quick"),
        (9, "prompt", "thanks"),
    )
    machine.shell(0, "git status")
    machine.page(5, "How parsers work")
    machine.shell(7, "make test", 2)
    machine.ci(31, 8, "failure")
    with machine.memory() as memory:
        moments = timeline(memory, day=DAY)
        opened = memory.open(moments[1].ref)
    assert told(moments) == [
        ("command", "git status"),
        ("prompt", "make the parser quick"),
        ("visit", "How parsers work"),
        ("answer", "done, it is quick"),
        ("command", "make test"),
        ("run", "push on main at 0000000000: failure (change 31)"),
        ("prompt", "thanks"),
    ]
    answer = moments[3]
    assert (answer.tools, answer.errors, answer.agent) == ({"bash": 2}, 1, "pi")
    assert [moment.outcome for moment in moments[4:6]] == ["failure", "failure"]
    assert opened.text == "make the parser quick"
    assert [moment.at for moment in moments] == sorted(moment.at for moment in moments)


def test_probes_are_never_told(machine: Machine) -> None:
    machine.shell(1, "echo probe", probe_tag="p")
    machine.page(2, "probe", probe_tag="p")
    with machine.memory() as memory:
        assert timeline(memory) == []


def test_a_project_has_its_own_work_and_the_pages_read_meanwhile(machine: Machine) -> None:
    machine.shell(10, "make app")
    machine.shell(30, "make lib", cwd="/u/lib", git=GitState("o/lib", "main"))
    machine.pi("p1", (11, "prompt", "for app"))
    machine.pi("p2", (31, "prompt", "for lib"), cwd="/u/lib")
    machine.page(13, "about app")
    machine.page(50, "about nothing")
    machine.ci(1, 12, "success")
    with machine.memory() as memory:
        expected = ["make app", "for app", "push on main at 0000000000: success (change 1)"]
        for name in ("app", "/u/app"):
            found = [m.text for m in timeline(memory, Query(project=(name,)))]
            assert found == [*expected, "about app"]
        assert [m.text for m in timeline(memory, Query(project=("/u/lib",)))] == [
            "make lib",
            "for lib",
        ]
        assert [m.text for m in timeline(memory, Query(project=("o/lib",)))] == [
            "make lib",
            "for lib",
        ]


def test_the_same_command_again_and_again_is_one_moment(machine: Machine) -> None:
    for minute in (1, 2, 3):
        machine.shell(minute, "make test", 1)
    machine.shell(4, "make test")
    with machine.memory() as memory:
        failed, passed = timeline(memory)
    assert (failed.count, failed.outcome, failed.until) == (3, "failure", ms(3))
    assert failed.ref == "command:3", "the last one opens"
    assert (passed.count, passed.outcome) == (1, "success")


def test_commits_are_told_by_whoever_made_them(machine: Machine) -> None:
    machine.shell(1, "ls", git=GitState("o/app", "main", "a" * 40))
    machine.shell(2, "git commit -m 'Add parser'", git=GitState("o/app", "main", "b" * 40))
    machine.shell(3, "git pull", git=GitState("o/app", "main", "c" * 40))
    machine.shell(4, "git checkout old", git=GitState("o/app", "old", "d" * 40))
    machine.shell(5, "git commit -m 'nothing'", 1, git=GitState("o/app", "old", "d" * 40))
    machine.claude(
        CLAUDE,
        (6, "prompt", "commit it"),
        (7, "git add -A && git commit -m \"$(cat <<'EOF'\nTidy up\n\nmore\nEOF\n)\"", "ok", False),
        (8, "text", "committed"),
    )
    with machine.memory() as memory:
        moments = timeline(memory)
    assert [m.text for m in moments if m.kind == "commit"] == [
        "bbbbbbbbbb Add parser (main)",
        "cccccccccc git pull (main)",
        "Tidy up",
    ]
    assert [m.text for m in moments if m.kind == "command"] == [
        "ls",
        "git checkout old",
        "git commit -m 'nothing'",
    ]
    assert [m.text for m in moments if m.kind == "answer"] == ["committed"]


def test_the_latest_are_told_when_there_are_too_many(machine: Machine) -> None:
    for minute in range(6):
        machine.shell(minute, f"make step{minute}")
    with machine.memory() as memory:
        assert [m.text for m in timeline(memory, limit=2)] == ["make step4", "make step5"]
        assert timeline(memory, limit=0) == []
        spans = timeline(memory, Query(since=ms(1), until=ms(3)))
    assert [m.text for m in spans] == ["make step1", "make step2"]


def test_a_file_that_another_program_made_is_told_too(machine: Machine) -> None:
    """It has none of our tables, may only be read, and its sessions are in no archive."""
    machine.shell(1, "make test", 1, "error: bad wolf")
    machine.shell(2, "make test")
    machine.page(3, "A page")
    machine.claude(CLAUDE, (4, "prompt", "tidy up"), (5, "make lint", "ok", False))
    with machine.memory():
        pass
    path = machine.world.database
    ours = ask(path, "SELECT name FROM sqlite_master WHERE name LIKE 'tk!_%' ESCAPE '!'")
    kinds = ask(path, "SELECT type, name FROM sqlite_master WHERE name LIKE 'tk!_%' ESCAPE '!'")
    assert len(ours) > 10
    virtual = [name for (name,) in ours if name.endswith("_words")]
    do(path, *(f"DROP TRIGGER {name}" for kind, name in kinds if kind == "trigger"))
    do(path, *(f"DROP TABLE {name}" for name in virtual))
    left = [n for kind, n in kinds if kind == "table" and not n.startswith(tuple(virtual))]
    do(path, *(f"DROP TABLE IF EXISTS {name}" for name in left))
    with KnowledgeStore.open(path, read_only=True) as store:
        memory = Memory(store, machine.world.sources)
        moments = timeline(memory)
        (fix,) = fixed(memory, "bad wolf")
        assert memory.open(moments[-1].ref).text
    assert [(m.kind, m.agent) for m in moments] == [
        ("command", None),
        ("command", None),
        ("visit", None),
        ("work", "claude-code"),
        ("command", "claude-code"),
    ]
    assert "tidy up" in moments[3].text
    assert fix.success is not None


# ---------------------------------------------------------------------- pure


def test_a_day_begins_and_ends_where_its_zone_says() -> None:
    east = timezone(timedelta(hours=9))
    span = span_of(date(2026, 3, 1), None, None, east)
    assert span.until - span.since == 86_400_000
    assert span.since == 1_772_290_800_000
    short = span_of(date(2026, 3, 29), None, None, ZoneInfo("Europe/Berlin"))
    assert short.until - short.since == 23 * 3_600_000
    with pytest.raises(Invalid, match="cannot be combined"):
        span_of(date(2026, 3, 1), 5, None, east)


@settings(max_examples=examples(50))
@given(MOMENTS)
def test_folding_loses_nothing_and_keeps_the_order(moments: list[Moment]) -> None:
    folded = in_time(moments)
    assert sum(one.count for one in folded) == len(moments)
    assert [one.at for one in folded] == sorted(one.at for one in folded)
    assert {one.text for one in folded} == {one.text for one in moments}
    alone = [one for one in folded if one.count > 1]
    assert all(one.kind == "command" and one.until is not None for one in alone)


@settings(max_examples=examples(50))
@given(MOMENTS, MOMENTS, st.integers(0, 20))
def test_near_is_within_the_distance(pages: list[Moment], work: list[Moment], most: int) -> None:
    kept = near(pages, work, most)
    for page in pages:
        is_near = any(abs(page.at - one.at) <= most for one in work)
        assert (page in kept) == is_near


ROWS = st.lists(
    st.tuples(st.sampled_from(["prompt", "text", "tool_call", "tool_result"]), st.booleans())
).map(
    lambda kinds: [
        EntryRow(
            n, 1, f"k{n}", 1, n, 0, "user", kind, n, "bash", error and kind == "tool_result", n
        )
        for n, (kind, error) in enumerate(kinds)
    ]
)


@settings(max_examples=examples(50))
@given(ROWS)
def test_turns_count_every_call_and_every_prompt(rows: list[EntryRow]) -> None:
    turns = list(turns_of(rows))
    assert sum(turn.kind == "prompt" for turn in turns) == sum(r.kind == "prompt" for r in rows)
    calls = sum(row.kind == "tool_call" for row in rows)
    assert sum(sum(turn.tools.values()) for turn in turns) == calls
    assert sum(turn.errors for turn in turns) == sum(row.error for row in rows)
    assert [turn.row.line for turn in turns] == sorted(turn.row.line for turn in turns)


@given(st.text())
def test_any_command_may_be_asked_for_its_commit(rest: str) -> None:
    message = commit_text(f"git commit {rest}")
    assert message is None or "\n" not in message


@pytest.mark.parametrize(
    "command, message",
    [
        ("git commit -m 'one two'", "one two"),
        ('cd x && git commit -am "say \\"hi\\""', 'say \\"hi\\"'),
        ("git commit --message=short --amend", "short"),
        ("git commit --amend --no-edit", ""),
        ("git log --grep commit", None),
        ("echo commit", None),
    ],
)
def test_the_message_of_a_commit_is_its_first_line(command: str, message: str | None) -> None:
    assert commit_text(command) == message

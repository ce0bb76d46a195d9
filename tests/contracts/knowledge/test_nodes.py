"""Nodes: the contract's rows to the letter, and never two where one is meant."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from tests.lengths import examples
from tests.support.tickets import (
    LONG_AGO,
    NOW,
    add_event,
    add_row,
    add_run,
    add_segment,
    column,
    insert,
    status_of,
    undone,
    waiting,
)
from threadkeep.base.match import Phrase
from threadkeep.base.tx import Sql, Tx
from threadkeep.errors import Conflict, Invalid, NotFound
from threadkeep.knowledge.entities import recount_some
from threadkeep.knowledge.forget import erase
from threadkeep.knowledge.kinds import Queue
from threadkeep.knowledge.nodes import ToUpgrade, content_of, nodes_by_rules, note_tried, write_node
from threadkeep.knowledge.queues import QUEUES, claim, requeue
from threadkeep.knowledge.records import BY_RULES, Decision, Evidence, Mentions, NodeDraft
from threadkeep.knowledge.schema import NODE_WORDS
from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.knowledge.workflow_runs import AROUND_MS, evidence_of_run, in_project

DRAFT = NodeDraft(
    summary='Fixed "E0425" in café',
    intent="debugging",
    outcome="success",
    entities=Mentions(projects=("app",), tools=("cargo",), files=("src/a.rs",), errors=("E0425",)),
    tags=("rust", "é"),
    key_decisions=("keep it",),
    problems_encountered=("E0425",),
    design_decisions=(Decision("a", "b", "c"),),
    embed_text="cargo src/a.rs E0425",
)
KINDS: dict[Queue, str] = {
    "shell": "events",
    "agentic": "segments",
    "browser": "visits",
    "workflow": "runs",
}
LINKS = {
    "shell": ("knowledge_node_events", "event_id"),
    "agentic": ("knowledge_node_agentic_sessions", "agentic_session_id"),
    "browser": ("knowledge_node_browser_events", "browser_event_id"),
    "workflow": ("knowledge_node_workflow_runs", "run_id"),
}
every_queue = pytest.mark.parametrize("queue", list(KINDS))
_uuids = iter(range(10**9))


def write(
    tx: Tx, queue: Queue, targets: list[int], draft: NodeDraft = DRAFT, **options: Any
) -> int:
    given = {"model": "m", "now": NOW, "uuid": f"uuid {next(_uuids)}", **options}
    evidence = msgspec.structs.replace(
        given.pop("beside", Evidence()), **{KINDS[queue]: tuple(targets)}
    )
    return write_node(tx, queue, draft, evidence, **given)


def saying(summary: str, **values: Any) -> NodeDraft:
    return msgspec.structs.replace(DRAFT, summary=summary, **values)


def links(tx: Tx, queue: Queue) -> set[tuple[int, int]]:
    table, target = LINKS[queue]
    return set(tx.all(Sql(f"SELECT knowledge_node_id, {target} FROM {table}")))


def summaries(tx: Tx) -> list[str]:
    contents = column(tx, "SELECT content FROM knowledge_nodes ORDER BY id")
    return [json.loads(content)["summary"] for content in contents]


def counted(tx: Tx) -> dict[tuple[str, str], int]:
    rows = tx.all(
        Sql(
            "SELECT a.name, b.name, evidence_count FROM relationships"
            " JOIN entities AS a ON a.id = from_entity_id JOIN entities AS b ON b.id = to_entity_id"
        )
    )
    return {(one, other): count for one, other, count in rows}


def sound(tx: Tx) -> None:
    """Every word of a node finds it, and nothing else is in the index."""
    assert NODE_WORDS.problem(tx, compare=True) is None
    nodes = column(tx, "SELECT id FROM knowledge_nodes ORDER BY id")
    assert NODE_WORDS.ids(tx, Phrase(("debugging",)), newest=False) == nodes


# ---------------------------------------------------------------------- the contract's rows


def test_content_is_written_as_the_contracts_other_writers_do() -> None:
    assert content_of(DRAFT) == (
        '{"summary": "Fixed \\"E0425\\" in caf\\u00e9", "intent": "debugging", '
        '"outcome": "success", "entities": {"projects": ["app"], "tools": ["cargo"], '
        '"files": ["src/a.rs"], "services": [], "errors": ["E0425"], "env_vars": [], '
        '"domains": []}, "tags": ["rust", "\\u00e9"], '
        '"key_decisions": ["keep it"], "problems_encountered": ["E0425"], '
        '"design_decisions": [{"considered": "a", "chosen": "b", "reason": "c"}]}'
    )


@every_queue
def test_a_node_its_links_its_evidence_and_its_tickets(tx: Tx, queue: Queue) -> None:
    targets = [waiting(tx, queue) for _ in range(2)]
    claim(tx, queue, worker="me", now=NOW)
    node = write(tx, queue, targets, uuid="u-1")
    (row,) = tx.all(
        Sql(
            "SELECT uuid, content, embed_text, node_type, outcome, tags, enrichment_model,"
            " enrichment_version, created_at, updated_at FROM knowledge_nodes"
        )
    )
    kind = "change_outcome" if queue == "workflow" else "observation"
    text = (content_of(DRAFT), DRAFT.embed_text, kind, "success", '["rust", "\\u00e9"]')
    assert row == ("u-1", *text, "m", 3, NOW, NOW)
    assert links(tx, queue) == {(node, target) for target in targets}
    assert column(tx, f"SELECT enriched FROM {QUEUES[queue].rows}") == [1, 1]
    assert {status_of(tx, queue, target) for target in targets} == {"done"}
    names = "SELECT name FROM entities JOIN knowledge_node_entities ON entity_id = id ORDER BY id"
    assert column(tx, names) == ["app", "cargo", "src/a.rs", "E0425"]
    assert NODE_WORDS.ids(tx, Phrase(("fixed",))) == [node]
    sound(tx)


def test_the_outcome_of_a_run_is_its_conclusion_and_what_is_beside_it_is_only_linked(
    tx: Tx,
) -> None:
    run, event, segment = waiting(tx, "workflow"), waiting(tx, "shell"), waiting(tx, "agentic")
    beside = Evidence(events=(event,), segments=(segment,))
    node = write(tx, "workflow", [run], beside=beside, outcome_column="timed_out")
    assert column(tx, "SELECT outcome FROM knowledge_nodes") == ["timed_out"]
    assert links(tx, "shell") == {(node, event)}
    assert links(tx, "agentic") == {(node, segment)}
    assert status_of(tx, "shell", event) == status_of(tx, "agentic", segment) == "pending"
    assert column(tx, "SELECT enriched FROM events") == [0]


@pytest.mark.parametrize(
    "hashes, learned",
    [(None, "now"), ([], "now"), (["as it was read"], "as it was read")],
)
def test_a_segment_knows_what_was_learned_from_it(
    tx: Tx, hashes: list[str] | None, learned: str
) -> None:
    target = waiting(tx, "agentic", content_hash="now")
    given = None if hashes is None else dict(zip([target], hashes, strict=False))
    write(tx, "agentic", [target], hashes=given)
    assert column(tx, "SELECT last_enriched_content_hash FROM agentic_sessions") == [learned]


@pytest.mark.parametrize(
    "draft",
    [saying(" "), saying("s", intent=""), saying("s", embed_text=""), saying("s", outcome="x")],
)
def test_a_draft_that_says_too_little_is_refused(tx: Tx, draft: NodeDraft) -> None:
    with pytest.raises(Invalid, match="the draft of a node has"):
        write(tx, "shell", [waiting(tx, "shell")], draft)
    assert summaries(tx) == []


def test_what_was_forgotten_meanwhile_does_not_come_back(tx: Tx) -> None:
    kept, gone = waiting(tx, "shell"), waiting(tx, "shell")
    erase(tx, "event", [gone])
    with pytest.raises(NotFound, match=str(gone)):
        write(tx, "shell", [kept, gone])
    with pytest.raises(NotFound):
        write(tx, "shell", [])
    assert summaries(tx) == []


def test_halves_of_characters_are_replaced(tx: Tx) -> None:
    broken = saying("a \ud83d b", embed_text="\udc00 x", entities=Mentions(tools=("t\ud800",)))
    write(tx, "shell", [waiting(tx, "shell")], broken)
    assert summaries(tx) == ["a ? b"]
    assert column(tx, "SELECT embed_text FROM knowledge_nodes") == ["? x"]
    assert column(tx, "SELECT name FROM entities") == ["t?"]


# ---------------------------------------------------------------------- never two for one


@every_queue
def test_the_same_again_changes_nothing(tx: Tx, queue: Queue) -> None:
    target = waiting(tx, queue)
    node = write(tx, queue, [target])
    before, ties = links(tx, queue), counted(tx)
    requeue(tx, queue, [target], NOW)
    assert write(tx, queue, [target], now=NOW + 5) == node
    assert len(summaries(tx)) == 1
    assert (links(tx, queue), counted(tx)) == (before, ties)
    assert status_of(tx, queue, target) == "done"


@every_queue
def test_other_words_take_the_place_of_the_old_ones(tx: Tx, queue: Queue) -> None:
    targets = [waiting(tx, queue), waiting(tx, queue)]
    write(tx, queue, targets, saying("old", entities=Mentions(tools=("gone", "kept"))))
    node = write(tx, queue, targets, saying("new", entities=Mentions(tools=("kept",))), now=NOW + 5)
    assert summaries(tx) == ["new"]
    assert links(tx, queue) == {(node, target) for target in targets}
    rows = tx.all(Sql("SELECT name, first_seen, last_seen FROM entities"))
    assert rows == [("kept", NOW, NOW + 5)]
    sound(tx)


@pytest.mark.parametrize("queue", ["shell", "browser", "workflow"])
def test_the_same_words_about_other_rows_are_stored_once(tx: Tx, queue: Queue) -> None:
    one, other = waiting(tx, queue), waiting(tx, queue)
    node = write(tx, queue, [one])
    assert write(tx, queue, [other]) == node
    assert links(tx, queue) == {(node, one), (node, other)}
    write(tx, queue, [other], msgspec.structs.replace(DRAFT, embed_text="else"))
    assert len(summaries(tx)) == 2


@pytest.mark.parametrize(
    "summary", ["?!", 'a "b" AND * NEAR(', "日本語 の", "x" * 300, "a\0b", "-"]
)
def test_the_same_words_are_found_whatever_they_are(tx: Tx, summary: str) -> None:
    one, other = waiting(tx, "shell"), waiting(tx, "shell")
    assert write(tx, "shell", [one], saying(summary)) == write(
        tx, "shell", [other], saying(summary)
    )


def test_two_segments_may_say_the_same(tx: Tx) -> None:
    one, other = waiting(tx, "agentic"), waiting(tx, "agentic")
    assert write(tx, "agentic", [one]) != write(tx, "agentic", [other])


def test_a_node_that_rests_on_another_segment_too_stays(tx: Tx) -> None:
    one, other = waiting(tx, "agentic"), waiting(tx, "agentic")
    both = write(tx, "agentic", [one, other], saying("both"))
    new = write(tx, "agentic", [one], saying("one"))
    assert links(tx, "agentic") == {(both, one), (both, other), (new, one)}


def test_the_node_of_a_run_stays_when_its_segment_is_told_of(tx: Tx) -> None:
    run, segment, event = waiting(tx, "workflow"), waiting(tx, "agentic"), waiting(tx, "shell")
    write(tx, "workflow", [run], beside=Evidence(events=(event,), segments=(segment,)))
    write(tx, "agentic", [segment], saying("segment"), node_type="change_outcome")
    write(tx, "shell", [event], saying("shell"), node_type="change_outcome")
    assert len(summaries(tx)) == 3


def test_commands_leave_the_node_that_told_of_them(tx: Tx) -> None:
    events = [waiting(tx, "shell", at=LONG_AGO + n) for n in range(3)]
    first = write(tx, "shell", events, saying("all"))
    second = write(tx, "shell", events[:2], saying("two"))
    assert links(tx, "shell") == {(first, events[2]), *((second, e) for e in events[:2])}
    third = write(tx, "shell", events[2:], saying("one"))
    assert summaries(tx) == ["two", "one"]
    assert (third, events[2]) in links(tx, "shell")


def test_vectors_go_with_their_node(tx: Tx) -> None:
    table = "CREATE TABLE knowledge_vectors (knowledge_node_id INTEGER PRIMARY KEY, v BLOB)"
    tx.run(Sql(table))
    target = waiting(tx, "agentic")
    node = write(tx, "agentic", [target])
    insert(tx, "knowledge_vectors", knowledge_node_id=node, v=b"\0")
    write(tx, "agentic", [target])  # the same words keep their vector
    assert column(tx, "SELECT knowledge_node_id FROM knowledge_vectors") == [node]
    write(tx, "agentic", [target], saying("new"))
    assert column(tx, "SELECT knowledge_node_id FROM knowledge_vectors") == []


# ---------------------------------------------------------------------- entities of evidence


def test_a_command_names_what_it_says_now(tx: Tx) -> None:
    event = waiting(tx, "shell", command="cargo build src/a.rs", cwd="/home/me/app")
    write(tx, "shell", [event])
    named = "SELECT name FROM event_entities JOIN entities AS e ON e.id = entity_id ORDER BY e.id"
    assert column(tx, named) == ["app", "cargo", "src/a.rs"]
    tx.run(Sql("UPDATE events SET command = 'cargo ***'"))
    write(tx, "shell", [event], saying("masked", entities=Mentions(tools=("cargo",))))
    assert column(tx, named) == ["cargo"]
    assert column(tx, "SELECT name FROM entities") == ["cargo"]


def test_ties_count_nodes_and_not_how_often_they_were_written(tx: Tx) -> None:
    one, other = waiting(tx, "agentic"), waiting(tx, "agentic")
    for n in range(3):
        write(tx, "agentic", [one], saying(f"round {n}"))
    assert set(counted(tx).values()) == {1}
    write(tx, "agentic", [other])
    assert counted(tx) == {("cargo", "app"): 2, ("src/a.rs", "app"): 2, ("E0425", "app"): 2}
    assert column(tx, "SELECT DISTINCT weight FROM relationships") == [pytest.approx(1.693)]
    write(tx, "agentic", [one], saying("less", entities=Mentions(projects=("app",))))
    assert set(counted(tx).values()) == {1}
    write(tx, "agentic", [other], saying("none", entities=Mentions(tools=("cargo",))))
    assert counted(tx) == {}


def test_forgetting_takes_everything_with_it(tx: Tx) -> None:
    event = waiting(tx, "shell", command="cargo build", cwd="/home/me/app")
    write(tx, "shell", [event])
    erase(tx, "event", [event])
    tables = ("knowledge_nodes", "entities", "event_entities", "relationships")
    for table in (*tables, "knowledge_node_events", "knowledge_node_entities"):
        assert column(tx, f"SELECT count(*) FROM {table}") == [0]


drafts = st.sampled_from(
    [
        saying("a", entities=Mentions(projects=("p",), tools=("x", "y"))),
        saying("b", entities=Mentions(projects=("p",), tools=("x",), files=("f",))),
        saying("c", entities=Mentions(projects=("q", "p"), tools=("y",))),
    ]
)
steps = st.lists(
    st.tuples(st.sampled_from(list(KINDS)), st.sets(st.integers(0, 2), min_size=1), drafts),
    min_size=1,
    max_size=8,
)


@settings(max_examples=examples(60), deadline=None)
@given(steps=steps)
def test_writing_it_all_again_gives_the_same_rows(
    store: KnowledgeStore, steps: list[tuple[Queue, set[int], NodeDraft]]
) -> None:
    with undone(store) as tx:
        rows = {queue: [add_row(tx, queue) for _ in range(3)] for queue in KINDS}
        for queue, picks, draft in steps:
            node = write(tx, queue, [rows[queue][n] for n in picks], draft)
            before = (links(tx, queue), counted(tx), summaries(tx))
            assert write(tx, queue, [rows[queue][n] for n in picks], draft) == node
            assert (links(tx, queue), counted(tx), summaries(tx)) == before
        sound(tx)
        # Every command, visit and run has one node; no entity and no tie is left without any.
        for queue in ("shell", "browser", "workflow"):
            told = [target for _, target in links(tx, queue)]
            assert len(told) == len(set(told))
        bare = (
            "SELECT 1 FROM entities WHERE id NOT IN (SELECT entity_id FROM knowledge_node_entities)"
        )
        assert column(tx, bare) == []
        wrong = """SELECT 1 FROM relationships AS r WHERE evidence_count != (
          SELECT count(*) FROM knowledge_node_entities AS a JOIN knowledge_node_entities AS b
          USING (knowledge_node_id)
          WHERE a.entity_id = r.from_entity_id AND b.entity_id = r.to_entity_id)"""
        assert column(tx, wrong) == []


def test_nodes_that_a_model_could_write_better(tx: Tx) -> None:
    events = [waiting(tx, "shell"), waiting(tx, "shell")]
    run, visit = waiting(tx, "workflow"), waiting(tx, "browser")
    one = write(tx, "shell", events, saying("1"), model=BY_RULES)
    write(tx, "browser", [visit], saying("2"), model="a model")
    beside = Evidence(events=tuple(events))
    two = write(tx, "workflow", [run], saying("3"), model=BY_RULES, beside=beside)
    assert nodes_by_rules(tx, 10) == [
        ToUpgrade(two, "workflow", (run,)),
        ToUpgrade(one, "shell", tuple(events)),
    ]
    assert [found.node for found in nodes_by_rules(tx, 1)] == [two]
    write(tx, "shell", events, saying("1"), model="a model")
    assert [found.node for found in nodes_by_rules(tx, 10)] == [two]
    tried = 1 << 50
    note_tried(tx, [two], tried)
    assert nodes_by_rules(tx, 10, tried_before=tried) == []
    assert [found.node for found in nodes_by_rules(tx, 10, tried_before=tried + 1)] == [two]


def test_a_name_is_used_once_only(tx: Tx) -> None:
    write(tx, "shell", [waiting(tx, "shell")], uuid="u")
    with pytest.raises(Conflict):
        write(tx, "shell", [waiting(tx, "shell")], saying("else"), uuid="u")


# ---------------------------------------------------------------------- what belongs to a run


def test_commands_of_the_same_commit_belong_to_a_run(tx: Tx) -> None:
    same = add_event(tx, git_commit="a" * 40, at=1)
    short = add_event(tx, git_commit="a" * 8, at=2)
    add_event(tx, git_commit="b" * 40)
    add_event(tx, git_commit="a" * 40, probe_tag="probe")
    add_event(tx, command="git push")  # not needed where the commit says it
    assert evidence_of_run(tx, add_run(tx)) == Evidence(events=(same, short), runs=(900,))


def test_without_them_a_push_at_about_that_time(tx: Tx) -> None:
    pushes = [
        add_event(tx, command="git push origin", at=LONG_AGO - AROUND_MS, git_repo="Me/App"),
        add_event(tx, command="make && git push", at=LONG_AGO, git_repo=None),
        add_event(tx, command="git push", at=LONG_AGO + AROUND_MS, git_repo="app"),
    ]
    add_event(tx, command="git push", at=LONG_AGO, git_repo="me/other")
    add_event(tx, command="git push", at=LONG_AGO - AROUND_MS - 1, git_repo="me/app")
    add_event(tx, command="git pull", at=LONG_AGO, git_repo="me/app")
    assert evidence_of_run(tx, add_run(tx)).events == tuple(pushes)


def test_sessions_at_work_on_the_same_project_belong_to_a_run(tx: Tx) -> None:
    add_event(tx, git_commit="a" * 40, cwd="/home/me/clone-2")
    near = add_segment(tx, cwd="/home/me/app")
    copy = add_segment(tx, cwd="/home/me/App/.claude/worktrees/x/src", at=LONG_AGO + 60_000)
    clone = add_segment(tx, cwd="/home/me/clone-2/src", at=LONG_AGO + 120_000)
    add_segment(tx, cwd="/home/me/other")
    add_segment(tx, cwd="/home/me/app", probe_tag="probe")
    add_segment(tx, cwd="/home/me/app", at=LONG_AGO + AROUND_MS + 1)
    add_segment(tx, cwd="/home/me/app", at=LONG_AGO - AROUND_MS - 1001)
    assert evidence_of_run(tx, add_run(tx)).segments == (near, copy, clone)


def test_no_more_than_ten_sessions_the_nearest_first(tx: Tx) -> None:
    segments = [add_segment(tx, at=LONG_AGO - n * 1000) for n in range(12)]
    assert evidence_of_run(tx, add_run(tx)).segments == tuple(segments[:10])


def test_a_run_that_is_not_there(tx: Tx) -> None:
    with pytest.raises(NotFound, match="900"):
        evidence_of_run(tx, 900)


@pytest.mark.parametrize(
    "folder, is_it",
    [
        ("/home/me/app", True),
        ("/home/me/app/", True),
        ("C:\\Users\\me\\App\\src", True),
        ("/home/me/application", False),
        ("", False),
        ("/", False),
    ],
)
def test_folders_of_a_project(folder: str, *, is_it: bool) -> None:
    assert in_project("me/app", folder) is is_it
    assert in_project("me/app", folder, ["", "/"]) is is_it


def test_rows_of_other_programs_are_no_hindrance(tx: Tx) -> None:
    """A node of the frozen family and its segment: the new one takes its place."""
    times = {"start_time": 1, "end_time": 2, "created_at": 1}
    segment = {"session_id": "s", "project_dir": "p", "cwd": "/p", "source_file": "f"}
    old = insert(
        tx, "claude_sessions", **segment, **times, segment_index=0, summary_text="", message_count=1
    )
    target = waiting(tx, "agentic")
    node = insert(
        tx, "knowledge_nodes", uuid="h", content="plain", embed_text="e", created_at=1, updated_at=1
    )
    for links_of, column_of, row in (
        ("knowledge_node_claude_sessions", "claude_session_id", old),
        ("knowledge_node_agentic_sessions", "agentic_session_id", target),
    ):
        sql = f"INSERT INTO {links_of} (knowledge_node_id, {column_of}) VALUES (:node, :row)"
        tx.run(Sql(sql), {"node": node, "row": row})
    write(tx, "agentic", [target])
    assert summaries(tx) == [DRAFT.summary]
    assert json.loads(column(tx, "SELECT content FROM knowledge_nodes")[0])["intent"] == "debugging"


def test_ties_of_nodes_that_another_program_dropped_are_counted_anew(tx: Tx) -> None:
    both = saying("1", entities=Mentions(projects=("harbor",), tools=("make",)))
    again = saying("2", entities=Mentions(projects=("harbor",), tools=("make",)))
    one = write(tx, "shell", [waiting(tx, "shell")], both)
    two = write(tx, "shell", [waiting(tx, "shell")], again)
    for node in (one, two):
        for table in ("knowledge_node_entities", "knowledge_node_events"):
            tx.run(Sql(f"DELETE FROM {table} WHERE knowledge_node_id = :id"), {"id": node})
        tx.run(Sql("DELETE FROM knowledge_nodes WHERE id = :id"), {"id": node})
        recount_some(tx, 10)
        left = tx.all(Sql("SELECT evidence_count FROM relationships"))
        assert left == ([(1,)] if node == one else [])

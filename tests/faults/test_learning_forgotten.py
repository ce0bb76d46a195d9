"""What is forgotten or masked stays in nothing that was learned, or is being learned of it."""

import random
import string
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.memory.vectors.embedders import HashEmbedder
from tests.support.forgetting import (
    NOON,
    add_node,
    bytes_left,
    masked_history,
    ran,
    rows,
    said,
    write_claude,
)
from tests.support.knowledge import ask
from tests.support.remembered import Machine, ms
from tests.support.tickets import NOW, add_visit, ticket_row, waiting
from tests.support.worlds import as_it_is
from threadkeep.capture.capture import History
from threadkeep.capture.records import Progress
from threadkeep.capture.rescan import rescan
from threadkeep.knowledge.failures import learn_failures
from threadkeep.knowledge.lessons import LessonRules
from threadkeep.knowledge.query import Query
from threadkeep.knowledge.queues import QUEUES, claim, depths, take_back
from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.memory.fixed import archived_runs
from threadkeep.memory.learn.evidence_text import Material
from threadkeep.memory.learn.worker import Enricher
from threadkeep.memory.memory import Memory
from threadkeep.memory.vectors.backfill import archived_texts, embed_pending

WORD = "wolverine"  # what is forgotten


# ---------------------------------------------------------------------- forgetting meanwhile


def learn_everything(history: History) -> None:
    context = history.store.context
    Enricher(history.store, history.sources, new_uuid=lambda: str(uuid4())).run(at_once=True)
    with context.db.write() as tx:
        rules = LessonRules(2, 30)
        learn_failures(tx, rules, context.clock(), 1000, archived_runs(history.sources))
    embed_pending(history.store, HashEmbedder(), archived_texts(history.sources))
    Memory(history.store, history.sources).index()


def busy(folder: Path) -> Machine:
    """Make a machine on which the word came up in the middle of everything, for a minute."""
    machine = Machine(folder)
    failing = f"python {WORD}.py", 1, f"{WORD.title()}Error: {WORD} exploded in src/{WORD}.py"
    machine.pi(
        *("one", (0, "prompt", "why is the walrus slow in src/walrus.py"), (0.1, "text", "hm")),
        *((0.6, "prompt", f"use {WORD} in src/{WORD}.py"), (0.7, *failing[::2], True)),
        *(
            (0.8, "text", f"I decided to use {WORD} instead of {WORD}2."),
            (2, "text", "walrus done"),
        ),
        *((2.1, "prompt", "thanks for src/walrus.py"), (2.2, "make walrus", "ok", False)),
    )
    machine.shell(0, "make walrus", 0, "walrus built")
    machine.shell(0.6, *failing)
    machine.shell(0.8, *failing)
    machine.page(0.7, f"{WORD} manual", search_query=f"{WORD} error")
    machine.shell(2, "make test", 0, "walrus ok")
    machine.world.capture()
    return machine


def left_of(machine: Machine) -> list[str]:
    """Name the tables in which the word is left, if it is left anywhere in the file."""
    file = machine.world.database
    if WORD.encode() not in bytes_left(file).lower():
        return []
    tables = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE '%VIRTUAL%'"
    names = [row[0] for row in ask(file, tables)]
    return [n for n in names if WORD in repr(ask(file, f"SELECT * FROM {n}")).lower()] or ["file"]


@pytest.mark.parametrize(
    "what", [Query(since=ms(0.5), until=ms(1.5)), Query(pattern=f"(?i){WORD}")], ids=repr
)
def test_what_is_forgotten_is_in_no_node_and_the_rest_is_learned_anew(
    tmp_path: Path, what: Query
) -> None:
    machine = busy(tmp_path)
    with machine.world.history() as history:
        learn_everything(history)
        assert left_of(machine)
        planned = history.forget(what, dry_run=True)
        assert history.forget(what) == planned
    assert left_of(machine) == []
    with machine.world.history() as history:
        learn_everything(history)
        kinds = {hit.kind for hit in Memory(history.store, history.sources).recall("walrus").hits}
    assert {"node", "message", "command"} <= kinds
    assert left_of(machine) == []
    told = ask(machine.world.database, "SELECT event_id FROM knowledge_node_events")
    shell = "SELECT id FROM events WHERE source_kind = 'shell'"
    assert sorted(told) == sorted(ask(machine.world.database, shell))


@pytest.mark.parametrize(
    "what",
    [
        Query(since=ms(0.5), until=ms(1.5)),
        Query(pattern=f"(?i){WORD}"),
        Query(session=("one",)),
    ],
    ids=repr,
)
def test_what_is_forgotten_while_nodes_are_made_of_it_does_not_come_back(
    tmp_path: Path, what: Query
) -> None:
    machine = busy(tmp_path)
    with machine.world.history() as history:
        if what.session:  # of the shell and the browser only a session was left to forget
            history.forget(Query(pattern=f"(?i){WORD}.(py|manual)"))
        forgotten: list[Any] = []

        def meanwhile(material: Material) -> None:
            if WORD in material.source.lower() and not forgotten:
                forgotten.append(history.forget(what))

        worker = Enricher(
            history.store,
            history.sources,
            new_uuid=lambda: str(uuid4()),
            author=meanwhile,
        )
        for _ in range(3):
            worker.run(at_once=True)
        with history.store.context.db.read() as tx:
            assert all("processing" not in states for states in depths(tx).values())
    assert forgotten or what.session
    assert left_of(machine) == []


def test_what_is_forgotten_while_vectors_are_made_of_it_leaves_none(tmp_path: Path) -> None:
    machine = busy(tmp_path)
    with machine.world.history() as history:
        forgotten: list[Any] = []

        class Meanwhile(HashEmbedder):
            def embed(self, texts: Sequence[str]) -> list[bytes]:
                if any(WORD in text for text in texts) and not forgotten:
                    forgotten.append(history.forget(Query(pattern=WORD)))
                return super().embed(texts)

        embed_pending(history.store, Meanwhile(), archived_texts(history.sources))
        assert forgotten
    owners = "SELECT count(*) FROM tk_vectors WHERE kind = 'message' AND id NOT IN "
    assert ask(machine.world.database, f"{owners}(SELECT id FROM tk_entries)") == [(0,)]
    assert left_of(machine) == []


# ---------------------------------------------------------------------- masking meanwhile


def token() -> str:
    letters = random.Random(5)
    return "ghp_" + "".join(letters.choices(string.ascii_letters + string.digits, k=36))


SECRET = token()


@pytest.fixture
def unmasked(tmp_path: Path) -> tuple[Path, Path]:
    """Return a store with a secret in a session, a command and a page, which came in unmasked."""
    user, file = tmp_path / "user", tmp_path / "k.db"
    told = [said("s1", n, f"use {SECRET} for the ducks {n}") for n in range(3)]
    write_claude(user, "s1", [*told, *ran("s1", 4, f"curl -H 'token {SECRET}'", "ok")])
    with masked_history(file, user, as_it_is) as history:
        history.capture()
        with history.store.context.db.write() as tx:
            event = {"command": f"curl -u {SECRET} ducks.example", "session": 90}
            waiting(tx, "shell", at=NOON, **event)
            waiting(tx, "browser", at=NOON, title=f"ducks {SECRET}", dwell_ms=200_000)
            add_visit(tx, at=NOON, title=f"more ducks {SECRET}")
    return user, file


def test_nothing_is_written_from_what_was_read_before_it_was_masked(
    unmasked: tuple[Path, Path],
) -> None:
    user, file = unmasked
    with masked_history(file, user) as history:
        seen: list[str] = []

        def meanwhile(material: Material) -> None:
            if SECRET in material.source:
                seen.append(material.kind)
                history.rescan()

        context = history.store.context
        worker = Enricher(
            history.store, history.sources, new_uuid=lambda: str(uuid4()), author=meanwhile
        )
        worker.run(at_once=True)
        assert seen
        with context.db.read() as tx:
            assert sum(states.get("pending", 0) for states in depths(tx).values()) > 0
        assert SECRET.encode() not in bytes_left(file)
        worker.run(at_once=True)
        with context.db.read() as tx:
            left = {state for states in depths(tx).values() for state in states}
    assert left <= {"done", "skipped"}
    assert rows(file, "SELECT count(*) FROM knowledge_nodes")[0][0] >= 2
    assert SECRET.encode() not in bytes_left(file)


def test_what_was_learned_between_look_and_masking_is_masked_with_its_vector(
    unmasked: tuple[Path, Path],
) -> None:
    user, file = unmasked
    with masked_history(file, user) as history:
        added = list[int]()
        ((shell,),) = rows(file, "SELECT id FROM events WHERE source_kind = 'shell'")

        def meanwhile(_: Progress) -> None:
            if not added:
                added.append(add_node(file, f"curl uses {SECRET}", event=shell))
                embed_pending(history.store, HashEmbedder(), archived_texts(history.sources))

        rescan(history.around, history.sources, show=meanwhile)
        assert added
    ((text,),) = rows(file, "SELECT embed_text FROM knowledge_nodes WHERE id = ?", added[0])
    assert text.startswith("curl uses ")
    assert rows(file, "SELECT id FROM tk_vectors WHERE kind = 'node'") == []
    assert SECRET.encode() not in bytes_left(file)


@pytest.mark.parametrize("queue", QUEUES)
def test_tickets_in_hand_are_taken_back_without_a_try(tmp_path: Path, queue: Any) -> None:
    with (
        KnowledgeStore.open(tmp_path / "k.db", schema=23, clock=lambda: NOW) as store,
        store.context.db.write() as tx,
    ):
        target = waiting(tx, queue)
        assert claim(tx, queue, worker="w", now=NOW, at_once=True)
        assert take_back(tx) == 1
        row = ticket_row(tx, queue, target)
    assert (row["status"], row["locked_at"], row["locked_by"]) == ("pending", None, None)
    assert row["retry_count"] == 0


# ---------------------------------------------------------------------- growth


def test_a_session_that_grew_has_one_node_which_tells_of_all(tmp_path: Path) -> None:
    user, file = tmp_path / "user", tmp_path / "k.db"
    told = [said("s1", 0, "please repair src/one.py"), *ran("s1", 1, "make one", "ok")]
    told.append(said("s1", 2, "now repair src/two.py"))
    about_it = "SELECT content FROM knowledge_nodes WHERE id IN "
    about_it += "(SELECT knowledge_node_id FROM knowledge_node_agentic_sessions)"
    for size in (3, 4):
        write_claude(user, "s1", told[:size])
        with masked_history(file, user) as history:
            history.capture()
            rows(file, "UPDATE agentic_enrichment_queue SET status = 'pending'")
            Enricher(history.store, history.sources, new_uuid=lambda: str(uuid4())).run(
                at_once=True
            )
        ((content,),) = rows(file, about_it)
        assert ("src/two.py" in content) == (size == 4)
    told_of = "SELECT count(*) FROM knowledge_nodes WHERE content LIKE '%please repair src/one.py%'"
    assert rows(file, told_of) == [(1,)]
    linked = rows(file, "SELECT count(*) FROM knowledge_node_agentic_sessions")
    assert linked == rows(file, "SELECT count(*) FROM agentic_sessions")

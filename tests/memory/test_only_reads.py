"""A question only reads: who captures fills the index, and what nobody captured is caught up."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.support.remembered import Machine, ms
from threadkeep.knowledge.query import Query
from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.memory.memory import Memory
from threadkeep.memory.records import RecallResult


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine on which an agent and a shell worked, all of it captured."""
    machine = Machine(tmp_path)
    machine.shell(1, "cargo test --package quagga")
    machine.pi("a", (2, "prompt", "why does the quagga test fail"), (3, "text", "a parrot did it"))
    with machine.world.history() as history:
        history.capture()
    return machine


@contextmanager
def asked(machine: Machine, *, read_only: bool = False) -> Iterator[Memory]:
    """Open memory without a look for what is new."""
    path = machine.world.database
    with KnowledgeStore.open(path, read_only=read_only, clock=lambda: machine.world.now) as store:
        yield Memory(store, machine.world.sources, clock=lambda: machine.world.now)


@contextmanager
def outside(machine: Machine) -> Iterator[sqlite3.Connection]:
    """Another program at the same file, that waits for nobody."""
    path = machine.world.database
    with closing(sqlite3.connect(path, isolation_level=None, timeout=0)) as other:
        yield other


def kinds(found: RecallResult) -> set[str]:
    return {hit.kind for hit in found.hits}


def questions(memory: Memory) -> list[RecallResult]:
    """Ask in every way in which words are looked for."""
    quagga = Query(kind=("message",))
    memory.ask("why does the quagga test fail")
    return [memory.recall("quagga"), memory.recall("quagga", quagga), memory.similar("quagga test")]


def test_questions_are_answered_while_another_program_writes(machine: Machine) -> None:
    with asked(machine) as memory, outside(machine) as other:
        free = questions(memory)
        other.execute("BEGIN IMMEDIATE")
        assert questions(memory) == free
    assert kinds(free[0]) == {"message", "command"}
    assert kinds(free[1]) == {"message"}


def test_questions_write_nothing_after_a_capture(machine: Machine) -> None:
    with asked(machine) as memory, outside(machine) as other:
        before = other.execute("PRAGMA data_version").fetchone()
        questions(memory)
        assert other.execute("PRAGMA data_version").fetchone() == before


def test_a_file_that_is_open_to_look_at_answers_the_same(machine: Machine) -> None:
    with asked(machine) as memory:
        expected = questions(memory)
    with asked(machine, read_only=True) as memory:
        assert questions(memory) == expected


def test_what_another_program_wrote_is_found_without_a_capture(machine: Machine) -> None:
    with asked(machine) as memory, outside(machine) as other:
        assert kinds(memory.recall("axolotl")) == set()
        _typed(other, "echo axolotl")
        assert kinds(memory.recall("axolotl")) == {"command"}


def test_what_another_program_wrote_is_not_waited_for(machine: Machine) -> None:
    with asked(machine) as memory, outside(machine) as other:
        _typed(other, "echo axolotl")
        other.execute("BEGIN IMMEDIATE")
        assert kinds(memory.recall("quagga")) == {"message", "command"}
        other.execute("COMMIT")
        assert kinds(memory.recall("axolotl")) == {"command"}


def _typed(other: sqlite3.Connection, command: str) -> None:
    """Write a command as Hippo does, into the tables of the contract alone."""
    (session,) = other.execute("SELECT session_id FROM events LIMIT 1").fetchone()
    columns = (
        "session_id, timestamp, command, exit_code, duration_ms, cwd, hostname, shell, created_at"
    )
    other.execute(
        f"INSERT INTO events ({columns}) VALUES (?, ?, ?, 0, 5, '/u/app', 'h', 'zsh', 1)",
        (session, ms(9), command),
    )

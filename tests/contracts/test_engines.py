"""A contract suite knows its stores by a factory alone; what is about files is below `sqlite`.

The factory makes a store, opens it again and looks into it: nothing else knows where its data is.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import REPO
from tests.test_layers import STORES

TESTS = REPO / "tests" / "contracts"
SUITES = REPO / "src" / "threadkeep" / "testing"
# What opens files of SQLite; a factory has methods of the same names.
OF_FILES = {"raw", "rows", "contents", "place_of"}
OPENERS = {"ChatStore.open", "SessionDB", "KnowledgeStore.open", "Host.create", "Mailroom.open"}
# The mailbox stays two files whatever the engine; these two know them for its tests.
KNOW_FILES = {"pair.py", "postal.py"}
# File -> why it has a folder of its own.
MAY_HAVE_A_FOLDER = {
    "chat/test_ai_sdk.py": "the other program that judges leaves its files there",
    "knowledge/test_failures.py": "logs of an agent are captured from it",
}


def knows_the_engine(tree: ast.Module) -> Iterator[str]:
    """Yield the places that would not run on another engine."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=[ast.alias(name="sqlite3"), *_]):
                yield f"{node.lineno}: imports sqlite3"
            case ast.ImportFrom(module="threadkeep.testing", names=names) if OF_FILES & {
                one.name for one in names
            }:
                yield f"{node.lineno}: looks into files, not through the factory"
            case ast.arg(arg="tmp_path" | "tmp_path_factory" as name):
                yield f"{node.lineno}: asks for {name}"
            case ast.Attribute(
                value=ast.Name(id="store" | "db" | "other" | "pair" | "desk"),
                attr="path" | "db_path" | "_conn",
            ):
                yield f"{node.lineno}: asks a store for its file"
            case ast.Call(func=func) if ast.unparse(func) in OPENERS:
                yield f"{node.lineno}: opens a store by its path"


def suites() -> list[Path]:
    """Give the modules that run on every engine; two of the mailbox's know its files for others."""
    ours = [path for store in sorted(STORES) for path in (TESTS / store).glob("*.py")]
    for_others = SUITES.glob("*_suite/*.py")
    return sorted(path for path in (*ours, *for_others) if path.name not in KNOW_FILES)


@pytest.mark.parametrize("suite", suites(), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_suite_takes_a_factory(suite: Path) -> None:
    found = list(knows_the_engine(ast.parse(suite.read_text("utf-8"))))
    assert found == [] or f"{suite.parent.name}/{suite.name}" in MAY_HAVE_A_FOLDER


@pytest.mark.parametrize("store", STORES)
def test_every_contract_is_a_suite_that_runs_once_for_each_engine(store: str) -> None:
    assert f"threadkeep.testing.{store}_suite" in (TESTS / store / "test_contract.py").read_text()


def test_what_is_refused_is_seen() -> None:
    code = "import sqlite3\ndef test_x(tmp_path, store):\n    ChatStore.open(store.path)"
    looks = "from threadkeep.testing import ManualClock, rows"
    assert len(list(knows_the_engine(ast.parse(f"{code}\n{looks}")))) == 5

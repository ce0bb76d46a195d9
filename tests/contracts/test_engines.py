"""A contract suite knows its stores by a factory alone; what is about files is below `sqlite`."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import REPO

SUITES = REPO / "tests" / "contracts"
CONVERTED = ("chat", "knowledge", "mailbox", "state")
OPENERS = {"ChatStore.open", "SessionDB", "KnowledgeStore.open", "Host.create", "Mailroom.open"}
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
            case ast.arg(arg="tmp_path" | "tmp_path_factory" as name):
                yield f"{node.lineno}: asks for {name}"
            case ast.Attribute(
                value=ast.Name(id="store" | "db" | "other" | "pair" | "desk"),
                attr="path" | "db_path" | "_conn",
            ):
                yield f"{node.lineno}: asks a store for its file"
            case ast.Call(func=func) if ast.unparse(func) in OPENERS:
                yield f"{node.lineno}: opens a store by its path"


def suites() -> list[str]:
    found = [path for store in CONVERTED for path in (SUITES / store).glob("*.py")]
    return sorted(path.relative_to(SUITES).as_posix() for path in found)


@pytest.mark.parametrize("suite", suites())
def test_a_suite_takes_a_factory(suite: str) -> None:
    tree = ast.parse(Path(SUITES, suite).read_text("utf-8"))
    assert list(knows_the_engine(tree)) == [] or suite in MAY_HAVE_A_FOLDER


def test_what_is_refused_is_seen() -> None:
    code = "import sqlite3\ndef test_x(tmp_path, store):\n    ChatStore.open(store.path)"
    assert len(list(knows_the_engine(ast.parse(code)))) == 4

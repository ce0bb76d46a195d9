"""Named queries: plain `.sql` files, each query under a line `-- name: its_name`.

What several queries share stands once, under a line `-- piece: its_name`, before them; a query puts
it in with `{its_name}`, and so does a later piece. A table's list of columns is the usual one.
"""

import re
import sys
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path

_MARK = re.compile(r"-- (name|piece): *(\w+)\s*")
_NAME = re.compile(r"^-- name: *(\w+)\s*$", re.MULTILINE)
_PIECE = re.compile(r"\{(\w+)\}")


def parse_queries(text: str) -> dict[str, str]:
    """Split a file of named queries into a mapping from name to SQL."""
    found: dict[str, dict[str, list[str]]] = {"name": {}, "piece": {}}
    current: list[str] = []
    for line in text.splitlines():
        mark = _MARK.fullmatch(line)
        if mark is not None:
            kind, name = mark.groups()
            if name in found[kind]:
                msg = f"{'query' if kind == 'name' else kind} {name!r} is defined twice"
                raise ValueError(msg)
            current = found[kind].setdefault(name, [])
        elif line.strip() and not line.lstrip().startswith("--"):
            current.append(line)
    pieces: dict[str, str] = {}
    for name, lines in found["piece"].items():
        pieces[name] = _with_pieces(lines, pieces)
    return {name: _with_pieces(lines, pieces).rstrip(";") for name, lines in found["name"].items()}


def _with_pieces(lines: list[str], pieces: Mapping[str, str]) -> str:
    return _PIECE.sub(lambda use: pieces[use[1]], "\n".join(lines).strip())


def load_text(package: str, file: str) -> str:
    """Read one `.sql` file that ships with `package`."""
    where = sys.modules[package].__path__[0]  # `importlib.resources` alone takes 5 ms to load
    return Path(where, "sql", file).read_text(encoding="utf-8")


def load_queries(package: str, *files: str) -> Mapping[str, str]:
    """Give the named queries of a package's `sql/` folder, `queries.sql` unless files are given."""
    return _QueryFiles(package, files or ("queries.sql",))


class _QueryFiles(Mapping[str, str]):
    """Queries of some files by name; a file is parsed when one of its queries is asked for.

    A command runs ten queries of 600, so most files are only looked through for names.
    """

    def __init__(self, package: str, files: tuple[str, ...]) -> None:
        self._package = package
        self._files = files
        self._parsed: dict[str, str] = {}

    @cached_property
    def _texts(self) -> dict[str, str]:
        """The text of the file that each query is in."""
        found: dict[str, str] = {}
        for file in self._files:
            text = load_text(self._package, file)
            for name in _NAME.findall(text):
                if name in found:
                    msg = f"query {name!r} is defined twice"
                    raise ValueError(msg)
                found[name] = text
        return found

    def __getitem__(self, name: str) -> str:
        if name not in self._parsed:
            self._parsed |= parse_queries(self._texts[name])
        return self._parsed[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)


def split_statements(script: str) -> list[str]:
    """Cut a script into single statements, so that it can run inside a transaction of ours.

    `executescript()` of the standard library commits behind the caller's back.
    """
    import sqlite3  # noqa: PLC0415  (only to ask whether a statement is complete)

    statements: list[str] = []
    pending = ""
    for piece in script.split(";"):
        pending += piece + ";"
        if sqlite3.complete_statement(pending):
            if _has_code(pending):
                statements.append(pending.strip())
            pending = ""
    if _has_code(pending):
        msg = f"the script ends inside a statement: {pending.strip()[:60]!r}"
        raise ValueError(msg)
    return statements


def _has_code(statement: str) -> bool:
    lines = (line.strip() for line in statement.rstrip(";").splitlines())
    return any(line and not line.startswith("--") for line in lines)

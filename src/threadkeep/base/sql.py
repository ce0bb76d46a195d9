"""Named queries: plain `.sql` files, each query under a line `-- name: its_name`.

What several queries share stands once, under a line `-- piece: its_name`, before them; a query puts
it in with `{its_name}`, and so does a later piece. A table's list of columns is the usual one.
"""

import re
from collections.abc import Mapping
from importlib import resources

_MARK = re.compile(r"-- (name|piece): *(\w+)\s*")
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
    return resources.files(package).joinpath("sql", file).read_text(encoding="utf-8")


def load_queries(package: str, *files: str) -> Mapping[str, str]:
    """Load the named queries of a package's `sql/` folder, `queries.sql` unless files are given."""
    queries: dict[str, str] = {}
    for file in files or ("queries.sql",):
        found = parse_queries(load_text(package, file))
        twice = sorted(set(found) & set(queries))
        if twice:
            msg = f"query {twice[0]!r} is defined twice"
            raise ValueError(msg)
        queries |= found
    return queries


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

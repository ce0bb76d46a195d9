"""Named queries: plain `.sql` files, each query under a line `-- name: its_name`.

What several queries share stands once, under a line `-- piece: its_name`, before them; a query puts
it in with `{its_name}`, and so does a later piece. A table's list of columns is the usual one.

Queries are written in what SQLite and PostgreSQL have in common. What they have under different
names is a piece that each engine fills in:

| piece | what it is |
|---|---|
| `{ids:name}` | a subquery with the column `value`: the integers of the JSON list `:name` |
| `{texts:name}` | the same for a list of strings |
| `{raw:column}` | the text of a column, in bytes where the engine may hold some that is no UTF-8 |
| `{size:column}` | how many bytes a text has |
| `{json:column}` | the JSON of a column for `json_extract()`, whatever characters are in it |
| `{matching:index}` | a relation: the `id` of each row of a full-text index that `:match` finds |
| `{ranked:index}` | the same with a `score`, the best is the least |
| `{after:row}` | whether a row is behind the cursor `:after`, the id of the last one read |
| `{here:log}` | whether a log is one of this host: all in a file are |
| `{row}` | the number of a row in a table that declares none |
| `{plain:column}` | a column, where its index is not to be used for what is asked |
| `{claimed}` | behind a query: claims its rows, without those that somebody else claimed |
| `{behind}` | a value that sorts behind every text |
| `{nul}` | the first character of the raw text that begins with NUL |
| `{newline}` | the end of a line |

Ids rise in the order of commits only while nobody else writes. So a cursor that is stored continues
in a write without a key, which is alone in the database: there no row with a smaller id can come
later. `{after:row}` is where an engine would say it otherwise. Whoever follows in read transactions
may do so by ids whose writers all have one key: they take turns until their commits.

SQL that is written at run time (`base.tx.Sql`) has the same pieces; the transaction that runs it
fills them in (`fill_pieces`).

`to_postgres` does the rest. A query that has to be another one on PostgreSQL stands once more under
its name, in the file of the same name in the folder `sql/postgres`.
"""

import re
import sys
from collections.abc import Iterator, Mapping
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Final, Literal

from threadkeep.base.text import pattern

Engine = Literal["sqlite", "postgres"]

_MARK = pattern(r"^-- (name|piece): *(\w+)\s*$", re.MULTILINE)
_NAME = pattern(r"^-- name: *(\w+)\s*$", re.MULTILINE)
_PIECE = pattern(r"\{(\w+)(?::([^{}]+))?\}")

_OF_ENGINE: Final[Mapping[Engine, Mapping[str, str]]] = {
    "sqlite": {
        "ids": "SELECT value FROM json_each(:{})",
        "texts": "SELECT value FROM json_each(:{})",
        "raw": "CAST({} AS BLOB)",
        "size": "length(CAST({} AS BLOB))",
        "json": "{}",
        "matching": "(SELECT rowid AS id FROM {0} WHERE {0} MATCH :match)",
        "ranked": "(SELECT rowid AS id, rank AS score FROM {0} WHERE {0} MATCH :match)",
        "after": "{}.id > :after",
        "here": "true",
        "row": "rowid",
        "plain": "+{}",
        "claimed": "",
        "behind": "x''",
        "nul": "x'00'",
        "newline": "char(10)",
    },
    "postgres": {
        # A JSON list of integers is an array with other brackets.
        "ids": "SELECT unnest(CAST(translate(:{}, '[]', '{{}}') AS bigint[])) AS value",
        "texts": "SELECT json_array_elements_text(CAST(:{} AS json)) AS value",
        "raw": "{}",
        "size": "octet_length({})",
        # It refuses escapes of NUL and of halves of characters. They are written as in `values.py`;
        # an escaped backslash is written otherwise first, so that `\u` always begins an escape.
        "json": r"CASE WHEN strpos({0}, '\u') = 0 THEN {0} ELSE regexp_replace("
        r"replace({0}, '\\', '\u005c'), '(?<!\\u[dD][89abAB]..)\\u([dD][c-fC-F]..)"
        r"|\\u(0000|[fF]8[fF][fF]|[dD][89abAB]..(?!\\u[dD][c-fC-F]))',"
        r" chr(63743) || '\1\2', 'g') END",
        # What is found comes from outside: :match is the JSON list of ids, or of pairs with scores.
        "matching": "(SELECT unnest(CAST(translate(:match, '[]', '{{}}') AS bigint[])) AS id)",
        "ranked": "(SELECT CAST(f ->> 0 AS bigint) AS id, CAST(f ->> 1 AS REAL) AS score"
        " FROM json_array_elements(CAST(:match AS json)) AS f)",
        "after": "{}.id > :after",
        "here": "{}.host = current_setting('tk.host')",
        "row": "id",
        "plain": "{}",
        "claimed": "FOR UPDATE SKIP LOCKED",
        "behind": "chr(1114111)",
        "nul": "chr(63743)",  # it cannot be kept: U+F8FF begins what stands for it
        "newline": "chr(10)",
    },
}


def _piece_of(name: str, argument: str | None, engine: Engine) -> str:
    """Return a piece that each engine fills in."""
    return _OF_ENGINE[engine][name].format(argument)


@lru_cache(maxsize=512)
def fill_pieces(sql: str, engine: Engine = "sqlite") -> str:
    """Return SQL that is written at run time as an engine takes it."""
    filled = _with_pieces([sql], {}, engine)
    return to_postgres(filled) if engine == "postgres" else filled


def parse_queries(text: str, engine: Engine = "sqlite") -> dict[str, str]:
    """Split a file of named queries into a mapping from name to SQL."""
    bodies, pieces = _split(text, engine)
    queries = {name: _written(body, pieces, engine) for name, body in bodies.items()}
    if engine == "postgres":
        return {name: to_postgres(query) for name, query in queries.items()}
    return queries


def _split(text: str, engine: Engine = "sqlite") -> tuple[dict[str, str], dict[str, str]]:
    """Return the queries of a file as they are written there, and its pieces, filled in."""
    found: dict[str, dict[str, str]] = {"name": {}, "piece": {}}
    parts = _MARK.split(text)[1:]
    for kind, name, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        if name in found[kind]:
            msg = f"{'query' if kind == 'name' else kind} {name!r} is defined twice"
            raise ValueError(msg)
        found[kind][name] = body
    pieces: dict[str, str] = {}
    for name, body in found["piece"].items():
        pieces[name] = _with_pieces(_lines(body), pieces, engine)
    return found["name"], pieces


def _lines(body: str) -> list[str]:
    """Return the lines that are neither empty nor comments."""
    kept = ((line, line.lstrip()) for line in body.splitlines())
    return [line for line, begins in kept if begins and not begins.startswith("--")]


def _written(body: str, pieces: Mapping[str, str], engine: Engine = "sqlite") -> str:
    return _with_pieces(_lines(body), pieces, engine).rstrip(";")


def _with_pieces(lines: list[str], pieces: Mapping[str, str], engine: Engine) -> str:
    def put_in(use: re.Match[str]) -> str:
        name, argument = use.groups()
        if name in pieces:
            return pieces[name]
        return _piece_of(name, argument, engine)

    text = "\n".join(lines).strip()
    while (filled := _PIECE.sub(put_in, text)) != text:  # one may be the argument of another
        text = filled
    return text


# What is in quotes or comments is found first, so that the others are found outside of it only.
_TOKEN = pattern(
    r"""(?P<quoted>'(?:[^']|'')*'|"[^"]*")
    |\s*(?P<comment>--[^\n]*)
    |\bLIMIT\s+:(?P<limit>\w+)
    |\bON\s+CONFLICT\s*\((?P<target>[^()]+)\)
    |(?<![:\w]):(?P<name>[A-Za-z_]\w*)
    |\b(?P<word>LIKE|INTEGER|REAL|BLOB)\b
    |(?P<percent>%)""",
    re.VERBOSE,
)
# There every key of a table has the owner of the row behind its columns.
OWNER: Final = "tk_owner"
_WORDS: Final = {
    "LIKE": "ILIKE",  # as SQLite's: on columns of the collation "C" it folds ASCII only
    "INTEGER": "bigint",
    "REAL": "double precision",
    "BLOB": "bytea",
}


def to_postgres(sql: str) -> str:
    """Write a query in PostgreSQL's dialect, with parameters as psycopg wants them."""
    return _TOKEN.sub(_token_of_postgres, sql)


def _token_of_postgres(found: re.Match[str]) -> str:
    part = found[str(found.lastgroup)]
    match found.lastgroup:
        case "quoted":
            return part.replace("%", "%%")
        case "comment":
            return ""
        case "limit":  # a negative one means all, which PostgreSQL says with NULL
            return f"LIMIT nullif(greatest(CAST(%({part})s AS bigint), -1), -1)"
        case "target":
            return f"ON CONFLICT ({part}, {OWNER})"
        case "name":
            return f"%({part})s"
    return _WORDS.get(part, "%%")


def load_text(package: str, file: str) -> str:
    """Read one `.sql` file that ships with `package`."""
    where = sys.modules[package].__path__[0]  # `importlib.resources` alone takes 5 ms to load
    return Path(where, "sql", file).read_text(encoding="utf-8")


def load_queries(package: str, *files: str, engine: Engine = "sqlite") -> Mapping[str, str]:
    """Give the named queries of a package's `sql/` folder, `queries.sql` unless files are given."""
    chosen = files or ("queries.sql",)
    return _QueryFiles(package, chosen) if engine == "sqlite" else _of_postgres(package, chosen)


def _of_postgres(package: str, files: tuple[str, ...]) -> Mapping[str, str]:
    """Return the queries of files, each as it is in `sql/postgres` if it is there."""
    found: dict[str, str] = {}
    for file in files:
        queries = parse_queries(load_text(package, file), "postgres")
        others = load_overrides(package, file)
        if lost := others.keys() - queries.keys():
            msg = f"queries of sql/postgres/{file} that {file} does not have: {sorted(lost)}"
            raise ValueError(msg)
        found |= {**queries, **others}
    return found


def load_overrides(package: str, file: str) -> Mapping[str, str]:
    """Return the queries of a file that have to be other ones on PostgreSQL."""
    try:
        text = load_text(package, f"postgres/{file}")
    except FileNotFoundError:  # most files have none
        return {}
    return parse_queries(text, "postgres")


class _QueryFiles(Mapping[str, str]):
    """Queries of some files by name; each is written out when it is asked for.

    A command runs ten queries of 600, so most files are only looked through for names.
    """

    def __init__(self, package: str, files: tuple[str, ...]) -> None:
        self._package = package
        self._files = files
        self._split = cache(_split)
        self._queries: dict[str, str] = {}

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
        if name not in self._queries:
            bodies, pieces = self._split(self._texts[name])
            self._queries[name] = _written(bodies[name], pieces)
        return self._queries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)

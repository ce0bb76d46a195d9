"""The tables of a store as PostgreSQL has them, made from the script that makes them on SQLite.

Every row has an owner and a scope, which are the last two columns of its table and take what they
say from the connection. The owner is in every primary key, unique index and foreign key, so rows of
two owners never meet, and tables can be spread over servers by it. Row-level security is a second
wall: nobody sees a scope that was not shared with him, whatever the query.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

from threadkeep.base.postings import SCHEMA as POSTINGS
from threadkeep.base.sql import OWNER, to_postgres
from threadkeep.base.sqlite.declaration import Declared, Index, Table, TableColumn, declared_by
from threadkeep.base.sqlite.statements import split_statements

SCOPE: Final = "tk_scope"
OWN_COLUMNS: Final = (OWNER, SCOPE)

# Types as they are declared for SQLite, by the words that SQLite itself looks for.
_TYPES: Final = {"INT": "bigint", "REAL": "double precision", "BLOB": "bytea"}
_TEXT: Final = 'text COLLATE "C"'
# What is there when the row is made: the time in milliseconds, as SQLite says it.
_NOW: Final = "unixepoch('now', 'subsec') * 1000"
_DEFAULTS: Final = {_NOW: "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint)"}
_PLAIN: Final = re.compile(r'"?\w+"?( (ASC|DESC))?', re.IGNORECASE)

_TRIGGER: Final = re.compile(
    r"CREATE TRIGGER (?:IF NOT EXISTS )?(\w+) AFTER (INSERT|DELETE|UPDATE(?: OF [\w, ]+)?) ON (\w+)"
    r"(?: WHEN (.*?))? BEGIN (.*) END",
    re.DOTALL | re.IGNORECASE,
)
# A list of agents, which a file is rebuilt for when one more comes.
_CLOSED: Final = "harness IN"
# What other programs do to a SQLite file; here our verbs alone write.
_OF_OTHERS: Final = frozenset({"tk_message_shown"})


def own_columns(home: str) -> str:
    """Return the two columns that every table has, for those that are written for PostgreSQL."""
    owner, scope = (
        f"CAST(nullif(current_setting('{name}', true), '') AS bigint)"
        for name in ("tk.owner", "tk.scope")
    )
    return (
        f"{OWNER} bigint NOT NULL DEFAULT coalesce({owner}, {home}.tk_me()),\n"
        f"  {SCOPE} bigint NOT NULL DEFAULT {scope}"
    )


class Translation:
    """The statements that make what a script declares, in the order in which they are run.

    `tables` come first; rows may be put into them before `rest` adds indexes, references, triggers.
    """

    def __init__(self, declared: Declared, home: str) -> None:
        self._declared = declared
        postings = (POSTINGS.format(index=name) for name in self._declared.word_indexes)
        self._postings = declared_by("\n".join(postings))
        self._home = home

    @property
    def tables(self) -> Iterator[str]:
        """Return what makes the tables with their primary keys."""
        for table in self._declared.tables.values():
            yield from self._table(table)
        for table in self._postings.tables.values():
            yield from self._table(table, numbered=False)

    @property
    def rest(self) -> Iterator[str]:
        """Return what makes indexes, references and triggers."""
        for table in self._declared.tables.values():
            yield from _unique(table)
        for index in self._declared.indexes.values():
            yield _index(index)
        # By its scope first: a word is looked for in what may be seen, and takes as long whether
        # others have it or not.
        for index in self._postings.indexes.values():
            yield _index(index._replace(terms=(SCOPE, *index.terms)))
        for table in self._declared.tables.values():
            yield from _references(table)
        for name, text in self._declared.triggers.items():
            if name not in _OF_OTHERS and not self._fills_words(text):
                yield from trigger(text)

    @property
    def inserts(self) -> list[str]:
        """Return what puts in the rows that a store begins with."""
        made = (text for text in self._declared.inserts if not self._fills_words(text))
        return [f"{text} ON CONFLICT DO NOTHING" for text in made]

    def _fills_words(self, text: str) -> bool:
        names = "|".join(self._declared.word_indexes)
        return bool(names) and re.search(rf"\b(?:INTO|FROM) ({names})\b", text) is not None

    def _table(self, table: Table, *, numbered: bool = True) -> Iterator[str]:
        column = table.numbered if numbered else None
        sequence = f"{table.name}_{column}_seq"
        if column:
            yield f'CREATE SEQUENCE "{sequence}"'
        parts = [
            *(_column(one, sequence if one.name == column else None) for one in table.columns),
            own_columns(self._home),
            *(f"CHECK ({check})" for check in table.checks if not check.startswith(_CLOSED)),
        ]
        if table.key:
            parts.append(f"PRIMARY KEY ({_with_owner(table.key)})")
        inside = ",\n  ".join(parts)
        yield f'CREATE TABLE "{table.name}" (\n  {inside}\n)'
        if column:
            yield f'ALTER SEQUENCE "{sequence}" OWNED BY "{table.name}"."{column}"'


def _column(column: TableColumn, sequence: str | None) -> str:
    default = _DEFAULTS.get(column.default or "", column.default)
    if sequence is not None:
        default = f"nextval('\"{sequence}\"')"
    parts = [
        f'"{column.name}" {type_of(column.declared)}',
        *(["NOT NULL"] if column.never_null else []),
        *([] if default is None else [f"DEFAULT {default}"]),
    ]
    return " ".join(parts)


def type_of(declared: str) -> str:
    """Return the type of a column that is declared for SQLite."""
    found = (kind for word, kind in _TYPES.items() if word in declared.upper())
    return next(found, _TEXT)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def _with_owner(names: Sequence[str]) -> str:
    # Behind the rest: rows are looked up by their id, and another owner's has another one.
    return _listed((*names, OWNER))


def _unique(table: Table) -> Iterator[str]:
    for columns in table.unique:
        yield f'CREATE UNIQUE INDEX ON "{table.name}" ({_with_owner(columns)})'


def _index(index: Index) -> str:
    terms = [term if _PLAIN.fullmatch(term) else f"({term})" for term in index.terms]
    if index.unique:
        terms.append(OWNER)
    kind = "UNIQUE INDEX" if index.unique else "INDEX"
    made = f'CREATE {kind} {index.name} ON "{index.table}" ({", ".join(terms)}) {index.condition}'
    return made.rstrip()


def _references(table: Table) -> Iterator[str]:
    for reference in table.references:
        then = f" ON DELETE {reference.on_delete}" if reference.on_delete == "CASCADE" else ""
        yield (
            f'ALTER TABLE "{table.name}" ADD FOREIGN KEY ({_with_owner(reference.columns)})'
            f' REFERENCES "{reference.parent}" ({_with_owner(reference.parents)}){then}'
        )


# ---------------------------------------------------------------------- triggers


def trigger(text: str) -> Iterator[str]:
    """Write a trigger of SQLite as PostgreSQL has it: a function, and what calls it."""
    found = _TRIGGER.fullmatch(" ".join(text.split()))
    if found is None:
        msg = f"cannot read this trigger: {text[:80]!r}"
        raise ValueError(msg)
    name, event, table, condition, body = found.groups()
    statements = "\n".join(f"  {_statement(one)};" for one in split_statements(body))
    condition = _condition(condition or "")
    if "SELECT" in condition:  # only a function may look at other rows
        statements = f"  IF {condition} THEN\n{statements}\n  END IF;"
        condition = ""
    yield (
        f'CREATE FUNCTION "{name}"() RETURNS trigger LANGUAGE plpgsql AS\n'
        f"$$BEGIN\n{statements}\n  RETURN NULL;\nEND$$"
    )
    when = f" WHEN ({condition})" if condition else ""
    yield (
        f'CREATE TRIGGER "{name}" AFTER {event} ON "{table}"'
        f' FOR EACH ROW{when} EXECUTE FUNCTION "{name}"()'
    )


def _condition(text: str) -> str:
    text = re.sub(r"\bIS NOT (?!NULL\b|DISTINCT\b)", "IS DISTINCT FROM ", text)
    return re.sub(r"\bIS (?!NOT\b|NULL\b|DISTINCT\b)", "IS NOT DISTINCT FROM ", text)


def _statement(text: str) -> str:
    text = text.rstrip("; \n")
    if text.startswith("INSERT OR IGNORE "):
        text = text.replace("INSERT OR IGNORE ", "INSERT ", 1) + " ON CONFLICT DO NOTHING"
    into = re.match(r"INSERT INTO (\w+)", text)
    if into is not None:  # what is there already, against what comes
        text = re.sub(r"= (\w+) \+ excluded\.", rf"= {into[1]}.\1 + excluded.", text)
    return to_postgres(text).replace("%%", "%")


# ---------------------------------------------------------------------- row-level security


def walls(tables: Sequence[str], home: str) -> Iterator[str]:
    """Return the row-level security of tables that have an owner and a scope."""
    return chain.from_iterable(_wall(f'"{table}"', home) for table in tables)


def _wall(table: str, home: str) -> Iterator[str]:
    # Each function is asked once for a query, not once for a row: that is what SELECT is for.
    mine = f"{OWNER} = (SELECT {home}.tk_me())"
    kept = f"{mine} AND {SCOPE} = ANY (CAST((SELECT {home}.tk_mine()) AS bigint[]))"
    seen = f"{SCOPE} = ANY (CAST((SELECT {home}.tk_visible()) AS bigint[]))"
    yield f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY"
    yield f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY"
    yield f"CREATE POLICY see ON {table} FOR SELECT USING ({seen})"
    yield f"CREATE POLICY make ON {table} FOR INSERT WITH CHECK ({kept})"
    yield f"CREATE POLICY change ON {table} FOR UPDATE USING ({mine}) WITH CHECK ({kept})"
    yield f"CREATE POLICY remove ON {table} FOR DELETE USING ({mine})"


def filled(text: str, values: Mapping[str, str]) -> list[str]:
    """Cut a script into statements, with names put in for their braces."""
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", value)
    return statements_of(text)


def statements_of(script: str) -> list[str]:
    """Cut a script of PostgreSQL into its statements; a body between `$$` is one piece."""
    pieces = re.split(r"(\$\$.*?\$\$|--[^\n]*\n|;)", script, flags=re.DOTALL)
    found = [""]
    for piece in pieces:
        if piece == ";":
            found.append("")
        elif not piece.startswith("--"):
            found[-1] += piece
    return [one.strip() for one in found if one.strip()]

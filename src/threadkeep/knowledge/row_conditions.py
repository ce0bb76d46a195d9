"""From a query to SQL for everything but sessions: conditions on commands, visits and runs."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from threadkeep.base.tx import Sql, Tx
from threadkeep.errors import Invalid
from threadkeep.knowledge.query import Query
from threadkeep.knowledge.search_scope import of_project
from threadkeep.knowledge.session_sql import like, one_of, resolve

_TERM: Final = re.compile(r'"([^"]*)"|([^\s"]+)')
# SQLite takes a thousand conditions, of which each word is up to five; a server takes minutes.
_MOST_WORDS: Final = 100


class RowConditions:
    """Conditions on the rows of one table, and their values, while they are gathered."""

    def __init__(self, tx: Tx, query: Query, texts: Iterable[str] = ()) -> None:
        self.tx, self.query = tx, query
        self.texts = list(texts)
        self.params: dict[str, Any] = {}
        self._archived = bool(query.project or query.branch) and "tk_sessions" in tx.tables()

    def words(self, *columns: str) -> None:
        """Want every word and phrase of the text in one of some columns."""
        wanted = dict.fromkeys(phrase or word for phrase, word in _TERM.findall(self.query.text))
        if len(wanted) > _MOST_WORDS:
            msg = f"the query has {len(wanted)} words"
            raise Invalid(msg, hint=f"ask for {_MOST_WORDS} at most")
        for number, word in enumerate(wanted):
            self.params[f"word{number}"] = within(word)
            found = (f"{column} LIKE :word{number} ESCAPE '\\'" for column in columns)
            self.texts.append(f"({' OR '.join(found)})")

    def span(self, column: str) -> None:
        """Want a time within the span."""
        for name, op in (("since", ">="), ("until", "<")):
            at = getattr(self.query, name)
            if at is not None:
                self.params[name] = at
                self.texts.append(f"{column} {op} :{name}")

    def any_of(self, column: str, values: Iterable[str], *, asked: bool = False) -> None:
        """Want one of some values; with `asked` also where there are none, so nothing is found."""
        wanted = list(values)
        if wanted or asked:
            key = f"any{len(self.texts)}"
            self.params[key] = msgspec.json.encode(wanted).decode()
            self.texts.append(one_of(column, key))

    def outcomes(self, conditions: Mapping[str, str]) -> None:
        """Want one of the outcomes; `is:failed` is one, too."""
        wanted = [*self.query.outcome, *(["failure"] if "failed" in self.query.marks else [])]
        if wanted:
            texts = [conditions[one] for one in wanted if one in conditions]
            self.texts.append(f"({' OR '.join(texts) or '0'})")

    def place(self, cwd: str | None, repo: str | None, table: str) -> None:
        """Want the projects that are asked for, and none that is ruled out."""
        columns = [one for one in (cwd, repo) if one]
        if self.query.project:
            known = {
                str(place).rstrip("/").rpartition("/")[2]
                for column in columns
                for place in self._values(column, table)
            }
            archived = self._archived
            place = of_project(
                self.tx, self.query, self.params, cwd, repo, archived=archived, also=known
            )
            self.texts.append(place)
        self._never("project", columns)

    def branches(self, column: str, table: str) -> None:
        """Want the branches that are asked for, and none that is ruled out."""
        if self.query.branch:
            known = self._values(column, table)
            found = [value for one in self.query.branch for value in resolve(one, known)]
            self.any_of(column, found, asked=True)
        self._never("branch", [column])

    def _values(self, column: str, table: str) -> list[str]:
        alias = column.partition(".")[0]
        sql = f"SELECT DISTINCT {column} FROM {table} AS {alias} WHERE {column} <> ''"  # noqa: S608
        return [row[0] for row in self.tx.all(Sql(sql))]

    def _never(self, key: str, columns: Iterable[str]) -> None:
        for number, (name, value) in enumerate(self.query.exclude):
            if name == key:
                self.params[f"never{number}"] = within(value)
                self.texts += [
                    f"coalesce({one}, '') NOT LIKE :never{number} ESCAPE '\\'" for one in columns
                ]


def within(text: str) -> str:
    """Return the pattern of whatever contains a text."""
    return f"%{like(text)}%"

"""Named queries made to fit a file: they name the newest tables, and a file may lack some.

A table that a file does not have counts as empty: what is asked of it gives nothing, what is put
into it goes nowhere. One that only bears an older name there is asked under that name. So nobody
who runs a query needs to know the version of the file.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from functools import cache, partial
from typing import Final

from threadkeep.knowledge.layout import ALL_TABLES
from threadkeep.knowledge.versions import CHANGES

_OLD_NAMES: Final = {new: old for change in CHANGES for new, old in change.renamed.items()}
# A statement that changes no row and takes any named values.
_NOTHING: Final = "UPDATE source_health SET source = source WHERE 0"


class FittedQueries(Mapping[str, str]):
    """Named queries that fit one file; each is written anew when it is first needed."""

    def __init__(self, queries: Mapping[str, str]) -> None:
        self._queries = queries
        self._present: frozenset[str] | None = None  # until the tables are known nothing is changed
        self._absent: re.Pattern[str] | None = None
        self._fitted: dict[str, str] = {}

    def fit(self, present: Collection[str]) -> None:
        """Fit the queries to a file that has these tables."""
        absent = sorted(ALL_TABLES.keys() - set(present))
        self._present = frozenset(present)
        self._absent = re.compile(rf"\b(?:{'|'.join(absent)})\b") if absent else None
        self._fitted = {}

    def __getitem__(self, name: str) -> str:
        found = self._fitted.get(name)
        if found is None:
            found = self._fitted[name] = self._fit(self._queries[name])
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._queries)

    def __len__(self) -> int:
        return len(self._queries)

    def _fit(self, sql: str) -> str:
        if self._absent is None or self._present is None:
            return sql
        named = self._absent.findall(sql)
        return fit_query(sql, named, self._present) if named else sql


def fit_query(sql: str, absent: Collection[str], present: Collection[str]) -> str:
    """Write a query so that it goes without some tables."""
    for table in sorted(set(absent)):
        if _OLD_NAMES.get(table) in present:
            sql = re.sub(rf"\b{table}\b", _OLD_NAMES[table], sql)
        elif re.search(rf"\b(?:INTO|UPDATE|DELETE\s+FROM)\s+{table}\b", sql, re.IGNORECASE):
            return _NOTHING
        else:
            sql = _reads(table).sub(partial(_empty, table), sql)
    return sql


@cache
def _reads(table: str) -> re.Pattern[str]:
    return re.compile(rf"\b(FROM|JOIN)\s+{table}\b(?:\s+AS\s+(\w+))?", re.IGNORECASE)


def _empty(table: str, at: re.Match[str]) -> str:
    columns = ", ".join(f"NULL AS {column}" for column in ("rowid", *ALL_TABLES[table]))
    return f"{at[1]} (SELECT {columns} WHERE 0) AS {at[2] or table}"

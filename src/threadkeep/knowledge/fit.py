"""Named queries made to fit a file: they name the newest tables, and a file may lack some.

A table that a file does not have counts as empty: what is asked of it gives nothing, what is put
into it goes nowhere. One that only bears an older name there is asked under that name. So nobody
who runs a query needs to know the version of the file.
"""

import re
from collections.abc import Collection, Mapping
from functools import cache, partial
from typing import Final

from threadkeep.knowledge.layout import ALL_TABLES
from threadkeep.knowledge.versions import CHANGES

_OLD_NAMES: Final = {new: old for change in CHANGES for new, old in change.renamed.items()}
_VARYING: Final = frozenset(
    table for change in CHANGES for table in (*change.tables, *change.dropped)
)
# A statement that changes no row and takes any named values.
_NOTHING: Final = "UPDATE source_health SET source = source WHERE 0"


def fit_queries(queries: Mapping[str, str], present: Collection[str]) -> dict[str, str]:
    """Give the queries for a file that has these tables; those that fit are left as they are."""
    absent = sorted(_VARYING.difference(present))
    if not absent:
        return dict(queries)
    named = re.compile(rf"\b(?:{'|'.join(absent)})\b")
    return {
        name: fit_query(sql, named.findall(sql), present) if named.search(sql) else sql
        for name, sql in queries.items()
    }


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

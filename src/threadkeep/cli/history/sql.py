"""`threadkeep sql`: one query over the captured history, as rows."""

import csv
import sys
from typing import TYPE_CHECKING

import click

from threadkeep.cli.command import Call, store_command
from threadkeep.cli.options import limit_option
from threadkeep.cli.output import note, paging, table

if TYPE_CHECKING:
    from threadkeep.knowledge.typed_sql import SqlAnswer, SqlTable


@store_command(
    "sql",
    "threadkeep sql",
    "threadkeep sql 'SELECT project, count(*) FROM tk_sessions GROUP BY project'",
    "threadkeep sql 'SELECT * FROM tk_usage' --limit 10000 --csv > usage.csv",
    lists=True,
    pages=True,
)
@click.argument("query", required=False)
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV, with the names of the columns.")
@limit_option(1000, "How many rows; 10,000 at most.")
def sql(call: Call, *, query: str | None, as_csv: bool, limit: int) -> None:
    """Run one SELECT over the knowledge store; without QUERY, list the tables.

    Nothing can be changed. A query may take 5 seconds.
    """
    from threadkeep.home.opening import open_browse
    from threadkeep.knowledge.typed_sql import tables_named

    with open_browse(call.home, call.db) as browse:
        if query is None:
            _show_tables(call, browse.tables())
            return
        found = browse.select(query, limit=limit)
        named = tables_named(query, browse.tables())
    if call.as_json:
        call.answer("rows", columns=found.columns, rows=_named(found), cut=found.cut)
    elif as_csv:
        csv.writer(sys.stdout).writerows([found.columns, *found.rows])
    else:
        rows = [["" if one is None else str(one) for one in row] for row in found.rows]
        with paging(wanted=call.pager):
            table(found.columns, rows)
    for one in named:
        note(f"{one.name}: {one.about}")
    if found.cut:
        note(f"Only the first {len(found.rows):,} rows are shown; more with --limit")


def _named(found: "SqlAnswer") -> list[dict[str, object]]:
    return [dict(zip(found.columns, row, strict=True)) for row in found.rows]


def _show_tables(call: Call, tables: "list[SqlTable]") -> None:
    if call.as_json:
        call.answer("rows", rows=tables)
        return
    with paging(wanted=call.pager):
        rows = [(one.name, one.about, ", ".join(one.columns)) for one in tables]
        table(("table", "holds", "columns"), rows)

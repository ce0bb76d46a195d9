"""The tables of a store on a server, read as those of a file of another program are."""

import hashlib
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from threadkeep.base.tx import Sql, Tx

# Whose rows these are, whatever the way to the server, and a text that differs after a commit. The
# server counts the rows that change, and begins again after a crash; where it does not count, or an
# older one tells late, every commit of the server is one.
_SEEN: Final = Sql("""
SELECT current_setting('tk.owner'), current_schema(), CASE
    WHEN current_setting('track_counts') = 'on'
      AND CAST(current_setting('server_version_num') AS bigint) >= 150000
    THEN (SELECT concat(sum(n_tup_ins), ' ', sum(n_tup_upd), ' ', sum(n_tup_del), ' ',
            pg_postmaster_start_time(), (SELECT stats_reset FROM pg_stat_bgwriter))
          FROM pg_stat_all_tables WHERE schemaname = current_schema())
    ELSE CAST(pg_current_snapshot() AS text) END""")


class SeenStore(NamedTuple):
    """What a look at a store tells: its name, a number that differs after a commit, a time."""

    name: str
    number: int
    latest: int


class ServedTables:
    """One snapshot of a store on a server; its queries have `?` for their values, as files take."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    def look(self, latest_use: str) -> SeenStore:
        """Tell which store it is and in which state; a query gives when it was last used."""
        owner, schema, state = self._tx.all(_SEEN)[0]
        number = hashlib.blake2b(state.encode(), digest_size=7).digest()
        latest = self._tx.value(Sql(latest_use)) or 0
        return SeenStore(f"postgresql:{schema}#{owner}", int.from_bytes(number, "big"), int(latest))

    def rows(self, sql: str, params: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query."""
        named = {f"p{number}": value for number, value in enumerate(params)}
        names = iter(named)
        query = Sql(re.sub(r"\?", lambda _: f":{next(names)}", sql))
        for row in self._tx.each(query, named):
            yield tuple(_as_in_a_file(value) for value in row)

    def tables(self) -> set[str]:
        """Name the tables."""
        return self._tx.tables()

    def columns(self, table: str) -> list[str]:
        """Name the columns that a table really has."""
        return self._tx.columns(table)


def _as_in_a_file(value: Any) -> Any:
    """Return a text with half characters as the bytes that a file has in its place."""
    if isinstance(value, str) and not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            return value.encode("utf-8", "surrogatepass")
    return value

"""Stores on a PostgreSQL server, as an engine of the contract suites.

A process has one database with a few homes in it. A home is made once, which takes half a second;
after a test its rows are deleted, which takes some milliseconds, and the next test gets it.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any, ClassVar, Final, LiteralString

import psycopg

from threadkeep.base.match import Phrase
from threadkeep.base.postgres.pool import HomeAddress, connect
from threadkeep.base.postgres.schema import StorePlace, enter
from threadkeep.base.tx import Sql, Tx
from threadkeep.errors import ThreadkeepError
from threadkeep.knowledge.node_words import index_node
from threadkeep.knowledge.schema import NODE_WORDS
from threadkeep.testing import ChatFactory, KnowledgeFactory, StateFactory, StoreFactory
from threadkeep.testing.clock import ManualClock

_OWN: Final = {"tk_owner", "tk_scope"}
_CHANGES_TABLES: Final = ("ALTER ", "CREATE ", "DROP ")
_TOKEN: Final = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|\?|%|\bLIKE\b")

# Tests of the suites that are about tables which other programs change, and why.
ABOUT_FILES: Final = {
    **dict.fromkeys(
        (
            "test_part_row_is_rewritten_logarithmically_and_never_an_eighth_behind",
            "test_change_of_one_part_does_not_rewrite_another",
        ),
        "the test counts writes with a trigger that is written for SQLite",
    ),
    **dict.fromkeys(
        (
            "test_csv_puts_columns_it_does_not_know_into_one_cell",
            "test_a_file_that_changes_what_it_is_given_is_refused",
            "test_columns_the_file_lacks_come_back_from_an_import",
            "test_columns_the_file_has_are_filled_again",
            "test_a_value_that_a_column_would_change_is_kept_beside_it",
            "test_what_is_written_into_a_column_later_counts_more",
            "test_rows_with_the_seeds_columns_alone_are_completed",
            "test_any_session_comes_back_byte_for_byte",
        ),
        "no other program adds columns to the tables of a server",
    ),
    **dict.fromkeys(
        (
            "test_cjk_of_other_programs_is_found_at_once",
            "test_whatever_is_copied_out_of_a_message_finds_it",
            "test_or_and_not_hold_over_both_indexes",
            "test_prefixes_find_every_word_that_begins_so",
            "test_changes_of_other_programs_count_at_once",
        ),
        "other programs write to a file alone; the parity test searches on both engines",
    ),
    **dict.fromkeys(
        (
            "test_damaged_exact_values_leave_the_text_and_are_found",
            "test_column_holds_readable_valid_text",
            "test_odd_values_are_valid_text_to_other_programs",
            "test_blobs_are_stored_but_not_indexed",
            "test_blobs_huge_tool_output_is_indexed_at_its_ends",
        ),
        "looks into the file with SQL of SQLite's own",
    ),
    **dict.fromkeys(
        (
            "test_times_written_as_text_refuse_no_row",
            "test_counters_take_fractions_nothing_and_nulls",
        ),
        "columns of a server take values of their type alone",
    ),
    "test_lost_blob_costs_no_more_than_itself[postgres-UPDATE tk_blobs SET data = x'00'"
    "-cannot be unpacked|not as it was written]": "the test writes bytes as SQLite does",
    **dict.fromkeys(
        (
            "test_the_first_search_of_a_new_store_warns_of_nothing_and_real_damage_is_told",
            "test_compact_makes_the_file_smaller_and_loses_nothing",
        ),
        "a server looks after its indexes and its free pages",
    ),
    "test_backup_has_a_place_of_its_own_by_default": "a backup is a copy of a file",
    **dict.fromkeys(
        (
            "test_a_file_at_18_has_no_memories",
            "test_the_reaper_looks_at_the_frozen_queue_but_nothing_is_taken_from_it",
            "test_a_file_without_our_tables_has_no_vectors",
            "test_a_file_that_is_only_read_and_has_no_index_still_answers",
            "test_a_file_that_another_program_made_is_told_too",
            "test_a_store_of_an_older_version_can_be_looked_at_and_is_brought_up",
        ),
        "a server has the tables of every version",
    ),
    **dict.fromkeys(
        ("test_a_ticket_without_its_row_is_not_stuck", "test_a_missing_block_is_damage"),
        "a server never lets a reference lead nowhere",
    ),
    **dict.fromkeys(
        (
            "test_a_page_is_read_from_an_index_in_its_order",
            "test_what_sessions_took_is_read_from_the_index_alone",
            "test_answers_are_summed_up_in_the_order_of_their_index",
        ),
        "the plans of SQLite; those of a server are looked at in tests/engines/test_plans.py",
    ),
    **dict.fromkeys(
        (
            "test_many_tiny_logs_are_looked_at_once_each",
            "test_the_parts_of_a_long_line_do_not_depend_on_when_it_is_read",
        ),
        "about how logs are read, in hundreds of captures; takes a server seconds",
    ),
    "test_something_else_in_the_place_of_a_log": "counts open files; connections are among them",
    "test_an_unknown_agent_is_refused": "any agent may come to a server, without a new schema",
    "test_vectors_go_with_their_node": "the contract's own vectors are in files alone",
}

_url = ""
_free: Final[dict[str, list[str]]] = {}
_made = 0


def use_server(url: str) -> None:
    """Say where stores are made from now on."""
    global _url  # noqa: PLW0603  (one for each process of a run)
    _url = url


def take_home(contract: str) -> str:
    """Return the URL of a home in which nothing is, for one contract."""
    global _made  # noqa: PLW0603
    free = _free.setdefault(contract, [])
    if free:
        return free.pop()
    _made += 1
    return f"{_url}&home=t{_made}"


class Outside:
    """Runs SQL that is written for SQLite in the schema of a store, as another program would."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        self.changed_tables = False

    def execute(self, sql: str, params: Sequence[Any] = ()) -> Any:
        self.changed_tables |= sql.lstrip().startswith(_CHANGES_TABLES)
        cursor = self._connection.cursor(row_factory=_row)
        return cursor.execute(_translated(sql).encode(), params)

    def tables(self) -> list[str]:
        return _tables(self._connection)


class NamedRow(tuple[Any, ...]):
    """A row that can be asked by the names of its columns, too."""

    __slots__ = ()
    names: ClassVar[tuple[str, ...]]

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(self.names.index(key) if isinstance(key, str) else key)

    def keys(self) -> tuple[str, ...]:
        return self.names


def _row(cursor: psycopg.Cursor[Any]) -> Any:
    names = tuple(column.name for column in cursor.description or ())
    return type("Row", (NamedRow,), {"names": names, "__slots__": ()})


def _translated(sql: str) -> str:
    def one(found: re.Match[str]) -> str:
        part = found[0]
        if part[0] in "'\"":
            return part.replace("%", "%%")
        return {"?": "%s", "%": "%%", "LIKE": "ILIKE"}[part]

    return _TOKEN.sub(one, sql)


class OnPostgres(StoreFactory[Any]):
    """What the factories of stores on a server have in common."""

    contract: ClassVar[str]
    refused = (ThreadkeepError, psycopg.IntegrityError)

    def __init__(self, clock: ManualClock | None = None) -> None:
        super().__init__(clock)
        self._taken: list[str] = []
        self._changed: set[str] = set()  # their tables are no longer as a store makes them

    def place(self, store: Any = None) -> str:
        if store is not None:  # an open one, or its place
            return store if isinstance(store, str) else str(store.context.db.name)
        home = take_home(self.contract)
        self._taken.append(home)
        return home

    @contextmanager
    def raw(self, store: Any) -> Iterator[Any]:
        with _opened(self.place(store), self.contract) as (connection, home):
            enter(connection, home)
            outside = Outside(connection)
            try:
                yield outside
            finally:
                if outside.changed_tables:
                    self._changed.add(home.home_name)

    def rows(self, store: Any, sql: str, *params: object) -> list[dict[str, Any]]:
        with self.raw(store) as outside:
            return _rows(outside, sql, params)

    def contents(self, store: Any) -> dict[str, list[dict[str, Any]]]:
        with self.raw(store) as outside:
            return {
                name: sorted(_rows(outside, f'SELECT * FROM "{name}"'), key=repr)
                for name in sorted(outside.tables())
                if not name.startswith("tk_search")
            }

    def close(self) -> None:
        super().close()
        while self._taken:
            home = self._taken.pop()
            if home.rpartition("home=")[2] not in self._changed:
                _empty(home, self.contract)
                _free.setdefault(self.contract, []).append(home)


def _rows(outside: Outside, sql: str, params: Sequence[Any] = ()) -> list[dict[str, Any]]:
    cursor = outside.execute(sql, params)
    found = cursor.fetchall() if cursor.description else []
    return [_plain(dict(zip(row.keys(), row, strict=True))) for row in found]


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in _OWN}


@contextmanager
def _opened(place: str, contract: str) -> Iterator[tuple[psycopg.Connection[Any], StorePlace]]:
    """Connect to the schema of a store as the user of the server who may do everything."""
    address = HomeAddress.read(place)
    home = StorePlace(address.home, contract)
    with closing(connect(address, home.path, synchronous_commit="off")) as connection:
        yield connection, home


def _tables(connection: psycopg.Connection[Any], which: LiteralString = "") -> list[str]:
    found = connection.execute(
        "SELECT relname FROM pg_class WHERE relkind = 'r'"
        f" AND relnamespace = CAST(current_schema() AS regnamespace) {which}"
    )
    return [row[0] for row in found.fetchall()]


def _empty(place: str, contract: str) -> None:
    """Delete every row of a home's store; the rows that it begins with are put in again.

    Tables that were never written are not opened: most of two hundred, and most of the time.
    """
    with _opened(place, contract) as (connection, home):
        tables = [f'"{name}"' for name in _tables(connection, "AND pg_relation_size(oid) > 0")]
        with connection.transaction(), connection.pipeline():
            connection.execute("SET LOCAL session_replication_role = replica")
            for name in (*tables, f"{home.home}.tk_begun"):
                connection.execute(f"DELETE FROM {name}".encode())
            connection.execute(
                "SELECT setval(oid::regclass, 1, false) FROM pg_class WHERE relkind = 'S'"
                " AND relnamespace = CAST(current_schema() AS regnamespace)"
            )


class PostgresChatFactory(OnPostgres, ChatFactory):
    """Chat stores on a server."""

    contract = "chat"


class PostgresStateFactory(OnPostgres, StateFactory):
    """Session stores on a server."""

    contract = "state"


class PostgresKnowledgeFactory(OnPostgres, KnowledgeFactory):
    """Knowledge stores on a server, where every program that writes is ours."""

    contract = "knowledge"

    def insert(self, store: Any, table: str, **values: Any) -> int:
        names, given = (", ".join(f"{mark}{name}" for name in values) for mark in ("", ":"))
        sql = f"INSERT INTO {table} ({names}) VALUES ({given}) RETURNING *"
        with store.write() as tx:
            number = int(tx.dicts(Sql(sql), values)[0][_number_of(tx, table)])
            self._index(tx, table, number)
        return number

    def update(self, store: Any, table: str, number: int, **values: Any) -> None:
        sets = ", ".join(f"{name} = :{name}" for name in values)
        with store.write() as tx:
            sql = f"UPDATE {table} SET {sets} WHERE {_number_of(tx, table)} = :number"
            tx.run(Sql(sql), {**values, "number": number})
            self._index(tx, table, number)

    def delete(self, store: Any, table: str, number: int) -> None:
        with store.write() as tx:
            sql = f"DELETE FROM {table} WHERE {_number_of(tx, table)} = :number"
            tx.run(Sql(sql), {"number": number})
            self._index(tx, table, number)

    @staticmethod
    def _index(tx: Tx, table: str, number: int) -> None:
        """Do what triggers of the schema do in a file."""
        if table == "knowledge_nodes":
            index_node(tx, number)

    def find(self, store: Any, words: str) -> list[int]:
        with store.read() as tx:
            return NODE_WORDS.ids(tx, Phrase((words,)), newest=False)


def _number_of(tx: Tx, table: str) -> str:
    """Name the column with the number of a row; where none is `id`, the first one is a key."""
    columns = tx.columns(table)
    return "id" if "id" in columns else columns[0]


FACTORIES_OF_POSTGRES: Final[dict[str, type[StoreFactory[Any]]]] = {
    "chat": PostgresChatFactory,
    "state": PostgresStateFactory,
    "knowledge": PostgresKnowledgeFactory,
}

"""In files: two ways to write time, one way to read both."""

import sqlite3
from contextlib import closing

from hypothesis import given, strategies as st

from threadkeep.base.clock import iso
from threadkeep.mailbox.rows import sqlite_form

# What either form can write: the years 1 to 9999.
moments = st.integers(-62_135_596_800_000, 253_402_300_799_999)


@given(moments)
def test_the_database_writes_the_same_form(ms: int) -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        sql = "SELECT datetime(?), datetime(?)"
        written = connection.execute(sql, (iso(ms), sqlite_form(ms))).fetchone()
    assert written == (sqlite_form(ms), sqlite_form(ms))

"""Copies: entries that another session has, too, because it was handed over.

A copy is archived like everything else, and its session shows it. It is found and counted where it
was said first, as long as that session is here; what has no other place counts where it is.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from threadkeep.base.tx import Tx

COPY: Final = "copy"  # the kind of an entry's row, whatever the entry itself is
_LONGEST_REF: Final = 400


class Links(NamedTuple):
    """The session that one continues, and those that continue it, as `agent:session_id`."""

    continues: str | None = None
    continued_in: tuple[str, ...] = ()


NO_LINKS: Final = Links()


def parts_of(ref: str) -> tuple[str, str] | None:
    """Take the name of a session apart: its harness and its id; None if it is not one."""
    harness, _, session_id = ref.partition(":")
    if not harness or not session_id or len(ref) > _LONGEST_REF or not ref.isprintable():
        return None
    return harness, session_id


def note_origin(tx: Tx, session: int, ref: str) -> None:
    """Remember which session another one continues."""
    named = parts_of(ref)
    if named is not None:
        tx.run("put_origin", {"session": session, "harness": named[0], "session_id": named[1]})


def is_here(tx: Tx, origin: tuple[str, str], besides: int = 0) -> bool:
    """Tell whether the store has what was copied in the place where it was said first.

    A session is no place for its own copies, and one with nothing but copies holds no words: two
    logs that call each other their origin are both found.
    """
    values = {"harness": origin[0], "session_id": origin[1], "session": besides}
    return tx.value("holds_words", values) is not None


def told_in(tx: Tx, origin: tuple[str, str]) -> frozenset[int]:
    """Return the hashes of all that a session says, and of what hand-offs made of it."""
    values = {"harness": origin[0], "session_id": origin[1]}
    return frozenset(row[0] for row in tx.all("told_in_session", values))


def note_retold(tx: Tx, retold: Mapping[str, Iterable[int]]) -> None:
    """Remember what a hand-off wrote of sessions in other words than these have."""
    for ref, hashes in retold.items():
        origin = parts_of(ref)
        if origin is not None:
            new = set(hashes) - told_in(tx, origin)
            harness, session_id = origin
            place = {"harness": harness, "session_id": session_id}
            tx.run_bulk("put_retold", [{**place, "hash": one} for one in sorted(new)])


def settle(tx: Tx) -> None:
    """Make copies of those entries whose original has come behind them, and has them.

    The others are no copies, whatever they say, and are asked about no more. A session that is
    nothing but copies is not listed by itself until something is said in it.
    """
    for session, *origin in tx.all("origins_of_lone_copies"):
        harness, session_id = origin
        if is_here(tx, (harness, session_id), session):
            values = {"session": session, "harness": harness, "session_id": session_id}
            told = told_in(tx, (harness, session_id))
            copies = [row for row in tx.dicts("lone_copies", values) if row["hash"] in told]
            _become_copies(tx, copies)
            tx.run("drop_lone_copies", values)
            tx.run("recount_session", {"session": session})
    # Asked first: a statement that changes nothing would lock the file all the same.
    for session, hidden in tx.all("folding"):
        tx.run("fold", {"session": session, "hidden": hidden})


def _become_copies(tx: Tx, rows: list[dict[str, Any]]) -> None:
    """Give entries new numbers, so that their words in the index lead nowhere."""
    numbers = new_numbers(tx, len(rows))
    tx.run_bulk("delete_entry", [{"id": row["id"]} for row in rows])
    new = [{**row, "id": number} for row, number in zip(rows, numbers, strict=True)]
    tx.run_bulk("insert_entry", new)


def new_numbers(tx: Tx, count: int) -> list[int]:
    """Return so many numbers that no entry had before, in rising order."""
    return [row[0] for row in tx.all("new_entry_numbers", {"count": count})] if count else []


def links_of(tx: Tx, sessions: Iterable[int]) -> dict[int, Links]:
    """Give the links of those sessions that have some; a file that was only read may have none."""
    if "tk_origins" not in tx.tables():
        return {}
    ids = {"ids": msgspec.json.encode(list(sessions)).decode()}
    found = {row[0]: Links(f"{row[1]}:{row[2]}") for row in tx.all("originals_of", ids)}
    for session, harness, session_id in tx.all("continuations_of", ids):
        links = found.get(session, NO_LINKS)
        later = (*links.continued_in, f"{harness}:{session_id}")
        found[session] = links._replace(continued_in=later)
    return found


def copies_by_harness(tx: Tx) -> dict[str, int]:
    """Count the copies of each harness, which are no messages of their own."""
    if "tk_origins" not in tx.tables():
        return {}
    return dict(tx.all("copies_by_harness"))

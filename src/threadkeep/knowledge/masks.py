"""Where secrets were masked in the archive, by which rule; and which rules mask no more where.

What stood there is never noted: the log is asked again, as long as it exists.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from threadkeep.base.tx import Tx
from threadkeep.knowledge.layout import names

Marks = Sequence[tuple[str, int]]  # the rule and the place of each mask in a line


def note_masks(tx: Tx, log_id: int, found: Mapping[int, Marks]) -> None:
    """Note the masks of some lines, given by their numbers."""
    rows = [(log_id, line, place, rule) for line, marks in found.items() for rule, place in marks]
    if rows:
        tx.run_bulk("put_mask", rows)


def drop_masks(tx: Tx, log_id: int, lines: Iterable[int]) -> None:
    """Drop what is noted of the masks of some lines."""
    tx.run_bulk("delete_line_masks", [(log_id, line) for line in lines])


def masks_of(tx: Tx, log_id: int) -> dict[int, list[tuple[str, int]]]:
    """Give the masks that are noted of a log, by line, in their order."""
    found: dict[int, list[tuple[str, int]]] = defaultdict(list)
    for line, rule, place in _all(tx, "masks_of_log", {"log": log_id}):
        found[line].append((rule, place))
    return dict(found)


def rules_noted(tx: Tx) -> set[str]:
    """Give the names of all rules that have masked something."""
    return {row[0] for row in _all(tx, "mask_rules")}


def exempt_rules(tx: Tx, harness: str, session_id: str) -> frozenset[str]:
    """Give the rules that do not mask in a session, because a person undid their masks there."""
    named = {"harness": harness, "session_id": session_id}
    return frozenset(row[0] for row in _all(tx, "exempt_rules", named))


def rules_exempt_anywhere(tx: Tx) -> frozenset[str]:
    """Give the rules that do not mask in some session."""
    return frozenset(row[0] for row in _all(tx, "rules_exempt_anywhere"))


def exempt(tx: Tx, harness: str, session_id: str, rules: Iterable[str], now: int) -> None:
    """Remember that rules mask no more in a session."""
    tx.run_bulk("put_exempt_rule", [(harness, session_id, rule, now) for rule in sorted(rules)])


def _all(tx: Tx, query: str, values: Mapping[str, object] | None = None) -> list[tuple[Any, ...]]:
    """Ask tables that a store has since it was last opened to be written to."""
    return tx.all(query, dict(values or {})) if "tk_exempt_rules" in names(tx, "table") else []

"""How the fault tools give hostile values to a store, as far as it is the same for every store.

Takes `{"id": n, "slot": …, "value": …}` on stdin, one JSON object per line, and answers
`{"id": n, "ok": true, "back": value}` with what the store gives back, or
`{"id": n, "ok": false, "error": …}` when it refused the value. A value goes through every field it
could stand in, and every field must give it back the same. After each value the store must pass
its own check.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from tests.faults.protocol import bugs_reported
from tests.lengths import AT_LENGTH
from threadkeep.errors import ThreadkeepError

S = TypeVar("S")


class Target(NamedTuple, Generic[S]):
    """A store as hostile values meet it."""

    store: str
    """The name of the store, for the help text."""
    opened: Callable[[Path], AbstractContextManager[S]]
    slots: Mapping[str, Callable[[S, Any], Iterator[Any]]]
    """Each gives back, one after the other, what the fields of its kind made of a value."""
    problems: Callable[[S], Sequence[str]]
    """The store's own check."""
    clear: Callable[[S], None]
    """Make the store empty again, for the next value."""


_HUGE = 500_000


def one_field_will_do(value: str) -> bool:
    """Say whether a text is so large that it goes through one field only, but for the long form."""
    return len(value) >= _HUGE and not AT_LENGTH


def serve(target: Target[S]) -> None:
    """Answer for a store until there are no more values."""
    parser = argparse.ArgumentParser(description=f"Hostile values for the {target.store}.")
    parser.add_argument("--db", type=Path, required=True)
    parser.add_argument("--root", type=Path, required=True)
    options = parser.parse_args()
    with bugs_reported():
        _answer_all(target, options.db, options.root / "inside.db", sys.stdin)


def _answer_all(target: Target[S], database: Path, inside: Path, lines: Iterable[str]) -> None:
    """Answer line by line; what may become a file's name goes to a store in the watched folder."""
    with target.opened(database) as usual, target.opened(inside) as watched:
        for line in lines:
            asked = json.loads(line)
            store = watched if asked["slot"] == "filename" else usual
            said = _answer(target, store, asked["slot"], asked["value"])
            os.write(1, _dumped({"id": asked["id"], **said}).encode() + b"\n")
            target.clear(store)


def _answer(target: Target[S], store: S, slot: str, value: Any) -> dict[str, Any]:
    """Pass a value through every field of a slot; the first that changed it is the answer."""
    try:
        given = list(target.slots[slot](store, value))
    except ThreadkeepError as error:
        return {"ok": False, "error": f"{type(error).__name__}: {error}"[:200]}
    problems = target.problems(store)
    if problems:
        return {"ok": True, "back": f"the store fails its check: {problems[0]}"}
    changed = [back for back in given if _dumped(back) != _dumped(value)]
    return {"ok": True, "back": changed[0] if changed else given[0]}


def _dumped(value: Any) -> str:
    """Write JSON; what cannot be told in it, such as bytes, is a change and is told anyhow."""
    return json.dumps(value, default=repr)

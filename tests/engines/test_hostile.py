"""Texts and numbers that nobody expects: of each, every verb says the same on both engines."""

import re
from collections.abc import Callable, Iterator
from functools import partial
from types import NoneType
from typing import Any, Final, get_args

import pytest

from tests.support.postgres_stores import FACTORIES_OF_POSTGRES, use_server
from tests.test_again import Case, chat_case, given_to, state_case
from threadkeep.base.verb_table import Verb, plain
from threadkeep.errors import ThreadkeepError
from threadkeep.state.named_sessions import NamedSessions
from threadkeep.testing import FACTORIES, ManualClock
from threadkeep.verbs import TABLES

MAKERS: Final = {"sqlite": FACTORIES["sqlite"], "postgres": FACTORIES_OF_POSTGRES}
ODD: Final = "\0a\0b \ud83d\udc00 \uf8ff0000 \uf8ff \udfff"
SYNTAX: Final = "100% _ ' \" ; \\ -- NEAR( OR AND NOT * :x {ids:y} $1 %(z)s %s ? [ \U0001f600"
LONG: Final = "tide " * 30_000
NUMBERS: Final = (2**63, -(2**63) - 1)
# Verbs that are about a file, or close it, or write in the background.
_APART: Final = frozenset(
    {"release", "queue_token_counts", "vacuum", "maybe_auto_prune_and_vacuum", "backup"}
)
_RANDOM: Final = re.compile(
    r"\b[0-9a-f]{8,}\b|\b[0-9A-HJKMNP-TV-Z]{26}\b|postgresql://\S+|/\S+\.db"
)

Given = dict[str, Any]
Call = tuple[Verb, Given]


def kinds_in(kind: Any) -> set[Any]:
    """Take a type apart: what any of its values may be."""
    parts = get_args(kind)
    if not parts or getattr(kind, "__origin__", None) in (list, tuple, dict):
        return {kind}
    if hasattr(kind, "__metadata__"):
        return kinds_in(parts[0])
    return set().union(*map(kinds_in, parts))


def hostile(kind: Any, *, first: bool) -> Iterator[Any]:
    """Give values of a kind that nobody expects; of the first argument more."""
    texts = (ODD, SYNTAX, LONG) if first else (ODD,)
    for one in kinds_in(kind) - {NoneType, bool}:
        if one is str:
            yield from texts
        elif one is int:
            yield from NUMBERS
        elif getattr(one, "__origin__", None) is list and str in kinds_in(get_args(one)[0]):
            yield [ODD, SYNTAX]


def calls(verbs: list[Verb], base: Callable[[Verb], Given]) -> Iterator[Call]:
    """Give every call of some verbs in which one argument is hostile."""
    for one in verbs:
        for place, argument in enumerate(one.arguments.values()):
            given = base(one)
            if "dry_run" in one.arguments:
                given["dry_run"] = True
            for value in hostile(argument.kind, first=place == 0):
                yield one, {**given, argument.name: value}


def verdict(call: Callable[..., Any], one: Verb, given: Given) -> Any:
    """Say what becomes of a call; of a write whether it is refused, and how."""
    try:
        found = plain(call(**given))
    except (ThreadkeepError, ValueError, TypeError, LookupError, ArithmeticError) as error:
        return type(error).__name__, _RANDOM.sub("…", str(getattr(error, "message", error)))
    if one.reads and isinstance(found, dict) and "items" in found:
        # While the clock stands all began at once, and a server has no order among equals.
        found = {**found, "items": sorted(found["items"], key=repr)}
    return found if one.reads else "taken"


def differing(told: dict[str, list[Any]]) -> list[Any]:
    assert len(told["sqlite"]) == len(told["postgres"])
    return [
        (one, other)
        for one, other in zip(told["sqlite"], told["postgres"], strict=True)
        if one != other
    ]


@pytest.fixture(autouse=True)
def on_server(server_url: str) -> None:
    use_server(server_url)


CASES: Final[dict[str, Callable[[Any, str], Case]]] = {
    "chat": chat_case,
    "state_sessions": state_case,
}


@pytest.mark.parametrize("table", sorted(CASES))
@pytest.mark.parametrize("reads", [True, False], ids=["reads", "writes"])
def test_a_store_says_the_same_of_them(table: str, *, reads: bool) -> None:
    contract = table.partition("_")[0]
    told: dict[str, list[Any]] = {}
    for engine in MAKERS:
        with MAKERS[engine][contract](ManualClock(step=0)) as factory:
            store = factory.open()
            of = NamedSessions(store) if table == "state_sessions" else store
            verbs = [
                one
                for one in TABLES[table].values()
                if one.reads == reads and one.name not in _APART
            ]
            told[engine] = found = []
            for one in verbs:
                base = partial(given_to, case=CASES[table](store, one.name))
                for _, given in calls([one], base):
                    said = verdict(getattr(of, one.name), one, given)
                    found.append((one.name, repr(given)[:200], said))
    assert differing(told) == []


@pytest.mark.parametrize("odd", [ODD, "\0", "\ud83d", "\\u0000", "\\\0"], ids=ascii)
def test_a_chat_is_listed_whatever_its_metadata_says(odd: str) -> None:
    told: dict[str, list[Any]] = {}
    for engine in MAKERS:
        with MAKERS[engine]["chat"](ManualClock(step=1)) as factory:
            store = factory.open()
            for name, ephemeral in (("kept", False), ("passing", True)):
                store.create_session(
                    agent="a",
                    model="m",
                    session_id=name,
                    metadata={"said": odd, odd: [odd], "ephemeral": ephemeral},
                )
            told[engine] = [plain(store.sessions()), plain(store.session("kept"))]
    assert told["sqlite"] == told["postgres"]
    assert [one["id"] for one in told["sqlite"][0]["items"]] == ["kept"]

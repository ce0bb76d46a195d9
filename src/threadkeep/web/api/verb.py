"""A verb of the API: an address, the function behind it, and what that takes and gives.

What a verb takes and gives stands in the signature of its function, and its docstring says what it
does. The server reads requests by it, and the description of the API is made of the same.
"""

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Sequence
from typing import (
    Annotated,
    Any,
    Final,
    Generic,
    Literal,
    Protocol,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Meta

from threadkeep.base import json
from threadkeep.base.clock import now_ms
from threadkeep.errors import Invalid
from threadkeep.home.stores import Stores
from threadkeep.knowledge.query import Query, fill_query
from threadkeep.knowledge.results import SessionPage

T = TypeVar("T")
Json = dict[str, Any]
Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]

# What an address begins with that is not about the captured history.
_OTHERS: Final = frozenset({"chat", "state", "mail", "health", "web"})
LARGEST: Final = 2**53 - 1  # what every JSON reader keeps exactly

Limit = Annotated[int, Meta(ge=1, le=200, description="How many at most.")]
Cursor = Annotated[
    str, Meta(max_length=2048, description="The `next` of the page before; empty: the first page.")
]
Moment = Annotated[int, Meta(ge=0, le=LARGEST, description="A time in epoch milliseconds.")]
Number = Annotated[int, Meta(ge=0, le=LARGEST)]
RowId = Annotated[int, Meta(ge=1, le=LARGEST)]
Name = Annotated[str, Meta(min_length=1, max_length=500)]
Names = Annotated[tuple[Name, ...], Meta(description="Given several times, any of them will do.")]
Words = Annotated[str, Meta(max_length=2000)]
Text = Annotated[str, Meta(max_length=100_000)]
DryRun = Annotated[bool, Meta(description="Say what would be done, and do nothing.")]


class Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a request says; a name that is not known is refused."""


class Empty(Strict, frozen=True):
    """A body that says nothing."""


class ResultPage(msgspec.Struct, Generic[T], frozen=True):
    """One page of a list; `next` is the cursor of the following one, null at the end."""

    items: Iterable[T]
    next: str | None = None


class Lines(msgspec.Struct, frozen=True):
    """Text that is sent line by line, whatever its length."""

    lines: Iterable[str]


class GivenLines(msgspec.Struct, frozen=True):
    """A body of JSON lines, as it came."""

    raw: bytes


class Verb(msgspec.Struct, frozen=True):
    """One verb of the API."""

    method: Method
    path: str  # below /api, with {names}
    call: Callable[..., Any]
    name: str
    summary: str
    tag: str
    asked: type[Strict]  # what stands in the address
    body: Any  # a type; None: there is none
    answer: Any
    status: int = 200
    kept: bool = False  # it shows the captured history at a moment, and nothing else

    @property
    def reads(self) -> bool:
        """Whether its answer is whole, and the same for all who ask for it."""
        return self.method == "GET" and self.answer is not Lines

    @property
    def write(self) -> bool:
        """Whether it may change something."""
        return self.method != "GET"

    @property
    def nothing(self) -> Any:
        """What it answers while its store is not there; None: that there is none."""
        kind = get_origin(self.answer) or self.answer
        if self.write or ("{" in self.path and kind is not list):  # of something that is not there
            return None
        empty: dict[Any, Any] = {dict: {}, list: [], ResultPage: ResultPage([])}
        return {**empty, SessionPage: SessionPage((), None)}.get(kind)

    @property
    def item(self) -> Any:
        """What a page has; None: the answer is no page."""
        return get_args(self.answer)[0] if get_origin(self.answer) is ResultPage else None


def verb(
    method: Method,
    path: str,
    call: Callable[..., Any],
    status: int = 200,
    *,
    kept: bool = False,
) -> Verb:
    """Make a verb of a function: `call(stores, asked)` or `call(stores, asked, body)`."""
    hints = get_type_hints(call, include_extras=True)
    answer = hints.pop("return")
    asked, *rest = [kind for kind in hints.values() if kind is not Stores]
    body = rest[0] if rest else None
    said = " ".join((call.__doc__ or "").split())
    first = path.split("/")[1]
    tag = first if first in _OTHERS else "knowledge"
    name = f"{tag}_{call.__name__}"
    return Verb(method, path, call, name, said, tag, asked, body, answer, status, kept)


# ------------------------------------------------------------------------------
# Pages of lists that are given whole: each goes on behind a key, whatever came or went since.

Key = tuple[int | str, ...]


class ListRequest(Protocol):
    """What says which page is wanted."""

    @property
    def limit(self) -> int:
        """How many at most."""

    @property
    def cursor(self) -> str:
        """Behind what; empty: from the beginning."""


_HINT: Final = "give the `next` of the page before, or leave it out"
_MOST: Final = 1 << 20


def write_cursor(key: Sequence[int | str | float]) -> str:
    """Write a key so that it can stand in an address."""
    return urlsafe_b64encode(json.encode(list(key)).encode()).decode().rstrip("=")


def read_cursor(cursor: str, *kinds: type) -> list[Any]:
    """Read a key; what `write_cursor` did not write for such kinds is refused."""
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        key = json.decode(urlsafe_b64decode(padded))
    except (Invalid, ValueError, binascii.Error):
        key = None
    if not isinstance(key, list) or tuple(map(type, key)) != kinds:
        raise Invalid(f"{cursor[:80]!r} is no cursor of this list", hint=_HINT)
    return key


def page_of(
    items: Iterable[T],
    key: Callable[[T], Key],
    wanted: ListRequest,
    *,
    newest_first: bool = False,
) -> ResultPage[T]:
    """Give a page of a list in the order of its keys, each of which only one item has."""
    ordered = sorted(((key(item), item) for item in items), key=_first, reverse=newest_first)
    if wanted.cursor and ordered:
        last = tuple(read_cursor(wanted.cursor, *map(type, ordered[0][0])))
        ordered = [one for one in ordered if (one[0] < last if newest_first else one[0] > last)]
    return _page(ordered, wanted.limit)


def _first(pair: tuple[Key, Any]) -> Key:
    return pair[0]


def _page(ordered: Sequence[tuple[Key, T]], limit: int) -> ResultPage[T]:
    more = len(ordered) > limit
    last = write_cursor(ordered[limit - 1][0]) if more else None
    return ResultPage([item for _, item in ordered[:limit]], last)


def page_before(
    fetch: Callable[[int | None, int], Sequence[T]],
    key: Callable[[T], tuple[int, int]] | Callable[[T], tuple[int, str]],
    wanted: ListRequest,
    kind: type = int,
) -> ResultPage[T]:
    """Give a page of what is fetched newest first: `fetch(before, count)`, keys (time, name).

    What happened at the very time of the cursor is fetched again, and more of it where there are
    many of one time.
    """
    limit = wanted.limit
    last = tuple(read_cursor(wanted.cursor, int, kind)) if wanted.cursor else None
    before = None if last is None else last[0] + 1
    count = limit + 1
    while True:
        found = fetch(before, count)
        behind = [(key(one), one) for one in found if last is None or key(one) < last]
        if len(behind) > limit or len(found) < count or count > _MOST:
            return _page(behind, limit)
        count *= 4


def query_of(stores: Stores, asked: Strict) -> Query:
    """Read the fields of a query that a request has; `q` is in the filter language."""
    return fill_query(msgspec.structs.asdict(asked), now_ms(), ZoneInfo(stores.home.zone))

"""A page of a list, and the cursor that gives the following one: `cursor` in, `next` out."""

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, Final, Generic, TypeVar

import msgspec
from msgspec import Meta

from threadkeep.base import json
from threadkeep.errors import Invalid

T = TypeVar("T")
Key = tuple[int | str, ...]

Limit = Annotated[int, Meta(ge=1, le=200, description="Maximum number of items.")]
Cursor = Annotated[
    str,
    Meta(max_length=2048, description="The `next` of the previous page; empty: the first page."),
]

CURSOR_HINT: Final = "give the cursor from the end of the previous page, or none"
_MOST: Final = 1 << 20


class Page(msgspec.Struct, Generic[T], frozen=True):
    """One page of a list; `next` is the cursor of the following one, None at the end."""

    items: list[T]
    next: str | None = None

    @property
    def next_cursor(self) -> str | None:
        """The same as `next`, as it was called before."""
        return self.next


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
        raise Invalid(f"{cursor[:80]!r} is not a cursor of this list", hint=CURSOR_HINT)
    return key


def page_of(
    items: Iterable[T],
    key: Callable[[T], Key],
    limit: int,
    cursor: str | None,
    *,
    newest_first: bool = False,
) -> Page[T]:
    """Return a page of a list in the order of its keys, each of which only one item has.

    It continues behind a key, whatever came or went since.
    """
    ordered = sorted(((key(item), item) for item in items), key=_first, reverse=newest_first)
    if cursor and ordered:
        last = tuple(read_cursor(cursor, *map(type, ordered[0][0])))
        ordered = [one for one in ordered if (one[0] < last if newest_first else one[0] > last)]
    return _page(ordered, limit)


def _first(pair: tuple[Key, Any]) -> Key:
    return pair[0]


def _page(ordered: Sequence[tuple[Key, T]], limit: int) -> Page[T]:
    more = len(ordered) > limit
    last = write_cursor(ordered[limit - 1][0]) if more else None
    return Page([item for _, item in ordered[:limit]], last)


def page_before(
    fetch: Callable[[int | None, int], Sequence[T]],
    key: Callable[[T], tuple[int, int]] | Callable[[T], tuple[int, str]],
    limit: int,
    cursor: str | None,
    kind: type = int,
) -> Page[T]:
    """Return a page of what is fetched newest first: `fetch(before, count)`, keys (time, name).

    What happened at the very time of the cursor is fetched again, and more of it where there are
    many of one time.
    """
    last = tuple(read_cursor(cursor, int, kind)) if cursor else None
    before = None if last is None else last[0] + 1
    count = limit + 1
    while True:
        found = fetch(before, count)
        behind = [(key(one), one) for one in found if last is None or key(one) < last]
        if len(behind) > limit or len(found) < count or count > _MOST:
            return _page(behind, limit)
        count *= 4

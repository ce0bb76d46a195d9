"""A verb of the API: an address, the function behind it, and what that takes and gives.

What a verb takes and gives stands in the signature of its function, and its docstring says what it
does. The server reads requests by it, and the description of the API is made of the same.
"""

from collections.abc import Callable, Iterable
from typing import (
    Any,
    Final,
    Literal,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec

from threadkeep.base.page import Page
from threadkeep.base.verb_table import Given
from threadkeep.home.stores import Stores

Json = dict[str, Any]
Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]

# What an address begins with that is not about the captured history.
_OTHERS: Final = frozenset({"chat", "state", "mail", "health", "web"})


class Empty(Given, frozen=True):
    """A body that says nothing."""


class Lines(msgspec.Struct, frozen=True):
    """Text that is sent line by line, whatever its length."""

    lines: Iterable[str]


class GivenLines(msgspec.Struct, frozen=True):
    """A body of JSON lines, as it came."""

    raw: bytes


class ApiVerb(msgspec.Struct, frozen=True):
    """One verb of the API."""

    method: Method
    path: str  # below /api, with {names}
    call: Callable[..., Any]
    name: str
    summary: str
    tag: str
    asked: type[Given]  # what is in the address
    body: Any  # a type; None: there is none
    answer: Any
    status: int = 200
    kept: bool = False  # it shows the captured history at a moment, and nothing else
    progresses: bool = False  # asked to (`Prefer: progress`), it tells how far it is

    @property
    def reads(self) -> bool:
        """Whether its answer is whole, and the same for all who ask for it."""
        return self.method == "GET" and self.answer is not Lines

    @property
    def write(self) -> bool:
        """Whether it may change something."""
        return self.method != "GET"

    @property
    def item(self) -> Any:
        """What a page has; None: the answer is no page."""
        return get_args(self.answer)[0] if get_origin(self.answer) is Page else None


def tag_of(path: str) -> str:
    """Name the store that an address is about."""
    first = path.split("/")[1]
    return first if first in _OTHERS else "knowledge"


def verb(
    method: Method,
    path: str,
    call: Callable[..., Any],
    status: int = 200,
    *,
    kept: bool = False,
) -> ApiVerb:
    """Make a verb of a function: `call(stores, asked)` or `call(stores, asked, body)`."""
    hints = get_type_hints(call, include_extras=True)
    answer = hints.pop("return")
    asked, *rest = [kind for kind in hints.values() if kind is not Stores]
    body = rest[0] if rest else None
    said = " ".join((call.__doc__ or "").split())
    tag = tag_of(path)
    name = f"{tag}_{call.__name__}"
    return ApiVerb(method, path, call, name, said, tag, asked, body, answer, status, kept)

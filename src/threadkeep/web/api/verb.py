"""A verb of the API: an address, the function behind it, and what that takes and gives.

What a verb takes and gives stands in the signature of its function, and its docstring says what it
does. The server reads requests by it, and the description of the API is made of the same.
"""

from collections.abc import Callable, Iterable
from typing import (
    Annotated,
    Any,
    Final,
    Generic,
    Literal,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec
from msgspec import Meta

from threadkeep.home.stores import Stores

T = TypeVar("T")
Json = dict[str, Any]
Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]

LARGEST: Final = 2**53 - 1  # what every JSON reader keeps exactly

Limit = Annotated[int, Meta(ge=1, le=200, description="How many at most.")]
Cursor = Annotated[
    str, Meta(max_length=2048, description="The `next` of the page before; empty: the first page.")
]
Moment = Annotated[int, Meta(ge=0, le=LARGEST, description="A time in epoch milliseconds.")]
Number = Annotated[int, Meta(ge=0, le=LARGEST)]
RowId = Annotated[int, Meta(ge=1, le=LARGEST)]
Name = Annotated[str, Meta(min_length=1, max_length=500)]
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
    tag = path.split("/")[1]
    name = f"{tag}_{call.__name__}"
    return Verb(method, path, call, name, said, tag, asked, body, answer, status, kept)

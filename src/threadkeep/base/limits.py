"""Limits of numbers, said once in a signature; Python, HTTP and MCP refuse the same in one way."""

from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from inspect import signature
from typing import Annotated, Any, Final, ParamSpec, TypeVar, get_args

import msgspec
from msgspec import Meta

from threadkeep.errors import Invalid

P = ParamSpec("P")
R = TypeVar("R")

LARGEST: Final = 2**53 - 1  # what every JSON reader keeps exactly

Moment = Annotated[int, Meta(ge=0, le=LARGEST, description="A time in epoch milliseconds.")]
Number = Annotated[int, Meta(ge=0, le=LARGEST)]
RowId = Annotated[int, Meta(ge=1, le=LARGEST)]


def within_limits(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function refuse numbers that are beyond what its signature says.

    One whose signature says nothing of the kind is given back as it is.
    """
    hints = dict(_limited(function.__annotations__))
    if not hints:
        return function
    places = {name: place for place, name in enumerate(signature(function).parameters)}

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        for name, hint in hints.items():
            if name in kwargs:
                refuse_beyond(name, kwargs[name], hint)
            elif places[name] < len(args):
                refuse_beyond(name, args[places[name]], hint)
        return function(*args, **kwargs)

    return checked


def _limited(annotations: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, hint in annotations.items():
        if name != "return" and limits_of(hint) is not None:
            yield name, hint


def limits_of(hint: Any) -> Meta | None:
    """Give the limits of a number that a type has, None if it has none."""
    for kind in (hint, *get_args(hint)):
        for note in getattr(kind, "__metadata__", ()):
            if isinstance(note, Meta) and note.ge is not None:
                return note
    return None


def refuse_beyond(name: str, value: Any, hint: Any) -> None:
    """Refuse a number that is beyond the limits of a type."""
    try:
        msgspec.convert(value, hint, strict=True)
    except msgspec.ValidationError:
        raise Invalid(
            limit_words(name, value, hint), hint="give a number within these limits"
        ) from None


def limit_words(name: str, value: Any, hint: Any) -> str:
    """Say what a number must be."""
    found = limits_of(hint)
    if found is None or found.le is None or found.le >= LARGEST:
        least = "not negative" if found is None or not found.ge else f"at least {found.ge:g}"
        return f"{name} must be a whole number that is {least}, not {value!r}"
    return f"{name} must be a number from {found.ge:g} to {found.le:g}, not {value!r}"

"""How functions over a transaction become the verbs of a store, signatures and all.

A store has a `context` whose `db` is its database; a verb's function takes that context first.
"""

import inspect
import re
from collections.abc import Callable, Iterator
from functools import partial, wraps
from importlib import import_module
from typing import (
    Annotated,
    Any,
    Concatenate,
    Final,
    Literal,
    NamedTuple,
    ParamSpec,
    TypeVar,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec
from msgspec import UNSET, Meta

from threadkeep.base.database import ask
from threadkeep.base.text import not_one_of, pattern
from threadkeep.base.tx import Tx
from threadkeep.errors import Invalid

C = TypeVar("C")
P = ParamSpec("P")
R = TypeVar("R")

_NONE: Final = (None, None, None)
_CHOICE: Final = pattern(r"Invalid enum value '(.*)'", re.DOTALL)
_PLACE: Final = pattern(r"(.*) - at `\$\.?([^`]*)`")


# ------------------------------------------------------------------------------
# Limits, said once in a signature: Python, HTTP and MCP refuse the same in the same words.

LARGEST: Final = 2**53 - 1  # what every JSON reader keeps exactly

Moment = Annotated[int, Meta(ge=0, le=LARGEST, description="A time in epoch milliseconds.")]
Number = Annotated[int, Meta(ge=0, le=LARGEST)]
RowId = Annotated[int, Meta(ge=1, le=LARGEST)]
Name = Annotated[str, Meta(min_length=1, max_length=500)]
Words = Annotated[str, Meta(max_length=2000)]
Text = Annotated[str, Meta(max_length=100_000)]


def within_limits(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function refuse values that are beyond what its signature says.

    One whose signature says nothing of the kind is given back as it is.
    """
    hints = {
        name: hint
        for name, hint in function.__annotations__.items()
        if name != "return" and limits_of(hint) is not None
    }
    if not hints:
        return function
    parameters = inspect.signature(function).parameters
    places = {name: place for place, name in enumerate(parameters)}

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        for name, hint in hints.items():
            if name in kwargs:
                refuse_beyond(name, kwargs[name], hint)
            elif places[name] < len(args):
                refuse_beyond(name, args[places[name]], hint)
        return function(*args, **kwargs)

    return checked


def with_limits(owner: type[C]) -> type[C]:
    """Let all methods of a class refuse values that are beyond what their signatures say."""
    for name, found in list(vars(owner).items()):
        if inspect.isfunction(found) and not name.startswith("_"):
            setattr(owner, name, within_limits(found))
    return owner


def limits_of(hint: Any) -> Meta | None:
    """Return the limits of a number or a text that a type has, None if it has none."""
    for kind in (hint, *get_args(hint)):
        for note in getattr(kind, "__metadata__", ()):
            if isinstance(note, Meta) and (note.ge, note.min_length, note.max_length) != _NONE:
                return note
    return None


def refuse_beyond(name: str, value: Any, hint: Any) -> None:
    """Refuse a value that is beyond the limits of a type; one that was not given has none."""
    if value is UNSET:
        return
    try:
        msgspec.convert(value, hint, strict=True)
    except msgspec.ValidationError:
        raise Invalid(
            limit_words(name, value, hint), hint="give a value within these limits"
        ) from None


def limit_words(name: str, value: Any, hint: Any) -> str:
    """Say what a number or a text must be."""
    found = limits_of(hint) or Meta(ge=0)
    if found.ge is None:
        return _length_words(name, value, found)
    if found.le is None or found.le >= LARGEST:
        least = f"at least {found.ge:g}" if found.ge else "not negative"
        return f"{name} must be a whole number that is {least}, not {value!r}"
    return f"{name} must be a number from {found.ge:g} to {found.le:g}, not {value!r}"


def fault_words(error: msgspec.ValidationError, kind: Any, given: Any) -> str:
    """Say what does not fit, its field first; of a limit what the store itself says."""
    found = _PLACE.fullmatch(str(error))
    if found is None:
        return str(error)
    what, where = found.groups()
    hints = get_type_hints(kind, include_extras=True) if isinstance(kind, type) else {}
    if limits_of(hints.get(where)) is not None:
        return limit_words(where, given[where], hints[where])
    refused = _CHOICE.fullmatch(what)
    if refused is not None and (names := choices_at(kind, where)):
        what = not_one_of(refused[1], names)
    return f"{where}: {what}" if where else what


def choices_at(kind: Any, where: str) -> list[str]:
    """Return the names that may stand at a place of a record, such as `kind[0]`; none: any may."""
    for part in where.split("."):
        hints = get_type_hints(kind, include_extras=True) if isinstance(kind, type) else {}
        kind = hints.get(part.partition("[")[0])
    return list(dict.fromkeys(_names_of(kind)))


def _names_of(kind: Any) -> Iterator[str]:
    if get_origin(kind) is Literal:
        yield from (one for one in get_args(kind) if isinstance(one, str) and one)
    else:
        for one in get_args(kind):
            yield from _names_of(one)


def _length_words(name: str, value: Any, limits: Meta) -> str:
    if not isinstance(value, str):
        return f"{name} must be a text, not {value!r}"
    if len(value) < (limits.min_length or 0):
        return f"{name} must not be empty"
    return f"{name} must have at most {limits.max_length} characters, not {len(value)}"


# ------------------------------------------------------------------------------
# Verbs of functions.


# ------------------------------------------------------------------------------
# Verbs whose module is loaded by the first who uses one: few commands use many of them.


class LaterFunction(NamedTuple):
    """A function by its name, in a module that need not be loaded yet."""

    module: str
    name: str


class Later:
    """A module by its name; what is taken of it are functions that are loaded later."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> LaterFunction:
        return LaterFunction(self._module, name)


class _LaterVerb:
    """Takes the place of a verb in its class until somebody looks at it."""

    def __init__(self, make: Callable[..., Any], function: LaterFunction) -> None:
        self._make = make
        self._function = function

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, store: Any, owner: type) -> Any:
        module, name = self._function
        setattr(owner, self._name, self._make(getattr(import_module(module), name)))
        return getattr(owner if store is None else store, self._name)


def loaded_later(make: Callable[P, R]) -> Callable[P, R]:
    """Let what makes verbs of functions also take those that are loaded later."""

    @wraps(make)
    def made(*functions: P.args, **options: P.kwargs) -> R:
        (function,) = functions
        if isinstance(function, LaterFunction):
            return cast("R", _LaterVerb(partial(make, **options), function))
        return make(*functions, **options)

    return made


@loaded_later
def reads(function: Callable[Concatenate[C, Tx, P], R]) -> Callable[Concatenate[Any, P], R]:
    """Make a verb that runs in one read transaction; it may be run a second time: see `ask`."""
    act = within_limits(function)

    @wraps(function)
    def verb(store: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        ctx = store.context
        found: R = ask(ctx.db, lambda tx: act(ctx, tx, *args, **kwargs))
        return found

    show_as_method(verb, function, given=2)
    return verb


@loaded_later
def writes(
    function: Callable[Concatenate[C, Tx, P], R], *, key: Callable[..., str] | None = None
) -> Callable[Concatenate[Any, P], R]:
    """Make a verb that runs in one write transaction, durable when it returns.

    `key` says by the verb's arguments with which other writes it must not overlap; without, with
    none. The function may be run a second time: see `Database.again`.
    """
    act = within_limits(function)

    @wraps(function)
    def verb(store: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        ctx, db = store.context, store.context.db
        chosen = None if key is None else key(*args, **kwargs)
        done: R = db.again(lambda tx: act(ctx, tx, *args, **kwargs), key=chosen)
        return done

    show_as_method(verb, function, given=2)
    return verb


@loaded_later
def calls(function: Callable[Concatenate[C, P], R]) -> Callable[Concatenate[Any, P], R]:
    """Make a verb that takes care of its transactions itself."""
    act = within_limits(function)

    @wraps(function)
    def verb(store: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return act(store.context, *args, **kwargs)

    show_as_method(verb, function, given=1)
    return verb


def show_as_method(verb: Any, function: Callable[..., Any], given: int) -> None:
    """Let `help()` show the verb as the caller sees it: self, then what must be passed."""
    shown = inspect.signature(function)
    receiver = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    parameters = [receiver, *list(shown.parameters.values())[given:]]
    verb.__signature__ = shown.replace(parameters=parameters)

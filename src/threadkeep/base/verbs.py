"""How functions over a transaction become the verbs of a store, signatures and all.

A store has a `context` whose `db` is its database; a verb's function takes that context first.
"""

import inspect
from collections.abc import Callable
from functools import partial, wraps
from importlib import import_module
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar, cast

from threadkeep.base.limits import within_limits
from threadkeep.base.tx import Tx

C = TypeVar("C")
P = ParamSpec("P")
R = TypeVar("R")


def reads(function: Callable[Concatenate[C, Tx, P], R]) -> Callable[Concatenate[Any, P], R]:
    """Make a verb that runs in one read transaction."""
    act = within_limits(function)

    @wraps(function)
    def verb(store: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with store.context.db.read() as tx:
            return act(store.context, tx, *args, **kwargs)

    show_as_method(verb, function, given=2)
    return verb


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

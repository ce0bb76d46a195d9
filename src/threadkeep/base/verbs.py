"""How functions over a transaction become the verbs of a store, signatures and all.

A store has a `context` whose `db` is its database; a verb's function takes that context first.
"""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from threadkeep.base.tx import Tx

C = TypeVar("C")
P = ParamSpec("P")
R = TypeVar("R")


def reads(function: Callable[Concatenate[C, Tx, P], R]) -> Callable[Concatenate[Any, P], R]:
    """Make a verb that runs in one read transaction."""

    @wraps(function)
    def verb(store: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with store.context.db.read() as tx:
            return function(store.context, tx, *args, **kwargs)

    show_as_method(verb, function, given=2)
    return verb


def writes(function: Callable[Concatenate[C, Tx, P], R]) -> Callable[Concatenate[Any, P], R]:
    """Make a verb that runs in one write transaction, durable when it returns."""

    @wraps(function)
    def verb(store: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with store.context.db.write() as tx:
            return function(store.context, tx, *args, **kwargs)

    show_as_method(verb, function, given=2)
    return verb


def calls(function: Callable[Concatenate[C, P], R]) -> Callable[Concatenate[Any, P], R]:
    """Make a verb that takes care of its transactions itself."""

    @wraps(function)
    def verb(store: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return function(store.context, *args, **kwargs)

    show_as_method(verb, function, given=1)
    return verb


def show_as_method(verb: Any, function: Callable[..., Any], given: int) -> None:
    """Let `help()` show the verb as the caller sees it: self, then what must be passed."""
    shown = inspect.signature(function)
    receiver = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    parameters = [receiver, *list(shown.parameters.values())[given:]]
    verb.__signature__ = shown.replace(parameters=parameters)

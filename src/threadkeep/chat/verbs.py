"""How functions over a transaction become the verbs of a store, signatures and all."""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from threadkeep.base.sqlite import Tx
from threadkeep.chat.context import Context

P = ParamSpec("P")
R = TypeVar("R")


class Holder(Protocol):
    """Anything that has a context: the store."""

    @property
    def context(self) -> Context:
        """The surroundings of its verbs."""
        ...


def reads(function: Callable[Concatenate[Context, Tx, P], R]) -> Callable[Concatenate[Any, P], R]:
    """Make a verb that runs in one read transaction."""

    @wraps(function)
    def verb(store: Holder, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with store.context.db.read() as tx:
            return function(store.context, tx, *args, **kwargs)

    _show_as_method(verb, function, given=2)
    return verb


def writes(function: Callable[Concatenate[Context, Tx, P], R]) -> Callable[Concatenate[Any, P], R]:
    """Make a verb that runs in one write transaction, durable when it returns."""

    @wraps(function)
    def verb(store: Holder, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with store.context.db.write() as tx:
            return function(store.context, tx, *args, **kwargs)

    _show_as_method(verb, function, given=2)
    return verb


def calls(function: Callable[Concatenate[Context, P], R]) -> Callable[Concatenate[Any, P], R]:
    """Make a verb that takes care of its transactions itself."""

    @wraps(function)
    def verb(store: Holder, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return function(store.context, *args, **kwargs)

    _show_as_method(verb, function, given=1)
    return verb


def _show_as_method(verb: Any, function: Callable[..., Any], given: int) -> None:
    """Let `help()` show the verb as the caller sees it: self, then what must be passed."""
    shown = inspect.signature(function)
    receiver = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    parameters = [receiver, *list(shown.parameters.values())[given:]]
    verb.__signature__ = shown.replace(parameters=parameters)

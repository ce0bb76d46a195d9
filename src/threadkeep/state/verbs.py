"""Verbs that write, and go on when the full-text index is what stands in the way.

The contract's index is filled by triggers inside the transaction of a message. A damaged one would
refuse every message, so on such an error the triggers are taken out and the write is done again:
the message is stored, search is degraded until `reindex`.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from threadkeep.base.sqlite import Tx
from threadkeep.base.verbs import show_as_method
from threadkeep.errors import ThreadkeepError
from threadkeep.state.context import Context
from threadkeep.state.index import blames_index, detach_index

P = ParamSpec("P")
R = TypeVar("R")


def writes(function: Callable[Concatenate[Context, Tx, P], R]) -> Callable[Concatenate[Any, P], R]:
    """Make a verb that runs in one write transaction, durable when it returns."""

    @wraps(function)
    def verb(store: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return write(store.context, function, *args, **kwargs)

    show_as_method(verb, function, given=2)
    return verb


def write(
    ctx: Context,
    function: Callable[Concatenate[Context, Tx, P], R],
    *args: P.args,
    **kwargs: P.kwargs,
) -> R:
    """Run a function in one durable write transaction; without the index if that is broken."""
    try:
        with ctx.db.write() as tx:
            return function(ctx, tx, *args, **kwargs)
    except ThreadkeepError as error:
        if not blames_index(error):
            raise
        detach_index(ctx, error)
    with ctx.db.write() as tx:
        return function(ctx, tx, *args, **kwargs)

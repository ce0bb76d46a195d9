"""Verbs that carry on past text that is missing, and past a full-text index in the way.

The contract's index is filled by triggers inside the transaction of a message, and a damaged one
would refuse every message. So a write that SQLite refuses for no reason of the contract's tables is
done once more in a transaction that first takes the triggers out. If it works then, the message is
stored and search is degraded until `reindex`; if not, nothing changed and the first error counts.
"""

import logging
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from threadkeep.base.tx import Tx
from threadkeep.base.verbs import show_as_method
from threadkeep.base.word_index import blames_index
from threadkeep.errors import ReadOnly, ThreadkeepError
from threadkeep.state.context import StateContext, reading
from threadkeep.state.schema import QUERIES
from threadkeep.state.search.index_fill import (
    after_append,
    detach_index,
    warn_of_damage,
)

P = ParamSpec("P")
R = TypeVar("R")
Ids = TypeVar("Ids", int, list[int])

log = logging.getLogger(__name__)

_PLAIN = frozenset({str, int, float, bool, list, dict, type(None)})


def reads(
    function: Callable[Concatenate[StateContext, Tx, P], R], *, counted: bool = False
) -> Callable[Concatenate[Any, P], R]:
    """Make a verb that runs in one read transaction.

    With `counted` it shows sums: usage that is still queued is written first.
    """

    @wraps(function)
    def verb(store: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        ctx: StateContext = store.context
        if counted:
            store.flush_token_counts()
        return reading(ctx, lambda tx: function(ctx, tx, *args, **kwargs))

    show_as_method(verb, function, given=2)
    return verb


def writes(
    function: Callable[Concatenate[StateContext, Tx, P], R],
    *,
    newest: bool = False,
    counted: bool = False,
    of_session: bool = False,
) -> Callable[Concatenate[Any, P], R]:
    """Make a verb that runs in one write transaction, durable when it returns.

    With `newest` it needs tables or columns that came after version 6: the file gets them first.
    With `counted` it changes what usage is counted for: what is still queued is written first.
    With `of_session` it writes to the session that it is given first, and to no other.
    """

    def widened(ctx: StateContext, tx: Tx, /, *args: P.args, **kwargs: P.kwargs) -> R:
        ctx.widen(tx)
        return function(ctx, tx, *args, **kwargs)

    @wraps(function)
    def verb(store: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        if counted:
            store.flush_token_counts()
        act = widened if newest else function
        key = _session_key(*args, **kwargs) if of_session else None
        return write_apart(store.context, key, act, *args, **kwargs)

    show_as_method(verb, function, given=2)
    return verb


def appends(
    function: Callable[Concatenate[StateContext, Tx, P], Ids],
) -> Callable[Concatenate[Any, P], Ids]:
    """Make a verb that writes messages and gives their ids; now and then our index follows."""

    @wraps(function)
    def verb(store: Any, /, *args: P.args, **kwargs: P.kwargs) -> Ids:
        key = _session_key(*args, **kwargs)
        stored = write_apart(store.context, key, function, *args, **kwargs)
        after_append(store.context, stored if isinstance(stored, list) else [stored])
        return stored

    show_as_method(verb, function, given=2)
    return verb


def _session_key(session_id: object = None, *_: object, **__: object) -> str | None:
    return session_id if isinstance(session_id, str) else None


def write(
    ctx: StateContext,
    function: Callable[Concatenate[StateContext, Tx, P], R],
    *args: P.args,
    **kwargs: P.kwargs,
) -> R:
    """Run a function in one durable write transaction; without the index if that is broken."""
    return write_apart(ctx, None, function, *args, **kwargs)


def write_apart(
    ctx: StateContext,
    key: str | None,
    function: Callable[Concatenate[StateContext, Tx, P], R],
    *args: P.args,
    **kwargs: P.kwargs,
) -> R:
    """Do the same for one that must not overlap with writes of the same key only."""
    given: Any = args
    named: Any = kwargs
    # An iterator can be read once only, and a write may be done twice.
    if not (_PLAIN.issuperset(map(type, args)) and _PLAIN.issuperset(map(type, kwargs.values()))):
        given = [_kept(value) for value in args]
        named = {name: _kept(value) for name, value in kwargs.items()}

    def act(tx: Tx) -> R:
        ctx.forms.look(tx)
        return function(ctx, tx, *given, **named)

    try:
        return ctx.db.again(act, key=key)
    except ReadOnly as error:
        refusal = ctx.form.refusal
        if refusal is None:
            raise
        msg = f"{ctx.db.name} is open read-only: {refusal}"
        raise ReadOnly(msg, hint="upgrade threadkeep; nothing was changed") from error
    except ThreadkeepError as error:
        if not blames_index(error):
            raise
        return _without_index(ctx, error, lambda tx: function(ctx, tx, *given, **named))


def _kept(value: Any) -> Any:
    return list(value) if isinstance(value, Iterator) else value


def _without_index(ctx: StateContext, error: ThreadkeepError, act: Callable[[Tx], R]) -> R:
    try:
        with ctx.db.write() as tx:
            if not detach_index(ctx, tx):
                raise error
            result = act(tx)
    except ThreadkeepError as again:
        log.debug("without its index %s refuses the write, too: %s", ctx.db.name, again)
        raise error from error.__cause__
    warn_of_damage(ctx, error.__cause__)
    return result


# ------------------------------------------------------------------------------
# Values by key that programs keep in the file: when they last pruned, what they loop over.


def get_meta(_ctx: StateContext, tx: Tx, key: str) -> str | None:
    """Return the value of a key, None if there is none."""
    value: str | None = tx.value("state_value", {"key": key})
    return value


def set_meta(ctx: StateContext, key: str, value: str | None, *, cursor: Any = None) -> None:
    """Store a value under a key; with a `cursor`, inside its transaction."""
    if cursor is None:
        write(ctx, put_meta, key, value)
    else:
        cursor.execute(QUERIES["put_state_value"], {"key": key, "value": value})


def put_meta(ctx: StateContext, tx: Tx, key: str, value: str | None) -> None:
    """Keep a value under a key, in the same transaction."""
    ctx.widen(tx)
    tx.run("put_state_value", {"key": key, "value": value})


def list_meta_prefix(_ctx: StateContext, tx: Tx, prefix: str) -> list[tuple[str, str | None]]:
    """Return the keys with a prefix, with their values."""
    if not prefix:
        return []
    escaped = prefix.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return [(key, value) for key, value in tx.all("state_values", {"pattern": f"{escaped}%"})]

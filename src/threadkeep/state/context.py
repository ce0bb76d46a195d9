"""What every verb of the session store works with, and the names of the contract's columns."""

import logging
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar

from threadkeep.base.database import Database
from threadkeep.base.sqlite_errors import NoText
from threadkeep.base.text import Redact, redact_texts
from threadkeep.base.tx import Tx
from threadkeep.state.form import Form, Forms, widen
from threadkeep.state.versions import MESSAGES_OF_6, SESSIONS_OF_6

log = logging.getLogger(__name__)

R = TypeVar("R")
Json = dict[str, Any]
# Unix seconds, as the contract keeps them.
Seconds = Callable[[], float]

SESSION_COLUMNS: Final = SESSIONS_OF_6
MESSAGE_COLUMNS: Final = MESSAGES_OF_6


def now() -> float:
    """Give the time, as programs may have replaced `time.time` in their tests."""
    return time.time()


class Notices:
    """Says each thing once per store: the tenth identical warning helps nobody."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def warn(self, topic: str, message: str, *values: object) -> None:
        """Log a warning, unless this topic had one since it was last settled."""
        if topic not in self._said:
            self._said.add(topic)
            log.warning(message, *values)

    def settle(self, topic: str) -> None:
        """Let the topic be worth a warning again."""
        self._said.discard(topic)


class StateContext(NamedTuple):
    """The surroundings of a verb; clock and redaction are arguments, never globals."""

    db: Database
    clock: Seconds
    notices: Notices
    forms: Forms
    redact: Redact | None = None

    @property
    def form(self) -> Form:
        """What the file looks like."""
        return self.forms.current

    @property
    def side(self) -> bool:
        """Tell whether the file has our side tables: one that is Hermes's own has none."""
        return self.forms.current.side

    def widen(self, tx: Tx) -> None:
        """Give the file every table and column that we know of."""
        widen(self.forms, tx)


def reading(ctx: StateContext, act: Callable[[Tx], R]) -> R:
    """Do something in one read transaction; one damaged text does not hide all others."""
    try:
        with ctx.db.read() as tx:
            ctx.forms.look(tx)
            return act(tx)
    except NoText as error:
        ctx.notices.warn("text", "%s; where it is no text, U+FFFD is read", error)
    with ctx.db.read(lenient=True) as tx:
        ctx.forms.look(tx)
        return act(tx)


def clean(ctx: StateContext, value: Any) -> Any:
    """Pass every text inside a value through the host's redaction hook."""
    return value if ctx.redact is None else redact_texts(ctx.redact, value)

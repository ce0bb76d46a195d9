"""The look before a model is asked: whether there is a server, and whether it has the model.

The outcome stands in the health row `brain-preflight`, where the contract wants it. A server that
failed is left alone for a while, longer each time, by every process that reads the same file.
"""

from collections.abc import Iterable, Sequence
from typing import Final, Literal, NamedTuple, Protocol

from threadkeep.base.clock import is_due
from threadkeep.enrich.client import ModelFailed
from threadkeep.knowledge.context import KnowledgeContext
from threadkeep.knowledge.health import note_failure, note_success
from threadkeep.knowledge.ledger import FailureStreak, troubles

SOURCE: Final = "brain-preflight"
FIRST_WAIT_MS: Final = 5_000
LONGEST_WAIT_MS: Final = 900_000
_LONGEST_MESSAGE: Final = 500
_MOST_DOUBLINGS: Final = 20
# Parts of the names of models that make vectors and cannot chat.
_NO_CHAT: Final = ("embed", "nomic", "modernbert")

Outcome = Literal["ok", "unreachable", "no_models", "model_missing"]


class PreflightResult(NamedTuple):
    """What the look gave: the model to ask, or what is wrong."""

    outcome: Outcome
    model: str = ""
    message: str = ""


class Listing(Protocol):
    """A client, as far as the look needs one."""

    @property
    def endpoint(self) -> str:
        """The address of the server."""

    def models(self) -> list[str]:
        """Name the models of the server."""


def can_chat(model: str) -> bool:
    """Tell by its name whether a model is one to talk to."""
    name = model.lower()
    return not any(part in name for part in _NO_CHAT)


def choose_model(listed: Sequence[str], wanted: str | None) -> PreflightResult:
    """Choose among the models of a server: the wanted one, else the first that can chat."""
    if wanted is not None:
        for name in (wanted, f"{wanted}:latest"):  # the second is how Ollama completes names
            if name in listed:
                return PreflightResult("ok", name)
    chatting = [name for name in listed if can_chat(name)]
    if not chatting:
        return PreflightResult("no_models", message="the server has no model that can chat")
    if wanted is None:
        return PreflightResult("ok", chatting[0])
    some = ", ".join(chatting[:5])
    return PreflightResult("model_missing", message=f"the server has no model {wanted}, but {some}")


def look(client: Listing, wanted: str | None) -> PreflightResult:
    """Ask a server for its models and choose one."""
    try:
        listed = client.models()
    except ModelFailed as error:
        return PreflightResult("unreachable", message=str(error))
    return choose_model(listed, wanted)


def preflight(context: KnowledgeContext, client: Listing, wanted: str | None) -> PreflightResult:
    """Look, and write the outcome into the health row."""
    looked = look(client, wanted)
    note(context, looked, client.endpoint)
    return looked


def note(context: KnowledgeContext, looked: PreflightResult, endpoint: str) -> None:
    """Write an outcome into the health row."""
    now = context.clock()
    with context.db.write() as tx:
        if looked.outcome == "ok":
            note_success(tx, SOURCE, last_event=None, count=0, now=now)
        else:
            said = f"{looked.outcome}: {endpoint}: {looked.message}"
            note_failure(tx, SOURCE, said[:_LONGEST_MESSAGE], now)


def rests(found: Iterable[FailureStreak], now: int) -> bool:
    """Tell whether a server with such troubles is not asked yet."""
    pauses = ((one.last_at, wait_after_failures(one.failures)) for one in found)
    return any(not is_due(last + pause, now, pause) for last, pause in pauses)


def wait_after_failures(failures: int) -> int:
    """Give the milliseconds to wait after so many failures in a row: 5 s, 10 s … 15 min."""
    doubled = FIRST_WAIT_MS << min(max(failures - 1, 0), _MOST_DOUBLINGS)
    return min(doubled, LONGEST_WAIT_MS)


def is_resting(context: KnowledgeContext, endpoint: str) -> bool:
    """Tell whether a server that failed is to be left alone for now."""
    with context.db.read() as tx:
        return rests(troubles(tx, endpoint), context.clock())

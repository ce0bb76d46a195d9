"""The budget of tokens: each call is paid before it is made, and set right after it.

Several processes may spend at once. What a call may use at most is set aside in a transaction of
its own, so two of them never spend the same tokens, and one that dies has paid for what it asked.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from threadkeep.enrich.client import ModelFailed, ModelReply
from threadkeep.errors import ThreadkeepError
from threadkeep.knowledge.context import KnowledgeContext
from threadkeep.knowledge.ledger import LedgerEntry, add, day_of, note_call, total

# Text of code and logs has about 3.5 characters for each token, other scripts about one.
_CHARACTERS_PER_TOKEN: Final = 3
_MESSAGE_TOKENS: Final = 8  # role and separators
LEAST_OUTPUT: Final = 256  # with less room an answer would only be cut off

Message = Mapping[str, str]


class BudgetSpent(ThreadkeepError):
    """The tokens of the day are used up; no request was made."""

    http_status = 429


class ChatClient(Protocol):
    """A client, as far as the purse needs one."""

    requests: int

    @property
    def endpoint(self) -> str:
        """The address of the server."""

    def chat(self, model: str, messages: Sequence[Message], max_tokens: int) -> ModelReply:
        """Ask a model."""


class Purse(NamedTuple):
    """Who pays: the store with the ledger, the day's tokens (0: no limit), what they are for."""

    context: KnowledgeContext
    client: ChatClient
    model: str
    daily_tokens: int
    purpose: str  # enrich, answer


def tokens_of(text: str) -> int:
    """Estimate the tokens of a text, rather too many than too few."""
    wide = sum(1 for character in text if character > "\u2e7f") if not text.isascii() else 0
    return wide + -(-(len(text) - wide) // _CHARACTERS_PER_TOKEN)


def prompt_tokens(messages: Sequence[Message]) -> int:
    """Estimate the tokens of a conversation."""
    return sum(tokens_of(one["content"]) + _MESSAGE_TOKENS for one in messages)


def room_for_output(daily: int, used: int, prompt: int, wanted: int) -> int:
    """Give how long an answer may be, 0 if the call must not be made; `daily` 0 is no limit."""
    if not daily:
        return wanted
    room = min(wanted, daily - used - prompt)
    return room if room >= min(wanted, LEAST_OUTPUT) else 0


def has_room(context: KnowledgeContext, daily_tokens: int) -> bool:
    """Tell whether anything at all may still be asked today."""
    with context.db.read() as tx:
        used = total(tx, day_of(context.clock()))
    return room_for_output(daily_tokens, used, 0, LEAST_OUTPUT) > 0


def pay(purse: Purse, messages: Sequence[Message], most_output: int) -> ModelReply:
    """Ask a model within the day's budget, and write down what that used."""
    paid = _set_aside(purse, prompt_tokens(messages), most_output)
    before = purse.client.requests
    try:
        said = purse.client.chat(purse.model, messages, paid.output)
    except BaseException as error:  # an interrupted call is paid like a failed one
        sent = purse.client.requests - before
        failed = LedgerEntry(sent, sent, paid.prompt * sent)
        _settle(purse, paid, failed, error)
        raise
    _settle(purse, paid, _used(said, paid.prompt, purse.client.requests - before), None)
    return said


def count_unusable(purse: Purse) -> None:
    """Count an answer that came and could not be used."""
    now = purse.context.clock()
    with purse.context.db.write() as tx:
        add(tx, day_of(now), purse.model, purse.purpose, LedgerEntry(failures=1), now)


def _used(said: ModelReply, prompt: int, sent: int) -> LedgerEntry:
    """Count one call: as the server did, if its numbers can be true; those before it failed."""
    asked = prompt if said.input_tokens is None else said.input_tokens
    answered = tokens_of(said.text) if said.output_tokens is None else said.output_tokens
    # A server that counts nothing for a long text has not counted.
    asked = asked or prompt
    answered = answered or tokens_of(said.text)
    failed = sent - 1
    return LedgerEntry(sent, failed, asked + prompt * failed, answered)


class _Paid(NamedTuple):
    day: str  # a call belongs to the day it began on
    prompt: int
    output: int


def _set_aside(purse: Purse, prompt: int, wanted: int) -> _Paid:
    now = purse.context.clock()
    day = day_of(now)
    with purse.context.db.write() as tx:
        room = room_for_output(purse.daily_tokens, total(tx, day), prompt, wanted)
        if not room:
            raise _spent(purse, day)
        add(tx, day, purse.model, purse.purpose, LedgerEntry(1, 0, prompt, room), now)
    return _Paid(day, prompt, room)


def _settle(purse: Purse, paid: _Paid, used: LedgerEntry, error: BaseException | None) -> None:
    """Put what was used in the place of what was set aside."""
    now = purse.context.clock()
    rest = LedgerEntry(
        used.calls - 1, used.failures, used.input - paid.prompt, used.output - paid.output
    )
    with purse.context.db.write() as tx:
        add(tx, paid.day, purse.model, purse.purpose, rest, now)
        if error is None or isinstance(error, ModelFailed):
            note_call(tx, purse.client.endpoint, str(error) if error else None, now)


def _spent(purse: Purse, day: str) -> BudgetSpent:
    msg = (
        f"the {purse.daily_tokens:,} tokens of {day} (UTC) are used up: {purse.model} is not asked"
    )
    return BudgetSpent(msg, hint="wait until tomorrow, or raise [model] daily_tokens")

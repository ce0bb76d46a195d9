"""Nodes and answers that a model writes, where one is configured, can be reached and is paid for.

A model is never needed: whatever is wrong with it, the rules write the node and the passages are
the answer. What is wrong is told, and stands in the health row and the ledger.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import islice
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from threadkeep.base.config import ModelSettings
from threadkeep.errors import Invalid, ThreadkeepError
from threadkeep.knowledge.ledger import (
    LedgerEntry,
    add,
    day_of,
    note_call,
    total,
)
from threadkeep.knowledge.records import Decision, Mentions, NodeDraft, Outcome
from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.memory.learn.cited_answers import (
    GroundedAnswer,
    Passage,
    answer,
    founded,
    sentences,
    unfounded,
)
from threadkeep.memory.learn.evidence_text import Author, Material
from threadkeep.memory.learn.model_client import (
    ModelClient,
    ModelFailed,
    ModelReply,
    PreflightResult,
    is_resting,
    note,
    preflight,
)
from threadkeep.memory.learn.name_check import verbatim
from threadkeep.memory.learn.prompts import MOST_SOURCE, asked_again, is_own, messages_for

# ------------------------------------------------------------------------------
# What a model answered becomes a draft: found in its words, repaired, coerced, checked.

MOST_CHARACTERS: Final = 200_000
_OUTCOMES: Final[tuple[Outcome, ...]] = ("success", "partial", "failure", "unknown")
_MOST_PLACES: Final = 20  # where an object may begin: a chatty model writes braces into its prose
_MOST_ITEMS: Final = 50
_SUMMARY, _INTENT, _EMBED, _ITEM = 2_000, 500, 4_000, 500
_HINT: Final = "the model is asked again, then the rules write the node"

_THOUGHT_ENDS: Final = ("</think>", "</thinking>")
_FENCE: Final = re.compile(r"```[ \t]*\w*")
# A whole string, or a sign outside of strings that JSON has not; an open string takes the rest.
_SPARE_COMMA: Final = re.compile(r'("(?:[^"\\]|\\.)*"?)|,(?=\s*[}\]])', re.DOTALL)
_ESCAPE: Final = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})|\\')
_UNREADABLE: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")

_ENV_VAR: Final = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|[A-Z]{3,}")
_FILE: Final = re.compile(r"[\w@+~-][\w.@+~-]*\.[A-Za-z][A-Za-z0-9]{0,7}")
_DOMAIN: Final = re.compile(
    r"(?:[a-z0-9-]{1,63}\.){1,5}(?:com|org|net|io|dev|ai|app|edu|gov|co|uk|de|fr|eu|us|info)"
)
_ERROR: Final = re.compile(r"(?i)error|exception|failed|failure|panic|traceback|denied|not found")
_TYPES: Final = {
    **dict.fromkeys(("project", "projects", "repo", "repos", "repository", "package"), "projects"),
    **dict.fromkeys(("tool", "tools", "command", "commands", "program", "library"), "tools"),
    **dict.fromkeys(("file", "files", "path", "paths", "directory", "folder"), "files"),
    **dict.fromkeys(("service", "services", "server", "api", "database"), "services"),
    **dict.fromkeys(("error", "errors", "exception", "exceptions", "concept"), "errors"),
    **dict.fromkeys(
        ("env_var", "env_vars", "envvar", "env", "variable", "environment"), "env_vars"
    ),
    **dict.fromkeys(("domain", "domains", "host", "hosts", "url", "website"), "domains"),
}


class BadAnswer(Invalid):
    """A model's answer is not the node that it was asked for."""


def parse(answer: str) -> NodeDraft:
    """Read a model's answer; one that cannot be used is refused with the reason."""
    value = find_object(answer)
    texts = {name: _text(value.get(name), most) for name, most in _REQUIRED.items()}
    for name, text in texts.items():
        if not text:
            raise BadAnswer(f"the answer has no {name}", hint=_HINT)
    return NodeDraft(
        **texts,
        outcome=_outcome(value.get("outcome")),
        entities=mentions(value.get("entities")),
        tags=_texts(value.get("tags"), parted=True),
        key_decisions=_texts(value.get("key_decisions")),
        problems_encountered=_texts(value.get("problems_encountered")),
        design_decisions=tuple(_decisions(value.get("design_decisions"))),
        memory_categories=_texts(value.get("memory_categories"), parted=True),
    )


_REQUIRED: Final = {"summary": _SUMMARY, "intent": _INTENT, "embed_text": _EMBED}


# ---------------------------------------------------------------------- JSON, more or less


def find_object(answer: str) -> dict[str, Any]:
    """Find the JSON object in an answer, whatever stands around it, and repair what is common."""
    if len(answer) > MOST_CHARACTERS:
        raise BadAnswer(f"the answer is longer than {MOST_CHARACTERS:,} characters", hint=_HINT)
    text = answer
    for end in _THOUGHT_ENDS:
        text = text.rpartition(end)[2]
    text = _FENCE.sub("", text)
    for form in (text, repaired(text)):
        for value in _objects(form):
            if not _REQUIRED.keys().isdisjoint(value):
                return value
    raise BadAnswer("the answer is not valid JSON", hint=_HINT)


def repaired(text: str) -> str:
    """Double the backslashes that escape nothing, and take out the commas before a bracket."""
    whole = _ESCAPE.sub(lambda found: "\\\\" if found[0] == "\\" else found[0], text)
    return _SPARE_COMMA.sub(lambda found: found[1] or "", whole)


def _objects(text: str) -> Iterator[dict[str, Any]]:
    # Not strict: models write line breaks and tabs into their strings.
    decoder = json.JSONDecoder(strict=False)
    at = -1
    for _ in range(_MOST_PLACES):
        at = text.find("{", at + 1)
        if at < 0:
            return
        try:
            value, _end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            yield value


# ---------------------------------------------------------------------- fields


def _text(value: Any, most: int) -> str:
    if not isinstance(value, str):
        return ""
    return " ".join(_UNREADABLE.sub(" ", value[: most * 2]).split())[:most].rstrip()


def _texts(value: Any, *, parted: bool = False) -> tuple[str, ...]:
    """Read a list of texts; a single text is a list too, of its parts where commas part them."""
    if isinstance(value, str):
        value = value.split(",") if parted else [value]
    items = value if isinstance(value, list) else []
    texts = (_text(item, _ITEM) for item in islice(items, _MOST_ITEMS))
    return tuple(dict.fromkeys(text for text in texts if text))


def _outcome(value: Any) -> Outcome:
    word = value.strip().lower() if isinstance(value, str) else value
    for outcome in _OUTCOMES:
        if word == outcome:
            return outcome
    raise BadAnswer(f"the answer's outcome is none of {', '.join(_OUTCOMES)}", hint=_HINT)


def _decisions(value: Any) -> Iterator[Decision]:
    for item in islice(value if isinstance(value, list) else [], _MOST_ITEMS):
        if isinstance(item, dict):
            considered, chosen, reason = (
                _said(item.get(name)) for name in ("considered", "chosen", "reason")
            )
            if chosen:
                yield Decision(considered, chosen, reason)


def _said(value: Any) -> str:
    return ", ".join(_texts(value))[:_ITEM]


# ---------------------------------------------------------------------- entities


def mentions(value: Any) -> Mentions:
    """Read what an answer mentions: by type, or as a flat list whose types are found out."""
    found: dict[str, dict[str, None]] = {field: {} for field in Mentions.__struct_fields__}
    pairs = _typed(value) if isinstance(value, dict) else _flat(value)
    for field, name in pairs:
        if len(found[field]) < _MOST_ITEMS:
            found[field][name] = None
    return Mentions(**{field: tuple(names) for field, names in found.items()})


def _typed(value: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for kind, names in value.items():
        field = _field(kind)
        if field:
            yield from ((field, name) for name in _names(names))


def _names(value: Any) -> Iterable[str]:
    if isinstance(value, list):
        value = [item.get("name") if isinstance(item, dict) else item for item in value]
    return _texts(value)


def _flat(value: Any) -> Iterator[tuple[str, str]]:
    for item in value if isinstance(value, list) else []:
        given = item if isinstance(item, dict) else {"name": item}
        name = _text(given.get("name", given.get("value")), _ITEM)
        if name:
            yield _field(given.get("type", given.get("kind"))) or inferred(name), name


def _field(kind: Any) -> str | None:
    return _TYPES.get(kind.strip().lower().replace("-", "_")) if isinstance(kind, str) else None


def inferred(name: str) -> str:
    """Say what kind of thing a name without a type is, by its form."""
    if _ENV_VAR.fullmatch(name):
        return "env_vars"
    if _DOMAIN.fullmatch(name):
        return "domains"
    if "/" in name or name.startswith(".") or _FILE.fullmatch(name):
        return "files"
    return "errors" if _ERROR.search(name) else "tools"


# ------------------------------------------------------------------------------
# The budget of tokens: each call is paid before it is made, and set right after it.
#
# Several processes may spend at once. What a call may use at most is set aside in a transaction of
# its own, so two of them never spend the same tokens, and one that dies has paid for what it asked.

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

    store: KnowledgeStore
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
    """Return how long an answer may be, 0 if the call must not be made; `daily` 0 is no limit."""
    if not daily:
        return wanted
    room = min(wanted, daily - used - prompt)
    return room if room >= min(wanted, LEAST_OUTPUT) else 0


def has_room(store: KnowledgeStore, daily_tokens: int) -> bool:
    """Tell whether anything at all may still be asked today."""
    used = store.queues.used(day_of(store.clock()))
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
    now = purse.store.clock()
    unusable = LedgerEntry(failures=1)
    purse.store.queues.add_use(day_of(now), purse.model, purse.purpose, unusable, now)


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
    now = purse.store.clock()
    day = day_of(now)
    with purse.store.write() as tx:
        room = room_for_output(purse.daily_tokens, total(tx, day), prompt, wanted)
        if not room:
            raise _spent(purse, day)
        add(tx, day, purse.model, purse.purpose, LedgerEntry(1, 0, prompt, room), now)
    return _Paid(day, prompt, room)


def _settle(purse: Purse, paid: _Paid, used: LedgerEntry, error: BaseException | None) -> None:
    """Put what was used in the place of what was set aside."""
    now = purse.store.clock()
    rest = LedgerEntry(
        used.calls - 1, used.failures, used.input - paid.prompt, used.output - paid.output
    )
    with purse.store.write() as tx:
        add(tx, paid.day, purse.model, purse.purpose, rest, now)
        if error is None or isinstance(error, ModelFailed):
            note_call(tx, purse.client.endpoint, str(error) if error else None, now)


def _spent(purse: Purse, day: str) -> BudgetSpent:
    msg = (
        f"the {purse.daily_tokens:,} tokens of {day} (UTC) are used up: {purse.model} is not called"
    )
    return BudgetSpent(msg, hint="wait until tomorrow, or raise [model] daily_tokens")


ATTEMPTS: Final = 3
MOST_OUTPUT: Final = 4_096

Tell = Callable[[str], None]
AnswerWith = Callable[[str, Sequence[Passage]], GroundedAnswer | None]
MakeClient = Callable[..., ModelClient]


class ModelLimits(msgspec.Struct, frozen=True):
    """How much a model is given for one node, and may write."""

    output_tokens: int = MOST_OUTPUT
    source_characters: int = MOST_SOURCE


def make_author(
    settings: ModelSettings,
    store: KnowledgeStore,
    environ: Mapping[str, str],
    *,
    limits: ModelLimits = ModelLimits(),  # noqa: B008  (a constant)
    tell: Tell = lambda _: None,
    make_client: MakeClient = ModelClient,
) -> Author | None:
    """Give who writes nodes with a model for one cycle; None, with the reason told, if none can.

    After a failed call, or when the day's tokens are used up, it leaves the rest to the rules.
    """
    purse = _purse(settings, store, environ, "enrich", tell, make_client)
    if purse is None:
        return None
    stopped: list[str] = []

    def write(material: Material) -> tuple[NodeDraft, str] | None:
        if stopped or is_own(material.source):
            return None
        try:
            draft = _unless_refused(purse, material, limits, tell)
        except (BudgetSpent, ModelFailed) as error:
            stopped.append(str(error))
            tell(str(error))
            return None
        return None if draft is None else (draft, purse.model)

    return write


def make_answerer(
    settings: ModelSettings,
    store: KnowledgeStore,
    environ: Mapping[str, str],
    *,
    tell: Tell = lambda _: None,
    make_client: MakeClient = ModelClient,
) -> AnswerWith | None:
    """Give who answers questions from passages with a model; None, with the reason, if none can."""
    purse = _purse(settings, store, environ, "answer", tell, make_client)
    if purse is None:
        return None

    def chat(messages: Sequence[Message], most: int) -> str:
        return pay(purse, messages, most).text

    return lambda question, passages: answer(question, passages, chat, tell=tell)


# ---------------------------------------------------------------------- who is asked


def _purse(
    settings: ModelSettings,
    store: KnowledgeStore,
    environ: Mapping[str, str],
    purpose: str,
    tell: Tell,
    make_client: MakeClient,
) -> Purse | None:
    """Find the model to ask and who pays for it: everything is checked before anything is sent."""
    if settings.url is None:
        return None
    if not store.access.writable:
        tell("no model is asked: its use could not be written down in a read-only store")
        return None
    try:
        key = environ.get(settings.api_key_env, "").strip() or None
        client = make_client(settings.url, key, timeout=float(settings.timeout_secs))
    except Invalid as error:
        note(store, PreflightResult("unreachable", message=str(error)), "[model] url")
        tell(str(error))
        return None
    reason, model = _ready(settings, store, client)
    if reason:
        tell(reason)
        return None
    return Purse(store, client, model, settings.daily_tokens, purpose)


def _ready(settings: ModelSettings, store: KnowledgeStore, client: ModelClient) -> tuple[str, str]:
    """Return why a server is not asked now, or the model that is."""
    if not has_room(store, settings.daily_tokens):
        return f"the {settings.daily_tokens:,} tokens of today (UTC) are used up", ""
    if is_resting(store, client.endpoint):
        return f"{client.endpoint} failed recently and is being skipped for now", ""
    looked = preflight(store, client, settings.name)
    if looked.outcome != "ok":
        return f"{looked.outcome}: {looked.message}", ""
    return "", looked.model


# ---------------------------------------------------------------------- one node


def _unless_refused(
    purse: Purse, material: Material, limits: ModelLimits, tell: Tell
) -> NodeDraft | None:
    """Write a node, but not from evidence of which this model could make nothing before."""
    store = purse.store
    digest = sha256(material.source.encode("utf-8", "replace")).hexdigest()
    if store.queues.is_refused(digest, purse.model, store.clock()):
        return None
    try:
        return compose(purse, material, limits)
    except BadAnswer as error:
        tell(f"{purse.model}: {error}")
        store.queues.refuse(digest, purse.model, error.message, store.clock())
        return None


def compose(purse: Purse, material: Material, limits: ModelLimits) -> NodeDraft:
    """Ask for a node up to three times, each time with what was wrong before."""
    asked = messages_for(material, limits.source_characters)
    messages = asked
    source = f"{material.project}\n{material.source}"
    for _ in range(ATTEMPTS):
        said = pay(purse, messages, limits.output_tokens)
        try:
            return borne_out(parse(said.text), source)
        except BadAnswer as error:
            count_unusable(purse)
            trouble = error
            messages = asked_again(asked, said.text, error.message)
    raise trouble


def borne_out(draft: NodeDraft, source: str) -> NodeDraft:
    """Keep of a model's draft what its source bears out; refuse it if the main thing is not.

    Names and search words go one by one, everything else by the sentence.
    """
    checked = verbatim(draft, source)
    summary = " ".join(founded(sentences(checked.summary), source))
    if not summary or unfounded(checked.intent, source):
        wrong = unfounded(f"{checked.summary} {checked.intent}", source)
        raise _not_there(wrong[0] if wrong else "its summary")
    if not checked.embed_text:
        raise _not_there("its embed_text")
    return msgspec.structs.replace(
        checked,
        summary=summary,
        key_decisions=founded(checked.key_decisions, source),
        problems_encountered=founded(checked.problems_encountered, source),
        design_decisions=tuple(
            one for one in checked.design_decisions if not unfounded(_all_of(one), source)
        ),
    )


def _not_there(what: str) -> BadAnswer:
    msg = f"{what[:100]} is not in the evidence"
    return BadAnswer(msg, hint="the model is asked again, then the rules write the node")


def _all_of(decision: Decision) -> str:
    return f"{decision.considered} {decision.chosen} {decision.reason}"

"""Nodes and answers that a model writes, where one is configured, can be reached and is paid for.

A model is never needed: whatever is wrong with it, the rules write the node and the passages are
the answer. What is wrong is told, and stands in the health row and the ledger.
"""

from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Final

import msgspec

from threadkeep.base.config import ModelSettings
from threadkeep.enrich.answers import BadAnswer, parse
from threadkeep.enrich.budget import BudgetSpent, Message, Purse, count_unusable, has_room, pay
from threadkeep.enrich.client import ModelClient, ModelFailed
from threadkeep.enrich.grounding import (
    GroundedAnswer,
    Passage,
    answer,
    founded,
    sentences,
    unfounded,
)
from threadkeep.enrich.material import Author, Material
from threadkeep.enrich.preflight import PreflightResult, is_resting, note, preflight
from threadkeep.enrich.prompts import MOST_SOURCE, asked_again, is_own, messages_for
from threadkeep.enrich.verbatim import verbatim
from threadkeep.errors import Invalid
from threadkeep.knowledge.context import KnowledgeContext
from threadkeep.knowledge.drafts import Decision, NodeDraft
from threadkeep.knowledge.ledger import is_refused, refuse

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
    context: KnowledgeContext,
    environ: Mapping[str, str],
    *,
    limits: ModelLimits = ModelLimits(),  # noqa: B008  (a constant)
    tell: Tell = lambda _: None,
    make_client: MakeClient = ModelClient,
) -> Author | None:
    """Give who writes nodes with a model for one cycle; None, with the reason told, if none can.

    After a failed call, or when the day's tokens are used up, it leaves the rest to the rules.
    """
    purse = _purse(settings, context, environ, "enrich", tell, make_client)
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
    context: KnowledgeContext,
    environ: Mapping[str, str],
    *,
    tell: Tell = lambda _: None,
    make_client: MakeClient = ModelClient,
) -> AnswerWith | None:
    """Give who answers questions from passages with a model; None, with the reason, if none can."""
    purse = _purse(settings, context, environ, "answer", tell, make_client)
    if purse is None:
        return None

    def chat(messages: Sequence[Message], most: int) -> str:
        return pay(purse, messages, most).text

    return lambda question, passages: answer(question, passages, chat, tell=tell)


# ---------------------------------------------------------------------- who is asked


def _purse(
    settings: ModelSettings,
    context: KnowledgeContext,
    environ: Mapping[str, str],
    purpose: str,
    tell: Tell,
    make_client: MakeClient,
) -> Purse | None:
    """Find the model to ask and who pays for it: everything is checked before anything is sent."""
    if settings.url is None:
        return None
    if not context.access.writable:
        tell("no model is asked: its use could not be written down in a read-only store")
        return None
    try:
        key = environ.get(settings.api_key_env, "").strip() or None
        client = make_client(settings.url, key, timeout=float(settings.timeout_secs))
    except Invalid as error:
        note(context, PreflightResult("unreachable", message=str(error)), "[model] url")
        tell(str(error))
        return None
    reason, model = _ready(settings, context, client)
    if reason:
        tell(reason)
        return None
    return Purse(context, client, model, settings.daily_tokens, purpose)


def _ready(
    settings: ModelSettings, context: KnowledgeContext, client: ModelClient
) -> tuple[str, str]:
    """Give why a server is not asked now, or the model that is."""
    if not has_room(context, settings.daily_tokens):
        return f"the {settings.daily_tokens:,} tokens of today (UTC) are used up", ""
    if is_resting(context, client.endpoint):
        return f"{client.endpoint} failed a moment ago and is left alone for now", ""
    looked = preflight(context, client, settings.name)
    if looked.outcome != "ok":
        return f"{looked.outcome}: {looked.message}", ""
    return "", looked.model


# ---------------------------------------------------------------------- one node


def _unless_refused(
    purse: Purse, material: Material, limits: ModelLimits, tell: Tell
) -> NodeDraft | None:
    """Write a node, but not from evidence of which this model could make nothing before."""
    context = purse.context
    digest = sha256(material.source.encode("utf-8", "replace")).hexdigest()
    with context.db.read() as tx:
        if is_refused(tx, digest, purse.model, context.clock()):
            return None
    try:
        return compose(purse, material, limits)
    except BadAnswer as error:
        tell(f"{purse.model}: {error}")
        with context.db.write() as tx:
            refuse(tx, digest, purse.model, error.message, context.clock())
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
    msg = f"{what[:100]} does not stand in the evidence"
    return BadAnswer(msg, hint="the model is asked again, then the rules write the node")


def _all_of(decision: Decision) -> str:
    return f"{decision.considered} {decision.chosen} {decision.reason}"

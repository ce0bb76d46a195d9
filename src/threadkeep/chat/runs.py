"""Runs: who ran, with which model, tools and prompt, and why it ended."""

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from threadkeep.base import json
from threadkeep.base.text import from_sql
from threadkeep.base.tx import Tx
from threadkeep.chat.context import ChatContext, clean, need_list, need_text, optional_text
from threadkeep.chat.permissions import Verdict, evaluate
from threadkeep.chat.records import (
    USAGE_BUCKETS,
    Json,
    Message,
    Run,
    Session,
    SessionRef,
    ref_id,
    run_of,
)
from threadkeep.chat.rows import need_session
from threadkeep.chat.sessions import model_object, refresh_model
from threadkeep.errors import Invalid, NotFound

if TYPE_CHECKING:
    from threadkeep.chat.message_writer import RunOwner


class RunInfo(NamedTuple):
    """What is known of a run when it begins."""

    agent: str | None = None
    model: object = None
    tools: tuple[Any, ...] = ()
    system_prompt: str | None = None


def prompt_digest(body: str) -> str:
    """Return the SHA-256 digest that names a system prompt."""
    return hashlib.sha256(body.encode("utf-8", "surrogatepass")).hexdigest()


def put_system_prompt(ctx: ChatContext, tx: Tx, body: str) -> str:
    """Store the text of a system prompt once, under its digest."""
    text = clean(ctx, need_text(body, "the system prompt"))
    digest = prompt_digest(text)
    tx.run("put_system_prompt", {"digest": digest, "body": text, "now": ctx.clock()})
    return digest


def turn_facts(ctx: ChatContext, session: Session, info: RunInfo) -> Json:
    """Return what a reply's metadata says of its run, as far as the host told it."""
    facts: Json = {}
    if info.model is not None:
        facts["model"] = clean(ctx, model_object(info.model))
    if info.agent is not None and info.agent != session.agent:
        facts["agent"] = info.agent
    if info.system_prompt is not None:
        prompt = need_text(info.system_prompt, "the system prompt")
        facts["system_prompt_digest"] = prompt_digest(clean(ctx, prompt))
    return facts


def start(
    ctx: ChatContext,
    tx: Tx,
    session_id: str,
    owner: "RunOwner",
    info: RunInfo,
    message_id: str | None,
) -> None:
    """Write down that a run began; its model becomes the session's current one."""
    model = refresh_model(ctx, tx, session_id, info.model) if info.model is not None else None
    session = need_session(tx, session_id)
    prompt = None if info.system_prompt is None else put_system_prompt(ctx, tx, info.system_prompt)
    params = {
        "id": owner.run_id,
        "session_id": session_id,
        "message_id": message_id,
        "agent": info.agent or session.agent,
        "model_json": json.encode(model or session.model),
        "system_prompt_digest": prompt,
        "tools_json": json.encode(clean(ctx, list(info.tools))),
        "started_at": owner.started_at,
    }
    tx.run("insert_run", params)


def session_runs(_ctx: ChatContext, tx: Tx, session: SessionRef) -> list[Run]:
    """Return the runs of a session, oldest first: who ran, what was offered, why it ended."""
    session_id = need_session(tx, ref_id(session, "session")).id
    return [run_of(row) for row in tx.all("session_runs", {"session_id": session_id})]


def add_run_usage(
    tx: Tx, reply: Message, step: dict[str, int], cost_usd: float, *, replace: bool
) -> None:
    """Add a step's usage to the latest run that worked on a reply, if one did."""
    ids = {"session_id": reply.session_id, "message_id": reply.id}
    row = tx.one("latest_run_of_message", ids)
    if row is None:
        return
    run = run_of(row)
    base, base_cost = ({}, 0.0) if replace else (run.usage, run.cost_usd)
    total = {name: base.get(name, 0) + step[name] for name in USAGE_BUCKETS}
    params = {"id": run.id, "usage_json": json.encode(total), "cost_usd": base_cost + cost_usd}
    tx.run("set_run_usage", params)


def judge(
    ctx: ChatContext,
    session: SessionRef,
    permission: str,
    target: str,
    *,
    rules: Sequence[Json] = (),
    parent_rules: Sequence[Json] = (),
    headless: bool = False,
    run_id: str | None = None,
    tool_call_id: str | None = None,
) -> Verdict:
    """Judge a tool call by the session's rules and those given; with a run, record the decision."""
    session_id = ref_id(session, "session")
    with ctx.db.read() as tx:
        own = need_session(tx, session_id).permissions
    verdict = evaluate(
        need_text(permission, "permission"),
        need_text(target, "target"),
        [*need_list(rules, "rules"), *own],
        parent_rules=need_list(parent_rules, "parent_rules"),
        headless=headless,
    )
    if run_id is not None:
        call = optional_text(tool_call_id, "tool_call_id")
        with ctx.db.write() as tx:
            _note_verdict(ctx, tx, session_id, run_id, permission, target, verdict, call)
    return verdict


def _note_verdict(
    ctx: ChatContext,
    tx: Tx,
    session_id: str,
    run_id: str,
    permission: str,
    target: str,
    verdict: Verdict,
    tool_call_id: str | None,
) -> None:
    row = tx.one("get_run", {"id": ref_id(run_id, "run")})
    if row is None or run_of(row).session_id != session_id:
        msg = f"session {session_id!r} has no run {run_id!r}"
        raise NotFound(msg, hint="pass recorder.run_id after the first chunk")
    noted: Json = {
        "permission": permission,
        "target": clean(ctx, target),
        "action": verdict.action,
        "reason": clean(ctx, verdict.reason),
        "tool_call_id": tool_call_id,
        "at": ctx.clock(),
    }
    verdicts = [*run_of(row).verdicts, noted]
    tx.run("set_run_verdicts", {"id": run_id, "verdicts_json": json.encode(verdicts)})


def get_system_prompt(_ctx: ChatContext, tx: Tx, digest: str) -> str:
    """Return the text of a system prompt."""
    if not isinstance(digest, str):
        msg = f"a digest is text, not {type(digest).__name__}"
        raise Invalid(msg, hint="pass the hexadecimal SHA-256 digest")
    body = tx.value("get_system_prompt", {"digest": digest})
    if body is None:
        msg = f"no system prompt with the digest {digest!r} is stored"
        raise NotFound(msg, hint="pass system_prompt=… to record() to keep its text")
    return from_sql(body)

"""Runs: who ran, with which model, tools and prompt, and why it ended."""

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from threadkeep.base import json
from threadkeep.base.sqlite import Tx
from threadkeep.chat.context import Context, clean, need_text
from threadkeep.chat.permissions import Verdict, evaluate
from threadkeep.chat.records import Json, Run, SessionRef, ref_id, run_of
from threadkeep.chat.rows import need_session
from threadkeep.chat.sessions import refresh_model
from threadkeep.errors import Invalid, NotFound

if TYPE_CHECKING:
    from threadkeep.chat.recording import Owner


class RunInfo(NamedTuple):
    """What is known of a run when it begins."""

    agent: str | None = None
    model: object = None
    tools: tuple[Any, ...] = ()
    system_prompt: str | None = None


def prompt_digest(body: str) -> str:
    """Give the SHA-256 digest that names a system prompt."""
    return hashlib.sha256(body.encode("utf-8", "surrogatepass")).hexdigest()


def put_system_prompt(ctx: Context, tx: Tx, body: str) -> str:
    """Store the text of a system prompt once, under its digest."""
    text = clean(ctx, need_text(body, "the system prompt"))
    digest = prompt_digest(text)
    tx.run("put_system_prompt", {"digest": digest, "body": text, "now": ctx.clock()})
    return digest


def start(
    ctx: Context,
    tx: Tx,
    session_id: str,
    owner: "Owner",
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


def session_runs(_ctx: Context, tx: Tx, session: SessionRef) -> list[Run]:
    """Give the runs of a session, oldest first: who ran, what was offered, why it ended."""
    session_id = need_session(tx, ref_id(session, "session")).id
    return [run_of(row) for row in tx.all("session_runs", {"session_id": session_id})]


def add_run_usage(tx: Tx, run_id: str, usage: Json, cost_usd: float) -> None:
    """Write the usage so far on a run."""
    params = {"id": run_id, "usage_json": json.encode(usage), "cost_usd": cost_usd}
    tx.run("set_run_usage", params)


def judge(
    ctx: Context,
    tx: Tx,
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
    """Judge a tool call by the session's rules and those given; with a run, write it down."""
    session_id = ref_id(session, "session")
    verdict = evaluate(
        need_text(permission, "permission"),
        need_text(target, "target"),
        [*rules, *need_session(tx, session_id).permissions],
        parent_rules=parent_rules,
        headless=headless,
    )
    if run_id is not None:
        _note_verdict(ctx, tx, session_id, run_id, permission, target, verdict, tool_call_id)
    return verdict


def _note_verdict(
    ctx: Context,
    tx: Tx,
    session_id: str,
    run_id: str,
    permission: str,
    target: str,
    verdict: Verdict,
    tool_call_id: str | None,
) -> None:
    row = tx.one("get_run", {"id": run_id})
    if row is None or run_of(row).session_id != session_id:
        msg = f"session {session_id!r} has no run {run_id!r}"
        raise NotFound(msg, hint="pass recorder.run_id after the first chunk")
    noted: Json = {
        "permission": permission,
        "target": clean(ctx, target),
        "action": verdict.action,
        "reason": verdict.reason,
        "tool_call_id": tool_call_id,
        "at": ctx.clock(),
    }
    verdicts = [*run_of(row).verdicts, noted]
    tx.run("set_run_verdicts", {"id": run_id, "verdicts_json": json.encode(verdicts)})


def get_system_prompt(_ctx: Context, tx: Tx, digest: str) -> str:
    """Give the text of a system prompt."""
    if not isinstance(digest, str):
        msg = f"a digest is text, not {type(digest).__name__}"
        raise Invalid(msg, hint="pass the hexadecimal SHA-256 digest")
    body = tx.value("get_system_prompt", {"digest": digest})
    if body is None:
        msg = f"no system prompt with the digest {digest!r} is stored"
        raise NotFound(msg, hint="pass system_prompt=… to record() to keep its text")
    return str(body)

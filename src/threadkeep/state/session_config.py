"""The settings of a session: a JSON object, in which marks of lineage stand, too."""

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

from threadkeep.base.text import pattern
from threadkeep.base.tx import Tx
from threadkeep.errors import Invalid, NotFound
from threadkeep.state.context import Json, StateContext, clean
from threadkeep.state.rows import read_session, update_session
from threadkeep.state.side_values import to_column


def read_config(text: object) -> dict[str, Any]:
    """Return the settings that a column holds; what is no JSON object is none."""
    try:
        found = json.loads(text) if isinstance(text, (str, bytes)) else text
    except (ValueError, RecursionError):
        return {}
    return dict(found) if isinstance(found, dict) else {}


def patch_config(text: object, patch: Mapping[str, Any]) -> str | None:
    """Give the column with settings set, or taken out where None is said; NULL if none is left."""
    merged = {**read_config(text), **patch}
    left = {name: value for name, value in merged.items() if name not in patch or value is not None}
    return json.dumps(left) if left else None


# ------------------------------------------------------------------------------
# System prompts: each text once behind its hash where the file has a table for them.


def prompt_columns(ctx: StateContext, tx: Tx, prompt: str | None) -> Json:
    """Store a prompt in the file's own form; give the columns of the session that name it."""
    if "system_prompts" not in ctx.form.tables:
        return {"system_prompt": prompt}
    if prompt is None:
        return {"system_prompt": None, "system_prompt_hash": None}
    key = sha256(prompt.encode()).hexdigest()
    tx.run("put_prompt", {"hash": key, "prompt": prompt})
    return {"system_prompt": None, "system_prompt_hash": key}


def drop_unused_prompts(ctx: StateContext, tx: Tx) -> None:
    """Delete the prompts that no session names any more."""
    if "system_prompts" in ctx.form.tables:
        tx.run("drop_unused_prompts")


# ------------------------------------------------------------------------------
# What a session says about its model: the JSON of model_config, the model and who bills it.
#
# The same JSON has the marks of the lineage, so it is changed key by key.

# Names of a bill, not of a provider that could be called.
BARE_BILLING_PROVIDERS: Final = frozenset({"auto", "custom"})
_ROUTE: Final = ("provider", "base_url", "api_mode")
_HALF: Final = pattern("[\ud800-\udfff]")


def change_config(
    ctx: StateContext, tx: Tx, session_id: str, patch: Mapping[str, Any], more: Json | None = None
) -> bool:
    """Change keys of a session's model_config and other columns; False if there is no session."""
    row = tx.one("model_config_of", {"id": session_id})
    if row is None:
        return False
    values = {"model_config": patch_config(row[0], clean(ctx, patch)), **(more or {})}
    return update_session(ctx, tx, session_id, values)


def update_session_meta(
    ctx: StateContext, tx: Tx, session_id: str, model_config_json: str, model: str | None = None
) -> None:
    """Replace the model_config of a session, which is JSON, and the model if one is given."""
    text = clean(ctx, model_config_json)
    if isinstance(text, str):  # half a character fits no column, but any JSON as an escape
        text = _HALF.sub(lambda half: f"\\u{ord(half[0]):04x}", text)
    values: Json = {"model_config": text}
    if model is not None:
        values["model"] = to_column(model, "model").column
    update_session(ctx, tx, session_id, values)


def patch_session_model_config(ctx: StateContext, tx: Tx, session_id: str, patch: Json) -> None:
    """Set keys of a session's model_config and keep the others; None removes a key."""
    if session_id and patch:
        change_config(ctx, tx, session_id, patch)


def get_session_model_config_value(
    ctx: StateContext, tx: Tx, session_id: str, key: str, default: Any = None
) -> Any:
    """Return one key of a session's model_config."""
    session = read_session(ctx, tx, session_id) or {}
    return read_config(session.get("model_config")).get(key, default)


# ---------------------------------------------------------------------- model and provider


def update_session_model(
    ctx: StateContext, tx: Tx, session_id: str, model: str, provider: str | None = None
) -> None:
    """Record that a session continues with another model; its prompt must be rebuilt."""
    patch: Json = {"browser_model_lock": None}
    patch |= {name: value for name, value in (("model", model), ("provider", provider)) if value}
    column = to_column(model, "model").column
    _change_route(ctx, tx, session_id, patch, {"model": column})


def update_session_runtime_lock(
    ctx: StateContext,
    tx: Tx,
    session_id: str,
    *,
    model: str | None = None,
    provider: str | None = None,
    model_options: Json | None = None,
    route_source: str | None = None,
    confirmed: bool = False,
) -> None:
    """Record the model that a client chose for a session; its prompt must be rebuilt."""
    lock = {
        "provider": provider or "",
        "model": model or "",
        "model_options": model_options or {},
        "route_source": route_source or "",
        "confirmed": bool(confirmed),
        "updated_at": ctx.clock(),
    }
    more: Json = {} if model is None else {"model": to_column(model, "model").column}
    _change_route(ctx, tx, session_id, {"browser_model_lock": lock}, more)


def update_session_billing_route(
    ctx: StateContext,
    tx: Tx,
    session_id: str,
    *,
    provider: str,
    base_url: str,
    billing_mode: str | None = None,
) -> None:
    """Set the billing route of a session from now on; its prompt must be rebuilt."""
    values: Json = {"billing_provider": provider, "billing_base_url": base_url}
    if billing_mode is not None:
        values["billing_mode"] = billing_mode
    if update_session(ctx, tx, session_id, {**values, **prompt_columns(ctx, tx, None)}):
        drop_unused_prompts(ctx, tx)


def _change_route(ctx: StateContext, tx: Tx, session_id: str, patch: Json, more: Json) -> None:
    """A prompt names its model: one that was made for another must not be used again."""
    if change_config(ctx, tx, session_id, patch, {**more, **prompt_columns(ctx, tx, None)}):
        drop_unused_prompts(ctx, tx)


def session_gateway_runtime(session_meta: Json | None) -> Json:
    """Give the route that a session row names: of the gateway, of its settings, or of the bill."""
    row = session_meta or {}
    config = read_config(row.get("model_config"))
    runtime = config.get("gateway_runtime")
    told = _without_none(runtime) if isinstance(runtime, dict) else {}
    if told.get("provider"):
        return told
    route: Json = {name: config[name] for name in _ROUTE if config.get(name)}
    if route:
        return route
    bill = str(row.get("billing_provider") or "").strip()
    if bill and bill.lower() not in BARE_BILLING_PROVIDERS:
        return {"provider": bill}
    return told


def _without_none(values: Json) -> Json:
    return {name: value for name, value in values.items() if value is not None}


def set_session_yolo(ctx: StateContext, tx: Tx, session_id: str, enabled: bool) -> None:  # noqa: FBT001
    """Record whether a session runs everything without asking for permission."""
    if session_id:
        change_config(ctx, tx, session_id, {"yolo_mode": bool(enabled)})


def session_yolo_enabled(session_meta: Json | None) -> bool:
    """Tell from a session row whether it runs everything without asking."""
    return bool(read_config((session_meta or {}).get("model_config")).get("yolo_mode"))


# ------------------------------------------------------------------------------
# What a session is to its parent: said with marks in model_config, which Hermes reads, too.

RELATIONS: Final = ("compression", "branch", "delegate")
# Ends after which a conversation starts over; the queries have the same list.
RESET_END_REASONS: Final = (
    *("session_reset", "session_switch", "idle", "daily", "suspended"),
    "resume_pending_expired",
)
MARKS: Final = {"branch": "_branched_from", "delegate": "_delegate_from"}


def need_session(tx: Tx, session_id: str) -> None:
    """Raise if no such session exists."""
    if tx.one("session_exists", {"id": session_id}) is None:
        msg = f"there is no session {session_id!r}"
        raise NotFound(msg, hint="`threadkeep state ls` shows the sessions")


def set_relation(
    ctx: StateContext, tx: Tx, session_id: str, parent_id: str | None, relation: str
) -> None:
    """Set a session's parent and its relation to it: compression, branch or delegate."""
    if relation not in RELATIONS:
        msg = f"a session's relation to its parent is not {relation!r}"
        raise Invalid(msg, hint=f"use one of {', '.join(RELATIONS)}")
    if parent_id is None:
        msg = f"session {session_id!r} has a relation, but no parent"
        raise Invalid(msg, hint="pass parent_session_id, too")
    need_session(tx, session_id)
    need_session(tx, parent_id)
    if comes_from(tx, parent_id, session_id):
        msg = f"session {parent_id!r} comes from {session_id!r}, and cannot be its parent"
        raise Invalid(msg, hint="`threadkeep state lineage` shows the family")
    update_session(ctx, tx, session_id, {"parent_session_id": parent_id})
    _mark(ctx, tx, session_id, parent_id, relation)
    if ctx.side:
        tx.run("put_relation", {"id": session_id, "parent_id": parent_id, "kind": relation})


def _mark(ctx: StateContext, tx: Tx, session_id: str, parent_id: str, relation: str) -> None:
    """A continuation has no mark: it may have inherited one with its settings."""
    wanted = {mark: parent_id if kind == relation else None for kind, mark in MARKS.items()}
    here = read_config(tx.value("model_config_of", {"id": session_id}))
    if any(here.get(mark) != value for mark, value in wanted.items()):
        change_config(ctx, tx, session_id, wanted)


def comes_from(tx: Tx, session_id: str, ancestor: str) -> bool:
    """Tell whether a session is another one, or a child of a child … of it."""
    above, seen = session_id, set[str]()
    while above is not None and above not in seen and above != ancestor:
        seen.add(above)
        above = tx.value("parent_of", {"id": above})
    return above == ancestor

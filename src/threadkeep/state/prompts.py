"""System prompts: each text once behind its hash where the file has a table for them."""

from hashlib import sha256

from threadkeep.base.tx import Tx
from threadkeep.state.context import Json, StateContext


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

"""Tasks as `ncl tasks` shows them: rows for programs, a table for people, and ids made of names."""

import re
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

from threadkeep.base.tx import Tx
from threadkeep.mailbox import content as shapes, task_log
from threadkeep.mailbox.context import MailContext
from threadkeep.mailbox.records import Json, Mail

_PROMPT: Final = 120
_SLUG: Final = 24
_NAMED, _NAMELESS = 4, 6  # hex digits at the end of an id
_COLUMNS: Final = ("id", "status", "schedule", "next run", "runs", "failed", "prompt")
_PROMPT_SHOWN: Final = 48


def task_id(name: str | None, seed: str) -> str:
    """Make the id of a task of its name; the same seed gives the same id."""
    slug = re.sub("[^a-z0-9]+", "-", (name or "").lower()).strip("-")[:_SLUG].strip("-")
    digits = blake2b(seed.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return f"{slug}-{digits[:_NAMED]}" if slug else f"t-{digits[:_NAMELESS]}"


def run_id(series: str, seed: str) -> str:
    """Make the id of an extra run of a series; the same seed gives the same id."""
    digits = blake2b(seed.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return f"{series}-run-{digits[:_NAMELESS]}"


def row(ctx: MailContext, mail: Mail) -> Json:
    """Show one row of a task."""
    said = shapes.task_of(mail.content)
    prompt, origin = _text(said, "prompt"), said.get("originSessionId")
    return {
        "agent_group_id": ctx.agent_group,
        "session_id": ctx.session,
        "series_id": mail.series_id or mail.id,
        "row_id": mail.id,
        "status": mail.status,
        "process_after": mail.process_after,
        "recurrence": mail.recurrence,
        "prompt": prompt if len(prompt) <= _PROMPT else f"{prompt[: _PROMPT - 3]}...",
        "has_script": int(bool(_text(said, "script"))),
        "origin_session_id": origin if isinstance(origin, str) else None,
        "created_at": mail.timestamp,
        "tries": mail.tries,
    }


def listed(ctx: MailContext, tx: Tx, mail: Mail) -> Json:
    """Show a task in a list: when it runs, and how its runs went so far."""
    shown = row(ctx, mail)
    completed, failed, last = tx.one("series_history", {"id": shown["series_id"]}) or (0, 0, None)
    return {
        **shown,
        "schedule": mail.recurrence or "once",
        "runs": completed,
        "failed_runs": failed,
        "last_run": last,
        "next_run": mail.process_after,
        "log": task_log.path_of(shown["series_id"]),
    }


def whole(ctx: MailContext, tx: Tx, mail: Mail, log_lines: int) -> Json:
    """Show all of a task: whole prompt and script, its history, and the end of its log."""
    shown, said = row(ctx, mail), shapes.task_of(mail.content)
    completed, failed, _ = tx.one("series_history", {"id": shown["series_id"]}) or (0, 0, None)
    return {
        **shown,
        "prompt": _text(said, "prompt"),
        "script": _text(said, "script") or None,
        "completed_runs": completed,
        "failed_runs": failed,
        "recent_log": task_log.newest(ctx, shown["series_id"], log_lines),
    }


def table(rows: Sequence[Json]) -> str:
    """Show tasks as a table for people."""
    if not rows:
        return "No tasks."
    lines = [_COLUMNS, *map(_line, rows)]
    wide = [max(len(line[column]) for line in lines) for column in range(len(_COLUMNS))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, wide, strict=True)).rstrip()
        for line in lines
    )


def _line(shown: Json) -> tuple[str, ...]:
    prompt = " ".join(shown["prompt"].split())
    return (
        shown["series_id"],
        shown["status"],
        shown["schedule"],
        shown["next_run"] or "now",
        str(shown["runs"]),
        str(shown["failed_runs"]),
        prompt if len(prompt) <= _PROMPT_SHOWN else f"{prompt[: _PROMPT_SHOWN - 3]}...",
    )


def _text(said: Json, name: str) -> str:
    value = said.get(name)
    return value if isinstance(value, str) else ""

"""`threadkeep forget`: take captured sessions out again, for good."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from threadkeep.cli.command import Call, command, confirm, group, store_command
from threadkeep.cli.history.progress import progress_bar
from threadkeep.cli.history.sessions import find, looking
from threadkeep.cli.options import (
    agent_option,
    complete_captured,
    project_option,
    read_query,
    since_option,
    until_option,
)
from threadkeep.cli.output import counted, document, note, one_line, table, warn, write
from threadkeep.errors import Conflict, Invalid, NotFound

if TYPE_CHECKING:
    from threadkeep.capture.capture import History
    from threadkeep.capture.forget import ForgetReport
    from threadkeep.capture.redact.engine import SecretMatch
    from threadkeep.knowledge.query import Query


_KINDS = {
    "sessions": "session",
    "lines": "line",
    "entries": "message",
    "segments": "section",
    "nodes": "learned item",
    "observed": "event",
    "memories": "note",
}
_EXAMPLE = 160


@store_command(
    "forget",
    "threadkeep forget last --dry-run",
    "threadkeep forget --session 5f0c2a7e",
    "threadkeep forget --project secret-plans --yes",
    "threadkeep forget --pattern 'ACME-[0-9]{6}'",
    "threadkeep forget agent:codex until:90d --dry-run",
)
@click.argument("said", nargs=-1, metavar="[FILTER]...")
@click.option(
    "--session",
    multiple=True,
    shell_complete=complete_captured,
    help="These sessions, by id.",
)
@project_option("All sessions of this project.", multiple=True)
@since_option("With --until: everything in this span of time.")
@until_option("A date, or an age: 12h, 7d.")
@click.option("--pattern", metavar="REGEX", help="Every line that matches this regular expression.")
@agent_option("Restrict to this agent.", multiple=True)
@click.option("--dry-run", is_flag=True, help="Show what would be deleted; delete nothing.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
def forget(
    call: Call,
    *,
    said: tuple[str, ...],
    pattern: str | None,
    dry_run: bool,
    yes: bool,
    **options: Any,
) -> None:
    """Delete captured sessions, projects, a span of time or lines, and all derived data.

    It shows what would be deleted and asks for confirmation. A forgotten session is not captured
    again. The agents' own logs are not touched; earlier backups still contain the data and are
    listed. FILTER is `last`, an id, or what `threadkeep sessions` takes, except plain words. Names
    of projects and agents must be complete.
    """
    what = _what(call, said, pattern, options)
    if dry_run:
        _tell_uncollected(call)
    else:
        _collect_first(call)
    with _planning(call) as history, progress_bar(wanted=not call.as_json) as show:
        planned = history.forget(what, dry_run=True, show=show)
    empty = not any(getattr(planned, name) for name in _KINDS)
    if dry_run or empty:
        _tell(call, planned, dry_run=True)
        return
    if not call.as_json:
        _examples(planned)
    confirm(f"Permanently delete {_counts(planned)}?", yes=yes)
    with (
        call.home.history(call.db, must_exist=True) as history,
        progress_bar(wanted=not call.as_json) as show,
    ):
        done = history.forget(what, dry_run=False, show=show)
    _tell(call, done, dry_run=False)


@contextmanager
def _planning(call: Call) -> Iterator["History"]:
    """Open the history to see what would be changed, without changing it."""
    from threadkeep.home.opening import open_history_to_list

    with open_history_to_list(call.home, call.db) as history:
        history.store.need_captured()
        yield history


def _collect_first(call: Call) -> None:
    """Bring in what shells and browsers left: it could not be forgotten else."""
    if call.home.has("knowledge", call.db):
        with call.home.observations(call.db, must_exist=True) as observations:
            observations.collect()


def _tell_uncollected(call: Call) -> None:
    from threadkeep.home.home import reports_waiting

    waiting = reports_waiting(call.home, call.db)
    if waiting:
        note(f"{counted(waiting, 'file')} in the spool, not counted here, would be collected first")


def _what(
    call: Call, said: tuple[str, ...], pattern: str | None, options: dict[str, Any]
) -> "Query":
    from msgspec.structs import replace

    from threadkeep.capture.forget_selection import refuse_mixture

    if len(said) == 1 and pattern is None and not any(options.values()):
        said, options = _as_session(call, said[0], options)
    what = replace(read_query(call, said=said, **options), pattern=pattern)
    if not said:
        refuse_mixture(what, dashes="--")
    elif pattern is not None or any(options.values()):
        raise Invalid("the same filter is given in two ways", hint="give a filter, or options")
    if not what.session:
        return what
    agent = what.agent[0] if len(what.agent) == 1 else None
    with looking(call) as history:
        found = [find(history, name, agent) for name in what.session]
    ids = (one.session_id if what.agent else f"{one.agent}:{one.session_id}" for one in found)
    return replace(what, session=tuple(ids))


def _as_session(
    call: Call, word: str, options: dict[str, Any]
) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Take `last`, or the beginning of an id, for that session; only where it is one."""
    if ":" in word:
        return (word,), options
    with looking(call) as history:
        try:
            found = find(history, word, None) if word == "last" else history.find(word)
        except NotFound:
            return (word,), options
    return (), {**options, "session": (f"{found.agent}:{found.session_id}",)}


def _counts(found: "ForgetReport") -> str:
    counts = ((getattr(found, name), word) for name, word in _KINDS.items())
    told = [counted(count, word) for count, word in counts if count]
    return ", ".join(told) or "nothing"


def _examples(found: "ForgetReport") -> None:
    for example in found.examples:
        write(one_line(example, _EXAMPLE))


def _tell(call: Call, found: "ForgetReport", *, dry_run: bool) -> None:
    if call.as_json:
        document(forgotten=found, dry_run=dry_run)
        return
    if dry_run:
        _examples(found)
    note(f"{'would delete' if dry_run else 'deleted'} {_counts(found)}")
    if found.vectors_left:
        left = counted(found.vectors_left, "vector")
        warn(f"{left} of it stayed: taking them out needs the extension sqlite-vec")
    if found.backups:
        warn(f"{counted(len(found.backups), 'backup')} made earlier may still contain it:")
        for path in found.backups:
            write(f"  {path}", err=True)
        note("delete these files yourself; `threadkeep backup --store knowledge` makes a new one")


# ------------------------------------------------------------------------------
# `threadkeep redact`: what is taken for a secret, and secrets that came in before their rule.

_RULES = "redact.toml"  # beside the configuration file
_SHOWN = 4  # letters of a secret that are repeated, so that one knows which is meant


@group(
    "redact",
    'threadkeep redact test "password = hunter2hunter2"',
    "threadkeep redact rules",
    "threadkeep redact rescan --dry-run",
    "threadkeep redact undo --dry-run prefixed-token",
    "threadkeep redact add acme 'ACME-\\d+'",
    bare="rules",
)
def redact() -> None:
    """Secrets: they are masked before anything is stored.

    Add rules of your own with `add`, or name files in gitleaks' format as `rules` under [redact] in
    the configuration file.
    """


@command("test", 'threadkeep redact test "token: ghp_…"', "threadkeep redact test - < .env --json")
@click.argument("text", required=False)
def check(call: Call, *, text: str | None) -> None:
    """Show what would be masked in TEXT, and why; without TEXT, or with -, read stdin.

    First the rules with their matches and reasons, then the text as it would be stored. Nothing is
    stored.
    """
    given = sys.stdin.read() if text in (None, "-") else str(text)
    redactor = call.home.redactor()
    found, masked = redactor.scan(given), redactor.text(given)
    if call.as_json:
        places = [{**one._asdict(), "line": _line_of(given, one)} for one in found]
        document(findings=places, masked=masked)
        return
    rows = [
        (
            one.rule,
            str(_line_of(given, one)),
            f"{one.start}-{one.end}",
            _hint_of(given, one),
            one.why,
        )
        for one in found
    ]
    table(("rule", "line", "place", "begins with", "why"), rows, wide="why")
    write(masked.removesuffix("\n"))
    if masked == given:
        note("No secrets found; `threadkeep redact add NAME REGEX` adds a rule")


def _line_of(text: str, found: "SecretMatch") -> int:
    return text.count("\n", 0, found.start) + 1


def _hint_of(text: str, found: "SecretMatch") -> str:
    return f"{one_line(text[found.start : found.end])[:_SHOWN]}…"


@command("add", "threadkeep redact add acme 'ACME-\\d{6}'")
@click.argument("name")
@click.argument("regex")
def add(call: Call, *, name: str, regex: str) -> None:
    """Add a rule: what REGEX matches is masked from now on, under NAME.

    The rule is kept in `redact.toml` beside the configuration file, which names it. `redact test`
    shows what it masks, `redact rescan` applies it to what was captured before.
    """
    from threadkeep.base.config import read_settings
    from threadkeep.capture.redact.rules import load_rules
    from threadkeep.cli.mcp_install import put_text
    from threadkeep.cli.settings import change_settings

    path = call.home.paths().config.with_name(_RULES)
    before = read_settings(path) if path.exists() else ""
    if any(one.id == name for one in load_rules(before, str(path)).rules):
        raise Conflict(f"there is a rule {name!r} already", hint=f"change it in {path}")
    entry = f"[[rules]]\nid = {_quoted(name)}\nregex = {_quoted(regex)}\n"
    text = f"{before}\n{entry}" if before else entry
    read = load_rules(text, str(path))
    for refused in read.refused:
        if refused.id == name:
            hint = "`threadkeep redact add --help` has an example"
            raise Invalid(f"{regex!r} cannot be a rule: {refused.reason}", hint=hint)
    if any(one.id == name and one.regex.search(b"") for one in read.rules):
        raise Invalid(f"{regex!r} matches even an empty text", hint="require a character or more")
    put_text(path, text)
    files = call.home.config.redact.rules
    if not {_RULES, str(path)} & set(files):
        change_settings(call.home, "redact", rules=[*files, _RULES])
    if call.as_json:
        document(added=name, file=path)
    else:
        note(f"added {name} to {path}; try it with `threadkeep redact test TEXT`")


def _quoted(text: str) -> str:
    """Write a text as TOML has it: a JSON text is one."""
    import json

    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


@command("rules", "threadkeep redact rules", "threadkeep redact rules --json", lists=True)
def rules(call: Call) -> None:
    """List the rules for secrets: built-in, and from the files in the configuration."""
    from threadkeep.home.capture import rule_book

    book = rule_book(call.home)
    if call.as_json:
        call.answer("rules", rules=book.rules, refused=book.refused)
        return
    rows = [(rule.id, rule.origin, ", ".join(rule.keywords)) for rule in book.rules]
    table(("rule", "from", "looks at"), rows, wide="looks at", spare=("from",))
    for rule in book.refused:
        warn(f"{rule.origin}: {rule.id} is not used: {rule.reason}")
    note(counted(len(book.rules), "rule"))


@store_command("rescan", "threadkeep redact rescan --dry-run", "threadkeep redact rescan")
@click.option("--dry-run", is_flag=True, help="Show what would be masked; change nothing.")
def rescan(call: Call, *, dry_run: bool) -> None:
    """Apply today's rules to everything that was captured, and mask what they find.

    For secrets captured before a rule for them existed.
    """
    opened = _planning(call) if dry_run else call.home.history(call.db, must_exist=True)
    with opened as history, progress_bar(wanted=not call.as_json) as show:
        done = history.rescan(dry_run=dry_run, show=show)
    if call.as_json:
        document(rescan=done, dry_run=dry_run)
        return
    table(("rule", "lines"), [(name, f"{count:,}") for name, count in done.rules.items()])
    would = "would mask" if dry_run else "masked"
    lines = counted(done.lines, "line")
    note(f"{would} {lines} of {counted(done.logs, 'log')} and {counted(done.rows, 'row')}")
    if done.lines and not dry_run:
        note("older backups still hold them: `threadkeep backup --store knowledge --list`")


@store_command(
    "undo",
    "threadkeep redact undo --dry-run secret-assignment",
    "threadkeep redact undo 5f0c2a7e",
)
@click.argument("name", metavar="RULE|SESSION")
@click.option("--dry-run", is_flag=True, help="Show what would be put back; change nothing.")
def undo(call: Call, *, name: str, dry_run: bool) -> None:
    """Restore what RULE masked by mistake, or everything masked in SESSION.

    The original is read from its log, if that still exists and the text around the mask is
    unchanged. The rule no longer masks in these sessions. What was marked as private stays masked.
    """
    opened = _planning(call) if dry_run else call.home.history(call.db, must_exist=True)
    with opened as history, progress_bar(wanted=not call.as_json) as show:
        done = history.undo_masks(name, dry_run=dry_run, show=show)
    if call.as_json:
        document(undo=done, dry_run=dry_run)
        return
    table(("rule", "masks"), [(rule, f"{count:,}") for rule, count in done.rules.items()])
    would = "would put back" if dry_run else "put back"
    note(f"{would} {counted(done.lines, 'line')} of {counted(done.logs, 'log')}")
    if done.unlike:
        note(f"{counted(done.unlike, 'line')} with a mask are no longer in the log")
    for path in done.gone:
        warn(f"{path} no longer exists: what was masked stays masked")


for _command in (check, rules, add, rescan, undo):
    redact.add_command(_command)

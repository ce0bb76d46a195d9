"""`threadkeep paths` and `threadkeep status`: where things are, and how they are."""

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from threadkeep import __version__
from threadkeep.base.clock import iso
from threadkeep.base.engines import without_password
from threadkeep.cli.backups import store_option
from threadkeep.cli.command import PROBLEMS, Call, command, store_command
from threadkeep.cli.output import counted, document, facts, fail, note, size_text, write
from threadkeep.cli.words import Json, when
from threadkeep.home.status import (
    KnowledgeStatus,
    MailStatus,
    StateStatus,
    Status,
    StoreStatus,
)
from threadkeep.knowledge.checks import LearningStatus

if TYPE_CHECKING:
    from threadkeep.knowledge.health import Health
    from threadkeep.service.health import ObservedStatus, SocketStatus


# ------------------------------------------------------------------------------
# How the capture of shells, browsers and CI is, in words; a section of `threadkeep status`.


def observed_json(found: "ObservedStatus") -> Json:
    """Shape the section for `--json`."""
    shown: Json = msgspec.to_builtins(found, enc_hook=str)
    return shown


def observed_words(found: "ObservedStatus") -> dict[str, str]:
    """Write the section as names and values."""
    words = {one.source: "; ".join(_health(one)) for one in found.sources}
    drops = [f"{one.source} {one.reason} {one.count:,}" for one in found.drops]
    return {
        **{f"observed {source}": said or "nothing yet" for source, said in words.items()},
        "observed drops": ", ".join(drops) or "none",
        "spool": found.trouble or f"{found.spool}, {counted(found.waiting, 'file')} waiting",
        "capture": _listening(found.listening),
    }


def _health(one: "Health") -> Iterator[str]:
    if one.last_event_ts is not None:
        yield f"last event {when(one.last_event_ts)}"
        yield f"{one.events_last_24h:,} in 24 h"
    if one.consecutive_failures:
        failed = counted(one.consecutive_failures, "failure")
        yield f"{failed} in a row: {one.last_error_msg or 'no message'}"
    if one.probe_last_run_ts is not None:
        ended = f"arrived after {one.probe_lag_ms} ms" if one.probe_ok else "did not arrive"
        yield f"probe {ended} ({when(one.probe_last_run_ts)})"
    if one.last_heartbeat_ts is not None:
        yield f"heartbeat {when(one.last_heartbeat_ts)}"


def _listening(found: "SocketStatus") -> str:
    status = found.status
    if status is None:
        return f"not running ({found.trouble})" if found.trouble else "not running"
    told = [
        f"version {status.version}",
        f"up {status.uptime_secs:,} s",
        f"{counted(status.events_today, 'command')} today (UTC)",
        f"{status.queue_depth:,} in the queue",
        f"socket {found.socket}",
    ]
    return ", ".join(told)


AnyStatus = StoreStatus | StateStatus | MailStatus | KnowledgeStatus

_NAMED = {
    "chat": "path",
    "state": "state_path",
    "mailbox": "mail_path",
    "knowledge": "knowledge_path",
}


@store_command("paths", "threadkeep paths", "threadkeep --home /tmp/try paths --json")
@click.option("--init", is_flag=True, help="Write a commented default configuration file.")
@click.option("--sample", is_flag=True, help="Print that file instead: every setting, explained.")
@store_option
def paths(call: Call, *, init: bool, sample: bool, store: str) -> None:
    """Show where data and settings are kept."""
    if sample:
        from threadkeep.base.config import DEFAULT_TEXT

        write(DEFAULT_TEXT, end="")
        return
    if init:
        note(f"wrote {call.home.write_config()}")
    found = call.home.paths()
    shown: dict[str, Path | str] = {
        "data": found.data,
        "config": found.config,
        "state": found.state,
        "cache": found.cache,
        "runtime": found.runtime,
        "chat": _place(call, store, "chat"),
        "state_db": _place(call, store, "state"),
        "mailbox_db": call.home.mail_path(call.db if store == "mailbox" else None),
        "knowledge_db": _place(call, store, "knowledge"),
    }
    if call.as_json:
        document(paths=shown)
    else:
        facts({name: str(path) for name, path in shown.items()})


_INSTALLED = (
    "threadkeep service uninstall",
    "threadkeep mcp uninstall claude",
    "threadkeep browser uninstall firefox",
    "threadkeep shell-init zsh --uninstall",
)


@command("uninstall", "threadkeep uninstall")
def uninstall(call: Call) -> None:
    """Show the commands that remove threadkeep and its data; nothing is removed.

    Skip what you never installed. The logs of your agents are not touched.
    """
    found = call.home.paths()
    config = found.config.parent if found.config.parent.name == "threadkeep" else found.config
    places = dict.fromkeys((found.data, config, found.state, found.cache, found.runtime))
    there = [one for one in places if one.exists() and not places.keys() & set(one.parents)]
    commands = [*_INSTALLED, *(shlex.join(["rm", "-r", str(one)]) for one in there)]
    commands.append("pipx uninstall threadkeep")
    if call.as_json:
        document(commands=commands)
        return
    for one in commands:
        write(one)
    note("Nothing was removed. `threadkeep backup` and `threadkeep export` keep a copy")
    note("Installed otherwise: `pip uninstall threadkeep` or `uv tool uninstall threadkeep`")


def _place(call: Call, named: str, store: str) -> Path | str:
    return without_password(call.home.place(store, call.db if named == store else None))


@store_command("status", "threadkeep status", "threadkeep status --json")
@store_option
def status(call: Call, *, store: str) -> int:
    """Show the stores, their sizes and health, and what is being recorded."""
    from threadkeep.service.health import observed_status

    found = call.home.status(**{_NAMED[store]: call.db})
    observed = observed_status(call.home, call.db if store == "knowledge" else None)
    if call.as_json:
        document(**as_json(found), observed=observed_json(observed))
    else:
        facts(_words(found) | _model_words(call, found.knowledge) | observed_words(observed))
    stores: dict[str, AnyStatus] = {
        "chat": found.chat,
        "state": found.state,
        "mailbox": found.mailbox,
        "knowledge": found.knowledge,
    }
    problems = {name: looked.problem for name, looked in stores.items()}
    for name, problem in problems.items():
        if problem:
            fail(f"the {name} store cannot be read: {problem}")
    if any(problems.values()):
        return PROBLEMS
    if not any(looked.exists for looked in stores.values()):
        note("No stores yet; `threadkeep demo` shows one, `threadkeep capture` fills one")
    return 0


def as_json(found: Status) -> dict[str, Any]:
    """Shape a status for `--json`."""
    return {
        "paths": found.paths,
        "config_exists": found.config_exists,
        "sqlite": found.sqlite,
        "chat": found.chat,
        "state": found.state,
        "mailbox": found.mailbox,
        "knowledge": found.knowledge,
    }


def _words(found: Status) -> dict[str, str]:
    race = "has the WAL-reset race; the writer lock prevents it"
    version = found.sqlite.version
    settings = "" if found.config_exists else " (not created; using defaults)"
    return {
        "home": str(found.paths.data),
        "config": f"{found.paths.config}{settings}",
        "sqlite": f"{version} ({race})" if found.sqlite.wal_reset_race else version,
        **_store_words("chat", found.chat, _chat_words(found.chat)),
        **_store_words("state", found.state, _state_words(found.state)),
        **_store_words("mailbox", found.mailbox, _mail_words(found.mailbox)),
        **_store_words("knowledge", found.knowledge, _knowledge_words(found.knowledge)),
    }


def _store_words(name: str, store: AnyStatus, own: dict[str, str]) -> dict[str, str]:
    """Tell of a store: where it is, how large, what is its own, and its backups."""
    place = store.url or str(store.path)
    if not store.exists or store.problem:
        return {name: f"{place}{'' if store.exists else ' (not created yet)'}"}
    size = f"{size_text(store.bytes)}, log {size_text(store.wal_bytes)}"
    lead = "" if name == "chat" else f"{name} "
    told = {"size": size, **own, "backups": _backup_words(store)}
    return {name: place, **{f"{lead}{key}": said for key, said in told.items()}}


def _chat_words(chat: StoreStatus) -> dict[str, str]:
    live = [
        f"{one['message_id']} in {one['session_id']} by process {one['process']}"
        f" since {iso(one['started_at'])}"
        for one in chat.live_recordings
    ]
    return {
        "journal": f"{chat.journal_mode}, event log {'on' if chat.event_log else 'off'}",
        "schema": str(chat.schema_version),
        "sessions": f"{chat.sessions:,} with {counted(chat.messages, 'message')}",
        "recording now": "; ".join(live) or "nobody",
    }


def _state_words(state: StateStatus) -> dict[str, str]:
    made = "with our side tables" if state.adopted else "as made by another program"
    return {
        "schema": f"{state.schema_version}, {made}, journal {state.journal_mode}",
        "sessions": f"{state.sessions:,} with {counted(state.messages, 'message')}",
    }


def _mail_words(mail: MailStatus) -> dict[str, str]:
    return {
        "schema": str(mail.schema_version),
        "sessions": f"{mail.sessions:,}, {mail.active:,} of them active, with "
        f"{counted(mail.agents, 'agent')} and {counted(mail.chats, 'chat')}",
    }


def _knowledge_words(knowledge: KnowledgeStatus) -> dict[str, str]:
    only = "" if knowledge.writable else ", can only be read"
    return {
        "schema": f"{knowledge.schema_version}{only}",
        "sessions": f"{knowledge.sessions:,} captured, with "
        f"{counted(knowledge.messages, 'message')}",
        "learned": _learned_words(knowledge.learned),
    }


def _learned_words(learned: LearningStatus) -> str:
    made = f"{counted(learned.nodes, 'node')}, {counted(learned.vectors, 'vector')}"
    failed = f", {learned.failed:,} failed" if learned.failed else ""
    return f"{made}; {learned.waiting:,} waiting{failed}"


def _model_words(call: Call, knowledge: KnowledgeStatus) -> dict[str, str]:
    """Tell what the model used today; nothing where there is none and never was today."""
    settings, ledger = call.home.config.model, knowledge.learned.model
    if not settings.url and not ledger:
        return {}
    calls, failures, tokens = (
        sum(one.calls for one in ledger),
        sum(one.failures for one in ledger),
        sum(one.tokens for one in ledger),
    )
    limit = f" of {settings.daily_tokens:,}" if settings.daily_tokens else ""
    failed = f", {failures:,} failed" if failures else ""
    words = f"{counted(calls, 'call')}{failed}, {tokens:,}{limit} tokens today"
    return {"model": f"{settings.name}: {words}" if settings.name else words}


def _backup_words(store: AnyStatus) -> str:
    last = store.last_backup
    return f"{store.backups}, last {last.at} ({last.reason})" if last else "none"


@command("version", "threadkeep version")
def version(call: Call) -> None:
    """Print the version: the same as `threadkeep --version`."""
    if call.as_json:
        document(version=__version__)
    else:
        write(f"threadkeep {__version__}")

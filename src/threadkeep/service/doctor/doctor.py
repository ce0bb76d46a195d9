"""The doctor of a home: gathers what there is, judges it, and mends an index when asked."""

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from threadkeep.base.clock import now_ms
from threadkeep.base.engines import is_url
from threadkeep.base.files import wal_allowed
from threadkeep.base.json import decode_line
from threadkeep.base.sqlite.pragmas import engine
from threadkeep.base.tx import Tx
from threadkeep.capture.observed.shell_hooks import SHELLS, Action, install, start_up_files
from threadkeep.capture.rebuild import Places
from threadkeep.capture.records import TROUBLES
from threadkeep.chat import schema as chat_layout
from threadkeep.errors import ThreadkeepError
from threadkeep.home.backups import KINDS
from threadkeep.home.home import socket_path
from threadkeep.knowledge.archive import all_logs, read_lines, save_log
from threadkeep.knowledge.checks import (
    DeepCheck,
    clear_indexes,
    count_unindexed,
    deep_problems,
)
from threadkeep.knowledge.nodes import drop_twins
from threadkeep.knowledge.opening import refuse_write
from threadkeep.knowledge.queues import retry_lost
from threadkeep.knowledge.schema import NEWEST, target_of
from threadkeep.mailbox import index_records
from threadkeep.memory.memory import Memory
from threadkeep.service.doctor.checks import examine
from threadkeep.service.doctor.facts import (
    DiskFacts,
    DoctorFacts,
    Finding,
    HookFacts,
    HookState,
    Level,
    ModelFacts,
    StoreFacts,
    worst,
)
from threadkeep.service.doctor.inspection import (
    StoreKind,
    look_at_capture,
    look_at_store,
)
from threadkeep.service.doctor.server_checks import examine_server, servers_of
from threadkeep.service.health import ask_listener
from threadkeep.service.learn import enrich
from threadkeep.service.maintenance import retained_at, retains, retention_mark
from threadkeep.service.unit_files import is_installed, unit_for
from threadkeep.service.watchdog import look_once, place_of
from threadkeep.sources.records import Log, Source
from threadkeep.state import context as state_versions
from threadkeep.state.context import survey

if TYPE_CHECKING:
    from threadkeep.home.home import Home


# ------------------------------------------------------------------------------
# What can be mended inside a knowledge store: indexes are rebuilt, lost work is given back.


def remake_positions(places: Places, tx: Tx) -> int:
    """Find out again where the parsers of logs stopped, where that cannot be read any more.

    All that they had read is in the archive, line by line. Gives how many there were; a step of
    `places`.
    """
    count = 0
    for row in all_logs(tx):
        source = places.sources.get(row.reader)
        if row.error is None or row.parser is None or source is None or source.kind != "lines":
            continue
        log = msgspec.structs.replace(places.log(tx, row), session_id=row.session_id)
        if not _goes_on(source, log, row.parser):
            row.parser = _position_behind(source, log, read_lines(tx, row.id))
            save_log(tx, row)
            count += 1
    return count


def _goes_on(source: Source, log: Log, position: bytes) -> bool:
    try:
        source.parser(log, position)
    except TROUBLES:
        return False
    return True


def _position_behind(source: Source, log: Log, lines: Iterable[bytes]) -> bytes:
    parser = source.parser(log, None)
    for number, line in enumerate(lines):
        with suppress(*TROUBLES):  # it was reported when it was captured
            for record in decode_line(line):
                list(parser.feed(record, line, number))
    parser.harvest()
    return parser.state()


Show = Callable[[str, int, int], None]

_NEWEST: Final = {
    "chat": chat_layout.VERSION,
    "state": state_versions.SCHEMA_VERSION,
    "mailbox": index_records.VERSION,
    "knowledge": NEWEST,
}
# The words of this many entries are compared with the entries in a tenth of a second.
_COMPARED_BYTES: Final = 256 << 20
_MODEL_SECONDS: Final = 2.0
# The second: SQLite quotes damaged bytes of the schema in its own message.
_UNREADABLE: Final = (ThreadkeepError, UnicodeDecodeError)


class DoctorReport(msgspec.Struct, frozen=True):
    """What the doctor says."""

    findings: tuple[Finding, ...]
    took_ms: int
    deep: bool

    @property
    def level(self) -> Level:
        """The gravest of the findings."""
        return worst(self.findings)


def diagnose(
    home: "Home",
    path: str | Path | None = None,
    *,
    version: str,
    deep: bool = False,
    show: Show | None = None,
) -> DoctorReport:
    """Look at a home, and say what is wrong with it and what helps.

    `path` names another knowledge store. Nothing is changed, but that a deep check is remembered.
    """
    began = time.perf_counter()
    now = now_ms()
    if deep:
        check_deeply(home, path, now, show)
    facts = gather(home, path, version=version, now=now)
    found = (*examine(facts), *_examine_servers(home, path))
    return DoctorReport(found, round((time.perf_counter() - began) * 1000), deep)


def diagnose_server(url: str) -> DoctorReport:
    """Look at a home on a PostgreSQL server, and at the server; nothing is changed."""
    began = time.perf_counter()
    found = tuple(examine_server(url))
    return DoctorReport(found, round((time.perf_counter() - began) * 1000), deep=False)


def _examine_servers(home: "Home", path: str | Path | None) -> Iterator[Finding]:
    """Judge each server that stores of a home are on; one that does not answer is a finding."""
    try:
        for url in servers_of(home, path):
            yield from examine_server(url)
    except ThreadkeepError as error:
        doc = "docs/postgres.md"
        yield Finding("server", "connection", "fail", error.message, fix=error.hint or "", doc=doc)


def _given(name: str, path: str | Path | None) -> str | Path | None:
    return path if name == "knowledge" else None


def gather(home: "Home", path: str | Path | None = None, *, version: str, now: int) -> DoctorFacts:
    """Gather everything that the checks judge."""
    facts = DoctorFacts(now, version, engine(), str(home.paths().data))
    try:
        _ = home.config
    except ThreadkeepError as error:
        return msgspec.structs.replace(facts, config_trouble=error.message)
    found = [_store(home, name, path) for name in KINDS if not _is_on_server(home, name, path)]
    usable = found[-1].name == "knowledge" and is_usable(found[-1])
    stores = _with_deep_checks(home, path, found) if usable else found
    facts = msgspec.structs.replace(
        facts,
        disk=_disk(home.paths().data),
        stores=tuple(stores),
        hooks=tuple(_hooks(home)),
        enriches=home.config.enrich.enabled,
        retained_at=retained_at(home) if retains(home) else None,
        retention_mark=str(retention_mark(home)),
        model=_model(home),
        service_installed=_service_installed(home),
        **_listening(home),
    )
    return _with_capture(home, path, facts) if usable else facts


def _is_on_server(home: "Home", name: str, path: str | Path | None) -> bool:
    with suppress(ThreadkeepError):
        return is_url(home.place(name, _given(name, path)))
    return False  # another program's file: what is wrong is told of it as a file


def is_usable(store: StoreFacts) -> bool:
    """Tell whether a store can be opened to ask it more."""
    return store.exists and not store.trouble and not store.problems and bool(store.version)


def _with_capture(home: "Home", path: str | Path | None, facts: DoctorFacts) -> DoctorFacts:
    """Add what the store and the logs say, or why they do not."""
    try:
        with home.history(path, read_only=True) as history:
            seen = look_once(home, history, now=facts.now, monotonic=time.monotonic())
            place = place_of(home, history)
            with history.store.read() as tx:
                found = look_at_capture(tx, seen, place, home.config)
    except ThreadkeepError as error:
        return msgspec.structs.replace(facts, capture_trouble=error.message)
    return msgspec.structs.replace(facts, **found)


# ---------------------------------------------------------------------- files


def _store(home: "Home", name: str, path: str | Path | None) -> StoreFacts:
    given = _given(name, path)
    try:
        place = home.store_path(name, given)
    except ThreadkeepError as error:
        shown = str(given or home.paths().data / f"{name}.db")
        return StoreFacts(name, shown, exists=True, trouble="foreign", said=error.message)
    file = os.path.realpath(place)
    ours = Path(file).parent == Path(os.path.realpath(home.paths().data))
    schema = home.config.stores.knowledge_schema
    return look_at_store(_known(name, place, schema), place, ours=ours)


def _known(name: str, place: Path, schema: int) -> StoreKind:
    kind = KINDS[name]
    small = name == "knowledge" and place.exists() and place.stat().st_size < _COMPARED_BYTES
    return StoreKind(
        *(name, kind.queries, kind.read_version, _NEWEST[name]),
        unindexed=count_unindexed if small else None,
        target=(lambda version: target_of(version, schema)) if name == "knowledge" else None,
        refusal=(lambda tx: survey(tx).refusal) if name == "state" else None,
    )


def _disk(data: Path) -> DiskFacts:
    folder = next(one for one in (data, *data.parents) if one.exists())
    allowed, kind = wal_allowed(folder / "x")
    try:
        room = os.statvfs(folder)
    except OSError:
        return DiskFacts(str(folder), None, kind, allowed)
    return DiskFacts(str(folder), room.f_bavail * room.f_frsize, kind, allowed)


def _hooks(home: "Home") -> Iterator[HookFacts]:
    """Find how far hooks are installed; shells without any part of one are left out."""
    for shell in SHELLS:
        with suppress(ThreadkeepError):
            hook, *loads = install(shell, home.environ, home.paths().data, dry_run=True).steps
            state = hook_state(hook.action, [step.action for step in loads])
            if state is not None:
                start_up = start_up_files(shell, home.environ, sys.platform)[0]
                yield HookFacts(shell, state, str(start_up))


def hook_state(hook: Action, loads: list[Action]) -> HookState | None:
    """Judge a hook by what installing it would change; None if there is nothing of it."""
    loaded = all(action == "keep" for action in loads)
    if hook == "create":
        return "broken" if loaded else None
    if not loaded:
        return "broken"
    return "whole" if hook == "keep" else "old"


# ---------------------------------------------------------------------- others


def _model(home: "Home") -> ModelFacts | None:
    settings = home.config.model
    if settings.url is None:
        return None
    from threadkeep.memory.learn.model_client import ModelClient, look  # noqa: PLC0415

    try:
        key = home.environ.get(settings.api_key_env)
        client = ModelClient(settings.url, key, timeout=_MODEL_SECONDS)
        found = look(client, settings.name)
    except ThreadkeepError as error:
        return ModelFacts(settings.url, error.message)
    return ModelFacts(client.endpoint, found.message if found.outcome != "ok" else "")


def _listening(home: "Home") -> dict[str, str | None]:
    found = ask_listener(socket_path(home))
    said = None if found.status is None else found.status.version
    return {"listener": said, "listener_trouble": found.trouble}


def _service_installed(home: "Home") -> bool:
    with suppress(ThreadkeepError):
        return is_installed(unit_for(sys.platform, home.environ, (), user=os.getuid()))
    return False


# ---------------------------------------------------------------------- deep


def _with_deep_checks(
    home: "Home", path: str | Path | None, stores: list[StoreFacts]
) -> list[StoreFacts]:
    with suppress(ThreadkeepError), home.knowledge(path, read_only=True) as store:
        deep = store.upkeep.deep_checks()
        return [
            msgspec.structs.replace(one, deep=deep.get(os.path.realpath(one.path)))
            for one in stores
        ]
    return stores


def check_deeply(
    home: "Home", path: str | Path | None, now: int, show: Show | None = None
) -> list[DeepCheck]:
    """Check every store of a home whole, and remember how that ended."""
    done = []
    for name in KINDS:
        with suppress(ThreadkeepError):
            place = home.store_path(name, _given(name, path))
            if place.exists():
                done.append(_check_one(home, name, place, now, show))
    with suppress(*_UNREADABLE), home.knowledge(path, must_exist=True) as store:
        store.upkeep.note_deep_checks(done)
    return done


def _check_one(home: "Home", name: str, place: Path, now: int, show: Show | None) -> DeepCheck:
    began = time.perf_counter()

    def tell(count: int, total: int) -> None:
        if show is not None:
            show(name, count, total)

    tell(0, 0)
    try:
        problems = _deep_problems(home, name, place, tell)
    except _UNREADABLE as error:
        problems = [f"{place} cannot be read: {error}"]
    took = round((time.perf_counter() - began) * 1000)
    return DeepCheck(os.path.realpath(place), now, took, tuple(problems))


def _deep_problems(
    home: "Home", name: str, place: Path, tell: Callable[[int, int], None]
) -> list[str]:
    if name == "knowledge":
        with home.knowledge(place, must_exist=True) as store:
            return deep_problems(store.database, tell)
    if name == "state":
        with home.state(place, read_only=True) as state:
            return state.check()
    return home.check_backup(place, store=name)


class Repaired(msgspec.Struct, frozen=True):
    """What a repair did: rows reindexed, tickets given back, twins taken out."""

    indexed: int = 0
    tickets: int = 0
    twins: int = 0


def repair(home: "Home", path: str | Path | None = None) -> Repaired:
    """Rebuild the full-text indexes of the chat and the knowledge store, and retry lost work.

    Nodes that are there twice go, and logs that could not be read on are. What was said and
    captured is not touched.
    """
    if home.has("chat"):
        with home.chat(must_exist=True) as chat:
            chat.reindex()
    if not home.has("knowledge", path):
        return Repaired()
    with home.history(path, must_exist=True) as history:
        refuse_write(history.store.access)
        places = Places(history.around, history.sources)
        positions = places.write(partial(remake_positions, places))
        with history.store.write() as tx:
            indexed = clear_indexes(tx)
            tickets = retry_lost(tx, now_ms())
            twins = drop_twins(tx)
        if positions:
            history.capture()
        indexed += history.reindex()
        if tickets:
            enrich(home, history, at_once=True, with_model=False)
        Memory(history.store, history.sources).index()
    return Repaired(indexed, tickets, twins)

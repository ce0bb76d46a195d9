"""Looking after the stores of a home: backups, what the user wants taken out, small tidying.

The large work (a backup is a copy that is read through, taking out rewrites the file) runs in
a process of its own, which ends with its work or with the one that started it: the memory that it
needs is given back, and nothing is left over.

    python -m threadkeep.service.maintenance ORDER
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from threadkeep.base.clock import believed, now_ms
from threadkeep.base.config import RetentionSettings
from threadkeep.base.files import make_private_dir, read_note, write_note
from threadkeep.base.presence import forget, touch, touched_ms
from threadkeep.base.processes import when_parent_ends
from threadkeep.base.sqlite.backup import stamp_time
from threadkeep.capture.capture import History
from threadkeep.capture.records import Progress
from threadkeep.errors import Conflict, ThreadkeepError
from threadkeep.home.backups import KINDS, is_own
from threadkeep.knowledge.kinds import Kind
from threadkeep.knowledge.query import Query
from threadkeep.knowledge.records import CapturedSession

if TYPE_CHECKING:
    from threadkeep.home.home import Home
    from threadkeep.service.supervisor import Bell


CUT_SHORT: Final = 1  # how the process ends whose parent is gone
_HOUR_MS: Final = 3_600_000
_DAY_MS: Final = 24 * _HOUR_MS
_LOOK_SECONDS: Final = 0.5
_NICE: Final = 10
_NOTE_SECONDS: Final = 0.3
_STALE_MS: Final = 60_000
_PAGE: Final = 500
_OLD: Final[dict[Kind, str]] = {"event": "commands", "visit": "pages", "run": "CI runs"}


class MaintenanceTask(msgspec.Struct, frozen=True):
    """What one process has to do: for which home and file, backups of which stores."""

    home: str | None  # None: the home that the environment names
    db: str | None
    user_home: str | None
    backups: tuple[str, ...] = ()
    retain: bool = False
    embed: bool = False
    catch_up: bool = False


class MaintenanceReport(msgspec.Struct):
    """What it did, in words, and what went wrong."""

    did: list[str] = []
    failed: list[str] = []
    waits: str = ""  # what has to be settled by the user first


# ---------------------------------------------------------------------- what is due


def due_backups(home: "Home", db: str | Path | None, now: int) -> tuple[str, ...]:
    """Name the stores that are older than their last backup, and that older than it may be."""
    hours = home.config.serve.backup_hours
    if not hours:
        return ()
    return tuple(kind for kind in KINDS if _is_due(home, kind, db, now, hours * _HOUR_MS))


def _is_due(home: "Home", kind: str, db: str | Path | None, now: int, interval: int) -> bool:
    path = home.store_path(kind, db if kind == "knowledge" else None)
    if not path.is_file() or not is_own(home, kind, path):
        return False
    times = (stamp_time(one.at) or 0 for one in home.backups(path, store=kind))
    # One from the future was made while the clock was wrong: how old it is nobody knows.
    last = max((at for at in times if at <= now + interval), default=0)
    return last < now - interval and last < _changed_at(path)


def _changed_at(path: Path) -> int:
    files = (file for file in (path, Path(f"{path}-wal")) if file.exists())
    return max(os.stat(file).st_mtime_ns // 1_000_000 for file in files)


def order_for(
    home: "Home",
    db: str | Path | None,
    user_home: str | Path | None,
    backups: tuple[str, ...] = (),
    *,
    retain: bool = False,
    embed: bool = False,
    catch_up: bool = False,
) -> MaintenanceTask:
    """Write down what has to be done; `retain` where what is too old may have to go."""
    return MaintenanceTask(
        *(named_home(home), _text(db), _text(user_home), backups),
        retain=retain and retains(home),
        embed=embed,
        catch_up=catch_up,
    )


def _text(path: str | Path | None) -> str | None:
    return None if path is None else os.path.abspath(path)


def named_home(home: "Home") -> str | None:
    """Return the folder of a home, None for the one that the environment names anyway."""
    return None if _is_default(home) else str(home.paths().data)


def _is_default(home: "Home") -> bool:
    from threadkeep.home.home import Home as AnyHome  # noqa: PLC0415  (it imports the parts)

    try:
        return AnyHome(environ=os.environ).paths() == home.paths()
    except ThreadkeepError:
        return False


# ---------------------------------------------------------------------- the other process


def carry_out(order: MaintenanceTask, bell: "Bell") -> MaintenanceReport | None:
    """Have another process do the work, and wait for it; None if the end came first."""
    command = [sys.executable, "-P", "-m", "threadkeep.service.maintenance"]
    with _started([*command, msgspec.json.encode(order).decode()]) as process:
        while process.poll() is None:
            if not bell.wait(_LOOK_SECONDS):
                return None
        assert process.stdout is not None  # noqa: S101  (it is a pipe)
        said = process.stdout.read()
    try:
        return msgspec.json.decode(said, type=MaintenanceReport)
    except msgspec.MsgspecError:
        msg = f"the maintenance process ended with {process.returncode}"
        raise ThreadkeepError(msg, hint="`threadkeep backup` shows what is wrong") from None


@contextmanager
def _started(command: list[str]) -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen(  # noqa: S603  (this interpreter and this module)
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()  # what it was at is left as a hidden file, and swept by the next


def main(words: list[str]) -> int:
    """Do what an order says and answer with what was done."""
    from threadkeep.home.home import Home as AnyHome  # noqa: PLC0415  (it imports the parts)

    when_parent_ends(lambda: os._exit(CUT_SHORT))
    order = msgspec.json.decode(words[0].encode(), type=MaintenanceTask)
    if not (order.retain or order.embed or order.catch_up):
        os.nice(_NICE)  # a backup only reads; whoever holds the lock to write must not be slow
    done = look_after(AnyHome(order.home), order, now_ms())
    sys.stdout.write(json.dumps(msgspec.to_builtins(done)))
    return 0


def look_after(home: "Home", order: MaintenanceTask, now: int) -> MaintenanceReport:
    """Do all that an order says; one thing that fails does not keep the others from being done."""
    done = MaintenanceReport()
    if order.catch_up:
        with _noted(done, "what agents wrote before could not be captured"):
            _catch_up(home, order, done)
    if order.retain:
        with _noted(done, "what is too old could not be taken out"):
            _retain(home, order, now, done)
    for kind in order.backups:
        with _noted(done, f"no backup of the {kind} store"):
            db = order.db if kind == "knowledge" else None
            done.did.append(f"backup {home.backup(path=db, store=kind)}")
    if order.embed:
        with _noted(done, "no vectors were made"):
            _embed(home, order, done)
    return done


class CatchUpState(msgspec.Struct, frozen=True):
    """How far capture is with what agents wrote before; `learning` comes after the last log."""

    logs_done: int
    logs_total: int
    bytes_done: int
    bytes_total: int
    learning: bool = False

    @property
    def percent(self) -> int:
        """How much of it is done."""
        return 100 * self.bytes_done // max(self.bytes_total, 1)


def catching_up(home: "Home", now: int) -> CatchUpState | None:
    """Tell how far capture is with what was written before; None when it is not at that."""
    path = _catch_up_note(home)
    noted = touched_ms(path)
    if noted is None or now - noted > _STALE_MS:  # who was at it is gone
        return None
    try:
        return msgspec.json.decode(read_note(path) or "", type=CatchUpState)
    except msgspec.MsgspecError:
        return None


def _catch_up_note(home: "Home") -> Path:
    return home.paths().state / "catch-up"


@contextmanager
def _noting_progress(home: "Home") -> Iterator[Callable[[CatchUpState], None]]:
    """Return what notes how far a capture is, for pages and terminals to show, until it ends.

    A note that cannot be written is no reason to capture nothing.
    """
    path, last, was = _catch_up_note(home), float("-inf"), CatchUpState(0, 0, 0, 0)

    def note(state: CatchUpState) -> None:
        nonlocal last, was
        if time.monotonic() - last >= _NOTE_SECONDS or state.learning is not was.learning:
            last, was = time.monotonic(), state
            with suppress(OSError, ThreadkeepError):
                write_note(path, msgspec.json.encode(state).decode())

    try:
        yield note
    finally:
        with suppress(ThreadkeepError):
            forget(path)


def _catch_up(home: "Home", order: MaintenanceTask, done: MaintenanceReport) -> None:
    """Capture what agents wrote while nobody looked, and make knowledge of it by rules alone.

    A model, if there is one, rewrites it later: for a long history it takes days.
    """
    from threadkeep.service.learn import enrich  # noqa: PLC0415  (loads services)

    state = CatchUpState(0, 0, 0, 0)

    def show(progress: Progress) -> None:
        nonlocal state
        now = (progress.logs_done, progress.logs_total, progress.bytes_done, progress.bytes_total)
        state = CatchUpState(*now)
        note(state)

    opened = home.history(order.db, user_home=order.user_home)
    with opened as history, _noting_progress(home) as note:
        report = history.capture(show=show)
        if home.config.enrich.enabled and home.config.serve.enrich:
            learning = msgspec.structs.replace(state, learning=True)
            note(learning)
            made = enrich(
                home,
                history,
                with_model=False,
                show=lambda _: note(learning),
                tell=done.did.append,
            )
            done.did.append(f"knowledge: {made.nodes} new")
        history.store.index()
    for agent, part in report.agents.items():
        if part.lines:
            done.did.append(f"{agent} +{part.entries} messages")


def _embed(home: "Home", order: MaintenanceTask, done: MaintenanceReport) -> None:
    from threadkeep.service.learn import embed  # noqa: PLC0415  (loads what makes vectors)

    with home.history(order.db, user_home=order.user_home) as history:
        try:
            made = embed(home, history)
        except Conflict as error:
            done.waits = str(error)
            return
    if made.nodes or made.messages:
        done.did.append(f"vectors: {made.nodes} of nodes, {made.messages} of messages")


@contextmanager
def _noted(done: MaintenanceReport, what: str) -> Iterator[None]:
    try:
        yield
    except (ThreadkeepError, OSError) as error:
        done.failed.append(f"{what}: {error}")


# ---------------------------------------------------------------------- what is too old


def retains(home: "Home") -> bool:
    """Tell whether the user wants anything taken out by its age."""
    return home.config.retention != RetentionSettings()


def retained_at(home: "Home") -> int | None:
    """Return the time as of which what is too old was last taken out; None if it never was."""
    return touched_ms(retention_mark(home))


def retention_mark(home: "Home") -> Path:
    """Return the file whose time says it; who touches it says that the clock is right."""
    return home.paths().state / "retention"


def _retain(home: "Home", order: MaintenanceTask, now: int, done: MaintenanceReport) -> None:
    until = believed(now, retained_at(home), _DAY_MS)
    with home.history(order.db, user_home=order.user_home) as history:
        gone = take_out_old(history, home.config.retention, until)
    done.did += [f"took out {count} old {what}" for what, count in gone.items() if count]
    mark = retention_mark(home)
    make_private_dir(mark.parent)
    touch(mark, until)


def take_out_old(history: History, settings: RetentionSettings, now: int) -> dict[str, int]:
    """Forget what is older than the user wants it kept; tell how much of what.

    It goes as if `threadkeep forget` had been asked for it: with all that came of it, out of the
    file itself, and not to be captured again.
    """
    sessions = _old_sessions(history, settings.sessions_days, now)
    names_ = tuple(f"{one.agent}:{one.session_id}" for one in sessions)
    days = {"event": settings.commands_days, "visit": settings.pages_days, "run": settings.ci_days}
    gone = {}
    for kind, what in _OLD.items():
        kept = days[kind]
        if kept is not None:
            gone[what] = history.store.forgetting.erase_before(kind, now - kept * _DAY_MS)
    if names_:
        history.forget(Query(session=names_))
    elif any(gone.values()):
        history.reindex()
    return {"sessions": len(sessions), **gone}


def _old_sessions(history: History, days: int | None, now: int) -> list[CapturedSession]:
    if days is None:
        return []
    before = now - days * _DAY_MS
    return [one for one in _all_sessions(history) if (one.ended_at or now) < before]


def _all_sessions(history: History) -> Iterator[CapturedSession]:
    last: CapturedSession | None = None
    while page := history.sessions(Query(marks=("all",)), last, _PAGE):
        yield from page
        last = page[-1]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

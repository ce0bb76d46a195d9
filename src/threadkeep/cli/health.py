"""`threadkeep doctor`: what is wrong, why, and the one command that helps."""

from itertools import groupby
from typing import TYPE_CHECKING, Any

import click

from threadkeep import __version__
from threadkeep.cli.command import PROBLEMS, Call, alias, group, store_command
from threadkeep.cli.options import OneOf
from threadkeep.cli.output import counted, document, note, progress, table, write
from threadkeep.cli.words import when

if TYPE_CHECKING:
    from threadkeep.capture.observed.observed import ProbeResult
    from threadkeep.knowledge.health import Alarm
    from threadkeep.service.doctor.doctor import DoctorReport
    from threadkeep.service.doctor.facts import Finding
    from threadkeep.service.watchdog import WatchdogReport


_SIGNS = {"ok": "[ok]", "info": "[--]", "warn": "[!?]", "fail": "[!!]"}
_STYLES = {"ok": "green", "info": "dim", "warn": "yellow", "fail": "bold red"}


@store_command(
    "doctor",
    "threadkeep doctor",
    "threadkeep doctor --explain",
    "threadkeep doctor --deep --json",
    "threadkeep doctor --server 'postgresql://ann@db.example/agents?home=team'",
    lists=True,
)
@click.option("--explain", is_flag=True, help="Explain every finding and how to fix it.")
@click.option("--deep", is_flag=True, help="Also compare every hash and every index; takes longer.")
@click.option("--repair", is_flag=True, help="First rebuild the indexes and retry lost work.")
@click.option("--server", metavar="URL", help="Look at a home on PostgreSQL and at its server.")
def doctor(call: Call, *, explain: bool, deep: bool, repair: bool, server: str | None) -> int:
    """Check the stores, capture and the service; report problems and fixes.

    An unused source is not a problem. --db checks another knowledge store. Exit code 1 if a check
    failed, 0 otherwise.
    """
    from threadkeep.service.doctor.doctor import diagnose, diagnose_server, repair as mend

    if repair:
        with progress("repairing"):
            done = mend(call.home, call.db)
        said = f"indexed {counted(done.indexed, 'row')}"
        lost = f"gave back {counted(done.tickets, 'ticket')}"
        note(f"{said}, {lost}, took out {counted(done.twins, 'twin')}")
    with progress("looking") as advance:

        def show(_: str, done: int, total: int) -> None:
            if advance is not None:
                advance(done, total)

        if server is not None:
            found = diagnose_server(server)
        else:
            found = diagnose(call.home, call.db, version=__version__, deep=deep, show=show)
    if call.as_json:
        call.answer(
            "findings",
            level=found.level,
            took_ms=found.took_ms,
            deep=found.deep,
            findings=found.findings,
        )
    else:
        _tell(found, explain=explain)
    return PROBLEMS if found.level == "fail" else 0


def _tell(found: "DoctorReport", *, explain: bool) -> None:
    for name, findings in groupby(found.findings, key=lambda one: one.group):
        write(name, "bold")
        for one in findings:
            _tell_one(one, explain=explain)
    levels = [one.level for one in found.findings]
    told = [f"{levels.count(level)} {level}" for level in _SIGNS if level in levels]
    note(f"{', '.join(told)}; took {found.took_ms / 1000:.1f} s")
    if not explain and found.level in {"warn", "fail"}:
        note("--explain gives causes and fixes")


def _tell_one(one: "Finding", *, explain: bool) -> None:
    write(f"  {_SIGNS[one.level]} ", _STYLES[one.level], end="")
    write(f"{one.check}: {one.what}")
    if one.fix and (explain or one.level == "fail"):
        if explain and one.cause:
            write(f"       cause: {one.cause}")
        write(f"       fix:   {one.fix}")
        if explain and one.doc:
            write(f"       doc:   {one.doc}")


# ------------------------------------------------------------------------------
# `threadkeep alarms` and `threadkeep watchdog`: rules about capture that were found broken.


@group(
    "alarms",
    "threadkeep alarms list",
    "threadkeep alarms ack 3 --note 'disk replaced'",
    bare="list",
)
def alarms() -> None:
    """Recorded gaps in capture: list, acknowledge or remove them."""


@store_command("list", "threadkeep alarms list", "threadkeep alarms list --all --json", lists=True)
@click.option("--all", "every", is_flag=True, help="Include those acknowledged or resolved.")
def list_(call: Call, *, every: bool) -> int:
    """List alarms, latest first. Exit code 1 if one is active."""
    with call.home.knowledge(call.db, read_only=True) as store:
        found = store.alarms(active=not every)
    if call.as_json:
        call.answer("alarms", alarms=[_as_json(one) for one in found])
    else:
        columns = ("id", "rule", "source", "raised", "state", "details")
        table(columns, map(_row, found), wide="details", spare=("state",))
        if not found:
            note("no alarm" if every else "No active alarms")
    return PROBLEMS if any(one.active for one in found) else 0


@store_command("ack", "threadkeep alarms ack 3", "threadkeep alarms ack 3 --note 'disk replaced'")
@click.argument("number", type=int)
@click.option("--note", "text", metavar="TEXT", help="A note to keep with it.")
def ack(call: Call, *, number: int, text: str | None) -> None:
    """Acknowledge alarm NUMBER."""
    with call.home.knowledge(call.db, must_exist=True) as store:
        alarm = store.acknowledge(number, text)
    if call.as_json:
        document(alarm=_as_json(alarm))
    else:
        note(f"alarm {alarm.id} acknowledged {when(alarm.acked_at)}")


@store_command("prune", "threadkeep alarms prune")
def prune(call: Call) -> None:
    """Remove the alarms that resolved on their own."""
    with call.home.knowledge(call.db, must_exist=True) as store:
        count = store.put_away()
    if call.as_json:
        document(pruned=count)
    else:
        note(f"{counted(count, 'alarm')} removed")


for _command in (list_, alias(list_, "ls"), ack, prune):
    alarms.add_command(_command)


@group("watchdog", "threadkeep watchdog run", bare="run")
def watchdog() -> None:
    """Compare what was captured with what is on disk; `serve` does this twice a minute."""


@store_command("run", "threadkeep watchdog run", "threadkeep watchdog run --json")
def run(call: Call) -> int:
    """Check once, and raise or resolve alarms. Exit code 1 if a check fails."""
    from threadkeep.service.watchdog import watchdog_once

    report = watchdog_once(call.home, call.db)
    if call.as_json:
        document(
            violations=report.violations,
            raised=[_as_json(one) for one in report.raised],
            reopened=[_as_json(one) for one in report.reopened],
            resolved=[_as_json(one) for one in report.resolved],
            took_ms=report.took_ms,
        )
    else:
        _alarms_tell(report)
    return PROBLEMS if report.violations else 0


watchdog.add_command(run)


def _alarms_tell(report: "WatchdogReport") -> None:
    table(
        ("rule", "source", "since", "details"),
        [(one.invariant, one.source, when(one.since_ms), one.details) for one in report.violations],
        wide="details",
    )
    said = f"{len(report.raised)} raised, {len(report.reopened)} opened again"
    rules = counted(len(report.violations), "broken rule")
    note(f"{rules}; alarms: {said}, {len(report.resolved)} resolved; took {report.took_ms} ms")


def _row(alarm: "Alarm") -> tuple[str, ...]:
    states = {"resolved": alarm.resolved_at, "seen": alarm.acked_at}
    state = " and ".join(name for name, at in states.items() if at is not None) or "active"
    named = (str(alarm.id), alarm.invariant, alarm.source or "")
    return (*named, when(alarm.raised_at), state, alarm.details)


def _as_json(alarm: "Alarm") -> dict[str, Any]:
    return {
        "id": alarm.id,
        "invariant_id": alarm.invariant,
        "source": alarm.source,
        "raised_at": alarm.raised_at,
        "since_ms": alarm.since_ms,
        "details": alarm.details,
        "acked_at": alarm.acked_at,
        "ack_note": alarm.ack_note,
        "resolved_at": alarm.resolved_at,
        "clean_ticks": alarm.clean_ticks,
        "active": alarm.active,
    }


# ------------------------------------------------------------------------------
# `threadkeep probe`: synthetic events that go the whole way, so that a broken part shows.

_SOURCES = ("shell", "claude-tool", "browser")


@store_command("probe", "threadkeep probe", "threadkeep probe --source browser --json", lists=True)
@click.option("--source", type=OneOf(_SOURCES), help="Only this one.")
def probe(call: Call, *, source: str | None) -> int:
    """Send a test event from each source into the store; it is shown nowhere.

    Exit code 1 if one did not arrive. `threadkeep status` shows the latest results.
    """
    with call.home.observations(call.db) as observations:
        done = [observations.probe(name) for name in ([source] if source else _SOURCES)]
    if call.as_json:
        call.answer("probes", probes=[_probing_as_json(one) for one in done])
    else:
        table(("source", "arrived", "after"), [_probing_row(one) for one in done])
    return PROBLEMS if any(one.lag_ms is None for one in done) else 0


def _probing_as_json(one: "ProbeResult") -> dict[str, object]:
    return {"source": one.source, "ok": one.lag_ms is not None, "lag_ms": one.lag_ms}


def _probing_row(one: "ProbeResult") -> tuple[str, ...]:
    if one.lag_ms is None:
        return (one.source, "no", "")
    return (one.source, "yes", f"{one.lag_ms} ms")

"""`threadkeep alarms` and `threadkeep watchdog`: rules about capture that were found broken."""

from typing import TYPE_CHECKING, Any

import click

from threadkeep.cli.command import PROBLEMS, Call, group, store_command
from threadkeep.cli.groups import alias
from threadkeep.cli.history.words import when
from threadkeep.cli.output import counted, document, note, table

if TYPE_CHECKING:
    from threadkeep.knowledge.health import Alarm
    from threadkeep.service.watchdog import WatchdogReport


@group("alarms", "threadkeep alarms list", "threadkeep alarms ack 3 --note 'disk replaced'")
def alarms() -> None:
    """Recorded gaps in capture: list them, say that you have seen one, put old ones away."""


@store_command("list", "threadkeep alarms list", "threadkeep alarms list --all --json", lists=True)
@click.option("--all", "every", is_flag=True, help="Also those that were seen or went away.")
def list_(call: Call, *, every: bool) -> int:
    """List alarms, the latest first. Exit code 1 if one is active."""
    from threadkeep.service.watchdog import alarms_of

    with call.home.knowledge(call.db, read_only=True) as store:
        found = alarms_of(store, active=not every)
    if call.as_json:
        call.answer("alarms", alarms=[_as_json(one) for one in found])
    else:
        columns = ("id", "rule", "source", "raised", "state", "details")
        table(columns, map(_row, found), wide="details", spare=("state",))
        if not found:
            note("no alarm" if every else "no active alarm")
    return PROBLEMS if any(one.active for one in found) else 0


@store_command("ack", "threadkeep alarms ack 3", "threadkeep alarms ack 3 --note 'disk replaced'")
@click.argument("number", type=int)
@click.option("--note", "text", metavar="TEXT", help="What to remember about it.")
def ack(call: Call, *, number: int, text: str | None) -> None:
    """Say that you have seen alarm NUMBER; done again, it changes nothing."""
    from threadkeep.service.watchdog import acknowledge

    with call.home.knowledge(call.db, must_exist=True) as store:
        alarm = acknowledge(store, number, text)
    if call.as_json:
        document(alarm=_as_json(alarm))
    else:
        note(f"alarm {alarm.id} was seen {when(alarm.acked_at)}")


@store_command("prune", "threadkeep alarms prune")
def prune(call: Call) -> None:
    """Put away the alarms that went away by themselves."""
    from threadkeep.service.watchdog import put_away

    with call.home.knowledge(call.db, must_exist=True) as store:
        count = put_away(store)
    if call.as_json:
        document(pruned=count)
    else:
        note(f"{counted(count, 'alarm')} put away")


for _command in (list_, alias(list_, "ls"), ack, prune):
    alarms.add_command(_command)


@group("watchdog", "threadkeep watchdog run")
def watchdog() -> None:
    """Check capture against what is on the disk; `threadkeep serve` does so twice a minute."""


@store_command("run", "threadkeep watchdog run", "threadkeep watchdog run --json")
def run(call: Call) -> int:
    """Look once, and raise or resolve alarms. Exit code 1 if a rule is broken."""
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
        _tell(report)
    return PROBLEMS if report.violations else 0


watchdog.add_command(run)


def _tell(report: "WatchdogReport") -> None:
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

"""`threadkeep service`: have the system run `threadkeep serve` at each log-in."""

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from threadkeep.base.clock import iso
from threadkeep.cli.command import PROBLEMS, Call, command, group, store_command
from threadkeep.cli.output import document, note, table, warn, write
from threadkeep.cli.service.serve import hippo_option, hippo_place

if TYPE_CHECKING:
    from threadkeep.knowledge.health import ServicePartState
    from threadkeep.service.serve import ServiceStatus
    from threadkeep.service.unit_files import SystemCommand, Unit, UnitPlan

_DRY = click.option("--dry-run", is_flag=True, help="Show what would be done, do nothing.")


@group("service", "threadkeep service install", "threadkeep service status")
def service() -> None:
    """Have the system run `threadkeep serve` at each log-in: systemd on Linux, launchd on macOS.

    Everything works without it as well: `capture`, `watch` and `recall` do on demand what it does.
    """


@store_command("install", "threadkeep service install", "threadkeep service install --dry-run")
@hippo_option
@_DRY
def install(call: Call, *, hippo_dir: str | None, dry_run: bool) -> int:
    """Write the unit and start it; a file of somebody else in its place is set aside."""
    from threadkeep.service import unit_files

    unit = _unit(call, _options(call, hippo_dir))
    plan = unit_files.plan_install(unit)
    if dry_run:
        _show(call, plan, unit_files.start_commands(unit, plan.action), unit.text(0).decode())
        return 0
    ran = unit_files.install(plan, unit_files.run_tool)
    _tell(call, plan, ran)
    if unit.system == "systemd" and not call.as_json:
        note("it runs while you are logged in; `loginctl enable-linger` keeps it after that")
    return 0 if all(one.done for one in ran) else PROBLEMS


@command("uninstall", "threadkeep service uninstall")
@_DRY
def uninstall(call: Call, *, dry_run: bool) -> int:
    """End it and take the unit out; what was in its place before comes back."""
    from threadkeep.service import unit_files

    unit = _unit(call, ())
    plan = unit_files.plan_uninstall(unit)
    if dry_run:
        commands = unit_files.stop_commands(unit) if plan.action == "remove" else []
        _show(call, plan, commands)
        return 0
    ran = unit_files.uninstall(plan, unit_files.run_tool)
    _tell(call, plan, ran)
    return 0 if all(one.done for one in ran) else PROBLEMS


@store_command("status", "threadkeep service status", "threadkeep service status --json")
def status(call: Call) -> int:
    """Show whether the unit is installed and whether somebody serves the store.

    Exit code 1 if nobody does, or the process that should is stopped or hangs.
    """
    from threadkeep.service import unit_files
    from threadkeep.service.serve import who_serves

    state = unit_files.unit_state(_unit(call, ()), unit_files.run_tool)
    serving = who_serves(call.home, call.db)
    if call.as_json:
        document(
            unit={
                "system": state.unit.system,
                "path": state.unit.path,
                "installed": state.installed,
                "enabled": state.enabled,
                "active": state.active,
            },
            serving=serving,
        )
    else:
        known = ", ".join(word for word in (state.enabled, state.active) if word)
        installed = "installed" if state.installed else "not installed"
        write(f"unit\t{state.unit.path}\t{installed}{f' ({known})' if known else ''}")
        _show_serving(serving)
    return 0 if serving.running and not serving.hindrance else PROBLEMS


for _command in (install, status, uninstall):
    service.add_command(_command)


def _options(call: Call, hippo_dir: str | None) -> tuple[str, ...]:
    """Give the words of the command line that the service needs to work on the same home."""
    named = click.get_current_context().find_root().params.get("home")
    home = () if named is None else ("--home", str(Path(named).absolute()))
    db = () if call.db is None else ("--db", str(Path(call.db).absolute()))
    place = hippo_place(call, hippo_dir)
    hippo = () if place is None else ("--hippo-dir", str(place.absolute()))
    return (*home, "serve", *db, *hippo)


def _unit(call: Call, options: tuple[str, ...]) -> "Unit":
    from threadkeep.service.unit_files import serve_command, unit_for

    command_ = serve_command(*options)
    return unit_for(sys.platform, call.home.environ, command_, user=os.getuid())


def _show(call: Call, plan: "UnitPlan", commands: list[tuple[str, ...]], text: str = "") -> None:
    """Show what would be done."""
    if call.as_json:
        document(
            dry_run=True,
            action=plan.action,
            path=plan.unit.path,
            aside=plan.aside,
            text=text,
            commands=commands,
        )
        return
    note(f"would {_WORDS[plan.action]} {plan.unit.path}")
    if text:
        write(text, end="")
    for words in commands:
        note(f"would run {shlex.join(words)}")


_WORDS = {
    "create": "write",
    "change": "replace",
    "keep": "keep",
    "remove": "remove",
    "nothing": "find nothing of ours at",
}


def _tell(call: Call, plan: "UnitPlan", ran: "list[SystemCommand]") -> None:
    if call.as_json:
        document(dry_run=False, action=plan.action, path=plan.unit.path, ran=ran)
        return
    note(f"{plan.unit.path}: {plan.action}")
    if plan.aside is not None:
        note(f"what was there before: {plan.aside}")
    for one in ran:
        if not one.done:
            warn(f"run it yourself: {shlex.join(one.command)}{f' ({one.said})' * bool(one.said)}")


def _show_serving(serving: "ServiceStatus") -> None:
    one = serving.service
    if one is None or not serving.running:
        write("serving\tnobody" + ("" if one is None else f", last {iso(one.heartbeat)}"))
    else:
        told = f"process {one.pid}, version {one.version}, since {iso(one.started_at)}"
        write(f"serving\t{told}{_HINDRANCES[serving.hindrance].format(pid=one.pid)}")
    columns = ("part", "since", "restarts", "crashes", "last error")
    rows = [
        (part.part, iso(part.started_at), str(part.restarts), str(part.crashes), _trouble(part))
        for part in serving.parts
    ]
    if rows and serving.running:
        table(columns, rows)


_HINDRANCES: Final[dict[str, str]] = {
    "": "",
    "stopped": "; it is stopped: kill -CONT {pid}",
    "silent": "; it gives no sign of life: kill {pid}, then start it again",
}


def _trouble(part: "ServicePartState") -> str:
    return part.waits_for or part.last_error or ""

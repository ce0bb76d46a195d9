"""`threadkeep doctor`: what is wrong, why, and the one command that helps."""

from itertools import groupby
from typing import TYPE_CHECKING

import click

from threadkeep import __version__
from threadkeep.cli.command import PROBLEMS, Call, store_command
from threadkeep.cli.output import counted, note, progress, write

if TYPE_CHECKING:
    from threadkeep.service.doctor.doctor import DoctorReport
    from threadkeep.service.doctor.facts import Finding

_SIGNS = {"ok": "[ok]", "info": "[--]", "warn": "[!?]", "fail": "[!!]"}
_STYLES = {"ok": "green", "info": "dim", "warn": "yellow", "fail": "bold red"}


@store_command(
    "doctor",
    "threadkeep doctor",
    "threadkeep doctor --explain",
    "threadkeep doctor --deep --json",
    lists=True,
)
@click.option("--explain", is_flag=True, help="Say why, and what helps, for every finding.")
@click.option("--deep", is_flag=True, help="Also compare every hash and every index; takes longer.")
@click.option("--repair", is_flag=True, help="First make indexes anew, and retry lost work.")
def doctor(call: Call, *, explain: bool, deep: bool, repair: bool) -> int:
    """Look at stores, capture and service, and say what is wrong and what helps.

    A source that is not used is no problem. --db names another knowledge store. Exit code 1 if
    something has failed, 0 otherwise.
    """
    from threadkeep.service.doctor.doctor import diagnose, repair as mend

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
    for group, findings in groupby(found.findings, key=lambda one: one.group):
        write(group, "bold")
        for one in findings:
            _tell_one(one, explain=explain)
    levels = [one.level for one in found.findings]
    told = [f"{levels.count(level)} {level}" for level in _SIGNS if level in levels]
    note(f"{', '.join(told)}; took {found.took_ms / 1000:.1f} s")
    if not explain and found.level in {"warn", "fail"}:
        note("--explain says why, and what helps")


def _tell_one(one: "Finding", *, explain: bool) -> None:
    write(f"  {_SIGNS[one.level]} ", _STYLES[one.level], end="")
    write(f"{one.check}: {one.what}")
    if one.fix and (explain or one.level == "fail"):
        if explain and one.cause:
            write(f"       cause: {one.cause}")
        write(f"       fix:   {one.fix}")
        if explain and one.doc:
            write(f"       doc:   {one.doc}")

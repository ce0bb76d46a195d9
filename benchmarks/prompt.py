"""`prompt`: what the shell hook adds to a prompt, beside asking git as Hippo's hook does.

Real shells in pseudo-terminals. A command that does nothing is entered and the next prompt waited
for, in each shell in turn. Inside the shell a clock stands around the functions of the hook.
"""

import shutil
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.measure import in_turn, percentile
from benchmarks.place import Place
from benchmarks.prompt_shells import BARE, GIT, OURS, shell_at_prompt
from benchmarks.report import NOTHING, Goal, Result, Table, figure

_SHELLS: Final = ("zsh", "bash", "fish")
_LIMIT_MS: Final = 1.0
_numbers: Final = count()
_P99: Final = 0.99
_WARM: Final = 5  # the first prompts read more: the environment is written with the first

Times = dict[str, list[float]]  # way -> milliseconds from Enter to the next prompt


def run(place: Place) -> Result:
    """Enter 200 commands in each shell, bare, with the hook, and with git asked."""
    here = [name for name in _SHELLS if shutil.which(name)]
    missing = [f"prompt: {name} is not here" for name in _SHELLS if name not in here]
    prompts = place.either(200, 40)
    with place.fresh() as folder:
        times = {name: _outside(name, folder, prompts) for name in here}
        inside = {name: _inside(name, folder, prompts) for name in here}
    return Result(
        [_table(times, inside, prompts)],
        [goal for name in here for goal in _goals(name, times[name], inside[name])],
        missing,
    )


def _next_command() -> str:
    """Return a command that does nothing, and that nobody typed before."""
    return f": {next(_numbers)}"


def _outside(name: str, folder: Path, prompts: int) -> Times:
    with ExitStack() as stack:
        shells = {
            way: stack.enter_context(shell_at_prompt(name, way, folder))
            for way in (BARE, OURS, GIT)
        }
        ways = {
            way: lambda shell=shell: shell.run(_next_command()) for way, shell in shells.items()
        }
        in_turn(ways, _WARM)
        found = in_turn(ways, prompts)
    return {way: sorted(seconds * 1e3 for seconds in each) for way, each in found.items()}


def _inside(name: str, folder: Path, prompts: int) -> list[float]:
    """Return the milliseconds in the hook's own functions; none where a shell has no clock."""
    with shell_at_prompt(name, OURS, folder, clock=True) as shell:
        for _ in range(_WARM + prompts):
            shell.run(_next_command())
    lines = [line for file in folder.glob(f"{name}-*/inside") for line in file.open()]
    return sorted(float(line) / 1e3 for line in lines[_WARM + 1 :])


def _table(
    times: Mapping[str, Times], inside: Mapping[str, Sequence[float]], prompts: int
) -> Table:
    columns = ("ms a prompt", "median", "p99", "added, median", "added, p99")
    rows = [row for name in times for row in _rows(name, times[name], inside[name])]
    note = f"{prompts} prompts each, from Enter to the next prompt; the ways of a shell in turn"
    return Table("prompt: what a command that does nothing takes", columns, rows, note)


def _rows(name: str, times: Times, inside: Sequence[float]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [
        (f"{name}: {way}", *_two(median(each), percentile(each, _P99)), *_added(times, way))
        for way, each in times.items()
    ]
    if inside:
        own = _two(median(inside), percentile(inside, _P99))
        rows.append((f"{name}: inside the hook", NOTHING, NOTHING, *own))
    return rows


def _two(middle: float, most: float) -> tuple[str, str]:
    return figure(middle, 2), figure(most, 2)


def _added(times: Times, way: str) -> tuple[str, str]:
    if way == BARE:
        return NOTHING, NOTHING
    return _two(_more(times, way, 0.5), _more(times, way, _P99))


def _more(times: Times, way: str, share: float) -> float:
    return percentile(times[way], share) - percentile(times[BARE], share)


def _goals(name: str, times: Times, inside: Sequence[float]) -> list[Goal]:
    goals = [Goal(f"prompt: {name}, added, median", _LIMIT_MS, _more(times, OURS, 0.5), " ms")]
    for word, share in (("median", 0.5), ("p99", _P99)) if inside else ():
        spent = percentile(inside, share)
        goals.append(Goal(f"prompt: {name}, inside the hook, {word}", _LIMIT_MS, spent, " ms"))
    return goals

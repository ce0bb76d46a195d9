"""What a benchmark gives back, as aligned plain text and as JSON."""

import json
import math
from collections.abc import Mapping, Sequence
from statistics import linear_regression
from typing import Any, NamedTuple

GAP = "  "
NOTHING = "–"


class Table(NamedTuple):
    """A table; the first column is words, the others are figures."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    note: str = ""


class Goal(NamedTuple):
    """Something to stay at or below."""

    what: str
    limit: float
    measured: float
    unit: str = "x"

    @property
    def met(self) -> bool:
        """Tell whether the goal was met in this run."""
        return self.measured <= self.limit


class Growth(NamedTuple):
    """What something costs at several sizes."""

    what: str
    unit: str
    sizes: tuple[int, ...]
    costs: tuple[float, ...]  # microseconds of CPU

    @property
    def exponent(self) -> float:
        """Return the power of the size that the cost rises with: 0 is flat, 1 in proportion."""
        return linear_regression(*(list(map(math.log, each)) for each in self[2:])).slope


class Result(NamedTuple):
    """The tables of one benchmark, the goals it speaks about, and how costs grow."""

    tables: Sequence[Table]
    goals: Sequence[Goal] = ()
    facts: Sequence[str] = ()
    growths: Sequence[Growth] = ()


def figure(value: float, digits: int = 1) -> str:
    """Write a number with thousands apart, or a dash for one that was not measured."""
    return NOTHING if value != value else f"{value:,.{digits}f}"  # noqa: PLR0124  (NaN)


def times(value: float) -> str:
    """Write a ratio."""
    return NOTHING if value != value else f"{value:,.2f}x"  # noqa: PLR0124  (NaN)


def ratio(value: float, base: float) -> float:
    """Divide, and give NaN where there is nothing to divide by."""
    return value / base if base else float("nan")


def aligned(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lay out a table: words to the left, figures to the right."""
    lines = [columns, *rows]
    widths = [max(len(line[place]) for line in lines) for place in range(len(columns))]
    laid = [_laid(line, widths) for line in lines]
    return [laid[0], GAP.join("-" * width for width in widths), *laid[1:]]


def _laid(line: Sequence[str], widths: Sequence[int]) -> str:
    first = line[0].ljust(widths[0])
    rest = (cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True))
    return GAP.join([first, *rest]).rstrip()


def table_text(table: Table) -> str:
    """Return a whole table as text."""
    note = [table.note] if table.note else []
    return "\n".join([table.title, "", *aligned(table.columns, table.rows), *note])


def goals_text(goals: Sequence[Goal]) -> str:
    """Return the goals as a table: what was met, what was missed."""
    rows = [
        (
            goal.what,
            f"{goal.limit:g}{goal.unit}",
            f"{goal.measured:.2f}{goal.unit}",
            "met" if goal.met else "missed",
        )
        for goal in goals
    ]
    return "\n".join(aligned(("goal", "at most", "measured", ""), rows))


def json_text(results: Mapping[str, Result], about: Mapping[str, Any]) -> str:
    """Return all that was measured as JSON; goals with their verdict, growths with exponents."""
    shown = {
        name: {
            "tables": [table._asdict() for table in result.tables],
            "goals": [{**goal._asdict(), "met": goal.met} for goal in result.goals],
            "facts": list(result.facts),
            "growths": [{**one._asdict(), "exponent": one.exponent} for one in result.growths],
        }
        for name, result in results.items()
    }
    return json.dumps({**about, "benchmarks": shown}, indent=2, ensure_ascii=False) + "\n"

"""What a benchmark gives back, as aligned plain text."""

from collections.abc import Sequence
from typing import NamedTuple

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


class Result(NamedTuple):
    """The tables of one benchmark, and the goals it speaks about."""

    tables: Sequence[Table]
    goals: Sequence[Goal] = ()
    facts: Sequence[str] = ()


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
    """Give a whole table as text."""
    note = [table.note] if table.note else []
    return "\n".join([table.title, "", *aligned(table.columns, table.rows), *note])


def goals_text(goals: Sequence[Goal]) -> str:
    """Give the goals as a table: what was met, what was missed."""
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

"""Settings that a command changes in the configuration file, and `threadkeep budget`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from threadkeep.cli.command import Call, home_of, store_command
from threadkeep.cli.output import note, table
from threadkeep.errors import Invalid

if TYPE_CHECKING:
    from threadkeep.home.budget import BudgetState
    from threadkeep.home.home import Home

_MICRO = 1_000_000


def change_settings(home: "Home", section: str, **values: Any) -> Path:
    """Set values of a table of the configuration file, and leave the rest of it as it is."""
    from threadkeep.base.config import DEFAULT_TEXT, parse_config, read_settings
    from threadkeep.cli.mcp_install import put_text
    from threadkeep.cli.mcp_settings import with_toml_values

    path = home.paths().config
    text = read_settings(path) if path.exists() else DEFAULT_TEXT
    after = with_toml_values(text, section, values, str(path))
    parse_config(after, str(path))
    put_text(path, after)
    return path


@store_command(
    "budget", "threadkeep budget", "threadkeep budget 200", "threadkeep budget --day 10", lists=True
)
@click.argument("month", type=float, required=False)
@click.option("--day", type=float, metavar="DOLLARS", help="What a day may cost.")
@click.option("--month", "monthly", type=float, metavar="DOLLARS", help="The same as MONTH.")
def budget(call: Call, *, month: float | None, day: float | None, monthly: float | None) -> None:
    """Set what a MONTH may cost, in dollars; without a number, show budget and spend.

    `usage`, the status line and the page show how much of it is spent. The settings are `day` and
    `month` under [budget] in the configuration file; remove them there to have no budget.
    """
    if month is not None and monthly is not None:
        raise Invalid("the month's budget is given twice", hint="leave out --month")
    given = {"day": day, "month": month if month is not None else monthly}
    wanted = {name: value for name, value in given.items() if value is not None}
    home = call.home
    if wanted:
        path = change_settings(home, "budget", **wanted)
        note(f"wrote {path}")
        home = home_of(click.get_current_context())
    found = _states(home, call.db)
    if call.as_json:
        call.answer("budgets", budgets=found)
        return
    rows = (
        (one.span, f"${one.spent / _MICRO:,.2f}", f"${one.limit / _MICRO:,.2f}", one.level)
        for one in found
    )
    table(("span", "spent", "budget", "state"), rows)
    if not found:
        note("No budget is set; `threadkeep budget 200` sets one for each month")


def _states(home: "Home", db: str | None) -> "tuple[BudgetState, ...]":
    from threadkeep.base.clock import now_ms
    from threadkeep.home.budget import BudgetState, budget_state
    from threadkeep.home.opening import open_browse

    if home.has("knowledge", db):
        with open_browse(home, db) as browse:
            return budget_state(home, browse, now_ms())
    limits = {"day": home.config.budget.day, "month": home.config.budget.month}
    return tuple(
        BudgetState(span, round(dollars * _MICRO), 0, "")  # type: ignore[arg-type]
        for span, dollars in limits.items()
        if dollars is not None
    )

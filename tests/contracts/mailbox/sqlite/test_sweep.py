"""In files: the host's regular look at a session, step by step."""

import pytest

from tests.contracts.mailbox.pair import Pair
from tests.support.mail import MailFactory
from threadkeep.base.tx import Sql


@pytest.fixture
def pair(factory: MailFactory) -> Pair:
    return Pair(factory)


OPEN_ONLY = {
    "inbound": ("answered", "count_due", "to_rearm", "live_row_of_series", "overdue_unclaimed"),
    "outbound": ("claims",),
}


@pytest.mark.parametrize("side", OPEN_ONLY)
def test_a_sweep_costs_what_is_open_not_what_was_ever_said(pair: Pair, side: str) -> None:
    folder = pair.ctx.folder
    file = folder.inbound if side == "inbound" else folder.outbound
    asked = {"now": "", "limit": 1, "series_id": ""}
    with file.read(folder.beside_inbound if side == "inbound" else {}) as tx:
        for name in OPEN_ONLY[side]:
            plan = [
                row[3] for row in tx.all(Sql(f"EXPLAIN QUERY PLAN {file.queries[name]}"), asked)
            ]
            scans = [step for step in plan if step.startswith("SCAN")]
            # A partial index holds open rows only: to scan it is to look at what is open.
            assert all("USING INDEX tk_" in step or "INDEX tk_" in step for step in scans), plan

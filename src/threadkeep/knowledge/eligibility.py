"""Which nodes are shown by default: those without evidence, and those with some that is good.

Evidence is good when it is real and settled: no probe, no session that goes on, no run of CI that
is not over, no memory whose file is gone or whose newer text has taken its place.
"""

from collections.abc import Iterable
from typing import Any, Final

from threadkeep.base.json import encode
from threadkeep.base.tx import Tx
from threadkeep.knowledge.layout import user_version
from threadkeep.knowledge.memory_names import PROBE_REPOSITORY
from threadkeep.knowledge.versions import changes_until

_SETTLED_MS: Final = 90_000


def eligibility(tx: Tx, now: int) -> dict[str, Any]:
    """Give what queries need to tell good evidence, by the version of the file."""
    return {
        "strict": any(change.hides for change in changes_until(user_version(tx))),
        "settled": now - _SETTLED_MS,
        "probe": PROBE_REPOSITORY,
    }


def eligible_nodes(tx: Tx, ids: Iterable[int], now: int) -> set[int]:
    """Give those of some nodes that are shown by default."""
    values = {**eligibility(tx, now), "ids": encode(list(ids))}
    return {row[0] for row in tx.all("eligible_nodes", values)}

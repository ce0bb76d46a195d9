"""When a container counts as stuck: a pure function of what it showed and what it said."""

import math
from collections.abc import Iterable
from typing import Final, Literal

from threadkeep.mailbox.policy import DEFAULT, Policy
from threadkeep.mailbox.records import Claim, ToolState
from threadkeep.mailbox.times import read_moment

StuckReason = Literal["absolute-ceiling", "claim-stuck"]
# The one tool whose caller says beforehand how long it may take.
_PATIENT_TOOL: Final = "Bash"


def stuck_reason(
    now_ms: int,
    heartbeat_ms: int | None,
    tool: ToolState | None,
    claims: Iterable[Claim],
    policy: Policy = DEFAULT,
) -> StuckReason | None:
    """Tell why a running container should be ended, None if it should not.

    Either it showed no sign of life for too long, or none since it took a message that it has
    had for too long. A shell command may take as long as it was announced to.
    """
    declared = declared_ms(tool)
    if heartbeat_ms is not None and now_ms - heartbeat_ms > max(policy.ceiling_ms, declared):
        return "absolute-ceiling"
    longest = max(policy.claim_ms, declared)
    taken = (read_moment(claim.claimed_at) for claim in claims)
    if any(_is_stuck(now_ms, heartbeat_ms, at, longest) for at in taken):
        return "claim-stuck"
    return None


def _is_stuck(now_ms: int, heartbeat_ms: int | None, claimed: int | None, longest: float) -> bool:
    if claimed is None:  # no time at all: it proves nothing
        return False
    alive_since = heartbeat_ms is not None and heartbeat_ms > claimed
    return now_ms - claimed > longest and not alive_since


def declared_ms(tool: ToolState | None) -> float:
    """Give how long the tool that runs now may take by its own word, 0 if that does not count."""
    if tool is None or tool.current_tool != _PATIENT_TOOL:
        return 0
    declared: object = tool.declared_timeout_ms
    if isinstance(declared, float):
        return declared if math.isfinite(declared) else 0
    return declared if isinstance(declared, int) and not isinstance(declared, bool) else 0

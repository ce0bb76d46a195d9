"""Sessions of a messenger that lost their key, and the ones that they go on from."""

from typing import Final

from threadkeep.base.tx import Tx
from threadkeep.state.context import Json, StateContext
from threadkeep.state.rows import refresh_session_hash

# So long after the one fell silent may the other have begun, in seconds.
MAX_GAP: Final = 900.0


def find_orphaned_gateway_sessions(
    _ctx: StateContext, tx: Tx, *, max_gap_s: float | None = None
) -> list[Json]:
    """Give the sessions with messages but no key, each with the one that it goes on from if sure.

    It is sure when the parent has a key, or when exactly one session of the same source and user
    fell silent when this one began. What is not sure is told with the reason.
    """
    gap = MAX_GAP if max_gap_s is None else float(max_gap_s)
    found = [_with_donor(tx, orphan, gap) for orphan in tx.dicts("unkeyed_sessions")]
    claims = [record["donor_id"] for record in found]
    for record in found:
        if record["adoptable"] and claims.count(record["donor_id"]) > 1:
            record["adoptable"] = False
            record["reason"] = "ambiguous: several sessions without a key go on from this one"
    return found


def _with_donor(tx: Tx, orphan: Json, gap: float) -> Json:
    if orphan["parent_session_id"]:
        evidence = "lineage"
        parent = {"id": orphan["parent_session_id"], "source": orphan["source"]}
        donors = tx.all("keyed_parent", parent)
        reason = "" if donors else "its parent has no key of this source either"
    else:
        evidence = "contiguity"
        began = orphan["started_at"] or 0
        params = {
            **{name: orphan[name] for name in ("id", "source", "user_id")},
            "first": began - gap,
            "last": began + gap,
            "before": orphan["last_active"],
        }
        donors = tx.all("keyed_before", params)
        reason = "" if donors else f"no session with a key fell silent within {gap:.0f} s of it"
        if len(donors) > 1:
            donors, reason = [], "ambiguous: several sessions with a key fell silent about then"
    donor = donors[0] if donors else (None, None)
    return {
        "orphan_id": orphan["id"],
        **{name: orphan[name] for name in ("source", "message_count", "started_at", "last_active")},
        "donor_id": donor[0],
        "session_key": donor[1],
        "evidence": evidence if donors else "",
        "adoptable": bool(donors),
        "reason": reason,
    }


def adopt_orphaned_gateway_session(
    ctx: StateContext, tx: Tx, orphan_id: str, donor_id: str
) -> bool:
    """Give a session the key of the one that it goes on from, which ends; False if that is off.

    Looks again in the same transaction: a gateway may have healed one of them meanwhile.
    """
    if not orphan_id or not donor_id or orphan_id == donor_id:
        return False
    if not tx.run("adopt_key", {"id": orphan_id, "donor": donor_id}):
        return False
    tx.run("retire_donor", {"id": donor_id, "now": ctx.clock()})
    if ctx.side:
        refresh_session_hash(tx, orphan_id)
    return True

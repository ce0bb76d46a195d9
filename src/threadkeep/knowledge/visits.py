"""Visits to pages as rows of `browser_events`: once for each page and span of time."""

from hashlib import sha256
from struct import pack, unpack

from threadkeep.base.tx import Tx
from threadkeep.knowledge.commands import NOTHING, WriteResult
from threadkeep.knowledge.observed import Visit


def write_visit(tx: Tx, visit: Visit, now: int) -> WriteResult:
    """Store a visit whose secrets are masked, and its ticket; a longer one replaces a shorter."""
    found = tx.value("visit_by_envelope", {"envelope": visit.envelope_id})
    values = _values(visit, now)
    if found is not None:
        return _lengthen(tx, int(found), values)
    if tx.value("was_forgotten", {"envelope": visit.envelope_id}):
        return NOTHING
    event = tx.insert("insert_visit", values)
    if visit.probe_tag is None:
        tx.run("enqueue_visit", {"event": event, "now": now})
    return WriteResult(event, new=True)


def _lengthen(tx: Tx, event: int, values: dict[str, object]) -> WriteResult:
    if not tx.run("lengthen_visit", values | {"id": event}):
        return NOTHING
    if values["probe_tag"] is None and not tx.value("is_enriched_visit", {"id": event}):
        tx.run("enqueue_visit", {"event": event, "now": values["now"]})
    return WriteResult(event, new=False)


def _single(number: float | None) -> float | None:
    # Hippo holds it in 32 bits; written like that, its rows and ours are equal.
    return None if number is None else float(unpack("f", pack("f", number))[0])


def _values(visit: Visit, now: int) -> dict[str, object]:
    text = visit.extracted_text
    return {
        "at": visit.at,
        "url": visit.url,
        "title": visit.title,
        "domain": visit.domain,
        "dwell": visit.dwell_ms,
        "scroll": _single(visit.scroll_depth),
        "text": text,
        "query": visit.search_query,
        "referrer": visit.referrer,
        "hash": None if text is None else sha256(text.encode("utf-8", "replace")).hexdigest(),
        "envelope": visit.envelope_id,
        "probe_tag": visit.probe_tag,
        "now": now,
    }

"""Whose vectors there are, of which model, and where they stand; the numbers are vectors.py's.

A vector belongs to a node or to a message. It counts only while its owner is there and is still
what the vector was made of; what is left behind is never shown, and `tidy` takes it out.
"""

from array import array
from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Final, Literal

import msgspec

from threadkeep.base.json import encode
from threadkeep.base.tx import Tx
from threadkeep.errors import Conflict
from threadkeep.knowledge.records import EntryRow, to_entry

Kind = Literal["node", "message"]
KINDS: Final[tuple[Kind, ...]] = ("node", "message")
# A node gets its vector right after it is made; one that is this old was left without.
REAPED_AFTER_MS: Final = 900_000
_ANY: Final = (1 << 63) - 1
_TABLES: Final = frozenset({"tk_vector_model", "tk_vector_chunks", "tk_vectors", "tk_vector_old"})
_ID, _SCALE = 8, 4  # bytes


class VectorModel(msgspec.Struct, frozen=True):
    """The model that the vectors of a file come from."""

    model: str
    dimensions: int
    since: int
    stamp: int
    entries_done: int


class NodeText(msgspec.Struct, frozen=True):
    """A node that waits for its vector, and the text to make it of."""

    id: int
    mark: str
    text: str


class Missing(msgspec.Struct, frozen=True):
    """What has no vector yet, the newest first."""

    nodes: tuple[NodeText, ...]
    messages: tuple[EntryRow, ...]


class VectorCounts(msgspec.Struct, frozen=True):
    """How many have a vector, and how many of a kind were looked at."""

    vectors: int
    looked_at: int


class Tidied(msgspec.Struct, frozen=True):
    """What was taken out."""

    vectors: int = 0
    nodes: tuple[int, ...] = ()  # whose vectors were taken out: gone, or not the same any more


class VectorChunk(msgspec.Struct, frozen=True):
    """Vectors as they are stored: three rows of bytes, in step."""

    ids: bytes
    scales: bytes
    numbers: bytes

    def __len__(self) -> int:
        return len(self.ids) // _ID

    def owners(self) -> list[int]:
        """Return whose the vectors are, in order."""
        numbers = array("q")
        numbers.frombytes(self.ids)
        return numbers.tolist()

    def only(self, slots: Sequence[int]) -> "VectorChunk":
        """Keep some of the vectors."""
        width = len(self.numbers) // max(len(self), 1)

        def kept(data: bytes, size: int) -> bytes:
            return b"".join(data[i * size : (i + 1) * size] for i in slots)

        return VectorChunk(
            kept(self.ids, _ID), kept(self.scales, _SCALE), kept(self.numbers, width)
        )

    def with_more(self, more: "VectorChunk") -> "VectorChunk":
        """Put other vectors behind these."""
        return VectorChunk(
            self.ids + more.ids, self.scales + more.scales, self.numbers + more.numbers
        )


def has_vectors(tx: Tx) -> bool:
    """Tell whether a file has our tables for vectors: an older or another program's has not."""
    return tx.tables() >= _TABLES


# ---------------------------------------------------------------------- the model


def vector_model(tx: Tx) -> VectorModel | None:
    """Return the model that the vectors come from; None if there are none."""
    row = tx.one("vector_model") if has_vectors(tx) else None
    return None if row is None else VectorModel(*row)


def drift(tx: Tx, model: str, dimensions: int) -> str:
    """Say in which way the vectors are of another model than this one; empty if they are not."""
    known = vector_model(tx)
    if known is None or (known.model, known.dimensions) == (model, dimensions):
        return ""
    return (
        f"the vectors are of {known.model} with {known.dimensions} numbers,"
        f" the model is now {model} with {dimensions}"
    )


def claim_model(tx: Tx, model: str, dimensions: int, now: int) -> None:
    """Record the model of the first vector; refuse another one later."""
    differs = drift(tx, model, dimensions)
    if differs:
        raise Conflict(differs, hint="rebuild all vectors, or set the old model again")
    if vector_model(tx) is None:
        tx.run("set_vector_model", {"model": model, "dimensions": dimensions, "now": now})


def nodes_without_vector(tx: Tx, before: int) -> int:
    """Count the nodes made until then that have no vector of what they say now."""
    return int(tx.value("count_nodes_without_vector", {"before": before}))


def last_entry(tx: Tx) -> int:
    """Return the number of the newest message there is."""
    return int(tx.value("last_entry"))


def note_complete(tx: Tx, last: int) -> None:
    """Note that every message up to this one has its vector."""
    tx.run("set_entries_done", {"done": last})


def start_over(tx: Tx, model: str, dimensions: int, now: int) -> None:
    """Drop every vector of ours, and continue with another model."""
    tx.run("drop_all_vectors")
    tx.run("drop_all_vector_chunks")
    tx.run("forget_old_vector_chunks")
    tx.run("set_vector_model", {"model": model, "dimensions": dimensions, "now": now})


def count_vectors(tx: Tx) -> dict[Kind, VectorCounts]:
    """Count the vectors of each kind."""
    rows = tx.all("count_vectors") if has_vectors(tx) else []
    return {kind: VectorCounts(vectors, looked_at) for kind, vectors, looked_at in rows}


# ---------------------------------------------------------------------- what is missing


def missing(
    tx: Tx,
    limit: int,
    *,
    made_before: int = _ANY,
    below_node: int = _ANY,
    below_message: int = _ANY,
    whole: bool = False,
) -> Missing:
    """Find nodes and messages without a vector: prompts, answers, summaries; no tool output.

    `made_before` leaves out nodes that somebody may be at work on. With `whole` also messages
    are looked at that were all found to be done before.
    """
    known = vector_model(tx)
    above = 0 if known is None or whole else known.entries_done
    about = {"made_before": made_before, "limit": limit}
    nodes = tx.all("nodes_without_vector", {**about, "below": below_node})
    among = {"above": above, "below": below_message, "limit": limit}
    messages = tx.all("messages_without_vector", among)
    return Missing(tuple(NodeText(*row) for row in nodes), tuple(map(to_entry, messages)))


def still_wanted(tx: Tx, kind: Kind, ids: Iterable[int]) -> dict[int, str]:
    """Of some ids, give those that are there and without a vector, each with its mark."""
    return dict(tx.all(f"wanted_{kind}_vectors", {"ids": _listed(ids)}))


def places(tx: Tx, kind: Kind, ids: Iterable[int]) -> dict[int, int]:
    """Of some ids, give those whose vector counts, each with its chunk."""
    return dict(tx.all(f"places_of_{kind}s", {"ids": _listed(ids)}))


# ---------------------------------------------------------------------- chunks


def put_chunk(tx: Tx, kind: Kind, new: VectorChunk, most: int, now: int) -> int:
    """Store vectors behind the last ones of their kind, or in a new chunk; give its id."""
    stamp = _next_stamp(tx, now)
    last = tx.one("last_vector_chunk", {"kind": kind})
    if last is None or last[1] + len(new) > most:
        return tx.insert("add_vector_chunk", {"kind": kind, **_columns(new, stamp)})
    again = set(new.owners())
    old = VectorChunk(*last[2:])
    slots = [slot for slot, owner in enumerate(old.owners()) if owner not in again]
    kept = old if len(slots) == len(old) else old.only(slots)
    tx.run("change_vector_chunk", {"id": last[0], **_columns(kept.with_more(new), stamp)})
    return int(last[0])


def is_tidy(tx: Tx) -> bool:
    """Tell, without a write, whether `tidy` would find nothing."""
    old = ("vectors_of_no_node", "old_vector_chunks")
    return not has_vectors(tx) or not any(tx.one(name) for name in old)


def tidy(tx: Tx, now: int) -> Tidied:
    """Take out the vectors of nodes and messages that are gone or are not the same any more."""
    if not has_vectors(tx):
        return Tidied()
    nodes = tuple(row[0] for row in tx.all("vectors_of_no_node"))
    for node in nodes:
        tx.run("drop_vector_of_node", {"id": node})
    chunks = tx.all("old_vector_chunks")
    stamp = _next_stamp(tx, now) if chunks else 0
    vectors = sum(_drop_old(tx, number, kind, stamp) for number, kind in chunks)
    tx.run("forget_old_vector_chunks")
    return Tidied(vectors, nodes)


def _drop_old(tx: Tx, number: int, kind: Kind, stamp: int) -> int:
    """Rewrite a chunk with the vectors that count; give how many did not."""
    chunk = VectorChunk(*(tx.one("vector_chunk", {"id": number}) or (b"", b"", b"")))
    owners = chunk.owners()
    place = {"kind": kind, "ids": _listed(owners)}
    live: dict[int, int] = dict(tx.all("chunks_of_vectors", place))
    slots = [slot for slot, owner in enumerate(owners) if live.get(owner) == number]
    if not slots:
        tx.run("drop_vector_chunk", {"id": number})
    elif len(slots) < len(owners):
        tx.run("change_vector_chunk", {"id": number, **_columns(chunk.only(slots), stamp)})
    return len(owners) - len(slots)


def _next_stamp(tx: Tx, now: int) -> int:
    return int(tx.value("stamp_vectors", {"now": now}) or 0)


def _columns(chunk: VectorChunk, stamp: int) -> dict[str, object]:
    return {"count": len(chunk), "stamp": stamp, **msgspec.structs.asdict(chunk)}


def _listed(ids: Iterable[int]) -> str:
    return encode(list(ids))


# ---------------------------------------------------------------------- the contract's own


def contract_model(tx: Tx) -> str:
    """Name the model of the contract's own vectors; empty if there is none."""
    there = "embed_model_meta" in tx.tables()
    return str(tx.value("contract_vector_model") or "") if there else ""


def nodes_without_contract_vector(
    tx: Tx, limit: int, *, made_before: int = _ANY, below: int = _ANY
) -> list[NodeText]:
    """Find nodes that the contract's own table has no vector of, the newest first."""
    if "knowledge_vectors_rowids" not in tx.tables():
        return []
    about = {"limit": limit, "made_before": made_before, "below": below}
    return [NodeText(*row) for row in tx.all("nodes_without_contract_vector", about)]


def without_contract_vector(tx: Tx, ids: Iterable[int]) -> list[int]:
    """Of some ids, give those of nodes that are there and have no such vector."""
    return [row[0] for row in tx.all("wanted_contract_vectors", {"ids": _listed(ids)})]


def commands_of(tx: Tx, nodes: Iterable[int]) -> dict[int, str]:
    """Return the commands that nodes rest on, in one text for each node that has any."""
    rows = tx.all("commands_of_nodes", {"ids": _listed(nodes)})
    grouped = groupby(rows, itemgetter(0))
    return {node: " ; ".join(command for _, command in group) for node, group in grouped}

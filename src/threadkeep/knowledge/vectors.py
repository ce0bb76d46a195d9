"""Vectors: stored in one byte for each number, and searched by looking at all of them.

100,000 vectors of 256 numbers are 26 MB, load in 30 ms and are compared in 7 ms; that is exact, and
needs no index and no extension. A server with pgvector answers the first question of a process
instead, where there are many (server_vectors.py). numpy is loaded by the first vector that is
stored or searched.
"""

import importlib.util
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from threadkeep.base.database import Database
from threadkeep.base.sqlite.upkeep import sqlite_file
from threadkeep.base.tx import Sql, Tx
from threadkeep.errors import Invalid, ThreadkeepError
from threadkeep.knowledge import server_vectors
from threadkeep.knowledge.forget import vectors_are
from threadkeep.knowledge.server_vectors import ServerChunk
from threadkeep.knowledge.vector_rows import (
    KINDS,
    Kind,
    VectorChunk,
    claim_model,
    contract_model,
    places,
    put_chunk,
    still_wanted,
    vector_model,
)

if TYPE_CHECKING:
    from numpy import float32, int8, int64
    from numpy.typing import NDArray

Near = tuple[Kind, int, float]

CONTRACT_DIMENSIONS: Final = 768
_CHUNK_BYTES: Final = 1 << 19
_FEWEST: Final = 64  # vectors of a chunk, however long they are
_BLOCK: Final = (
    512  # rows turned to floats at once: they stay in the cache, 9 ms; all at once 28 ms
)
_STEPS: Final = 127
_SPARE: Final = 32  # candidates more than asked for: some may be of what is gone

_CREATE_CONTRACT: Final = (
    "CREATE VIRTUAL TABLE knowledge_vectors USING vec0("
    "knowledge_node_id INTEGER PRIMARY KEY,"
    f" vec_knowledge FLOAT[{CONTRACT_DIMENSIONS}] distance_metric=cosine,"
    f" vec_command FLOAT[{CONTRACT_DIMENSIONS}] distance_metric=cosine)"
)
_CREATE_CONTRACT_MODEL: Final = (
    "CREATE TABLE embed_model_meta (id INTEGER PRIMARY KEY CHECK (id = 1), model TEXT NOT NULL)"
)


# ---------------------------------------------------------------------- storing


def quantise(vectors: Sequence[bytes], dimensions: int) -> tuple[bytes, bytes]:
    """Round vectors to one byte for each number; give their scales and their numbers.

    The scales bring each rounded vector to length one, so that a product is a cosine.
    """
    import numpy as np  # noqa: PLC0415  (loaded when a vector is stored)

    if any(len(vector) != 4 * dimensions for vector in vectors):
        msg = f"a vector does not have {dimensions} numbers"
        raise Invalid(msg, hint="give the vectors of one model only")
    values = np.frombuffer(b"".join(vectors), "<f4").reshape(len(vectors), dimensions)
    largest = np.abs(values).max(axis=1, initial=0.0)
    if not (np.isfinite(largest) & (largest > 0)).all():
        msg = "a vector has no direction, or a value that is not a number"
        raise Invalid(msg, hint="check the model that made it")
    whole = np.rint(values / largest[:, None] * np.float32(_STEPS)).astype(np.int8)
    lengths = np.linalg.norm(whole.astype(np.float32), axis=1)
    return (1 / lengths).astype("<f4").tobytes(), whole.tobytes()


def store_vectors(
    tx: Tx,
    kind: Kind,
    vectors: Sequence[tuple[int, str, bytes]],
    *,
    model: str,
    dimensions: int,
    now: int,
) -> int:
    """Store vectors: of each owner its id, its mark and the bytes; give how many were stored.

    Owners that are gone, have changed, or got theirs from another process are passed over. No
    bytes mean that the model found nothing in the text: that is kept, so nobody asks again.
    """
    claim_model(tx, model, dimensions, now)
    wanted = still_wanted(tx, kind, (owner for owner, _, _ in vectors))
    taken = [(o, mark, vector) for o, mark, vector in vectors if wanted.get(o) == mark]
    chunks: dict[int, int] = {}
    most = max(_FEWEST, _CHUNK_BYTES // dimensions)
    full = [(owner, vector) for owner, _, vector in taken if vector]
    for first in range(0, len(full), most):
        some = full[first : first + most]
        chunk = _chunk(some, dimensions)
        number = put_chunk(tx, kind, chunk, most, now)
        chunks.update((owner, number) for owner, _ in some)
    for owner, mark, _ in taken:
        place = {"kind": kind, "id": owner, "mark": mark, "chunk": chunks.get(owner)}
        tx.run("put_vector", place)
    return len(taken)


def _chunk(vectors: Sequence[tuple[int, bytes]], dimensions: int) -> VectorChunk:
    scales, numbers = quantise([vector for _, vector in vectors], dimensions)
    ids = b"".join(owner.to_bytes(8, "little", signed=True) for owner, _ in vectors)
    return VectorChunk(ids, scales, numbers)


# ---------------------------------------------------------------------- searching


class _Loaded(NamedTuple):
    """A chunk in memory; the arrays look into the bytes that SQLite gave."""

    kind: Kind
    stamp: int
    ids: "NDArray[int64]"
    order: "NDArray[int64]"  # of the ids, by size
    scales: "NDArray[float32]"
    numbers: "NDArray[int8]"


class VectorIndex:
    """The vectors of one open file, kept in memory and loaded again where they changed.

    It knows vectors of one model only: while the file has those of another, it finds nothing.
    """

    def __init__(self, model: str) -> None:
        self.model = model
        self._guard = threading.Lock()
        self._stamp = -1
        self._dimensions = 0
        self._chunks: dict[int, _Loaded] = {}
        self._there: dict[int, ServerChunk] = {}  # compared by the server, for the first question
        self._first: Tx | None = None

    def nearest(
        self, tx: Tx, vector: bytes, *, kinds: Collection[Kind] = KINDS, limit: int = 50
    ) -> list[Near]:
        """Find what is most alike: kind, id and cosine, the nearest first.

        A vector of another length, or without a direction, is near nothing.
        """
        here, there = self._refresh(tx)
        chunks = {n: c for n, c in here.items() if c.kind in kinds}
        others = {n: c for n, c in there.items() if c.kind in kinds}
        query = self._direction(vector)
        if query is None or not (chunks or others) or limit <= 0:
            return []
        return _best_live(tx, chunks, others, query, limit)

    def similarities(
        self, tx: Tx, vector: bytes, kind: Kind, ids: Iterable[int]
    ) -> dict[int, float]:
        """Return the cosine of each of some nodes or messages that has a vector."""
        chunks, there = self._refresh(tx)
        query = self._direction(vector)
        if query is None or not (chunks or there):
            return {}
        found: dict[int, float] = {}
        wanted: dict[int, list[int]] = {}
        where = places(tx, kind, ids)
        for owner, number in where.items():
            wanted.setdefault(number, []).append(owner)
        for number in wanted.keys() & chunks.keys():
            found.update(_compare_some(chunks[number], query, wanted[number]))
        asked = wanted.keys() & there.keys()
        if asked:
            owners = [owner for number in asked for owner in wanted[number]]
            rows = server_vectors.cosines(tx, query.tolist(), asked, owners)
            found.update((owner, cosine) for owner, n, cosine in rows if where[owner] == n)
        return found

    def count(self, tx: Tx) -> int:
        """Tell how many vectors can be compared."""
        here, there = self._refresh(tx)
        return sum(len(one.ids) for one in here.values()) + sum(
            one.vectors for one in there.values()
        )

    def _refresh(self, tx: Tx) -> tuple[dict[int, _Loaded], dict[int, ServerChunk]]:
        """Return what is compared here, and what the server compares.

        It does so for the first transaction alone: who asks again has them in memory.
        """
        with self._guard:
            known = vector_model(tx)
            if known is None or known.model != self.model:
                self._stamp, self._chunks, self._there = -1, {}, {}
            elif known.stamp != self._stamp or (self._there and tx is not self._first):
                self._first = self._first or tx
                self._there = server_vectors.chunks_there(tx) if tx is self._first else {}
                self._chunks = self._reload(tx, known.dimensions)
                self._stamp, self._dimensions = known.stamp, known.dimensions
            return self._chunks, self._there

    def _reload(self, tx: Tx, dimensions: int) -> dict[int, _Loaded]:
        """Load the chunks that are new or changed; the others are kept."""
        chunks = {}
        for number, kind, stamp in tx.all("vector_chunk_stamps"):
            if number in self._there:
                continue
            old = self._chunks.get(number)
            same = old is not None and old.stamp == stamp and old.numbers.shape[1] == dimensions
            loaded = old if same else _load(tx, number, kind, stamp, dimensions)
            if loaded is not None:
                chunks[number] = loaded
        return chunks

    def _direction(self, vector: bytes) -> "NDArray[float32] | None":
        import numpy as np  # noqa: PLC0415  (loaded when a vector is searched)

        if not vector or len(vector) != 4 * self._dimensions:
            return None
        query = np.frombuffer(vector, "<f4").astype(np.float64)
        length = float(np.linalg.norm(query))
        usable = np.isfinite(length) and length > 0
        return (query / length).astype(np.float32) if usable else None


def _load(tx: Tx, number: int, kind: Kind, stamp: int, dimensions: int) -> _Loaded | None:
    import numpy as np  # noqa: PLC0415  (loaded when a vector is searched)

    row = tx.one("vector_chunk", {"id": number}) or (b"", b"", b"")
    count = len(row[0]) // 8
    if count == 0 or [*map(len, row)] != [8 * count, 4 * count, dimensions * count]:
        return None  # another program wrote into it: its vectors are not there for us
    ids, scales = np.frombuffer(row[0], "<i8"), np.frombuffer(row[1], "<f4")
    numbers = np.frombuffer(row[2], np.int8).reshape(count, dimensions)
    return _Loaded(kind, stamp, ids, np.argsort(ids), scales, numbers)


def _compare(chunk: _Loaded, query: "NDArray[float32]") -> "NDArray[float32]":
    """Return the cosine of every vector of a chunk with one other."""
    import numpy as np  # noqa: PLC0415  (loaded when a vector is searched)

    scores = np.empty(len(chunk.ids), np.float32)
    floats = np.empty((_BLOCK, len(query)), np.float32)
    for first in range(0, len(scores), _BLOCK):
        some = chunk.numbers[first : first + _BLOCK]
        np.copyto(floats[: len(some)], some)
        np.dot(floats[: len(some)], query, out=scores[first : first + len(some)])
    scores *= chunk.scales
    return scores


def _compare_some(
    chunk: _Loaded, query: "NDArray[float32]", owners: Sequence[int]
) -> Iterable[tuple[int, float]]:
    import numpy as np  # noqa: PLC0415  (loaded when a vector is searched)

    where = np.searchsorted(chunk.ids, owners, sorter=chunk.order)
    slots = chunk.order[np.minimum(where, len(chunk.order) - 1)]
    slots = slots[chunk.ids[slots] == owners]  # one that came after this chunk was loaded is not
    scores = (chunk.numbers[slots].astype(np.float32) @ query) * chunk.scales[slots]
    return zip(chunk.ids[slots].tolist(), scores.tolist(), strict=True)


def _best_live(
    tx: Tx,
    here: dict[int, _Loaded],
    there: dict[int, ServerChunk],
    query: "NDArray[float32]",
    limit: int,
) -> list[Near]:
    """Take the best whose vector still counts; ask about more of them until there are enough."""
    import numpy as np  # noqa: PLC0415  (loaded when a vector is searched)

    none = np.empty(0, np.int64)
    flat = np.concatenate([none.astype(np.float32), *(_compare(c, query) for c in here.values())])
    ids = np.concatenate([none, *(chunk.ids for chunk in here.values())])
    sizes = [len(chunk.ids) for chunk in here.values()]
    numbers = np.repeat(np.array(list(here), np.int64), sizes)
    kinds = {number: chunk.kind for number, chunk in here.items()}
    kinds |= {number: chunk.kind for number, chunk in there.items()}
    total = len(flat) + sum(chunk.vectors for chunk in there.values())
    asked = limit + _SPARE
    while True:
        order = _highest(flat, asked)
        best = [
            *zip(ids[order].tolist(), numbers[order].tolist(), flat[order].tolist(), strict=True)
        ]
        if there:
            best += server_vectors.nearest(tx, query.tolist(), there, asked)
            best = sorted(best, key=lambda one: -one[2])[:asked]
        live = _live(tx, kinds, [(owner, number) for owner, number, _ in best])
        near = [
            (kinds[number], owner, score)
            for (owner, number, score), counts in zip(best, live, strict=True)
            if counts
        ]
        if len(near) >= limit or asked >= total:
            return near[:limit]
        asked *= 4


def _highest(scores: "NDArray[float32]", count: int) -> "NDArray[int64]":
    import numpy as np  # noqa: PLC0415  (loaded when a vector is searched)

    if count >= len(scores):
        return np.argsort(-scores, kind="stable")
    some = np.argpartition(-scores, count)[:count]
    return some[np.argsort(-scores[some], kind="stable")]


def _live(tx: Tx, kinds: Mapping[int, Kind], pairs: Sequence[tuple[int, int]]) -> list[bool]:
    """Tell of each candidate whether its owner is there and has its vector just here."""
    where = {
        kind: places(tx, kind, (owner for owner, n in pairs if kinds[n] == kind))
        for kind in {kinds[n] for _, n in pairs}
    }
    return [where[kinds[number]].get(owner) == number for owner, number in pairs]


# ---------------------------------------------------------------------- the contract's own table


def load_extension(database: Database) -> str:
    """Load sqlite-vec into the connection that writes; say why not, or nothing."""
    spec = importlib.util.find_spec("sqlite_vec")
    if spec is None or spec.origin is None:
        return "sqlite-vec is not installed, so knowledge_vectors is left alone"
    try:
        loaded = sqlite_file(database).extend(str(Path(spec.origin).with_name("vec0")))
    except ThreadkeepError as error:
        return f"sqlite-vec cannot be loaded, so knowledge_vectors is left alone: {error}"
    if not loaded:
        return "this Python cannot load extensions of SQLite, so knowledge_vectors is left alone"
    return ""


def unlock(database: Database) -> bool:
    """Make the contract's vectors writable, where a file has some; tell whether they are."""
    with database.read() as tx:
        if not vectors_are(tx, "locked"):
            return True
    return not load_extension(database)


def open_contract_vectors(tx: Tx, model: str) -> str:
    """Make the contract's own table ready for a model; say why it cannot be used, or nothing."""
    if tx.value("has_module", {"name": "vec0"}) is None:
        return "sqlite-vec is not loaded"
    there = tx.tables()
    if "embed_model_meta" not in there:
        tx.run(Sql(_CREATE_CONTRACT_MODEL))
    other = contract_model(tx)
    if other not in ("", model):
        return f"knowledge_vectors has vectors of {other}, the model is now {model}"
    if "knowledge_vectors" not in there:
        tx.run(Sql(_CREATE_CONTRACT))
    tx.run("set_contract_vector_model", {"model": model})
    return ""


def store_contract_vector(tx: Tx, node: int, knowledge: bytes, command: bytes) -> None:
    """Store both vectors of a node in the contract's own table, in place of older ones."""
    if not len(knowledge) == len(command) == 4 * CONTRACT_DIMENSIONS:
        msg = f"the contract's vectors have {CONTRACT_DIMENSIONS} numbers"
        raise Invalid(msg, hint="use a model with that many")
    tx.run("drop_vector", {"id": node})
    tx.run("put_contract_vector", {"id": node, "knowledge": knowledge, "command": command})


def tidy_contract_vectors(tx: Tx, changed: Iterable[int] = ()) -> int:
    """Take vectors of nodes that are gone, or have changed, out of the contract's own table."""
    if "knowledge_vectors_rowids" not in tx.tables():
        return 0
    if tx.value("has_module", {"name": "vec0"}) is None:
        return 0
    old = {row[0] for row in tx.all("contract_vectors_of_nobody")} | set(changed)
    for node in old:
        tx.run("drop_vector", {"id": node})
    return len(old)

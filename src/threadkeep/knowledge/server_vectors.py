"""Vectors that a PostgreSQL server with pgvector compares itself.

A program that asks one question and ends would read every vector first: 100,000 of 256 numbers are
27 MB, 0.14 s from the same machine, 0.6 over 1 Gbit/s, 2.6 over 100 Mbit/s; asking the server took
0.1 to 0.2 s. Who asks more often reads them once, and then compares them in 0.04 s.
Its rows are made of the chunks (`with_vector.sql`), which stay the truth: what has no rows yet, on
whichever server, is compared here. The numbers are the same, and so is the order.
"""

from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

from threadkeep.base.tx import Sql, Tx
from threadkeep.knowledge.vector_rows import Kind, VectorChunk

_FEW: Final = 20_000  # vectors that are read faster than they are compared there
_TABLE: Final = "tk_vector_rows"
_WITH_ROWS: Final = """
SELECT id, kind, count FROM tk_vector_chunks AS c
WHERE EXISTS (SELECT 1 FROM tk_vector_rows AS r WHERE r.chunk = c.id)"""
_WITHOUT_ROWS: Final = """
SELECT id FROM tk_vector_chunks AS c WHERE count > 0
AND NOT EXISTS (SELECT 1 FROM tk_vector_rows AS r WHERE r.chunk = c.id) ORDER BY id"""
_FILL: Final = """
INSERT INTO tk_vector_rows (chunk, slot, id, v)
SELECT CAST(:chunk AS bigint), one.slot, one.id, CAST(one.v AS {vector}.halfvec)
FROM unnest(CAST(:ids AS bigint[]), CAST(:vectors AS text[]))
  WITH ORDINALITY AS one (id, v, slot)"""
# As vectors of 32-bit numbers: a question rounded to 16 would have another order.
_COSINE: Final = """
SELECT r.id, r.chunk,
  1 - (CAST(r.v AS {vector}.vector) OPERATOR({vector}.<=>) CAST(:v AS {vector}.vector)) AS cosine
FROM tk_vector_rows AS r WHERE r.chunk = ANY (CAST(:chunks AS bigint[]))"""
_NEAREST: Final = f"{_COSINE} ORDER BY cosine DESC, r.chunk, r.slot LIMIT :limit"
_SOME: Final = f"{_COSINE} AND r.id = ANY (CAST(:ids AS bigint[]))"
_SCHEMA: Final = """
SELECT quote_ident(nspname) FROM pg_extension JOIN pg_namespace AS n ON n.oid = extnamespace
WHERE extname = 'vector'"""


class ServerChunk(NamedTuple):
    """A chunk that the server compares: of what, and how many vectors it has."""

    kind: Kind
    vectors: int


def chunks_there(tx: Tx) -> dict[int, ServerChunk]:
    """Return the chunks that the server compares; none if they are few, or it cannot."""
    if not _can(tx):
        return {}
    found = {number: ServerChunk(*rest) for number, *rest in tx.all(Sql(_WITH_ROWS))}
    return found if sum(one.vectors for one in found.values()) > _FEW else {}


def nearest(
    tx: Tx, vector: Iterable[float], chunks: Collection[int], limit: int
) -> list[tuple[int, int, float]]:
    """Return what is most alike: id, chunk and cosine, the nearest first."""
    asked = {"v": _vector(vector), "chunks": _array(chunks), "limit": limit}
    return [(i, c, s) for i, c, s in tx.all(_sql(tx, _NEAREST), asked)]


def cosines(
    tx: Tx, vector: Iterable[float], chunks: Collection[int], ids: Collection[int]
) -> list[tuple[int, int, float]]:
    """Return id, chunk and cosine of some vectors."""
    asked = {"v": _vector(vector), "chunks": _array(chunks), "ids": _array(ids)}
    return [(i, c, s) for i, c, s in tx.all(_sql(tx, _SOME), asked)]


def chunks_to_fill(tx: Tx) -> list[int]:
    """Return the chunks that have no rows yet, on a server that could compare them."""
    return [row[0] for row in tx.all(Sql(_WITHOUT_ROWS))] if _can(tx) else []


def fill(tx: Tx, number: int) -> None:
    """Make the rows of a chunk that has none."""
    chunk = VectorChunk(*(tx.one("vector_chunk", {"id": number}) or (b"", b"", b"")))
    width = len(chunk.numbers) // max(len(chunk), 1)
    whole = memoryview(chunk.numbers).cast("b")
    vectors = (
        _array(whole[place : place + width]) for place in range(0, len(chunk) * width, width or 1)
    )
    listed = ",".join(f'"[{one[1:-1]}]"' for one in vectors)
    rows = {"chunk": number, "ids": _array(chunk.owners()), "vectors": f"{{{listed}}}"}
    tx.run(_sql(tx, _FILL), rows)


def _can(tx: Tx) -> bool:
    return tx.engine == "postgres" and _TABLE in tx.tables()


def _sql(tx: Tx, text: str) -> Sql:
    return Sql(text.replace("{vector}", str(tx.kept("vector", lambda: tx.value(Sql(_SCHEMA))))))


def _array(values: Iterable[float]) -> str:
    return "{" + ",".join(map(str, values)) + "}"


def _vector(values: Iterable[float]) -> str:
    return "[" + ",".join(map(repr, values)) + "]"

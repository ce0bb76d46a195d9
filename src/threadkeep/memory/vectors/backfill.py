"""Making the vectors that are missing, a batch at a time, and taking out those of nobody.

Each batch is one transaction: a process that dies leaves whole batches behind, and the next one
continues from there. Two processes that make the same batch store it once.
"""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from threadkeep.base.tx import Tx
from threadkeep.knowledge.archived import ArchivedEntries
from threadkeep.knowledge.records import EntryRow, Readers
from threadkeep.knowledge.server_vectors import chunks_to_fill, fill
from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.knowledge.vector_rows import (
    Kind,
    NodeText,
    commands_of,
    contract_model,
    missing,
    nodes_without_contract_vector,
    tidy,
    without_contract_vector,
)
from threadkeep.knowledge.vectors import (
    CONTRACT_DIMENSIONS,
    load_extension,
    store_contract_vector,
    store_vectors,
    tidy_contract_vectors,
)
from threadkeep.memory.records import Embedder

# ------------------------------------------------------------------------------
# The texts of messages for their vectors.

TextsOf = Callable[[Tx, Sequence[EntryRow]], Sequence[str]]


def archived_texts(sources: Readers) -> TextsOf:
    """Return a function that reads the texts of entries, empty where there is none any more."""

    def texts(tx: Tx, rows: Sequence[EntryRow]) -> list[str]:
        archive = ArchivedEntries(tx, sources)
        in_order = sorted(rows, key=lambda row: (row.log_id, row.line))
        found = {row.id: archive.text(row) for row in in_order}
        return [found[row.id] for row in rows]

    return texts


BATCH: Final = 256
_NO_END: Final = (1 << 63) - 1


class EmbedReport(msgspec.Struct):
    """What one run did."""

    nodes: int = 0
    messages: int = 0
    contract_nodes: int = 0  # in the contract's own table
    removed: int = 0  # vectors of what is gone
    complete: bool = False  # nothing is missing any more
    drift: str = ""  # why nothing was made: the vectors are of another model
    note: str = ""  # why the contract's own table was left alone


Show = Callable[[EmbedReport], None]
Stop = Callable[[], bool]


def embed_pending(
    store: KnowledgeStore,
    embedder: Embedder,
    texts_of: TextsOf,
    *,
    limit: int | None = None,
    settle_ms: int = 0,
    whole: bool = False,
    stop: Stop = lambda: False,
    show: Show = lambda _: None,
) -> EmbedReport:
    """Make the vectors that are missing: nodes first, then messages, the newest first.

    `settle_ms` leaves out nodes that are younger, `whole` looks at every message again. With
    vectors of another model in the file nothing is made, and the report says so.
    """
    done = EmbedReport()
    done.drift = store.indexes.drift(embedder.model, embedder.dimensions)
    if done.drift:
        return done
    run = _Run(store, embedder, texts_of, settle_ms, stop, show, done)
    enough = _NO_END if limit is None else limit
    _open_contract(run)
    _tidy(run)
    _fill_contract(run, enough)
    done.complete = _fill_nodes(run, enough) and _fill_messages(run, enough, whole=whole)
    _fill_server(run)
    return done


def embed_anew(store: KnowledgeStore, embedder: Embedder) -> None:
    """Drop every vector of ours and record another model; `embed_pending` does the rest."""
    store.indexes.start_over(embedder.model, embedder.dimensions, store.clock())


class _Run(msgspec.Struct, frozen=True):
    store: KnowledgeStore
    embedder: Embedder
    texts_of: TextsOf
    settle_ms: int
    stop: Stop
    show: Show
    done: EmbedReport

    @property
    def made_before(self) -> int:
        return self.store.clock() - self.settle_ms if self.settle_ms else _NO_END

    def make(self, kind: Kind, owners: Sequence[tuple[int, str]], texts: Sequence[str]) -> int:
        """Make and store the vectors of a batch; the texts are read and made outside of a write."""
        vectors = self.embedder.embed(texts)
        rows = [(o, mark, v) for (o, mark), v in zip(owners, vectors, strict=True)]
        model, dimensions = self.embedder.model, self.embedder.dimensions
        with self.store.write() as tx:
            now = self.store.clock()
            return store_vectors(tx, kind, rows, model=model, dimensions=dimensions, now=now)


def _tidy(run: _Run) -> None:
    """Take out what is old; a node whose text has changed gets new vectors in both tables."""
    if run.store.indexes.is_tidy():
        return
    with run.store.write() as tx:
        tidied = tidy(tx, run.store.clock())
        tidy_contract_vectors(tx, tidied.nodes)
    run.done.removed = tidied.vectors


def _fill_nodes(run: _Run, enough: int) -> bool:
    """Go through the nodes once; True if none was left out."""
    below = _NO_END
    while not run.stop() and run.done.nodes < enough:
        most, before = min(BATCH, enough - run.done.nodes), run.made_before
        nodes = run.store.indexes.missing_vectors(
            most, made_before=before, below_node=below, below_message=0
        ).nodes
        if not nodes:
            return True
        below = nodes[-1].id
        owners = [(node.id, node.mark) for node in nodes]
        run.done.nodes += run.make("node", owners, [node.text for node in nodes])
        run.show(run.done)
    return False


def _fill_messages(run: _Run, enough: int, *, whole: bool) -> bool:
    """Go through the messages once; what was complete is not looked at the next time."""
    below = _NO_END
    last = run.store.indexes.last_entry()
    while not run.stop() and run.done.nodes + run.done.messages < enough:
        most = min(BATCH, enough - run.done.nodes - run.done.messages)
        with run.store.read() as tx:
            rows = missing(tx, most, below_node=0, below_message=below, whole=whole).messages
            texts = run.texts_of(tx, rows)
        if not rows:
            _remember(run, last)
            return True
        below = rows[-1].id
        run.done.messages += run.make("message", [(row.id, "") for row in rows], texts)
        run.show(run.done)
    return False


def _fill_server(run: _Run) -> None:
    """Let a server that can compare vectors have those that are new, a chunk at a time."""
    with run.store.read() as tx:
        chunks = chunks_to_fill(tx)
    for number in chunks:
        if run.stop():
            return
        with run.store.write() as tx:
            if number in chunks_to_fill(tx):  # nobody else has
                fill(tx, number)


def _remember(run: _Run, last: int) -> None:
    known = run.store.indexes.vector_model()
    if known is not None and known.entries_done < last:
        run.store.indexes.note_complete(last)


# ---------------------------------------------------------------------- the contract's own table


def _open_contract(run: _Run) -> None:
    if run.embedder.dimensions == CONTRACT_DIMENSIONS:
        run.done.note = load_extension(run.store.database)
        if not run.done.note:
            run.done.note = run.store.indexes.open_contract_vectors(run.embedder.model)


def _fill_contract(run: _Run, enough: int) -> None:
    """Give nodes their two vectors in the contract's own table, where model and Python allow."""
    usable = run.embedder.dimensions == CONTRACT_DIMENSIONS and not run.done.note
    below = _NO_END
    while usable and not run.stop() and run.done.contract_nodes < enough:
        with run.store.read() as tx:
            most = min(BATCH, enough - run.done.contract_nodes)
            before = run.made_before
            nodes = nodes_without_contract_vector(tx, most, made_before=before, below=below)
            commands = commands_of(tx, (node.id for node in nodes))
        if not nodes:
            return
        below = nodes[-1].id
        _store_contract(run, nodes, commands)
        run.show(run.done)


def _store_contract(run: _Run, nodes: Sequence[NodeText], commands: dict[int, str]) -> None:
    knowledge = run.embedder.embed([node.text for node in nodes])
    command = run.embedder.embed([commands.get(node.id, node.text) for node in nodes])
    both = {n.id: pair for n, *pair in zip(nodes, knowledge, command, strict=True) if all(pair)}
    with run.store.write() as tx:
        if contract_model(tx) != run.embedder.model:
            return  # another program has gone over to another model meanwhile
        there = without_contract_vector(tx, both)
        for node in there:
            store_contract_vector(tx, node, *both[node])
        run.done.contract_nodes += len(there)

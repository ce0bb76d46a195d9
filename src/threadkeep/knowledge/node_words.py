"""The contract's index of the words in nodes, where no trigger of SQLite's can fill it."""

from collections.abc import Iterator

import msgspec

from threadkeep.base.text import decoded
from threadkeep.base.tx import Row, Tx
from threadkeep.knowledge.schema import NODE_WORDS


def index_node(tx: Tx, number: int) -> None:
    """Index what a node says now, or take it out of the index if it is gone."""
    if NODE_WORDS.needs_us(tx):
        row = tx.one("words_of_node", {"id": number})
        NODE_WORDS.remove(tx, [number])
        NODE_WORDS.put(tx, [] if row is None else [(number, _text(row))])


def rebuild_node_words(tx: Tx) -> None:
    """Write the index of nodes again: nothing of what was taken out or masked stays in it."""
    NODE_WORDS.rebuild(tx, _texts(tx))


def _texts(tx: Tx) -> Iterator[tuple[int, str]]:
    for row in tx.all("words_of_nodes"):
        yield row[0], _text(row)


def _text(row: Row) -> str:
    """Return the text of a node: its summary stands in the index for itself, and in the content."""
    embed_text, content = decoded(row[1]), decoded(row[2])
    return f"{_summary(content)}\n{embed_text}\n{content}"


def _summary(content: str) -> str:
    try:
        found = msgspec.json.decode(content)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return ""
    said = found.get("summary") if isinstance(found, dict) else None
    return said if isinstance(said, str) else ""

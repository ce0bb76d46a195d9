"""Memory for a prompt: a fenced block that says of each item where it is from and how old it is."""

from collections.abc import Callable
from typing import Final

from threadkeep.base.fts import snippet
from threadkeep.errors import NotFound
from threadkeep.recall.fence import FenceItem, fenced, new_fence_id
from threadkeep.recall.records import Filters, Hit
from threadkeep.recall.remembering import MemoryReader
from threadkeep.recall.wording import ago, label_of

_ITEM_CHARACTERS: Final = 700

NewId = Callable[[], str]


def context(
    memory: MemoryReader,
    query: str,
    filters: Filters = Filters(),  # noqa: B008  (a constant)
    *,
    limit: int = 8,
    max_chars: int = 4000,
    new_id: NewId = new_fence_id,
) -> str:
    """Give what is remembered about something as a block for a prompt, empty if nothing is."""
    now = memory.store.context.clock()
    items = [
        _item(memory, hit, query, now) for hit in memory.recall(query, filters, limit=limit).hits
    ]
    return fenced(items, new_id(), max_chars)


def _item(memory: MemoryReader, hit: Hit, query: str, now: int) -> FenceItem:
    try:
        text = memory.open(hit.ref, 0).text
    except NotFound:  # forgotten a moment ago
        text = ""
    told = (label_of(hit), hit.harness, hit.project, ago(hit.at, now), hit.source, hit.ref)
    return FenceItem(" · ".join(one for one in told if one), _cut(text, query))


def _cut(text: str, query: str) -> str:
    return snippet(text.strip(), query, _ITEM_CHARACTERS, ("", ""))

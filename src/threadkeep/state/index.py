"""The two full-text indexes of a state file: taken out of the way, built anew, checked.

The contract's index, `messages_fts`, is filled by triggers inside the transaction of a message;
ours, `tk_search`, later (see drain.py). Neither holds anything that the messages do not.
"""

from collections.abc import Callable
from typing import Final

from threadkeep.base.fts import FullTextError, index_words
from threadkeep.base.tx import Tx
from threadkeep.errors import ThreadkeepError
from threadkeep.state.context import StateContext
from threadkeep.state.drain import drain, parts_of
from threadkeep.state.index_text import index_text_of
from threadkeep.state.layout import SIDE, created_by
from threadkeep.state.side import build_index, drop_index
from threadkeep.state.versions import V6

TRIGGERS: Final = frozenset({"messages_fts_insert", "messages_fts_delete", "messages_fts_update"})
_REPAIR: Final = "run reindex()"
_FORMATS: Final = (4, 5)  # the file formats of FTS5; 5 has the option secure-delete

# Errors that have nothing to do with an index, by SQLite's plain code: no memory, interrupted, a
# lock, a file that cannot be written or read, a full disk, a value too large or of a wrong type.
_NOT_INDEX: Final = frozenset({4, 5, 6, 7, 8, 9, 10, 13, 14, 15, 18, 20, 21, 22, 23, 26})
# And broken rules of the contract's tables: CHECK, FOREIGN KEY, NOT NULL, PRIMARY KEY, UNIQUE,
# ROWID, and the type of a column.
_RULES: Final = frozenset({275, 787, 1299, 1555, 2067, 2579, 3091})


# ---------------------------------------------------------------------- damage


def blames_index(error: ThreadkeepError) -> bool:
    """Tell whether an error of a write may come from an index: it came from SQLite, unexplained."""
    code = getattr(error.__cause__, "sqlite_errorcode", None)
    return isinstance(code, int) and code not in _RULES and code & 0xFF not in _NOT_INDEX


def detach_index(ctx: StateContext, tx: Tx) -> bool:
    """Take the contract's triggers out, so that messages can be stored; False if there are none.

    A file that is Hermes's own is told in Hermes's way, so that Hermes builds its index anew.
    """
    triggers = [str(row[0]) for row in tx.all("triggers_of_index")]
    for trigger in triggers:
        tx.execute(f'DROP TRIGGER "{trigger}"')
    if triggers and not ctx.side and "state_meta" in ctx.form.tables:
        tx.run("distrust_index")
    return bool(triggers)


def warn_of_damage(ctx: StateContext, why: object) -> None:
    """Say once per store that the index fails, whoever finds out first: a write or a search."""
    ctx.notices.warn(
        "index",
        "the full-text index of %s is damaged (%s); messages are stored without it and a search"
        " reads them instead, which is slower: run reindex()",
        ctx.db.path,
        why,
    )


# ---------------------------------------------------------------------- building anew


def reindex(ctx: StateContext, progress: Callable[[int, int], None] | None = None) -> None:
    """Build both indexes anew from the messages, whatever state they are in.

    The contract's is one transaction, about 5 s for 200,000 messages: its triggers must not meet a
    half-filled index. Ours follows in batches. `progress` gets how many messages are done, of all.
    """
    with ctx.db.write() as tx:
        build_index(tx)
    reindex_ours(ctx, progress)
    ctx.notices.settle("index")
    ctx.notices.settle("scan")


def reindex_ours(ctx: StateContext, progress: Callable[[int, int], None] | None = None) -> None:
    """Build our index anew; until it is filled, a search reads what is missing."""
    with ctx.db.write() as tx:
        drop_index(tx, "tk_search")
        tx.execute(next(made.statement for made in created_by(SIDE) if made.name == "tk_search"))
        tx.run("forget_docs")
        tx.run("clean_all")
        tx.run("set_meta", {"key": "indexed", "value": "0"})
    drain(ctx, progress=progress)


# ---------------------------------------------------------------------- checking


def check_index(ctx: StateContext) -> list[str]:
    """Look for what is wrong with the indexes; one sentence for each, with what to do.

    FTS5 compares its index with the messages only on a connection that writes, so a store that is
    open read-only gets the lesser part of the check.
    """
    if ctx.db.read_only:
        with ctx.db.read() as tx:
            return _missing(ctx, tx)
    with ctx.db.write(durable=False) as tx:
        problems = _missing(ctx, tx)
        return problems or [
            *_checked(tx, "messages_fts", depth=int(ctx.form.answers is V6)),
            *(_checked(tx, "tk_search", depth=0) or _lost(ctx, tx)),
        ]


def _missing(ctx: StateContext, tx: Tx) -> list[str]:
    tables = ["messages_fts", "tk_search"] if ctx.side else []
    problems = [
        f"the full-text index {table} is missing: {_REPAIR}"
        for table in tables
        if tx.one("schema_entry", {"name": table}) is None
    ]
    present = {str(row[0]) for row in tx.all("triggers_of_index")}
    if ctx.side and not present >= TRIGGERS:
        names = ", ".join(sorted(TRIGGERS - present))
        problems.append(f"the triggers of the full-text index are missing ({names}): {_REPAIR}")
    return problems


def _checked(tx: Tx, table: str, depth: int) -> list[str]:
    try:
        # Read once per connection, so ours may not have noticed; the next program will.
        if tx.value(f"version_of_{table}") not in _FORMATS:
            return [f"the full-text index {table} has lost its settings: {_REPAIR}"]
        # FTS5's own check reads page after page and does not notice.
        if tx.value(f"lost_segments_of_{table}"):
            return [f"the full-text index {table} has lost its way to the words: {_REPAIR}"]
        tx.run(f"check_{table}", {"depth": depth})
    except FullTextError as error:
        return [f"the full-text index {table} is damaged ({error}): {_REPAIR}"]
    return []


def _lost(ctx: StateContext, tx: Tx) -> list[str]:
    """What our index says about itself: documents it must have, messages it says it has seen."""
    try:
        lost = int(tx.value("lost_docs")) or _unfound(ctx, tx)
        cursor, last = int(tx.value("get_meta", {"key": "indexed"})), tx.value("last_message_id")
    except (FullTextError, TypeError, ValueError) as error:
        return [f"the full-text index tk_search cannot be read ({error}): {_REPAIR}"]
    problems = []
    if lost:
        problems.append(f"the full-text index tk_search lacks {lost} messages: {_REPAIR}")
    if cursor > (last or 0):
        problems.append(
            f"the full-text index tk_search says it has seen message {cursor}, but the last one"
            f" is {last or 0}: {_REPAIR}"
        )
    return problems


def _unfound(ctx: StateContext, tx: Tx) -> int:
    """Look some messages up by their first word, and say how many if not one is found.

    An index whose pages were zeroed is empty to FTS5, not damaged.
    """
    asked = 0
    for *row, doc in tx.all("sample_of_docs"):
        words = index_words(index_text_of(parts_of(ctx, tx, tuple(row))))
        if words:
            asked += 1
            place = {"first_doc": doc, "last_doc": doc}
            if tx.all("any_doc", {"query": f'"{words[0]}"', **place}):
                return 0
    return asked

"""`threadkeep label` and `labels`: stars, tags and notes on sessions and messages."""

import re
from contextlib import closing
from typing import TYPE_CHECKING

import click

from threadkeep.cli.command import Call, store_command
from threadkeep.cli.history.sessions import find, looking
from threadkeep.cli.options import agent_option, complete_captured, limit_option
from threadkeep.cli.output import document, note, one_line, paging, table, write
from threadkeep.cli.words import when

if TYPE_CHECKING:
    from threadkeep.knowledge.results import Labels

_MESSAGE = re.compile(r"message:\d+")
_COLUMNS = ("what", "when", "star", "tags", "note")


@store_command(
    "label",
    "threadkeep label last flaky ci --star",
    "threadkeep label message:12 --note 'this is the cause'",
    "threadkeep label last --remove flaky --no-star --note ''",
)
@click.argument("what", metavar="SESSION|MESSAGE", shell_complete=complete_captured)
@click.argument("tags", nargs=-1, metavar="[TAG]...")
@agent_option("The session's agent.")
@click.option("--star/--no-star", default=None, help="Star it, or unstar it.")
@click.option("--remove", multiple=True, metavar="TAG", help="Remove this tag.")
@click.option("--note", "said", metavar="TEXT", help="Write a note; an empty one removes it.")
def label(
    call: Call,
    *,
    what: str,
    tags: tuple[str, ...],
    agent: str | None,
    star: bool | None,
    remove: tuple[str, ...],
    said: str | None,
) -> None:
    """Put tags, a star or a note on a session or message; without any, show what is there.

    `tag:flaky` and `is:starred` find them, here and on the page.
    """
    from threadkeep.home.captured import CapturedWork
    from threadkeep.home.stores import Stores

    ref = what
    if not _MESSAGE.fullmatch(what):
        with looking(call) as history:
            found = find(history, what, agent)
            ref = f"{found.agent}:{found.session_id}"
    with closing(Stores(call.home, call.db)) as stores:
        work = CapturedWork(stores)
        if not (tags or remove) and star is None and said is None:
            labels = work.labels(ref)
        else:
            labels = work.label(ref, star=star, add=tags, remove=remove, note=said)
    if call.as_json:
        document(ref=ref, labels=labels)
        return
    write(f"{ref}  {_words(labels)}")


def _words(labels: "Labels") -> str:
    tags = " ".join(f"#{tag}" for tag in labels.tags)
    parts = ("starred" if labels.starred else "", tags, one_line(labels.note))
    return "  ".join(part for part in parts if part) or "no labels"


@store_command("labels", "threadkeep labels", "threadkeep labels --json", lists=True, pages=True)
@limit_option(50, "How many; -1 for all.")
def labels(call: Call, *, limit: int) -> None:
    """List the sessions and messages with a star, a tag or a note, the latest first."""
    with looking(call) as history:
        found = history.store.labels.listed()
        shown = found if limit < 0 else found[:limit]
    if call.as_json:
        call.answer("labels", labels=shown)
        return
    rows = [
        (
            one.ref,
            when(one.at),
            "yes" if one.labels.starred else "",
            " ".join(one.labels.tags),
            one_line(one.labels.note),
        )
        for one in shown
    ]
    with paging(wanted=call.pager):
        table(_COLUMNS, rows, wide="note")
    if not found:
        note("No labels yet; `threadkeep label last TAG` adds one")
    elif len(shown) < len(found):
        note(f"Showing {len(shown)} of {len(found)}; more with --limit {limit * 2}")

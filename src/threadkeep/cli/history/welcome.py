"""A first look at a captured history: the latest sessions, a search, and what to try next."""

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from threadkeep.cli.command import Call
from threadkeep.cli.demo import program
from threadkeep.cli.history.listing import session_rows, session_table
from threadkeep.cli.history.opening import typed
from threadkeep.cli.history.search import hit_json, show_hit
from threadkeep.cli.history.words import session_json
from threadkeep.cli.output import note, write

if TYPE_CHECKING:
    from threadkeep.capture.capture import History

DEMO_FILE: Final = "demo-knowledge.db"
_LATEST: Final = 5
_HITS: Final = 3
_WORD: Final = re.compile(r"[^\W\d_]{5,20}")
_NEXT: Final = (
    *(("sessions",), ("show", "last"), ("recall", "how was it fixed")),
    *(("ask", "what did we decide"), ("search", "some words"), ("usage",)),
)
# About this machine, which a demo is not.
_NEXT_HERE: Final = (("sources",), ("timeline", "--since", "7d"), ("doctor",), ("serve",))
# So common in what people ask that a search for them shows nothing.
_COMMON: Final = frozenset(
    (
        *("about", "after", "again", "before", "could", "first", "other", "please", "should"),
        *("their", "there", "these", "thing", "those", "where", "which", "while", "would", "write"),
    )
)


@contextmanager
def demo_folder() -> Iterator[Path]:
    """Give the folder of the bundled demo history.

    It is laid out like the home of a user, and read like any other: `Home.history(user_home=…)`.
    """
    bundled = resources.files("threadkeep").joinpath("demo", "history")
    with resources.as_file(bundled) as folder:
        yield folder


def demo_path(call: Call) -> str:
    """Give the file of the demo's own store."""
    return str(call.home.paths().data / DEMO_FILE)


def without_history(call: Call) -> Call:
    """Say that no agent was found here, and give the call that works on the demo's own store."""
    path = demo_path(call)
    note("No agent has left a log on this machine. This is a DEMO: a small made-up history of")
    note(f"several agents on a few projects, captured into {path}.\n")
    return call._replace(db=path)


def show_around(call: Call, history: "History") -> dict[str, Any]:
    """Show the latest sessions and an example search; with `--json` only give them."""
    latest = history.sessions(limit=_LATEST)
    word = example_word([one.first_prompt for one in latest])
    hits = history.search(word, limit=_HITS) if word else []
    found = {
        "sessions": [session_json(one) for one in latest],
        "search": {"text": word, "hits": [hit_json(call, history, hit) for hit in hits]},
    }
    if not call.as_json:
        write("\nThe latest sessions:\n", "bold")
        session_table(session_rows(history, latest))
        if hits:
            write(f"\nWhat was said about “{word}”:\n", "bold")
            for hit in hits:
                show_hit(call, history, hit)
    return found


def example_word(prompts: Sequence[str]) -> str:
    """Choose a word to search for: the longest that the first of some prompts has."""
    for prompt in prompts:
        words: list[str] = _WORD.findall(prompt)
        words = [word for word in words if word.lower() not in _COMMON]
        if words:
            return max(words, key=len)
    return ""


def what_to_try(call: Call, *, demo: bool) -> None:
    """Name the commands to go on with, as they can be typed here."""
    started = program(sys.argv[0])
    note("\nTry next:")
    for words in _NEXT if demo else (*_NEXT, *_NEXT_HERE):
        write(f"  {started}{typed(call, *words).removeprefix('threadkeep')}", err=True)

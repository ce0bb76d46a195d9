"""What a command loads before it answers: counted in modules, which no busy machine changes.

A command that loads what it does not use pays for it at every start. The budgets may only shrink.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.cli.histories import captured
from threadkeep import ChatStore

# Command -> how many modules of ours it may load, with data and without; what reads the programs
# that its hits are of is counted apart.
BUDGETS = {
    "--help": 11,
    "sessions": 66,  # one more since a store may be on a server
    "usage statusline": 58,
    "search harbor": 77,
    "chat ls": 88,
    "recall harbor": 76,
    "capture": 137,  # when nothing is new
}
# What only some commands are for: capture with its redactor, what learns, readers of other
# programs' files, other stores. A list of sessions needs no reader, a search those of its hits.
CAPTURE, LEARN = "threadkeep.capture", ("threadkeep.memory.learn", "threadkeep.memory.vectors")
READERS = "threadkeep.sources"
CHAT, STATE, MAILBOX = "threadkeep.chat", "threadkeep.state", "threadkeep.mailbox"
KNOWLEDGE, MEMORY = "threadkeep.knowledge", "threadkeep.memory"
NEVER = {
    "--help": {"msgspec", "sqlite3", "logging", "pathlib", "threadkeep.home", CHAT, STATE, MAILBOX},
    "sessions": {CAPTURE, MEMORY, READERS, CHAT, STATE, MAILBOX},
    "usage statusline": {CAPTURE, MEMORY, READERS, CHAT, STATE, MAILBOX},
    "search harbor": {CAPTURE, *LEARN, CHAT, STATE, MAILBOX},
    "chat ls": {CAPTURE, MEMORY, READERS, STATE, MAILBOX, KNOWLEDGE},
    "recall harbor": {CAPTURE, *LEARN, CHAT, STATE, MAILBOX},
    "capture": {*LEARN, "threadkeep.chat.store", "threadkeep.capture.forget", "importlib.metadata"},
}
NAMES = {"threadkeep.sources", "threadkeep.sources.registry"}  # which readers there are, no more

_PROBE = """
import contextlib, io, json, sys
from threadkeep.cli.app import main
with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
    code = main()
print(json.dumps([code, sorted(sys.modules)]))
"""


def loaded_by(words: str, *, code: int = 0) -> set[str]:
    """Run a command in a process of its own, and give the modules that it has then."""
    done = subprocess.run(
        [sys.executable, "-c", _PROBE, *words.split()], capture_output=True, check=True
    )
    ended, modules = json.loads(done.stdout)
    assert ended == code, (words, ended)
    return set(modules)


def check(words: str, modules: set[str]) -> None:
    ours = sorted(
        name
        for name in modules
        if name.split(".")[0] == "threadkeep" and not name.startswith(f"{READERS}.")
    )
    assert len(ours) <= BUDGETS[words], " ".join(ours)
    loaded = modules - NAMES
    assert not {n for n in loaded for room in NEVER[words] if f"{n}.".startswith(f"{room}.")}


@pytest.mark.parametrize("words", BUDGETS)
def test_a_command_keeps_to_its_budget_in_an_empty_home(run: Run, words: str) -> None:
    empty = {
        "--help": 0,
        "usage statusline": 0,
        "capture": 0,
    }  # the others say that there is no store yet
    check(words, loaded_by(words, code=empty.get(words, 3)))


@pytest.mark.parametrize("words", BUDGETS)
def test_a_command_keeps_to_its_budget_where_there_is_something(
    run: Run, home: Path, words: str
) -> None:
    captured(run)
    with ChatStore.open(home / "chat.db") as store:
        store.say(store.create_session(agent="build", model="m-1"), "about the harbor")
    if words == "capture":
        assert [run(one).exit_code for one in ("capture", "enrich")] == [0, 0]  # all that is new
    check(words, loaded_by(words))


def test_prices_are_looked_up_in_the_list_once_a_day(run: Run) -> None:
    captured(run)
    listed = run("sessions", "--json").stdout
    assert '"cost_microdollars": 0' not in listed
    modules = loaded_by("sessions")
    assert "genai_prices" not in modules
    assert run("sessions", "--json").stdout == listed


def test_a_search_loads_the_readers_of_its_hits_alone(run: Run) -> None:
    captured(run)
    for words in ("search tide", "recall tide --kind message"):
        modules = loaded_by(f"{words} --agent claude-code")
        readers = {name.split(".")[2] for name in modules if name.startswith(f"{READERS}.")}
        assert readers & {"claude", "codex", "cursor", "opencode", "pi"} == {"claude"}, words

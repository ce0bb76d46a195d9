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

# Command -> how many modules of ours it may load, with data and without.
BUDGETS = {
    "--help": 12,
    "sessions": 230,
    "usage statusline": 60,
    "search harbor": 230,
    "chat ls": 90,
    "recall harbor": 88,
}
# What only some commands are for: the redactor, readers of other programs' files, other stores.
REDACTOR, SOURCES = "threadkeep.capture.redact", "threadkeep.sources"
CHAT, STATE, MAILBOX = "threadkeep.chat", "threadkeep.state", "threadkeep.mailbox"
KNOWLEDGE = "threadkeep.knowledge"
NEVER = {
    "--help": {"msgspec", "sqlite3", "logging", "threadkeep.home", *(CHAT, STATE, MAILBOX)},
    "usage statusline": {REDACTOR, SOURCES, CHAT, STATE, MAILBOX},
    "chat ls": {REDACTOR, SOURCES, STATE, MAILBOX, KNOWLEDGE},
}

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
    ours = sorted(name for name in modules if name.split(".")[0] == "threadkeep")
    assert len(ours) <= BUDGETS[words], ours
    refused = NEVER.get(words, set())
    assert not {name for name in modules for room in refused if f"{name}.".startswith(f"{room}.")}


@pytest.mark.parametrize("words", BUDGETS)
def test_a_command_keeps_to_its_budget_in_an_empty_home(run: Run, words: str) -> None:
    empty = {"--help": 0, "usage statusline": 0}  # the others say that there is no store yet
    check(words, loaded_by(words, code=empty.get(words, 3)))


@pytest.mark.parametrize("words", BUDGETS)
def test_a_command_keeps_to_its_budget_where_there_is_something(
    run: Run, home: Path, words: str
) -> None:
    captured(run)
    with ChatStore.open(home / "chat.db") as store:
        store.say(store.create_session(agent="build", model="m-1"), "about the harbor")
    check(words, loaded_by(words))

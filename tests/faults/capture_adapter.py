"""Capture behind the line protocol of the fault tools (protocol.py).

To save a message is to append a line to the log of an agent and to capture it. The line is one
message of a Claude Code session; its uuid is the key. In the mode `own` every writer has a user
home of its own, in the mode `shared` all look at the logs of all: whoever comes first captures.
"""

import argparse
import hashlib
import json
import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

REPO = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPO / "src"), str(REPO)]

from tests.faults.knowledge_adapter import fresh, migrate  # noqa: E402
from tests.faults.old_knowledge_files import make_old_knowledge  # noqa: E402
from tests.faults.protocol import Adapter, Save, patiently, speak, tell  # noqa: E402
from threadkeep.base.files import translate_os  # noqa: E402
from threadkeep.base.sqlite.checks import sqlite_problems  # noqa: E402
from threadkeep.base.tx import Sql, Tx  # noqa: E402
from threadkeep.capture.capture import History  # noqa: E402
from threadkeep.capture.engine import CaptureFilter  # noqa: E402
from threadkeep.errors import ThreadkeepError  # noqa: E402
from threadkeep.home.home import Home  # noqa: E402
from threadkeep.knowledge.archive import all_logs, text_hash  # noqa: E402
from threadkeep.knowledge.records import CapturedSession  # noqa: E402
from threadkeep.knowledge.repair import is_whole  # noqa: E402

CLAUDE = CaptureFilter(frozenset({"claude-code"}))
# The tool that kills begins a new store after so many rounds; its logs are then new ones too.
ROUNDS_OF_A_STORE = 100


def opened(database: str, user: Path) -> History:
    """Open the history in a file, with the agents below a folder."""
    user.mkdir(parents=True, exist_ok=True)
    return Home(Path(database).parent, environ={}).history(database, user_home=user)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


# Writing ----------------------------------------------------------------------------------


class Writer:
    """An agent that writes a log, and has it captured line by line."""

    def __init__(self, history: History, log: Path, name: str) -> None:
        self._history = history
        self._log = log
        self._name = name
        self._log.parent.mkdir(parents=True, exist_ok=True)

    def say(self, place: int) -> None:
        """Append a line, capture it, and say so."""
        key = f"{self._name}-{place}"
        rng = random.Random(key)
        text = f"{key} " + " ".join(rng.choices(WORDS, k=rng.choice((5, 40, 400))))
        save = Save(key, 0, digest(text))
        tell("TRY", *save)
        try:
            append(self._log, line_of(key, text, place))
        except OSError as error:
            raise translate_os(error, self._log, "cannot append to") from error
        tell("ACK", *save, patiently([save], self._capture))

    def _capture(self) -> None:
        report = self._history.capture(CLAUDE)
        errors = report.of("claude-code").errors
        if errors:
            raise ThreadkeepError(f"not captured: {errors}")


WORDS = ("basket", "price", "sort", "tool", "answer", "file", "read", "write", "test", "red")


def line_of(key: str, text: str, place: int) -> bytes:
    """Write a message as a line of a log."""
    when = f"2026-05-01T{place // 3600 % 24:02}:{place // 60 % 60:02}:{place % 60:02}.000Z"
    said: dict[str, Any] = {"type": "user", "uuid": key, "timestamp": when, "cwd": "/u/app"}
    said["message"] = {"role": "user", "content": text}
    return json.dumps(said).encode() + b"\n"


def append(log: Path, line: bytes) -> None:
    """Append a line whole or not at all, as far as the disk allows."""
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        size = os.fstat(descriptor).st_size
        written = 0
        try:
            while written < len(line):  # the rest of a cut write says why it was cut
                written += os.write(descriptor, line[written:])
        except OSError:
            os.ftruncate(descriptor, size)
            raise
    finally:
        os.close(descriptor)


def write(options: argparse.Namespace) -> None:
    place = Path(options.db).parent / "agents" / str((options.iter - 1) // ROUNDS_OF_A_STORE)
    user = place / f"u{options.w}" if options.mode == "own" else place / "all"
    log = user / ".claude" / "projects" / "-u-app" / f"s{options.iter}-{options.w}.jsonl"
    with opened(options.db, user) as history:
        writer = Writer(history, log, f"{options.iter}-{options.w}")
        for number in range(options.n):
            writer.say(number)


# Reading back -----------------------------------------------------------------------------


def show(database: str) -> list[str]:
    with opened(database, Path(database).parent / "nobody") as history:
        sessions = history.sessions(everything=True, limit=1_000_000)
        problems = [problem for one in sessions for problem in show_session(history, one)]
        with history.store.context.db.read() as tx:
            return [*problems, *wrong_counts(tx, sessions), *sqlite_problems(tx)]


def show_session(history: History, session: CapturedSession) -> Iterator[str]:
    """Print the messages of a session from its raw lines; give what does not fit them."""
    told = {}
    for number, line in enumerate(history.raw(session)):
        said = json.loads(line.strip(b"\0"))
        key, text = said["uuid"], said["message"]["content"]
        told[key] = text
        tell("HAVE", key, 0, digest(text), f"{session.session_id}:{number}")
    shown = {one.row.key: one for one in history.transcript(session)}
    if {key: one.entry.text for key, one in shown.items()} != told:
        yield f"{session.session_id}: its entries are not its lines"
    if any(text_hash(one.entry.text) != one.row.hash for one in shown.values()):
        yield f"{session.session_id}: an entry has another hash"
    if (session.entries, session.prompts) != (len(told), len(told)):
        yield f"{session.session_id}: counts {session.entries} entries for {len(told)}"


def wrong_counts(tx: Tx, sessions: list[CapturedSession]) -> Iterator[str]:
    """Return what of the store's counts does not fit: logs, lines, words."""
    if not is_whole(tx):
        yield "it is not whole"
    logs = all_logs(tx)
    names = {session.session_id for session in sessions}
    yield from (f"no session of {log.path}" for log in logs if log.session_id not in names)
    lines = sum(log.lines for log in logs)
    stored = {
        "blocks": "SELECT coalesce(sum(lines), 0) FROM tk_log_blocks",
        "entries": "SELECT count(*) FROM tk_entries",
        "words": "SELECT count(*) FROM tk_entry_words_docsize",
    }
    for name, sql in stored.items():
        found = tx.value(Sql(sql))
        if found != lines:
            yield f"{lines} lines, but {found} in the {name}"


if __name__ == "__main__":
    modes = ["own", "shared"]
    speak(Adapter("capture", modes, write, show, make_old_knowledge, migrate, fresh))

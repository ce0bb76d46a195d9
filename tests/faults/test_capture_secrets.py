"""Secrets in every field of every program's log: after capture no byte of them is anywhere."""

import json
import os
import re
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from tests.capture.redact.planting import IN_CONTEXT, SHAPED
from tests.conftest import REPO
from tests.support.user_homes import archived, opencode_database, settle
from threadkeep.capture.capture import History
from threadkeep.capture.redact.engine import MaskedBlock
from threadkeep.cli.root import cli
from threadkeep.home.home import Home

pytestmark = pytest.mark.slow

WHEN = "2026-05-01T10:00:00.000Z"
MARK = "surroundings"
KINDS = ("aws", "github", "anthropic", "openai", "stripe", "pem", "jwt", "slack", "npm")
CONTEXTS = ("env", "url", "bearer", "curl-user", "json-key", "aws-secret-env", "password-flag")
# A folder, a branch or a title is one word or one line: only what gives itself away is found there.
SHORT = ("aws", "github", "anthropic", "stripe", "npm")


class Planter:
    """Makes secrets and remembers them; every one is used once."""

    def __init__(self, seed: int) -> None:
        self._rng = Random(seed)
        self.needles: dict[str, str] = {}

    def text(self, place: str, kinds: Sequence[str] = KINDS) -> str:
        """Return a text full of secrets, for a named place."""
        found = [self._remember(place, kind, SHAPED[kind](self._rng)) for kind in kinds]
        lines = [f"{MARK} the key is {secret} here" for secret in found]
        for kind in CONTEXTS:
            template, make = IN_CONTEXT[kind]
            lines.append(template.format(self._remember(place, kind, make(self._rng))))
        return "\n".join(lines)

    def word(self, place: str) -> str:
        """Return one secret that a path or a name may hold."""
        kind = self._rng.choice(SHORT)
        return self._remember(place, kind, SHAPED[kind](self._rng))

    def _remember(self, place: str, kind: str, secret: str) -> str:
        # Of a key in lines every line counts; of a token its end, where the randomness is.
        parts = [line for line in secret.split("\n") if len(line) > 16 and "-----" not in line]
        for number, part in enumerate(parts or [secret]):
            self.needles[f"{place}/{kind}/{number}"] = part[-20:]
        return secret


def write(user: Path, name: str, *records: Any) -> None:
    path = user / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


def plant_claude(user: Path, plant: Planter) -> None:
    common = {"timestamp": WHEN, "sessionId": "claude1", "version": "2.1.0"}
    common |= {"cwd": f"/u/{plant.word('claude cwd')}/app"}
    common |= {"gitBranch": f"fix/{plant.word('claude branch')}"}
    given = {"command": plant.text("claude command"), "env": {"deep": [plant.text("claude input")]}}
    call = {"type": "tool_use", "id": "c1", "name": "Bash", "input": given}
    thought = {"type": "thinking", "thinking": plant.text("claude thinking")}
    answer = {"role": "assistant", "id": "m1", "model": "x", "content": [thought, call]}
    back = {"type": "tool_result", "tool_use_id": "c1"}
    back["content"] = [{"type": "text", "text": plant.text("claude result")}]  # type: ignore[assignment]
    result = {"stdout": plant.text("claude toolUseResult"), "structured": json.dumps({"a": "b"})}
    write(
        user,
        ".claude/projects/-u-app/claude1.jsonl",
        {"type": "user", "uuid": "u1", **common}
        | {"message": {"role": "user", "content": plant.text("claude prompt")}},
        {"type": "assistant", "uuid": "a1", **common, "message": answer},
        {"type": "user", "uuid": "u2", **common, "toolUseResult": result}
        | {"message": {"role": "user", "content": [back]}},
        {"type": "summary", "summary": f"about {plant.word('claude summary')}", "leafUuid": "u1"},
        {"type": "custom-title", "customTitle": f"rotate {plant.word('claude title')}"},
        {"type": "never-seen", "payload": plant.text("claude unknown type")},
        "bare text " + plant.text("claude bare string"),
    )
    with (user / ".claude/projects/-u-app/claude1.jsonl").open("a") as log:
        log.write('{"broken": "' + plant.word("claude broken line") + "\n")


def plant_codex(user: Path, plant: Planter) -> None:
    name = ".codex/sessions/2026/05/01/rollout-2026-05-01T10-00-00-codex1.jsonl"
    meta = {"id": "codex1", "cwd": f"/u/{plant.word('codex cwd')}", "originator": "cli"}
    meta["git"] = {"branch": plant.word("codex branch"), "commit_hash": "0"}  # type: ignore[assignment]
    arguments = {"command": ["bash", "-lc", plant.text("codex arguments")]}
    nested = {"patch": json.dumps({"inner": plant.text("codex nested arguments")})}
    output = json.dumps({"output": plant.text("codex output"), "metadata": {"exit_code": 0}})
    prompt = {"type": "input_text", "text": plant.text("codex prompt")}
    payloads = [
        {"type": "message", "role": "user", "content": [prompt]},
        {"type": "function_call", "name": "shell", "call_id": "1"}
        | {"arguments": json.dumps(arguments)},
        {"type": "function_call_output", "call_id": "1", "output": output},
        {"type": "function_call", "name": "apply", "call_id": "2", "arguments": json.dumps(nested)},
    ]
    items = [{"type": "response_item", "timestamp": WHEN, "payload": one} for one in payloads]
    event = {"type": "user_message", "message": plant.text("codex event")}
    told = {"type": "event_msg", "timestamp": WHEN, "payload": event}
    write(user, name, {"type": "session_meta", "timestamp": WHEN, "payload": meta}, *items, told)


def plant_opencode(user: Path, plant: Planter) -> None:
    state = {"status": "completed", "input": {"command": plant.text("opencode input")}}
    state |= {"output": plant.text("opencode output"), "title": plant.word("opencode tool title")}
    parts = [
        {"id": "p1", "type": "text", "text": plant.text("opencode prompt")},
        {"id": "p2", "type": "tool", "tool": "bash", "callID": "c", "state": state},
        {"id": "p3", "type": "hologram", "data": plant.text("opencode unknown part")},
    ]
    info = {"id": "opencode1", "projectID": "p", "slug": "s", "version": "1", "time": TIMES}
    info |= {"directory": f"/u/{plant.word('opencode cwd')}"}
    info |= {"title": plant.word("opencode title")}
    message = {"id": "m1", "role": "user", "time": TIMES, "path": {"cwd": "/u"}}
    exported = {"info": info, "messages": [{"info": message, "parts": parts}]}
    opencode_database(user, exported)


TIMES = {"created": 1777926000000, "updated": 1777926100000}


def plant_others(user: Path, plant: Planter) -> None:
    about = {"id": "pi1", "timestamp": WHEN, "cwd": f"/u/{plant.word('pi cwd')}"}
    said = {"role": "user", "content": [{"type": "text", "text": plant.text("pi prompt")}]}
    write(
        user,
        ".pi/agent/sessions/--u--/2026-05-01T10-00-00-000Z_pi1.jsonl",
        {"type": "session", **about},
        {"type": "message", "id": "m1", "timestamp": WHEN, "message": said},
    )
    event = {"type": "user.message", "id": "e1", "timestamp": WHEN}
    event["data"] = {"content": plant.text("copilot prompt")}  # type: ignore[assignment]
    write(user, ".copilot/session-state/copilot1/events.jsonl", event)
    message = {"id": "g1", "type": "user", "timestamp": WHEN, "content": plant.text("gemini")}
    chat = {"sessionId": "gemini1", "startTime": WHEN, "lastUpdated": WHEN, "messages": [message]}
    place = user / ".gemini" / "tmp" / "app" / "chats" / "session-1.json"
    place.parent.mkdir(parents=True)
    place.write_text(json.dumps(chat, indent=2))
    cursor = {"role": "user", "message": {"content": plant.text("cursor prompt")}}
    write(user, ".cursor/projects/u-app/agent-transcripts/cursor1/cursor1.jsonl", cursor)
    history = user / "projects" / "app" / ".aider.chat.history.md"
    history.parent.mkdir(parents=True)
    asked = "\n".join(f"#### {line}" for line in plant.text("aider prompt").split("\n"))
    history.write_text(f"\n# aider chat started at 2026-05-01 10:00:00\n\n{asked}\n\nsure\n")


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """Return a user home with secrets in it, and the end of each by where it stands."""
    user, plant = tmp_path_factory.mktemp("planted"), Planter(611)
    for put in (plant_claude, plant_codex, plant_opencode, plant_others):
        put(user, plant)
    settle(user)
    return user, plant.needles


# -- where a secret may have gone ------------------------------------------------------------------


def left_in(places: dict[str, bytes], needles: dict[str, str]) -> dict[str, list[str]]:
    """Tell which secrets are in which places, whatever became of their case."""
    lowered = {place: data.lower() for place, data in places.items()}
    found = {
        name: [place for place, data in lowered.items() if needle.lower().encode() in data]
        for name, needle in needles.items()
    }
    return {name: where for name, where in found.items() if where}


def files_below(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def blocks_of(database: Path) -> dict[str, bytes]:
    return {
        f"{path} {item}": b"\n".join(lines) for (path, item), lines in archived(database).items()
    }


def indexed(database: Path) -> Iterator[str]:
    """Return the words of the index, which the file holds in pieces."""
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("CREATE VIRTUAL TABLE temp.w USING fts5vocab(main, tk_entry_words, row)")
        yield from (row[0] for row in connection.execute("SELECT term FROM temp.w"))


def words_left(database: Path, needles: dict[str, str]) -> set[str]:
    """Return the secrets of which a long piece is a word of the index."""
    words = "\n".join(indexed(database))
    left = set()
    for name, needle in needles.items():
        pieces = re.split(r"[^a-z0-9]+", needle.lower())
        if any(len(piece) >= 10 and piece[:-2] in words for piece in pieces):
            left.add(name)
    return left


def ask(home: Path, *words: str) -> bytes:
    """Run a command that reads, in this process; give all that it says."""
    done = CliRunner().invoke(cli, ["--home", str(home), *words])
    assert done.exit_code == 0, done.stderr
    return done.stdout_bytes + done.stderr_bytes


def run(home: Path, *words: str) -> bytes:
    """Run a command as people do; give all that it says."""
    done = subprocess.run(
        [sys.executable, "-m", "threadkeep", "--home", str(home), *words],
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(REPO / "src"), "COLUMNS": "4000"},
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout + done.stderr


def test_no_byte_of_a_secret_is_anywhere(
    planted: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    user, needles = planted
    home = tmp_path / "home"
    said = {"capture": run(home, "capture", "--user-home", str(user))}
    said["again"] = run(home, "capture", "--user-home", str(user), "--json")
    ids = [one["session_id"] for one in _listed(ask(home, "sessions", "--all", "--json"))]
    assert len(ids) >= 8
    for name in ids:
        for command in (("show", "--full", "--reasoning"), ("show", "--json"), ("raw",)):
            said[f"{command} {name}"] = ask(home, command[0], name, *command[1:])
    for words in (MARK, "password", "token"):
        said[f"search {words}"] = ask(home, "search", words, "--limit", "50", "--json")
    said["sessions"] = ask(home, "sessions", "--all", "--json")
    said["sources"] = ask(home, "sources", "--user-home", str(user), "--json")
    said["usage"] = ask(home, "usage", "--json")
    said["backup"] = run(home, "backup", "--store", "knowledge", "--json")
    assert sum(MARK.encode() in data for data in said.values()) > 10
    assert left_in(said, needles) == {}
    assert left_in(files_below(home), needles) == {}
    databases = sorted(path for path in home.rglob("*.db*") if _is_database(path))
    assert len(databases) >= 2
    for database in databases:
        assert left_in(blocks_of(database), needles) == {}
        assert words_left(database, needles) == set()
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in [home, *home.rglob("*")]}
    wrong = {p: oct(m) for p, m in modes.items() if m != (0o700 if p.is_dir() else 0o600)}
    assert wrong == {}


def test_a_killed_capture_leaves_no_secret_in_its_log(
    planted: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    """The write-ahead log of a store that nobody closed is looked at as it lies there."""
    user, needles = planted
    home = tmp_path / "home"
    script = (
        "import os, sys; from threadkeep.home.home import Home\n"
        "h = Home(sys.argv[1], environ={}).history(user_home=sys.argv[2])\n"
        "h.capture(); os.kill(os.getpid(), 9)"
    )
    environ = {**os.environ, "PYTHONPATH": str(REPO / "src")}
    done = subprocess.run(
        [sys.executable, "-c", script, str(home), str(user)], check=False, env=environ
    )
    assert done.returncode == -9
    files = files_below(home)
    assert any(name.endswith("-wal") and len(data) > 10_000 for name, data in files.items())
    assert left_in(files, needles) == {}


# What programs put before each line of a text: an editor's numbers, quotes, headings, comments.
MARKS: dict[str, Callable[[int, str], str]] = {
    "numbers": lambda number, line: f"{number:6}\u2192{line}",
    "quotes": lambda _, line: f"> {line}",
    "headings": lambda _, line: f"#### {line}",
    "diff": lambda _, line: f"+{line}",
    "tabs": lambda number, line: f"{number:6}\t{line}",
}


@pytest.mark.parametrize("mark", MARKS)
def test_a_key_in_lines_that_are_marked(tmp_path: Path, mark: str) -> None:
    user, plant = tmp_path / "user", Planter(612)
    lines = plant.text("key", ["pem"]).split("\n")
    marked = "\n".join(MARKS[mark](number, line) for number, line in enumerate(lines, 1))
    message = {"role": "user", "content": marked}
    write(
        user,
        ".claude/projects/-u-app/k.jsonl",
        {"type": "user", "uuid": "u"} | {"message": message},
    )
    settle(user)
    with Home(tmp_path / "home", environ={}).history(user_home=user) as history:
        assert history.capture().errors == 0
    needles = {name: needle for name, needle in plant.needles.items() if "/pem/" in name}
    assert left_in(blocks_of(tmp_path / "home" / "knowledge.db"), needles) == {}


def test_without_masking_these_very_tests_find_them(
    planted: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    user, needles = planted
    history = Home(tmp_path / "home", environ={}).history(user_home=user)
    with _unmasked(history) as bare:
        assert bare.capture().errors == 0
    database = tmp_path / "home" / "knowledge.db"
    found = left_in(blocks_of(database), needles)
    assert len(found) > 0.95 * len(needles)
    assert len(words_left(database, needles)) > 0.1 * len(needles)
    assert left_in(files_below(tmp_path / "home"), needles)


def _unmasked(history: History) -> History:
    around = msgspec.structs.replace(history.around, mask=_as_it_is)
    return History(around, history.sources)


def _as_it_is(data: bytes, _before: bytes, _after: bytes) -> MaskedBlock:
    return MaskedBlock(data)


def _is_database(path: Path) -> bool:
    return path.read_bytes()[:15] == b"SQLite format 3"


def _listed(output: bytes) -> list[dict[str, Any]]:
    """Read what a list prints as JSON: one document, or a line for each."""
    text = output.decode()
    try:
        value = json.loads(text)
    except ValueError:
        return [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    return value if isinstance(value, list) else value["sessions"]

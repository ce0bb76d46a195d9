"""A store at 18 and one at 23, through the command: every verb answers the same."""

import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import Run, document
from tests.conftest import REPO
from tests.support.knowledge import ask, assert_sound, do
from tests.support.memory_rows import remember

DEMO = REPO / "src" / "threadkeep" / "demo" / "history"
OFFSETS = {18: "claude_session_offsets", 23: "agentic_session_offsets"}
WAITING = """SELECT DISTINCT s.harness FROM agentic_enrichment_queue AS q
JOIN agentic_sessions AS s ON s.id = q.session_id WHERE q.status = 'pending' ORDER BY 1"""
HIPPOS = [("claude-code",), ("codex",), ("cursor",), ("opencode",)]


@pytest.fixture(params=[18, 23])
def schema(request: pytest.FixtureRequest, home: Path) -> int:
    home.mkdir()
    text = f"[stores]\nknowledge_schema = {request.param}\n[enrich]\nenabled = false\n"
    (home / "config.toml").write_text(text, "utf-8")
    return int(request.param)


def test_every_verb_works_at_both(run: Run, schema: int, home: Path, tmp_path: Path) -> None:
    user, path = tmp_path / "user", home / "knowledge.db"
    shutil.copytree(DEMO, user)
    run("capture", "--quiet", "--user-home", str(user))
    assert ask(path, "PRAGMA user_version") == [(schema,)]
    assert ask(path, f"SELECT count(*) > 5 FROM {OFFSETS[schema]}") == [(1,)]
    if schema == 23:
        assert ask(path, WAITING) == HIPPOS
    run("enrich")
    nodes = "SELECT count(*) FROM knowledge_node_agentic_sessions"
    assert ask(path, nodes)[0][0] > 20
    for harness in ("gemini-cli", "pi"):
        one = f"{nodes} JOIN agentic_sessions AS s ON s.id = agentic_session_id"
        assert ask(path, f"{one} WHERE s.harness = '{harness}'")[0][0] >= 1
    assert "departures" in run("recall", "departures board").stdout
    chosen = document(run("sessions", "--json"))["sessions"][0]["session_id"]
    run("forget", "--session", chosen, "--yes")
    assert ask(path, "SELECT 1 FROM agentic_sessions WHERE session_id = ?", chosen) == []
    run("redact", "rescan")
    run("doctor", "--json", code=0)
    run("capture", "--quiet", "--user-home", str(user))
    assert_sound(path)


def test_migrate_brings_the_homes_own_to_23(run: Run, home: Path) -> None:
    run("capture", "--quiet", "--user-home", str(DEMO))
    path = home / "knowledge.db"
    told = document(run("knowledge", "migrate", "--to", "23", "--dry-run", "--json"))["migration"]
    assert (told["version_before"], told["version_after"], told["backup"]) == (18, 23, None)
    assert ask(path, "PRAGMA user_version") == [(18,)]
    assert "to 23" in run("knowledge", "migrate", "--to", "23").stderr
    assert ask(path, "PRAGMA user_version") == [(23,)]
    assert ask(path, WAITING) in ([], HIPPOS)
    run("knowledge", "check")
    assert "nothing to do" in run("knowledge", "migrate", "--to", "23").stderr
    assert "no way back" in run("knowledge", "migrate", "--to", "18", code=5).stderr
    run("knowledge", "migrate", "--to", "20", code=2)
    assert "departures" in run("recall", "departures board").stdout


@pytest.mark.parametrize("schema", [23], indirect=True)
@pytest.mark.usefixtures("schema")
def test_a_file_of_memory_is_forgotten_with_its_node(run: Run, home: Path) -> None:
    run("capture", "--quiet", "--user-home", str(home))
    path = home / "knowledge.db"
    remember(path, "user_zoo.md", "a wallaby waits", 1)
    do(path, "DELETE FROM knowledge_nodes", "DELETE FROM knowledge_node_memory_chunks")
    run("forget", "--pattern", "wallaby", "--yes")  # nobody has learned from it yet
    assert b"wallaby" not in path.read_bytes()
    remember(path, "project_zoo.md", "the kookaburra laughs", 1)
    remember(path, "project_zoo.md", "the bandicoot digs", 2)
    assert "bandicoot" in run("recall", "bandicoot").stdout
    told = document(run("forget", "--pattern", "bandicoot", "--dry-run", "--json"))["forgotten"]
    assert (told["nodes"], told["memories"]) == (1, 2)
    run("forget", "--pattern", "bandicoot", "--yes")
    assert "bandicoot" not in run("recall", "bandicoot").stdout
    assert b"bandicoot" not in path.read_bytes()
    assert ask(path, "SELECT count(*) FROM memory_documents") == [(0,)]
    assert_sound(path)

"""Claude's notes, captured from where they lie into a store at 23, and asked for."""

import json
import os
from pathlib import Path

import pytest

from tests.support import memories as asked
from threadkeep.base.tx import Sql
from threadkeep.capture.capture import History
from threadkeep.capture.watch import watch
from threadkeep.home.home import Home
from threadkeep.knowledge.query import Query
from threadkeep.knowledge.search_scope import NodeChoice
from threadkeep.service.learn import enrich
from threadkeep.service.watchdog import look_once
from threadkeep.sources.claude.memory import host_and_path, repository_of

SECRET = "AKIA" + "Z7QK5N2WXL4VB3HT"
GLAZE = "Before all.\n\n# Glaze\n\nThe parser keeps the last line.\n\n```sh\n# not a heading\n```\n"


class Desk:
    """A home with a store at 23, and Claude's folder of one project."""

    def __init__(self, folder: Path, settings: str = "", schema: int = 23) -> None:
        self.user = folder / "user"
        self.project = self.user / ".claude" / "projects" / "-home-ada-kiln"
        self.notes = self.project / "memory"
        self.notes.mkdir(parents=True)
        self.home = Home(folder / "home", environ={"HOME": str(self.user)})
        (folder / "home").mkdir()
        text = f"[stores]\nknowledge_schema = {schema}\n\n{settings}"
        self.home.paths().config.write_text(text)

    def write(self, name: str, text: str) -> None:
        (self.notes / name).write_text(text)

    def history(self) -> History:
        return self.home.history()

    def capture(self) -> int:
        with self.history() as history:
            report = history.capture()
            assert report.errors == 0
            return sum(part.memories for part in report.agents.values())

    def ask(self, sql: str) -> list[list[object]]:
        with self.history() as history, history.store.context.db.read() as tx:
            return [list(row) for row in tx.all(Sql(sql))]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_notes_become_documents_and_are_recalled(desk: Desk) -> None:
    desk.write("project_glaze.md", GLAZE)
    desk.write("MEMORY.md", "[a](project_glaze.md) [b](project_glaze.md)\n")
    desk.write("notes.txt", "no Markdown")
    (desk.notes / "below").mkdir()
    (desk.notes / "below" / "deep.md").write_text("too deep")
    assert desk.capture() == 2
    assert desk.capture() == 0
    assert [row[3] for row in desk.ask(asked.CHUNKS) if row[0] == "project_glaze.md"] == [
        "",
        "Glaze",
    ]
    assert desk.ask(asked.LINKS) == [
        ["MEMORY.md", "project_glaze.md", "resolved", "project_glaze.md"]
    ]
    with desk.history() as history:
        enrich(desk.home, history, with_model=False)
    assert {(row[0], row[2]) for row in desk.ask(asked.DOCUMENTS)} == {
        ("MEMORY.md", "ready"),
        ("project_glaze.md", "ready"),
    }
    with desk.home.memory() as memory:
        (hit,) = memory.recall(
            "parser last line", nodes=NodeChoice(evidence="memory"), limit=1
        ).hits
        assert hit.contract_ref.startswith("memory-")
        assert memory.open(hit.contract_ref).text == "Before all."
        assert memory.recall("parser", nodes=NodeChoice(category="project")).hits
        assert not memory.recall("parser", nodes=NodeChoice(category="user")).hits


def test_a_change_is_a_revision_and_a_file_that_goes_is_hidden_at_once(desk: Desk) -> None:
    desk.write("a.md", "# One\n\nThe quokka sleeps.\n")
    desk.capture()
    desk.write("a.md", "# One\n\nThe quokka wakes up.\n")
    assert desk.capture() == 1
    with desk.history() as history:
        enrich(desk.home, history, with_model=False)
    with desk.home.memory() as memory:
        assert memory.recall("quokka", Query(kind=("node",))).hits
    (desk.notes / "a.md").unlink()
    desk.capture()
    assert desk.ask(asked.DOCUMENTS)[0][1] == "unavailable"
    desk.capture()  # a second look at once is no second look
    assert desk.ask(asked.DOCUMENTS)[0][1] == "unavailable"
    with desk.home.memory() as memory:
        assert not memory.recall("quokka", Query(kind=("node",))).hits
        assert memory.recall("quokka", Query(kind=("node",)), nodes=NodeChoice(excluded=True)).hits
    desk.write("a.md", "# One\n\nThe quokka wakes up.\n")
    desk.capture()
    assert desk.ask(asked.DOCUMENTS)[0][1:3] == ["active", "ready"]


def test_one_look_is_enough_where_the_user_says_so(tmp_path: Path) -> None:
    desk = Desk(tmp_path, "[auto_memory]\nabsence_confirm_polls = 1\n")
    desk.write("a.md", "one")
    desk.capture()
    (desk.notes / "a.md").unlink()
    desk.capture()
    assert desk.ask(asked.DOCUMENTS)[0][1] == "tombstoned"


def test_a_renamed_file_is_the_same_document(desk: Desk) -> None:
    desk.write("a.md", "one and the same")
    desk.capture()
    (desk.notes / "a.md").rename(desk.notes / "b.md")
    desk.capture()
    assert [row[:2] for row in desk.ask(asked.DOCUMENTS)] == [["b.md", "active"]]


def test_secrets_are_masked_and_leave_no_print(desk: Desk) -> None:
    desk.write("a.md", f"aws_access_key_id = {SECRET}\n")
    desk.capture()
    path = Path(desk.home.knowledge_path())
    assert SECRET.encode() not in path.read_bytes()
    (row,) = desk.ask(asked.REVISIONS)
    assert row[4] == row[5]


@pytest.mark.parametrize(
    "settings",
    [
        "[auto_memory]\nenabled = false\n",
        "[capture]\ndisable = ['claude-memory']\n",
        "[capture]\nexclude = ['/home/ada/kiln']\n",
        "[auto_memory.discovery]\nexclude_patterns = ['*-kiln']\n",
        "[auto_memory.discovery]\ninclude_patterns = ['*-oven']\n",
        "[auto_memory.discovery]\nenabled = false\n",
    ],
)
def test_what_the_user_does_not_want_stays_out(tmp_path: Path, settings: str) -> None:
    desk = Desk(tmp_path, settings)
    desk.write("a.md", "one")
    assert desk.capture() == 0
    assert desk.ask(asked.DOCUMENTS) == []


def test_a_store_at_18_leaves_them_alone(tmp_path: Path) -> None:
    desk = Desk(tmp_path, schema=18)
    desk.write("a.md", "one")
    assert desk.capture() == 0
    with desk.history() as history:
        assert "claude-memory" not in history.sources


def test_folders_in_settings_and_named_files_are_looked_into(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "feedback_x.md").write_text("x")
    named = tmp_path / "kiln.md"
    named.write_text("named")
    entry = f"{{ path = '{named}', repository = 'ada/kiln', logical_path = 'project_kiln.md' }}"
    desk = Desk(tmp_path, f"[auto_memory]\nsources = [{entry}]\n")
    settings = desk.user / ".claude" / "settings.json"
    settings.write_text(json.dumps({"autoMemoryDirectory": str(elsewhere)}))
    assert desk.capture() == 2
    found = desk.ask("SELECT repository, logical_path FROM memory_documents ORDER BY 2")
    assert found == [[f"local:{elsewhere}", "feedback_x.md"], ["ada/kiln", "project_kiln.md"]]


def test_a_link_below_a_folder_of_notes_is_not_followed(desk: Desk, tmp_path: Path) -> None:
    outside = tmp_path / "outside.md"
    outside.write_text("not yours")
    (desk.notes / "a.md").symlink_to(outside)
    assert desk.capture() == 0


def test_a_file_that_cannot_be_read_counts_as_a_failure(desk: Desk) -> None:
    desk.write("a.md", "one")
    with desk.history() as history:
        os.truncate(desk.notes / "a.md", 65 << 20)
        assert history.capture().errors == 1
    sql = "SELECT consecutive_failures FROM source_health WHERE source = 'claude-auto-memory'"
    assert desk.ask(sql) == [[1]]
    desk.write("a.md", "one")
    desk.capture()
    assert desk.ask(sql) == [[0]]


def test_whoever_watches_says_so_and_the_watchdog_sees_it(desk: Desk) -> None:
    desk.write("a.md", "one")
    looks = iter([False] * 5)
    ticks = iter(range(0, 10_000, 40))
    with desk.history() as history:
        watch(
            history.around,
            history.sources,
            lambda: next(looks, True),
            lambda _: None,
            poll_seconds=0,
            wait=lambda _: None,
            clock=lambda: float(next(ticks)),
        )
        seen = look_once(desk.home, history, now=history.around.clock(), monotonic=0.0).snapshot
    assert seen.memories is not None
    assert seen.memories.watched_at is not None
    assert seen.memories.taken_at is not None


def test_a_repository_is_named_by_its_remote_without_what_logs_in(tmp_path: Path) -> None:
    assert repository_of(tmp_path) == f"local:{tmp_path}"
    git = tmp_path / ".git"
    (git / "objects").mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    assert repository_of(tmp_path) == f"local-git:{tmp_path}"
    (git / "config").write_text(
        '[remote "origin"]\n\turl = https://ada:pw@git.example/ada/kiln.git\n'
    )
    assert repository_of(tmp_path) == "git.example/ada/kiln"
    assert host_and_path("git@git.example:ada/kiln.git") == "git.example/ada/kiln"
    assert host_and_path("ssh://git@git.example:22/ada/kiln") == "git.example/ada/kiln"
    assert host_and_path("") == ""


def test_a_note_that_was_forgotten_does_not_come_back(desk: Desk) -> None:
    desk.write("a.md", "# One\n\nThe quokka sleeps.\n")
    desk.write("b.md", "# Two\n\nThe numbat digs.\n")
    desk.capture()
    with desk.history() as history:
        enrich(desk.home, history, with_model=False)
        history.forget(Query(pattern="quokka"))
        assert sum(part.memories for part in history.capture().agents.values()) == 0
    assert [row[0] for row in desk.ask(asked.DOCUMENTS)] == ["b.md"]
    assert len(desk.ask("SELECT * FROM knowledge_nodes")) == 1
    desk.write("a.md", "# One\n\nThe wombat wakes up.\n")
    desk.capture()
    assert b"quokka" not in Path(desk.home.knowledge_path()).read_bytes()


def test_a_name_that_is_no_text_keeps_nothing_else_out(desk: Desk) -> None:
    odd = os.fsencode(desk.notes) + b"/odd\xff.md"
    Path(os.fsdecode(odd)).write_text("# Odd\n\nokapi\n")
    desk.write("plain.md", "# Plain\n\ndugong\n")
    assert desk.capture() == 2
    # The file cannot be asked for by the name that is stored: it was not renamed, and is not gone.
    desk.write("same.md", "# Odd\n\nokapi\n")
    assert desk.capture() == 1
    found = {(row[0], row[1]) for row in desk.ask(asked.DOCUMENTS)}
    assert found == {(name, "active") for name in ("odd\ufffd.md", "plain.md", "same.md")}


def test_the_lines_around_front_matter_are_not_what_a_note_says(desk: Desk) -> None:
    desk.write("user_ada.md", "---\nname: ada\n---\n\nAda fires the kiln on Mondays.\n")
    assert desk.capture() == 1
    with desk.history() as history:
        enrich(desk.home, history, with_model=False)
    ((summary,),) = desk.ask("SELECT json_extract(content, '$.summary') FROM knowledge_nodes")
    assert "name: ada" in str(summary)
    assert "Ada fires the kiln on Mondays." in str(summary)
    assert "---" not in str(summary)


def test_a_forgotten_project_takes_its_notes_along(desk: Desk) -> None:
    said = {"role": "user", "content": "fire it"}
    line = {"type": "user", "uuid": "u", "sessionId": "s-1", "cwd": "/home/ada/kiln"}
    rest = {"timestamp": "2026-11-17T10:00:00.000Z", "message": said}
    (desk.project / "s-1.jsonl").write_text(json.dumps({**line, **rest}) + "\n")
    other = desk.project.with_name("-home-ada-my-kiln") / "memory"
    other.mkdir(parents=True)
    (other / "stays.md").write_text("# Another project's\n\nokapi\n")
    desk.write("goes.md", "# Glaze\n\ndugong\n")
    assert desk.capture() == 2
    with desk.history() as history:
        enrich(desk.home, history, with_model=False)
        history.forget(Query(project=("kiln",)))
    assert [row[0] for row in desk.ask(asked.DOCUMENTS)] == ["stays.md"]
    assert desk.capture() == 0

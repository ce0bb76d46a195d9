"""Projects are renamed, merged and split; what is captured later, and recall, follow."""

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.sources.sample_support import write_json
from tests.support.user_homes import home_of, settle
from tests.web.transcripts import Log
from threadkeep.capture import intake
from threadkeep.capture.capture import History
from threadkeep.errors import Invalid, NotFound
from threadkeep.home.home import Home
from threadkeep.knowledge.query import Query
from threadkeep.testing import KnowledgeFactory

WORKS = {"one": "/c/harbor", "two": "/d/quay", "three": "/d/quay/.claude/worktrees/x"}
ONE = "5f0c2a7e-41d3-4c1b-9a52-0c6d1be2a901"


@pytest.fixture
def user(tmp_path: Path) -> Path:
    for name, cwd in WORKS.items():
        log = Log(tmp_path / "user", name, cwd=cwd)
        log.ask(f"please look at {name}")
        log.answer("the lighthouse is on")
        log.write()
    return tmp_path / "user"


@pytest.fixture
def history(tmp_path: Path, user: Path, knowledge_factory: KnowledgeFactory) -> Iterator[History]:
    with home_of(tmp_path / "home", knowledge_factory).history(user_home=user) as history:
        history.capture()
        yield history


def projects(history: History) -> dict[str, str]:
    return {one.session_id: one.project for one in history.sessions(Query(marks=("all",)))}


def test_a_project_is_renamed_merged_and_split_again(history: History, user: Path) -> None:
    assert projects(history) == {"one": "harbor", "two": "quay", "three": "quay"}
    verbs = history.store.projects
    assert verbs.rename("harbor", "port").sessions == 1
    assert verbs.rename("quay", "port").sessions == 3
    assert set(projects(history).values()) == {"port"}
    shown = verbs.project("port")
    assert shown.other_names == ("harbor", "quay")
    assert set(shown.folders) == {"/c/harbor", "/d/quay"}  # a work tree is its repository
    log = Log(user, "four", cwd="/c/harbor")
    log.ask("another one")
    log.write()
    history.capture()
    assert projects(history)["four"] == "port"
    assert [one.project for one in history.sessions(Query(project=("port",)))] == ["port"] * 4
    verbs.rename("port", "haven")
    assert set(projects(history).values()) == {"haven"}
    verbs.split("haven")
    assert projects(history) == {"one": "harbor", "two": "quay", "three": "quay", "four": "harbor"}


def test_what_is_no_name_or_no_project_is_refused(history: History) -> None:
    verbs = history.store.projects
    for name in ("", " ", "a/b"):
        with pytest.raises(Invalid):
            verbs.rename("harbor", name)
    for call in (verbs.project, verbs.split, lambda name: verbs.rename(name, "x")):
        with pytest.raises(NotFound):
            call("nowhere")
    assert projects(history)["one"] == "harbor"


def linked_tree(folder: Path) -> tuple[Path, Path]:
    """Make what git makes for a linked work tree; give the repository and the tree."""
    repository, tree = folder / "code" / "harbor", folder / "code" / "harbor-feature"
    inside = repository / ".git" / "worktrees" / "harbor-feature"
    for made in (inside, tree / "src"):
        made.mkdir(parents=True)
    (repository / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (inside / "HEAD").write_text("ref: refs/heads/feature\n")
    (inside / "commondir").write_text("../..\n")
    (tree / ".git").write_text(f"gitdir: {inside}\n")
    return repository, tree


def test_a_linked_work_tree_belongs_to_its_repository(tmp_path: Path) -> None:
    repository, tree = linked_tree(tmp_path)
    places = {
        "main": repository,
        "linked": tree,
        "below": tree / "src",
        "inside": repository / "src",
    }
    for name, cwd in places.items():
        log = Log(tmp_path / "user", name, cwd=str(cwd))
        log.ask("please look")
        log.write()
    with Home(tmp_path / "home").history(user_home=tmp_path / "user") as history:
        history.capture()
        found = projects(history)
    assert found == {"main": "harbor", "linked": "harbor", "below": "harbor", "inside": "src"}


def test_a_removed_work_tree_keeps_its_sessions_in_the_project(tmp_path: Path) -> None:
    _, tree = linked_tree(tmp_path)
    log = Log(tmp_path / "user", "linked", cwd=str(tree))
    log.ask("please look")
    log.write()
    with Home(tmp_path / "home").history(user_home=tmp_path / "user") as history:
        history.capture()
        shutil.rmtree(tree)
        log.answer("nothing is there")
        log.write()
        history.capture()
        assert projects(history) == {"linked": "harbor"}
        history.rescan()
        assert projects(history) == {"linked": "harbor"}
        history.store.projects.rename("harbor", "port")
        log.ask("and now?")
        log.write()
        history.capture()
        assert projects(history) == {"linked": "port"}


@pytest.mark.parametrize("agent", ["claude-code", "continue"])  # a line log and a document
def test_no_transaction_waits_for_the_folder_of_a_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, agent: str
) -> None:
    database = tmp_path / "home" / "knowledge.db"
    looked = []

    def look(folder: str) -> str:
        with closing(sqlite3.connect(database, timeout=0)) as other, other:
            other.execute("BEGIN IMMEDIATE")  # refused while somebody writes
        looked.append(folder)
        return folder

    monkeypatch.setattr(intake, "main_work_tree", look)
    if agent == "continue":
        item = {"message": {"role": "user", "content": "please look"}}
        told = {"sessionId": ONE, "workspaceDirectory": "/c/harbor", "history": [item]}
        write_json(tmp_path / "user/.continue/sessions" / f"{ONE}.json", told)
    else:
        log = Log(tmp_path / "user", ONE, cwd="/c/harbor")
        log.ask("please look")
        log.write()
    settle(tmp_path / "user")
    with Home(tmp_path / "home").history(user_home=tmp_path / "user") as history:
        assert history.capture().errors == 0
        assert projects(history) == {ONE: "harbor"}
    assert looked == ["/c/harbor"]


def test_the_folder_of_a_repository_need_not_have_a_name_in_utf8(tmp_path: Path) -> None:
    repository, tree = os.fsencode(tmp_path) + b"/h\xe4fen", tmp_path / "feature"
    inside = repository + b"/.git/worktrees/feature"
    Path(os.fsdecode(inside)).mkdir(parents=True)
    tree.mkdir()
    for name, data in ((b"HEAD", b"ref: refs/heads/feature\n"), (b"commondir", b"../..\n")):
        Path(os.fsdecode(inside + b"/" + name)).write_bytes(data)
    (tree / ".git").write_bytes(b"gitdir: " + inside + b"\n")
    log = Log(tmp_path / "user", "linked", cwd=str(tree))
    log.ask("please look")
    log.write()
    with Home(tmp_path / "home").history(user_home=tmp_path / "user") as history:
        history.capture()
        assert projects(history) == {"linked": "h\N{REPLACEMENT CHARACTER}fen"}


def test_a_repository_that_is_not_there_names_no_project(tmp_path: Path) -> None:
    tree, inside = tmp_path / "feature", tmp_path / "inside"
    for folder in (tree, inside):
        folder.mkdir()
    (inside / "HEAD").write_text("ref: refs/heads/feature\n")
    (inside / "commondir").write_text(f"/{'bank' * 9000}/.git\n")
    (tree / ".git").write_text(f"gitdir: {inside}\n")
    log = Log(tmp_path / "user", "linked", cwd=str(tree))
    log.ask("please look")
    log.write()
    with Home(tmp_path / "home").history(user_home=tmp_path / "user") as history:
        history.capture()
        assert projects(history) == {"linked": "feature"}

"""Projects: which one a folder is of, in new rows and in those of before."""

from pathlib import Path

import pytest

from tests.support.knowledge import do
from tests.support.many_sessions import Many
from threadkeep.base.paths import project_name, repository_folder
from threadkeep.knowledge.query import Query
from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.testing import KnowledgeFactory


@pytest.mark.parametrize(
    "folder, repository",
    [
        ("/u/app", "/u/app"),
        ("/u/app/", "/u/app"),
        ("", ""),
        ("C:\\code\\app", "C:/code/app"),
        ("/u/app/.claude/worktrees/busy-fox", "/u/app"),
        ("/u/app/.claude/worktrees/busy-fox/src/api", "/u/app"),
        ("/u/app/.claude/worktrees", "/u/app/.claude/worktrees"),
        ("/u/app/.worktrees/2/.claude/worktrees/x", "/u/app"),
        ("/u/app.worktrees/fix-1", "/u/app"),
        ("/u/app/.cursor/worktrees/x", "/u/app"),
        ("/u/.cursor/worktrees/app/K3x/src", "/u/.cursor/worktrees/app"),
        ("/u/.codex/worktrees/a1b2/app", "/u/.codex/worktrees/a1b2/app"),
        ("/u/worktrees/mine", "/u/worktrees/mine"),
    ],
)
def test_copies_belong_to_their_repository(folder: str, repository: str) -> None:
    assert repository_folder(folder) == repository
    assert project_name(folder) == repository.rpartition("/")[2]


def test_projects_of_older_rows_are_put_right_once(tmp_path: Path) -> None:
    many = Many(tmp_path)
    many.add("copy", cwd="/u/shop/.claude/worktrees/fox", project="fox")
    many.add("beside", cwd="/u/shop.worktrees/owl/api", project="api")
    many.add("came in", cwd="/u/shop/.claude/worktrees/fox", project="tools")
    do(many.path, "DROP INDEX tk_sessions_copies")
    with KnowledgeStore.open(many.path) as store:
        shop = Query(project=("SHOP",))
        assert {one.session_id for one in store.sessions(shop)} == {"copy", "beside"}
    many.add("later", cwd="/u/shop/.claude/worktrees/fox", project="fox")
    with KnowledgeStore.open(many.path) as store:
        assert [one.session_id for one in store.sessions(Query(project=("fox",)))] == ["later"]


def test_a_folder_means_all_below_it_and_its_copies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, knowledge_factory: KnowledgeFactory
) -> None:
    many = Many(tmp_path, knowledge_factory)
    many.add("in", cwd="/u/shop", project="shop")
    many.add("below", cwd="/u/shop/api", project="api")
    many.add("copy", cwd="/u/shop.worktrees/x", project="shop")
    many.add("beside", cwd="/u/shopping", project="shopping")
    here = str(tmp_path / "here")
    many.add("here", cwd=here, project="here")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()
    with many.store() as store:

        def found(project: str) -> set[str]:
            return {one.session_id for one in store.sessions(Query(project=(project,)))}

        assert found("/u/shop") == found("/u/shop/") == {"in", "below", "copy"}
        assert found("owner/shop") == found("Shop") == {"in", "copy"}
        assert found("shop") != found("hop") == {"in", "copy", "beside"}
        assert found("~/here") == found("./here") == {"here"}
        monkeypatch.chdir(here)
        assert found(".") == {"here"}

"""Opening what surfaces browse: through a home, another program's file, from several threads."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.cli.histories import CLAUDE, DEMO
from tests.support.knowledge import do
from tests.support.many_sessions import Many
from threadkeep.base.tx import Sql
from threadkeep.errors import NotFound
from threadkeep.home.home import Home
from threadkeep.home.opening import open_browse
from threadkeep.knowledge.results import SessionPage, Sum
from threadkeep.knowledge.store import KnowledgeStore


def test_a_home_without_a_store_says_so(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        open_browse(Home(tmp_path))


def test_a_home_is_browsed_from_several_threads(tmp_path: Path) -> None:
    home = Home(tmp_path / "home", environ={"HOME": str(tmp_path), "TZ": "Europe/Berlin"})
    with home.history(user_home=DEMO) as history:
        history.capture()
    with open_browse(home) as browse, ThreadPoolExecutor(4) as threads:
        assert str(browse.zone) == "Europe/Berlin"
        assert browse.notes == ()
        refs = [one.ref for one in browse.sessions().items]
        assert f"claude-code:{CLAUDE}" in refs
        alone = [(browse.session(ref), browse.window(ref), browse.usage()) for ref in refs]
        together = threads.map(
            lambda ref: (browse.session(ref), browse.window(ref), browse.usage()), refs * 3
        )
        assert list(together) == alone * 3
        for detail, window, _ in alone:
            assert window.total == detail.listed.session.entries
            assert sum(turn.tools for turn in detail.turns) == detail.listed.session.tool_calls


def test_a_transcript_is_the_same_in_windows_and_whole(tmp_path: Path) -> None:
    home = Home(tmp_path / "home", environ={"HOME": str(tmp_path)})
    with home.history(user_home=DEMO) as history:
        history.capture()
        with open_browse(home) as browse:
            for session in history.sessions():
                whole = [shown.entry.text for shown in history.transcript(session)]
                ref = f"{session.agent}:{session.session_id}"
                parts = [browse.window(ref, after=n - 1, limit=7) for n in range(0, len(whole), 7)]
                assert [block.text for part in parts for block in part.messages] == whole


def test_a_file_of_hippo_is_browsed_as_far_as_it_goes(tmp_path: Path) -> None:
    path = tmp_path / "hippo.db"
    KnowledgeStore.open(path).close()
    with KnowledgeStore.open(path) as store, store.context.db.read() as tx:
        ours = tx.all(
            Sql("SELECT type, name FROM sqlite_master WHERE name LIKE 'tk\\_%' ESCAPE '\\'")
        )
        found = ours
    for kind in ("trigger", "index", "table"):
        names = [name for type_, name in found if type_ == kind]
        do(path, *(f"DROP {kind} IF EXISTS {name}" for name in names if "_words_" not in name))
    with open_browse(Home(tmp_path), path) as browse:
        assert browse.sessions() == SessionPage((), None)
        assert (browse.count(), browse.facets(), browse.mark()) == (0, {}, 0)
        assert browse.changed_since(0) == (0, ())
        assert browse.usage().total == Sum()
        assert (browse.blocks_report(), browse.activity(), browse.projects()) == ([], {}, [])
        assert browse.today().sessions == 0
        assert browse.nodes().items == ()
        assert "nothing was captured" in browse.notes[0]
        with pytest.raises(NotFound, match="nothing was captured"):
            browse.session("codex:x")


def test_a_file_without_the_newest_indexes_is_read_all_the_same(tmp_path: Path) -> None:
    many = Many(tmp_path)
    many.add("one")
    indexes = ("shown", "of_agent", "of_project", "of_model", "of_branch", "titles", "counted")
    do(many.path, *(f"DROP INDEX tk_sessions_{name}" for name in indexes))
    do(many.path, "DROP INDEX tk_usage_quarters")
    with many.browse() as browse:
        assert [one.ref for one in browse.sessions().items] == ["codex:one"]
        assert browse.facets()["agent"] == [("codex", 1)]

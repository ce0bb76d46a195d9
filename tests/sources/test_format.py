"""The common mechanism: places on three systems, formats as data, sources of other packages."""

import json
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.support.user_homes import open_history, settle
from threadkeep.base.sqlite.foreign import ForeignDatabase, open_foreign
from threadkeep.errors import Invalid
from threadkeep.knowledge.records import Entry, SessionFacts, Usage
from threadkeep.sources import registry
from threadkeep.sources.format import Databases, Documents, LineLogs, Told, read_rows
from threadkeep.sources.places import files_of, place, roots_of
from threadkeep.sources.records import Log, UnreadablePlace, UserHome
from threadkeep.sources.unreadable import ANTIGRAVITY


def read_toy(record: Any, number: int) -> Told:
    fields = record if isinstance(record, dict) else {}
    match fields.get("type"):
        case "about":
            return Told(facts=SessionFacts(cwd=fields["cwd"], model="m-1"))
        case "say":
            entry = Entry(f"{number}", "user", "prompt", fields.get("at"), fields["text"])
            return Told([entry], [Usage(f"toy:{number}", fields.get("at"), "", input=3, output=4)])
    return Told(unknown=["toy"])


TOY = LineLogs(agent="toy", label="Toy", places=(place("~/.toy", "*/log.jsonl"),), read=read_toy)


# ---------------------------------------------------------------------- places


def test_a_place_is_known_on_every_system(tmp_path: Path) -> None:
    places = [place(("{data}/p", "{support}/p", "{roaming}/p", "{local}/p", "$P_HOME/x"), "*")]
    home = UserHome(tmp_path)
    assert [str(root.relative_to(tmp_path)) for root in roots_of(places, home)] == [
        ".local/share/p",
        "Library/Application Support/p",
        "AppData/Roaming/p",
        "AppData/Local/p",
    ]
    moved = UserHome(tmp_path, {"XDG_DATA_HOME": "/d", "APPDATA": "/r", "P_HOME": "/h"})
    assert [str(root) for root in roots_of(places, moved)][:3] == [
        "/d/p",
        f"{tmp_path}/Library/Application Support/p",
        "/r/p",
    ]
    assert roots_of(places, moved)[-1] == Path("/h/x")


def test_the_editors_of_one_family_are_all_looked_at(tmp_path: Path) -> None:
    roots = {
        str(one.relative_to(tmp_path)) for one in roots_of([place("{editor}/x")], _at(tmp_path))
    }
    assert {
        ".config/Code/User/x",
        ".config/Cursor/User/x",
        "Library/Application Support/VSCodium/User/x",
        "AppData/Roaming/Code - Insiders/User/x",
        ".vscode-server/data/User/x",
    } <= roots


def _at(home: Path) -> UserHome:
    return UserHome(home)


@pytest.mark.parametrize("odd", ["/etc/passwd", "~/../x", "{nowhere}/x", "relative/x"])
def test_a_place_that_leads_elsewhere_is_refused(odd: str) -> None:
    with pytest.raises(Invalid):
        place(odd)


def test_links_are_told_and_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "log.jsonl").write_text("{}\n")
    home = tmp_path / "home"
    (home / ".toy" / "real").mkdir(parents=True)
    (home / ".toy" / "real" / "log.jsonl").write_text("{}\n")
    (home / ".toy" / "led").symlink_to(outside)
    told: list[UnreadablePlace] = []
    found = files_of(TOY.places, UserHome(home, tell=told.append))
    assert [path.parent.name for path, _, _ in found] == ["real"]
    assert [(one.path, one.is_link) for one in told] == [(str(home / ".toy" / "led"), True)]


def test_any_depth_is_asked_for_by_two_stars(tmp_path: Path) -> None:
    deep = tmp_path / ".toy" / "a" / "b" / "c.jsonl"
    deep.parent.mkdir(parents=True)
    deep.write_text("{}\n")
    assert [path for path, _, _ in files_of([place("~/.toy", "**/*.jsonl")], _at(tmp_path))] == [
        deep
    ]


def test_what_a_program_encrypts_is_told_and_is_no_failure(tmp_path: Path) -> None:
    told: list[UnreadablePlace] = []
    user = UserHome(tmp_path, tell=told.append)
    assert not list(ANTIGRAVITY.find(user))
    assert not told
    kept = tmp_path / ".gemini" / "antigravity-cli" / "conversations"
    kept.mkdir(parents=True)
    assert list(ANTIGRAVITY.find(user)) == []
    assert [(one.path, one.is_failure) for one in told] == [(str(kept), False)]
    assert "encrypts" in told[0].why


# ---------------------------------------------------------------------- sources of other packages


def brought(monkeypatch: pytest.MonkeyPatch, folder: Path, **values: object) -> None:
    """Install a package that brings these objects through its entry points."""
    module = ModuleType("toys_for_tests")
    vars(module).update(values)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    about = folder / "toys-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: toys\nVersion: 1.0\n")
    points = "".join(f"{name} = {module.__name__}:{name}\n" for name in values)
    (about / "entry_points.txt").write_text(f"[threadkeep.sources]\n{points}")
    monkeypatch.syspath_prepend(folder)


def write_toy(user: Path, *texts: str) -> None:
    path = user / ".toy" / "s1" / "log.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    records: list[dict[str, object]] = [{"type": "about", "cwd": "/home/ada/shop"}]
    records += [{"type": "say", "text": text, "at": 1_760_000_000_000} for text in texts]
    path.write_text("".join(json.dumps(one) + "\n" for one in records))
    settle(user)


def test_a_package_brings_a_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    brought(monkeypatch, tmp_path / "site", toy=TOY)
    write_toy(tmp_path / "user", "Why is the sky blue?", "And the sea?")
    with open_history(tmp_path / "home", tmp_path / "user") as history:
        report = history.capture()
        assert report.errors == 0
        (session,) = history.sessions()
        assert (session.agent, session.cwd, session.model) == ("toy", "/home/ada/shop", "m-1")
        assert history.usage().by_agent["toy"].output == 8
        texts = [one.entry.text for one in history.transcript(session)]
        assert texts == ["Why is the sky blue?", "And the sea?"]


def test_the_variables_that_move_its_logs_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = (place(("$TOY_HOME/logs", "{data}/toy", "~/.toy"), "*.jsonl"),)
    moved = LineLogs(agent="toy", label="Toy", places=places, read=read_toy)
    brought(monkeypatch, tmp_path / "site", toy=moved)
    (tmp_path / "user").mkdir()
    with open_history(tmp_path / "home", tmp_path / "user") as history:
        parts = {one.name: one.variables for one in history.coverage().sources}
    assert parts["toy"] == ["TOY_HOME", "XDG_DATA_HOME"]
    assert "CODEX_HOME" in parts["codex"]


@pytest.mark.parametrize(
    "given",
    [
        object(),
        LineLogs(agent="chat", label="x", places=TOY.places, read=read_toy),
        LineLogs(agent="It's", label="x", places=TOY.places, read=read_toy),
    ],
)
def test_a_source_that_cannot_be_used_is_told_and_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: object
) -> None:
    brought(monkeypatch, tmp_path / "site", broken=given, toy=TOY)
    write_toy(tmp_path / "user", "Hello")
    with open_history(tmp_path / "home", tmp_path / "user") as history:
        history.capture()
        assert [session.agent for session in history.sessions()] == ["toy"]
        unseen = {path for one in history.coverage().sources for path in one.unseen}
        assert unseen == {"the source 'broken'"}


def test_a_reader_that_fails_keeps_the_line_and_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(record: Any, number: int) -> Told:
        raise RuntimeError("a mistake in somebody's package")

    brought(
        monkeypatch,
        tmp_path / "site",
        toy=LineLogs(agent="toy", label="T", places=TOY.places, read=fails),
    )
    write_toy(tmp_path / "user", "Hello")
    with open_history(tmp_path / "home", tmp_path / "user") as history:
        report = history.capture()
        assert report.of("toy").lines == 2
        assert list(report.of("toy").unknown.values()) == [2]


@pytest.mark.parametrize("raised", [RuntimeError, AssertionError, SystemExit])
def test_a_source_that_fails_while_it_looks_stops_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raised: type[BaseException]
) -> None:
    def fails(_: Log) -> Log:
        raise raised("a mistake in somebody's package")

    broken = LineLogs(agent="broken", label="B", places=TOY.places, read=read_toy, identify=fails)
    brought(monkeypatch, tmp_path / "site", broken=broken, toy=TOY)
    write_toy(tmp_path / "user", "Hello")
    with open_history(tmp_path / "home", tmp_path / "user") as history:
        report = history.capture()
        assert [session.agent for session in history.sessions()] == ["toy"]
        assert raised.__name__ in str(report.of("broken").errors)


def test_nobody_takes_the_name_of_one_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    brought(monkeypatch, tmp_path / "site", pi=TOY)
    assert registry.foreign_sources()["pi"].agent == "pi"


def test_other_packages_are_not_looked_for_without_need() -> None:
    asked: list[str] = []

    def more() -> dict[str, Any]:
        asked.append("more")
        return {}

    sources = registry.Sources(registry.foreign_sources().makers, more)
    assert "pi" in sources
    assert sources["pi"].agent == "pi"
    assert asked == []
    assert "nobody" not in sources
    assert asked == ["more"]


# ---------------------------------------------------------------------- documents and databases


def split_toy(files: Any) -> Any:
    yield "about", {"type": "about", "cwd": files.json("about.json")["cwd"]}
    for place_, said in enumerate(files.json()):
        yield str(place_), {"type": "say", "text": said}


def test_a_document_of_two_files_is_read_again_when_either_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Documents(
        agent="toy",
        label="Toy",
        places=(place("~/.toy", "*.said.json"),),
        split=split_toy,
        read=read_toy,
        beside=("about.json",),
    )
    brought(monkeypatch, tmp_path / "site", toy=source)
    user = tmp_path / "user"
    (user / ".toy").mkdir(parents=True)
    (user / ".toy" / "a.said.json").write_text('["one"]')
    (user / ".toy" / "about.json").write_text('{"cwd": "/home/ada"}')
    with open_history(tmp_path / "home", user) as history:
        assert history.capture().errors == 0
        (user / ".toy" / "about.json").write_text('{"cwd": "/home/ada/shop"}')
        assert history.capture().errors == 0
        assert [session.cwd for session in history.sessions()] == ["/home/ada/shop"]
        (user / ".toy" / "a.said.json").write_text('["one", "tw')
        assert history.capture().errors == 1
        (user / ".toy" / "a.said.json").write_text('["one", "two"]')
        assert history.capture().errors == 0
        (session,) = history.sessions()
        assert [one.entry.text for one in history.transcript(session)] == ["one", "two"]


def test_a_document_does_not_lead_out_of_its_folder(tmp_path: Path) -> None:
    def split(files: Any) -> Any:
        yield "x", files.json("../secret.json")

    (tmp_path / ".toy").mkdir()
    (tmp_path / ".toy" / "a.json").write_text("{}")
    (tmp_path / "secret.json").write_text("{}")
    source = Documents(
        agent="toy", label="T", places=(place("~/.toy", "a.json"),), split=split, read=read_toy
    )
    (log,) = source.find(_at(tmp_path))
    with pytest.raises(Invalid):
        list(source.records(log, "a"))


def toy_database(path: Path, *, index: bool = False) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE said (id INTEGER PRIMARY KEY, session TEXT, data TEXT)")
        data = json.dumps({"type": "say", "text": "Hello"})
        connection.execute("INSERT INTO said VALUES (1, 's1', ?)", (data,))
        if index:
            connection.execute("CREATE INDEX by_kind ON said (json_extract(data, '$.type'))")


def toy_sessions(database: ForeignDatabase) -> Iterator[tuple[str, object]]:
    for row in read_rows(database, "said", ("session",)):
        yield row["session"], row


def split_rows(database: ForeignDatabase, item: str, _: Path) -> Iterator[tuple[str, bytes]]:
    rest = "WHERE session = ?"
    for row in read_rows(database, "said", ("id", "gone", "data"), rest, (item,)):
        yield str(row["id"]), row["data"].encode()


def test_a_database_with_an_index_on_an_expression_is_sound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy_database(tmp_path / "user" / ".toy" / "toy.db", index=True)
    source = Databases(
        agent="toy",
        label="Toy",
        places=(place("~/.toy", "toy.db"),),
        sessions=toy_sessions,
        split=split_rows,
        read=read_toy,
    )
    brought(monkeypatch, tmp_path / "site", toy=source)
    with open_history(tmp_path / "home", tmp_path / "user") as history:
        assert history.capture().errors == 0
        (session,) = history.sessions()
        assert session.session_id == "s1"
        assert [one.entry.text for one in history.transcript(session)] == ["Hello"]


def test_such_an_index_opens_no_way_to_a_view(tmp_path: Path) -> None:
    path = tmp_path / "toy.db"
    toy_database(path, index=True)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE VIEW seen AS SELECT * FROM said")
    with open_foreign(path) as database:
        assert len(list(database.rows("SELECT data FROM said"))) == 1
        with pytest.raises(Exception, match="a view, not a table"):
            list(database.rows("SELECT data FROM seen"))

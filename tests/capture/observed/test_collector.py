"""The collector: everything in the spool is stored once, whoever is killed when."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from tests.lengths import examples
from tests.support.worlds import stored_in
from threadkeep.base.spool import Spool
from threadkeep.base.tx import Sql
from threadkeep.capture.observed import collector
from threadkeep.capture.observed.collector import collect, copy_fallback, replay_fallback
from threadkeep.capture.observed.envelopes import write_envelope
from threadkeep.capture.observed.intake import (
    BatchReport,
    ObservedContext,
    Rules,
    report,
    report_all,
    store_all,
)
from threadkeep.capture.records import Exclusion
from threadkeep.capture.redact.engine import Redactor
from threadkeep.knowledge.records import Command, GitState, Heartbeat, Output, Visit
from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.testing import KnowledgeFactory

NOW = 1_800_000_000_000
SESSION = "22222222-2222-4222-8222-222222222222"
RULES = Rules(clean=Redactor.default().text)
AWS = "AKIA" + "Q3EGWTZ5XLN7RBVD"


LS = Command("11111111-0000-4000-8000-000000000001", SESSION, NOW, "ls", "/", exit_code=0)


def record(kind: str, *fields: object) -> bytes:
    return "\x1e{}\x1d\n".format("\x1f".join(map(str, (kind, *fields)))).encode()


def start(seq: int, command: str = "make", **given: Any) -> bytes:
    at, cwd = given.get("at", 1_800_000_000.5), given.get("cwd", "/u/app")
    fields = (SESSION, given.get("pid", 7), seq, "zsh", "vm", "me", at, cwd, len(command), command)
    return record("start1", *fields)


def end(seq: int, command: str = "make", code: int | str = 0, **given: Any) -> bytes:
    at, cwd = given.get("at", 1_800_000_000.5), given.get("cwd", "/u/app")
    head = (SESSION, given.get("pid", 7), seq, "zsh", "vm", "me", at, f"{at + 0.25:.2f}", code)
    return record("end1", *head, cwd, len(command), command)


class World:
    """A store, a spool, and what a shell appends."""

    def __init__(
        self, folder: Path, rules: Rules = RULES, factory: KnowledgeFactory | None = None
    ) -> None:
        self.folder = folder
        self.spool = Spool(folder / "spool")
        self.spool.folder.mkdir(parents=True)
        place = folder / "knowledge.db" if factory is None else factory.place()
        self.knowledge = KnowledgeStore.open(place, clock=lambda: NOW)
        self.store = ObservedContext(
            store=self.knowledge,
            rules=rules,
            clock=lambda: NOW,
            facts=lambda: lambda cwd, _at: GitState("o/r", "main") if cwd == "/u/app" else None,
        )

    def append(self, data: bytes, name: str = "zsh-7-1.tk") -> None:
        with (self.spool.folder / name).open("ab") as file:
            file.write(data)

    def collect(self) -> BatchReport:
        return collect(self.store, self.spool)

    def rows(self, columns: str, table: str = "events") -> list[tuple[Any, ...]]:
        with self.knowledge.context.db.read() as tx:
            return tx.all(Sql(f"SELECT {columns} FROM {table} ORDER BY 1"))


@pytest.fixture
def world(tmp_path: Path, knowledge_factory: KnowledgeFactory) -> Iterator[World]:
    world = World(tmp_path / "home", factory=knowledge_factory)
    yield world
    world.knowledge.close()


def test_a_command_becomes_a_row_with_all_that_is_known(world: World) -> None:
    world.append(record("env1", SESSION, 7, "LANG=C", "SHLVL=1", "NOT_ALLOWED=x"))
    world.append(start(1) + end(1, code=2))
    assert world.collect() == BatchReport(new=1)
    columns = "command, exit_code, duration_ms, timestamp, cwd, shell, hostname, git_repo"
    assert world.rows(columns) == [
        ("make", 2, 250, 1_800_000_000_750, "/u/app", "zsh", "vm", "o/r")
    ]
    assert world.rows("terminal, shell, username", "sessions") == [(SESSION, "zsh", "me")]
    assert world.rows("env_json", "env_snapshots") == [('{"LANG":"C","SHLVL":"1"}',)]
    assert world.rows("env_snapshot_id") == [(1,)]
    assert world.rows("event_id, status", "enrichment_queue") == [(1, "pending")]
    health = {h.source: h for h in world.knowledge.health()}
    assert health["shell"].last_event_ts == NOW  # not later, even if the shell's clock is ahead
    assert health["shell"].events_last_1h == 1


def test_a_second_look_stores_nothing(world: World) -> None:
    world.append(end(1))
    world.collect()
    assert world.collect() == BatchReport()
    assert len(world.rows("id")) == 1


def test_a_running_command_is_there_and_completed_when_it_ends(world: World) -> None:
    world.append(start(1, "sleep 1000"))
    assert world.collect() == BatchReport(new=1)
    assert world.rows("command, exit_code") == [("sleep 1000", None)]
    world.append(end(1, "sleep 1000", 130))
    assert world.collect() == BatchReport(updated=1)
    assert world.rows("command, exit_code, duration_ms") == [("sleep 1000", 130, 250)]


def test_the_environment_is_remembered_between_looks(world: World) -> None:
    world.append(record("env1", SESSION, 7, "LANG=C") + end(1))
    world.collect()
    world.append(end(2, at=1_800_000_009.0))
    world.append(end(3, at=1_800_000_019.0, pid=8), "zsh-8-1.tk")
    world.collect()
    assert world.rows("id, env_snapshot_id") == [(1, 1), (2, 1), (3, None)]


def test_half_a_record_waits_for_its_rest(world: World) -> None:
    whole = end(1)
    world.append(whole[:30])
    assert world.collect() == BatchReport()
    (taken,) = world.spool.take()
    with taken.path.open("ab") as shell:  # it had opened the file before it was taken
        shell.write(whole[30:])
    assert world.collect() == BatchReport(new=1)


def test_a_torn_record_is_counted_and_given_up_when_nobody_can_write_it_any_more(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.append(end(1) + end(2)[:40])
    assert world.collect() == BatchReport(new=1)
    later = next(world.spool.folder.iterdir()).stat().st_ctime + 60
    monkeypatch.setattr("threadkeep.base.spool.time.time", lambda: later)
    assert world.collect() == BatchReport(refused=1)
    assert not list(world.spool.folder.iterdir())
    assert [(d.source, d.reason, d.count) for d in world.knowledge.drops()] == [
        ("spool", "damaged", 1)
    ]


@pytest.mark.parametrize("stage", ["before", "after"])
def test_a_crash_around_the_commit_loses_and_doubles_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    world.append(end(1) + end(2, at=1_800_000_009.0))

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(collector, "_move" if stage == "before" else "_finish", crash)
        with pytest.raises(KeyboardInterrupt):
            world.collect()
    world.collect()
    assert len(world.rows("id")) == 2


def test_two_collectors_of_one_file_store_it_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.append(end(1) + end(2, at=1_800_000_009.0))
    world.spool.take()
    first = collector._take_records
    inside: list[BatchReport] = []

    def meanwhile(*given: Any, **named: Any) -> Any:
        if not inside:
            inside.append(BatchReport())
            inside[0] = collect(world.store, world.spool)
        return first(*given, **named)

    monkeypatch.setattr(collector, "_take_records", meanwhile)
    assert world.collect() == BatchReport()
    assert inside == [BatchReport(new=2)]
    assert len(world.rows("id")) == 2


def test_a_file_that_is_longer_than_a_block_is_read_in_pieces(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collector, "_BLOCK", 500)
    world.append(b"".join(end(n, at=1_800_000_000.0 + 9 * n) for n in range(50)))
    assert world.collect().new == 50


def test_a_store_that_lost_its_cursor_still_stores_once(world: World) -> None:
    world.append(end(1))
    world.collect()
    world.append(end(1) + end(2, at=1_800_000_009.0))  # the same file, come back from a backup
    assert world.collect() == BatchReport(new=1, known=1)


def test_reports_of_programs_come_the_same_way(world: World) -> None:
    visit = Visit("33333333-0000-5000-8000-000000000001", NOW, "https://docs.rs/x", "docs.rs", "X")
    report(world.spool, RULES, visit)
    report(world.spool, RULES, Heartbeat("browser", NOW))
    assert world.collect() == BatchReport(new=1)
    assert world.rows("url", "browser_events") == [("https://docs.rs/x",)]
    health = {h.source: h for h in world.knowledge.health()}
    assert health["browser"].last_heartbeat_ts == NOW
    assert not list(world.spool.folder.iterdir())


def test_secrets_never_reach_the_spool_of_programs_nor_the_store(
    world: World, knowledge_factory: KnowledgeFactory
) -> None:
    command = Command(
        envelope_id="11111111-0000-4000-8000-000000000001",
        session=SESSION,
        at=NOW,
        command=f"aws configure set k {AWS}",
        cwd="/u",
        exit_code=0,
        stdout=Output(f"key {AWS}"),
        env={"PATH": f"/{AWS}"},
    )
    visit = Visit("33333333-0000-5000-8000-000000000001", NOW, f"https://docs.rs/{AWS}", "docs.rs")
    visit = Visit(**{f: getattr(visit, f) for f in visit.__struct_fields__} | {"title": AWS})
    report_all(world.spool, RULES, [command, visit])
    (file,) = world.spool.folder.iterdir()
    assert AWS.encode() not in file.read_bytes()
    world.append(record("env1", SESSION, 7, f"PATH=/{AWS}") + end(1, f"echo {AWS}", cwd=f"/{AWS}"))
    assert world.collect() == BatchReport(new=3)
    assert AWS.encode() not in stored_in(knowledge_factory, world.knowledge)


@pytest.mark.parametrize(
    "rules, cwd, command",
    [
        ({"folders": ("/u/secret",)}, "/u/secret/deep", "make"),
        ({"commands": ("pass *",)}, "/u", "pass show bank"),
        ({"commands": ("pass",)}, "/u", "cd /x && /usr/bin/pass show bank"),
        ({"commands": ("*bank*",)}, "/u", "curl https://bank.example"),
    ],
)
def test_what_the_user_keeps_out_is_not_stored(
    tmp_path: Path, rules: dict[str, Any], cwd: str, command: str
) -> None:
    folders = Exclusion(rules.pop("folders", ()))
    world = World(tmp_path / "home", Rules(clean=RULES.clean, folders=folders, **rules))
    world.append(end(1, command, cwd=cwd) + end(2, "ls", cwd="/u", at=1_800_000_009.0))
    assert world.collect() == BatchReport(new=1, excluded=1)
    assert world.rows("command") == [("ls",)]
    assert [(d.source, d.reason, d.count) for d in world.knowledge.drops()] == [
        ("shell", "excluded", 1)
    ]
    world.knowledge.close()


@pytest.mark.parametrize("way", ["link", "/{0}", "{0}/../private/x", "{0}"])
def test_an_excluded_folder_is_kept_out_under_all_its_names(tmp_path: Path, way: str) -> None:
    private = tmp_path / "private"
    (private / "x").mkdir(parents=True)
    (tmp_path / "link").symlink_to(private)
    cwd = str(tmp_path / "link") if way == "link" else way.format(private)
    rules = Rules(clean=RULES.clean, folders=Exclusion((str(private),)))
    world = World(tmp_path / "home", rules)
    world.append(end(1, "ls", cwd=cwd) + end(2, "make", cwd=str(tmp_path), at=1_800_000_009.0))
    assert world.collect() == BatchReport(new=1, excluded=1)
    world.knowledge.close()


def test_an_excluded_site_is_not_even_left_in_the_spool(tmp_path: Path) -> None:
    world = World(tmp_path / "home", Rules(clean=RULES.clean, domains=("bank.example",)))
    visit = Visit("v", NOW, "https://www.bank.example/", "www.bank.example")
    assert not report(world.spool, world.store.rules, visit)
    assert not list(world.spool.folder.iterdir())
    world.knowledge.close()


def test_lines_that_nobody_understands_are_set_aside_and_the_rest_is_stored(world: World) -> None:
    good = write_envelope(
        Command("11111111-0000-4000-8000-000000000001", SESSION, NOW, "ls", "/u", exit_code=0)
    )
    world.spool.put(b'{"broken\n' + good + b"\n\xff\xfe\n[]\n")
    assert world.collect() == BatchReport(new=1, refused=3)
    (kept,) = (world.spool.folder / "refused").iterdir()
    assert kept.read_bytes() == b'{"broken\n\xff\xfe\n[]\n'


def test_the_fallback_files_of_the_original_are_replayed_and_renamed(world: World) -> None:
    folder = world.folder / "fallback"
    folder.mkdir()
    lines = [
        write_envelope(
            Command(f"11111111-0000-4000-8000-00000000000{n}", SESSION, NOW, f"ls {n}", "/u", 0)
        )
        for n in range(3)
    ]
    (folder / "2026-11-15.jsonl").write_bytes(b"\n".join(lines[:2]))  # no line feed at the end
    (folder / "2026-11-16.jsonl").write_bytes(lines[2] + b"\n{broken\n" + lines[0] + b"\n")
    assert replay_fallback(world.store, folder) == BatchReport(new=3, known=1, refused=1)
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["2026-11-15.jsonl.done", "2026-11-16.jsonl.partial"]
    assert replay_fallback(world.store, folder) == BatchReport()
    assert len(world.rows("id")) == 3


def test_fallback_files_of_a_program_that_is_still_in_use_are_only_read(world: World) -> None:
    folder = world.folder / "theirs"
    folder.mkdir()
    line = write_envelope(LS)
    (folder / "2026-11-16.jsonl").write_bytes(line + b"\n{broken\n")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert copy_fallback(world.store, folder) == BatchReport(new=1, refused=1)
    assert copy_fallback(world.store, folder) == BatchReport(known=1, refused=1)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_line_without_an_end_is_skipped_and_the_next_is_read(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collector, "_LONGEST_LINE", 1000)
    line = write_envelope(LS)
    world.spool.put(b"x" * 2500 + b"\n" + line + b"\n")
    assert world.collect() == BatchReport(new=1, refused=1)
    assert not list(world.spool.folder.iterdir())


def test_the_same_event_by_socket_and_spool_is_one_row(world: World) -> None:
    command = Command("11111111-0000-4000-8000-000000000001", SESSION, NOW, "ls", "/u", exit_code=0)
    store_all(world.store, [command])
    report(world.spool, RULES, command)
    assert world.collect() == BatchReport(known=1)
    assert len(world.rows("id")) == 1


@settings(max_examples=examples(25), deadline=None)
@given(
    st.lists(st.tuples(st.booleans(), st.integers(0, 3)), min_size=1, max_size=12),
    st.lists(st.integers(1, 200), max_size=6),
)
def test_however_the_file_grows_every_command_is_there_once(
    tmp_path_factory: pytest.TempPathFactory,
    commands: list[tuple[bool, int]],
    cuts: list[int],
) -> None:
    world = World(tmp_path_factory.mktemp("grown"))
    data = b""
    for seq, (ended, text) in enumerate(commands):
        at = 1_800_000_000.0 + 9 * seq
        data += start(seq, f"c{text}", at=at) + (end(seq, f"c{text}", at=at) if ended else b"")
    places = sorted({min(cut * 7, len(data)) for cut in cuts} | {len(data)})
    before = 0
    held = (world.spool.folder / "zsh-7-1.tk").open("ab")
    for place in places:
        held.write(data[before:place])
        held.flush()
        world.collect()
        before = place
    held.close()
    world.collect()
    stored = [row[1:] for row in world.rows("id, command, exit_code")]
    assert stored == [(f"c{text}", 0 if ended else None) for ended, text in commands]
    world.knowledge.close()


def test_json_of_the_spool_is_the_envelope_of_the_original(world: World) -> None:
    report(
        world.spool,
        RULES,
        Command("e" * 8 + "-0000-4000-8000-000000000001", SESSION, NOW, "ls", "/u", 0),
    )
    (file,) = world.spool.folder.iterdir()
    envelope = json.loads(file.read_bytes())
    assert envelope["payload"]["type"] == "Shell"
    assert envelope["payload"]["data"]["command"] == "ls"

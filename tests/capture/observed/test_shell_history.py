"""Histories of shells: read as the shells write them, each entry with an id that stays."""

import os
import random
import sqlite3
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given, strategies as st

from tests.conftest import need_tool
from threadkeep.capture.observed import shell_history
from threadkeep.capture.observed.shell_history import (
    HistoryCommand,
    HistoryFile,
    Kind,
    Tally,
    bash_entries,
    find_histories,
    fish_entries,
    read_past,
    zsh_entries,
)
from threadkeep.errors import Damaged, Invalid, NotFound

READERS = {"zsh": zsh_entries, "bash": bash_entries, "fish": fish_entries}
COMMANDS = [
    "ls -l",
    "echo 'zwei\nzeilen'",
    "cat <<X\n\\\n\\n\n\nX",
    ": colon",
    ":1:2;not a time",
    "printf 'ünïcödé ツ 🦀 à ƒ'",
    "back\\\\slash \\n end",
    "ends with \\",
    "ends with \\  ",
    "#1700000000 is no time",
    "tab\there",
    "  blanks around  ",
]


def past(path: Path, kind: Kind) -> tuple[list[HistoryCommand], int]:
    tally = Tally()
    return list(read_past(HistoryFile(kind, path), tally)), tally.damaged


def texts(found: Sequence[HistoryCommand]) -> list[str]:
    return [entry.command for entry in found]


def shell(path: Path, *command: str, **variables: str) -> bytes:
    environment = {"PATH": os.environ["PATH"], "HOME": str(path.parent), "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        command,
        env=environment | variables,
        capture_output=True,
        check=True,
        stdin=subprocess.DEVNULL,
    )
    return done.stdout


# ---------------------------------------------------------------------- as the shells write them


@pytest.mark.parametrize("option", ["extendedhistory", "noextendedhistory"])
def test_zsh_writes_what_we_read(tmp_path: Path, option: str) -> None:
    file = tmp_path / "history"
    script = (
        f'HISTSIZE=99 SAVEHIST=99; setopt {option}; for x; do print -rs -- "$x"; done; fc -W {file}'
    )
    shell(file, need_tool("zsh"), "-fic", script, "zsh", *COMMANDS)
    found, damaged = past(file, "zsh")
    assert texts(found) == COMMANDS
    assert damaged == 0
    assert all((entry.at_ms is not None) == (option == "extendedhistory") for entry in found)
    assert {entry.shell for entry in found} == {"zsh"}


def test_zsh_bytes_that_are_no_text(tmp_path: Path) -> None:
    file = tmp_path / "history"
    script = f"HISTSIZE=9 SAVEHIST=9; print -rs -- $'a\\x83\\x9f\\xffb\\xc3\\x83'; fc -W {file}"
    shell(file, need_tool("zsh"), "-fic", script)
    assert b"\x83" in file.read_bytes()
    assert texts(past(file, "zsh")[0]) == ["a\ufffd\ufffd\ufffdbÃ"]


def test_zsh_reads_times_and_durations() -> None:
    lines = [b": 1700000000:75;make \\", b"  all", b": 1700000100:0;ls", b":nothing", b": 0:0;old"]
    found = list(zsh_entries(lines, Tally()))
    assert found == [
        HistoryCommand("make \n  all", 1_700_000_000_000, 75_000, shell="zsh"),
        HistoryCommand("ls", 1_700_000_100_000, shell="zsh"),
        HistoryCommand(":nothing", shell="zsh"),
        HistoryCommand("old", shell="zsh"),
    ]


@pytest.mark.parametrize("timed", [True, False])
def test_bash_writes_what_we_read(tmp_path: Path, timed: bool) -> None:  # noqa: FBT001
    file = tmp_path / "history"
    script = f'history -c; for x; do history -s -- "$x"; done; history -w {file}'
    script = "set -o history; " + ("HISTTIMEFORMAT=%F; " if timed else "") + script
    shell(file, need_tool("bash"), "--norc", "-c", script, "bash", *COMMANDS)
    lines = [line for command in COMMANDS for line in command.split("\n") if line]
    found, damaged = past(file, "bash")
    assert texts(found) == (COMMANDS if timed else lines)
    assert all((entry.at_ms is not None) == timed for entry in found)
    assert damaged == 0


def test_bash_with_times_from_some_day_on() -> None:
    lines = [
        b"ls",
        b"",
        b"pwd",
        b"#1700000000",
        b"for x",
        b"",
        b"do",
        b"#1700000009",
        b"#17",
        b"id",
    ]
    assert list(bash_entries(lines, Tally())) == [
        HistoryCommand("ls", shell="bash"),
        HistoryCommand("pwd", shell="bash"),
        HistoryCommand("for x\n\ndo", 1_700_000_000_000, shell="bash"),
        HistoryCommand("id", 17_000, shell="bash"),
    ]


def test_fish_reads_the_same_as_we(tmp_path: Path) -> None:
    file = tmp_path / "fish" / "fish_history"
    file.parent.mkdir()
    escaped = [text.replace("\\", "\\\\").replace("\n", "\\n") for text in COMMANDS]
    entries = [
        f"- cmd: {text}\n  when: {1_700_000_000 + n}\n  paths:\n    - a: b\n    - when: 7\n"
        for n, text in enumerate(escaped)
    ]
    file.write_text("".join(entries))
    found, damaged = past(file, "fish")
    assert texts(found) == COMMANDS
    assert [entry.at_ms for entry in found] == [
        (1_700_000_000 + n) * 1000 for n in range(len(COMMANDS))
    ]
    assert damaged == 0
    data = str(tmp_path)
    shown = shell(file, need_tool("fish"), "-c", "history --null", XDG_DATA_HOME=data)
    seen = shown.decode().split("\0")[-2::-1]
    assert [text.strip() for text in seen] == [text.strip() for text in COMMANDS]


def test_fish_lines_that_are_none_are_counted() -> None:
    lines = [
        b"rubbish",
        b"- cmd: ls",
        b"  when: x",
        b"",
        None,
        b"  when: 5",
        b"- cmd: id",
        b"  when: 6",
    ]
    tally = Tally()
    found = list(fish_entries(lines, tally))
    assert found == [HistoryCommand("ls", shell="fish"), HistoryCommand("id", 6000, shell="fish")]
    assert tally.damaged == 3


# ---------------------------------------------------------------------- atuin

ATUIN = """CREATE TABLE history (id TEXT PRIMARY KEY, timestamp INTEGER NOT NULL, duration INTEGER
NOT NULL, exit INTEGER NOT NULL, command TEXT NOT NULL, cwd TEXT NOT NULL, session TEXT NOT NULL,
hostname TEXT NOT NULL, deleted_at INTEGER)"""


def atuin(path: Path, *rows: tuple[object, ...], table: str = ATUIN) -> Path:
    with sqlite3.connect(path) as connection:
        connection.execute(table)
        for number, row in enumerate(rows):
            marks = ", ".join("?" * (len(row) + 1))
            connection.execute(f"INSERT INTO history VALUES ({marks})", (str(number), *row))
    connection.close()
    return path


def test_atuin(tmp_path: Path) -> None:
    began = 1_700_000_000_123_456_789
    path = atuin(
        tmp_path / "history.db",
        (began + 10**9, -1, -1, "sleep 99", "/", "s1", "host:me", None),
        (began, 2_500_000_000, 3, "make\nall", "/src", "s1", "host:me", None),
        (began, 1, 0, "deleted", "/", "s1", "host:me", began),
        (began, 1, 0, "x" * (2 << 20), "/", "s1", "host:me", None),
        ("soon", "long", "?", "odd", b"\xff", 5, "host", None),
        (began, 1, 0, b"blob", "/", "s1", "h", None),
    )
    found, damaged = past(path, "atuin")
    assert damaged == 2
    assert [msg.command for msg in found] == ["make\nall", "sleep 99", "odd"]
    assert found[0] == HistoryCommand(
        *("make\nall", 1_700_000_000_123, 2500, 3, "/src", "s1", "host", ""),
        envelope_id=found[0].envelope_id,
    )
    assert (found[1].duration_ms, found[1].exit_code) == (None, None)
    odd = found[2]
    assert (odd.at_ms, odd.duration_ms, odd.exit_code, odd.cwd) == (None, None, None, None)


def test_an_old_atuin_without_some_columns(tmp_path: Path) -> None:
    table = "CREATE TABLE history (id TEXT, timestamp INTEGER, command TEXT)"
    path = atuin(tmp_path / "history.db", (1_700_000_000_000_000_000, "ls"), table=table)
    (entry,) = past(path, "atuin")[0]
    assert (entry.command, entry.at_ms, entry.cwd) == ("ls", 1_700_000_000_000, None)


def test_what_is_no_atuin_is_refused(tmp_path: Path) -> None:
    other = atuin(tmp_path / "other.db", table="CREATE TABLE things (id TEXT)")
    with pytest.raises(Invalid, match="not an atuin history"):
        past(other, "atuin")
    (tmp_path / "text").write_text("ls\n" * 1000)
    with pytest.raises(Damaged):
        past(tmp_path / "text", "atuin")


# ---------------------------------------------------------------------- ids


def written(kind: str, entries: Sequence[tuple[int, str]]) -> bytes:
    form = {"zsh": ": {}:0;{}\n", "bash": "#{}\n{}\n", "fish": "- cmd: {1}\n  when: {0}\n"}[kind]
    return "".join(form.format(at, text) for at, text in entries).encode()


def ids(kind: Kind, data: bytes, path: Path) -> list[str]:
    path.write_bytes(data)
    return [entry.envelope_id for entry in past(path, kind)[0]]


@given(
    st.sampled_from(["zsh", "bash", "fish"]),
    st.lists(st.tuples(st.integers(1, 5), st.sampled_from("abc")), max_size=20),
    st.integers(0, 20),
    st.lists(st.tuples(st.integers(1, 5), st.sampled_from("abc")), max_size=5),
)
def test_ids_stay_when_a_file_grows_or_is_trimmed(
    tmp_path_factory: pytest.TempPathFactory,
    kind: Kind,
    entries: list[tuple[int, str]],
    trimmed: int,
    more: list[tuple[int, str]],
) -> None:
    entries = sorted(entries)
    file = tmp_path_factory.getbasetemp() / "ids"
    before = ids(kind, written(kind, entries), file)
    assert len(set(before)) == len(entries)
    assert ids(kind, written(kind, entries), file) == before
    grown = ids(kind, written(kind, entries + more), file)
    assert grown[: len(before)] == before
    assert len(set(grown)) == len(entries) + len(more)
    assert set(ids(kind, written(kind, entries[trimmed:]), file)) <= set(before)


@given(st.lists(st.sampled_from("abc"), max_size=20), st.integers(0, 20))
def test_ids_without_times_stay_too(
    tmp_path_factory: pytest.TempPathFactory, commands: list[str], trimmed: int
) -> None:
    file = tmp_path_factory.getbasetemp() / "plain"
    lines = [f"{command}\n".encode() for command in commands]
    before = ids("bash", b"".join(lines), file)
    assert len(set(before)) == len(commands)
    assert set(ids("bash", b"".join(lines[trimmed:]), file)) <= set(before)


def test_ids_tell_shells_times_and_texts_apart(tmp_path: Path) -> None:
    file = tmp_path / "h"
    entries = [(1, "ls"), (1, "ls"), (2, "ls"), (1, "id")]
    all_ids = [ids(kind, written(kind, entries), file) for kind in ("zsh", "bash", "fish")]
    assert len({name for names in all_ids for name in names}) == 12


# ---------------------------------------------------------------------- any bytes


@given(st.sampled_from(["zsh", "bash", "fish"]), st.lists(st.binary(max_size=20) | st.none()))
def test_any_lines_are_read(kind: str, lines: list[bytes | None]) -> None:
    tally = Tally()
    for entry in READERS[kind](lines, tally):
        assert entry.command.strip()
        assert "\0" not in entry.command
        entry.command.encode()
    assert tally.damaged <= len(lines)


@pytest.mark.parametrize("kind", ["zsh", "bash", "fish"])
def test_over_long_entries_are_passed_over_and_counted(
    tmp_path: Path, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shell_history, "LONGEST_ENTRY", 1000)
    file = tmp_path / "history"
    entries = [(1, "first"), (2, "x" * 2000), (3, "last")]
    file.write_bytes(written(kind, entries))
    found, damaged = past(file, kind)
    assert texts(found) == ["first", "last"]
    assert [entry.at_ms for entry in found] == [1000, 3000]
    assert damaged == 1


@pytest.mark.parametrize("kind", ["zsh", "bash"])
def test_an_entry_of_too_many_lines_is_passed_over(
    tmp_path: Path, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shell_history, "LONGEST_ENTRY", 1000)
    file = tmp_path / "history"
    end = "\\\n" if kind == "zsh" else "\n"
    file.write_bytes(written(kind, [(1, "a"), (2, end.join("x" * 600)), (3, "b")]))
    found, damaged = past(file, kind)
    assert (texts(found), damaged) == (["a", "b"], 1)


def test_a_line_that_is_longer_than_a_reader_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shell_history, "LONGEST_LINE", 16 << 20)
    file = tmp_path / "history"
    file.write_bytes(b"first\n" + b"x" * (33 << 20) + b"\nlast")
    found, damaged = past(file, "bash")
    assert (texts(found), damaged) == (["first", "last"], 1)


def test_zero_bytes_of_a_crash_are_no_commands(tmp_path: Path) -> None:
    file = tmp_path / "history"
    file.write_bytes(b"ls\n\0\0\0\0\0pwd\n\0\0\0\0")
    assert texts(past(file, "bash")[0]) == ["ls", "pwd"]


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="there is no file"):
        past(tmp_path / "gone", "zsh")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(Invalid, match="not a regular file"):
        past(tmp_path / "pipe", "bash")


# ---------------------------------------------------------------------- finding


def touch(*paths: Path) -> None:
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("ls\n")


def test_histories_are_found_where_shells_keep_them(tmp_path: Path) -> None:
    share = tmp_path / ".local/share"
    places: list[HistoryFile] = [
        HistoryFile("zsh", tmp_path / ".zsh_history"),
        HistoryFile("zsh", tmp_path / ".zhistory"),
        HistoryFile("bash", tmp_path / ".bash_history"),
        HistoryFile("fish", share / "fish/fish_history"),
        HistoryFile("fish", share / "fish/work_history"),
        HistoryFile("atuin", share / "atuin/history.db"),
    ]
    touch(*(place.path for place in places))
    assert find_histories(tmp_path, {}) == places
    assert {place.kind for place in places} == set(get_args(Kind))


def test_variables_move_histories(tmp_path: Path) -> None:
    touch(tmp_path / "z/.zsh_history", tmp_path / "d/fish/fish_history")
    touch(tmp_path / "a.db", tmp_path / "mine")
    environ = {"ZDOTDIR": "~/z", "XDG_DATA_HOME": str(tmp_path / "d"), "SHELL": "/bin/zsh"}
    environ |= {"ATUIN_DB_PATH": str(tmp_path / "a.db"), "HISTFILE": str(tmp_path / "mine")}
    assert find_histories(tmp_path, environ) == [
        ("zsh", tmp_path / "z/.zsh_history"),
        ("fish", tmp_path / "d/fish/fish_history"),
        ("atuin", tmp_path / "a.db"),
        ("zsh", tmp_path / "mine"),
    ]
    assert find_histories(tmp_path, environ | {"SHELL": "/bin/bash"})[-1].kind == "bash"


def test_one_file_is_found_once_and_others_than_files_never(tmp_path: Path) -> None:
    touch(tmp_path / ".bash_history")
    (tmp_path / ".zsh_history").mkdir()
    os.mkfifo(tmp_path / ".zhistory")
    (tmp_path / ".histfile").symlink_to("nowhere")
    for value in (str(tmp_path / ".bash_history"), "relative", "", "/\0"):
        found = find_histories(tmp_path, {"HISTFILE": value})
        assert found == [("bash", tmp_path / ".bash_history")]


def test_a_long_history_is_read_in_one_go(tmp_path: Path) -> None:
    file = tmp_path / "history"
    chance = random.Random(7)
    entries = [(chance.randint(1, 10**9), f"command {n % 50}") for n in range(20_000)]
    file.write_bytes(written("zsh", entries))
    found, damaged = past(file, "zsh")
    assert texts(found) == [text for _, text in entries]
    assert damaged == 0

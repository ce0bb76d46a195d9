"""Envelopes: Hippo's JSON is read and written, broken ones are named, long ones are cut."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from threadkeep.capture.observed.envelopes import (
    COMMAND_LIMIT,
    OUTPUT_LIMIT,
    PAGE_LIMIT,
    TITLE_LIMIT,
    UnknownEnvelope,
    cut,
    read_envelope,
    read_line,
    write_envelope,
    write_line,
)
from threadkeep.errors import Invalid
from threadkeep.knowledge.records import (
    Command,
    GitState,
    Heartbeat,
    Observed,
    Output,
    Visit,
    Watch,
)

ID = "0d6f2d0e-6c2f-4a1f-9f7c-2f3f4c5d6e7f"
SESSION = "11111111-2222-4333-8444-555555555555"
INT64 = st.integers(-(2**63), 2**63 - 1)
COUNTS = st.integers(0, 2**63 - 1)
DATES = st.integers(-62_135_596_800_000, 253_402_300_799_999)
TEXTS = st.text(max_size=30)  # without halves of characters: those are tested apart
MAYBE = st.none() | TEXTS

OUTPUTS = st.none() | st.builds(Output, TEXTS, st.booleans(), COUNTS)
COMMANDS = st.builds(
    Command,
    envelope_id=st.uuids().map(str),
    session=st.uuids().map(str),
    at=DATES,
    command=TEXTS,
    cwd=TEXTS,
    exit_code=st.none() | st.integers(-(2**31), 2**31 - 1),
    duration_ms=COUNTS,
    hostname=TEXTS,
    shell=st.sampled_from(["zsh", "bash", "fish", "PowerShell", ""]) | TEXTS,
    username=TEXTS,
    stdout=OUTPUTS,
    stderr=OUTPUTS,
    env=st.dictionaries(TEXTS, TEXTS, max_size=3),
    git=st.none() | st.builds(GitState, MAYBE, MAYBE, MAYBE, st.none() | st.booleans()),
    tool_name=MAYBE,
    probe_tag=MAYBE,
    origin=st.sampled_from(["hook", "socket", "fallback", "run", "history"]),
).filter(lambda thing: thing.shell not in {"Zsh", "Bash", "Fish"})
VISITS = st.builds(
    Visit,
    envelope_id=st.uuids().map(str),
    at=DATES,
    url=TEXTS,
    domain=TEXTS,
    title=MAYBE,
    dwell_ms=COUNTS,
    scroll_depth=st.none() | st.floats(0, 1),
    extracted_text=MAYBE,
    search_query=MAYBE,
    referrer=MAYBE,
    probe_tag=MAYBE,
)
SIGNS = st.builds(Heartbeat, TEXTS, INT64) | st.builds(Watch, TEXTS, TEXTS, INT64, COUNTS)
JSON = st.recursive(
    st.none() | st.booleans() | INT64 | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


def shell_envelope(**changes: Any) -> dict[str, Any]:
    data = {
        "session_id": SESSION,
        "command": "cargo build",
        "exit_code": 101,
        "duration_ms": 1234,
        "cwd": "/home/u/project",
        "hostname": "laptop",
        "shell": "Zsh",
        "stdout": None,
        "stderr": {"content": "error[E0308]", "truncated": True, "original_bytes": 9000},
        "env_snapshot": {"HOME": "/home/u"},
        "git_state": {"repo": "o/r", "branch": "main", "commit": "abc1234", "is_dirty": False},
        "redaction_count": 2,
    }
    return envelope("Shell", data | changes)


def envelope(kind: str, data: Any, **changes: Any) -> dict[str, Any]:
    whole = {
        "envelope_id": ID,
        "producer_version": 1,
        "timestamp": "2026-03-28T12:00:00.123456789Z",
        "payload": {"type": kind, "data": data},
    }
    return whole | changes


def page(**changes: Any) -> dict[str, Any]:
    return {"url": "https://docs.rs/", "domain": "docs.rs", "title": "t"} | changes


def read_command(value: dict[str, Any]) -> Command:
    found = read_envelope(value, "socket")
    assert isinstance(found, Command)
    return found


def read_visit(value: dict[str, Any]) -> Visit:
    found = read_envelope(value, "socket")
    assert isinstance(found, Visit)
    return found


def test_an_envelope_of_hippo_is_read_in_full() -> None:
    raw = json.dumps(shell_envelope(tool_name="Bash") | {"probe_tag": "p1"}).encode()
    assert read_envelope(raw, "socket") == Command(
        envelope_id=ID,
        session=SESSION,
        at=1_774_699_200_123,
        command="cargo build",
        cwd="/home/u/project",
        exit_code=101,
        duration_ms=1234,
        hostname="laptop",
        shell="zsh",
        stderr=Output("error[E0308]", truncated=True, original_bytes=9000),
        env={"HOME": "/home/u"},
        git=GitState(repo="o/r", branch="main", commit="abc1234", is_dirty=False),
        tool_name="Bash",
        probe_tag="p1",
        origin="socket",
    )


def test_an_envelope_is_written_in_the_shape_of_hippo() -> None:
    given_back = json.loads(write_envelope(read_command(shell_envelope())))
    expected = shell_envelope(redaction_count=0) | {"timestamp": "2026-03-28T12:00:00.123Z"}
    assert given_back == expected
    assert list(given_back["payload"]["data"]) == list(expected["payload"]["data"])


def test_a_visit_is_written_in_the_shape_of_hippo() -> None:
    visit = Visit(ID, 0, "https://docs.rs/", "docs.rs", "Docs", 4000, 0.5, probe_tag="p")
    assert json.loads(write_envelope(visit)) == {
        "envelope_id": ID,
        "producer_version": 1,
        "timestamp": "1970-01-01T00:00:00.000Z",
        "payload": {
            "type": "Browser",
            "data": {
                "url": "https://docs.rs/",
                "title": "Docs",
                "domain": "docs.rs",
                "dwell_ms": 4000,
                "scroll_depth": 0.5,
                "extracted_text": None,
                "search_query": None,
                "referrer": None,
                "content_hash": None,
            },
        },
        "probe_tag": "p",
    }


@given(COMMANDS | VISITS)
def test_what_an_envelope_holds_comes_back(thing: Command | Visit) -> None:
    origin = thing.origin if isinstance(thing, Command) else "socket"
    if isinstance(thing, Command):  # Hippo's envelope has no place for the user's name
        thing = msgspec.structs.replace(thing, username="")
    assert read_envelope(write_envelope(thing), origin) == thing


@given(COMMANDS | VISITS | SIGNS)
def test_a_line_gives_back_what_was_written(thing: Observed) -> None:
    line = write_line(thing)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert read_line(line, "fallback") == thing


def test_a_line_of_a_fallback_file_has_the_origin_of_its_reader() -> None:
    found = read_line(json.dumps(shell_envelope()).encode(), "fallback")
    assert isinstance(found, Command)
    assert (found.origin, found.username) == ("fallback", "")


def test_a_peer_on_the_socket_cannot_name_its_own_origin() -> None:
    value = shell_envelope() | {"threadkeep": {"origin": "history", "username": "root"}}
    assert (read_command(value).origin, read_command(value).username) == ("socket", "")


def test_fields_that_hippo_lets_out_may_be_missing() -> None:
    data = {"session_id": SESSION, "command": "ls", "cwd": "/"}
    found = read_command(envelope("Shell", data))
    assert found.exit_code is None
    assert found == Command(ID, SESSION, found.at, "ls", "/")
    assert read_visit(envelope("Browser", page())).scroll_depth is None


@pytest.mark.parametrize(
    "given_shell, stored",
    [("Zsh", "zsh"), ("Bash", "bash"), ("Fish", "fish"), ("zsh", "zsh"), ({"Unknown": "Nu"}, "Nu")],
)
def test_shells_are_stored_by_their_name(given_shell: Any, stored: str) -> None:
    assert read_command(shell_envelope(shell=given_shell)).shell == stored


@pytest.mark.parametrize("kind", ["FsChange", "IdeAction", "AgenticToolCall", "Raw", "NewKind"])
def test_kinds_that_nobody_stores_are_told_apart_from_broken_ones(kind: str) -> None:
    with pytest.raises(UnknownEnvelope, match=kind):
        read_envelope(envelope(kind, {"custom": 1}), "socket")


@pytest.mark.parametrize(
    "value, named",
    [
        (b"", "not JSON"),
        (b"[1]", "object"),
        (b'{"envelope_id": 1}', "envelope_id"),
        (shell_envelope() | {"envelope_id": "x"}, "envelope_id"),
        (shell_envelope() | {"envelope_id": "0" * 31 + "٣"}, "envelope_id"),
        (shell_envelope() | {"timestamp": "yesterday"}, "timestamp"),
        (shell_envelope() | {"timestamp": "2026-02-30T00:00:00Z"}, "timestamp"),
        (shell_envelope() | {"timestamp": "2026-02-03T00:00:61Z"}, "timestamp"),
        (shell_envelope() | {"timestamp": "2026-02-03T00:00:00"}, "timestamp"),
        (shell_envelope() | {"payload": None}, "payload"),
        (shell_envelope(session_id="main"), "session_id"),
        (shell_envelope(exit_code=True), "exit_code"),
        (shell_envelope(exit_code=2**63), "exit_code"),
        (shell_envelope(duration_ms=-1), "duration_ms"),
        (shell_envelope(command=None), "command"),
        (shell_envelope(shell={"Other": "x"}), "shell"),
        (shell_envelope(env_snapshot={"A": 1}), "env_snapshot"),
        (shell_envelope(stdout={"content": "x", "original_bytes": 2**64}), "stdout"),
        (envelope("Browser", page(dwell_ms=2**64)), "dwell_ms"),
        (envelope("Browser", page(scroll_depth=10**400)), "browser payload"),
        (envelope("Browser", page(url=7)), "url"),
    ],
)
def test_what_is_wrong_is_named(value: bytes | dict[str, Any], named: str) -> None:
    with pytest.raises(Invalid, match=named) as caught:
        read_envelope(value, "socket")
    assert not isinstance(caught.value, UnknownEnvelope)


@pytest.mark.parametrize(
    "text, ms",
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T01:00:00.5+01:00", 500),
        ("1969-12-31T23:59:59.9999Z", -1),
        ("1969-12-31t22:59:59-01:00", -1000),
        ("2016-12-31T23:59:60Z", 1_483_228_800_000),
    ],
)
def test_times_in_any_zone_are_read(text: str, ms: int) -> None:
    assert read_command(shell_envelope() | {"timestamp": text}).at == ms


@pytest.mark.parametrize("depth, kept", [(float("nan"), None), (float("inf"), None), (None, None)])
def test_a_depth_that_is_no_number_is_unknown(depth: float | None, kept: None) -> None:
    assert read_visit(envelope("Browser", page(scroll_depth=depth))).scroll_depth is kept


def test_a_depth_beyond_the_page_is_the_whole_page() -> None:
    assert read_visit(envelope("Browser", page(scroll_depth=1.7))).scroll_depth == 1.0


def test_long_texts_are_cut_with_a_mark_and_never_refused() -> None:
    loud = {"content": "x" * (OUTPUT_LIMIT + 9)}
    found = read_command(shell_envelope(command="é" * COMMAND_LIMIT, stdout=loud))
    assert len(found.command.encode()) <= COMMAND_LIMIT
    assert found.command.endswith(f"…[truncated, {COMMAND_LIMIT} characters]")
    assert found.stdout is not None
    assert (found.stdout.truncated, found.stdout.original_bytes) == (True, OUTPUT_LIMIT + 9)
    visit = read_visit(envelope("Browser", page(title="t" * 2**20, extracted_text="w" * 2**20)))
    assert visit.title is not None
    assert visit.extracted_text is not None
    assert (len(visit.title.encode()), len(visit.extracted_text.encode())) == (
        TITLE_LIMIT,
        PAGE_LIMIT,
    )


def test_an_environment_of_any_size_is_bounded() -> None:
    huge = {f"V{number}": "x" * 100_000 for number in range(1500)}
    found = read_command(shell_envelope(env_snapshot=huge))
    assert len(found.env) == 1000
    assert max(map(len, found.env.values())) <= 32 << 10


def test_halves_of_characters_are_replaced_and_pairs_are_joined() -> None:
    raw = json.dumps(shell_envelope(command="a\ud800b \ud83d\ude00")).encode()
    found = read_envelope(raw, "socket")
    assert isinstance(found, Command)
    assert found.command == "a\ufffdb 😀"
    broken = Command(ID, SESSION, 0, "x\udfff", "/", env={"A\ud800": "\udc00"})
    line = read_line(write_line(broken), "run")
    assert isinstance(line, Command)
    assert (line.command, line.env) == ("x\ufffd", {"A\ufffd": "\ufffd"})


@given(st.text(st.characters(), max_size=300), st.integers(60, 200))
def test_cutting_keeps_the_limit_and_cutting_again_changes_nothing(text: str, limit: int) -> None:
    once = cut(text, limit)
    assert len(once.encode()) <= limit
    assert cut(once, limit) == once


@given(JSON)
def test_any_json_in_place_of_the_payload_is_refused(value: Any) -> None:
    raw = json.dumps(envelope("Shell", value)).encode()
    with pytest.raises(Invalid):
        read_line(raw, "socket")


@given(st.binary(max_size=60))
def test_any_bytes_are_refused(raw: bytes) -> None:
    with pytest.raises(Invalid):
        read_line(raw, "socket")


def test_a_time_that_no_envelope_holds_is_refused_when_written() -> None:
    with pytest.raises(Invalid, match="not a date"):
        write_line(Command(ID, SESSION, 2**62, "ls", "/"))
    with pytest.raises(Invalid, match="session_id"):
        write_line(Command(ID, "main", 0, "ls", "/"))

"""Records of shell hooks: read whole, from any bytes, however the file is cut."""

from uuid import UUID

import msgspec
import pytest
from hypothesis import example, given, strategies as st

from threadkeep.capture.observed import collector
from threadkeep.capture.observed.collector import (
    EndRecord,
    EnvRecord,
    Record,
    SpoolBlock,
    StartRecord,
    command_of,
    envelope_id,
    read_records,
)

SESSION = "0b7e6a3e-6c0f-4d55-9a55-2f4a6b7c8d9e"
TEXT = st.text(
    st.characters(exclude_characters="\x00\x1d\x1e\x1f", exclude_categories=["Cs"]), max_size=30
)
COUNT = st.integers(0, 10**12)
MS = st.integers(0, 4_000_000_000_000)


def seconds(ms: int) -> str:
    return f"{ms // 1000}.{ms % 1000:03}"


@st.composite
def starts(draw: st.DrawFn) -> StartRecord:
    ms = draw(MS)
    command = draw(TEXT)
    return StartRecord(
        session=str(draw(st.uuids())),
        pid=draw(COUNT),
        seq=draw(COUNT),
        shell=draw(TEXT),
        host=draw(TEXT),
        user=draw(TEXT),
        started=seconds(ms),
        started_ms=ms,
        cwd=draw(TEXT),
        chars=len(command),
        command=command,
    )


@st.composite
def ends(draw: st.DrawFn) -> EndRecord:
    start = draw(starts())
    code = draw(st.none() | st.integers(-255, 255))
    return EndRecord(**msgspec.structs.asdict(start), ended_ms=draw(MS), exit_code=code)


NAMES = st.from_regex(r"[A-Z_][A-Z0-9_]{0,9}", fullmatch=True)
ENVS = st.builds(EnvRecord, st.uuids().map(str), COUNT, st.dictionaries(NAMES, TEXT, max_size=5))
RECORDS = st.one_of(starts(), ends(), ENVS)


def written(record: Record) -> bytes:
    """Write a record as a hook does."""
    head: list[object] = [record.session, record.pid]
    if isinstance(record, EnvRecord):
        fields = ["env1", *head, *(f"{name}={text}" for name, text in record.variables.items())]
        return framed(*fields)
    head += [record.seq, record.shell, record.host, record.user, record.started]
    tail = [record.cwd, record.chars, record.command]
    if isinstance(record, StartRecord):
        return framed("start1", *head, *tail)
    code = "" if record.exit_code is None else record.exit_code
    return framed("end1", *head, seconds(record.ended_ms), code, *tail)


def framed(*fields: object) -> bytes:
    return b"\x1e" + "\x1f".join(map(str, fields)).encode() + b"\x1d\n"


def end_record(command: object = "make", **changed: object) -> bytes:
    head = [SESSION, 7, 3, "zsh", "h", "u"]
    names = ["session", "pid", "seq", "shell", "host", "user"]
    fields: dict[str, object] = dict(zip(names, head, strict=True))
    fields |= {"started": "1700000000.25", "ended": "1700000002,5", "exit": 2, "cwd": "/src"}
    fields |= {"chars": len(str(command)), "command": command}
    return framed("end1", *(fields | changed).values())


def in_blocks(data: bytes, sizes: list[int]) -> SpoolBlock:
    """Read a file as the collector does: block by block, with what was left over before."""
    total, rest = SpoolBlock(), b""
    for size in [*sizes, len(data) + 1]:
        block, data = data[:size], data[size:]
        parsed = read_records(rest + block, final=not data, skipping=total.skipping)
        rest = (rest + block)[parsed.consumed :]
        total.records += parsed.records
        total.consumed += parsed.consumed
        total.damaged += parsed.damaged
        total.lost_bytes += parsed.lost_bytes
        total.skipping = parsed.skipping
        if not data:
            break
    return total


@given(st.lists(RECORDS, max_size=6))
def test_what_a_hook_writes_is_read_back(records: list[Record]) -> None:
    data = b"".join(map(written, records))
    assert read_records(data, final=False) == SpoolBlock(records, len(data))


JUNK = st.lists(
    st.sampled_from([b"\x1e", b"\x1f", b"\x1d", b"\n", b"\x1d\n", b"\0", b"x", b"\xff"])
    | st.just(b"")
).map(b"".join)


@given(st.lists(RECORDS.map(written) | JUNK, max_size=8), st.lists(st.integers(1, 40), max_size=30))
@example([b"\x1estart1", b"", end_record()], [3, 8])
def test_how_a_file_is_cut_into_blocks_changes_nothing(pieces: list[bytes], cut: list[int]) -> None:
    data = b"".join(pieces)
    assert in_blocks(data, cut) == read_records(data, final=True)
    assert read_records(data, final=True).consumed == len(data)


@given(
    st.lists(RECORDS, min_size=1, max_size=5),
    st.data(),
    st.sampled_from(["cut", "flip", "drop", "insert"]),
)
def test_damage_loses_only_the_damaged_record(
    records: list[Record], data: st.DataObject, how: str
) -> None:
    hit = data.draw(st.integers(0, len(records) - 1))
    raw = written(records[hit])
    at = data.draw(st.integers(1, len(raw) - 1))
    byte = bytes([data.draw(st.integers(0, 255))])
    damaged = {
        "cut": raw[:at],
        "flip": raw[:at] + byte + raw[at + 1 :],
        "drop": raw[:at] + raw[at + 1 :],
        "insert": raw[:at] + byte + raw[at:],
    }[how]
    before, after = records[:hit], records[hit + 1 :]
    file = b"".join([*map(written, before), damaged, *map(written, after)])
    found = read_records(file, final=True).records
    assert found[: len(before)] == before
    assert found[len(found) - len(after) :] == after


@given(st.binary(max_size=300), st.booleans())
def test_any_bytes_are_accepted(data: bytes, final: bool) -> None:  # noqa: FBT001
    parsed = read_records(data, final)
    assert parsed.consumed <= len(data)
    assert not final or parsed.consumed == len(data)
    parsed.records.clear()
    assert final or parsed.consumed == len(data) or data[parsed.consumed] == 0x1E


def test_an_unfinished_record_waits_for_its_rest_and_is_lost_without_one() -> None:
    whole = end_record()
    for length in range(1, len(whole)):
        assert read_records(whole[:length], final=False) == SpoolBlock()
        assert read_records(whole[:length], final=True).damaged == 1


def test_invalid_utf8_is_replaced_and_never_becomes_half_a_character() -> None:
    data = end_record().replace(b"make", b"a\xff\xed\xa0\x80\0b")
    (record,) = read_records(data, final=True).records
    assert isinstance(record, EndRecord)
    assert record.command == "a\ufffd\ufffd\ufffd\ufffd\ufffdb"
    record.command.encode()


@pytest.mark.parametrize(
    "changed",
    [
        {"pid": -1},
        {"pid": "9" * 30},
        {"seq": ""},
        {"seq": "1.5"},
        {"seq": "٣"},
        {"session": ""},
        {"started": "nan", "ended": "inf"},
        {"started": "", "ended": ""},
        {"started": "-5", "ended": "999999999999"},
        {"more": "a field too many"},
    ],
)
def test_records_without_identity_or_time_are_damaged(changed: dict[str, object]) -> None:
    parsed = read_records(end_record(**changed) + end_record(), final=True)
    assert (len(parsed.records), parsed.damaged) == (1, 1)
    assert parsed.lost_bytes == len(end_record(**changed))


@pytest.mark.parametrize(
    "changed, expected",
    [
        ({}, (1_700_000_000_250, 1_700_000_002_500, 2)),
        ({"started": ""}, (1_700_000_002_500, 1_700_000_002_500, 2)),
        ({"ended": "nan"}, (1_700_000_000_250, 1_700_000_000_250, 2)),
        ({"ended": "1700000001."}, (1_700_000_000_250, 1_700_000_001_000, 2)),
        ({"ended": "1700000001.0019999"}, (1_700_000_000_250, 1_700_000_001_001, 2)),
        ({"exit": ""}, (1_700_000_000_250, 1_700_000_002_500, None)),
        ({"exit": "9" * 40}, (1_700_000_000_250, 1_700_000_002_500, None)),
        ({"chars": "many"}, (1_700_000_000_250, 1_700_000_002_500, 2)),
    ],
)
def test_a_value_that_is_none_is_unknown(
    changed: dict[str, object], expected: tuple[int, int, int | None]
) -> None:
    (record,) = read_records(end_record(**changed), final=True).records
    assert isinstance(record, EndRecord)
    assert (record.started_ms, record.ended_ms, record.exit_code) == expected


def test_a_session_that_is_no_uuid_becomes_the_same_one_every_time() -> None:
    data = end_record(session="tmux one") + end_record(session="tmux one", seq=4)
    first, second = (record.session for record in read_records(data, final=True).records)
    assert str(UUID(first)) == first == second
    (upper,) = read_records(end_record(session=SESSION.upper()), final=True).records
    assert upper.session == SESSION


def test_an_environment_with_a_value_that_has_no_name_is_damaged() -> None:
    good = framed("env1", SESSION, 7, "PATH=/bin:/usr/bin", "EDITOR=", "LANG=a=b\nc")
    parsed = read_records(good + framed("env1", SESSION, 7, "oops") + framed("env1"), final=True)
    variables = {"PATH": "/bin:/usr/bin", "EDITOR": "", "LANG": "a=b\nc"}
    assert parsed.records == [EnvRecord(SESSION, 7, variables)]
    assert parsed.damaged == 2


def test_over_long_pieces_are_cut_or_given_up_without_holding_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(collector, "LONGEST_RECORD", 300)
    monkeypatch.setattr(collector, "HOOK_KEEPS", 20)
    data = b"".join(
        [
            end_record("x" * 5000),
            framed("env1", SESSION, 7, "A=" + "y" * 5000),
            end_record("too long a folder", cwd="/" * 200),
            b"\x1e" + b"z" * 5000,
            end_record("last"),
        ]
    )
    expected = read_records(data, final=True)
    commands = [command_of(r).command for r in expected.records if isinstance(r, EndRecord)]
    assert len(commands) == 2
    assert commands[0].startswith("xxx")
    assert commands[0].endswith("x…[truncated, 5000 characters]")
    assert len(commands[0]) < 350
    assert commands[1] == "last"
    assert expected.damaged == 3
    for size in (7, 299, 300, 301, 4000):
        assert in_blocks(data, [size] * (len(data) // size)) == expected


def test_an_over_long_record_is_consumed_before_its_end_is_known() -> None:
    block = end_record("x" * (4 << 20))[: 2 << 20]
    parsed = read_records(block, final=False)
    assert (parsed.consumed, parsed.skipping, len(parsed.records)) == (len(block), True, 1)
    after = read_records(b"xxx\x1d\n" + end_record("next"), final=False, skipping=True)
    assert [r.command for r in after.records if isinstance(r, EndRecord)] == ["next"]
    assert after.damaged == 0


def test_a_million_false_beginnings_take_no_longer_than_their_bytes() -> None:
    parsed = read_records(b"\x1e" * 1_000_000, final=True)
    assert (parsed.damaged, parsed.lost_bytes) == (1_000_000, 1_000_000)


def test_a_command_as_it_is_stored() -> None:
    (record,) = read_records(end_record("ls\n-l", chars=70_000), final=True).records
    assert isinstance(record, EndRecord)
    command = command_of(record, {"LANG": "C"})
    assert command.command == "ls\n-l…[truncated, 70000 characters]"
    assert (command.at, command.duration_ms, command.exit_code) == (1_700_000_002_500, 2250, 2)
    assert (command.hostname, command.shell, command.username) == ("h", "zsh", "u")
    assert (command.cwd, command.env, command.origin) == ("/src", {"LANG": "C"}, "hook")
    assert command.envelope_id == envelope_id(SESSION, 7, 3, "1700000000.25")


def test_a_shell_that_counts_bytes_has_not_cut_its_command() -> None:
    (record,) = read_records(end_record("größe", chars=7), final=True).records
    assert isinstance(record, EndRecord)
    assert command_of(record).command == "größe"


@given(starts(), ends())
def test_a_start_and_its_end_have_one_id_and_others_have_others(
    start: StartRecord, end: EndRecord
) -> None:
    same = EndRecord(**msgspec.structs.asdict(start), ended_ms=start.started_ms + 5, exit_code=0)
    begun, over = command_of(start), command_of(same)
    assert begun.envelope_id == over.envelope_id
    assert (begun.exit_code, begun.at, begun.duration_ms) == (None, start.started_ms, 0)
    assert (over.exit_code, over.duration_ms) == (0, 5)
    apart = (start.session, start.pid, start.seq) != (end.session, end.pid, end.seq)
    assert (command_of(end).envelope_id != begun.envelope_id) >= apart


def test_a_clock_that_was_set_back_gives_no_negative_duration() -> None:
    (record,) = read_records(end_record(ended="1600000000"), final=True).records
    assert isinstance(record, EndRecord)
    assert command_of(record).duration_ms == 0

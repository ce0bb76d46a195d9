"""The native-messaging host as a browser sees it: frames in, frames out, nothing else."""

import io
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from threadkeep.base.tx import Sql
from threadkeep.capture.observed.visits import DEFAULT_DOMAINS, VisitRules, check_caller, serve
from threadkeep.errors import Invalid, StorageFull
from threadkeep.knowledge.commands import write_visit
from threadkeep.knowledge.records import Heartbeat, Observed, Visit
from threadkeep.knowledge.store import KnowledgeStore

NOW = 1_794_769_003_000
RULES = VisitRules()
MIB = 1 << 20
PAGE = {"url": "https://docs.rs/x", "domain": "docs.rs", "title": "X", "dwell_ms": 5000}


def frame(message: object) -> bytes:
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    return struct.pack("=I", len(body)) + body


def frames(data: bytes) -> Iterator[dict[str, Any]]:
    while data:
        (length,) = struct.unpack("=I", data[:4])
        yield json.loads(data[4 : 4 + length])
        data = data[4 + length :]


class Trickle:
    """A pipe that gives few bytes at a time."""

    def __init__(self, data: bytes, size: int) -> None:
        self.file, self.size = io.BytesIO(data), size

    def read1(self, size: int, /) -> bytes:
        return self.file.read1(min(size, self.size))


def replies(
    *messages: object, rules: VisitRules = RULES, delivered: list[Observed] | None = None
) -> list[dict[str, Any]]:
    taken: list[Observed] = [] if delivered is None else delivered
    stdin, stdout = io.BytesIO(b"".join(map(frame, messages))), io.BytesIO()
    serve(stdin, stdout, rules, taken.append, lambda: NOW)
    return list(frames(stdout.getvalue()))


def statuses(*messages: object, rules: VisitRules = RULES) -> list[str]:
    return [reply["status"] for reply in replies(*messages, rules=rules)]


def test_the_messages_of_hippos_extension_give_hippos_rows(
    shared_data: Path, tmp_path: Path
) -> None:
    file = shared_data / "data/knowledge/golden/golden_browser.json"
    golden = json.loads(file.read_text("utf-8"))
    delivered: list[Observed] = []
    answers = replies(*golden["messages"], delivered=delivered)
    assert [a["status"] for a in answers] == ["ok"] * 3 + ["filtered"] + ["ok"] * 3 + ["error"]
    assert [seen for seen in delivered if not isinstance(seen, Visit)] == [
        Heartbeat("browser", 1_777_629_600_000)
    ]
    with KnowledgeStore.open(tmp_path / "knowledge.db") as store:
        with store.context.db.write() as tx:
            for seen in delivered:
                if isinstance(seen, Visit):
                    write_visit(tx, seen, NOW)
        with store.context.db.read() as tx:
            rows = tx.dicts(Sql("SELECT * FROM browser_events ORDER BY id"))
            tickets = tx.all(Sql("SELECT browser_event_id FROM browser_enrichment_queue"))
    assert rows == [row | {"created_at": NOW} for row in golden["rows"]]
    assert tickets == [(1,), (2,)]  # a probe has none


def test_visits_with_and_without_a_type_are_taken() -> None:
    delivered: list[Observed] = []
    assert replies(PAGE, PAGE | {"type": "visit"}, delivered=delivered) == [{"status": "ok"}] * 2
    assert [seen.at for seen in delivered if isinstance(seen, Visit)] == [NOW, NOW]


def test_a_visit_that_is_not_wanted_is_answered_but_not_delivered() -> None:
    delivered: list[Observed] = []
    other = PAGE | {"url": "https://evil.example/", "domain": "evil.example"}
    assert replies(other, delivered=delivered) == [{"status": "filtered"}]
    assert statuses(PAGE, rules=VisitRules(enabled=False)) == ["filtered"]
    assert delivered == []


def test_a_heartbeat_is_a_sign_of_life() -> None:
    delivered: list[Observed] = []
    beats = [{"type": "heartbeat", "sent_at_ms": NOW - 7}, {"type": "heartbeat"}]
    assert replies(*beats, delivered=delivered) == [{"status": "ok"}] * 2
    assert delivered == [Heartbeat("browser", NOW - 7), Heartbeat("browser", NOW)]


def test_the_extension_can_ask_what_it_need_not_send() -> None:
    rules = VisitRules(exclude=("x.docs.rs",), min_dwell_ms=7, enabled=False)
    assert replies({"type": "config"}, rules=rules) == [
        {
            "status": "ok",
            "enabled": False,
            "domains": list(DEFAULT_DOMAINS),
            "exclude": ["x.docs.rs"],
            "min_dwell_ms": 7,
        }
    ]


def test_a_configuration_that_no_browser_takes_is_an_error_and_not_the_end() -> None:
    rules = VisitRules(domains=("docs.rs", *(f"{n:0>60}.example" for n in range(20_000))))
    assert statuses({"type": "config"}, PAGE, rules=rules) == ["error", "ok"]


@pytest.mark.parametrize(
    "bad",
    [
        *(b"", b"{", b"\xff\xfe", b"nonsense", b"[" * 5000, b"1e999", b"[]", b"7", b"null"),
        *({}, {"type": "shutdown"}, {"type": 5}, {"type": {"a": 1}}, {"bad": 1}),
        *({"type": "heartbeat", "sent_at_ms": "now"}, PAGE | {"url": "https://docs.rs/" * 999}),
        *(PAGE | {"title": ["x"]}, PAGE | {"timestamp": "\x00"}),
    ],
)
def test_one_bad_message_does_not_end_the_conversation(bad: object) -> None:
    first, second, third = replies(PAGE, bad, PAGE)
    assert (first, third) == ({"status": "ok"}, {"status": "ok"})
    assert second["status"] == "error"
    assert 0 < len(second["error"]) <= 200


@given(st.lists(st.binary(max_size=40) | st.just(json.dumps(PAGE).encode()), max_size=6))
def test_every_message_gets_one_answer(bodies: list[bytes]) -> None:
    assert len(replies(*bodies)) == len(bodies)


@pytest.mark.parametrize("size", [1, 3, 4096])
def test_messages_may_come_in_pieces(size: int) -> None:
    stdout = io.BytesIO()
    seen: list[Observed] = []
    data = frame(PAGE) + frame({"type": "heartbeat", "sent_at_ms": 5}) + frame(PAGE)
    serve(Trickle(data, size), stdout, RULES, seen.append, lambda: NOW)
    assert [type(one) for one in seen] == [Visit, Heartbeat, Visit]
    assert list(frames(stdout.getvalue())) == [{"status": "ok"}] * 3


def test_the_largest_message_is_a_mebibyte() -> None:
    room = MIB - len(json.dumps(PAGE | {"title": ""}))
    fitting = PAGE | {"title": "t" * room}
    delivered: list[Observed] = []
    assert replies(fitting, delivered=delivered) == [{"status": "ok"}]
    assert isinstance(delivered[0], Visit)
    assert len(delivered[0].title or "") <= 4096


@pytest.mark.parametrize("length", [MIB + 1, 0xFFFFFFFF, 0x01000000 + MIB])
def test_a_wrong_length_gets_one_answer_and_ends_it(length: int) -> None:
    stdin = io.BytesIO(frame(PAGE) + struct.pack("=I", length) + frame(PAGE) * 3)
    stdout = io.BytesIO()
    seen: list[Observed] = []
    serve(stdin, stdout, RULES, seen.append, lambda: NOW)
    good, bad = frames(stdout.getvalue())
    assert (good["status"], bad["status"]) == ("ok", "error")
    assert str(length) in bad["error"]
    assert len(seen) == 1


@pytest.mark.parametrize("cut", [1, 4, 20])
def test_a_browser_that_dies_in_the_middle_of_a_message_ends_it_quietly(cut: int) -> None:
    stdout = io.BytesIO()
    seen: list[Observed] = []
    serve(io.BytesIO(frame(PAGE) + frame(PAGE)[:cut]), stdout, RULES, seen.append, lambda: NOW)
    assert list(frames(stdout.getvalue())) == [{"status": "ok"}]
    assert len(seen) == 1


class Gone(io.BytesIO):
    def write(self, data: Any, /) -> int:
        raise BrokenPipeError


def test_a_browser_that_does_not_listen_any_more_ends_it_quietly() -> None:
    seen: list[Observed] = []
    serve(io.BytesIO(frame(PAGE) * 2), Gone(), RULES, seen.append, lambda: NOW)
    assert len(seen) == 1


@pytest.mark.parametrize("error", [StorageFull("/home/me/spool is full"), OSError(28, "/home/me")])
def test_what_could_not_be_kept_is_an_error_that_names_no_folder(error: Exception) -> None:
    failures = [error]

    def deliver(_seen: Observed) -> None:
        if failures:
            raise failures.pop()

    stdout = io.BytesIO()
    serve(io.BytesIO(frame(PAGE) * 2), stdout, RULES, deliver, lambda: NOW)
    first, second = frames(stdout.getvalue())
    assert first["status"] == "error"
    assert type(error).__name__ in first["error"]
    assert "/" not in first["error"]
    assert second == {"status": "ok"}


@pytest.mark.parametrize(
    "arguments",
    [[], ["/home/me/.mozilla/native-messaging-hosts/threadkeep.json", "threadkeep@local"]]
    + [[f"chrome-extension://{'abcdefghijklmnop' * 2}/", *more] for more in ([], ["--x=0"])],
)
def test_what_browsers_pass_is_accepted(arguments: list[str]) -> None:
    check_caller(arguments)


@pytest.mark.parametrize("arguments", [["x"], ["chrome-extension://x/"], ["a", "b", "c"]])
def test_what_no_browser_passes_is_refused(arguments: list[str]) -> None:
    with pytest.raises(Invalid, match="browser"):
        check_caller(arguments)

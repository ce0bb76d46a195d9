"""Resumable streams: what is recorded can be followed by anybody, from the first chunk to the end.

The AI SDK's own client is asked in test_usechat.py; here the protocol is spoken by hand.
"""

import http.client
import json
import re
import threading
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

import pytest
from hypothesis import given, strategies as st

from tests.support.children import Child
from tests.support.golden import golden
from tests.web.site import Answer, Site
from threadkeep import ChatStore, Recorder
from threadkeep.chat.wire.sse import SseParser
from threadkeep.home.home import Home
from threadkeep.web.api import streams, streams as recording_body

Json = dict[str, Any]
EVENTS, LINES, ARRAY = "text/event-stream", "application/x-ndjson", "application/json"
BEGINNING: list[Json] = [
    {"type": "start", "messageId": "reply"},
    {"type": "start-step"},
    {"type": "text-start", "id": "0"},
    {"type": "text-delta", "id": "0", "delta": "Hel"},
]
REST: list[Json] = [
    {"type": "text-delta", "id": "0", "delta": "lo"},
    {"type": "text-end", "id": "0"},
    {"type": "finish-step"},
    {"type": "finish", "finishReason": "stop"},
]
WHOLE = [*BEGINNING, *REST]
QUESTION: Json = {"id": "ask", "role": "user", "parts": [{"type": "text", "text": "greet me"}]}
GREETING: list[Json] = [
    {"type": "step-start"},
    {"type": "text", "text": "Hello", "state": "done"},
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    found = Site(tmp_path_factory.mktemp("streams") / "home")
    yield found
    found.close()


@pytest.fixture(scope="module")
def store(site: Site) -> Iterator[ChatStore]:
    with site.home.chat() as found:
        yield found


@pytest.fixture
def chat(store: ChatStore, request: pytest.FixtureRequest) -> str:
    """Return the id of a chat that a client made up, with a question in it."""
    name = "client-" + re.sub(r"\W+", "-", request.node.name)
    store.create_session(agent="web", model={}, session_id=name)
    return name


def named(chunks: Iterable[Json], message_id: str) -> list[Json]:
    """Return the chunks with another id of their message: ids are unique in a store."""
    return [c | {"messageId": message_id} if c["type"] == "start" else c for c in chunks]


def body_of(chunks: Iterable[Json]) -> bytes:
    return b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks)


class Follower:
    """A client that resumes: reads events one by one."""

    def __init__(self, site: Site, chat: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=60)
        headers = {"authorization": f"Bearer {site.token}"}
        self._connection.request("GET", f"/api/chat/{chat}/stream", headers=headers)
        self.answer = self._connection.getresponse()
        self.status = self.answer.status

    def line(self) -> str:
        """Return the next line that is not blank."""
        while raw := self.answer.readline():
            if raw.strip():
                return raw.decode().rstrip("\n")
        return ""

    def next(self, count: int) -> list[Json]:
        return [json.loads(self.line().removeprefix("data: ")) for _ in range(count)]

    def rest(self) -> list[str]:
        return list(iter(self.line, ""))

    def close(self) -> None:
        self._connection.close()


class Sender:
    """A producer that sends the body of a reply piece by piece."""

    def __init__(self, site: Site, chat: str, kind: str = EVENTS, query: str = "") -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=60)
        self._connection.putrequest("POST", f"/api/chat/{chat}/record{query}")
        self._connection.putheader("authorization", f"Bearer {site.token}")
        self._connection.putheader("content-type", kind)
        self._connection.putheader("transfer-encoding", "chunked")
        self._connection.endheaders()

    def send(self, data: bytes) -> Self:
        self._connection.send(b"%x\r\n%s\r\n" % (len(data), data))
        return self

    def finish(self) -> Self:
        self._connection.send(b"0\r\n\r\n")
        return self

    def answer(self) -> Answer:
        answer = self._connection.getresponse()
        return Answer(answer.status, dict(answer.getheaders()), answer.read())

    def close(self) -> None:
        self._connection.close()


def stored(store: ChatStore, chat: str, count: int) -> list[Json]:
    """Wait until so many chunks of a chat are stored."""
    found: list[Json] = []
    for event in store.tail(chat):
        found.append(event.data)
        if len(found) == count:
            break
    return found


def ended(store: ChatStore, chat: str) -> str | None:
    """Wait until nobody records, and say why the last run ended."""
    for _ in store.tail(chat, until_idle=True):
        pass
    return store.runs(chat)[-1].end_reason


@contextmanager
def recording(
    store: ChatStore, chat: str, chunks: Iterable[Json], protocol: int = 7
) -> Iterator[Recorder]:
    with store.record(chat, protocol=protocol) as recorder:
        for chunk in chunks:
            recorder.feed(chunk)
        yield recorder


def reading_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "threadkeep-replies"]


# ---------------------------------------------------------------------- resuming


def test_nothing_is_begun_by_a_client_that_finds_nothing_to_resume(tmp_path: Path) -> None:
    with closing(Site(tmp_path / "home")) as empty:
        for method in ("GET", "HEAD"):
            answer = empty.ask(method, "/api/chat/nobody/stream")
            assert (answer.status, answer.body) == (204, b"")
        assert empty.get("/api/chat/nobody/ui-messages").json == []
        assert empty.get("/api/chat/nobody/stop").json["active"] is False
        assert not empty.home.chat_path().exists()


def test_a_finished_reply_is_nothing_to_resume(site: Site, store: ChatStore, chat: str) -> None:
    with recording(store, chat, named(WHOLE, chat)):
        pass
    assert site.get(f"/api/chat/{chat}/stream").status == 204
    assert site.ask("HEAD", f"/api/chat/{chat}/stream").status == 204


def test_the_stream_has_the_headers_of_the_protocol(
    site: Site, store: ChatStore, chat: str
) -> None:
    with recording(store, chat, named(BEGINNING, chat)) as recorder:
        heads = site.ask("HEAD", f"/api/chat/{chat}/stream")
        with closing(Follower(site, chat)) as follower:
            got = {name.lower(): value for name, value in follower.answer.getheaders()}
    assert (heads.status, heads.body) == (200, b"")
    for headers in (heads.headers, got):
        assert headers["content-type"].partition(";")[0] == EVENTS
        assert headers["cache-control"] == "no-cache"
        assert headers["x-vercel-ai-ui-message-stream"] == "v1"
        assert headers["x-accel-buffering"] == "no"
        assert headers["x-threadkeep-run"] == recorder.run_id


def test_followers_who_join_early_and_late_get_the_same_from_the_first_chunk_on(
    site: Site, store: ChatStore, chat: str
) -> None:
    chunks = named(WHOLE, chat)
    first, rest = chunks[:4], chunks[4:]
    with recording(store, chat, first) as recorder, closing(Follower(site, chat)) as early:
        assert early.next(4) == first
        recorder.feed(rest[0])
        assert early.next(1) == rest[:1]
        with closing(Follower(site, chat)) as late, closing(Follower(site, chat)) as leaves:
            assert late.next(5) == chunks[:5]
            assert leaves.next(1) == chunks[:1]
            leaves.close()  # who goes away stops nothing
            for chunk in rest[1:]:
                recorder.feed(chunk)
            assert early.next(3) == late.next(3) == rest[1:]
            recorder.close()
            assert early.rest() == late.rest() == ["data: [DONE]"]
    assert store.message(chat, chat)["parts"] == GREETING


def test_many_followers_share_one_thread(site: Site, store: ChatStore, chat: str) -> None:
    chunks = named(WHOLE, chat)
    before = len(reading_threads())  # one of another test may not have noticed its end yet
    with recording(store, chat, chunks[:4]) as recorder:
        followers = [Follower(site, chat) for _ in range(30)]
        assert all(follower.next(4) == chunks[:4] for follower in followers)
        assert 1 <= len(reading_threads()) <= before + 1
        for chunk in chunks[4:]:
            recorder.feed(chunk)
        assert all(follower.next(4) == chunks[4:] for follower in followers)
    for follower in followers:
        assert follower.rest() == ["data: [DONE]"]
        follower.close()


def test_a_silent_stream_is_kept_alive(
    site: Site, store: ChatStore, chat: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "KEEP_ALIVE_SECONDS", 0.01)
    with (
        recording(store, chat, named(BEGINNING, chat)),
        closing(Follower(site, chat)) as follower,
    ):
        follower.next(4)
        assert follower.line().startswith(":")


def test_a_continued_reply_is_replayed_from_where_it_was_taken_up_again(
    site: Site, store: ChatStore, chat: str
) -> None:
    store.put_message(chat, QUESTION | {"id": f"q-{chat}"})
    store.put_message(chat, {"id": chat, "role": "assistant", "parts": GREETING})
    before = store.ui_messages(chat)
    more = named(BEGINNING, chat)
    with recording(store, chat, more), closing(Follower(site, chat)) as follower:
        assert follower.next(4) == more
        assert site.get(f"/api/chat/{chat}/ui-messages").json == before
    assert len(site.get(f"/api/chat/{chat}/ui-messages").json[1]["parts"]) == 4


@pytest.mark.parametrize("protocol", [6, 7])
def test_every_golden_stream_is_replayed_as_it_came(
    site: Site, store: ChatStore, shared_data: Path, protocol: int
) -> None:
    seen: set[str] = set()
    for case in golden(shared_data, protocol).cases():
        fresh = set(case["tags"]) - seen
        if not fresh or "initial_message" in case:
            continue  # one of each kind
        seen |= fresh
        chat = f"golden-{case['id']}"
        store.create_session(agent="web", model={}, session_id=chat)
        half = len(case["chunks"]) // 2 + 1
        with recording(store, chat, case["chunks"][:half], protocol) as recorder:
            follower = Follower(site, chat)
            for chunk in case["chunks"][half:]:
                recorder.feed(chunk)
        got = [line.removeprefix("data: ") for line in follower.rest()]
        follower.close()
        assert got.pop() == "[DONE]"
        if not recorder.violation_count:
            assert list(map(json.loads, got)) == case["chunks"], case["id"]
    assert len(seen) > 15


def test_a_chunk_of_an_unknown_type_is_passed_on(site: Site, store: ChatStore, chat: str) -> None:
    unknown = {"type": "hologram", "beams": [1]}
    begun = named(BEGINNING, chat)
    chunks = [begun[0], unknown, *begun[1:], unknown]
    with recording(store, chat, chunks), closing(Follower(site, chat)) as follower:
        assert follower.next(6) == chunks


@pytest.mark.parametrize("protocol, parts", [("6", 0), ("7", 1), (None, 1)])
def test_the_address_names_the_version_of_the_stream(
    site: Site, store: ChatStore, chat: str, protocol: str | None, parts: int
) -> None:
    said = {"type": "steering-message", "id": "u", "parts": [{"type": "text", "text": "Stop"}]}
    asked = f"?protocol={protocol}" if protocol else ""
    answer = site.post(f"/api/chat/{chat}/record{asked}", [said])
    assert (answer.status, len(answer.json["message"]["parts"])) == (200, parts)
    assert "Stop" in "".join(store.export(chat))


def test_there_is_no_other_version_and_nothing_is_begun(site: Site) -> None:
    for version in ("5", "8", "seven", "7.0", ""):
        answer = site.post(f"/api/chat/later/record?protocol={version}", WHOLE)
        assert (answer.status, answer.json["error"]) == (400, "invalid"), version
    assert site.get("/api/chat/later/ui-messages").json == []


CRASHING = """
from threadkeep import ChatStore
store = ChatStore.open(sys.argv[1])
recorder = store.record(sys.argv[2])
recorder.feed({"type": "start", "messageId": sys.argv[2]})
recorder.feed({"type": "text-start", "id": "0"})
say("recording")
while word := hear():
    recorder.feed({"type": "text-delta", "id": "0", "delta": word})
"""


def test_another_process_records_and_is_killed(site: Site, store: ChatStore, chat: str) -> None:
    with Child(CRASHING, store.path, chat) as child:
        child.expect("recording")
        with closing(Follower(site, chat)) as follower:
            follower.next(2)
            child.tell("more")
            assert follower.next(1) == [{"type": "text-delta", "id": "0", "delta": "more"}]
            child.kill()
            assert follower.rest() == ["data: [DONE]"]
    assert site.get(f"/api/chat/{chat}/stream").status == 204
    assert store.message(chat, chat)["parts"][0]["text"] == "more"


# ---------------------------------------------------------------------- recording


@pytest.mark.parametrize("kind", [EVENTS, LINES, ARRAY])
def test_a_body_is_recorded_in_each_of_its_forms(site: Site, store: ChatStore, kind: str) -> None:
    name = kind.replace("/", "-")
    chunks = named(WHOLE, name)
    lines = "\n".join(map(json.dumps, chunks)).encode()
    body = {EVENTS: body_of(chunks) + b"data: [DONE]\n\n", LINES: lines}
    path = f"/api/chat/{name}/record?agent=greeter&model=acme/one"
    sent = body.get(kind, json.dumps(chunks).encode())
    answer = site.ask("POST", path, sent, content_type=kind)
    assert answer.status == 200
    told = answer.json
    assert (told["id"], told["session_id"]) == (name, name)
    assert (told["status"], told["finish_reason"], told["skipped"]) == ("finish", "stop", 0)
    assert told["message"]["parts"] == GREETING
    assert store.session(name).agent == "greeter"
    assert store.runs(name)[0].model == {"provider_id": "acme", "model_id": "one"}
    assert store.runs(name)[0].id == told["run_id"]


def test_chunks_are_stored_while_the_body_arrives(site: Site, store: ChatStore, chat: str) -> None:
    chunks = named(WHOLE, chat)
    body = body_of(chunks)
    cut = len(body_of(chunks[:4])) + 7  # within the fifth event
    with closing(Sender(site, chat)) as sender:
        sender.send(body[:cut])
        assert stored(store, chat, 4) == chunks[:4]
        with closing(Follower(site, chat)) as follower:
            assert follower.next(4) == chunks[:4]
            sender.send(body[cut:]).finish()
            assert follower.next(4) == chunks[4:]
            assert follower.rest() == ["data: [DONE]"]
        assert sender.answer().json["message"]["parts"] == GREETING


@given(
    st.lists(st.text(), max_size=5), st.lists(st.integers(0, 400), max_size=6), st.integers(0, 1)
)
def test_lines_become_events_wherever_they_are_cut(
    texts: list[str], cuts: list[int], line_ends: int
) -> None:
    chunks = [{"type": "data-x", "data": text} for text in texts]
    body = "\r\n".join(map(json.dumps, chunks)).encode() + b"\n" * line_ends
    bounds = sorted({0, len(body), *(cut for cut in cuts if cut < len(body))})
    pieces = [body[a:b] for a, b in pairwise(bounds)]
    parser = SseParser()
    found = parser.feed(recording_body.EVENT)
    for piece in pieces:
        found += parser.feed(recording_body.events_of(piece))
    assert list(map(json.loads, [*found, *parser.close()])) == chunks


@pytest.mark.parametrize("kind", [EVENTS, LINES])
def test_a_cut_connection_keeps_what_came(
    site: Site, store: ChatStore, chat: str, kind: str
) -> None:
    chunks = named(BEGINNING, chat)
    lines = "\n".join(map(json.dumps, chunks)).encode() + b"\n"
    with closing(Sender(site, chat, kind)) as sender:
        sender.send((body_of(chunks) if kind == EVENTS else lines) + b'data: {"type": "te')
        stored(store, chat, 4)
    assert ended(store, chat) == "cut"
    parts = store.message(chat, chat)["parts"]
    assert parts[1] == {"type": "text", "text": "Hel", "state": "streaming"}
    assert site.get(f"/api/chat/{chat}/stream").status == 204


def test_what_holds_no_chunk_is_refused_and_begins_nothing(site: Site, store: ChatStore) -> None:
    known = len(store.sessions(limit=500).items)
    for kind, body in ((EVENTS, b": nothing\n\n"), (LINES, b"\n\n"), (ARRAY, b"[]")):
        answer = site.ask("POST", "/api/chat/empty/record", body, content_type=kind)
        assert (answer.status, answer.json["error"]) == (400, "invalid"), kind
    assert site.ask("POST", "/api/chat/empty/record", b'{"type":"start"}').status == 400
    assert site.ask("POST", "/api/chat/empty/record?colour=red", b"[]").status == 400
    assert len(store.sessions(limit=500).items) == known


def test_a_message_of_another_chat_is_not_recorded_over(
    site: Site, store: ChatStore, chat: str
) -> None:
    with recording(store, chat, named(WHOLE, chat)):
        pass
    answer = site.post("/api/chat/thief/record", named(WHOLE, chat))
    assert answer.status == 409
    assert site.get("/api/chat/thief/ui-messages").json == []
    assert store.message(chat, chat)["parts"] == GREETING


def test_what_came_is_kept_when_a_body_is_too_long_and_when_the_server_ends(
    tmp_path: Path,
) -> None:
    config = Home(tmp_path / "home").paths().config
    config.parent.mkdir(parents=True)
    config.write_text("[web]\nbody_limit = 2000\n")
    small = Site(tmp_path / "home")
    with small.home.chat() as store:
        for chat in ("long", "short"):
            store.create_session(agent="web", model={}, session_id=chat)
            with closing(Sender(small, chat)) as sender:
                sender.send(body_of(named(BEGINNING, chat)))
                stored(store, chat, 4)
                if chat == "long":
                    sender.send(b":" * 2000).finish()
                    assert sender.answer().status == 413
                else:
                    small.close()
        ends = [store.runs(chat)[0].end_reason for chat in ("long", "short")]
        assert ends == ["error", "cut"]
        assert store.message("long", "long")["parts"][1]["text"] == "Hel"
        assert store.message("short", "short")["parts"][1]["text"] == "Hel"


# ---------------------------------------------------------------------- stopping


def test_a_stop_ends_the_recording_and_answers_the_producer(
    site: Site, store: ChatStore, chat: str
) -> None:
    chunks = named(BEGINNING, chat)
    with closing(Sender(site, chat)) as sender:
        sender.send(body_of(chunks))
        stored(store, chat, 4)
        with closing(Follower(site, chat)) as follower:
            follower.next(4)
            asked = site.post(f"/api/chat/{chat}/stop", {"message_id": chat, "reason": "enough"})
            assert (asked.status, asked.json["stop"]) == (202, True)
            told = sender.answer().json  # while the body has no end yet
            assert (told["status"], told["error_text"]) == ("abort", "enough")
            assert follower.next(1) == [{"type": "abort", "reason": "enough"}]
            assert follower.rest() == ["data: [DONE]"]
    assert store.message(chat, chat)["parts"][1]["text"] == "Hel"


def test_a_stop_is_meant_for_one_reply_only(site: Site, store: ChatStore, chat: str) -> None:
    path = f"/api/chat/{chat}/stop"
    assert site.post(path, {"message_id": chat}).status == 404
    with recording(store, chat, named(BEGINNING, chat)) as recorder:
        assert site.post(path, {"message_id": "the one before"}).status == 409
        assert site.post(path, {}).status == 422
        told = site.get(path).json
        assert (told["active"], told["stop"], told["run_id"]) == (True, False, recorder.run_id)
        assert site.post(path, {"run_id": recorder.run_id}).status == 202
        assert site.get(path).json["stop"] is True  # whoever records may ask
    assert site.get(path).json["active"] is False
    assert store.runs(chat)[-1].end_reason == "cut"


def test_a_recording_in_another_process_sees_the_wish_to_stop(
    site: Site, store: ChatStore, chat: str
) -> None:
    with Child(CRASHING, store.path, chat) as child:
        child.expect("recording")
        assert site.post(f"/api/chat/{chat}/stop", {"message_id": chat}).status == 202
        (run,) = store.runs(chat)
        assert (run.ended_at, run.error_text) == (None, "stopped by the user")


# ---------------------------------------------------------------------- the list of messages


def test_a_client_saves_its_messages_and_finds_them_again(site: Site, store: ChatStore) -> None:
    path = "/api/chat/saved/ui-messages"
    asked = QUESTION | {"id": "saved-1"}
    reply = {"id": "saved-2", "role": "assistant", "parts": GREETING}
    again = {"id": "saved-3", "role": "assistant", "parts": GREETING}
    assert site.post(path, asked).json == {"changed": 1}
    assert site.post(path, [asked, reply]).json == {"changed": 1}
    assert site.get(path).json == [asked, reply]
    assert site.ask("PUT", path, json.dumps([asked, again]).encode()).json == {"changed": 1}
    assert site.get(path).json == [asked, again]  # a reply that was asked for again is hidden
    assert len(store.ui_messages("saved", "all")) == 3


def test_messages_are_saved_all_or_none(site: Site, store: ChatStore) -> None:
    good, bad = QUESTION | {"id": "whole-1"}, {"id": "whole-2", "role": "nobody", "parts": []}
    for refused in (bad, bad | {"id": ["whole-3"]}, 7, QUESTION | {"id": "whole-4", "parts": 1}):
        answer = site.post("/api/chat/whole/ui-messages", [good, refused])
        assert answer.status in {400, 422}, refused
    assert not [one for one in store.sessions(limit=500).items if one.id == "whole"]


def test_what_the_store_knows_more_is_not_lost_when_a_client_saves(
    site: Site, store: ChatStore, chat: str
) -> None:
    site.post(f"/api/chat/{chat}/record?model=acme/one", named(WHOLE, chat))
    (known,) = site.get(f"/api/chat/{chat}/ui-messages").json
    assert known["metadata"]["model"] == {"provider_id": "acme", "model_id": "one"}
    plain = {key: known[key] for key in ("id", "role", "parts")}
    saved = site.ask("PUT", f"/api/chat/{chat}/ui-messages", json.dumps([plain]).encode())
    assert saved.json == {"changed": 0}
    assert store.message(chat, chat) == known


def test_a_reply_that_is_being_recorded_is_neither_listed_nor_saved_over(
    site: Site, store: ChatStore, chat: str
) -> None:
    path = f"/api/chat/{chat}/ui-messages"
    asked = QUESTION | {"id": f"q-{chat}"}
    site.post(path, asked)
    with recording(store, chat, named(BEGINNING, chat)) as recorder:
        assert site.get(path).json == [asked]
        assert site.ask("PUT", path, json.dumps([asked]).encode()).status == 200
        half = {"id": chat, "role": "assistant", "parts": []}
        assert site.post(path, half).status == 409
        for chunk in REST:
            recorder.feed(chunk)
    assert [message["id"] for message in site.get(path).json] == [asked["id"], chat]

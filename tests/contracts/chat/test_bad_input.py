"""Bad input: a typed error that names the thing and the next step, and a store left as it was."""

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.chats import Factory, new_session, record, text_chunks, turn
from threadkeep.chat.records import Session
from threadkeep.chat.store import ChatStore
from threadkeep.errors import Closed, Conflict, Invalid, NotFound, ThreadkeepError, TooLarge

# Wrong on purpose: everything is Any, so that the type checker lets it pass.
Call = Callable[[Any, Any], object]


class Scene(NamedTuple):
    """A store with two conversations in it."""

    store: ChatStore
    session: Session
    asked: str
    answer: str
    queued: str
    other: Session
    theirs: str
    run_id: str


@pytest.fixture(scope="module")
def scene(lasting_store: ChatStore) -> Scene:
    """One store for all: no test here may change it, and each checks that it did not."""
    store = lasting_store
    session, other = new_session(store), new_session(store)
    asked, answer = turn(store, session, "question", "answer")
    waiting = store.enqueue(session, "later")
    theirs = record(store, other, text_chunks("elsewhere"))
    run_id = store.runs(session)[0].id
    return Scene(store, session, asked, answer, waiting.id, other, theirs, run_id)


def refuse(
    factory: Factory, scene: Scene, call: Call, error: type[ThreadkeepError], named: str = ""
) -> ThreadkeepError:
    """Make a call that must be refused, with a hint, without a trace in the store."""
    before = factory.contents(scene.store)
    with pytest.raises(ThreadkeepError) as caught:
        call(scene.store, scene)
    assert type(caught.value) is error, caught.value
    assert named in caught.value.message
    assert caught.value.hint
    assert factory.contents(scene.store) == before
    return caught.value


# ---------------------------------------------------------------------- unknown things


UNKNOWN_SESSION: dict[str, Call] = {
    "session": lambda s, _: s.session("ses_none"),
    "set_title": lambda s, _: s.set_title("ses_none", "t"),
    "set_metadata": lambda s, _: s.set_metadata("ses_none", {}),
    "set_permissions": lambda s, _: s.set_permissions("ses_none", []),
    "archive": lambda s, _: s.archive("ses_none"),
    "unarchive": lambda s, _: s.unarchive("ses_none"),
    "delete": lambda s, _: s.delete("ses_none"),
    "say": lambda s, _: s.say("ses_none", "hi"),
    "put_message": lambda s, _: s.put_message("ses_none", {"role": "user", "parts": []}),
    "ui_messages": lambda s, _: s.ui_messages("ses_none"),
    "message": lambda s, c: s.message("ses_none", c.asked),
    "search": lambda s, _: s.search("x", session="ses_none"),
    "record": lambda s, _: s.record("ses_none"),
    "tail": lambda s, _: list(s.tail("ses_none", follow=False)),
    "record_usage": lambda s, _: s.record_usage("ses_none", {}),
    "spend": lambda s, _: s.spend("ses_none"),
    "repair_orphans": lambda s, _: s.repair_orphans("ses_none"),
    "rewind": lambda s, c: s.rewind("ses_none", c.asked),
    "unrewind": lambda s, _: s.unrewind("ses_none"),
    "fork": lambda s, _: s.fork("ses_none"),
    "compact": lambda s, _: s.compact("ses_none", "summary"),
    "enqueue": lambda s, _: s.enqueue("ses_none", "hi"),
    "queued": lambda s, _: s.queued("ses_none"),
    "fire": lambda s, _: s.fire("ses_none"),
    "fire one": lambda s, c: s.fire("ses_none", c.queued),
    "unfire": lambda s, c: s.unfire("ses_none", c.queued),
    "cancel": lambda s, c: s.cancel("ses_none", c.queued),
    "judge": lambda s, _: s.judge("ses_none", "bash", "ls"),
    "runs": lambda s, _: s.runs("ses_none"),
}


@pytest.mark.parametrize("verb", UNKNOWN_SESSION)
def test_unknown_session_is_named(scene: Scene, verb: str, factory: Factory) -> None:
    refuse(factory, scene, UNKNOWN_SESSION[verb], NotFound, "'ses_none'")


UNKNOWN_MESSAGE: dict[str, Call] = {
    "message": lambda s, c: s.message(c.session, "msg_none"),
    "record_usage": lambda s, c: s.record_usage(c.session, {}, message="msg_none"),
    "rewind": lambda s, c: s.rewind(c.session, "msg_none"),
    "fork": lambda s, c: s.fork(c.session, "msg_none"),
    "compact": lambda s, c: s.compact(c.session, "summary", tail_start="msg_none"),
    "fire": lambda s, c: s.fire(c.session, "msg_none"),
    "unfire": lambda s, c: s.unfire(c.session, "msg_none"),
    "cancel": lambda s, c: s.cancel(c.session, "msg_none"),
}


@pytest.mark.parametrize("verb", UNKNOWN_MESSAGE)
def test_unknown_message_is_named(scene: Scene, verb: str, factory: Factory) -> None:
    refuse(factory, scene, UNKNOWN_MESSAGE[verb], NotFound, "'msg_none'")


def feed_start(store: Any, scene: Any) -> None:
    with store.record(scene.session) as recorder:
        recorder.feed({"type": "start", "messageId": scene.theirs})


def record_named(store: Any, scene: Any) -> None:
    with store.record(scene.session, scene.theirs) as recorder:
        recorder.feed({"type": "text-start", "id": "1"})


FOREIGN_MESSAGE: dict[str, Call] = {
    "say": lambda s, c: s.say(c.session, "hi", message_id=c.theirs),
    "put_message": lambda s, c: s.put_message(
        c.session, {"id": c.theirs, "role": "assistant", "parts": []}
    ),
    "message": lambda s, c: s.message(c.session, c.theirs),
    "record_usage": lambda s, c: s.record_usage(c.session, {}, message=c.theirs),
    "rewind": lambda s, c: s.rewind(c.session, c.theirs),
    "fork": lambda s, c: s.fork(c.session, c.theirs),
    "compact": lambda s, c: s.compact(c.session, "summary", tail_start=c.theirs),
    "enqueue": lambda s, c: s.enqueue(c.session, "hi", message_id=c.theirs),
    "fire": lambda s, c: s.fire(c.session, c.theirs),
    "unfire": lambda s, c: s.unfire(c.session, c.theirs),
    "cancel": lambda s, c: s.cancel(c.session, c.theirs),
}


@pytest.mark.parametrize("verb", FOREIGN_MESSAGE)
def test_message_of_another_session_is_named_with_its_owner(
    scene: Scene, verb: str, factory: Factory
) -> None:
    error = refuse(factory, scene, FOREIGN_MESSAGE[verb], Conflict, scene.theirs)
    assert scene.other.id in error.message


@pytest.mark.parametrize("call", [feed_start, record_named])
def test_stream_of_a_message_that_lives_elsewhere_is_refused(scene: Scene, call: Call) -> None:
    """The reference store writes such a text under the other session's message and loses both."""
    parts = scene.store.message(scene.other, scene.theirs)["parts"]
    with pytest.raises(Conflict, match=scene.other.id):
        call(scene.store, scene)
    assert scene.store.message(scene.other, scene.theirs)["parts"] == parts
    assert len(scene.store.ui_messages(scene.session)) == 2


def test_id_that_is_taken_in_the_session_is_refused(scene: Scene, factory: Factory) -> None:
    refuse(
        factory,
        scene,
        lambda s, c: s.say(c.session, "x", message_id=c.asked),
        Conflict,
        scene.asked,
    )


# ---------------------------------------------------------------------- wrong types


NO_IDS: list[Any] = [None, 5, 1.5, b"ses", [], {}, Path("x"), ""]

WRONG: dict[str, list[Call]] = {
    "create_session": [
        lambda s, _: s.create_session(agent=None, model="p/m"),
        lambda s, _: s.create_session(agent="", model="p/m"),
        lambda s, _: s.create_session(agent=5, model="p/m"),
        lambda s, _: s.create_session(agent="a", model=None),
        lambda s, _: s.create_session(agent="a", model=[]),
        lambda s, _: s.create_session(agent="a", model={"temperature": math.nan}),
        lambda s, _: s.create_session(agent="a", model="p/m", workspace_root=None),
        lambda s, _: s.create_session(agent="a", model="p/m", workspace_root=Path("/w")),
        lambda s, _: s.create_session(agent="a", model="p/m", title=5),
        lambda s, _: s.create_session(agent="a", model="p/m", metadata=[]),
        lambda s, _: s.create_session(agent="a", model="p/m", metadata={"x": b"bytes"}),
        lambda s, _: s.create_session(agent="a", model="p/m", metadata={5: "key"}),
        lambda s, _: s.create_session(agent="a", model="p/m", permissions=5),
        lambda s, _: s.create_session(agent="a", model="p/m", session_id=5),
        lambda s, _: s.create_session(agent="a", model="p/m", session_id=""),
        lambda s, _: s.create_session(agent="a", model="p/m", parent_id=5),
        lambda s, _: s.create_session(agent="a", model="p/m", parent_message_id=[]),
        lambda s, _: s.create_session(agent="a", model="p/m", workspace_id=[]),
        lambda s, _: s.create_session(agent="a", model="p/m", mode=5),
    ],
    "sessions": [
        lambda s, _: s.sessions(agent=5),
        lambda s, _: s.sessions(agent=["a"]),
        lambda s, _: s.sessions(workspace=Path("/")),
        lambda s, _: s.sessions(parent=5),
        lambda s, _: s.sessions(title=5),
        lambda s, _: s.sessions(limit=0),
        lambda s, _: s.sessions(limit=501),
        lambda s, _: s.sessions(limit="5"),
        lambda s, _: s.sessions(limit=None),
        lambda s, _: s.sessions(cursor=5),
        lambda s, _: s.sessions(cursor=""),
        lambda s, _: s.sessions(cursor="x"),
        lambda s, _: s.sessions(cursor="x:y"),
        lambda s, _: s.sessions(cursor="²:y"),
        lambda s, _: s.sessions(cursor="9" * 5000 + ":y"),
    ],
    "set_title": [lambda s, c: s.set_title(c.session, 5)],
    "set_metadata": [
        lambda s, c: s.set_metadata(c.session, None),
        lambda s, c: s.set_metadata(c.session, "x"),
        lambda s, c: s.set_metadata(c.session, {"x": {1, 2}}),
        lambda s, c: s.set_metadata(c.session, {"x": math.inf}),
    ],
    "say": [
        lambda s, c: s.say(c.session, None),
        lambda s, c: s.say(c.session, 5),
        lambda s, c: s.say(c.session, b"bytes"),
        lambda s, c: s.say(c.session, []),
        lambda s, c: s.say(c.session, {}),
        lambda s, c: s.say(c.session, ["text"]),
        lambda s, c: s.say(c.session, [{"text": "no type"}]),
        lambda s, c: s.say(c.session, [{"type": 5}]),
        lambda s, c: s.say(c.session, [{"type": "text", "text": b"bytes"}]),
        lambda s, c: s.say(
            c.session, [{"type": "text", "text": "ok"}, {"type": "x", "n": math.nan}]
        ),
        lambda s, c: s.say(c.session, "hi", metadata=[]),
        lambda s, c: s.say(c.session, "hi", metadata="x"),
        lambda s, c: s.say(c.session, "hi", agent=5),
        lambda s, c: s.say(c.session, "hi", model=5),
        lambda s, c: s.say(c.session, "hi", trigger="webhook"),
        lambda s, c: s.say(c.session, "hi", snapshot_id=5),
        lambda s, c: s.say(c.session, "hi", schema_version="1"),
        lambda s, c: s.say(c.session, "hi", message_id=5),
        lambda s, c: s.say(c.session, "hi", message_id=""),
        lambda s, c: s.say(c.session, "hi", metadata={"hidden_at": 2**70}),
    ],
    "put_message": [
        lambda s, c: s.put_message(c.session, None),
        lambda s, c: s.put_message(c.session, []),
        lambda s, c: s.put_message(c.session, {"parts": []}),
        lambda s, c: s.put_message(c.session, {"role": "tool", "parts": []}),
        lambda s, c: s.put_message(c.session, {"role": [], "parts": []}),
        lambda s, c: s.put_message(c.session, {"role": "user", "parts": None}),
        lambda s, c: s.put_message(c.session, {"role": "user", "parts": 5}),
        lambda s, c: s.put_message(c.session, {"role": "user", "parts": [5]}),
        lambda s, c: s.put_message(c.session, {"role": "user", "id": 5, "parts": []}),
        lambda s, c: s.put_message(c.session, {"role": "user", "id": 0, "parts": []}),
        lambda s, c: s.put_message(c.session, {"role": "user", "metadata": [], "parts": []}),
        lambda s, c: s.put_message(c.session, {"role": "user", "metadata": "x", "parts": []}),
    ],
    "ui_messages": [
        lambda s, c: s.ui_messages(c.session, "everything"),
        lambda s, c: s.ui_messages(c.session, None),
        lambda s, c: s.ui_messages(c.session, []),
    ],
    "search": [
        lambda s, _: s.search(None),
        lambda s, _: s.search(5),
        lambda s, _: s.search("x", session=5),
        lambda s, _: s.search("x", agent=5),
        lambda s, _: s.search("x", role=["user"]),
        lambda s, _: s.search("x", since="2026-01-01"),
        lambda s, _: s.search("x", until=1.5),
    ],
    "record_usage": [
        lambda s, c: s.record_usage(c.session, None),
        lambda s, c: s.record_usage(c.session, {"inputTokens": 5}),
        lambda s, c: s.record_usage(c.session, {"input": -5}),
        lambda s, c: s.record_usage(c.session, {"input": 1.5}),
        lambda s, c: s.record_usage(c.session, {"input": 2**60}),
        lambda s, c: s.record_usage(c.session, {}, message=5),
        lambda s, c: s.record_usage(c.session, {}, message=c.asked),
        lambda s, c: s.record_usage(c.session, {}, cost_usd="1"),
        lambda s, c: s.record_usage(c.session, {}, cost_usd=-1),
        lambda s, c: s.record_usage(c.session, {}, cost_usd=math.nan),
    ],
    "repair_orphans": [
        lambda s, c: s.repair_orphans(c.session, human_tools="question"),
        lambda s, c: s.repair_orphans(c.session, human_tools=5),
        lambda s, _: s.repair_orphans(5),
    ],
    "rewind": [
        lambda s, c: s.rewind(c.session, None),
        lambda s, c: s.rewind(c.session, 5),
        lambda s, c: s.rewind(c.session, c.answer),
        lambda s, c: s.rewind(c.session, c.queued),
    ],
    "fork": [
        lambda s, c: s.fork(c.session, 5),
        lambda s, c: s.fork(c.session, c.queued),
        lambda s, c: s.fork(c.session, metadata=[]),
        lambda s, c: s.fork(c.session, metadata="x"),
        lambda s, c: s.fork(c.session, title=5),
    ],
    "compact": [
        lambda s, c: s.compact(c.session, None),
        lambda s, c: s.compact(c.session, {"summary": "x"}),
        lambda s, c: s.compact(c.session, "x", tail_start=5),
        lambda s, c: s.compact(c.session, "x", tail_start=c.queued),
        lambda s, c: s.compact(c.session, "x", tail_turns="2"),
        lambda s, c: s.compact(c.session, "x", tail_turns=-1),
        lambda s, c: s.compact(c.session, "x", tail_start=c.asked, tail_turns=1),
        lambda s, c: s.compact(c.session, "x", summary_tokens="5"),
        lambda s, c: s.compact(c.session, "x", summary_tokens=-5),
        lambda s, c: s.compact(c.session, "x", summary_tokens=None),
    ],
    "enqueue": [
        lambda s, c: s.enqueue(c.session, None),
        lambda s, c: s.enqueue(c.session, []),
        lambda s, c: s.enqueue(c.session, "x", metadata=[]),
        lambda s, c: s.enqueue(c.session, "x", trigger=5),
        lambda s, c: s.enqueue(c.session, "x", message_id=5),
        lambda s, c: s.enqueue(c.session, "x", message_id=""),
    ],
    "the queue": [
        lambda s, c: s.fire(c.session, 5),
        lambda s, c: s.unfire(c.session, None),
        lambda s, c: s.cancel(c.session, None),
        lambda s, c: s.cancel(c.session, []),
    ],
    "judge": [
        lambda s, c: s.judge(c.session, None, "ls"),
        lambda s, c: s.judge(c.session, "bash", None),
        lambda s, c: s.judge(c.session, "bash", ["ls"]),
        lambda s, c: s.judge(c.session, "bash", "ls", rules=5),
        lambda s, c: s.judge(c.session, "bash", "ls", rules={"permission": "bash"}),
        lambda s, c: s.judge(c.session, "bash", "ls", parent_rules="x"),
        lambda s, c: s.judge(c.session, "bash", "ls", run_id=5),
        lambda s, c: s.judge(c.session, "bash", "ls", run_id=c.run_id, tool_call_id=5),
    ],
    "system prompts": [
        lambda s, _: s.put_system_prompt(None),
        lambda s, _: s.put_system_prompt(b"bytes"),
        lambda s, _: s.system_prompt(None),
        lambda s, _: s.system_prompt(5),
    ],
    "record": [
        lambda s, c: s.record(c.session, 5),
        lambda s, c: s.record(c.session, save_on="never"),
        lambda s, c: s.record(c.session, save_on=None),
    ],
}


@pytest.mark.parametrize("verb", WRONG)
def test_wrong_types_are_refused(scene: Scene, verb: str, factory: Factory) -> None:
    for number, call in enumerate(WRONG[verb]):
        try:
            refuse(factory, scene, call, Invalid)
        except BaseException as problem:
            problem.add_note(f"call {number} of {verb}")
            raise


@pytest.mark.parametrize("bad", NO_IDS, ids=lambda bad: type(bad).__name__)
def test_what_is_no_session_id_is_refused_everywhere(
    scene: Scene, bad: Any, factory: Factory
) -> None:
    calls: list[Call] = [
        lambda s, _: s.session(bad),
        lambda s, _: s.say(bad, "hi"),
        lambda s, _: s.put_message(bad, {"role": "user", "parts": []}),
        lambda s, _: s.ui_messages(bad),
        lambda s, _: s.record(bad),
        lambda s, _: list(s.tail(bad, follow=False)),
        lambda s, _: s.rewind(bad, "m"),
        lambda s, _: s.unrewind(bad),
        lambda s, _: s.fork(bad),
        lambda s, _: s.compact(bad, "x"),
        lambda s, _: s.enqueue(bad, "x"),
        lambda s, _: s.queued(bad),
        lambda s, _: s.fire(bad),
        lambda s, _: s.cancel(bad, "m"),
        lambda s, _: s.delete(bad),
        lambda s, _: s.archive(bad),
        lambda s, _: s.runs(bad),
        lambda s, _: s.spend(bad),
        lambda s, _: s.judge(bad, "bash", "ls"),
        lambda s, _: s.record_usage(bad, {}),
        lambda s, _: s.set_title(bad, "t"),
    ]
    for call in calls:
        refuse(factory, scene, call, Invalid, "session id")


# ---------------------------------------------------------------------- chunks


CHUNKS: list[Any] = [
    None,
    5,
    [],
    "not json",
    b"\xff\xfe",
    '"a string"',
    {},
    {"type": 5},
    {"type": "text-start"},
    {"type": "text-delta", "id": "1"},
    {"type": "text-delta", "id": "1", "delta": 5},
    {"type": "tool-input-start", "toolCallId": "c"},
    {"type": "tool-input-available", "toolName": "x", "input": {}},
    {"type": "start", "messageId": 5},
    {"type": "start", "messageMetadata": "x"},
    {"type": "error"},
    {"type": "data-x", "id": 5, "data": 1},
    {"type": "data-x", "data": math.nan},
    {"type": "unknown-type", "x": b"bytes"},
]


def feed(recorder: Any, chunk: Any, _store: Any, _scene: Any) -> None:
    recorder.feed(chunk)


@pytest.mark.parametrize("strict", [False, True])
def test_malformed_chunks_are_refused_before_anything_is_written(
    scene: Scene,
    strict: bool,  # noqa: FBT001
    factory: Factory,
) -> None:
    recorder = scene.store.record(scene.session, strict=strict)
    for chunk in CHUNKS:
        refuse(factory, scene, partial(feed, recorder, chunk), Invalid)
    before = factory.contents(scene.store)
    recorder.close()
    assert factory.contents(scene.store) == before


# ---------------------------------------------------------------------- too much


HUGE = 100 * 1024 * 1024


def test_part_of_a_hundred_megabytes_is_refused_and_says_what_to_do(
    scene: Scene, factory: Factory
) -> None:
    huge = "x" * HUGE
    error = refuse(factory, scene, lambda s, c: s.say(c.session, huge), TooLarge, "104,857,6")
    assert "URL" in error.hint


def test_chunk_of_a_hundred_megabytes_is_refused_and_the_reply_goes_on(factory: Factory) -> None:
    with factory.open() as store:
        session = new_session(store)
        with store.record(session) as recorder:
            for chunk in text_chunks("before ")[:4]:
                recorder.feed(chunk)
            with pytest.raises(TooLarge, match="text-delta"):
                recorder.feed({"type": "text-delta", "id": "t", "delta": "x" * HUGE})
            recorder.feed({"type": "text-delta", "id": "t", "delta": "and after"})
        (message,) = store.ui_messages(session)
        assert message["parts"][-1]["text"] == "before and after"


def test_limit_counts_the_whole_part_and_may_be_lower(factory: Factory) -> None:
    with factory.open(part_limit=1000) as store:
        session = new_session(store)
        store.say(session, "x" * 900)
        before = factory.contents(store)
        part = {"type": "text", "text": "x" * 1000}
        calls: list[Callable[[], object]] = [
            lambda: store.say(session, "x" * 1000),
            lambda: store.say(session, [{"type": "text", "text": "fine"}, part]),
            lambda: store.put_message(session, {"role": "assistant", "parts": [part]}),
            lambda: store.enqueue(session, "x" * 1000),
            lambda: store.compact(session, "x" * 1000),
        ]
        for call in calls:
            with pytest.raises(TooLarge, match="1,000"):
                call()
        assert factory.contents(store) == before
        with store.record(session) as recorder:
            recorder.feed({"type": "text-start", "id": "1"})
            for _ in range(9):
                recorder.feed({"type": "text-delta", "id": "1", "delta": "y" * 100})
            with pytest.raises(TooLarge):
                recorder.feed({"type": "text-delta", "id": "1", "delta": "y" * 200})
        assert len(store.ui_messages(session)[1]["parts"][0]["text"]) == 900


def test_value_nested_too_deep_is_refused(scene: Scene, factory: Factory) -> None:
    deep: Any = "bottom"
    for _ in range(300):
        deep = [deep]
    refuse(
        factory, scene, lambda s, c: s.say(c.session, [{"type": "data-x", "data": deep}]), Invalid
    )
    refuse(factory, scene, lambda s, c: s.set_metadata(c.session, {"x": deep}), Invalid)
    loop: list[Any] = []
    loop.append(loop)
    refuse(
        factory, scene, lambda s, c: s.say(c.session, [{"type": "data-x", "data": loop}]), Invalid
    )


# ---------------------------------------------------------------------- after the end


def test_closed_store_says_so(factory: Factory) -> None:
    store = factory.open()
    session = new_session(store)
    store.close()
    store.close()
    calls: list[Callable[[], object]] = [
        lambda: store.session(session),
        lambda: store.say(session, "x"),
        lambda: store.record(session),
        store.size,
    ]
    for call in calls:
        with pytest.raises(Closed, match=r"chat\.db|home=") as caught:
            call()
        assert caught.value.hint

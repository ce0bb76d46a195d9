"""record: whatever comes in on stdin is in the store, also when it ends badly."""

import signal
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from tests.cli.conftest import Json, Run, Start, document, jsonl, sse, talk, text_reply, tool_reply
from threadkeep import ChatStore
from threadkeep.cli.chat.record import StreamInput
from threadkeep.errors import Invalid

BODIES = {"jsonl": jsonl(tool_reply()), "sse": sse(tool_reply())}


def reopened(home: Path) -> ChatStore:
    return ChatStore.open(home / "chat.db", read_only=True)


@pytest.mark.parametrize("kind", BODIES)
def test_a_stream_is_recorded_into_a_new_session(kind: str, run: Run, home: Path) -> None:
    result = run("chat", "record", "--agent", "plan", "--model", "p/m", stdin=BODIES[kind])
    with reopened(home) as store:
        (session,) = store.sessions().items
        (message,) = store.ui_messages(session)
    assert result.stderr.splitlines()[0] == f"session {session.id}"
    assert result.stdout == f"{message['id']}\n"
    assert (session.agent, session.model) == ("plan", {"provider_id": "p", "model_id": "m"})
    kinds = [part["type"] for part in message["parts"]]
    assert kinds == ["step-start", "reasoning", "tool-bash", "step-start", "text"]


def test_a_stream_goes_on_in_a_session_that_is_there(run: Run, store: ChatStore) -> None:
    session = talk(store)
    words = ["--session", "last", "--say", "and now?", "--model", "q/n", "--json"]
    told = document(run("chat", "record", *words, stdin=jsonl(text_reply("Hi"))))
    messages = store.ui_messages(session)
    assert [message["role"] for message in messages] == ["user", "assistant"] * 2
    assert messages[2]["parts"] == [{"type": "text", "text": "and now?"}]
    assert told == {
        "schema_version": 1,
        "session_id": session.id,
        "message_id": messages[3]["id"],
        "run_id": store.runs(session)[-1].id,
        "parts": 1,
        "ended": "finish",
        "finish_reason": "stop",
        "error_text": None,
        "skipped": 0,
        "violations": [],
        "first_skipped_line": None,
    }
    assert store.runs(session)[-1].model == {"provider_id": "q", "model_id": "n"}


def test_a_message_is_continued(run: Run, store: ChatStore) -> None:
    session = talk(store)
    reply = store.ui_messages(session)[1]["id"]
    more = jsonl(text_reply("more"))
    run("chat", "record", "--session", session.id, "--message-id", reply, stdin=more)
    texts = [part["text"] for part in store.message(session, reply)["parts"]]
    assert texts == ["an answer", "more"]


def test_a_stream_that_was_cut_is_kept_and_told(run: Run, home: Path) -> None:
    result = run("chat", "record", stdin=jsonl(text_reply("Hel", "lo")[:4]), code=1)
    assert "error: the stream ended without a finish chunk" in result.stderr
    with reopened(home) as store:
        (session,) = store.sessions().items
        assert store.ui_messages(session)[0]["parts"][0]["text"] == "Hello"
        assert store.runs(session)[0].end_reason == "cut"
        assert f"--session {session.id} --message-id" in result.stderr


def test_the_last_line_needs_no_line_end(run: Run, home: Path) -> None:
    run("chat", "record", stdin=jsonl(text_reply("Hello")).rstrip())


def test_chunks_that_do_not_fit_are_skipped_and_counted(run: Run, home: Path) -> None:
    bad = b'{"type":"text-delta","id":"9","delta":"x"}\nnot json\n{"no":"type"}\n'
    told = document(run("chat", "record", "--json", stdin=bad + jsonl(text_reply("ok")), code=1))
    assert told["skipped"] == 3
    assert len(told["violations"]) == 3
    assert told["first_skipped_line"] == 1


def test_the_rest_of_a_cut_stream_is_not_lost_in_silence(run: Run, home: Path) -> None:
    whole = text_reply("Hel", "lo")
    cut = run("chat", "record", stdin=sse(whole[:3]).replace(b"data: [DONE]\n\n", b""), code=1)
    assert "a stream of its own" in cut.stderr
    message = cut.stdout.strip()
    words = ["record", "--session", "last", "--message-id", message]
    rest = run("chat", *words, stdin=sse(whole[3:]), code=1)
    assert "error: 2 chunks did not fit the stream and were not stored" in rest.stderr
    run("chat", *words, stdin=sse(text_reply("lo")))
    with reopened(home) as store:
        (session,) = store.sessions().items
        texts = [part["text"] for part in store.message(session, message)["parts"]]
    assert texts == ["Hel", "lo"]


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_a_bad_line_is_named_by_its_number(end: bytes, run: Run, home: Path) -> None:
    good = jsonl(text_reply("ok"))
    result = run("chat", "record", stdin=b"\n\n" + good + b'{"no":"type"}' + end, code=1)
    assert "first: line 8: " in result.stderr
    strict = run("chat", "record", "--strict", stdin=good + b'{"no":"type"}\n', code=2)
    assert "error: line 6: " in strict.stderr


@pytest.mark.parametrize("more", [[], [{"type": "finish"}]])
def test_an_error_of_the_stream_is_told(more: list[Json], run: Run, home: Path) -> None:
    error = {"type": "error", "errorText": "no quota left"}
    body = jsonl([{"type": "start"}, error, *more])
    assert (
        "error: the stream reported an error: no quota left"
        in run("chat", "record", stdin=body, code=1).stderr
    )
    told = document(run("chat", "record", "--json", stdin=body, code=1))
    assert told["error_text"] == "no quota left"


@pytest.mark.parametrize("say", [[], ["--say", "hello?"]])
def test_a_refused_recording_leaves_no_session_behind(
    say: list[str], run: Run, store: ChatStore
) -> None:
    session = talk(store)
    reply = store.ui_messages(session)[1]["id"]
    words = ["--message-id", reply, *say]
    result = run("chat", "record", *words, stdin=jsonl(text_reply("x")), code=1)
    assert "was removed" in result.stderr
    assert [one.id for one in store.sessions().items] == [session.id]


def test_strict_stops_at_the_first_one_and_keeps_the_rest(run: Run, home: Path) -> None:
    good = jsonl(text_reply("kept"))
    bad = b'{"type":"text-delta","id":"9","delta":"x"}\n'
    run("chat", "record", "--strict", stdin=good[:-1] + b"\n" + bad, code=2)
    with reopened(home) as store:
        (session,) = store.sessions().items
        assert store.ui_messages(session)[0]["parts"][0]["text"] == "kept"


@pytest.mark.parametrize("body", [b"", b"\n \n", b"<html>oops</html>", b"[1]", b"plain words"])
def test_input_that_is_no_stream_leaves_nothing_behind(body: bytes, run: Run, home: Path) -> None:
    assert "hint: " in run("chat", "record", stdin=body, code=2).stderr
    with reopened(home) as store:
        assert store.sessions().items == []


@pytest.mark.parametrize("body", [b'{"error":{"message":"no quota"}}\n', b": ping\n\ndata: 5\n\n"])
def test_input_without_any_chunk_leaves_no_session_behind(
    body: bytes, run: Run, home: Path
) -> None:
    result = run("chat", "record", stdin=body, code=2)
    assert "no chunk was found" in result.stderr
    with reopened(home) as store:
        assert store.sessions().items == []


def test_a_new_session_without_any_reply_is_taken_back(run: Run, home: Path) -> None:
    run("chat", "record", "--say", "hello?", stdin=b"", code=2)
    with reopened(home) as store:
        assert store.sessions(archived=None).items == []


def test_what_the_user_said_stays_in_a_session_that_was_there(run: Run, store: ChatStore) -> None:
    session = talk(store)
    run("chat", "record", "--session", session.id, "--say", "hello?", stdin=b"", code=2)
    assert store.ui_messages(session)[-1]["parts"][0]["text"] == "hello?"


def test_an_unknown_session_is_refused_before_anything_is_read(run: Run, home: Path) -> None:
    result = run("chat", "record", "--session", "ses_x", stdin=BODIES["sse"], code=3)
    assert "ses_x" in result.stderr


def test_tee_passes_the_input_on_unchanged(run: Run, home: Path) -> None:
    assert run("chat", "record", "--tee", stdin=BODIES["sse"]).stdout_bytes == BODIES["sse"]


def test_tee_and_json_do_not_share_stdout(run: Run, home: Path) -> None:
    assert "both write to stdout" in run("chat", "record", "--tee", "--json", code=2).stderr


@pytest.mark.parametrize("policy", ["chunk", "step", "turn"])
def test_the_configuration_says_when_to_store(policy: str, run: Run, home: Path) -> None:
    home.mkdir()
    (home / "config.toml").write_text(f'[chat]\nsave_on = "{policy}"\n')
    run("chat", "record", stdin=BODIES["jsonl"])


# ---------------------------------------------------------------------- as a process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_records_an_abort(number: signal.Signals, start: Start, home: Path) -> None:
    process = start("chat", "record", "--tee")
    assert process.stdin is not None
    assert process.stdout is not None
    arrived = jsonl(text_reply("Hel", "lo")[:4])
    process.stdin.write(arrived)
    process.stdin.flush()
    assert process.stdout.read(len(arrived)) == arrived  # what is passed on has been stored
    process.send_signal(number)
    assert process.wait() == 130
    with reopened(home) as store:
        (session,) = store.sessions().items
        (message,) = store.ui_messages(session)
        assert message["parts"][0] == {"type": "text", "text": "Hello", "state": "streaming"}
        (one,) = store.runs(session)
        assert (one.end_reason, one.error_text) == ("abort", "interrupted")


def test_a_signal_before_the_first_chunk_is_written_down_too(start: Start, home: Path) -> None:
    process = start("chat", "record", "--say", "hello?", "--tee")
    assert process.stderr is not None
    assert process.stderr.readline().startswith(b"session ")
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"\n")
    process.stdin.flush()
    assert process.stdout.read(1) == b"\n"  # it waits for more
    process.send_signal(signal.SIGINT)
    assert process.wait() == 130
    with reopened(home) as store:
        (session,) = store.sessions().items
        assert [message["role"] for message in store.ui_messages(session)] == ["user"]
        assert [one.end_reason for one in store.runs(session)] == ["abort"]


def test_a_broken_pipe_records_an_abort(start: Start, home: Path) -> None:
    process = start("chat", "record", "--tee")
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdout.close()
    process.stdin.write(jsonl(text_reply("Hello")[:3]))
    process.stdin.flush()
    assert process.wait() == 130
    assert process.stderr is not None
    assert b"Traceback" not in process.stderr.read()
    with reopened(home) as store:
        (session,) = store.sessions().items
        assert [one.end_reason for one in store.runs(session)] == ["abort"]


@pytest.mark.parametrize("kind", BODIES)
def test_every_chunk_is_stored_before_the_next_is_read(kind: str, start: Start, home: Path) -> None:
    """Feed one byte at a time through a real pipe; look into the store in between."""
    body = BODIES[kind]
    process = start("chat", "record", "--tee")
    assert process.stdin is not None
    assert process.stdout is not None
    half = body.index(b"tool-output-available")
    for at in range(half):
        process.stdin.write(body[at : at + 1])
        process.stdin.flush()
        assert process.stdout.read(1) == body[at : at + 1]
    with reopened(home) as store:
        (session,) = store.sessions().items
        (message,) = store.ui_messages(session)
        assert message["parts"][-1]["state"] == "input-available"
    process.stdin.write(body[half:])
    process.stdin.close()
    assert process.stdout.read() == body[half:]
    assert process.wait() == 0


# ---------------------------------------------------------------------- telling them apart


def converted(*pieces: bytes) -> bytes:
    incoming = StreamInput()
    return b"".join(event.data for piece in pieces for event in incoming.take(piece))


@given(st.sampled_from([*BODIES.values(), b"\xef\xbb\xbf \n" + BODIES["jsonl"]]), st.data())
def test_it_does_not_matter_where_the_input_is_cut(body: bytes, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=5)))
    pieces = [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True)]
    assert converted(*pieces) == converted(body)


@pytest.mark.parametrize("first", [b"data: {}\n\n", b": hi\n\n", b"event: x\n", b"id: 1\n"])
def test_events_pass_as_they_are(first: bytes) -> None:
    assert converted(first) == first


def test_lines_become_events() -> None:
    assert converted(b'{"a":1}\n{"b":2}') == b'data: {"a":1}\n\ndata: {"b":2}'


def test_something_else_is_refused_with_its_beginning() -> None:
    with pytest.raises(Invalid, match="<!doctype"):
        converted(b"<!doctype html>")

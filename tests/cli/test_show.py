"""The inspector: everything the guide says it must show, per turn."""

import pytest

from tests.cli.conftest import (
    HOSTILE,
    Run,
    Start,
    answer,
    document,
    jsonl,
    talk,
    text_reply,
    tool_reply,
)
from threadkeep import ChatStore, Session
from threadkeep.cli.output import counted

MODEL = {"provider_id": "p", "model_id": "m", "variant": "large", "temperature": 0.3}
USAGE = {"input": 1200, "output": 300, "reasoning": 20, "cache_read": 7, "cache_write": 0}


def full_session(store: ChatStore) -> Session:
    session = store.create_session(
        agent="build",
        model=MODEL,
        title="everything",
        permissions=[{"permission": "bash", "pattern": "ls *", "action": "allow"}],
    )
    store.say(session, "which files are there?")
    tools = [{"name": "bash"}, "read"]
    prompt = "You are careful.\nVery."
    with store.record(session, tools=tools, system_prompt=prompt) as recorder:
        for chunk in tool_reply("c1", "ls -a"):
            recorder.feed(chunk)
        store.judge(session, "bash", "ls -a", run_id=recorder.run_id, tool_call_id="c1")
    store.record_usage(session, USAGE, cost_usd=0.0123)
    return session


def test_show_has_all_that_an_inspector_must_show(run: Run, store: ChatStore) -> None:
    session = full_session(store)
    digest = store.runs(session)[0].system_prompt_digest
    assert digest is not None
    shown = run("chat", "show", session.id).stdout
    for wanted in (
        "everything",
        "#1 user",
        "which files are there?",
        "#2 assistant",
        "model p/m variant large temperature 0.3",
        f"prompt {digest[:12]}",
        "tools bash, read",
        "tokens input 1,200 · output 300 · reasoning 20 · cache read 7 · $0.0123",
        "ended: finish (stop)",
        "thinking: look first",
        '▸ bash {"command":"ls -a"}',
        "→ a.txt",
        "permission: allow bash ls -a: ",
        "two files",
    ):
        assert wanted in shown
    assert "You are careful." not in shown


def test_show_prints_the_system_prompt_when_asked(run: Run, store: ChatStore) -> None:
    session = full_session(store)
    answer(store, session, text_reply("again"), system_prompt="You are careful.\nVery.")
    shown = run("chat", "show", session.id, "--prompt").stdout
    assert shown.count("You are careful.\n    Very.\n") == 1  # the same text once


def test_show_in_json(run: Run, store: ChatStore) -> None:
    session = full_session(store)
    found = document(run("chat", "show", session.id, "--json", "--prompt"))
    line = found["timeline"]
    assert line["session"]["id"] == session.id
    question, reply = line["turns"]
    assert (question["role"], question["parts"][0]["text"]) == ("user", "which files are there?")
    assert reply["usage"] == USAGE
    assert reply["cost_usd"] == 0.0123
    (one,) = reply["runs"]
    assert one["model"] == MODEL
    assert one["tools"] == [{"name": "bash"}, "read"]
    assert (one["end_reason"], one["finish_reason"]) == ("finish", "stop")
    assert one["verdicts"][0]["action"] == "allow"
    assert found["system_prompts"] == {one["system_prompt_digest"]: "You are careful.\nVery."}


def test_show_views(run: Run, store: ChatStore) -> None:
    session = talk(store, reply="the first answer")
    question = store.ui_messages(session)[0]["id"]
    store.compact(session, "the summary")
    store.say(session, "more")
    store.enqueue(session, "waiting")
    store.rewind(session, question)
    answer(store, session, text_reply("the second answer"))
    transcript = run("chat", "show", session.id).stdout
    assert "the second answer" in transcript
    assert "the first answer" not in transcript
    everything = run("chat", "show", session.id, "--view", "all").stdout
    for wanted in ("the first answer", "hidden by a rewind", "queued", "[compacted]"):
        assert wanted in everything


def test_show_as_the_model_sees_it(run: Run, store: ChatStore) -> None:
    session = talk(store)
    store.compact(session, "the summary", tail_turns=0)
    store.say(session, "go on")
    shown = run("chat", "show", session.id, "--view", "model").stdout
    assert "the summary" in shown
    assert "go on" in shown
    assert "an answer" not in shown


def test_show_names_a_run_that_left_no_message(run: Run, store: ChatStore) -> None:
    session = store.create_session(agent="build", model="p/m")
    store.record(session).close(KeyboardInterrupt())
    shown = run("chat", "show", session.id).stdout
    assert "run without a message" in shown
    assert "ended: abort" in shown


def test_show_reads_what_a_foreign_message_says_about_its_turn(run: Run, store: ChatStore) -> None:
    session = store.create_session(agent="build", model="p/m")
    store.say(session, "do it", trigger={"source": "schedule", "fired_at": 1})
    metadata = {
        "model": {"provider_id": "q", "model_id": "n"},
        "agent": "plan",
        "temperature": 0.5,
        "system_prompt_digest": "f" * 64,
        "tools": ["grep"],
    }
    reply = {"id": "m1", "role": "assistant", "parts": [], "metadata": metadata}
    store.put_message(session, reply)
    shown = run("chat", "show", session.id, "--prompt").stdout
    wanted = f"agent plan · model q/n · temperature 0.5 · prompt {'f' * 12} · tools grep"
    assert wanted in shown
    assert "triggered by schedule" in shown
    assert "(text not stored)" in shown


def test_long_tool_output_is_cut_unless_all_is_wanted(run: Run, store: ChatStore) -> None:
    session = store.create_session(agent="build", model="p/m")
    long = "x" * 5000
    part = {"type": "tool-cat", "toolCallId": "c", "state": "output-available", "output": long}
    store.put_message(session, {"id": "m1", "role": "assistant", "parts": [part]})
    shown = run("chat", "show", session.id).stdout
    assert long not in shown
    assert "3,000 more characters" in shown
    assert long in run("chat", "show", session.id, "--full").stdout


def test_nothing_stored_can_reach_the_terminal_as_a_command(run: Run, store: ChatStore) -> None:
    session = store.create_session(
        agent=HOSTILE, model={"provider_id": HOSTILE}, title=HOSTILE, workspace_root=HOSTILE
    )
    parts = [
        {"type": "text", "text": HOSTILE},
        {"type": "reasoning", "text": HOSTILE},
        {"type": f"tool-{HOSTILE}", "toolCallId": HOSTILE, "state": HOSTILE, "input": HOSTILE},
        {"type": "tool-a", "toolCallId": "b", "state": "output-error", "errorText": HOSTILE},
        {"type": "file", "url": HOSTILE, "mediaType": HOSTILE},
        {"type": "source-url", "url": HOSTILE, "title": HOSTILE},
        {"type": f"data-{HOSTILE}", "data": {HOSTILE: HOSTILE}},
        {"type": HOSTILE, HOSTILE: HOSTILE},
    ]
    message = {"id": HOSTILE, "role": "assistant", "parts": parts, "metadata": {"agent": HOSTILE}}
    store.put_message(session, message)
    answer(store, session, text_reply("ok"), tools=[{"name": HOSTILE}], system_prompt=HOSTILE)
    shown = run("chat", "show", session.id, "--prompt", "--view", "all").stdout
    assert not set(shown) & {"\x1b", "\x07", "\u202e"}
    assert "[bold]markup[/bold]" in shown


def test_a_message_of_odd_shapes_is_shown_all_the_same(run: Run, store: ChatStore) -> None:
    session = store.create_session(agent="build", model="p/m")
    parts = [
        {"type": "text", "text": 7},
        {"type": "text"},
        {"type": "reasoning", "text": None},
        {"type": "tool-x", "state": 3},
        {"type": "dynamic-tool", "toolName": ["a"], "toolCallId": 1, "input": None},
        {"type": "data-compaction", "data": "no object"},
        {"type": "file", "url": 5},
        {"type": ""},
    ]
    store.put_message(session, {"id": "m1", "role": "assistant", "parts": parts})
    assert "#1 assistant" in run("chat", "show", session.id).stdout


def test_a_run_whose_process_is_gone_does_not_run(start: Start, run: Run, store: ChatStore) -> None:
    recorder = start("chat", "record", "--tee")
    assert recorder.stdin is not None
    assert recorder.stdout is not None
    arrived = jsonl(text_reply("Hel", "lo")[:4])
    recorder.stdin.write(arrived)
    recorder.stdin.flush()
    assert recorder.stdout.read(len(arrived)) == arrived
    (session,) = store.sessions().items
    (one,) = store.runs(session)
    assert " · running" in run("chat", "show", "last").stdout
    assert document(run("chat", "show", "last", "--json"))["running"] == [one.id]
    recorder.kill()
    recorder.wait()
    assert " · crashed" in run("chat", "show", "last").stdout
    assert document(run("chat", "show", "last", "--json"))["running"] == []


def test_only_a_line_feed_ends_a_line(run: Run, store: ChatStore) -> None:
    talk(store, reply="a\u2028b\u2029c\x0bd\x0ce\x85f\x1cg")
    shown = run("chat", "show", "last").stdout
    assert "  a\\u2028b\\u2029c\\x0bd\\x0ce\\x85f\\x1cg\n" in shown
    assert "\u2028" not in run("chat", "show", "last", "--json").stdout
    assert "1 message " not in shown
    assert "2 messages (transcript)" in shown


@pytest.mark.parametrize("count, words", [(0, "0 things"), (1, "1 thing"), (2000, "2,000 things")])
def test_one_is_not_many(count: int, words: str) -> None:
    assert counted(count, "thing") == words

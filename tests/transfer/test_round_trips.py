"""What is written in another program's format is read back as what was said."""

import json
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings

from tests.conftest import need_tool
from tests.support.ai_sdk import VERSIONS, installed_modules
from tests.support.chats import new_session, open_store
from tests.support.states import open_state
from tests.support.user_homes import open_history, real_sample
from tests.transfer.exports import (
    ROUND_TRIP,
    conversations,
    flat,
    held,
    new,
    read_back,
    written,
)
from threadkeep.base.json import decode_line
from threadkeep.capture.capture import History
from threadkeep.knowledge.records import Entry
from threadkeep.sources.chat_store import ChatSource
from threadkeep.sources.records import Source, UserHome
from threadkeep.sources.state_store import StateSource
from threadkeep.transfer.conversation import (
    Conversation,
    ConversationInfo,
    conversation,
    from_entries,
)
from threadkeep.transfer.formats.ai_sdk import ui_messages
from threadkeep.transfer.formats.openai import hermes_session

VALIDATE = Path(__file__).with_name("validate.mjs")


def everything(history: History) -> list[Conversation]:
    found = history.sessions(everything=True, limit=10_000)
    return [conversation(history, session) for session in found]


@pytest.mark.parametrize("form", ROUND_TRIP)
@settings(max_examples=15)
@given(told=conversations())
def test_every_conversation_comes_back(form: str, told: Conversation) -> None:
    assert flat(read_back(form, written(form, told))) == held(form, told)


@pytest.mark.parametrize("form", ROUND_TRIP)
def test_the_demo_history_comes_back(demo: History, form: str) -> None:
    for told in everything(demo):
        assert told.messages
        assert flat(read_back(form, written(form, told))) == held(form, told)


def test_real_transcripts_come_back(shared_data: Path, tmp_path: Path) -> None:
    user = real_sample(shared_data, tmp_path / "user", most=200_000)
    with open_history(tmp_path / "home", user) as history:
        history.capture()
        all_told = everything(history)
    assert len({told.about.harness for told in all_told}) > 4
    for told in all_told:
        for form in ROUND_TRIP:
            assert flat(read_back(form, written(form, told))) == held(form, told)


# ---------------------------------------------------------------------- through the stores


def entries_in(source: Source, item: str) -> list[Entry]:
    (log,) = source.find(UserHome(Path("/nonexistent")))
    lines = (line for _, line in source.records(log, item))
    return [
        entry
        for number, line in enumerate(lines)
        for record in decode_line(line)
        for entry in source.entries(record, line, number)
    ]


def test_ui_messages_can_be_stored_as_chats(demo: History, tmp_path: Path) -> None:
    with open_store(tmp_path / "chat.db") as store:
        ids = []
        for told in everything(demo):
            session = new_session(store)
            for message in ui_messages(told, new()):
                store.put_message(session.id, {**message, "id": f"{session.id}{message['id']}"})
            ids.append((session.id, told))
    source = ChatSource([tmp_path / "chat.db"])
    for session_id, told in ids:
        back = from_entries(ConversationInfo("chat", session_id), entries_in(source, session_id))
        assert flat(back) == held("ai-sdk", told)


def test_hermes_sessions_can_be_imported(demo: History, tmp_path: Path) -> None:
    all_told = everything(demo)
    with open_state(tmp_path / "state.db") as db:
        for number, told in enumerate(all_told):
            session = {**hermes_session(told, new()), "id": f"s{number}"}
            assert db.import_sessions([json.dumps(session)])["added"] == 1
            assert len(db.get_messages(f"s{number}")) == session["message_count"]
    source = StateSource([tmp_path / "state.db"])
    for number, told in enumerate(all_told):
        back = from_entries(ConversationInfo("state", ""), entries_in(source, f"s{number}"))
        assert flat(back) == held("hermes", told)


# ---------------------------------------------------------------------- others' opinions


@pytest.mark.parametrize("protocol", VERSIONS)
def test_the_ai_sdk_takes_every_message(demo: History, tmp_path: Path, protocol: int) -> None:
    lists = [written("ai-sdk", told) for told in everything(demo)]
    path = tmp_path / "lists.jsonl"
    path.write_text("".join(lists))
    command = [need_tool("node"), str(VALIDATE), str(installed_modules(protocol)), str(path)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    verdicts = [json.loads(line) for line in done.stdout.splitlines()]
    assert [verdict["error"] for verdict in verdicts] == [None] * len(lists)
    assert {"user", "assistant", "tool"} <= {role for one in verdicts for role in one["sent"]}

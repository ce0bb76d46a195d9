"""A session that was handed over, resumed by the real program against a model on this machine."""

import json
import os
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.npm import installed
from tests.support.scripted_model import Script, model_server, streams
from tests.support.user_homes import open_history
from tests.transfer.exports import new
from threadkeep.sources.records import UserHome
from threadkeep.transfer.conversation import (
    Conversation,
    ConversationInfo,
    ExportMessage,
    ExportText,
    NewSession,
    Reasoning,
    ToolCall,
    ToolResult,
)
from threadkeep.transfer.hand_off import HandOff, hand_off, new_session_id, put

AT = 1_790_000_000_000
ASKED, DONE, ANSWERED = "Why is the tide so late?", "high water 14:20", "It follows the moon."
THOUGHT = "A thought that only its own provider can check."
TOLD = Conversation(
    ConversationInfo("claude-code", "s1", "Tides"),
    (
        ExportMessage("user", (ExportText(ASKED),), AT),
        ExportMessage(
            "assistant",
            (Reasoning(THOUGHT), ToolCall("tides", "c1", {"at": "Cuxhaven"})),
            AT + 1,
            "large",
        ),
        ExportMessage("tool", (ToolResult("c1", DONE),), AT + 2),
        ExportMessage("assistant", (ExportText(ANSWERED),), AT + 3, "large"),
    ),
)


class Program(NamedTuple):
    package: str
    version: str
    binary: str
    flags: tuple[str, ...]  # beside those of the command that goes on with a session
    prepare: Callable[[Path, Script], dict[str, str]]  # gives the environment


def _pi(user: Path, script: Script) -> dict[str, str]:
    folder = user / ".pi" / "agent"
    folder.mkdir(parents=True, exist_ok=True)
    model = {"id": "m-1", "name": "M", "reasoning": False, "input": ["text"]}
    sizes = {"contextWindow": 100_000, "maxTokens": 4000}
    cost = dict.fromkeys(("input", "output", "cacheRead", "cacheWrite"), 0)
    models = [{**model, **sizes, "cost": cost}]
    own = {"baseUrl": script.url, "api": "openai-completions", "apiKey": "none", "models": models}
    (folder / "models.json").write_text(json.dumps({"providers": {"here": own}}))
    return {}


def _qwen(_user: Path, script: Script) -> dict[str, str]:
    return {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": script.url, "OPENAI_MODEL": "m-1"}


PROGRAMS = {
    "pi": Program(
        *("@earendil-works/pi-coding-agent", "0.74.2", "pi"),
        ("--offline", "--provider", "here", "--model", "m-1"),
        _pi,
    ),
    "qwen-code": Program(
        *("@qwen-code/qwen-code", "0.24.4", "qwen"), ("--auth-type", "openai"), _qwen
    ),
}


def handed(program: str, user: Path, folder: Path) -> HandOff:
    plain = new()
    made = NewSession(new_session_id(program, AT, plain.digits()), AT, plain.digits)
    ready = hand_off(TOLD, program, str(folder), made, UserHome(user))
    put(ready)
    return ready


def resume(made: HandOff, user: Path, folder: Path, script: Script) -> None:
    """Run the command that goes on with a session, and say something there."""
    program = PROGRAMS[made.agent]
    modules = installed(program.package, program.version)
    binary, *words = shlex.split(made.command.partition(" && ")[2])
    assert binary == program.binary
    environment = {"PATH": os.environ["PATH"], "HOME": str(user), "NO_COLOR": "1"}
    done = subprocess.run(
        [modules / ".bin" / binary, *words, *program.flags, "-p", "And tomorrow?"],
        cwd=folder,
        env=environment | program.prepare(user, script),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert "Fifty minutes later." in done.stdout, (done.stdout, done.stderr)


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS)
def test_the_real_program_goes_on_with_it(program: str, tmp_path: Path) -> None:
    user, folder = tmp_path / "user", tmp_path / "harbor"
    user.mkdir()
    folder.mkdir()
    made = handed(program, user, folder)
    with model_server() as script:
        script.will(streams("Fifty minutes later."))
        resume(made, user, folder, script)
        asked = [one.body for one in script.asked_at("/chat/completions")]
    # The model is given all that was said before, with the call and its result, and no thoughts.
    first = json.dumps(asked[0]["messages"], ensure_ascii=False)
    places = [first.index(said) for said in (ASKED, "Cuxhaven", DONE, ANSWERED, "And tomorrow?")]
    assert places == sorted(places)
    assert THOUGHT not in first
    calls = [call for one in asked[0]["messages"] for call in one.get("tool_calls") or ()]
    answers = [one for one in asked[0]["messages"] if one["role"] == "tool"]
    assert [one["id"] for one in calls] == [one["tool_call_id"] for one in answers]
    # What was said there is captured; what was handed over is known as a copy.
    with open_history(tmp_path / "home", user) as history:
        assert history.capture().errors == 0
        session = history.find(made.session_id)
        shown = [one.entry for one in history.transcript(session)]
        own = [(one.kind, one.text) for one in shown if not one.origin]
        assert [one for one in own if one[0] in {"prompt", "text"}] == [
            ("prompt", "And tomorrow?"),
            ("text", "Fifty minutes later."),
        ]
        assert {ASKED, DONE, ANSWERED} <= {one.text for one in shown if one.origin}
        assert history.capture().errors == 0

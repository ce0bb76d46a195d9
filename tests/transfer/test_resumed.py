"""A session that was handed over, resumed by the real program against a model on this machine."""

import json
import os
import pty
import re
import select
import shlex
import signal
import subprocess
import termios
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.npm import installed_together
from tests.support.pypi import from_pypi
from tests.support.scripted_model import Script, Turn, model_server, streams
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

ASKED_FOR = "THREADKEEP_PROGRAMS"
NODE = {"node": "24.21.0"}  # the newest of these programs needs it
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


def from_npm(package: str, version: str) -> Path:
    needs = NODE if package.startswith("@moonshot-ai/") else {}
    return installed_together(package, {package: version, **needs}) / ".bin"


def goose_from_npm(package: str, version: str) -> Path:
    return from_npm(package, version).parent / package / "bin"


def grok_from_npm(package: str, version: str) -> Path:
    """Unpack the program as its package does after it was installed."""
    folder = from_npm(package, version).parent / package / "bin"
    packed, program = folder / "grok.br", folder / "grok"
    if not program.exists():
        unpack = (
            "const [packed, program] = process.argv.slice(1), fs = require('fs');"
            "const whole = require('zlib').brotliDecompressSync(fs.readFileSync(packed));"
            "fs.writeFileSync(program, whole)"
        )
        fresh = program.with_suffix(f".{os.getpid()}")
        subprocess.run(["node", "-e", unpack, str(packed), str(fresh)], check=True)
        fresh.chmod(0o755)
        fresh.replace(program)
    return folder


def in_parts(said: str) -> Turn:
    """Answer as Gemini's own service does."""
    answer = {"content": {"role": "model", "parts": [{"text": said}]}, "finishReason": "STOP"}
    body = json.dumps({"candidates": [{**answer, "index": 0}]})
    stream = f"data: {body}\r\n\r\n".encode()
    return lambda handler: handler.send_bytes(stream, content_type="text/event-stream")


class Program(NamedTuple):
    package: str
    version: str
    binary: str
    # What is said beside the command that goes on with a session.
    words: tuple[str, ...]
    prepare: Callable[[Path, Script], dict[str, str]]  # gives the environment
    install: Callable[[str, str], Path] = from_npm  # gives the folder with its commands
    is_large: bool = False  # it takes long to install: only where somebody asks for it
    at_terminal: bool = False  # it goes on with a session only where a person can type
    ready: str = ""  # what it shows there once it can be typed to
    says: str = ""  # what it is given as its input, where it takes no words behind the command
    answers: Callable[[str], Turn] = streams


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


def _kimi(user: Path, script: Script) -> dict[str, str]:
    folder = user / ".kimi-code"
    folder.mkdir(exist_ok=True)
    model = '[models.m-1]\nprovider = "here"\nmodel = "m-1"\nmax_context_size = 100000\n'
    provider = f'[providers.here]\ntype = "openai"\nbase_url = "{script.url}"\napi_key = "none"\n'
    (folder / "config.toml").write_text(f'default_model = "m-1"\n{model}{provider}')
    return {}


def _continue(user: Path, script: Script) -> dict[str, str]:
    model = {"name": "m-1", "provider": "openai", "model": "m-1", "roles": ["chat"]}
    models = [{**model, "apiKey": "none", "apiBase": script.url}]
    told = {"name": "here", "version": "1.0.0", "schema": "v1", "models": models}
    folder = user / ".continue"
    folder.mkdir(exist_ok=True)
    (folder / "config.yaml").write_text(json.dumps(told))  # which is YAML, too
    return {"CONTINUE_TELEMETRY_ENABLED": "0"}


def _gptme(_user: Path, script: Script) -> dict[str, str]:
    return {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": script.url}


def _copilot(_user: Path, script: Script) -> dict[str, str]:
    provider = {"COPILOT_PROVIDER_BASE_URL": script.url, "COPILOT_PROVIDER_API_KEY": "none"}
    return {**provider, "COPILOT_MODEL": "m-1", "COPILOT_OFFLINE": "true"}


def _gemini(user: Path, script: Script) -> dict[str, str]:
    folder = user / ".gemini"
    folder.mkdir(exist_ok=True)
    settings = {"security": {"auth": {"selectedType": "gemini-api-key"}}}
    (folder / "settings.json").write_text(json.dumps(settings))
    base = script.url.removesuffix("/v1")
    return {"GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": base}


def _cline(user: Path, script: Script) -> dict[str, str]:
    own = {"provider": "openai-compatible", "model": "m-1", "apiKey": "none"}
    provider = {"settings": {**own, "baseUrl": script.url}, "tokenSource": "manual"}
    provider["updatedAt"] = "2026-11-19T04:15:32.306Z"
    told = {"version": 1, "lastUsedProvider": own["provider"], "modes": {}}
    folder = user / ".cline" / "data" / "settings"
    folder.mkdir(parents=True, exist_ok=True)
    providers = {**told, "providers": {own["provider"]: provider}}
    (folder / "providers.json").write_text(json.dumps(providers))
    return {"TERM": "xterm"}


def _goose(_user: Path, script: Script) -> dict[str, str]:
    provider = {"GOOSE_PROVIDER": "openai", "GOOSE_MODEL": "m-1", "OPENAI_API_KEY": "none"}
    host = {"OPENAI_HOST": script.url.removesuffix("/v1"), "GOOSE_DISABLE_KEYRING": "1"}
    return {**provider, **host, "GOOSE_TELEMETRY_ENABLED": "false", "TERM": "xterm"}


def _grok(user: Path, script: Script) -> dict[str, str]:
    model = 'model = "m-1"\napi_key = "none"\napi_backend = "chat_completions"\n'
    own = f'[model.m-1]\nbase_url = "{script.url}"\n{model}context_window = 100000\n'
    folder = user / ".grok"
    folder.mkdir(exist_ok=True)
    (folder / "config.toml").write_text(f"[cli]\nauto_update = false\n{own}")
    return {}


def _vibe(user: Path, script: Script) -> dict[str, str]:
    provider = f'[[providers]]\nname = "here"\napi_base = "{script.url}"\n'
    model = '[[models]]\nname = "m-1"\nprovider = "here"\nalias = "m-1"\n'
    folder = user / ".vibe"
    folder.mkdir(exist_ok=True)
    quiet = "enable_update_checks = false\nenable_telemetry = false\n"
    (folder / "config.toml").write_text(f'active_model = "m-1"\n{quiet}{provider}{model}')
    return {}


def _llm(user: Path, script: Script) -> dict[str, str]:
    model = {"model_id": "m-1", "model_name": "m-1", "api_base": script.url, "api_key_name": "here"}
    folder = user / ".config" / "io.datasette.llm"
    (folder / "extra-openai-models.yaml").write_text(json.dumps([model]))  # which is YAML, too
    (folder / "keys.json").write_text(json.dumps({"here": "none"}))
    (folder / "default_model.txt").write_text("m-1")
    return {}


ASK = "And tomorrow?"
SAID = "Fifty minutes later."
PROGRAMS = {
    "pi": Program(
        *("@earendil-works/pi-coding-agent", "0.74.2", "pi"),
        ("--offline", "--provider", "here", "--model", "m-1", "-p", ASK),
        _pi,
    ),
    "qwen-code": Program(
        *("@qwen-code/qwen-code", "0.24.4", "qwen"), ("--auth-type", "openai", "-p", ASK), _qwen
    ),
    "kimi-code": Program(
        *("@moonshot-ai/kimi-code", "2.1.0", "kimi"), ("-m", "m-1", "-p", ASK), _kimi, is_large=True
    ),
    "continue": Program(
        *("@continuedev/cli", "1.5.47", "cn"), ("-p", ASK), _continue, is_large=True
    ),
    "gemini-cli": Program(
        *("@google/gemini-cli", "0.61.0", "gemini"),
        ("--skip-trust", "-m", "gemini-2.5-flash", "-p", ASK),
        *(_gemini, from_npm),
        is_large=True,
        answers=in_parts,
    ),
    "copilot-cli": Program(
        *("@github/copilot", "1.0.102", "copilot"),
        ("-p", ASK, "--allow-all-tools"),
        _copilot,
        is_large=True,
    ),
    "cline": Program(*("cline", "3.0.65", "cline"), (), _cline, is_large=True, at_terminal=True),
    "gptme": Program(
        *("gptme", "0.35.1", "gptme"),
        ("--non-interactive", "--model", "local/m-1", ASK),
        *(_gptme, from_pypi),
        is_large=True,
    ),
    "goose": Program(
        *("@aaif/goose-binary-linux-x64", "0.20.2", "goose"),
        *((), _goose, goose_from_npm),
        is_large=True,
        at_terminal=True,
        ready="Enter to send",
    ),
    "mistral-vibe": Program(
        *("mistral-vibe", "3.0.2", "vibe"),
        *(("--trust", "-p", ASK), _vibe, from_pypi),
        is_large=True,
    ),
    "llm": Program(*("llm", "0.36", "llm"), *((), _llm, from_pypi), says=ASK),
    "grok-build": Program(
        *("@xai-official/grok-linux-x64", "1.0.41", "grok"),
        *(("-m", "m-1", "-p", ASK), _grok, grok_from_npm),
        is_large=True,
    ),
}


NEW_NAMES = {"continue", "goose", "mistral-vibe"}


def handed(program: str, user: Path, folder: Path) -> HandOff:
    plain = new()
    made = NewSession(new_session_id(program, AT, plain.digits()), AT, plain.digits)
    ready = hand_off(TOLD, program, str(folder), made, UserHome(user))
    put(ready)
    return ready


def resume(made: HandOff, user: Path, folder: Path, script: Script) -> None:
    """Run the command that goes on with a session, and say something there."""
    program = PROGRAMS[made.agent]
    commands = program.install(program.package, program.version)
    path = f"{commands}{os.pathsep}{os.environ['PATH']}"
    environment = {"PATH": path, "HOME": str(user), "NO_COLOR": "1"}
    environment |= program.prepare(user, script)
    _, *before, last = made.command.split(" && ")  # the first goes to the folder
    for first in before:
        subprocess.run(shlex.split(first), cwd=folder, env=environment, check=True, timeout=60)
    binary, *words = shlex.split(last)
    assert binary == program.binary
    command = [str(commands / binary), *words, *program.words]
    if program.at_terminal:
        typed(command, folder, environment, program.ready)
        return
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        input=program.says,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert SAID in done.stdout, (done.stdout, done.stderr)


def typed(command: list[str], folder: Path, environment: dict[str, str], ready: str) -> None:
    """Type what is asked at a terminal, once all that was said before is shown there."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (40, 120))
    program = subprocess.Popen(
        *(command,), cwd=folder, env=environment, stdin=theirs, stdout=theirs, stderr=theirs
    )
    try:
        seen = until(ours, until(ours, b"", ANSWERED), ready)
        os.write(ours, ASK.encode())
        seen = until(ours, seen, ASK)
        os.write(ours, b"\r")
        seen = until(ours, seen, SAID)
        if ready:  # what was said is stored once more can be typed
            until(ours, seen, ready, times=2)
    finally:
        program.terminate()
        program.wait(30)
        os.close(ours)
        os.close(theirs)
        stop_what_stays(folder)


def stop_what_stays(folder: Path) -> None:
    """End what a program left running for this folder."""
    for one in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if os.fsencode(folder) in one.read_bytes().split(b"\0"):
                os.kill(int(one.parent.name), signal.SIGTERM)


def plain(seen: bytes) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\s", "", seen.decode("utf-8", "replace"))


def until(terminal: int, seen: bytes, said: str, times: int = 1) -> bytes:
    """Read what a terminal shows until these words are there, however they are placed."""
    wanted = said.replace(" ", "")
    while plain(seen).count(wanted) < times:
        ready, _, _ = select.select([terminal], [], [], 60)
        assert ready, seen[-2000:]
        seen += os.read(terminal, 65_536)
    return seen


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS)
def test_the_real_program_goes_on_with_it(program: str, tmp_path: Path) -> None:
    if PROGRAMS[program].is_large and ASKED_FOR not in os.environ:
        pytest.skip(f"it takes long to install: {ASKED_FOR}=1 does")
    user, folder = tmp_path / "user", tmp_path / "harbor"
    user.mkdir()
    folder.mkdir()
    made = handed(program, user, folder)
    with model_server() as script:
        script.will(PROGRAMS[program].answers(SAID))
        resume(made, user, folder, script)
        asked = [one.body for one in script.asked if "stream" in one.path or "messages" in one.body]
    # The model is given all that was said before, with the call and its result, and no thoughts.
    messages = asked[0].get("messages", [])
    first = json.dumps(messages or asked[0]["contents"], ensure_ascii=False)
    places = [first.index(said) for said in (ASKED, "Cuxhaven", DONE, ANSWERED, ASK)]
    assert places == sorted(places)
    assert THOUGHT not in first
    calls = [call for one in messages for call in one.get("tool_calls") or ()]
    answers = [one for one in messages if one["role"] == "tool"]
    assert [one["id"] for one in calls] == [one["tool_call_id"] for one in answers]
    # What was said there is captured; what was handed over is known as a copy.
    with open_history(tmp_path / "home", user) as history:
        assert history.capture().errors == 0
        # Continue goes on in a fork, and Vibe in a session of its newer form; goose gives what it
        # imports a number of its own.
        session = history.sessions()[0]
        assert session.session_id == made.session_id or program in NEW_NAMES
        shown = [one.entry for one in history.transcript(session)]
        own = [(one.kind, one.text) for one in shown if not one.origin]
        # gptme goes on by itself until it is done.
        assert [one for one in own if one[0] in {"prompt", "text"}][:2] == [
            ("prompt", ASK),
            ("text", SAID),
        ]
        copied = {ASKED, ANSWERED} if program == "mistral-vibe" else {ASKED, DONE, ANSWERED}
        assert copied <= {one.text for one in shown if one.origin}  # Vibe shows no calls of them
        assert history.capture().errors == 0

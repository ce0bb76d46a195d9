"""`threadkeep export` and `threadkeep resume`."""

import json
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.cli.conftest import HOSTILE, document
from tests.cli.histories import CLAUDE, CODEX
from threadkeep.cli import hand_off as command
from threadkeep.cli.hand_off import FORMATS, export, resume
from threadkeep.home import hand_off
from threadkeep.transfer.hand_off import TARGETS

EXPORT, RESUME = export, resume


class Hands:
    """Runs the two commands on the captured demo, in a home of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, command: str, *words: str, code: int = 0) -> Result:
        from threadkeep.cli.root import cli

        result = CliRunner().invoke(cli, [command, *words])
        assert result.exit_code == code, (result.exit_code, result.stdout, result.stderr)
        return result


@pytest.fixture
def hands(demo_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hands:
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_DATA_HOME", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("THREADKEEP_HOME", str(demo_home))
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    monkeypatch.chdir(tmp_path)
    return Hands(tmp_path)


def test_the_command_line_knows_what_there_is() -> None:
    assert FORMATS == hand_off.FORMATS
    assert command.TARGETS == TARGETS


@pytest.mark.parametrize("form", [form for form in FORMATS if form != "html"])
def test_a_session_is_exported(hands: Hands, form: str) -> None:
    shown = hands("export", CLAUDE[:8], "--format", form)
    assert "fails about one time in ten on CI" in shown.stdout
    if form in {"opencode", "continue", "ai-sdk", "openai", "hermes"}:
        json.loads(shown.stdout)
    assert shown.stderr == ""


def test_a_page_that_needs_no_network_is_exported(hands: Hands) -> None:
    shown = hands("export", CLAUDE, "--format", "html").stdout
    assert shown.lstrip().lower().startswith("<!doctype html>")
    assert "fails about one time in ten on CI" in shown


def test_an_export_goes_into_a_new_private_file(hands: Hands) -> None:
    done = hands("export", "last", "--format", "markdown", "--out", "x.md")
    assert done.stdout == ""
    assert "wrote aider:" in done.stderr
    path = hands.folder / "x.md"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text().startswith("# add a test in which the tide service fails")
    assert "already exists" in hands("export", "last", "--out", "x.md", code=1).stderr


def test_a_terminal_is_not_shown_what_could_harm_it(
    hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hand_off, "exported", lambda *_, **_options: f"# {HOSTILE}\n")
    assert hands("export", CLAUDE).stdout == f"# {HOSTILE}\n"
    monkeypatch.setenv("FORCE_COLOR", "1")
    shown = hands("export", CLAUDE).stdout
    assert "\x1b]0;" not in shown
    assert "\u202e" not in shown


def test_an_export_answers_in_json(hands: Hands) -> None:
    found = document(hands("export", f"codex:{CODEX}", "--format", "openai", "--json"))
    assert (found["session"], found["format"]) == (f"codex:{CODEX}", "openai")
    assert json.loads(found["content"])[0]["role"] in {"user", "system"}
    assert found["bytes"] == len(found["content"].encode())


def test_a_session_that_is_not_there_is_not_exported(hands: Hands) -> None:
    assert "no session 'nobody'" in hands("export", "nobody", code=3).stderr
    assert "Invalid value" in hands("export", "last", "--format", "docx", code=2).stderr


@pytest.mark.parametrize("program", TARGETS)
def test_a_session_goes_on_in_another_program(hands: Hands, program: str) -> None:
    (hands.folder / "harbor").mkdir()
    options = ("--in", program, "--cwd", "harbor", "--json")
    planned = document(hands("resume", CLAUDE, *options, "--dry-run"))
    assert planned["dry_run"] is True
    assert not Path(planned["resume"]["path"]).exists()
    done = document(hands("resume", CLAUDE, *options))["resume"]
    path = Path(done["path"])
    assert path.is_relative_to(hands.folder / "user")
    assert done["session_id"][:8] in str(path)
    assert done["title"].endswith(f"(continued from claude-code {CLAUDE})")
    assert done["command"].startswith(f"cd {hands.folder / 'harbor'} && ")
    assert b"fails about one time in ten on CI" in path.read_bytes()
    # Once more it is another session: the first one stays.
    assert document(hands("resume", CLAUDE, *options))["resume"]["path"] != done["path"]


def test_the_command_that_goes_on_is_all_that_is_printed(hands: Hands) -> None:
    shown = hands("resume", CODEX, "--in", "claude-code")
    assert "/home/demo/code/harbor does not exist here: using this folder" in shown.stderr
    assert "wrote 7 messages into " in shown.stderr
    (line,) = shown.stdout.splitlines()
    assert line.startswith(f"cd {hands.folder} && claude --resume ")
    (path,) = (hands.folder / "user" / ".claude" / "projects").rglob("*.jsonl")
    assert line.endswith(path.stem)


def test_what_cannot_go_on_is_refused(hands: Hands) -> None:
    gone = hands("resume", CODEX, "--in", "codex", "--cwd", "nowhere", code=3)
    assert "no folder nowhere" in gone.stderr
    assert "Missing option '--in'" in hands("resume", CODEX, code=2).stderr
    blocked = hands.folder / "user" / ".codex"
    blocked.parent.mkdir(exist_ok=True)
    blocked.write_text("no folder")
    assert "cannot create the folder" in hands("resume", CODEX, "--in", "codex", code=1).stderr

"""The documentation tells the truth: examples run, commands exist, links lead somewhere."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from benchmarks.__main__ import BENCHMARKS, ON_REQUEST
from scripts import reference
from tests.conftest import REPO
from threadkeep.base.config import parse_config
from threadkeep.cli.root import cli
from threadkeep.home.home import Home
from threadkeep.knowledge.records import Command

DEMO_HISTORY = REPO / "src" / "threadkeep" / "demo" / "history"
GROUPS = ("chat", "state", "mail", "knowledge", "redact", "browser", "github", "send-event")
PAGES = sorted([REPO / "README.md", *(REPO / "docs").glob("*.md")])


def python_blocks(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL)


def _code(text: str) -> list[str]:
    """Code blocks and inline code: only there a word after the program's name is a command."""
    blocks = re.findall(r"```[a-z]*\n(.*?)```", text, re.DOTALL)
    return [*blocks, *re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))]


def output_of(example: str, folder: Path) -> list[str]:
    assert len(example.splitlines()) <= 25
    done = subprocess.run(
        [sys.executable, "-c", example],
        cwd=folder,
        env=os.environ | {"PYTHONUTF8": "1"},
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    return done.stdout.splitlines()


def test_library_examples_of_the_readme_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat, history, state, mail = python_blocks(REPO / "README.md")
    monkeypatch.setenv("THREADKEEP_HOME", str(tmp_path / "captured"))
    words = ["capture", "--quiet", "--user-home", str(DEMO_HISTORY)]
    subprocess.run([sys.executable, "-m", "threadkeep", *words], capture_output=True, check=True)
    latest, found = output_of(history, tmp_path)
    assert latest.startswith("aider ")
    assert "slow query" in found
    assert output_of(chat, tmp_path) == ["Hello, world!", "['>>>Hello<<<, >>>world<<<!']"]
    assert (tmp_path / "chat.db").exists()
    assert output_of(state, tmp_path) == ["1 gateway/run.py", "1 error: timeout", "1 东京"]
    assert (tmp_path / "state.db").exists()
    assert output_of(mail, tmp_path) == ["Ann: hello", "Hello, Ann!"]


def test_library_examples_of_the_chat_store_run(tmp_path: Path) -> None:
    record, branch = python_blocks(REPO / "docs" / "chat.md")
    assert output_of(record, tmp_path) == [
        "user - Is it raining in Lisbon?",
        "assistant - No, it is sunny.",
    ]
    assert output_of(branch, tmp_path) == [
        "1 message in the branch",
        "1 after rewinding",
        "2 after undoing it",
        "['No, it is >>>sunny<<<.']",
    ]


def test_library_example_of_the_state_store_runs(tmp_path: Path) -> None:
    (example,) = python_blocks(REPO / "docs" / "state.md")
    first, second = output_of(example, tmp_path)
    assert ">>>gateway/run.py<<<" in first
    assert ">>>东京<<<" in second


def test_library_examples_of_the_mailbox_run(tmp_path: Path) -> None:
    host, agent, host_again, room, tools, channel = python_blocks(REPO / "docs" / "mailbox.md")
    assert output_of(host, tmp_path) == ["1 message waits"]
    assert output_of(agent, tmp_path) == ["Ann asks: What is in the report?"]
    assert output_of(host_again, tmp_path) == ["1 sent", "[(2, 'completed'), (4, 'pending')]"]
    assert "Only good news." in (tmp_path / "out.jsonl").read_text("utf-8")
    assert output_of(room, tmp_path) == ["Yes, Ann."]
    assert "Yes, Ann." in (tmp_path / "sent.jsonl").read_text("utf-8")
    assert output_of(tools, tmp_path) == ["None"]
    shown = output_of(channel, tmp_path)
    assert shown[0] == "me A first draft. ['draft.txt']"
    assert shown[1].startswith("edit screen-")
    assert shown[2].startswith("reaction msg-")
    assert shown[3] == "Shall I continue? ['Yes', 'No']"


def test_library_example_of_capture_runs(tmp_path: Path) -> None:
    shutil.copytree(DEMO_HISTORY, tmp_path / "home")
    (example,) = python_blocks(REPO / "docs" / "capture.md")
    errors, newest, before, hit = output_of(example, tmp_path)
    assert errors == "0 errors"
    assert newest.startswith("aider - ")
    assert before.startswith("copilot-cli - ")
    assert hit.startswith("opencode - ")
    assert ">>>slow<<< >>>query<<<" in hit


def test_the_example_of_a_source_captures(tmp_path: Path) -> None:
    (example,) = python_blocks(REPO / "docs" / "write-a-source.md")
    site = tmp_path / "site"
    about = site / "notebot_source-1.0.dist-info"
    about.mkdir(parents=True)
    (site / "notebot_source.py").write_text(example)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: notebot-source\nVersion: 1.0\n")
    point = "[threadkeep.sources]\nnotebot = notebot_source:SOURCE\n"
    (about / "entry_points.txt").write_text(point)
    talk = tmp_path / "user" / ".notebot" / "talks" / "t1.jsonl"
    talk.parent.mkdir(parents=True)
    tokens = {"in": 100, "out": 20, "cached": 40}
    records = [
        {"type": "start", "folder": "/home/ada/shop", "title": "Slow"},
        {"type": "asked", "text": "Why is it slow?", "time": 1_790_000_000},
        {"type": "ran", "call": "c1", "command": "ls", "output": "a", "time": 1_790_000_001},
        {"type": "answered", "text": "The disk.", "model": "m-1", "tokens": tokens},
        {"type": "other"},
    ]
    talk.write_text("".join(json.dumps(one) + "\n" for one in records))
    look = f"""
import sys
sys.path.insert(0, {str(site)!r})
from threadkeep import Home
home = Home({str(tmp_path / "home")!r}, environ={{}})
with home.history(user_home={str(tmp_path / "user")!r}) as history:
    report = history.capture()
    (session,) = history.sessions()
    print(session.agent, session.title, session.cwd, report.of("notebot").unknown)
    print([one.entry.kind for one in history.transcript(session)])
    spent = history.usage().by_agent["notebot"]
    print(spent.input, spent.output, spent.cache_read)
"""
    assert output_of(look, tmp_path) == [
        "notebot Slow /home/ada/shop {'other': 1}",
        "['prompt', 'tool_call', 'tool_result', 'text']",
        "60 20 40",
    ]


def test_library_example_of_observations_runs(tmp_path: Path) -> None:
    session = "22222222-2222-4222-8222-222222222222"
    command = Command("11111111-0000-4000-8000-000000000001", session, 1, "make", "/u/app", 2)
    Home(tmp_path / "keep").reporter().report(command)
    (example,) = python_blocks(REPO / "docs" / "observe.md")
    assert output_of(example, tmp_path) == ["1 new", "2 /u/app make"]


def test_library_example_of_recall_runs(tmp_path: Path) -> None:
    shutil.copytree(DEMO_HISTORY, tmp_path / "home")
    (example,) = python_blocks(REPO / "docs" / "recall.md")
    shown = output_of(example, tmp_path)
    assert all(line.startswith("message - ") for line in shown[:3])
    assert any("departures page" in line for line in shown[3:])


@pytest.mark.parametrize("command", ["search", "recall"])
def test_what_the_readme_shows_is_what_comes(tmp_path: Path, command: str) -> None:
    def run(*arguments: str) -> list[str]:
        done = CliRunner().invoke(cli, ["--home", str(tmp_path), *arguments])
        assert done.exit_code == 0, done.stderr
        return done.stdout.splitlines()

    run("capture", "--user-home", str(DEMO_HISTORY))
    readme = (REPO / "README.md").read_text("utf-8")
    (shown,) = re.findall(rf"\n\$ threadkeep ({command} .*?)```", readme, re.DOTALL)
    typed, *lines = shown.strip().splitlines()
    found = [line.replace(f" --home {tmp_path}", "") for line in run(*shlex.split(typed))]
    assert found == lines


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text("utf-8")):
        assert (page.parent / target).exists(), target


def test_every_command_named_in_the_documentation_exists() -> None:
    text = "\n".join(page.read_text("utf-8") for page in PAGES)
    code = "\n".join(_code(text))
    named = set(
        re.findall(rf"(?<!from )threadkeep ((?:(?:{'|'.join(GROUPS)}) )?[a-z]+(?:-[a-z]+)*)", code)
    )
    named -= set(GROUPS)
    assert len(named) > 20
    for command in sorted(named):
        done = CliRunner().invoke(cli, [*command.split(), "--help"])
        assert done.exit_code == 0, (command, done.stderr)
        assert "Example" in done.stdout, command


def shown_commands() -> list[str]:
    """Return every line of the blocks that is a command of ours, without what is said beside it."""
    blocks = [
        block
        for page in PAGES
        for block in re.findall(r"```(?:sh|bash)?\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    ]
    lines = [line.strip().removeprefix("$ ") for block in blocks for line in block.splitlines()]
    typed = [re.split(r"\s{2,}|\s#\s|\s\|\s|\s>\s", line)[0] for line in lines]
    return sorted({line for line in typed if line.startswith("threadkeep ")})


@pytest.mark.parametrize("line", shown_commands())
def test_every_command_line_in_a_block_can_be_typed(line: str) -> None:
    """Its options and arguments are read as if it were run."""
    words = shlex.split(line)[1:]
    ctx = click.Context(cli, info_name="threadkeep")
    command: click.Command = cli
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        _, found, words = command.resolve_command(ctx, words)
        assert found is not None
        command = found
    command.make_context(command.name, words, parent=ctx)


def test_every_block_of_python_runs_in_a_test() -> None:
    """By the tests above, of the example to test with stores, of useChat's page, of tenancy."""
    tried = {"README", "capture", "chat", "mailbox", "observe", "recall", "state", "write-a-source"}
    tried |= {"http", "testing", "postgres"}
    assert {page.stem for page in PAGES if python_blocks(page)} == tried


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_of_data_is_read(page: Path) -> None:
    text = page.read_text("utf-8")
    for block in re.findall(r"```json\n(.*?)```", text, re.DOTALL):
        assert json.loads(block)
    for block in re.findall(r"```toml\n(.*?)```", text, re.DOTALL):
        if "[project" in block:  # a package's own file
            assert tomllib.loads(block)
        else:
            parse_config(block, page.name)


def test_every_benchmark_named_in_the_documentation_exists() -> None:
    text = (REPO / "docs" / "performance.md").read_text("utf-8")
    told = re.findall(r"-m benchmarks ([^#`\n]*)", text)
    names = {word for line in told for word in line.split() if not word.startswith("-")}
    assert len(names) > 10
    assert names <= {*BENCHMARKS, *ON_REQUEST}


def test_make_targets_named_in_the_readme_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", (REPO / "Makefile").read_text("utf-8"), re.MULTILINE))
    assert set(re.findall(r"make ([a-z]+)", (REPO / "README.md").read_text("utf-8"))) <= targets


def test_the_reference_is_what_it_describes() -> None:
    """`make docs` writes the pages, and the types of the async verbs, once more."""
    for place, text in reference.files().items():
        assert place.read_text("utf-8") == text, f"{place.name}: run `make docs`"


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    words = ["-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(
        [sys.executable, *words],
        cwd=REPO,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (tmp_path / "site" / "reference" / "schema" / "index.html").exists()
    loaded = re.findall(
        r"<(?:script|link|img)[^>]+(?:src|href)=\"?(https?://[^\" >]+)",
        "".join(page.read_text("utf-8") for page in (tmp_path / "site").rglob("*.html")),
    )
    assert loaded == []

"""Telling programs of the server: their own command where there is one, else their settings."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, strategies as st

from threadkeep.cli import mcp_settings
from threadkeep.cli.root import cli
from threadkeep.errors import Invalid

KEYS = ("mcpServers", "threadkeep")
ENTRY = {"command": "threadkeep", "args": ["mcp"]}
FILES = {
    "claude": (".claude.json", ".mcp.json"),
    "codex": (".codex/config.toml", ".codex/config.toml"),
    "cursor": (".cursor/mcp.json", ".cursor/mcp.json"),
    "gemini": (".gemini/settings.json", ".gemini/settings.json"),
    "opencode": (".config/opencode/opencode.json", "opencode.json"),
}
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
tables = st.dictionaries(st.text(), plain, max_size=4)


class User:
    """Somebody with a home, a project, and programs on the path."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.home, self.project, self.bin = folder / "home", folder / "project", folder / "bin"
        for place in (self.home, self.project, self.bin):
            place.mkdir()
        for name in ("THREADKEEP_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_CONFIG_HOME"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("HOME", str(self.home))
        monkeypatch.setenv("PATH", f"{self.bin}:/usr/bin:/bin")
        monkeypatch.chdir(self.project)

    def run(self, *words: str, code: int = 0) -> Result:
        result = CliRunner().invoke(cli, ["mcp", *words])
        assert result.exit_code == code, (result.stdout, result.stderr)
        return result

    def program(self, name: str, code: int = 0) -> Path:
        """Put a program on the path that writes down how it was called."""
        called = self.bin / f"{name}.called"
        script = f'#!/bin/sh\necho "$@" >> "{called}"\necho "no such luck" >&2\nexit {code}\n'
        (self.bin / name).write_text(script)
        (self.bin / name).chmod(0o755)
        return called


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> User:
    return User(tmp_path, monkeypatch)


def read(file: Path) -> dict[str, Any]:
    text = file.read_text("utf-8")
    found: dict[str, Any] = tomllib.loads(text) if file.suffix == ".toml" else json.loads(text)
    return found


@pytest.mark.parametrize("scope", ["user", "project"])
@pytest.mark.parametrize("program", FILES)
def test_settings_are_made_and_unmade(user: User, program: str, scope: str) -> None:
    place = user.home if scope == "user" else user.project
    file = place / FILES[program][0 if scope == "user" else 1]
    shown = user.run("install", program, "--scope", scope, "--dry-run")
    assert "threadkeep" in shown.stdout
    assert not file.exists()
    user.run("install", program, "--scope", scope)
    assert '"mcp"' in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600
    assert (str(user.home) in file.read_text()) is False
    before = file.read_bytes()
    assert "already" in user.run("install", program, "--scope", scope).stderr
    assert file.read_bytes() == before
    user.run("uninstall", program, "--scope", scope)
    assert read(file) == {}
    assert "has no threadkeep entry" in user.run("uninstall", program, "--scope", scope).stderr


def test_everything_else_is_kept_and_a_copy_beside(user: User) -> None:
    file = user.home / ".cursor" / "mcp.json"
    file.parent.mkdir()
    text = json.dumps({"z": 1, "mcpServers": {"other": {"url": "x"}}, "a": 2}, indent="\t")
    file.write_text(text, "utf-8")
    file.chmod(0o640)
    user.run("install", "cursor")
    after = read(file)
    assert list(after) == ["z", "mcpServers", "a"]
    assert list(after["mcpServers"]) == ["other", "threadkeep"]
    assert file.read_text("utf-8").startswith('{\n\t"z": 1,\n')
    assert file.stat().st_mode & 0o777 == 0o640
    assert (file.parent / "mcp.json.before-threadkeep").read_text("utf-8") == text
    user.run("uninstall", "cursor")
    assert file.read_text("utf-8") == text


def test_a_file_that_does_not_parse_is_refused_and_left(user: User) -> None:
    for program, name in (("cursor", ".cursor/mcp.json"), ("codex", ".codex/config.toml")):
        file = user.home / name
        file.parent.mkdir()
        file.write_text('{"a": 1,, // a comment\n')
        assert "is no" in user.run("install", program, code=2).stderr
        assert file.read_text() == '{"a": 1,, // a comment\n'
    twice = user.home / ".gemini" / "settings.json"
    twice.parent.mkdir()
    twice.write_text('{"a": 1, "a": 2}')
    assert "twice" in user.run("install", "gemini", code=2).stderr
    commented = user.home / ".config" / "opencode" / "opencode.jsonc"
    commented.parent.mkdir(parents=True)
    commented.write_text("{} // mine")
    assert "comments" in user.run("install", "opencode", code=2).stderr


def test_a_link_stays_a_link(user: User) -> None:
    real = user.home / "dotfiles.json"
    real.write_text("{}")
    (user.home / ".cursor").mkdir()
    link = user.home / ".cursor" / "mcp.json"
    link.symlink_to(real)
    user.run("install", "cursor")
    assert link.is_symlink()
    assert "threadkeep" in real.read_text()


@pytest.mark.parametrize(
    "program, added",
    [
        ("claude", "mcp add --scope user threadkeep -- "),
        ("codex", "mcp add threadkeep -- "),
        ("gemini", "mcp add --scope user threadkeep "),
    ],
)
def test_the_programs_own_command_is_used_where_there_is_one(
    user: User, program: str, added: str
) -> None:
    called = user.program(program)
    assert added in user.run("install", program, "--dry-run").stdout
    assert not called.exists()
    user.run("install", program, "--write")
    (line,) = called.read_text().splitlines()
    assert line.startswith(added)
    assert line.endswith("mcp --write")
    user.program(program, code=1)
    assert "no such luck" in user.run("install", program, code=1).stderr


def test_a_named_home_is_passed_on(user: User) -> None:
    result = CliRunner().invoke(cli, ["--home", "/srv/tk", "mcp", "install", "cursor", "--json"])
    assert result.exit_code == 0, result.stderr
    told = json.loads(result.stdout)
    assert told["changed"] is True
    args = read(user.home / ".cursor" / "mcp.json")["mcpServers"]["threadkeep"]["args"]
    assert args[-3:] == ["--home", "/srv/tk", "mcp"]


def test_without_the_sdk_the_command_says_what_to_install(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    assert "threadkeep[mcp]" in user.run(code=3).stderr


# ---------------------------------------------------------------------- the text of settings


@given(tables, st.sampled_from([None, 2, 4, "\t"]))
def test_json_keeps_everything_else_in_its_order(table: dict[str, Any], indent: Any) -> None:
    table.pop("mcpServers", None)
    text = json.dumps(table, indent=indent)
    after = mcp_settings.with_json_entry(text, KEYS, ENTRY, "x.json")
    found = json.loads(after)
    assert found.pop("mcpServers") == {"threadkeep": ENTRY}
    assert list(found.items()) == list(table.items())
    assert mcp_settings.with_json_entry(after, KEYS, ENTRY, "x.json") == after
    assert json.loads(mcp_settings.without_json_entry(after, KEYS, "x.json")) == table


@pytest.mark.parametrize(
    "text",
    [
        "",
        'model = "o"',
        'model = "o" # mine\n\n[mcp_servers.other]\ncommand = "x"\n',
        '[mcp_servers.threadkeep]\ncommand = ""\n[mcp_servers.threadkeep.env]\nA = ""\n[z]\nb = 1',
        '[ mcp_servers . "threadkeep" ] # ours\nargs = []\n',
    ],
)
def test_toml_keeps_everything_else_as_it_stands(text: str) -> None:
    keys = ("mcp_servers", "threadkeep")
    after = mcp_settings.with_toml_entry(text, keys, ENTRY, "x.toml")
    assert tomllib.loads(after)["mcp_servers"]["threadkeep"] == ENTRY
    gone = mcp_settings.without_toml_entry(after, keys, "x.toml")
    expected = tomllib.loads(text)
    expected.get("mcp_servers", {}).pop("threadkeep", None)
    if not expected.get("mcp_servers", True):
        del expected["mcp_servers"]
    assert tomllib.loads(gone) == expected
    for line in (line for line in gone.splitlines() if line):
        assert line in text


@pytest.mark.parametrize(
    "text",
    [
        'mcp_servers = { threadkeep = { command = "x" } }\n',
        '[mcp_servers]\nthreadkeep.command = "x"\n',
    ],
)
def test_toml_in_another_spelling_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="cannot be edited safely"):
        mcp_settings.with_toml_entry(text, ("mcp_servers", "threadkeep"), ENTRY, "x.toml")

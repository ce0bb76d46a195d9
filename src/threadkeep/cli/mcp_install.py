"""`threadkeep mcp install` and `uninstall`: register the server with a client, or remove it."""

import difflib
import os
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import click

from threadkeep.cli import mcp_settings
from threadkeep.cli.command import Call, command
from threadkeep.cli.options import OneOf
from threadkeep.cli.output import document, note, write
from threadkeep.errors import Invalid, ThreadkeepError

# ------------------------------------------------------------------------------
# The agents, and how each of them is told of an MCP server.

Scope = Literal["user", "project"]
Words = Sequence[str]

NAME: Final = "threadkeep"


class AgentSettings(NamedTuple):
    """An agent, its settings, and its own command for servers where it has one."""

    name: str
    files: Callable[[Mapping[str, str], Path], Mapping[Scope, Path]]
    keys: tuple[str, ...]
    entry: Callable[[Words], dict[str, Any]]
    is_toml: bool = False
    executable: str = ""
    add: Callable[[Scope, Words], list[str]] | None = None
    remove: Callable[[Scope], list[str]] | None = None
    own_scopes: tuple[Scope, ...] = ()  # those that its own command knows

    def has_own(self, scope: Scope) -> bool:
        """Tell whether the agent can do it itself."""
        return scope in self.own_scopes


def _command(words: Words) -> dict[str, Any]:
    return {"command": words[0], "args": list(words[1:])}


def _typed(words: Words) -> dict[str, Any]:
    return {"type": "stdio", **_command(words), "env": {}}


def _local(words: Words) -> dict[str, Any]:
    return {"type": "local", "command": list(words), "enabled": True}


def _home(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("HOME") or "~").expanduser()


def _below(environ: Mapping[str, str], variable: str, default: str) -> Path:
    named = environ.get(variable)
    return Path(named).expanduser() if named else _home(environ) / default


def _claude_files(environ: Mapping[str, str], folder: Path) -> Mapping[Scope, Path]:
    return {
        "user": _below(environ, "CLAUDE_CONFIG_DIR", "") / ".claude.json",
        "project": folder / ".mcp.json",
    }


def _codex_files(environ: Mapping[str, str], folder: Path) -> Mapping[Scope, Path]:
    return {
        "user": _below(environ, "CODEX_HOME", ".codex") / "config.toml",
        "project": folder / ".codex" / "config.toml",
    }


def _cursor_files(environ: Mapping[str, str], folder: Path) -> Mapping[Scope, Path]:
    return {
        "user": _home(environ) / ".cursor" / "mcp.json",
        "project": folder / ".cursor" / "mcp.json",
    }


def _gemini_files(environ: Mapping[str, str], folder: Path) -> Mapping[Scope, Path]:
    return {
        "user": _home(environ) / ".gemini" / "settings.json",
        "project": folder / ".gemini" / "settings.json",
    }


def _opencode_files(environ: Mapping[str, str], folder: Path) -> Mapping[Scope, Path]:
    settings = _below(environ, "XDG_CONFIG_HOME", ".config") / "opencode"
    return {"user": settings / "opencode.json", "project": folder / "opencode.json"}


AGENTS: Final = {
    "claude": AgentSettings(
        "Claude Code",
        _claude_files,
        ("mcpServers", NAME),
        _typed,
        executable="claude",
        add=lambda scope, words: ["mcp", "add", "--scope", scope, NAME, "--", *words],
        remove=lambda scope: ["mcp", "remove", "--scope", scope, NAME],
        own_scopes=("user", "project"),
    ),
    "codex": AgentSettings(
        "Codex",
        _codex_files,
        ("mcp_servers", NAME),
        _command,
        is_toml=True,
        executable="codex",
        add=lambda _, words: ["mcp", "add", NAME, "--", *words],
        remove=lambda _: ["mcp", "remove", NAME],
        own_scopes=("user",),
    ),
    "cursor": AgentSettings("Cursor", _cursor_files, ("mcpServers", NAME), _command),
    "gemini": AgentSettings(
        "Gemini CLI",
        _gemini_files,
        ("mcpServers", NAME),
        _command,
        executable="gemini",
        # Words that begin with a dash are options of its own unless they stand behind two.
        add=lambda scope, words: ["mcp", "add", "--scope", scope, NAME, words[0], "--", *words[1:]],
        remove=lambda scope: ["mcp", "remove", "--scope", scope, NAME],
        own_scopes=("user", "project"),
    ),
    "opencode": AgentSettings("opencode", _opencode_files, ("mcp", NAME), _local),
}


_OWN_SECONDS: Final = 60
_PRIVATE: Final = 0o600

_WHERE = click.argument("agent", type=OneOf(sorted(AGENTS)))
_SCOPE = click.option(
    "--scope",
    type=OneOf(["user", "project"]),
    default="user",
    show_default=True,
    help="For all your projects, or for this folder only.",
)
_DRY = click.option("--dry-run", is_flag=True, help="Show what would be done; do nothing.")


class AgentInstallPlan(NamedTuple):
    """What is to be done: commands of the agent itself, or a file rewritten."""

    file: Path
    commands: tuple[tuple[str, ...], ...] = ()
    before: str = ""
    after: str | None = None  # None: the file is left to the agent

    @property
    def is_done(self) -> bool:
        """Tell whether there is nothing left to do."""
        return not self.commands and self.after in {None, self.before}

    @property
    def diff(self) -> str:
        """What would change in the file."""
        if self.after is None:
            return ""
        lines = (self.before.splitlines(keepends=True), self.after.splitlines(keepends=True))
        return "".join(difflib.unified_diff(*lines, str(self.file), str(self.file)))


@command(
    "install",
    "threadkeep mcp install claude",
    "threadkeep mcp install codex --dry-run",
    "threadkeep mcp install cursor --scope project",
)
@_WHERE
@_SCOPE
@click.option("--write", is_flag=True, help="Also offer the tool that writes: remember.")
@_DRY
def install(call: Call, *, agent: str, scope: Scope, write: bool, dry_run: bool) -> None:
    """Register the MCP server with a client, so that its agent can search the history.

    The client's own command is used if there is one; otherwise its settings file is edited, keeping
    everything else and a copy of the file beside it.
    """
    one = AGENTS[agent]
    words = server_words(scope, write=write)
    plan = plan_install(one, scope, words, call.home.environ, Path.cwd())
    _carry_out(call, one, plan, dry_run=dry_run, done=f"{one.name} knows threadkeep already")


@command("uninstall", "threadkeep mcp uninstall claude", "threadkeep mcp uninstall codex --dry-run")
@_WHERE
@_SCOPE
@_DRY
def uninstall(call: Call, *, agent: str, scope: Scope, dry_run: bool) -> None:
    """Remove the MCP server from a client's settings."""
    one = AGENTS[agent]
    plan = plan_uninstall(one, scope, call.home.environ, Path.cwd())
    _carry_out(call, one, plan, dry_run=dry_run, done=f"{one.name} has no threadkeep entry")


def server_words(scope: Scope, *, write: bool) -> tuple[str, ...]:
    """Return the command that starts the server; settings of a project name no one's folders."""
    root = click.get_current_context().find_root()
    home = root.params.get("home") or os.environ.get("THREADKEEP_HOME")
    named = ("--home", str(Path(home).absolute())) if home and scope == "user" else ()
    options = ("--write",) if write else ()
    return (*_executable(scope), *named, "mcp", *options)


def _executable(scope: Scope) -> tuple[str, ...]:
    if scope == "project":
        return ("threadkeep",)
    found = shutil.which("threadkeep")
    # -P: agents work in folders of all kinds, and nothing is imported from there.
    return (found,) if found else (sys.executable, "-P", "-m", "threadkeep")


# ---------------------------------------------------------------------- planning


def plan_install(
    one: AgentSettings,
    scope: Scope,
    words: tuple[str, ...],
    environ: Mapping[str, str],
    folder: Path,
) -> AgentInstallPlan:
    """Plan how an agent is told of the server."""
    file = one.files(environ, folder)[scope]
    before = _read(file)
    there = _entry(one, before, file)
    entry = one.entry(words)
    if isinstance(there, dict) and {**there, **entry} == there:
        return AgentInstallPlan(file)
    own = _own(one, scope, environ)
    if own and one.add is not None and one.remove is not None:
        gone = [(own, *one.remove(scope))] if there is not None else []
        return AgentInstallPlan(file, (*gone, (own, *one.add(scope, words))))
    edit = mcp_settings.with_toml_entry if one.is_toml else mcp_settings.with_json_entry
    return AgentInstallPlan(file, before=before, after=edit(before, one.keys, entry, str(file)))


def plan_uninstall(
    one: AgentSettings, scope: Scope, environ: Mapping[str, str], folder: Path
) -> AgentInstallPlan:
    """Plan how the server is taken out."""
    file = one.files(environ, folder)[scope]
    before = _read(file)
    if _entry(one, before, file) is None:
        return AgentInstallPlan(file)
    own = _own(one, scope, environ)
    if own and one.remove is not None:
        return AgentInstallPlan(file, ((own, *one.remove(scope)),))
    edit = mcp_settings.without_toml_entry if one.is_toml else mcp_settings.without_json_entry
    return AgentInstallPlan(file, before=before, after=edit(before, one.keys, str(file)))


def _own(one: AgentSettings, scope: Scope, environ: Mapping[str, str]) -> str | None:
    if not one.has_own(scope):
        return None
    return shutil.which(one.executable, path=environ.get("PATH"))


def _entry(one: AgentSettings, text: str, file: Path) -> Any:
    look = mcp_settings.toml_entry if one.is_toml else mcp_settings.json_entry
    return look(text, one.keys, str(file))


def _read(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except (FileNotFoundError, NotADirectoryError):
        _refuse_comments(file)
        return ""
    except UnicodeDecodeError:
        raise Invalid(f"{file} is not UTF-8 text", hint="save it as UTF-8 first") from None


def _refuse_comments(file: Path) -> None:
    """A file with comments would take precedence over, or be mixed with, the one we would write."""
    other = file.with_suffix(".jsonc")
    if file.suffix == ".json" and other.exists():
        msg = f"{other} may have comments, which would be lost"
        raise Invalid(msg, hint="add the server there by hand; docs/mcp.md shows how")


# ---------------------------------------------------------------------- doing


def _carry_out(
    call: Call, one: AgentSettings, plan: AgentInstallPlan, *, dry_run: bool, done: str
) -> None:
    backup: Path | None = None
    if not dry_run:
        for words in plan.commands:
            _run(words)
        if plan.after is not None and plan.after != plan.before:
            backup = put_text(plan.file, plan.after)
    if call.as_json:
        changed = not plan.is_done
        shown = {"commands": plan.commands, "diff": plan.diff, "backup": backup}
        document(agent=one.name, file=plan.file, dry_run=dry_run, changed=changed, **shown)
        return
    if plan.is_done:
        note(f"{done}: {plan.file}")
    for words in plan.commands:
        (write if dry_run else note)(shlex.join(words))
    if dry_run and plan.diff:
        write(plan.diff, end="")
    elif not dry_run and not plan.is_done:
        note(f"Done; restart {one.name} to load it")
        if backup is not None:
            note(f"the file as it was: {backup}")


def _run(words: tuple[str, ...]) -> None:
    try:
        done = subprocess.run(  # noqa: S603  (the program that the user named)
            words, capture_output=True, text=True, timeout=_OWN_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        msg = f"{shlex.join(words)} did not end within {_OWN_SECONDS} s"
        raise ThreadkeepError(msg, hint="run it by hand") from None
    if done.returncode:
        said = (done.stderr or done.stdout).strip()[-400:]
        msg = f"{shlex.join(words)} failed: {said}"
        raise ThreadkeepError(msg, hint="run it by hand")


def put_text(file: Path, text: str) -> Path | None:
    """Write a file whole or not at all, with the mode it had; keep a copy of what was there."""
    real = Path(os.path.realpath(file))  # settings are often links into a folder of dotfiles
    real.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    mode, backup = _PRIVATE, None
    if real.exists():
        mode = stat.S_IMODE(real.stat().st_mode)
        backup = _free_name(file)
        shutil.copy2(real, backup)
    descriptor, spare = tempfile.mkstemp(dir=real.parent, prefix=f".{real.name}.")
    try:
        with open(descriptor, "w", encoding="utf-8") as out:  # noqa: PTH123  (a descriptor)
            out.write(text)
            os.fchmod(descriptor, mode)
            out.flush()
            os.fsync(descriptor)
        Path(spare).replace(real)
    except BaseException:
        with suppress(OSError):
            Path(spare).unlink()
        raise
    return backup


def _free_name(file: Path) -> Path:
    plain = file.with_name(f"{file.name}.before-threadkeep")
    number = 1
    found = plain
    while found.exists():
        number += 1
        found = plain.with_name(f"{plain.name}-{number}")
    return found

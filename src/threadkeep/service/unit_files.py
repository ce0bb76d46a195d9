"""How a system is told to keep `threadkeep serve` running: a systemd user unit or a launchd agent.

What is written is a pure function of the platform, the environment and the command. Installing
leaves word in the file itself of what else it made, so that uninstalling restores what was there.
"""

import os
import plistlib
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Literal

import msgspec

from threadkeep.base import nofollow
from threadkeep.base.files import make_private_dir, translate_os
from threadkeep.base.paths import expand
from threadkeep.errors import NotFound

System = Literal["systemd", "launchd"]
Action = Literal["create", "change", "keep", "remove", "nothing"]
Words = tuple[str, ...]

NAME: Final = "threadkeep.service"
LABEL: Final = "threadkeep.serve"
# What a service does not get from a shell, but needs to find the same places. Never a secret.
CARRIED: Final = (
    *("THREADKEEP_HOME", "THREADKEEP_CONFIG", "HERMES_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME"),
    *("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"),
)
_MARK: Final = "`threadkeep service install` wrote this, `uninstall` takes it out"
_MADE: Final = re.compile(rf"{re.escape(_MARK)}; folders made: (\d{{1,3}})")
_ASIDE: Final = ".before-threadkeep"
_LARGEST: Final = 1 << 20
_TOOL_SECONDS: Final = 20.0

# Only what works without namespaces: a user's manager may not have them, and everything below
# the user's home has to stay readable.
_SYSTEMD: Final = """\
# {mark}; folders made: {made}
[Unit]
Description=threadkeep: remembers what agents, shells and browsers do
StartLimitIntervalSec=0

[Service]
Type=simple
ExecStart={command}
{environment}Restart=on-failure
RestartSec=10
RestartPreventExitStatus=2 5
TimeoutStopSec=10
UMask=0077
Nice=5
NoNewPrivileges=yes
LockPersonality=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
SystemCallArchitectures=native

[Install]
WantedBy=default.target
"""


class Unit(msgspec.Struct, frozen=True):
    """One file that tells a system what to run, and how it is told to look at it."""

    system: System
    path: Path
    command: Words
    environment: tuple[tuple[str, str], ...]
    user: int

    def text(self, made: int) -> bytes:
        """Write the file; `made` folders had to be made for it."""
        writes = systemd_text if self.system == "systemd" else launchd_text
        return writes(self, made)


class SystemCommand(msgspec.Struct, frozen=True):
    """A command of the system that was run, or that the user has to run; `said` if it failed."""

    command: Words
    done: bool
    said: str = ""


class UnitPlan(msgspec.Struct, frozen=True):
    """What is done with the file of a unit."""

    unit: Unit
    action: Action
    aside: Path | None = None  # where a file of somebody else goes, or comes back from


class UnitState(msgspec.Struct, frozen=True):
    """What the system knows of a unit; None where it cannot be asked."""

    unit: Unit
    installed: bool
    enabled: str | None
    active: str | None


Run = Callable[[Words], SystemCommand]


# ---------------------------------------------------------------------- what is written


def unit_for(
    platform: str, environ: Mapping[str, str], command: Sequence[str], *, user: int
) -> Unit:
    """Say which file this platform wants where, for this command."""
    carried = tuple((name, environ[name]) for name in CARRIED if environ.get(name))
    home = expand("~", environ)
    if platform == "darwin":
        path = home / "Library" / "LaunchAgents" / f"{LABEL}.plist"
        return Unit("launchd", path, tuple(command), carried, user)
    named = environ.get("XDG_CONFIG_HOME", "")
    config = Path(named) if named.startswith("/") else home / ".config"
    return Unit("systemd", config / "systemd" / "user" / NAME, tuple(command), carried, user)


def systemd_text(unit: Unit, made: int) -> bytes:
    """Write a systemd unit."""
    environment = "".join(
        f"Environment={quoted(f'{name}={value}', variables=False)}\n"
        for name, value in unit.environment
    )
    command = " ".join(quoted(word) for word in unit.command)
    text = _SYSTEMD.format(mark=_MARK, made=made, command=command, environment=environment)
    return os.fsencode(text)


def quoted(word: str, *, variables: bool = True) -> str:
    """Write a word so that systemd reads it as it is; a command line also knows variables."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    escaped = escaped.replace("\n", "\\n").replace("\t", "\\t")
    return '"' + (escaped.replace("$", "$$") if variables else escaped) + '"'


def launchd_text(unit: Unit, made: int) -> bytes:
    """Write a launchd agent."""
    logs = unit.path.parents[1] / "Logs" / "threadkeep.log"
    agent: dict[str, object] = {
        "Label": LABEL,
        "ProgramArguments": list(unit.command),
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ThrottleInterval": 10,
        "ProcessType": "Background",
        "Umask": 0o077,
        "StandardErrorPath": str(logs),
    }
    if unit.environment:
        agent["EnvironmentVariables"] = dict(unit.environment)
    first, _, rest = plistlib.dumps(agent).partition(b"\n")
    return b"%s\n<!-- %s; folders made: %d -->\n%s" % (first, _MARK.encode(), made, rest)


def start_commands(unit: Unit, action: Action) -> list[Words]:
    """Return what makes the system run the unit, now and at each login."""
    if unit.system == "launchd":
        again = [] if action == "create" else [("launchctl", "bootout", _target(unit))]
        return [*again, ("launchctl", "bootstrap", f"gui/{unit.user}", str(unit.path))]
    control = ("systemctl", "--user")
    # Restarted in any case: what runs may be of an older version than the file that starts it.
    return [(*control, "daemon-reload"), (*control, "enable", NAME), (*control, "restart", NAME)]


def is_installed(unit: Unit) -> bool:
    """Tell whether the file of a unit is there, and ours."""
    there = _content(unit.path)
    return there is not None and _made(there) is not None


def stop_commands(unit: Unit) -> list[Words]:
    """Return what makes the system end the unit and forget it."""
    if unit.system == "launchd":
        return [("launchctl", "bootout", _target(unit))]
    return [("systemctl", "--user", "disable", "--now", NAME)]


def _target(unit: Unit) -> str:
    return f"gui/{unit.user}/{LABEL}"


# ---------------------------------------------------------------------- installing


def plan_install(unit: Unit) -> UnitPlan:
    """Look what has to be done; nothing is written yet."""
    there = _content(unit.path)
    if there is None:
        return UnitPlan(unit, "create")
    made = _made(there)
    if made is None:
        return UnitPlan(unit, "create", _aside(unit.path))
    return UnitPlan(unit, "keep" if there == unit.text(made) else "change")


def install(plan: UnitPlan, run: Run) -> list[SystemCommand]:
    """Write the file and have the system start it; a file of somebody else is set aside."""
    unit = plan.unit
    with _told(unit.path):
        if plan.action == "create":
            if plan.aside is not None:
                unit.path.rename(plan.aside)
            made = len(list(_missing(unit.path.parent)))
            make_private_dir(unit.path.parent)
            _write(unit, made)
        elif plan.action == "change":
            made = _made(_content(unit.path) or b"") or 0
            unit.path.unlink()
            _write(unit, made)
    return _run_all(start_commands(unit, plan.action), run)


def plan_uninstall(unit: Unit) -> UnitPlan:
    """Look what has to be undone; a file that is not ours is left alone."""
    if not is_installed(unit):
        return UnitPlan(unit, "nothing")
    aside = _aside(unit.path)
    return UnitPlan(unit, "remove", aside if aside.exists() else None)


def uninstall(plan: UnitPlan, run: Run) -> list[SystemCommand]:
    """Have the system end it, take the file out, and put back what was there before."""
    unit = plan.unit
    if plan.action == "nothing":
        return []
    ran = _run_all(stop_commands(unit), run)
    with _told(unit.path):
        made = _made(_content(unit.path) or b"") or 0
        unit.path.unlink()
        if plan.aside is not None:
            plan.aside.rename(unit.path)
        for folder in list(unit.path.parents)[:made]:
            with suppress(OSError):  # somebody put something into it meanwhile
                folder.rmdir()
    again = [("systemctl", "--user", "daemon-reload")] if unit.system == "systemd" else []
    return ran + _run_all(again, run)


def _write(unit: Unit, made: int) -> None:
    nofollow.write_files(unit.path.parent, (), {unit.path.name: unit.text(made)})


def _content(path: Path) -> bytes | None:
    try:
        return nofollow.read(path.parent, (), path.name, _LARGEST, hard_links=True)
    except NotFound:
        return None


def _made(content: bytes) -> int | None:
    """Read how many folders were made for a file of ours; None: it is not ours."""
    found = _MADE.search(content.decode("utf-8", "replace"))
    return int(found[1]) if found else None


def _missing(folder: Path) -> Iterator[Path]:
    return (place for place in (folder, *folder.parents) if not place.exists())


def _aside(path: Path) -> Path:
    return path.with_name(path.name + _ASIDE)


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Turn an error of the system into one of ours that names the file."""
    try:
        yield
    except OSError as error:
        raise translate_os(error, path, "cannot change") from error


# ---------------------------------------------------------------------- asking the system


def run_tool(command: Words) -> SystemCommand:
    """Run a command of the system; where it is not there, the user may have to."""
    try:
        done = subprocess.run(  # noqa: S603  (one of the fixed commands above)
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TOOL_SECONDS,
            check=False,
        )
    except FileNotFoundError:
        return SystemCommand(command, done=False, said=f"there is no {command[0]} here")
    except (OSError, subprocess.TimeoutExpired) as error:
        return SystemCommand(command, done=False, said=str(error))
    said = " ".join((done.stdout + done.stderr).split())
    return SystemCommand(command, done=done.returncode == 0, said=said)


def _run_all(commands: Sequence[Words], run: Run) -> list[SystemCommand]:
    """Run commands one after another; the first that fails leaves the rest to the user."""
    ran: list[SystemCommand] = []
    for command in commands:
        may = all(one.done or "bootout" in one.command for one in ran)
        ran.append(run(command) if may else SystemCommand(command, done=False))
    return ran


def unit_state(unit: Unit, run: Run) -> UnitState:
    """Ask what the system knows of a unit."""
    installed = is_installed(unit)
    if unit.system == "launchd":
        found = run(("launchctl", "print", _target(unit)))
        state = "loaded" if found.done else None
        return UnitState(unit, installed, state, state)
    enabled, active = (run(("systemctl", "--user", f"is-{word}", NAME)) for word in _ASKED)
    return UnitState(unit, installed, _word(enabled), _word(active))


_ASKED: Final = ("enabled", "active")


def _word(ran: SystemCommand) -> str | None:
    """Return the one word that systemctl answers with, also when the answer is no."""
    return ran.said if re.fullmatch(r"[a-z-]+", ran.said) else None


def serve_command(*options: str) -> Words:
    """Return the command that serves, with the interpreter that runs now."""
    return (sys.executable, "-P", "-m", "threadkeep", *options)

"""Units of systemd and agents of launchd: what is written, and that all of it goes away again."""

import plistlib
import shlex
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from threadkeep.errors import ThreadkeepError
from threadkeep.service.unit_files import (
    NAME,
    SystemCommand,
    Unit,
    Words,
    install,
    plan_install,
    plan_uninstall,
    quoted,
    start_commands,
    uninstall,
    unit_for,
    unit_state,
)

COMMAND = ("/opt/py/bin/python3", "-P", "-m", "threadkeep", "--home", "/data/my notes", "serve")
SYSTEMD = """\
# `threadkeep service install` wrote this, `uninstall` takes it out; folders made: 2
[Unit]
Description=threadkeep: remembers what agents, shells and browsers do
StartLimitIntervalSec=0

[Service]
Type=simple
ExecStart="/opt/py/bin/python3" "-P" "-m" "threadkeep" "--home" "/data/my notes" "serve"
Environment="CODEX_HOME=/c 100%%"
Restart=on-failure
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
LAUNCHD = """\
<?xml version="1.0" encoding="UTF-8"?>
<!-- `threadkeep service install` wrote this, `uninstall` takes it out; folders made: 1 -->
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
\t<key>EnvironmentVariables</key>
\t<dict>
\t\t<key>CODEX_HOME</key>
\t\t<string>/c 100%</string>
\t</dict>
\t<key>KeepAlive</key>
\t<dict>
\t\t<key>SuccessfulExit</key>
\t\t<false/>
\t</dict>
\t<key>Label</key>
\t<string>threadkeep.serve</string>
\t<key>ProcessType</key>
\t<string>Background</string>
\t<key>ProgramArguments</key>
\t<array>
\t\t<string>/opt/py/bin/python3</string>
\t\t<string>-P</string>
\t\t<string>-m</string>
\t\t<string>threadkeep</string>
\t\t<string>--home</string>
\t\t<string>/data/my notes</string>
\t\t<string>serve</string>
\t</array>
\t<key>RunAtLoad</key>
\t<true/>
\t<key>StandardErrorPath</key>
\t<string>/Users/me/Library/Logs/threadkeep.log</string>
\t<key>ThrottleInterval</key>
\t<integer>10</integer>
\t<key>Umask</key>
\t<integer>63</integer>
</dict>
</plist>
"""


class Tools:
    """A system that notes what it is told."""

    def __init__(self, *, there: bool = True, says: str = "") -> None:
        self.told: list[Words] = []
        self._there, self._says = there, says

    def __call__(self, command: Words) -> SystemCommand:
        self.told.append(command)
        return SystemCommand(command, done=self._there, said=self._says)


def unit_in(user: Path, platform: str = "linux", **environ: str) -> Unit:
    return unit_for(platform, {"HOME": str(user), **environ}, COMMAND, user=501)


def tree(folder: Path) -> dict[str, bytes | None]:
    """Return all that is below a folder."""
    found = sorted(folder.rglob("*"))
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in found
    }


# ---------------------------------------------------------------------- what is written


def test_a_systemd_unit() -> None:
    unit = unit_in(Path("/home/me"), CODEX_HOME="/c 100%", THREADKEEP_MODEL_KEY="secret")
    assert unit.path == Path("/home/me/.config/systemd/user/threadkeep.service")
    assert unit.text(2).decode() == SYSTEMD


def test_a_launchd_agent() -> None:
    unit = unit_in(Path("/Users/me"), "darwin", CODEX_HOME="/c 100%")
    assert unit.path == Path("/Users/me/Library/LaunchAgents/threadkeep.serve.plist")
    assert unit.text(1).decode() == LAUNCHD
    assert plistlib.loads(unit.text(1))["ProgramArguments"] == list(COMMAND)


def test_the_folder_for_configuration_is_honoured_if_it_is_one() -> None:
    found = unit_in(Path("/home/me"), XDG_CONFIG_HOME="/conf")
    assert found.path == Path("/conf/systemd/user/threadkeep.service")
    assert ("XDG_CONFIG_HOME", "/conf") in found.environment
    relative = unit_in(Path("/home/me"), XDG_CONFIG_HOME="conf").path
    assert relative == Path("/home/me/.config/systemd/user/threadkeep.service")


@given(st.text(st.characters(exclude_characters="\0\1", exclude_categories=["Cs"])))
def test_a_quoted_word_is_one_line_that_reads_back(word: str) -> None:
    line = quoted(word)
    assert "\n" not in line
    assert line[0] == line[-1] == '"'
    inner = line[1:-1].replace("$$", "$").replace("%%", "%")
    for mark, meant in (("\\\\", "\1"), ('\\"', '"'), ("\\n", "\n"), ("\\t", "\t"), ("\1", "\\")):
        inner = inner.replace(mark, meant)
    assert inner == word


# ---------------------------------------------------------------------- installing


@pytest.mark.parametrize("platform", ["linux", "darwin"])
@pytest.mark.parametrize("there", [(), (".config/systemd", "Library")])
def test_uninstalling_restores_what_was_there(
    tmp_path: Path, platform: str, there: tuple[str, ...]
) -> None:
    for folder in there:
        (tmp_path / folder).mkdir(parents=True)
    before = tree(tmp_path)
    unit, tools = unit_in(tmp_path, platform), Tools()
    assert all(one.done for one in install(plan_install(unit), tools))
    assert unit.path.stat().st_mode & 0o077 == 0
    assert plan_install(unit).action == "keep"
    uninstall(plan_uninstall(unit), tools)
    assert tree(tmp_path) == before
    assert plan_uninstall(unit).action == "nothing"


def test_somebody_elses_file_is_set_aside_and_comes_back(tmp_path: Path) -> None:
    unit = unit_in(tmp_path)
    unit.path.parent.mkdir(parents=True)
    unit.path.write_text("[Service]\nExecStart=/bin/mine\n")
    (unit.path.parent / "other.service").write_text("x")
    before = tree(tmp_path)
    assert plan_uninstall(unit).action == "nothing"
    install(plan_install(unit), Tools())
    assert b"threadkeep" in unit.path.read_bytes()
    uninstall(plan_uninstall(unit), Tools())
    assert tree(tmp_path) == before


def test_a_second_install_replaces_our_own_file_only(tmp_path: Path) -> None:
    before = tree(tmp_path)
    install(plan_install(unit_in(tmp_path)), Tools())
    other = unit_for("linux", {"HOME": str(tmp_path)}, ("/new/python", "serve"), user=1)
    plan = plan_install(other)
    assert (plan.action, plan.aside) == ("change", None)
    install(plan, Tools())
    assert b"/new/python" in other.path.read_bytes()
    uninstall(plan_uninstall(other), Tools())
    assert tree(tmp_path) == before


def test_looking_and_planning_write_nothing(tmp_path: Path) -> None:
    unit = unit_in(tmp_path)
    plan_install(unit)
    plan_uninstall(unit)
    unit_state(unit, Tools(there=False))
    assert tree(tmp_path) == {}


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / ".config").write_text("a file where a folder should be")
    with pytest.raises(ThreadkeepError, match=r"\.config"):
        install(plan_install(unit_in(tmp_path)), Tools())


# ---------------------------------------------------------------------- asking the system


def test_systemd_is_told_in_order(tmp_path: Path) -> None:
    tools = Tools()
    install(plan_install(unit_in(tmp_path)), tools)
    assert [shlex.join(words) for words in tools.told] == [
        "systemctl --user daemon-reload",
        f"systemctl --user enable {NAME}",
        f"systemctl --user restart {NAME}",
    ]


def test_what_runs_already_is_started_anew(tmp_path: Path) -> None:
    """It may be of an older version, although the file is the same."""
    unit = unit_in(tmp_path)
    install(plan_install(unit), Tools())
    plan, tools = plan_install(unit), Tools()
    install(plan, tools)
    assert plan.action == "keep"
    assert tools.told[-1] == ("systemctl", "--user", "restart", NAME)


def test_launchd_forgets_the_old_agent_before_it_loads_the_new_one(tmp_path: Path) -> None:
    unit = unit_in(tmp_path, "darwin")
    (again, load) = start_commands(unit, "change")
    assert again == ("launchctl", "bootout", "gui/501/threadkeep.serve")
    assert load == ("launchctl", "bootstrap", "gui/501", str(unit.path))


def test_where_there_is_no_such_system_the_rest_is_left_to_the_user(tmp_path: Path) -> None:
    tools = Tools(there=False, says="no bus")
    ran = install(plan_install(unit_in(tmp_path)), tools)
    assert len(tools.told) == 1
    assert [one.done for one in ran] == [False, False, False]
    assert ran[0].said == "no bus"


@pytest.mark.parametrize(
    "says, known", [("active", "active"), ("inactive", "inactive"), ("Failed to connect: x", None)]
)
def test_states_are_read_also_when_the_answer_is_no(
    tmp_path: Path, says: str, known: str | None
) -> None:
    state = unit_state(unit_in(tmp_path), Tools(there=False, says=says))
    assert (state.installed, state.enabled, state.active) == (False, known, known)

"""bash's own ways: its history, prompt commands, options and traps, none of them disturbed."""

from pathlib import Path

import pytest

from tests.capture.observed.terminals import World, make_world

# What bash-preexec does, as far as a hook can see it: lists of functions, called in its own turn.
PREEXEC = """
bash_preexec_imported=defined
precmd_functions=(theirs)
theirs() { seen=$?; }
invoke() { local code=$? f; for f in "${precmd_functions[@]}"; do (exit $code); $f; done; }
PROMPT_COMMAND="invoke; $PROMPT_COMMAND"
"""


@pytest.fixture
def world(tmp_path: Path) -> World:
    return make_world(tmp_path)


def history_of(world: World, lines: list[str], setting: str, *, hook: bool) -> list[str]:
    """Type lines, leave, and give the history file without times."""
    file = world.home / ".bash_history"
    file.unlink(missing_ok=True)
    with world.shell("bash", after=setting, hook=hook) as terminal:
        for line in lines:
            terminal.run(line)
        terminal.type("exit\r")
        terminal.ended()
    return file.read_text("utf-8").splitlines()


TYPED = ["echo 1", "echo 1", " echo 2", " echo 2", "echo 3", "ls /dev/null", "echo 1", "echo 1"]


@pytest.mark.parametrize(
    "setting",
    [
        "unset HISTCONTROL",
        "HISTCONTROL=",
        "HISTCONTROL=ignorespace",
        "HISTCONTROL=ignoredups",
        "HISTCONTROL=ignoreboth",
        "export HISTCONTROL=ignoredups:ignorespace",
        "HISTCONTROL=ignorespace:something:ignoredups",
        "HISTCONTROL=ignoreboth; HISTSIZE=3",
        "HISTCONTROL=ignoreboth; HISTTIMEFORMAT='%F '",
        "HISTCONTROL=ignoredups; shopt -s histappend",
    ],
)
def test_repeated_commands_are_told_from_hidden_ones(world: World, setting: str) -> None:
    with_hook = history_of(world, TYPED, setting, hook=True)
    without = history_of(world, TYPED, setting, hook=False)
    plain = [line for line in with_hook if not line.startswith("#")]
    assert plain == [line for line in without if not line.startswith("#")]
    assert [line[:1] for line in with_hook] == [line[:1] for line in without]
    shown = [line for line in TYPED if not line.startswith(" ")]
    assert world.commands() == [*shown, "exit"]


def test_with_erasedups_the_time_of_a_line_tells(world: World) -> None:
    lines = ["echo 1", "echo 2", "echo 1", "echo 3"]
    setting = "HISTCONTROL=ignorespace:erasedups"
    with_hook = history_of(world, lines, setting, hook=True)
    assert with_hook == history_of(world, lines, setting, hook=False)
    assert world.commands() == [*lines, "exit"]


def test_what_history_ignores_is_not_written(world: World) -> None:
    with world.shell("bash", after="HISTIGNORE='ls*:*secret*'") as terminal:
        for line in ("echo 1", "ls /dev/null", "echo secret", "ls /dev/null", "echo 2"):
            terminal.run(line)
    assert world.commands() == ["echo 1", "echo 2"]


@pytest.mark.parametrize("setting", ["set +o history", "HISTSIZE=0"])
def test_without_a_history_nothing_is_written(world: World, setting: str) -> None:
    with world.shell("bash") as terminal:
        terminal.run("echo before")
        terminal.run(setting)
        terminal.run("echo hidden")
        terminal.run("echo hidden too")
    assert [c for c in world.commands() if "hidden" in c] == []
    assert world.commands()[0] == "echo before"


def test_changes_of_the_history_do_not_repeat_a_command(world: World) -> None:
    lines = ("echo 1", "echo 2", "history -d 1", "history -c", "echo 3", "history -s made up")
    with world.shell("bash") as terminal:
        for line in lines:
            terminal.run(line)
        terminal.run(" true")
        terminal.run("echo 4")
    commands = world.commands()
    assert [c for c in commands if c.startswith("echo")] == ["echo 1", "echo 2", "echo 3", "echo 4"]
    assert "made up" not in commands[:-2]


@pytest.mark.parametrize(
    "sharing",
    [
        'PROMPT_COMMAND+=("history -a; history -c; history -r")',
        'sync() { history -a; history -c; history -r; }; PROMPT_COMMAND+=("sync")',
    ],
    ids=["text", "function"],
)
def test_the_history_of_other_shells_is_not_taken_for_ours(world: World, sharing: str) -> None:
    others = world.home / ".bash_history"
    others.write_text("", encoding="utf-8")
    # A history that is read from its file again has the time of that moment, in whole seconds.
    next_second = " s=$EPOCHSECONDS; while ((EPOCHSECONDS == s)); do :; done"
    with world.shell("bash", after=f"{sharing}\nHISTCONTROL=ignoreboth") as terminal:
        terminal.run("echo mine")
        terminal.run(next_second)
        with others.open("a", encoding="utf-8") as file:
            file.write("echo theirs\n")
        terminal.run(" echo hidden")
        terminal.run(next_second)
        terminal.run(" echo hidden")
        terminal.run("echo mine too")
    assert world.commands() == ["echo mine", "echo mine too"]


@pytest.mark.parametrize("setting", ["shopt -s cmdhist lithist", "shopt -u cmdhist"])
def test_lines_stay_lines(world: World, setting: str) -> None:
    with world.shell("bash", after=setting) as terminal:
        terminal.run("for i in 1 2; do\recho $i\rdone")
        terminal.run("echo next")
    assert world.commands() == ["for i in 1 2; do\necho $i\ndone", "echo next"]


def test_a_line_that_bash_cannot_read_is_no_command(world: World) -> None:
    with world.shell("bash") as terminal:
        terminal.run("if )")
        terminal.run("echo fine")
    assert world.commands() == ["echo fine"]


@pytest.mark.parametrize("options", ["set -u", "set -o noclobber", "set -f", "set -o posix"])
def test_odd_options(world: World, options: str) -> None:
    odd = f"{options}; IFS=x; shopt -s nocasematch extglob failglob xpg_echo"
    with world.shell("bash", after=odd) as terminal:
        shown = terminal.run("echo one")
        terminal.run("echo 'two  x'")
    assert shown == "echo one\r\none\r\n"
    assert world.commands() == ["echo one", "echo 'two  x'"]


def test_a_shell_that_ends_at_the_first_error_does_not_end_by_us(world: World) -> None:
    with world.shell("bash", after="set -e") as terminal:
        terminal.run("false && true")
        terminal.run("! true")
        terminal.type("false\r")
        assert terminal.ended() == 1
    assert [(r["command"], r["exit"]) for r in world.records("end1")] == [
        ("false && true", "1"),
        ("! true", "1"),
        ("false", ""),
    ]


@pytest.mark.parametrize("lists", [True, False])
def test_others_find_everything_as_it_was(
    world: World, monkeypatch: pytest.MonkeyPatch, *, lists: bool
) -> None:
    theirs = "PROMPT_COMMAND='last=\"saw:$?:$_:${PIPESTATUS[*]}\"; prompt_number=$((++p))'"
    shown = []
    for hook in (True, False):
        if hook and not lists:
            monkeypatch.setattr("tests.capture.observed.terminals.render", before_lists)
        with world.shell("bash", before=theirs, hook=hook) as terminal:
            terminal.run("echo here")
            terminal.run("sh -c 'exit 3' | sh -c 'exit 4' word")
            shown.append(terminal.run('echo "<$last>"').partition("\n")[2])
            terminal.run("false")
            shown[-1] += terminal.run('echo "<$?>"').partition("\n")[2]
    first, second = shown
    if lists:
        assert first == second
        assert "<saw:4:" in first
        assert ":3 4>" in first
    else:  # before bash 5.1 there is no way to keep PIPESTATUS
        assert "<saw:4:" in first
        assert first.split(":")[2] == second.split(":")[2]
    assert "<1>" in first
    assert "echo here" in world.commands()


def before_lists(shell: str, spool: Path) -> str:
    """Return the hook as it works in bash before 5.1, where one text holds all prompt commands."""
    from threadkeep.capture.observed.shell_hooks import render

    return render(shell, spool).replace(">= 501", ">= 9900")


def test_others_may_change_the_prompt_commands(world: World) -> None:
    with world.shell("bash") as terminal:
        terminal.run('PROMPT_COMMAND="true; $PROMPT_COMMAND"')
        terminal.run("false")
        terminal.run("PROMPT_COMMAND+=('true more')")
        terminal.run("sh -c 'exit 9'")
        shown = terminal.run("declare -p PROMPT_COMMAND")
    assert [r["exit"] for r in world.records("end1")][-2:] == ["9", "0"]
    assert shown.count("__threadkeep_prompt") == 1
    assert '[0]="__threadkeep_prompt"' in shown
    assert "true more" in shown


@pytest.mark.parametrize("first", [True, False])
def test_bash_preexec_is_joined(world: World, *, first: bool) -> None:
    sides = (PREEXEC, "") if first else ("", PREEXEC)
    with world.shell("bash", *sides) as terminal:
        terminal.run("true")
        terminal.run("sh -c 'exit 6'")
        assert "<6>" in terminal.run('echo "<$seen>"')
        shown = terminal.run("declare -p PROMPT_COMMAND precmd_functions")
    assert world.records("end1")[-3]["exit"] == "6"
    prompt, functions = shown.split("declare -a precmd_functions")
    assert "__threadkeep" not in prompt
    assert functions.count("__threadkeep_") == 2


def test_the_users_trap_is_kept(world: World) -> None:
    with world.shell("bash", before="trap 'echo my own trap' EXIT") as terminal:
        terminal.type("exit\r")
        terminal.read_until("my own trap")
        terminal.ended()
    assert world.commands() == []


def test_exit_and_a_closed_terminal(world: World) -> None:
    with world.shell("bash") as terminal:
        terminal.type("exit 4\r")
        assert terminal.ended() == 4
    with world.shell("bash") as terminal:
        terminal.type("sh -c 'echo begun; exec sleep 60'\r")
        terminal.read_until("begun\r\n")
        terminal.close()
    ends = {r["command"]: r["exit"] for r in world.records("end1")}
    assert ends == {"exit 4": "4", "sh -c 'echo begun; exec sleep 60'": ""}


def test_bytes_that_are_no_text(world: World) -> None:
    with world.shell("bash", environ={"LC_ALL": "C"}) as terminal:
        terminal.run(b"echo '\xff\xfe\x80'")
    with world.shell("bash") as terminal:
        terminal.run(b"echo '\x16\xff\x16\xfe'")
    commands = world.commands()
    assert "echo '\udcff\udcfe\udc80'" in commands
    assert len(commands) == 2


def test_a_prompt_without_variables_shows_nothing_of_ours(world: World) -> None:
    setting = "shopt -u promptvars; PROMPT_COMMAND+=('PS1=\"[$prompt_number]> \"')"
    with world.shell("bash", after=setting) as terminal:
        assert terminal.run("echo one") == "echo one\r\none\r\n"
        assert terminal.run("echo two") == "echo two\r\ntwo\r\n"
    assert world.commands() == ["echo one", "echo two"]
    assert world.records("end1")[1]["started"] == ""


def test_a_hardened_shell_is_left_as_it_is(world: World) -> None:
    with world.shell("bash", before="readonly PROMPT_COMMAND") as terminal:
        assert terminal.run("echo one") == "echo one\r\none\r\n"
    assert world.records() == []
    with world.shell("bash", before="readonly HISTCONTROL=ignoreboth") as terminal:
        assert terminal.run("echo one") == "echo one\r\none\r\n"
        terminal.run(" echo hidden")
        terminal.run("echo two")
    assert world.commands() == ["echo one", "echo two"]

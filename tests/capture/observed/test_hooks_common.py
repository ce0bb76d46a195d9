"""What the hooks of zsh, bash and fish have in common, in real shells on real terminals."""

import os
import re
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.capture.observed.terminals import Record, World, make_world
from tests.conftest import cannot_run
from tests.support.disks import fill, read_only, small_disk
from threadkeep.capture.observed.collector import EndRecord, StartRecord, command_of, read_records
from threadkeep.capture.observed.shell_hooks import render

SHELLS = ("zsh", "bash", "fish")
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")

# A key that puts a very long command on the line, as pasting does but quicker.
LONG = {
    "zsh": "big() { BUFFER=': '${(l:100000::é:)}; zle accept-line; }; zle -N big; bindkey '^T' big",
    "bash": "big() { printf -v READLINE_LINE ': %0100000d' 1; }; bind -x '\"\\C-t\": big'",
    "fish": 'bind \\ct \'commandline -r -- ": "(string repeat -n 100000 é); '
    "commandline -f execute'",
}

# How a control character is typed: fish has no key that quotes, but keys can be bound.
TYPED = {"zsh": "\x16{}", "bash": "\x16{}", "fish": "{}"}

each_shell = pytest.mark.parametrize("shell", SHELLS)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return make_world(tmp_path)


def only(records: list[Record]) -> Record:
    (record,) = records
    return record


@each_shell
def test_a_command_is_written_with_all_that_is_known(world: World, shell: str) -> None:
    with world.shell(shell) as terminal:
        terminal.run("cd /usr")
        terminal.run("(exit 3) || sh -c 'exit 7'" if shell != "fish" else "sh -c 'exit 7'")
        pid = str(terminal.process.pid)
    moved, failed = world.records("end1")
    assert (moved["cwd"], failed["cwd"]) == (str(world.home), "/usr")
    assert (moved["exit"], failed["exit"]) == ("0", "7")
    assert [moved["seq"], failed["seq"]] == ["1", "2"]
    assert failed["pid"] == pid
    assert failed["shell"] == shell
    assert failed["user"] in {"tester", "root"}
    assert failed["host"] == os.uname().nodename
    assert UUID.fullmatch(failed["session"])
    assert moved["session"] == failed["session"]
    assert failed["chars"] == str(len(failed["command"]))
    assert float(moved["started"]) <= float(moved["ended"]) <= float(failed["started"])


@each_shell
def test_the_collector_understands_every_record(world: World, shell: str) -> None:
    with world.shell(shell) as terminal:
        terminal.run("true")
        terminal.run("echo 'ünï\r2'")
    (file,) = world.spool.glob("*.tk")
    parsed = read_records(file.read_bytes(), final=True)
    assert (parsed.damaged, parsed.consumed) == (0, file.stat().st_size)
    assert len(parsed.records) == len(world.records())
    commands = [command_of(r) for r in parsed.records if isinstance(r, EndRecord)]
    assert [command.command for command in commands] == ["true", "echo 'ünï\n2'"]
    starts = {command_of(r).envelope_id for r in parsed.records if isinstance(r, StartRecord)}
    assert starts <= {command.envelope_id for command in commands}


@each_shell
def test_the_duration_is_the_commands_own(world: World, shell: str) -> None:
    with world.shell(shell) as terminal:
        terminal.run("sleep 0.05")
    ended = only(world.records("end1"))
    assert float(ended["ended"]) - float(ended["started"]) >= 0.049


@each_shell
def test_hidden_commands_are_never_written(world: World, shell: str) -> None:
    with world.shell(shell) as terminal:
        assert "secret" in terminal.run(" echo secret")
        if shell != "fish":  # where a tab cannot be typed
            assert "tabbed" in terminal.run("\x16\techo tabbed")
        terminal.run("threadkeep run -- echo recorded by itself")
        terminal.run("threadkeep run true; echo more")
        terminal.run("")
        terminal.run("echo shown")
    shown = ["threadkeep run true; echo more", "echo shown"]
    assert world.commands() == shown
    assert {r["command"] for r in world.records("start1")} <= set(shown)
    assert all(b"secret" not in file.read_bytes() for file in world.spool.iterdir())


@each_shell
def test_the_hook_pauses_when_told(world: World, shell: str) -> None:
    with world.shell(shell) as terminal:
        terminal.run("export THREADKEEP_SHELL=off" if shell == "bash" else "set -g x 1")
        terminal.run("set -g THREADKEEP_SHELL off" if shell == "fish" else "THREADKEEP_SHELL=off")
        terminal.run("echo paused")
        terminal.run("set -e THREADKEEP_SHELL" if shell == "fish" else "unset THREADKEEP_SHELL")
        terminal.run("echo again")
    commands = world.commands()
    assert "echo paused" not in commands
    assert commands[-1] == "echo again"
    started = [record["seq"] for record in world.records("start1")]
    assert started in ([], [record["seq"] for record in world.records("end1")])


@each_shell
def test_an_environment_that_says_off_is_heard(world: World, shell: str) -> None:
    with world.shell(shell, environ={"THREADKEEP_SHELL": "off"}) as terminal:
        terminal.run("echo nothing")
    assert world.records() == []


@each_shell
def test_interrupts(world: World, shell: str) -> None:
    with world.shell(shell) as terminal:
        if shell != "fish":  # which may miss the key while it paints the line
            terminal.type("echo never entered")
            terminal.read_until("entered")  # only then does the shell itself see the next key
            terminal.interrupt()
        terminal.type("sh -c 'echo begun; exec sleep 60'\r")
        terminal.read_until("begun\r\n")
        terminal.type("\x03")
        terminal.prompt()
        terminal.run("true")
    killed, after = world.records("end1")
    assert killed["exit"] == "130"
    assert "never" not in killed["command"]
    assert after["exit"] == "0"


@each_shell
def test_a_background_job_ends_for_the_shell_at_once(world: World, shell: str) -> None:
    with world.shell(shell) as terminal:
        terminal.run("sleep 60 &")
        terminal.run("kill %1" if shell != "fish" else "kill (jobs -p)")
    job = world.records("end1")[0]
    assert (job["command"], job["exit"]) == ("sleep 60 &", "0")
    assert float(job["ended"]) - float(job["started"]) < 30


@each_shell
def test_unicode_and_separators(world: World, shell: str) -> None:
    bind = 'for c in \\x1d \\x1e \\x1f; bind $c "commandline -i -- $c"; end'
    with world.shell(shell, after=bind if shell == "fish" else "") as terminal:
        marks = ("\x1f", "\x1e", "\x1d")
        keys = [TYPED[shell].format(mark) for mark in marks]
        terminal.run("echo 'größe 漢字 🎉' '{}a{}b{}c'".format(*keys))
        terminal.run("true")
    first, second = world.records("end1")
    assert first["command"] == "echo 'größe 漢字 🎉' '\ufffda\ufffdb\ufffdc'"
    assert first["chars"] == str(len(first["command"]))
    assert second["command"] == "true"


@each_shell
def test_several_lines_are_one_command(world: World, shell: str) -> None:
    loop = "for i in 1 2\recho $i\rend" if shell == "fish" else "for i in 1 2\rdo\recho $i\rdone"
    with world.shell(shell) as terminal:
        terminal.run(loop)
        terminal.run("echo 'one\rtwo'")
    first, second = world.commands()
    assert first.replace("\n", ";").replace(" ", "").replace("do;", "do") in {
        "foriin12;doecho$i;done",
        "foriin12;echo$i;end",
    }
    assert second == "echo 'one\ntwo'"


@each_shell
def test_a_very_long_command_is_cut(world: World, shell: str) -> None:
    with world.shell(shell, after=LONG[shell]) as terminal:
        terminal.type("\x14" if shell != "bash" else "\x14\r")
        terminal.prompt()
        terminal.run("true")
    first, second = world.records("end1")
    assert first["chars"] == "100002"
    assert len(first["command"]) == 65_536
    assert second["command"] == "true"


@each_shell
def test_functions_and_aliases_are_written_as_typed(world: World, shell: str) -> None:
    with world.shell(shell) as terminal:
        terminal.run("alias greet='echo hello'")
        assert "hello you" in terminal.run("greet you")
        terminal.run("function f; echo in f; false; end" if shell == "fish" else "f() { false; }")
        terminal.run("f")
    assert world.commands()[1] == "greet you"
    assert world.records("end1")[3]["exit"] == "1"


@each_shell
def test_nested_shells_share_the_session(world: World, shell: str) -> None:
    inner = "bash" if shell == "zsh" else "zsh"
    with world.shell(inner) as prepared:  # only to write its start-up files
        prepared.run("true")
    before = len(world.records("end1"))
    with world.shell(shell, environ={"TMUX_PANE": "%1"}) as terminal:
        terminal.run("true")
        for argv in (world.argv(inner), world.argv(shell)):
            terminal.prompts, outer = 0, terminal.prompts
            terminal.run(" ".join(argv))
            terminal.run("echo inside")
            terminal.type("exit\r")
            terminal.prompts = outer
            terminal.prompt()
    records = world.records("end1")[before:]
    sessions = {r["session"] for r in records if r["pid"] != world.records("end1")[0]["pid"]}
    inside = [r for r in records if r["command"] == "echo inside"]
    assert {r["shell"] for r in inside} == {shell, inner}
    assert len({r["pid"] for r in inside}) == 2
    assert {r["session"] for r in inside} <= sessions
    assert len({r["session"] for r in records if r["shell"] == shell}) == 1
    assert len({r["session"] for r in inside}) == 1


@each_shell
@pytest.mark.parametrize(
    "environ, kept",
    [
        ({}, True),
        ({"THREADKEEP_SESSION_PLACE": "|%2::::"}, True),
        ({"THREADKEEP_SESSION_PLACE": "|%1::::"}, False),
        ({"THREADKEEP_SESSION_PLACE": "|:::7:"}, False),
        ({"THREADKEEP_SESSION_ID": "not an id"}, False),
    ],
)
def test_a_new_place_is_a_new_session(
    world: World, shell: str, environ: dict[str, str], *, kept: bool
) -> None:
    outer = "0c3f0a52-9a27-4ae6-b4a2-6d7f3b7d5a10"
    inherited = {"THREADKEEP_SESSION_ID": outer, "THREADKEEP_SESSION_PLACE": "|%2::::"}
    with world.shell(shell, environ={"TMUX_PANE": "%2"} | inherited | environ) as terminal:
        terminal.run("true")
        shown = terminal.run('echo "<$THREADKEEP_SESSION_ID>"')
    session = world.records("end1")[0]["session"]
    assert (session == outer) is kept
    assert UUID.fullmatch(session)
    assert f"<{session}>" in shown


@each_shell
def test_hippos_session_is_taken_over(world: World, shell: str) -> None:
    session = "6d1e0a52-9a27-4ae6-b4a2-6d7f3b7d5a11"
    with world.shell(shell, environ={"HIPPO_SESSION_ID": session}) as terminal:
        terminal.run("true")
    assert only(world.records("end1"))["session"] == session
    assert only(world.records("env1"))["HIPPO_SESSION_ID"] == session


@each_shell
def test_an_id_without_the_kernels_help(
    world: World, shell: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without(name: str, spool: Path) -> str:
        return render(name, spool).replace("/proc/", "/nonexistent/")

    monkeypatch.setattr("tests.capture.observed.terminals.render", without)
    for _ in range(2):
        with world.shell(shell) as terminal:
            terminal.run("true")
    first, second = (record["session"] for record in world.records("end1"))
    assert UUID.fullmatch(first)
    assert UUID.fullmatch(second)
    assert first != second


@each_shell
def test_the_environment_is_written_once_and_when_it_changes(world: World, shell: str) -> None:
    export = "set -gx" if shell == "fish" else "export"
    with world.shell(shell, environ={"SECRET_THING": "x", "NODE_ENV": "a\nb"}) as terminal:
        terminal.run("true")
        terminal.run("true")
        terminal.run(f"{export} AWS_PROFILE{' ' if shell == 'fish' else '='}live")
        terminal.run("true")
    first, second = world.records("env1")
    assert first["NODE_ENV"] == "a\nb"
    assert first["LANG"] == "C.UTF-8"
    assert "SECRET_THING" not in first
    assert not {"PWD", "OLDPWD"} & set(first)
    assert (first.get("AWS_PROFILE"), second["AWS_PROFILE"]) == (None, "live")
    assert world.records()[0]["kind"] == "env1"


@each_shell
def test_files_are_private_and_the_umask_stays(world: World, shell: str) -> None:
    with world.shell(shell, before="umask 0022") as terminal:
        terminal.run("true")
        assert "022" in terminal.run("umask")
        terminal.run("echo >made")
    assert {stat.S_IMODE(f.stat().st_mode) for f in world.spool.iterdir()} == {0o600}
    assert stat.S_IMODE((world.home / "made").stat().st_mode) == 0o644


@each_shell
def test_a_file_that_was_taken_away_is_made_again(world: World, shell: str) -> None:
    with world.shell(shell) as terminal:
        terminal.run("echo one")
        (taken,) = world.spool.glob("*.tk")
        name = taken.name
        taken.rename(world.home / "taken")
        terminal.run("echo two")
    assert [file.name for file in world.spool.glob("*.tk")] == [name]
    assert re.fullmatch(rf"{shell}-\d+-\d+\.tk", name)
    assert world.commands() == ["echo two"]
    assert stat.S_IMODE((world.spool / name).stat().st_mode) == 0o600


@each_shell
def test_loading_twice_is_harmless(world: World, shell: str) -> None:
    again = f"source {world.home}/hook.{shell}"
    with world.shell(shell, after=again) as terminal:
        terminal.run("echo one")
        terminal.run(again)
        terminal.run("echo two")
    assert world.commands() == ["echo one", again, "echo two"]
    assert [r["seq"] for r in world.records("end1")] == ["1", "2", "3"]
    assert len(world.records("env1")) == 1


@each_shell
def test_a_spool_of_any_name(tmp_path: Path, shell: str) -> None:
    world = make_world(tmp_path)
    odd = tmp_path / 'it\'s "a" $spool `x` \\ é\n!*?'
    odd.mkdir(mode=0o700)
    with world._replace(spool=odd).shell(shell) as terminal:
        terminal.run("echo baked in")
        named = "set -gx THREADKEEP_SPOOL" if shell == "fish" else "export THREADKEEP_SPOOL="
        terminal.run(f"{named}{' ' if shell == 'fish' else ''}{world.spool}")
        terminal.run("echo named")
    assert world._replace(spool=odd).commands()[0] == "echo baked in"
    assert world.commands()[-1] == "echo named"


@pytest.fixture(params=["missing", "a file", "read-only", "full"])
def refusing(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """Return a spool folder that takes nothing, in one of the ways in which that happens."""
    spool = tmp_path / "refusing"
    if request.param == "full":
        with small_disk(spool, "64k"):
            spool.chmod(0o700)
            fill(spool)
            yield spool
        return
    if request.param == "a file":
        spool.write_text("", encoding="utf-8")
    elif request.param == "read-only":
        spool.mkdir()
        with read_only(spool):
            yield spool
        return
    yield spool


def said(shown: str) -> list[str]:
    """Return the lines that were printed, without the echo of what was typed."""
    lines = [line.strip("\r") for line in re.sub(r"\x1b\[\?2004[hl]", "", shown).split("\n")]
    return [line for line in lines[1:] if line.strip() and "⏎" not in line]


@pytest.mark.parametrize("shell", ["zsh", "bash"])
def test_a_spool_that_takes_nothing_is_not_noticed(
    world: World, refusing: Path, shell: str
) -> None:
    with world._replace(spool=refusing).shell(shell) as terminal:
        assert said(terminal.run("echo hello")) == ["hello"]
        assert said(terminal.run("false")) == []
        assert said(terminal.run("echo $?")) == ["1"]


def test_fish_tells_of_a_full_disk_once_and_of_nothing_else(world: World, refusing: Path) -> None:
    with world._replace(spool=refusing).shell("fish") as terminal:
        terminal.run("echo first")
        assert said(terminal.run("echo hello")) == ["hello"]
        assert said(terminal.run("false")) == []
        assert said(terminal.run("echo $status")) == ["1"]


@each_shell
def test_a_folder_of_somebody_else_is_left_alone(world: World, shell: str) -> None:
    if os.geteuid() != 0:
        cannot_run("needs root to give a folder away")
    shutil.chown(world.spool, 65_534)
    with world.shell(shell) as terminal:
        terminal.run("true")
    assert list(world.spool.iterdir()) == []


@each_shell
def test_shells_that_nobody_types_into_are_left_alone(world: World, shell: str) -> None:
    with world.shell(shell) as terminal:
        hook = world.home / f"hook.{shell}"
        terminal.run(f"{shell} -c 'source {hook}; true'")
    assert len(world.records("end1")) == 1


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_what_does_not_return_is_known_by_its_start(world: World, shell: str) -> None:
    with world.shell(shell) as terminal:
        terminal.type("exec sh -c 'exit 5'\r")
        assert terminal.ended() == 5
    with world.shell(shell) as terminal:
        terminal.type("exit 4\r")
        assert terminal.ended() == 4
    with world.shell(shell) as terminal:
        terminal.type("sh -c 'echo begun; exec sleep 60'\r")
        terminal.read_until("begun\r\n")
        terminal.close()
    started = {record["command"] for record in world.records("start1")}
    assert started == {"exec sh -c 'exit 5'", "exit 4", "sh -c 'echo begun; exec sleep 60'"}
    assert [(r["command"], r["exit"]) for r in world.records("end1")] in ([], [("exit 4", "4")])

"""zsh's own ways: options, hooks of others, what its history leaves out."""

from pathlib import Path

import pytest

from tests.capture.observed.terminals import World, make_world
from threadkeep.capture.observed.shell_hooks import loading


@pytest.fixture
def world(tmp_path: Path) -> World:
    return make_world(tmp_path)


@pytest.mark.parametrize(
    "options",
    [
        "ksh_arrays",
        "no_unset",
        "no_clobber no_append_create",
        "err_return",
        "sh_word_split glob_subst",
        "warn_create_global warn_nested_var",
        "ksh_glob no_bare_glob_qual",
        "rc_expand_param null_glob",
        "no_multibyte",
        "posix_builtins",
        "extended_glob no_nomatch csh_null_glob",
    ],
)
def test_odd_options(world: World, options: str) -> None:
    with world.shell("zsh", after=f"setopt {options}") as terminal:
        shown = terminal.run("echo one")
        terminal.run("cd /usr && false")
        terminal.run("echo 'two  *'")
    assert shown.count("\n") == 2
    assert world.commands() == ["echo one", "cd /usr && false", "echo 'two  *'"]
    assert [r["exit"] for r in world.records("end1")] == ["0", "1", "0"]
    assert world.records("end1")[2]["cwd"] == "/usr"


def test_the_installed_line_loads_it_under_any_options_and_aliases(world: World) -> None:
    odd = """
    setopt ksh_arrays sh_glob ignore_braces rc_quotes
    alias local=false typeset=false emulate='emulate' sysopen=false zmodload=false
    alias -g then='then false;' ; unalias then
    """
    with world.shell("zsh") as terminal:
        terminal.run("true")
    (world.home / "kept.zsh").write_bytes((world.home / "hook.zsh").read_bytes())
    line = loading("zsh", world.home / "kept.zsh")
    (world.home / "hook.zsh").write_text("", encoding="utf-8")
    with world.shell("zsh", hook=False, after=f"{odd}\n{line}") as terminal:
        terminal.run("echo one")
    assert world.commands() == ["true", "echo one"]


def test_others_find_everything_as_it_was(world: World) -> None:
    theirs = """
    autoload -Uz add-zsh-hook
    after() { last="<$?:$_:$pipestatus>"; }
    before() { typed="<$1>"; }
    add-zsh-hook precmd after
    add-zsh-hook preexec before
    """
    shown = []
    for hook in (True, False):
        with world.shell("zsh", before=theirs, hook=hook) as terminal:
            terminal.run("sh -c 'exit 3' | sh -c 'exit 4' word")
            shown.append(terminal.run("print -r -- $last").partition("\n")[2])
            shown[-1] += terminal.run("print -r -- $typed").partition("\n")[2]
    assert shown[0] == shown[1]
    assert "<4:" in shown[0]
    assert "<print -r -- $typed>" in shown[0]


def test_what_history_ignores_is_not_written(world: World) -> None:
    after = "HISTORY_IGNORE='(ls*|*secret*)'; setopt hist_ignore_space hist_ignore_dups"
    with world.shell("zsh", after=after) as terminal:
        for line in ("ls /dev/null", "echo secret", " echo x", "echo 1", "echo 1"):
            terminal.run(line)
    assert world.commands() == ["echo 1", "echo 1"]
    assert len(world.records("start1")) == 2


def test_another_terminal_is_another_session(world: World) -> None:
    with world.shell("zsh") as terminal:
        terminal.run("true")
        place = terminal.run('print -r -- "<$THREADKEEP_SESSION_PLACE>"')
    outer = world.records("end1")[0]["session"]
    inherited = {"THREADKEEP_SESSION_ID": outer, "THREADKEEP_SESSION_PLACE": "/dev/other|::::"}
    assert "</dev/" in place
    with world.shell("zsh", environ=inherited) as terminal:
        terminal.run("echo moved")
    (moved,) = (r for r in world.records("end1") if r["command"] == "echo moved")
    assert moved["session"] != outer


def test_bytes_that_are_no_text(world: World) -> None:
    key = "odd() { BUFFER=$'echo \\xff\\xfe'; zle accept-line; }; zle -N odd; bindkey '^T' odd"
    with world.shell("zsh", after=key) as terminal:
        terminal.type("\x14")
        terminal.prompt()
        terminal.run("true")
    assert world.commands() == ["echo \udcff\udcfe", "true"]

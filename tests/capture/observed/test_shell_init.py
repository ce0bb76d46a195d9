"""Installing the hooks: nothing of the user's is changed but for one block, which goes again."""

import os
import stat
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from tests.capture.observed.terminals import Terminal, World, make_world
from tests.conftest import need_tool
from tests.support.disks import read_only
from threadkeep.capture.observed.shell_hooks import (
    SHELLS,
    ShellInstallPlan,
    install,
    loading,
    quoted,
    render,
    start_up_files,
    uninstall,
    with_block,
    without_block,
)
from threadkeep.errors import Conflict, Invalid, ReadOnly

each_shell = pytest.mark.parametrize("shell", SHELLS)
CONTENTS = st.lists(
    st.sampled_from([b"alias l=ls", b"\r", b"\n", b"# \xff", b"export A=1", b" "]), max_size=12
).map(b"".join)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


def environ(home: Path) -> dict[str, str]:
    return {"HOME": str(home), "PATH": "/usr/local/bin:/usr/bin:/bin", "TERM": "dumb"}


def rc_of(shell: str, home: Path) -> Path:
    (file,) = start_up_files(shell, environ(home), "linux")
    return file


def tree(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Return every file below a folder: its mode and its content."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(p): (stat.S_IMODE(p.stat().st_mode), p.read_bytes()) for p in files}


def actions(plan: ShellInstallPlan) -> list[str]:
    return [step.action for step in plan.steps]


# ------------------------------------------------------------------ the block


@given(st.none() | CONTENTS, st.sampled_from([b"one", b"two words"]))
def test_taking_the_block_out_restores_every_byte(content: bytes | None, block: bytes) -> None:
    assert without_block(with_block(content, block)) == content


@given(st.none() | CONTENTS)
def test_putting_the_block_in_again_replaces_it(content: bytes | None) -> None:
    once = with_block(content, b"new")
    assert with_block(once, b"new") == once
    assert with_block(with_block(content, b"old"), b"new") == once


@given(CONTENTS, CONTENTS)
def test_what_was_written_behind_the_block_stays(content: bytes, later: bytes) -> None:
    left = without_block(with_block(content, b"block") + later)
    assert left is not None
    assert left.replace(b"\n", b"") == (content + later).replace(b"\n", b"")
    assert left.startswith(content)
    assert left.endswith(later)


def test_a_new_file_that_somebody_wrote_to_stays() -> None:
    assert without_block(with_block(None, b"block") + b"mine\n") == b"mine\n"


def test_a_block_without_its_end_is_left_to_the_user(home: Path, data: Path) -> None:
    torn = with_block(b"a\n", b"block")[:-3]
    rc_of("bash", home).write_bytes(torn)
    with pytest.raises(Conflict, match="bashrc"):
        install("bash", environ(home), data)
    with pytest.raises(Conflict, match="bashrc"):
        uninstall("bash", environ(home), data)
    assert rc_of("bash", home).read_bytes() == torn


# ------------------------------------------------------------------ text


@each_shell
@pytest.mark.parametrize("text", ["plain", "it's", "a\nb", "\\", '$x `y` "z" !1 *', "'", "é\\'"])
def test_any_text_is_one_word(shell: str, text: str) -> None:
    script = f"printf '<%s>' {quoted(shell, text)}"
    done = subprocess.run([need_tool(shell), "-c", script], capture_output=True, check=True)
    assert done.stdout.decode() == f"<{text}>"


@each_shell
def test_the_hook_is_a_script_that_its_shell_can_read(shell: str, tmp_path: Path) -> None:
    file = tmp_path / "hook"
    file.write_text(render(shell, tmp_path / "it's"), encoding="utf-8")
    subprocess.run([need_tool(shell), "-n", str(file)], check=True)
    assert "@SPOOL@" not in file.read_text("utf-8")


def test_start_up_files_are_where_the_shells_look(home: Path) -> None:
    env = {"HOME": "/h", "ZDOTDIR": "/z", "XDG_CONFIG_HOME": "/c"}
    assert start_up_files("zsh", env, "linux") == (Path("/z/.zshrc"),)
    assert start_up_files("fish", env, "linux") == (Path("/c/fish/conf.d/threadkeep.fish"),)
    assert start_up_files("bash", env, "linux") == (Path("/h/.bashrc"),)
    assert start_up_files("bash", env, "darwin") == (Path("/h/.bashrc"), Path("/h/.bash_profile"))


def test_what_cannot_be_is_refused(data: Path) -> None:
    with pytest.raises(Invalid, match="tcsh"):
        install("tcsh", {"HOME": "/h"}, data)
    with pytest.raises(Invalid, match="tcsh"):
        render("tcsh", data)
    with pytest.raises(Invalid, match="HOME"):
        install("zsh", {}, data)
    assert not data.exists()


# ------------------------------------------------------------------ files


@each_shell
@pytest.mark.parametrize("content", [None, b"", b"alias l=ls\n", b"a\r\nb\r\n", b"no end"])
def test_there_and_back(shell: str, content: bytes | None, home: Path, data: Path) -> None:
    rc = rc_of(shell, home)
    rc.parent.mkdir(parents=True, exist_ok=True)
    if content is not None:
        rc.write_bytes(content)
        rc.chmod(0o640)
    before = tree(home)
    planned = install(shell, environ(home), data, dry_run=True)
    assert tree(home) == before
    assert not data.exists()
    assert install(shell, environ(home), data) == planned
    assert actions(planned) == ["create", "create" if content is None else "change"]
    assert stat.S_IMODE(rc.stat().st_mode) == (0o644 if content is None else 0o640)
    assert stat.S_IMODE((data / "spool").stat().st_mode) == 0o700
    assert install(shell, environ(home), data).changes == ()
    planned = uninstall(shell, environ(home), data, dry_run=True)
    assert uninstall(shell, environ(home), data) == planned
    assert tree(home) == before
    assert tree(data) == {}
    assert uninstall(shell, environ(home), data).changes == ()


def test_another_data_folder_replaces_the_block(home: Path, data: Path, tmp_path: Path) -> None:
    install("bash", environ(home), data)
    plan = install("bash", environ(home), tmp_path / "other")
    assert actions(plan) == ["create", "change"]
    text = rc_of("bash", home).read_text("utf-8")
    assert text.count(">>> threadkeep") == 1
    assert str(data) not in text


@pytest.mark.parametrize("dangling", [True, False])
def test_links_stay_links(home: Path, data: Path, tmp_path: Path, *, dangling: bool) -> None:
    managed = tmp_path / "dotfiles" / "bashrc"
    managed.parent.mkdir()
    if not dangling:
        managed.write_bytes(b"alias l=ls\n")
    rc = rc_of("bash", home)
    rc.symlink_to("../dotfiles/bashrc")
    plan = install("bash", environ(home), data)
    assert plan.steps[1].path == managed
    assert rc.is_symlink()
    assert b"threadkeep" in managed.read_bytes()
    uninstall("bash", environ(home), data)
    assert rc.is_symlink()
    assert managed.exists() is not dangling
    assert list(managed.parent.iterdir()) == ([] if dangling else [managed])


def test_a_folder_that_cannot_be_written_keeps_its_file(home: Path, data: Path) -> None:
    rc = rc_of("bash", home)
    rc.write_bytes(b"alias l=ls\n")
    with read_only(home), pytest.raises(ReadOnly, match="bashrc"):
        install("bash", environ(home), data)
    assert rc.read_bytes() == b"alias l=ls\n"
    assert [path.name for path in home.iterdir()] == [".bashrc"]


def test_a_folder_in_the_place_of_the_file_is_told(home: Path, data: Path) -> None:
    rc_of("bash", home).mkdir()
    with pytest.raises(ReadOnly, match="bashrc"):
        install("bash", environ(home), data)


def test_a_relative_data_folder_is_named_from_the_root(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    install("bash", environ(home), Path("data"))
    assert f"'{tmp_path}/data/hooks/hook.bash'" in rc_of("bash", home).read_text("utf-8")
    assert f"'{tmp_path}/data/spool'" in (tmp_path / "data/hooks/hook.bash").read_text("utf-8")


# ------------------------------------------------------------------ the installed hook


@each_shell
def test_an_installed_hook_records_and_a_removed_one_says_nothing(
    shell: str, tmp_path: Path
) -> None:
    made = make_world(tmp_path)
    data = tmp_path / "it's data\n"
    world = World(made.home, data / "spool")
    with world.shell(shell, hook=False):
        pass  # only to write the user's own start-up file
    install(shell, world.environ(), data)
    terminal = Terminal(world.argv(shell), world.environ(), world.home)
    try:
        terminal.prompt()
        terminal.run("echo recorded")
    finally:
        terminal.kill()
    assert world.commands() == ["echo recorded"]
    os.remove(data / "hooks" / f"hook.{shell}")  # noqa: PTH107  (as if the data were gone)
    terminal = Terminal(world.argv(shell), world.environ(), world.home)
    try:
        shown = terminal.prompt()
    finally:
        terminal.kill()
    assert "threadkeep" not in shown
    assert loading(shell, data / "hooks" / f"hook.{shell}") in rc_text(shell, world)


def rc_text(shell: str, world: World) -> str:
    (file,) = start_up_files(shell, world.environ(), "linux")
    return file.read_text("utf-8")

"""Files in a folder that somebody hostile changes while we work in it."""

import errno
import itertools
import os
import shutil
import socket
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.conftest import cannot_run
from threadkeep.base import nofollow
from threadkeep.errors import (
    Conflict,
    Invalid,
    NotFound,
    ReadOnly,
    StorageFull,
    ThreadkeepError,
    TooLarge,
)

PLACE = ("inbox", "m1")
SECRET = b"the host's secret"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return world(tmp_path)


def world(place: Path) -> Path:
    """Make a session's folder, and beside it one that nobody may read, write or remove."""
    outside = place / "outside"
    (outside / "m1").mkdir(parents=True)
    for path in (outside / "a.txt", outside / "m1" / "a.txt"):
        path.write_bytes(SECRET)
    root = place / "session"
    root.mkdir()
    return root


def snapshot(folder: Path) -> dict[str, tuple[int, ...] | bytes | str]:
    """Take down all that can be seen of a folder; a link by what it says."""
    found: dict[str, tuple[int, ...] | bytes | str] = {}
    for path in sorted(folder.rglob("*")):
        info, name = path.lstat(), str(path.relative_to(folder))
        found[name] = (info.st_mode, info.st_uid, info.st_nlink, info.st_ino)
        if path.is_symlink():
            found[f"{name} ->"] = str(path.readlink())
        elif path.is_file():
            found[f"{name} ="] = path.read_bytes()
    return found


def write(root: Path, **files: bytes) -> None:
    nofollow.make_dir(root, *PLACE)
    nofollow.write_files(root, PLACE, files)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


# ---------------------------------------------------------------------- the ordinary


def test_what_is_written_is_read_again(root: Path) -> None:
    write(root, a=b"first", b=b"")
    assert nofollow.read(root, PLACE, "a", 5) == b"first"
    assert nofollow.read(root, PLACE, "b", 0) == b""
    assert nofollow.list_names(root, *PLACE) == ["a", "b"]
    assert nofollow.is_file(root, PLACE, "a")


def test_everything_is_for_its_owner_alone(root: Path) -> None:
    write(root, a=b"x")
    modes = [stat.S_IMODE(p.stat().st_mode) for p in (root / "inbox", root / "inbox/m1")]
    assert modes == [0o700, 0o700]
    assert stat.S_IMODE((root / "inbox/m1/a").stat().st_mode) == 0o600


def test_a_root_that_is_reached_by_a_link_is_the_callers_choice(root: Path, tmp_path: Path) -> None:
    (tmp_path / "way").symlink_to(root)
    write(tmp_path / "way", a=b"x")
    assert contents(root / "inbox/m1") == {"a": b"x"}


def test_what_is_missing_is_named(root: Path) -> None:
    with pytest.raises(NotFound, match="inbox/m1/a"):
        nofollow.read(root, PLACE, "a", 10)
    with pytest.raises(NotFound, match="inbox/m1"):
        nofollow.list_names(root, *PLACE)
    with pytest.raises(NotFound, match="inbox/m1"):
        nofollow.write_files(root, PLACE, {"a": b"x"})
    with pytest.raises(NotFound, match="gone"):
        nofollow.make_dir(root / "gone", "inbox")
    assert not nofollow.is_file(root, PLACE, "a")
    assert snapshot(root) == {}


@pytest.mark.parametrize("size, fits", [(9, True), (10, True), (11, False)])
def test_a_limit_is_a_limit(root: Path, size: int, *, fits: bool) -> None:
    write(root, a=b"x" * size)
    if fits:
        assert len(nofollow.read(root, PLACE, "a", 10)) == size
    else:
        with pytest.raises(TooLarge, match=r"m1/a has more than 10 bytes"):
            nofollow.read(root, PLACE, "a", 10)


def test_a_huge_file_is_refused_by_its_size(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(root, a=b"")
    os.truncate(root / "inbox/m1/a", 1 << 40)
    monkeypatch.setattr(os, "read", lambda *_: pytest.fail("it was read"))
    with pytest.raises(TooLarge):
        nofollow.read(root, PLACE, "a", 1 << 20)


def test_a_file_that_grows_while_it_is_read_is_refused(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(root, a=b"x")
    real = os.read

    def read_and_append(file: int, size: int) -> bytes:
        with (root / "inbox/m1/a").open("ab") as more:
            more.write(b"x" * 100)
        return real(file, size)

    monkeypatch.setattr(os, "read", read_and_append)
    with pytest.raises(TooLarge):
        nofollow.read(root, PLACE, "a", 1000)


@pytest.mark.parametrize("locked", ["inbox", "m1", "a"])
def test_what_may_not_be_read_is_a_bad_file(
    root: Path, monkeypatch: pytest.MonkeyPatch, locked: str
) -> None:
    write(root, a=b"x")
    fail_to_open(monkeypatch, locked, errno.EACCES)
    with pytest.raises(Invalid, match="m1/a may not be read"):
        nofollow.read(root, PLACE, "a", 10)


def test_a_trouble_of_the_host_is_not_the_files_fault(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(root, a=b"x")
    fail_to_open(monkeypatch, "a", errno.EMFILE)
    with pytest.raises(ReadOnly, match="m1/a: Too many open files"):
        nofollow.read(root, PLACE, "a", 10)


def fail_to_open(patch: pytest.MonkeyPatch, refused: str, number: int) -> None:
    real = os.open

    def refuse(name: Any, *args: Any, **options: Any) -> int:
        if name == refused:
            raise OSError(number, os.strerror(number))
        return real(name, *args, **options)

    patch.setattr(os, "open", refuse)


# ---------------------------------------------------------------------- writing


def test_the_same_bytes_are_left_and_the_missing_added(root: Path) -> None:
    write(root, a=b"1")
    before = snapshot(root)
    write(root, a=b"1")
    assert snapshot(root) == before
    write(root, a=b"1", b=b"2")
    assert contents(root / "inbox/m1") == {"a": b"1", "b": b"2"}


@pytest.mark.parametrize("other", [b"", b"2", b"longer"])
def test_other_bytes_are_a_conflict_and_nothing_is_written(root: Path, other: bytes) -> None:
    write(root, b=b"1")
    before = snapshot(root)
    with pytest.raises(Conflict, match="m1/b already exists with other content"):
        write(root, a=b"new", b=other)
    assert snapshot(root) == before


def test_a_full_disk_leaves_nothing_behind(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nofollow.make_dir(root, *PLACE)
    real = os.write

    def fill(file: int, data: memoryview) -> int:
        if bytes(data[:3]) == b"big":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(file, data)

    monkeypatch.setattr(os, "write", fill)
    with pytest.raises(StorageFull, match="inbox/m1"):
        nofollow.write_files(root, PLACE, {"a": b"small", "b": b"big"})
    assert list((root / "inbox/m1").iterdir()) == []


def test_a_short_write_is_continued(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda file, data: real(file, data[:3]))
    write(root, a=b"in several pieces")
    assert contents(root / "inbox/m1") == {"a": b"in several pieces"}


@pytest.mark.parametrize("data, fine", [(b"mine", True), (b"other", False)])
def test_another_writer_may_be_quicker(
    root: Path, monkeypatch: pytest.MonkeyPatch, data: bytes, *, fine: bool
) -> None:
    nofollow.make_dir(root, *PLACE)
    target, real = root / "inbox/m1/a", os.link

    def link(*args: Any, **options: Any) -> None:
        target.write_bytes(data)
        real(*args, **options)

    monkeypatch.setattr(os, "link", link)
    if fine:
        nofollow.write_files(root, PLACE, {"a": b"mine"})
    else:
        with pytest.raises(Conflict):
            nofollow.write_files(root, PLACE, {"a": b"mine"})
    assert contents(root / "inbox/m1") == {"a": data}


def test_a_name_that_comes_and_goes_is_not_taken_for_written(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link(*_: object, **__: object) -> None:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))

    monkeypatch.setattr(os, "link", link)
    with pytest.raises(Conflict, match="m1/a came and went"):
        write(root, a=b"1")
    assert contents(root / "inbox/m1") == {}


def test_a_file_system_without_hard_links_will_do(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    write(root, a=b"1")
    assert contents(root / "inbox/m1") == {"a": b"1"}


def test_what_cannot_be_written_is_named(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, "mkdir", refuse)
    with pytest.raises(ReadOnly, match="session/inbox"):
        nofollow.make_dir(root, "inbox")


def test_what_root_makes_belongs_to_the_owner_of_the_root_folder(root: Path) -> None:
    if os.geteuid() != 0:
        cannot_run("needs root to give files away")
    os.chown(root, 12345, 23456)
    (root / "inbox").mkdir()  # as a process leaves it that is killed right after it made it
    write(root, a=b"x")
    owners = {(p.stat().st_uid, p.stat().st_gid) for p in root.rglob("*")}
    assert owners == {(12345, 23456)}


# ---------------------------------------------------------------------- names


@pytest.mark.parametrize(
    "name", ["", ".", "..", "/", "a/b", "../a.txt", "/etc/passwd", "a\0b", "\ud83d"]
)
def test_only_one_plain_name_is_a_part(root: Path, name: str) -> None:
    calls: list[Callable[[], object]] = [
        lambda: nofollow.make_dir(root, name),
        lambda: nofollow.write_files(root, (), {name: b"x"}),
        lambda: nofollow.write_files(root, (name,), {"a": b"x"}),
        lambda: nofollow.read(root, (), name, 10),
        lambda: nofollow.list_names(root, name),
        lambda: nofollow.is_file(root, (name,), "a"),
        lambda: nofollow.remove_tree(root, name),
        lambda: nofollow.remove_empty(root, "inbox", name),
    ]
    before = snapshot(root.parent)
    for call in calls:
        with pytest.raises(Invalid, match="is not a file name"):
            call()
    assert snapshot(root.parent) == before


def test_a_name_that_is_too_long_is_refused(root: Path) -> None:
    nofollow.make_dir(root, "inbox")
    with pytest.raises(Invalid, match="not a name this file system accepts"):
        nofollow.write_files(root, ("inbox",), {"x" * 256: b""})
    with pytest.raises(Invalid, match="not a name this file system accepts"):
        nofollow.make_dir(root, "x" * 256)
    assert [p.name for p in root.rglob("*")] == ["inbox"]


@given(st.lists(st.text(st.characters(exclude_categories=()), max_size=6), max_size=3), st.text())
def test_no_name_leads_outside(parts: list[str], name: str) -> None:
    with tempfile.TemporaryDirectory() as place:
        root = world(Path(place))
        before = snapshot(root.parent / "outside")
        with suppress(Invalid):
            nofollow.make_dir(root, *parts)
            nofollow.write_files(root, parts, {name: b"x"})
            assert nofollow.read(root, parts, name, 1) == b"x"
        assert snapshot(root.parent / "outside") == before
        assert {p.name for p in root.parent.iterdir()} == {"outside", "session"}


# ---------------------------------------------------------------------- what is planted


def plant_link(path: Path, outside: Path) -> None:
    path.symlink_to(outside / "a.txt")


def plant_dangling_link(path: Path, outside: Path) -> None:
    path.symlink_to(outside / "new.txt")


def plant_hard_link(path: Path, outside: Path) -> None:
    path.hardlink_to(outside / "a.txt")


def plant_pipe(path: Path, outside: Path) -> None:
    os.mkfifo(path)


def plant_folder(path: Path, outside: Path) -> None:
    path.mkdir()


def plant_device(path: Path, outside: Path) -> None:
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))
    except PermissionError:
        cannot_run("needs the right to make devices")


def plant_socket(path: Path, outside: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # the path of a socket has a hundred characters at most
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path.name)
    finally:
        os.chdir(here)


FILES = [
    *(plant_link, plant_dangling_link, plant_hard_link, plant_pipe, plant_folder, plant_device),
    plant_socket,
]
Plant = Callable[[Path, Path], None]


@pytest.mark.parametrize("plant", FILES)
def test_a_planted_file_is_neither_read_nor_written(root: Path, plant: Plant) -> None:
    nofollow.make_dir(root, *PLACE)
    plant(root / "inbox/m1/a.txt", root.parent / "outside")
    before = snapshot(root.parent)
    with pytest.raises(Invalid, match=r"m1/a\.txt"):
        nofollow.read(root, PLACE, "a.txt", 1000)
    with pytest.raises(Invalid, match=r"m1/a\.txt"):
        nofollow.write_files(root, PLACE, {"b.txt": b"x", "a.txt": SECRET})
    assert snapshot(root.parent) == before


@pytest.mark.parametrize("plant", FILES)
def test_only_a_plain_file_is_a_file(root: Path, plant: Plant) -> None:
    plant(root / "a.txt", root.parent / "outside")
    assert not nofollow.is_file(root, (), "a.txt")


def test_a_hard_link_is_read_where_that_is_allowed(root: Path) -> None:
    plant_hard_link(root / "a.txt", root.parent / "outside")
    assert nofollow.read(root, (), "a.txt", 100, hard_links=True) == SECRET


def test_a_hard_link_is_not_even_opened(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To open and close a database would drop the locks that this process has on it."""
    plant_hard_link(root / "a.txt", root.parent / "outside")
    opened: list[object] = []
    real = os.open

    def note(name: object, *args: Any, **options: Any) -> int:
        opened.append(name)
        return real(name, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", note)
    with pytest.raises(Invalid, match="second name"):
        nofollow.read(root, (), "a.txt", 100)
    assert opened == [root]


def swap_inbox(root: Path) -> None:
    replace(root / "inbox", root.parent / "outside")


def swap_message(root: Path) -> None:
    replace(root / "inbox/m1", root.parent / "outside")


def swap_message_for_a_file(root: Path) -> None:
    replace(root / "inbox/m1", None)


def replace(path: Path, target: Path | None) -> None:
    """Put a link in a place, or a pipe; what was there stays, under another name."""
    with suppress(FileNotFoundError):
        path.rename(path.with_name(f"{path.name}.away"))
    with suppress(FileNotFoundError):
        os.mkfifo(path) if target is None else path.symlink_to(target)


Swap = Callable[[Path], None]
FOLDERS: list[Swap] = [swap_inbox, swap_message, swap_message_for_a_file]


@pytest.mark.parametrize("swap", FOLDERS)
def test_a_planted_folder_is_refused_by_every_function(root: Path, swap: Swap) -> None:
    write(root, b=b"x")
    swap(root)
    before = snapshot(root.parent)
    calls: list[Callable[[], object]] = [
        lambda: nofollow.make_dir(root, *PLACE),
        lambda: nofollow.write_files(root, PLACE, {"a": b"x"}),
        lambda: nofollow.read(root, PLACE, "a.txt", 1000),
        lambda: nofollow.list_names(root, *PLACE),
        lambda: nofollow.is_file(root, PLACE, "a.txt"),
        lambda: nofollow.remove_tree(root, *PLACE, "a.txt"),
        lambda: nofollow.remove_empty(root, *PLACE, "a.txt"),
    ]
    for call in calls:
        with pytest.raises(Invalid, match="is refused"):
            call()
    assert snapshot(root.parent) == before


# ---------------------------------------------------------------------- swaps between two steps

STEPS = ("open", "mkdir", "lstat", "link", "rename", "unlink", "rmdir", "scandir", "fsync", "fstat")


class Killed(BaseException):
    """Stands for the end of the process: no system call of it comes after this."""


def before_steps(patch: pytest.MonkeyPatch, do: Callable[[int], None]) -> Iterator[int]:
    """Call `do` with its number before each system call; give the counter of the calls."""
    calls = itertools.count()

    def wrap(real: Callable[..., Any]) -> Callable[..., Any]:
        def step(*args: Any, **options: Any) -> Any:
            do(next(calls))
            return real(*args, **options)

        return step

    for name in STEPS:
        patch.setattr(os, name, wrap(getattr(os, name)))
    return calls


def run_disturbed(
    action: Callable[[], object], at: int, disturb: Callable[[], None]
) -> tuple[bool, object]:
    """Disturb an action before its step number `at`: tell whether that came, and its answer."""
    answer: object = None
    with pytest.MonkeyPatch.context() as patch:
        calls = before_steps(patch, lambda number: disturb() if number == at else None)
        with suppress(ThreadkeepError):
            answer = action()
        return next(calls) > at, answer


def swap_file(root: Path) -> None:
    replace(root / "inbox/m1/a.txt", root.parent / "outside/a.txt")


def swap_file_for_a_pipe(root: Path) -> None:
    replace(root / "inbox/m1/a.txt", None)


def swap_file_for_a_hard_link(root: Path) -> None:
    path = root / "inbox/m1/a.txt"
    with suppress(FileNotFoundError):
        path.unlink(missing_ok=True)
        path.hardlink_to(root.parent / "outside/a.txt")


def swap_spares(root: Path) -> None:
    for path in list(root.rglob(".*.part")):
        replace(path, root.parent / "outside/a.txt")


def swap_by_a_folder_of_links(root: Path) -> None:
    folder = root / "inbox/m1"
    with suppress(FileNotFoundError):
        folder.rename(root / "inbox/m1.away")
        folder.mkdir()
        (folder / "a.txt").symlink_to(root.parent / "outside/a.txt")
        (folder / "deep").symlink_to(root.parent / "outside/m1")


def deeper(root: Path) -> None:
    path = root / "inbox/m1/deep"
    if path.is_dir() and not path.is_symlink():
        replace(path, root.parent / "outside/m1")


SWAPS: list[Swap] = [
    *(*FOLDERS, swap_file, swap_file_for_a_pipe, swap_file_for_a_hard_link),
    *(swap_spares, swap_by_a_folder_of_links, deeper),
]
ACTIONS: dict[str, Callable[[Path], object]] = {
    "make": lambda root: nofollow.make_dir(root, *PLACE, "new"),
    "write": lambda root: nofollow.write_files(root, PLACE, {"a.txt": b"mine", "c.txt": b"c"}),
    "read": lambda root: nofollow.read(root, PLACE, "a.txt", 1000),
    "list": lambda root: nofollow.list_names(root, *PLACE),
    "remove": lambda root: nofollow.remove_tree(root, *PLACE),
    "remove empty": lambda root: nofollow.remove_empty(root, *PLACE, "hollow"),
}


def furnished(place: Path) -> Path:
    root = world(place)
    write(root, **{"a.txt": b"mine"})
    (root / "inbox/m1/deep/er").mkdir(parents=True)
    (root / "inbox/m1/deep/er/file").write_bytes(b"x")
    (root / "inbox/m1/hollow").mkdir()
    return root


@pytest.mark.parametrize("swap", SWAPS)
@pytest.mark.parametrize("action", ACTIONS)
def test_no_swap_at_any_step_reaches_outside(tmp_path: Path, action: str, swap: Swap) -> None:
    for at in itertools.count():
        root = furnished(tmp_path / str(at))
        outside = root.parent / "outside"
        before = texts(outside)
        came, answer = run_disturbed(partial(ACTIONS[action], root), at, partial(swap, root))
        if not came:
            assert at > 3
            break
        assert texts(outside) == before
        assert sorted(p.name for p in outside.rglob("*")) == ["a.txt", "a.txt", "m1"]
        if swap is not swap_file_for_a_hard_link:  # which makes the second name itself
            assert (outside / "a.txt").stat().st_nlink == 1
        assert answer != SECRET


def texts(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*.txt")}


def deaths(tmp_path: Path, action: Callable[[Path], None]) -> Iterator[Path]:
    """Kill an action before each of its steps in turn; give what each death leaves."""
    for at in itertools.count():
        root = world(tmp_path / str(at))

        def die(number: int, at: int = at) -> None:
            if number >= at:
                raise Killed

        with pytest.MonkeyPatch.context() as patch:
            before_steps(patch, die)
            try:
                action(root)
            except Killed:
                pass
            else:
                return
        yield root


def test_a_retry_completes_what_a_killed_writer_left(tmp_path: Path) -> None:
    files = {"a": b"first", "b": b"second"}
    left = list(deaths(tmp_path, lambda root: write(root, **files)))
    assert len(left) > 12
    for root in left:
        whole = {path.name: path.read_bytes() for path in root.rglob("[ab]")}
        assert whole.items() <= files.items()
        write(root, **files)
        assert {name: nofollow.read(root, PLACE, name, 10) for name in files} == files
        rest = set(nofollow.list_names(root, *PLACE)) - set(files)
        assert all(nofollow._SPARE.fullmatch(name) for name in rest)


def test_a_name_like_that_of_a_spare_file_is_a_name(root: Path) -> None:
    name = ".0123456789abcdef.part"
    write(root, **{name: b"x"})
    (root / "inbox/m1/second").hardlink_to(root / "inbox/m1" / name)
    with pytest.raises(Invalid, match="second name"):
        write(root, **{name: b"x"})
    assert contents(root / "inbox/m1") == {name: b"x", "second": b"x"}


# ---------------------------------------------------------------------- removing


def test_a_tree_is_removed_and_its_links_are_not_followed(root: Path) -> None:
    write(root, a=b"x")
    folder = root / "inbox/m1"
    (folder / "deep/er").mkdir(parents=True)
    (folder / "deep/er/pipe").touch()
    (folder / "link").symlink_to(root.parent / "outside")
    (folder / "deep/link").symlink_to(root.parent / "outside/m1")
    (folder / "deep" / os.fsdecode(b"\xff\n")).write_bytes(b"x")
    before = snapshot(root.parent / "outside")
    nofollow.remove_tree(root, *PLACE)
    assert list((root / "inbox").iterdir()) == []
    assert snapshot(root.parent / "outside") == before


@pytest.mark.parametrize("plant", FILES)
def test_whatever_has_the_name_is_removed_itself(root: Path, plant: Plant) -> None:
    outside = root.parent / "outside"
    before = snapshot(outside)
    plant(root / "thing", outside)
    nofollow.remove_tree(root, "thing")
    assert snapshot(root) == {}
    assert snapshot(outside) == before


def test_nothing_to_remove_is_fine(root: Path) -> None:
    nofollow.remove_tree(root, *PLACE)
    nofollow.make_dir(root, "inbox")
    nofollow.remove_tree(root, *PLACE)
    assert [p.name for p in root.iterdir()] == ["inbox"]


def test_a_tree_deeper_than_any_stack_is_removed(root: Path) -> None:
    here = os.open(root, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("d", dir_fd=here)
        deeper = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = deeper
    os.close(here)
    nofollow.remove_tree(root, "d")
    assert list(root.iterdir()) == []


def test_a_wide_tree_is_removed_up_to_the_limit(root: Path) -> None:
    (root / "wide/er").mkdir(parents=True)
    for number in range(1100):
        (root / "wide" / str(number)).touch()
        (root / "wide/er" / str(number)).touch()
    with pytest.raises(TooLarge, match="wide has more than 500 entries"):
        nofollow.remove_tree(root, "wide", limit=500)
    assert (root / "wide").is_dir()
    nofollow.remove_tree(root, "wide")
    assert list(root.iterdir()) == []


def test_a_list_has_a_limit(root: Path) -> None:
    write(root, a=b"", b=b"", c=b"")
    assert nofollow.list_names(root, *PLACE, limit=3) == ["a", "b", "c"]
    with pytest.raises(TooLarge, match="m1 has more than 2 entries"):
        nofollow.list_names(root, *PLACE, limit=2)


@pytest.mark.parametrize("part", ["deep", "deep/er", "a.txt", "."])
def test_what_the_other_side_removes_meanwhile_is_fine(tmp_path: Path, part: str) -> None:
    for at in itertools.count():
        root = furnished(tmp_path / str(at))
        path = root / "inbox/m1" / part
        remove = path.unlink if part == "a.txt" else partial(shutil.rmtree, path)
        came, gone = run_disturbed(partial(removed, root), at, partial(ignore, remove))
        assert gone
        if not came:
            assert at > 10
            break


def removed(root: Path) -> bool:
    nofollow.remove_tree(root, *PLACE)
    return not (root / "inbox/m1").exists()


def ignore(remove: Callable[[], object]) -> None:
    with suppress(FileNotFoundError):
        remove()


def test_only_an_empty_folder_is_removed_as_empty(root: Path) -> None:
    write(root, a=b"x")
    nofollow.remove_empty(root, *PLACE)
    assert contents(root / "inbox/m1") == {"a": b"x"}
    nofollow.make_dir(root, "inbox", "m2")
    nofollow.remove_empty(root, "inbox", "m2")
    assert [p.name for p in (root / "inbox").iterdir()] == ["m1"]

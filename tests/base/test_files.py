"""Files: which file systems may hold a log, who may read what we create, who opens what."""

import ast
import errno
import logging
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from tests.conftest import REPO
from tests.support.children import add, bodies, table
from tests.support.disks import read_only
from threadkeep.base import files
from threadkeep.base.sqlite.backup import make_backup
from threadkeep.base.sqlite.database import SqliteDatabase
from threadkeep.base.tx import Sql
from threadkeep.errors import ReadOnly, StorageFull

MOUNTINFO = r"""
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard
23 22 0:5 / /proc rw - proc proc rw
24 22 0:22 / /tmp rw,nosuid - tmpfs tmpfs rw,size=1g
25 22 0:40 / /mnt/nfs rw master:1 propagate_from:2 - nfs4 host:/export rw,vers=4.2
26 22 0:41 / /mnt/share rw - cifs //host/share rw
27 22 0:42 / /mnt/host rw - 9p hostshare rw,trans=virtio
28 22 0:43 / /mnt/vm rw - virtiofs myfs rw
29 22 0:44 / /home/me/remote rw - fuse.sshfs me@host:/ rw
30 22 0:45 / /var/lib/docker/x rw - overlay overlay rw,lowerdir=/a
31 22 0:40 /export/data /srv/data rw - nfs4 host:/export rw
32 22 0:46 / /mnt/two\040words\134x rw - cifs //host/other rw
33 22 0:47 / /mnt/Müller rw - nfs host:/m rw
34 22 8:1 / /mnt/twice rw - ext4 /dev/sda1 rw
35 34 0:48 / /mnt/twice rw - nfs host:/twice rw
36 22 0:49 / /win rw - fuseblk /dev/sdb1 rw
""".strip()


@pytest.mark.parametrize(
    "folder, kind, wal",
    [
        ("/home/me/data", "ext4", True),
        ("/", "ext4", True),
        ("/tmp/x", "tmpfs", True),
        ("/mnt/nfs", "nfs4", False),
        ("/mnt/nfs/deep/down", "nfs4", False),
        ("/mnt/nfsx", "ext4", True),
        ("/mnt/share/a", "cifs", False),
        ("/mnt/host/a", "9p", False),
        ("/mnt/vm", "virtiofs", False),
        ("/home/me/remote/a", "fuse.sshfs", False),
        ("/var/lib/docker/x/y", "overlay", True),
        ("/srv/data/here", "nfs4", False),
        ("/mnt/two words\\x/a", "cifs", False),
        ("/mnt/Müller/a", "nfs", False),
        ("/mnt/twice/a", "nfs", False),
        ("/win/a", "fuseblk", True),
    ],
)
def test_wal_is_allowed_on_local_file_systems_only(folder: str, kind: str, *, wal: bool) -> None:
    assert files.filesystem_of(Path(folder), MOUNTINFO) == kind
    assert files.supports_wal(kind) is wal


@pytest.mark.parametrize(
    "kind", ["NFS", "nfs3", "smb3", "fuse", "fuse.glusterfs", "ceph", "vboxsf"]
)
def test_other_network_file_systems_are_known(kind: str) -> None:
    assert not files.supports_wal(kind)


def as_the_kernel_writes(mount: str) -> str:
    for character in "\\ \t\n":
        mount = mount.replace(character, f"\\{ord(character):03o}")
    return mount


# The kernel takes any bytes but two for a name.
names = (
    st.lists(st.integers(1, 255).filter(lambda byte: byte != ord("/")), min_size=1, max_size=8)
    .map(lambda name: os.fsdecode(bytes(name)))
    .filter(lambda name: name not in {".", ".."})
)


@given(st.lists(names, min_size=1, max_size=4), names)
def test_any_mount_point_is_found_for_what_lies_in_it(folders: list[str], other: str) -> None:
    mount = "/" + "/".join(folders)
    table_text = (
        f"1 0 1:1 / / rw - ext4 a rw\n2 1 1:2 / {as_the_kernel_writes(mount)} rw - nfs b rw"
    )
    assert files.filesystem_of(Path(mount), table_text) == "nfs"
    assert files.filesystem_of(Path(mount, other), table_text) == "nfs"
    assert files.filesystem_of(Path(mount + other), table_text) == "ext4"


@pytest.mark.parametrize(
    "text", ["", "nonsense", "1 2 3 - ext4", "1 0 1:1 / /elsewhere rw - nfs a"]
)
def test_a_mount_table_without_an_answer_gives_none(text: str) -> None:
    assert files.filesystem_of(Path("/home"), text) == ""
    assert files.supports_wal("")


@pytest.fixture
def on_nfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the test's folder look like a network mount."""
    mountinfo = tmp_path / "mountinfo"
    mountinfo.write_text(f"1 0 1:1 / / rw - ext4 a rw\n2 1 1:2 / {tmp_path}/net rw - nfs4 b rw\n")
    monkeypatch.setattr(files, "_MOUNTINFO", mountinfo)
    (tmp_path / "net").mkdir()
    return tmp_path / "net"


def test_a_new_file_on_a_network_gets_a_rollback_journal(
    on_nfs: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING), table(on_nfs / "a.db") as database:
        add(database, "x")
        assert (database.journal_mode, bodies(database)) == ("delete", ["x"])
    assert "nfs4" in caplog.text
    assert not (on_nfs / "a.db-wal").exists()


def test_a_link_from_a_local_folder_does_not_hide_the_network(on_nfs: Path, tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(on_nfs / "a.db")
    with table(tmp_path / "link.db") as database:
        assert database.journal_mode == "delete"


def test_a_new_file_on_a_local_disk_gets_a_log(on_nfs: Path, tmp_path: Path) -> None:
    with table(tmp_path / "a.db") as database:
        assert database.journal_mode == "wal"


def test_an_existing_log_on_a_network_is_kept_and_warned_about(
    on_nfs: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with table(tmp_path / "a.db") as database:
        add(database, "x")
    (tmp_path / "a.db").rename(on_nfs / "a.db")
    with caplog.at_level(logging.WARNING), table(on_nfs / "a.db") as database:
        assert (database.journal_mode, bodies(database)) == ("wal", ["x"])
    assert "not safe" in caplog.text


def test_without_a_mount_table_the_disk_counts_as_local(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_MOUNTINFO", tmp_path / "missing")
    assert files.wal_allowed(tmp_path / "a.db") == (True, "")


# ---------------------------------------------------------------------- permissions


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    return {
        path.relative_to(folder).as_posix(): stat.S_IMODE(path.stat().st_mode)
        for path in folder.rglob("*")
    }


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_everything_we_create_is_for_the_owner_alone(tmp_path: Path, mask: int) -> None:
    home = tmp_path / "a" / "b"
    with umask(mask), table(home / "c.db") as database:
        add(database, "x")
        backup = make_backup(database)
        found = modes(tmp_path)
    assert found == {
        "a": 0o700,
        "a/b": 0o700,
        "a/b/c.db": 0o600,
        "a/b/c.db-wal": 0o600,
        "a/b/c.db-shm": 0o600,
        "a/b/c.db.lock": 0o600,
        "a/b/backups": 0o700,
        f"a/b/backups/{backup.name}": 0o600,
    }


def test_the_rollback_journal_is_for_the_owner_alone(on_nfs: Path) -> None:
    with umask(0o000), table(on_nfs / "a.db") as database, database.write() as tx:
        tx.run(Sql("INSERT INTO t(body) VALUES('x')"))
        assert modes(on_nfs)["a.db-journal"] == 0o600


def test_permissions_that_exist_are_left_alone(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with table(home / "a.db"):
        pass
    home.chmod(0o755)
    (home / "a.db").chmod(0o640)
    (home / "a.db.lock").chmod(0o660)
    with table(home / "a.db") as database:
        add(database, "x")
        shared = {"a.db": 0o640, "a.db-wal": 0o640, "a.db-shm": 0o640, "a.db.lock": 0o660}
        assert modes(home) == shared
    assert stat.S_IMODE(home.stat().st_mode) == 0o755


# ---------------------------------------------------------------------- creating, setting aside


def test_an_existing_file_is_not_created_again(tmp_path: Path) -> None:
    path = tmp_path / "a"
    assert files.create_private_file(path, lambda _: None)
    path.write_text("kept")
    assert not files.create_private_file(path, lambda _: None)
    assert path.read_text() == "kept"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_system_without_hard_links_will_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    path = tmp_path / "a"
    assert files.create_private_file(path, lambda _: None)
    assert not files.create_private_file(path, lambda _: None)
    assert list(tmp_path.iterdir()) == [path]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_note_is_read_back(tmp_path: Path) -> None:
    assert files.read_note(tmp_path / "note") is None
    files.write_note(tmp_path / "note", "first")
    files.write_note(tmp_path / "note", "second")
    assert files.read_note(tmp_path / "note") == "second"
    assert [entry.name for entry in tmp_path.iterdir()] == ["note"]


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ReadOnly, match="file/below"):
        SqliteDatabase(tmp_path / "file" / "below" / "a.db", {})


def test_a_read_only_is_named(tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    with read_only(place):
        for path in (place / "a.db", place / "below" / "a.db"):
            with pytest.raises(ReadOnly, match=str(place)):
                SqliteDatabase(path, {})
        assert list(place.iterdir()) == []


def test_no_room_for_a_folder_is_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "mkdir", full)
    with pytest.raises(StorageFull, match="cannot create the folder"):
        files.make_private_dir(tmp_path / "new")


def test_a_database_is_set_aside_with_all_that_is_beside_it(tmp_path: Path) -> None:
    for suffix in ("", "-wal", "-journal"):
        (tmp_path / f"a.db{suffix}").write_text(f"content{suffix}")
    (tmp_path / "a.db.lock").touch()
    assert files.set_aside(tmp_path / "a.db", "old") == tmp_path / "a.db.old"
    assert {path.name for path in tmp_path.iterdir()} == {
        *("a.db.lock", "a.db.old", "a.db.old-wal", "a.db.old-journal")
    }
    assert (tmp_path / "a.db.old-wal").read_text() == "content-wal"
    assert files.set_aside(tmp_path / "a.db", "older") is None


# ---------------------------------------------------------------------- who opens what

OPENING = {"open", "fdopen", "read_bytes", "read_text", "write_bytes", "write_text", "copy"}
# Function -> what it opens: never a database that anybody may have open.
ALLOWED = {
    "base/sqlite/backup.py _new_partial": "a copy that has no connection yet",
    "base/sqlite/backup.py _sync": "a copy that has no connection any more",
    "base/files.py create_private_file": "a file that has no name yet",
    "base/files.py is_zero_filled": "a file that SQLite has refused",
    "base/files.py remove_folder": "what an abandoned migration had made",
    "base/files.py sync_dir": "a folder",
    "base/files.py wal_allowed": "the mount table",
    "base/files.py _append": "a file of lines",
    "base/sqlite/lock.py _open": "the lock file",
    "base/nofollow.py _opened": "an attachment, after a look at what it is",
    "base/nofollow.py open_plain": "another program's log, no database",
    "base/local_socket.py peer_user": "/proc",
    "base/postgres/table_copy.py replace": "no file: COPY of a server",
    "base/presence.py _open_lock": "a lock file",
    "base/presence.py is_held": "a lock file",
    "base/presence.py touch": "the heartbeat",
    "base/sqlite/shared_file.py _refuse_planted_journal": "a journal, after a look at what it is",
    "base/processes.py _boot": "/proc",
    "base/processes.py _stat": "/proc",
    "base/processes.py _writes": "/proc",
    "base/processes.py describe_process": "/proc",
    "base/processes.py lock_holders": "/proc",
    "base/spool.py _write": "a report, before it has its name",
    "base/spool.py read": "a report that was taken from the spool",
    "base/sql.py load_text": "a packaged script",
    "base/tokens.py _put": "the file of a token, before it has its name",
    "base/files.py read_note": "a short text of ours",
    "base/tokens.py read_secret": "the file of a token",
    "base/tokens.py use_once": "an empty file that says what was used",
    "base/files.py write_note": "a short text of ours, before it has its name",
    "base/config.py read_settings": "the configuration",
    "base/config.py write_default": "the configuration",
}


def openers() -> Iterator[str]:
    """Name every function of base/ and chat/ that opens, reads or copies a file."""
    source = REPO / "src" / "threadkeep"
    for path in sorted([*source.glob("base/**/*.py"), *source.glob("chat/**/*.py")]):
        for function in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(function, ast.FunctionDef) and any(map(opens, ast.walk(function))):
                yield f"{path.relative_to(source).as_posix()} {function.name}"


def opens(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="open")):
            return True
        case ast.Call(func=ast.Attribute(value=ast.Name(id="shutil"))):
            return True
        case ast.Call(func=ast.Attribute(attr=name, value=ast.Name(id=owner))):
            return name in OPENING and not owner[:1].isupper()
        case ast.Call(func=ast.Attribute(attr=name)):
            return name in OPENING
    return False


def test_only_known_functions_open_files_and_none_opens_a_database() -> None:
    assert set(openers()) <= set(ALLOWED)

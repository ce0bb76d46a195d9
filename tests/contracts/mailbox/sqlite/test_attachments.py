"""Attachments: what host and agent put into a session's folder, and what neither can reach."""

import base64
import errno
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from threadkeep.base import nofollow
from threadkeep.errors import Conflict, Invalid, NotFound, ReadOnly, StorageFull, TooLarge
from threadkeep.mailbox.attachments import (
    AttachmentLimits,
    clear_outbox,
    collect,
    hand_over,
    put_outbox,
    stage,
)

MS = 1_700_000_000_000
SECRET = b"the host's secret"
UNSAFE = ["", ".", "..", "a/b", "../m", "..\\m", "/m", "a\0b", "x" * 256, "half \ud83d"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a session's folder, with something beside it that must stay as it is."""
    return make_session(tmp_path)


def make_session(place: Path) -> Path:
    (place / "outside/m1").mkdir(parents=True)
    (place / "outside/a.txt").write_bytes(SECRET)
    (place / "outside/m1/a.txt").write_bytes(SECRET)
    (place / "session").mkdir()
    return place / "session"


def attached(data: bytes, **more: Any) -> dict[str, Any]:
    return {**more, "data": base64.b64encode(data).decode()}


def contents(folder: Path) -> dict[str, bytes]:
    """Return the plain files below a folder; what a link leads to is not below it."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink()
    }


def tree(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Take down a folder with all in it: kinds, modes and contents."""
    found = {}
    for path in folder.rglob("*"):
        info = path.lstat()
        plain = path.is_file() and not path.is_symlink()
        data = path.read_bytes() if plain else b""
        found[path.relative_to(folder).as_posix()] = (info.st_mode, info.st_nlink, data)
    return found


def put(folder: Path, name: str, data: bytes = b"x", message: str = "m1") -> Path:
    """Write a file into the outbox as any program of the agent may."""
    path = folder / "outbox" / message / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


# ---------------------------------------------------------------------- into the inbox


def test_data_becomes_a_file_and_other_keys_stay(folder: Path) -> None:
    given = [
        attached(b"one", name="a.txt", type="file", size=3),
        {"type": "image", "url": "https://example.com/x.png"},
        attached(b"two", mimeType="image/png"),
        {"name": "old", "localPath": "inbox/m0/old", "data": None},
    ]
    staged = stage(folder, "12:ag-1", given, MS)
    made = f"attachment-{MS}.png"
    assert staged == [
        {"name": "a.txt", "type": "file", "size": 3, "localPath": "inbox/12:ag-1/a.txt"},
        given[1],
        {"name": made, "mimeType": "image/png", "localPath": f"inbox/12:ag-1/{made}"},
        given[3],
    ]
    assert contents(folder) == {"inbox/12:ag-1/a.txt": b"one", f"inbox/12:ag-1/{made}": b"two"}
    assert "data" in given[0]


def test_two_of_one_name_are_two_files(folder: Path) -> None:
    staged = stage(folder, "m1", [attached(b"1", name="a.txt"), attached(b"2", name="a.txt")], MS)
    assert [one["name"] for one in staged] == ["a.txt", "a-2.txt"]
    assert contents(folder) == {"inbox/m1/a.txt": b"1", "inbox/m1/a-2.txt": b"2"}


def test_without_data_nothing_is_made_and_the_id_does_not_matter(folder: Path) -> None:
    assert stage(folder, "../m", [{"url": "x"}], MS) == [{"url": "x"}]
    assert stage(folder, "../m", [], MS) == []
    assert contents(folder.parent / "session") == {}


@pytest.mark.parametrize("name", UNSAFE[1:])
def test_an_unsafe_name_is_replaced(folder: Path, name: str) -> None:
    staged = stage(folder, "m1", [attached(b"x", name=name)], MS)
    assert staged[0]["name"] == f"attachment-{MS}"
    assert contents(folder) == {f"inbox/m1/attachment-{MS}": b"x"}


@pytest.mark.parametrize("message_id", UNSAFE)
def test_an_unsafe_message_id_is_refused(folder: Path, message_id: str) -> None:
    before = tree(folder.parent)
    with pytest.raises(Invalid, match="cannot name a folder"):
        stage(folder, message_id, [attached(b"x")], MS)
    assert tree(folder.parent) == before


@pytest.mark.parametrize(
    "data", ["not base64!", "QQ", "QQ==QQ==", "Q Q=", "QQ==\n", "_-8=", "é", "====", "A", "QQ=a"]
)
def test_bad_base64_is_refused_by_name_and_nothing_is_written(folder: Path, data: str) -> None:
    given = [attached(b"fine", name="a.txt"), {"name": "bad.png", "data": data}]
    with pytest.raises(Invalid, match=r"attachment 2 \('bad.png'\) is not base64"):
        stage(folder, "m1", given, MS)
    assert contents(folder) == {}


def test_other_shapes_are_refused(folder: Path) -> None:
    with pytest.raises(Invalid, match="attachment 1 is not text"):
        stage(folder, "m1", [{"data": 5}], MS)
    shapeless: Any = ["text"]
    with pytest.raises(Invalid, match="attachment 1 is not an object"):
        stage(folder, "m1", shapeless, MS)


def test_a_retry_is_content_and_adds_what_is_missing(folder: Path) -> None:
    given = [attached(b"1", name="a.txt"), attached(b"2", type="photo")]
    first = stage(folder, "m1", given, MS)
    before = tree(folder)
    assert stage(folder, "m1", given, MS) == first
    assert tree(folder) == before
    (folder / "inbox/m1/a.txt").unlink()
    assert stage(folder, "m1", given, MS) == first
    assert tree(folder) == before


def test_other_content_is_a_conflict(folder: Path) -> None:
    stage(folder, "m1", [attached(b"1", name="a.txt")], MS)
    before = tree(folder)
    with pytest.raises(Conflict, match=r"m1/a\.txt already exists with other content"):
        stage(folder, "m1", [attached(b"0", name="new"), attached(b"2", name="a.txt")], MS)
    assert tree(folder) == before


def test_a_full_disk_leaves_nothing_of_the_message(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage(folder, "m0", [attached(b"kept", name="a.txt")], MS)
    before = tree(folder)
    real = os.write

    def fill(file: int, data: memoryview) -> int:
        if bytes(data) == b"too much":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(file, data)

    monkeypatch.setattr(os, "write", fill)
    with pytest.raises(StorageFull):
        stage(folder, "m1", [attached(b"1", name="a"), attached(b"too much", name="b")], MS)
    assert tree(folder) == before


@pytest.mark.parametrize(
    "sizes, limits, words",
    [
        ([11], AttachmentLimits(file=10), "attachment 1 has more than 10 bytes"),
        ([6, 6], AttachmentLimits(message=11), "more than 11 bytes together"),
        ([1, 1, 1], AttachmentLimits(files=2), "has 3 files; 2 are allowed"),
    ],
)
def test_too_much_is_refused_whole(
    folder: Path, sizes: list[int], limits: AttachmentLimits, words: str
) -> None:
    with pytest.raises(TooLarge, match=words):
        stage(folder, "m1", [attached(b"x" * size) for size in sizes], MS, limits)
    assert list(folder.iterdir()) == []


def test_just_enough_is_taken(folder: Path) -> None:
    limits = AttachmentLimits(file=10, message=19, files=2)
    stage(folder, "m1", [attached(b"x" * 10), attached(b"x" * 9)], MS, limits)
    assert len(contents(folder)) == 2
    put_outbox(folder, "m1", [("a", b"x" * 10), ("b", b"x" * 9)], limits)
    assert len(collect(folder, "m1", ["a", "b"], limits).files) == 2


def test_huge_base64_is_not_even_decoded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("binascii.a2b_base64", lambda *_, **__: pytest.fail("it was decoded"))
    with pytest.raises(TooLarge):
        stage(folder, "m1", [{"data": "A" * 70_000_000}], MS)


def test_files_are_on_the_disk_before_their_names(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_sync, real_link = os.fsync, os.link
    steps: list[str] = []

    def sync(file: int) -> None:
        info = os.fstat(file)
        names = {p.lstat().st_ino: p.name for p in (folder, *folder.rglob("*"))}
        name = names[info.st_ino]
        steps.append(f"sync {'file' if name.endswith('.part') else name}")
        real_sync(file)

    def link(spare: str, name: str, **options: Any) -> None:
        steps.append(f"name {name}")
        real_link(spare, name, **options)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "link", link)
    stage(folder, "m1", [attached(b"1", name="a"), attached(b"2", name="b")], MS)
    assert steps == [
        *("sync session", "sync inbox", "sync file", "sync file", "name a", "name b", "sync m1"),
    ]


# ---------------------------------------------------------------------- out of the outbox


def test_the_named_files_are_read_in_order(folder: Path) -> None:
    put(folder, "a.txt", b"1")
    put(folder, "b.txt", b"2")
    put(folder, "not named", b"3")
    assert collect(folder, "m1", ["b.txt", "a.txt"]).files == [("b.txt", b"2"), ("a.txt", b"1")]


def test_bad_and_missing_files_are_skipped_with_a_reason(folder: Path) -> None:
    put(folder, "fine", b"1")
    put(folder, "large", b"x" * 11)
    os.mkfifo(folder / "outbox/m1/pipe")
    (folder / "outbox/m1/folder").mkdir()
    (folder / "outbox/m1/link").symlink_to(folder.parent / "outside/a.txt")
    (folder / "outbox/m1/second").hardlink_to(folder.parent / "outside/a.txt")
    names = ["gone", "large", "pipe", "folder", "link", "second", "../m1/fine", "a\\b", 5, ["x"]]
    found = collect(folder, "m1", [*names, "fine"], AttachmentLimits(file=10))
    assert found.files == [("fine", b"1")]
    assert found.skipped == [
        ("gone", "outbox/m1/gone does not exist"),
        ("large", "outbox/m1/large has more than 10 bytes"),
        ("pipe", "outbox/m1/pipe is not a plain file"),
        ("folder", "outbox/m1/folder is not a plain file"),
        ("link", "outbox/m1/link is not a plain file"),
        ("second", "outbox/m1/second has a second name (a hard link)"),
        ("../m1/fine", "not a safe file name"),
        ("a\\b", "not a safe file name"),
        ("5", "not a safe file name"),
        ("['x']", "not a safe file name"),
    ]


def test_what_is_over_the_limits_of_a_message_is_skipped(folder: Path) -> None:
    for name in "abcd":
        put(folder, name, b"x" * 4)
    by_size = collect(folder, "m1", ["a", "b", "c"], AttachmentLimits(message=9))
    assert ([n for n, _ in by_size.files], len(by_size.skipped)) == (["a", "b"], 1)
    by_number = collect(folder, "m1", ["a", "b", "c", "d"], AttachmentLimits(files=2))
    assert [name for name, _ in by_number.skipped] == ["2 more"]
    assert "2 are allowed" in by_number.skipped[0][1]


@pytest.mark.parametrize("message_id", UNSAFE)
def test_of_an_unsafe_message_id_all_is_skipped(folder: Path, message_id: str) -> None:
    put(folder, "a")
    found = collect(folder, message_id, ["a"])
    assert (found.files, [name for name, _ in found.skipped]) == ([], ["a"])


def test_a_trouble_of_the_host_is_not_taken_for_a_bad_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(folder, "a")

    def exhausted(*_: object, **__: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(os, "open", exhausted)
    with pytest.raises(ReadOnly, match="Too many open files"):
        collect(folder, "m1", ["a"])


# ---------------------------------------------------------------------- clearing the outbox


def test_a_sent_message_leaves_no_files(folder: Path) -> None:
    put(folder, "a")
    put(folder, "b", message="m2")
    assert clear_outbox(folder, "m1")
    assert contents(folder) == {"outbox/m2/b": b"x"}
    assert clear_outbox(folder, "m1")


@pytest.mark.parametrize("message_id", UNSAFE)
def test_clearing_an_unsafe_id_touches_nothing(
    folder: Path, message_id: str, caplog: pytest.LogCaptureFixture
) -> None:
    put(folder, "a")
    before = tree(folder.parent)
    with caplog.at_level(logging.WARNING):
        assert not clear_outbox(folder, message_id)
    assert "cannot name a folder" in caplog.text
    assert tree(folder.parent) == before


# ---------------------------------------------------------------------- into the outbox


def test_the_agent_sends_bytes_and_its_own_files(folder: Path, tmp_path: Path) -> None:
    own = tmp_path / "report.pdf"
    own.write_bytes(b"pdf")
    (tmp_path / "second name").hardlink_to(own)
    names = put_outbox(folder, "m1", [own, ("a.txt", b"1"), ("a.txt", b"2"), ("x.pdf", own)])
    assert names == ["report.pdf", "a.txt", "a-2.txt", "x.pdf"]
    found = collect(folder, "m1", names)
    assert found.skipped == []
    assert found.files == list(zip(names, [b"pdf", b"1", b"2", b"pdf"], strict=True))
    assert put_outbox(folder, "m1", [own, ("a.txt", b"1")]) == ["report.pdf", "a.txt"]
    assert put_outbox(folder, "m2", []) == []


@pytest.mark.parametrize("name", UNSAFE)
def test_an_unsafe_name_is_not_sent(folder: Path, name: str) -> None:
    before = tree(folder.parent)
    with pytest.raises(Invalid, match="not a safe file name"):
        put_outbox(folder, "m1", [("fine", b"x"), (name, b"x")])
    with pytest.raises(Invalid, match="cannot name a folder"):
        put_outbox(folder, name, [("fine", b"x")])
    assert tree(folder.parent) == before


def test_only_plain_files_of_a_fair_size_are_sent(folder: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "outside/a.txt")
    before = tree(folder)
    for path, error in (
        (tmp_path / "pipe", Invalid),
        (tmp_path / "link", Invalid),
        (tmp_path, Invalid),
        (Path("..") / "..", Invalid),
        (Path(), Invalid),
        (Path("/dev/zero"), Invalid),
        (tmp_path / "gone", NotFound),
        (tmp_path / "outside/a.txt", TooLarge),
    ):
        with pytest.raises(error):
            put_outbox(folder, "m1", [("fine", b"x"), path], AttachmentLimits(file=10))
    with pytest.raises(TooLarge, match="'a' has more than 10 bytes"):
        put_outbox(folder, "m1", [("a", b"x" * 11)], AttachmentLimits(file=10))
    with pytest.raises(TooLarge, match="'b' has more than 1 bytes"):
        put_outbox(folder, "m1", [("a", b"x" * 9), ("b", b"xx")], AttachmentLimits(message=10))
    with pytest.raises(TooLarge, match="has 3 files"):
        put_outbox(folder, "m1", [("a", b"")] * 3, AttachmentLimits(files=2))
    assert tree(folder) == before


# ---------------------------------------------------------------------- from agent to agent


@pytest.fixture
def target(tmp_path: Path) -> Path:
    (tmp_path / "target").mkdir()
    return tmp_path / "target"


def handed(name: str) -> dict[str, str]:
    return {"name": name, "filename": name, "type": "file", "localPath": f"inbox/a2a-1/{name}"}


def test_files_go_from_an_outbox_to_an_inbox(
    folder: Path, target: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put(folder, "a", b"1")
    put(folder, "b", b"2")
    with caplog.at_level(logging.WARNING):
        given = hand_over(folder, "m1", target, "a2a-1", ["b", "gone", "a", "../a", "a", ["x"]])
    assert given == [handed("b"), handed("a")]
    assert contents(target) == {"inbox/a2a-1/a": b"1", "inbox/a2a-1/b": b"2"}
    assert [("gone" in line) for line in caplog.messages] == [True, False, False]


def test_a_retry_hands_over_the_same(folder: Path, target: Path) -> None:
    names = ["a", "b"]
    put(folder, "a", b"1")
    put(folder, "b", b"2")
    first = hand_over(folder, "m1", target, "a2a-1", names)
    before = tree(target)
    put(folder, "a", b"changed since")
    assert hand_over(folder, "m1", target, "a2a-1", names) == first
    (target / "inbox/a2a-1/b").unlink()
    assert hand_over(folder, "m1", target, "a2a-1", names) == first
    assert clear_outbox(folder, "m1")
    assert hand_over(folder, "m1", target, "a2a-1", names) == first
    assert tree(target) == before


def test_without_files_nothing_is_made(folder: Path, target: Path) -> None:
    assert hand_over(folder, "m1", target, "a2a-1", ["gone"]) == []
    assert hand_over(folder, "m1", target, "a2a-1", []) == []
    assert list(target.iterdir()) == []


def test_what_was_handed_over_before_is_on_the_disk_after_a_retry(
    folder: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(folder, "a")
    hand_over(folder, "m1", target, "a2a-1", ["a"])
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(os.fstat(file).st_ino))
    hand_over(folder, "m1", target, "a2a-1", ["a"])
    folders = [target, target / "inbox", target / "inbox/a2a-1"]
    assert synced == [path.stat().st_ino for path in folders]


@pytest.mark.parametrize("message_id", UNSAFE)
def test_an_unsafe_target_is_refused(folder: Path, target: Path, message_id: str) -> None:
    put(folder, "a")
    before = tree(folder.parent)
    with pytest.raises(Invalid, match="cannot name a folder"):
        hand_over(folder, "m1", target, message_id, ["a"])
    assert tree(folder.parent) == before


# ---------------------------------------------------------------------- hostile folders

Call = Callable[[Path], object]
WRITERS: dict[str, tuple[str, Call]] = {
    "stage": ("inbox", lambda f: stage(f, "m1", [attached(b"x", name="a.txt")], MS)),
    "put": ("outbox", lambda f: put_outbox(f, "m1", [("a.txt", b"x")])),
    "hand over": (
        "inbox",
        lambda f: hand_over(f.parent / "source", "m1", f, "m1", ["a.txt"]),
    ),
}


def link_box(folder: Path, box: str) -> None:
    (folder / box).symlink_to(folder.parent / "outside")


def link_message(folder: Path, box: str) -> None:
    (folder / box).mkdir()
    (folder / box / "m1").symlink_to(folder.parent / "outside/m1")


def pipe_as_message(folder: Path, box: str) -> None:
    (folder / box).mkdir()
    os.mkfifo(folder / box / "m1")


def file_as_box(folder: Path, box: str) -> None:
    (folder / box).write_bytes(b"x")


def link_file(folder: Path, box: str) -> None:
    (folder / box / "m1").mkdir(parents=True)
    (folder / box / "m1/a.txt").symlink_to(folder.parent / "outside/new.txt")


def hard_link_file(folder: Path, box: str) -> None:
    (folder / box / "m1").mkdir(parents=True)
    (folder / box / "m1/a.txt").hardlink_to(folder.parent / "outside/a.txt")


def pipe_as_file(folder: Path, box: str) -> None:
    (folder / box / "m1").mkdir(parents=True)
    os.mkfifo(folder / box / "m1/a.txt")


Plant = Callable[[Path, str], None]
FOLDERS: list[Plant] = [link_box, link_message, pipe_as_message, file_as_box]
FILES: list[Plant] = [link_file, hard_link_file, pipe_as_file]


@pytest.mark.parametrize("plant", FOLDERS + FILES)
@pytest.mark.parametrize("writer", WRITERS)
def test_nothing_is_written_through_what_was_planted(
    folder: Path, writer: str, plant: Plant
) -> None:
    box, call = WRITERS[writer]
    (folder.parent / "source").mkdir()
    put(folder.parent / "source", "a.txt", b"x")
    plant(folder, box)
    before = tree(folder.parent)
    with pytest.raises(Invalid):
        call(folder)
    assert tree(folder.parent) == before


@pytest.mark.parametrize("plant", FOLDERS + FILES)
def test_nothing_is_read_through_what_was_planted(folder: Path, plant: Plant) -> None:
    plant(folder, "outbox")
    found = collect(folder, "m1", ["a.txt"])
    assert (found.files, [name for name, _ in found.skipped]) == ([], ["a.txt"])
    assert str(folder) not in found.skipped[0][1]


@pytest.mark.parametrize("plant", FOLDERS + FILES)
def test_nothing_outside_is_cleared(folder: Path, plant: Plant) -> None:
    plant(folder, "outbox")
    cleared = clear_outbox(folder, "m1")
    assert contents(folder.parent / "outside") == {"a.txt": SECRET, "m1/a.txt": SECRET}
    assert cleared == (plant not in (link_box, file_as_box))
    if cleared:
        assert list((folder / "outbox").iterdir()) == []


def test_a_folder_swapped_while_a_message_is_staged_keeps_the_files_inside(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = nofollow.write_files

    def swap_then_write(root: Path, *args: Any) -> None:
        (folder / "inbox/m1").rename(folder / "away")
        (folder / "inbox/m1").symlink_to(folder.parent / "outside")
        real(root, *args)

    monkeypatch.setattr(nofollow, "write_files", swap_then_write)
    with pytest.raises(Invalid, match="is refused"):
        stage(folder, "m1", [attached(b"x", name="b.txt")], MS)
    assert contents(folder.parent) == {"outside/a.txt": SECRET, "outside/m1/a.txt": SECRET}


ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=12)
TRICKY = st.lists(st.sampled_from(["..", ".", "/", "\\", "\0", "a", "outside", "m1", ":"])).map(
    "".join
)
NAMES = ANY_TEXT | TRICKY


@given(NAMES, st.lists(NAMES, max_size=4))
def test_whatever_the_names_nothing_is_made_or_changed_outside(
    tmp_path_factory: pytest.TempPathFactory, message_id: str, names: list[str]
) -> None:
    place = tmp_path_factory.mktemp("place")
    folder = make_session(place)
    outside = tree(place / "outside")
    try:
        staged = stage(folder, message_id, [attached(b"x", name=n) for n in names], MS)
        put_outbox(folder, message_id, [(n, b"x") for n in names])
    except Invalid:
        staged = []
    collect(folder, message_id, names)
    clear_outbox(folder, message_id)
    assert tree(place / "outside") == outside
    assert {path.name for path in place.iterdir()} == {"outside", "session"}
    assert {path.name for path in folder.iterdir()} <= {"inbox", "outbox"}
    for one in staged:
        assert (folder / one["localPath"]).read_bytes() == b"x"

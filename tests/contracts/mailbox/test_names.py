"""Names of attachments: which are safe, what the nameless are called, two of one name."""

from typing import Any

import pytest
from hypothesis import given, strategies as st

from threadkeep.mailbox.attachments import attachment_name, extension_for, free_name, is_safe_name

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=300)
SAFE_NAMES = ANY_TEXT.filter(is_safe_name)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=3,
)


@pytest.mark.parametrize(
    "name",
    [
        *("a", "photo.jpg", ".hidden", "...", "a..b", "two words", "12:ag-1-abc", "C:", "~", "-rf"),
        *("résumé.pdf", "写真.png", "🎉", "new\nline", "\x1b[31m", "x" * 255, "é" * 127 + "x"),
    ],
)
def test_what_a_folder_can_hold_is_safe(name: str) -> None:
    assert is_safe_name(name)


@pytest.mark.parametrize(
    "name",
    [
        *("", ".", "..", "/", "\\", "a/b", "a\\b", "../a", "..\\a", "/etc/passwd", "a/", "a\0b"),
        *("\0", "x" * 256, "é" * 128, "half \ud83d", "\udcff", None, 5, b"a", ["a"], {"a": 1}),
    ],
)
def test_what_leads_elsewhere_or_fits_nowhere_is_not_safe(name: object) -> None:
    assert not is_safe_name(name)


@given(ANY_TEXT)
def test_only_the_rule_decides(text: str) -> None:
    apart = any(c in text for c in "/\\\0") or text in {"", ".", ".."}
    halves = any("\ud800" <= c <= "\udfff" for c in text)
    fits = halves or len(text.encode()) <= 255
    assert is_safe_name(text) == (not apart and not halves and fits)


@pytest.mark.parametrize(
    "mime, kind, extension",
    [
        ("image/jpeg", None, "jpg"),
        ("image/png", None, "png"),
        ("image/webp", None, "webp"),
        ("image/gif", None, "gif"),
        ("image/heic", None, "heic"),
        ("audio/ogg", None, "ogg"),
        ("audio/mpeg", None, "mp3"),
        ("audio/wav", None, "wav"),
        ("audio/mp4", None, "m4a"),
        ("video/mp4", None, "mp4"),
        ("video/webm", None, "webm"),
        ("video/quicktime", None, "mov"),
        ("application/pdf", None, "pdf"),
        ("text/plain", None, "txt"),
        ("application/json", None, "json"),
        ("application/zip", None, "zip"),
        ("Text/Plain; charset=utf-8", None, "txt"),
        ("AUDIO/OGG;codecs=opus", "video", "ogg"),
        (None, "image", "jpg"),
        (None, "photo", "jpg"),
        ("", "sticker", "webp"),
        (5, "voice", "ogg"),
        (None, "audio", "mp3"),
        (None, "video", "mp4"),
        (None, "animation", "mp4"),
        ("application/x-unknown", "photo", "jpg"),
        ("application/x-unknown", "file", ""),
        (None, None, ""),
        (None, {"kind": "photo"}, ""),
    ],
)
def test_the_extension_comes_from_the_mime_type_then_from_the_kind(
    mime: object, kind: object, extension: str
) -> None:
    assert extension_for(mime, kind) == extension


@pytest.mark.parametrize(
    "attachment, name",
    [
        ({"name": "cat.png"}, "cat.png"),
        ({"name": "cat", "mimeType": "image/png"}, "cat"),
        ({"mimeType": "image/png"}, "attachment-7.png"),
        ({"name": "", "type": "voice"}, "attachment-7.ogg"),
        ({"name": None, "type": "file"}, "attachment-7"),
        ({}, "attachment-7"),
        ({"name": "../../cat.png", "mimeType": "image/png"}, "attachment-7"),
        ({"name": "..", "mimeType": "image/png"}, "attachment-7"),
        ({"name": "x" * 300}, "attachment-7"),
        ({"name": 5}, "attachment-7"),
        ({"name": 5, "mimeType": "image/png"}, "attachment-7.png"),
        ({"type": "PHOTO"}, "attachment-7.jpg"),
    ],
)
def test_an_attachment_is_named(attachment: dict[str, Any], name: str) -> None:
    assert attachment_name(attachment, 7) == name


@given(
    st.fixed_dictionaries({}, optional={"name": JSON, "mimeType": JSON, "type": JSON}),
    st.integers(min_value=0),
)
def test_any_attachment_gets_a_safe_name(attachment: dict[str, Any], ms: int) -> None:
    name = attachment_name(attachment, ms)
    assert is_safe_name(name)
    if is_safe_name(attachment.get("name")):
        assert name == attachment["name"]


@pytest.mark.parametrize(
    "name, taken, free",
    [
        ("a.txt", [], "a.txt"),
        ("a.txt", ["b.txt"], "a.txt"),
        ("a.txt", ["a.txt"], "a-2.txt"),
        ("a.txt", ["a.txt", "a-2.txt"], "a-3.txt"),
        ("a.txt", ["A.TXT"], "a-2.txt"),
        ("caf\u00e9", ["cafe\u0301"], "caf\u00e9-2"),
        ("a.tar.gz", ["a.tar.gz"], "a.tar-2.gz"),
        (".bashrc", [".bashrc"], ".bashrc-2"),
        ("...", ["..."], "...-2"),
        ("x" * 251 + ".txt", ["x" * 251 + ".txt"], "x" * 249 + "-2.txt"),
        ("a." + "x" * 253, ["a." + "x" * 253], "a." + "x" * 251 + "-2"),
        ("é" * 127, ["é" * 127], "é" * 126 + "-2"),
    ],
)
def test_the_second_of_a_name_gets_a_number(name: str, taken: list[str], free: str) -> None:
    assert free_name(name, taken) == free


@given(SAFE_NAMES, st.integers(1, 12))
def test_all_of_one_name_get_safe_names_of_their_own(name: str, count: int) -> None:
    taken: list[str] = []
    for _ in range(count):
        taken.append(free_name(name, taken))
    assert taken[0] == name
    assert len({one.casefold() for one in taken}) == count
    assert all(map(is_safe_name, taken))

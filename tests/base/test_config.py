"""The configuration file: typed, explained, and never wrong without a word."""

import re
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from threadkeep.base.config import (
    DEFAULT_TEXT,
    PART_LIMIT,
    Config,
    load_config,
    parse_config,
    store_path,
    write_default,
)
from threadkeep.chat import context
from threadkeep.errors import Conflict, Invalid, ReadOnly

SETTINGS = {
    "stores": {"chat", "state", "knowledge", "knowledge_schema"},
    "capture": {"exclude", "disable", "roots"},
    "redact": {"rules"},
    "chat": {"save_on", "event_log", "part_limit"},
    "backups": {"keep_count", "keep_days"},
}


def test_the_default_text_changes_nothing() -> None:
    assert parse_config(DEFAULT_TEXT, "config.toml") == Config()


def test_every_setting_is_in_the_default_text_with_its_default() -> None:
    shown = parse_config(re.sub(r"(?m)^# (\w+ = )", r"\1", DEFAULT_TEXT), "config.toml")
    assert (shown.chat.save_on, shown.backups) == (Config().chat.save_on, Config().backups)
    assert shown.chat.part_limit == PART_LIMIT == context.PART_LIMIT
    assert (shown.stores.chat, shown.stores.state) == ("chat.db", "state.db")
    assert shown.stores.knowledge == "knowledge.db"
    assert (shown.capture, shown.redact) == (Config().capture, Config().redact)
    assert shown.chat.event_log is False
    for table, names in SETTINGS.items():
        assert set(type(getattr(Config(), table)).__struct_fields__) == names


@pytest.mark.parametrize(
    "text, said",
    [
        ("[chat]\ncolour = 1", "mine.toml: there is no setting 'chat.colour'"),
        ("[chats]\n", "mine.toml: there is no setting 'chats'"),
        ("chat = 1", "mine.toml: chat: Expected `object`, got `int`"),
        (
            '[chat]\nsave_on = "never"',
            "mine.toml: chat.save_on: 'never' is not one of 'chunk', 'step', 'turn'",
        ),
        ('[chat]\npart_limit = "1"', "mine.toml: chat.part_limit: Expected `int`, got `str`"),
        ("[backups]\nkeep_count = 0", "mine.toml: backups.keep_count: Expected `int` >= 1"),
        ("[chat", "mine.toml is not TOML"),
    ],
)
def test_a_mistake_is_named_with_its_key_and_file(text: str, said: str) -> None:
    with pytest.raises(Invalid) as caught:
        parse_config(text, "mine.toml")
    assert caught.value.message.startswith(said)
    assert caught.value.hint != ""


@given(st.text())
def test_any_text_is_read_or_refused_with_the_name_of_the_file(text: str) -> None:
    said = ""
    try:
        parse_config(text, "mine.toml")
    except Invalid as error:
        said = error.message
    assert said == "" or "mine.toml" in said


def test_a_file_that_is_not_there_means_the_defaults(tmp_path: Path) -> None:
    assert load_config(tmp_path / "none.toml") == Config()
    (tmp_path / "file").touch()
    assert load_config(tmp_path / "file" / "config.toml") == Config()


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "latin.toml").write_bytes(b'[stores]\nchat = "\xe9"')
    with pytest.raises(Invalid, match="UTF-8"):
        load_config(tmp_path / "latin.toml")
    with pytest.raises(ReadOnly):
        load_config(tmp_path)


def test_the_default_is_written_once_and_for_the_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "config.toml"
    write_default(path)
    assert path.read_text("utf-8") == DEFAULT_TEXT
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    with pytest.raises(Conflict):
        write_default(path)


@pytest.mark.parametrize(
    "named, found",
    [("x.db", "/conf/x.db"), ("/abs/x.db", "/abs/x.db"), ("~/x.db", "/home/ann/x.db")],
)
def test_a_store_may_be_anywhere(named: str, found: str) -> None:
    file = Path("/conf/config.toml")
    assert store_path(named, file, {"HOME": "/home/ann"}) == Path(found)

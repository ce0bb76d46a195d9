"""What programs of Hermes's time do around the store: other defaults, odd types, a shared start."""

import enum
from typing import Any

import pytest

from tests.support.states import Factory, talk
from threadkeep.errors import Invalid
from threadkeep.state.hermes_state import SessionDB


class Role(str, enum.Enum):  # noqa: UP042  (what programs have; StrEnum is another type)
    USER = "user"


class Markup(str):
    __slots__ = ()


class Size(enum.IntEnum):
    SMALL = 3


# ---------------------------------------------------------------------- odd types


def test_a_clock_of_whole_seconds_leaves_messages_sound(factory: Factory) -> None:
    with factory.open(clock=lambda: 1_760_000_000) as db:
        db.create_session("s", "cli")
        db.append_message("s", "user", "hello")
        assert isinstance(db.get_messages("s")[0]["timestamp"], float)
        assert db.check() == []


@pytest.mark.parametrize(
    "fields, stored",
    [
        ({"role": Role.USER}, {"role": "user"}),
        ({"content": Markup("<b>")}, {"content": "<b>"}),
        ({"content": Markup("é")}, {"content": "é"}),
        ({"content": Markup("\ud800")}, {"content": "\ud800"}),
        ({"token_count": True}, {"token_count": 1}),
        ({"token_count": Size.SMALL}, {"token_count": 3}),
        ({"token_count": "7"}, {"token_count": 7}),
    ],
    ids=repr,
)
def test_a_subtype_is_stored_as_what_it_is(
    db: SessionDB, fields: dict[str, Any], stored: dict[str, Any]
) -> None:
    db.create_session("s", "cli")
    db.append_message("s", **{"role": "user", "content": "x"} | fields)
    message = db.get_messages("s")[0]
    assert {name: message[name] for name in stored} == stored
    assert type(message["content"]) is str
    assert db.check() == []


@pytest.mark.parametrize("timestamp", ["2026-01-01", [1], 10**400])
def test_a_timestamp_that_is_none_is_refused(db: SessionDB, timestamp: Any) -> None:
    db.create_session("s", "cli")
    with pytest.raises(Invalid, match="Unix seconds"):
        db.append_message("s", "user", "x", timestamp=timestamp)
    assert db.message_count() == 0


@pytest.mark.parametrize("page, given", [(1, 3), (3, 3), (500, 3), (-1, 3), (0, 0)])
def test_any_size_of_page_ends(db: SessionDB, page: int, given: int) -> None:
    talk(db, "s", "one", "two", "three")
    assert len(list(db.iter_messages("s", page))) == given

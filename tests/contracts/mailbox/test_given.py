"""What a caller may give: the wrong type is refused with a typed error, and nothing is written."""

import pytest
from hypothesis import given, strategies as st

from tests.support.mail import MailFactory, open_pair
from threadkeep.errors import Invalid
from threadkeep.mailbox import arguments as checks
from threadkeep.mailbox.records import Place


def test_one_message_in_the_place_of_several_is_explained(factory: MailFactory) -> None:
    pair = open_pair(factory)
    mail = pair.host.send("hello")
    with pytest.raises(Invalid, match="one as a list of one"):
        pair.container.claim(mail)  # type: ignore[arg-type]
    with pytest.raises(Invalid, match="must be a list, not str"):
        pair.container.complete(mail.id)


@pytest.mark.parametrize("limit", [0, -1, -(2**40)])
def test_a_poll_gives_at_least_one_or_is_refused(factory: MailFactory, limit: int) -> None:
    pair = open_pair(factory)
    pair.host.send("wake", on_wake=True)
    with pytest.raises(Invalid, match=f"the limit is {limit}"):
        pair.container.poll(limit)
    assert [mail.text for mail in pair.container.poll(2**62)] == ["wake"]  # it was no poll


def test_the_fields_of_an_action_may_have_any_name(factory: MailFactory) -> None:
    pair = open_pair(factory)
    said = pair.container.act("do", ctx=1, self=2).content
    assert said == {"action": "do", "ctx": 1, "self": 2}


def test_half_a_character_is_no_place(factory: MailFactory) -> None:
    pair = open_pair(factory)
    with pytest.raises(Invalid, match="an incomplete character"):
        pair.container.insert_message("chat", {"text": "x"}, Place("slack", "C\ud800"))


@given(st.one_of(st.text(), st.integers(), st.none(), st.binary(), st.lists(st.integers())))
def test_text_is_given_back_and_nothing_else_passes(value: object) -> None:
    if isinstance(value, str):
        assert checks.need_str(value, "word") == value
    else:
        with pytest.raises(Invalid, match="the word must be text"):
            checks.need_str(value, "word")


@given(st.text(max_size=300))
def test_what_is_shown_is_short_and_harmless(text: str) -> None:
    found = checks.shown(text)
    assert len(found) <= 80
    assert found.replace("…", "").isascii()
    assert found.replace("…", "").isprintable()

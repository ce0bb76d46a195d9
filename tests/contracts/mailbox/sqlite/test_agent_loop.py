"""In files: the loop of an agent, one turn at a time."""

import pytest
from hypothesis import strategies as st

from tests.contracts.mailbox.pair import Pair
from tests.support.mail import MailFactory
from threadkeep.mailbox.container.agent_loop import (
    step,
)
from threadkeep.mailbox.records import Mail, Place


@pytest.fixture
def pair(factory: MailFactory) -> Pair:
    return Pair(factory)


def test_a_turn_shows_life_before_and_after(pair: Pair) -> None:
    pair.host.send("x")
    beats: list[int | None] = []

    def look(mails: list[Mail]) -> None:
        beats.append(pair.heartbeat())
        pair.ctx.folder.forget_heartbeat()

    step(pair.agent, look)
    assert beats[0] is not None
    assert pair.heartbeat() is not None


mails = st.builds(
    Mail,
    st.uuids().map(str),
    st.just(2),
    st.sampled_from(["chat", "task"]),
    st.just("t"),
    st.just("pending"),
    *[st.none()] * 3,
    st.just(0),
    st.booleans(),
    st.just(Place()),
    st.sampled_from(['{"text":"/clear"}', '{"text":"x"}']),
    st.none(),
    st.just(value=False),
)

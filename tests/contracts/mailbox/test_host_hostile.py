"""The host against an agent that writes nonsense into both files, and a world that fails."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.contracts.mailbox.pair import Pair
from tests.contracts.mailbox.postal import (
    Channel,
    Clock,
    Desk,
)
from tests.support.mail import MailFactory
from threadkeep.mailbox.adapters import Adapter
from threadkeep.mailbox.rows import read_moment


@pytest.fixture
def desk(factory: MailFactory) -> Desk:
    return Desk(factory, Clock())


@pytest.fixture
def pair(factory: MailFactory) -> Pair:
    return Pair(factory)


class Interrupted(dict[str, Adapter]):
    """Channels; somebody presses Ctrl-C when the second one is looked for."""

    looks = 0

    def get(self, key: str, default: Any = None) -> Any:
        self.looks += 1
        if self.looks == 2:
            raise KeyboardInterrupt
        return super().get(key, default)


def test_ctrl_c_leaves_no_doubt_about_what_was_sent(desk: Desk) -> None:
    first, second = desk.say("one", "two")
    channel = Channel()
    channels: Mapping[str, Adapter] = Interrupted(test=channel)
    with pytest.raises(KeyboardInterrupt):
        desk.host.drain(channels)
    assert (desk.state(first), desk.state(second)) == ("sent", "prepared")
    desk.new_host().drain({"test": channel})
    assert channel.texts == ["one", "two"]


# ---------------------------------------------------------------------- clocks


def test_a_run_that_was_over_before_its_time_is_not_due_again(pair: Pair) -> None:
    """The agent's clock is ahead, or ours was set back: one period, one run."""
    task = pair.host.insert_task("report", recurrence="0 9 * * *")
    due = read_moment(task.process_after) or 0
    pair.until(due + 5_000)
    pair.agent.complete(pair.claim())
    pair.until(due - 5_000)
    (following,) = pair.host.sync().rearmed
    assert read_moment(pair.host.mail(following).process_after) == due + 24 * 3_600_000

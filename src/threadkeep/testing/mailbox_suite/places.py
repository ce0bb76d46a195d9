"""Where mail goes: names that the agent may write to, and where mail goes without one."""

import pytest

from threadkeep.mailbox.records import Destination, Place
from threadkeep.testing.mailbox_suite.post import CHAT, Factory, open_pair, table

FAMILY = Destination("family", "Family", "channel", "telegram", "F9")
HELPER = Destination("helper", "Helper", "agent", agent_group_id="ag-2")


def test_names_are_rows_of_channels_and_agents(mailbox_factory: Factory) -> None:
    """§2.3 destinations: a channel has its type and chat, an agent its group."""
    pair = open_pair(mailbox_factory)
    pair.host.write_destinations([FAMILY, HELPER])
    rows = {row["name"]: row for row in table(mailbox_factory, pair, "destinations")}
    family, helper = rows["family"], rows["helper"]
    assert (family["display_name"], family["type"]) == ("Family", "channel")
    assert (family["channel_type"], family["platform_id"]) == ("telegram", "F9")
    assert (helper["type"], helper["agent_group_id"]) == ("agent", "ag-2")
    assert pair.container.destinations() == [FAMILY, HELPER]


def test_a_name_says_where_mail_goes(mailbox_factory: Factory) -> None:
    """§2.3 destinations: the container resolves a name against the table."""
    pair = open_pair(mailbox_factory)
    pair.host.write_destinations([FAMILY, HELPER])
    pair.container.send("dinner is ready", to="family")
    (row,) = table(mailbox_factory, pair, "messages_out")
    assert (row["channel_type"], row["platform_id"]) == ("telegram", "F9")


def test_an_unknown_name_is_refused(mailbox_factory: Factory) -> None:
    """§2.3 destinations: without its row a send is rejected as an unknown destination."""
    pair = open_pair(mailbox_factory)
    pair.host.write_destinations([FAMILY])
    with pytest.raises(mailbox_factory.refused):
        pair.container.send("hello", to="stranger")
    assert table(mailbox_factory, pair, "messages_out") == []


def test_names_are_replaced_whole(mailbox_factory: Factory) -> None:
    """§2.3 destinations: every write replaces all names that were there."""
    pair = open_pair(mailbox_factory)
    pair.host.write_destinations([FAMILY, HELPER])
    pair.host.write_destinations([HELPER])
    assert pair.container.destinations() == [HELPER]
    pair.host.write_destinations([])
    assert pair.container.destinations() == []


def test_names_that_are_refused_leave_the_old_ones(mailbox_factory: Factory) -> None:
    """§2.3 destinations: the replacement is one transaction, and a name is unique."""
    pair = open_pair(mailbox_factory)
    pair.host.write_destinations([FAMILY])
    with pytest.raises(mailbox_factory.refused):
        pair.host.write_destinations([HELPER, HELPER])
    assert pair.container.destinations() == [FAMILY]


def test_names_that_change_count_at_once(mailbox_factory: Factory) -> None:
    """§2.3 destinations: a rewrite in the middle of a session is seen by the next send."""
    pair = open_pair(mailbox_factory)
    pair.host.write_destinations([FAMILY])
    pair.container.send("one", to="family")
    moved = Destination("family", "Family", "channel", "telegram", "F10")
    pair.host.write_destinations([moved])
    pair.container.send("two", to="family")
    chats = [row["platform_id"] for row in table(mailbox_factory, pair, "messages_out")]
    assert chats == ["F9", "F10"]


def test_routing_is_a_single_row(mailbox_factory: Factory) -> None:
    """§2.4 session_routing: one row, id 1, which every write replaces."""
    pair = open_pair(mailbox_factory)
    pair.host.write_routing(Place("telegram", "42"))
    (row,) = table(mailbox_factory, pair, "session_routing")
    assert (row["id"], row["channel_type"], row["platform_id"]) == (1, "telegram", "42")
    assert row["thread_id"] is None
    assert pair.container.routing() == pair.host.routing() == Place("telegram", "42")


def test_mail_without_a_name_follows_the_routing(mailbox_factory: Factory) -> None:
    """§2.4 session_routing: it is where mail goes when the agent names no destination."""
    pair = open_pair(mailbox_factory)
    assert pair.container.send("one").place == CHAT
    pair.host.write_routing(Place("telegram", "42"))
    assert pair.container.send("two").place == Place("telegram", "42")

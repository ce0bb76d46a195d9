"""Numbers: even from the host, odd from the container, never the same twice."""

import threading

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tests.lengths import examples
from tests.support.mail import MailFactory, Pair, open_pair
from threadkeep.mailbox.host.host import Host


@pytest.fixture
def pair(factory: MailFactory) -> Pair:
    return open_pair(factory)


def test_the_host_counts_its_own_rows_only_and_the_container_both(pair: Pair) -> None:
    assert pair.host.send("in").seq == 2
    assert [pair.container.send("out").seq for _ in range(5)] == [3, 5, 7, 9, 11]
    assert pair.host.send("in").seq == 4
    assert pair.container.send("out").seq == 13
    assert [pair.host.send("in").seq for _ in range(6)] == [6, 8, 10, 12, 14, 16]
    assert pair.container.send("out").seq == 17


def next_in(inbound: list[int]) -> int:
    top = max(inbound, default=0)
    return 2 if top < 2 else top + 2 - top % 2


def next_out(inbound: list[int], outbound: list[int]) -> int:
    top = max([*inbound, *outbound, 0])
    return top + 1 if top % 2 == 0 else top + 2


@settings(max_examples=examples(15), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from("io"), max_size=14))
def test_any_interleaving_gives_the_numbers_of_the_rule(
    factory: MailFactory, turns: list[str]
) -> None:
    pair = open_pair(factory)
    inbound: list[int] = []
    outbound: list[int] = []
    for turn in turns:
        if turn == "i":
            expected, seq = next_in(inbound), pair.host.send("x").seq
            inbound.append(expected)
        else:
            expected, seq = next_out(inbound, outbound), pair.container.send("x").seq
            outbound.append(expected)
        assert seq == expected


def test_threads_of_two_hosts_never_get_the_same_number(pair: Pair) -> None:
    hosts = [pair.host, pair.box.new_host(), pair.box.new_host()]

    def send(host: Host) -> None:
        for _ in range(10):
            host.send("x")

    threads = [threading.Thread(target=send, args=(host,)) for host in hosts * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [mail.seq for mail in pair.host.inbox(limit=100)] == list(range(2, 122, 2))

"""Queues: who gets which ticket, and what becomes of it."""

from contextlib import ExitStack
from typing import get_args

import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from tests.lengths import examples
from tests.support.tickets import (
    LONG_AGO,
    NOW,
    Factory,
    add_row,
    add_ticket,
    column,
    insert,
    status_of,
    ticket_row,
    undone,
    waiting,
)
from threadkeep.base.sqlite.upkeep import sqlite_file
from threadkeep.base.tx import Sql, Tx
from threadkeep.knowledge import queues
from threadkeep.knowledge.kinds import Queue
from threadkeep.knowledge.queues import (
    LOCK_TIMEOUT_MS,
    QUEUES,
    Ticket,
    claim,
    depths,
    finish,
    give_back,
    held,
    queues_of,
    reap,
    release,
    requeue,
    skip,
    why_skip_agentic,
    why_skip_browser,
    why_skip_shell,
)
from threadkeep.knowledge.store import KnowledgeStore

ALL: tuple[Queue, ...] = get_args(Queue)
every_queue = pytest.mark.parametrize("queue", ALL)


@pytest.fixture(scope="module")
def store(lasting_factory: Factory) -> KnowledgeStore:
    """A store that has all queues."""
    return lasting_factory.open(schema=23)


def take(
    tx: Tx, queue: Queue, *, limit: int = 10, now: int = NOW, at_once: bool = False
) -> list[int]:
    found = claim(tx, queue, worker="me", now=now, limit=limit, at_once=at_once)
    return [ticket.target for ticket in found]


def take_one(tx: Tx, queue: Queue, now: int = NOW) -> Ticket:
    (ticket,) = claim(tx, queue, worker="me", now=now)
    return ticket


# ---------------------------------------------------------------------- who gets what


@every_queue
def test_a_ticket_is_taken_once_and_says_by_whom(tx: Tx, queue: Queue) -> None:
    target = waiting(tx, queue)
    ticket = take_one(tx, queue)
    assert ticket[:6] == (queue, ticket.id, target, 5, 0, 5)
    row = ticket_row(tx, queue, target)
    assert (row["status"], row["locked_at"], row["locked_by"]) == ("processing", NOW, "me")
    assert row["updated_at"] == NOW
    assert take(tx, queue) == []


@every_queue
def test_a_lock_that_is_too_old_is_nobodys(tx: Tx, queue: Queue) -> None:
    target = waiting(tx, queue)
    take(tx, queue)
    assert take(tx, queue, now=NOW + LOCK_TIMEOUT_MS - 1) == []
    assert take(tx, queue, now=NOW + LOCK_TIMEOUT_MS) == [target]


@every_queue
def test_no_more_than_the_limit_is_taken(tx: Tx, queue: Queue) -> None:
    targets = {waiting(tx, queue) for _ in range(5)}
    taken = take(tx, queue, limit=3) + take(tx, queue, limit=3)
    assert len(taken) == 5
    assert set(taken) == targets
    assert take(tx, queue, limit=0) == []


def test_a_shell_session_waits_until_it_is_quiet(tx: Tx) -> None:
    old = waiting(tx, "shell", session=1, at=NOW - 500_000)
    young = waiting(tx, "shell", session=1, at=NOW - 119_000)
    assert take(tx, "shell") == []
    assert take(tx, "shell", now=NOW + 2000) == [old, young]


def test_shell_sessions_come_oldest_first_and_whole(tx: Tx) -> None:
    late = [waiting(tx, "shell", session=1, at=LONG_AGO + n) for n in (50, 60)]
    early = [waiting(tx, "shell", session=2, at=LONG_AGO + n) for n in (20, 10)]
    assert take(tx, "shell", limit=3) == early[::-1]  # the other session does not fit any more
    assert take(tx, "shell", limit=3) == late


def test_a_shell_session_that_is_too_long_is_taken_in_pieces(tx: Tx) -> None:
    events = [waiting(tx, "shell", session=1, at=LONG_AGO + n) for n in range(5)]
    assert [take(tx, "shell", limit=2) for _ in range(3)] == [events[:2], events[2:4], events[4:]]


def test_segments_of_one_folder_come_together_the_oldest_folder_first(tx: Tx) -> None:
    b_late = waiting(tx, "agentic", cwd="/b", at=LONG_AGO + 40)
    a = waiting(tx, "agentic", cwd="/a", at=LONG_AGO + 20)
    b_early = waiting(tx, "agentic", cwd="/b", at=LONG_AGO + 10)
    assert take(tx, "agentic") == [b_early, b_late, a]


def test_a_segment_without_news_is_done_at_once(tx: Tx) -> None:
    known = waiting(tx, "agentic", content_hash="x", last_enriched_content_hash="x")
    grown = waiting(tx, "agentic", content_hash="y", last_enriched_content_hash="x")
    nameless = waiting(tx, "agentic", content_hash=None)
    assert sorted(take(tx, "agentic")) == [grown, nameless]
    assert status_of(tx, "agentic", known) == "done"


def test_visits_wait_a_minute_then_go_by_priority_and_age(tx: Tx) -> None:
    first, second, urgent, young = (add_row(tx, "browser", at=LONG_AGO) for _ in range(4))
    sql = "UPDATE browser_events SET timestamp = :at WHERE id = :id"
    tx.run(Sql(sql), {"at": NOW - 60_000, "id": young})
    for target, at, priority in ((second, 20, 5), (first, 10, 5), (urgent, 30, 1), (young, 1, 1)):
        add_ticket(tx, "browser", target, at=at, priority=priority)
    assert take(tx, "browser") == [urgent, first, second]
    assert take(tx, "browser", now=NOW + 1) == [young]


def test_runs_go_by_priority_and_age(tx: Tx) -> None:
    runs = [add_row(tx, "workflow") for _ in range(3)]
    for target, at, priority in zip(runs, (20, 10, 30), (5, 5, 1), strict=True):
        add_ticket(tx, "workflow", target, at=at, priority=priority)
    assert take(tx, "workflow") == [runs[2], runs[1], runs[0]]


def test_a_session_that_goes_on_at_the_front_does_not_hold_up_the_others(
    tx: Tx, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queues, "_FRONT", 2)
    lively = [waiting(tx, "shell", session=1, at=NOW - n) for n in (900_000, 800_000, 0)]
    others = [waiting(tx, "shell", session=2, at=LONG_AGO + n) for n in range(3)]
    assert take(tx, "shell") == others
    assert take(tx, "shell") == []
    assert take(tx, "shell", now=NOW + 120_001) == lively


@every_queue
def test_a_long_queue_is_taken_to_its_end(
    tx: Tx, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queues, "_FRONT", 2)
    known = {"content_hash": "x", "last_enriched_content_hash": "x"} if queue == "agentic" else {}
    for _ in range(3 if known else 0):  # the whole front has no news
        waiting(tx, queue, **known)
    targets = {waiting(tx, queue) for _ in range(7)}
    taken: list[int] = []
    while found := take(tx, queue, limit=3):
        taken += found
    assert len(taken) == 7
    assert set(taken) == targets


@every_queue
def test_on_demand_nothing_waits(tx: Tx, queue: Queue) -> None:
    target = waiting(tx, queue, at=NOW)
    assert take(tx, queue, at_once=True) == [target]


@pytest.mark.parametrize("queue", ["shell", "agentic", "browser"])
def test_probes_are_never_given_out(tx: Tx, queue: Queue) -> None:
    probe = waiting(tx, queue, probe_tag="probe")
    assert take(tx, queue, at_once=True) == []
    assert requeue(tx, queue, [probe], NOW) == 0
    assert depths(tx)[queue] == {}  # it would wait for ever


@every_queue
def test_a_ticket_without_its_row_is_not_stuck(queue: Queue, factory: Factory) -> None:
    with factory.open(schema=23) as store:
        with sqlite_file(store.context.db).write(foreign_keys=False) as tx:
            add_ticket(tx, queue, 77)
        with store.context.db.write() as tx:
            assert claim(tx, queue, worker="me", now=NOW) == []
            assert depths(tx)[queue] == {}


# ---------------------------------------------------------------------- what becomes of it


@every_queue
def test_finished(tx: Tx, queue: Queue) -> None:
    target = waiting(tx, queue)
    finish(tx, queue, [take_one(tx, queue).id], NOW + 1)
    row = ticket_row(tx, queue, target)
    assert (row["status"], row["locked_at"], row["locked_by"]) == ("done", None, None)
    assert row["updated_at"] == NOW + 1


@every_queue
def test_what_goes_wrong_is_tried_again_until_it_has_failed(tx: Tx, queue: Queue) -> None:
    target = waiting(tx, queue)
    for tries in range(1, 6):
        give_back(tx, take_one(tx, queue), f"try {tries}", NOW + tries)
        row = ticket_row(tx, queue, target)
        assert (row["retry_count"], row["error_message"]) == (tries, f"try {tries}")
        assert (row["locked_at"], row["locked_by"], row["updated_at"]) == (None, None, NOW + tries)
        assert row["status"] == ("failed" if tries == 5 else "pending")
    assert take(tx, queue) == []


@pytest.mark.parametrize("now_has, learned", [("hash 0", "hash 0"), ("grown", None)])
def test_a_segment_that_failed_for_good_counts_as_learned_unless_it_grew(
    tx: Tx, now_has: str, learned: str | None
) -> None:
    target = add_row(tx, "agentic")
    add_ticket(tx, "agentic", target, max_retries=1)
    ticket = take_one(tx, "agentic")
    tx.run(Sql("UPDATE agentic_sessions SET content_hash = :hash"), {"hash": now_has})
    give_back(tx, ticket, "no", NOW)
    assert status_of(tx, "agentic", target) == "failed"
    assert column(tx, "SELECT last_enriched_content_hash FROM agentic_sessions") == [learned]


@every_queue
def test_skipped(tx: Tx, queue: Queue) -> None:
    target = waiting(tx, queue)
    skip(tx, take_one(tx, queue), "tells nothing", NOW + 1)
    row = ticket_row(tx, queue, target)
    assert (row["status"], row["error_message"]) == ("skipped", "tells nothing")
    assert (row["locked_at"], row["updated_at"]) == (None, NOW + 1)
    marked = "enriched_at IS NOT NULL" if queue == "memory" else "enriched"
    assert column(tx, f"SELECT {marked} FROM {QUEUES[queue].rows}") == [1]
    if queue == "agentic":
        sql = "SELECT content_hash = last_enriched_content_hash FROM agentic_sessions"
        assert column(tx, sql) == [1]


def test_a_segment_that_grew_while_it_was_skipped_is_looked_at_again(tx: Tx) -> None:
    target = waiting(tx, "agentic")
    ticket = take_one(tx, "agentic")
    tx.run(Sql("UPDATE agentic_sessions SET content_hash = 'grown'"))
    skip(tx, ticket, "too short", NOW)
    assert take(tx, "agentic") == [target]
    assert column(tx, "SELECT enriched FROM agentic_sessions") == [0]


@every_queue
def test_one_that_lost_its_ticket_cannot_end_it(tx: Tx, queue: Queue) -> None:
    target = waiting(tx, queue)
    mine = take_one(tx, queue)
    later = NOW + LOCK_TIMEOUT_MS
    (theirs,) = claim(tx, queue, worker="other", now=later)
    give_back(tx, mine, "late", later)
    skip(tx, mine, "late", later)
    assert ticket_row(tx, queue, target)["locked_by"] == "other"
    assert held(tx, [mine, theirs]) == [theirs]


@every_queue
def test_a_clean_stop_counts_as_no_try(tx: Tx, queue: Queue) -> None:
    target = waiting(tx, queue)
    take(tx, queue)
    assert release(tx, "someone else") == 0
    assert release(tx, "me") == 1
    row = ticket_row(tx, queue, target)
    assert (row["status"], row["retry_count"], row["locked_by"]) == ("pending", 0, None)


# ---------------------------------------------------------------------- looking after the queues


@every_queue
def test_the_reaper_takes_back_what_is_too_old(tx: Tx, queue: Queue) -> None:
    target = waiting(tx, queue)
    take(tx, queue)
    assert reap(tx, NOW + 599_999) == 0
    assert reap(tx, NOW + 600_000) == 1
    row = ticket_row(tx, queue, target)
    assert (row["status"], row["retry_count"]) == ("pending", 1)
    assert row["error_message"] == "stale lock reaped (>=600s)"
    assert (row["locked_at"], row["locked_by"], row["updated_at"]) == (None, None, NOW + 600_000)


def test_the_reaper_looks_at_the_frozen_queue_but_nothing_is_taken_from_it(
    factory: Factory,
) -> None:
    with factory.open() as store, undone(store) as tx:
        assert queues_of(tx) == [queue for queue in ALL if queue != "memory"]
        _look_at_frozen(tx)


def _look_at_frozen(tx: Tx) -> None:
    segment = {"session_id": "s", "project_dir": "p", "cwd": "/p", "source_file": "f"}
    times = {"start_time": 1, "end_time": 2, "created_at": 1}
    row = insert(
        tx, "claude_sessions", **segment, **times, segment_index=0, summary_text="", message_count=1
    )
    lock = {"status": "processing", "locked_at": LONG_AGO, "created_at": 1, "updated_at": 1}
    insert(tx, "claude_enrichment_queue", claude_session_id=row, max_retries=1, **lock)
    assert reap(tx, NOW) == 1
    assert depths(tx)["claude"] == {"failed": 1}
    assert all(take(tx, queue) == [] for queue in queues_of(tx))


def test_a_segment_that_ends_every_worker_does_not_come_back_for_ever(tx: Tx) -> None:
    add_ticket(tx, "agentic", add_row(tx, "agentic"), max_retries=1)
    take(tx, "agentic")
    reap(tx, NOW + 600_000)
    assert depths(tx)["agentic"] == {"failed": 1}
    assert column(tx, "SELECT last_enriched_content_hash FROM agentic_sessions") == ["hash 0"]


@every_queue
def test_rows_can_be_enriched_anew(tx: Tx, queue: Queue) -> None:
    done, busy, new = waiting(tx, queue), waiting(tx, queue), add_row(tx, queue)
    for ticket in claim(tx, queue, worker="me", now=NOW):
        if ticket.target == done:
            finish(tx, queue, [ticket.id], NOW)
    tx.run(Sql("UPDATE agentic_sessions SET last_enriched_content_hash = content_hash"))
    assert requeue(tx, queue, [done, busy, new, 12345], NOW + 1) == 2
    assert sorted(take(tx, queue)) == sorted([done, new])
    assert ticket_row(tx, queue, busy)["locked_at"] == NOW


# ---------------------------------------------------------------------- what tells nothing


@pytest.mark.parametrize(
    "command, output, ms, told",
    [
        ("clear", None, 5, False),
        ("", "", 0, False),
        (" : ", None, 99, False),
        ("exec zsh", None, 10, False),
        ("exec /bin/zsh", None, 10, False),
        ("clear", None, 100, True),
        ("exit", "there are stopped jobs", 5, True),
        ("exec zsh -l", None, 10, True),
        ("clear && make", None, 5, True),
        ("ls", None, 1, True),
    ],
)
def test_trivial_commands(command: str, output: str | None, ms: int, *, told: bool) -> None:
    one = why_skip_shell(command=command, stdout=output, stderr=None, duration_ms=ms)
    other = why_skip_shell(command=command, stdout=None, stderr=output, duration_ms=ms)
    assert (one is None) == (other is None) == told


@pytest.mark.parametrize(
    "harness, messages, tools, diffs, commits, told",
    [
        ("claude-code", 2, "[]", None, None, False),
        ("codex", 2, None, "null", "[]", False),
        ("codex", 2, "no json", None, None, False),
        ("codex", 3, None, None, None, True),
        ("codex", 1, '[{"name":"Bash"}]', None, None, True),
        ("opencode", 2, '[{"name":"Bash"}]', "null", "[]", False),
        ("opencode", 2, None, '{"files":1}', "[]", True),
        ("opencode", 0, None, "null", '["fix"]', True),
    ],
)
def test_short_segments(
    harness: str, messages: int, tools: str, diffs: str, commits: str, *, told: bool
) -> None:
    why = why_skip_agentic(
        harness=harness,
        message_count=messages,
        tool_calls_json=tools,
        snapshot_diffs_json=diffs,
        commit_messages_json=commits,
    )
    assert (why is None) == told


@pytest.mark.parametrize(
    "dwell, scroll, query, told",
    [
        (999, 1.0, "how", False),
        (1000, 0.14, None, False),
        (1000, None, "", False),
        (119_999, 0.0, None, False),
        (1000, 0.15, None, True),
        (1000, 0.0, "how to", True),
        (120_000, 0.0, None, True),
    ],
)
def test_glances(dwell: int, scroll: float | None, query: str | None, *, told: bool) -> None:
    why = why_skip_browser(dwell_ms=dwell, scroll_depth=scroll, search_query=query)
    assert (why is None) == told


@given(st.text(), st.integers(0, 300))
def test_whatever_has_output_is_told(command: str, ms: int) -> None:
    assert why_skip_shell(command=command, stdout="x", stderr=None, duration_ms=ms) is None


# ---------------------------------------------------------------------- any order of things


class Workers(RuleBasedStateMachine):
    """Two workers and one queue: a ticket is in one pair of hands at most, and none is stuck."""

    store: KnowledgeStore

    @initialize(queue=st.sampled_from(ALL))
    def begin(self, queue: Queue) -> None:
        self.stack = ExitStack()
        self.tx = self.stack.enter_context(undone(self.store))
        self.queue, self.now = queue, NOW
        self.hands: dict[int, Ticket] = {}
        self.since: dict[int, int] = {}
        self.ended: dict[int, str] = {}

    @rule(tries=st.integers(1, 3))
    def arrive(self, tries: int) -> None:
        add_ticket(self.tx, self.queue, add_row(self.tx, self.queue), max_retries=tries)

    @rule(worker=st.sampled_from("ab"), limit=st.integers(1, 4))
    def take(self, worker: str, limit: int) -> None:
        taken = claim(self.tx, self.queue, worker=worker, now=self.now, limit=limit)
        for ticket in taken:
            assert self.since.get(ticket.target, 0) <= self.now - LOCK_TIMEOUT_MS
            assert ticket.target not in self.ended
            self.hands[ticket.target], self.since[ticket.target] = ticket, self.now

    @rule(pick=st.integers(0, 9), how=st.sampled_from(["finish", "skip", "back"]))
    def end(self, pick: int, how: str) -> None:
        if not self.hands:
            return
        ticket = self.hands.pop(sorted(self.hands)[pick % len(self.hands)])
        self.since.pop(ticket.target)
        if how == "finish":
            finish(self.tx, self.queue, [ticket.id], self.now)
            self.ended[ticket.target] = "done"
        elif how == "skip":
            skip(self.tx, ticket, "nothing", self.now)
            self.ended[ticket.target] = "skipped"
        else:
            give_back(self.tx, ticket, "no", self.now)
            if ticket.retry_count + 1 >= ticket.max_retries:
                self.ended[ticket.target] = "failed"

    @rule(worker=st.sampled_from("ab"))
    def stop(self, worker: str) -> None:
        release(self.tx, worker)
        rows = [t for t in self.hands if status_of(self.tx, self.queue, t) == "pending"]
        for target in rows:
            del self.hands[target], self.since[target]

    @rule(ms=st.sampled_from([1, LOCK_TIMEOUT_MS - 1, LOCK_TIMEOUT_MS]))
    def wait(self, ms: int) -> None:
        self.now += ms

    @rule()
    def look_after(self) -> None:
        old = {t for t, at in self.since.items() if at <= self.now - LOCK_TIMEOUT_MS}
        assert reap(self.tx, self.now) == len(old)
        for target in old:
            ticket = self.hands.pop(target)
            del self.since[target]
            if ticket.retry_count + 1 >= ticket.max_retries:
                self.ended[target] = "failed"

    @invariant()
    def everything_is_where_it_should_be(self) -> None:
        if not hasattr(self, "tx"):
            return
        table = QUEUES[self.queue]
        rows = self.tx.all(Sql(f"SELECT {table.target}, status, locked_at FROM {table.name}"))
        for target, status, locked_at in rows:
            expected = "processing" if target in self.hands else self.ended.get(target, "pending")
            assert (status, locked_at) == (expected, self.since.get(target))

    def teardown(self) -> None:
        """Nothing is stuck: after the longest lock, all that is open can be taken and ended."""
        if not hasattr(self, "tx"):
            return
        with self.stack:
            self.now += LOCK_TIMEOUT_MS
            while left := claim(self.tx, self.queue, worker="last", now=self.now):
                finish(self.tx, self.queue, [ticket.id for ticket in left], self.now)
            assert set(depths(self.tx)[self.queue]) <= {"done", "skipped", "failed"}


def test_any_order_of_things(store: KnowledgeStore) -> None:
    machine = type("Machine", (Workers,), {"store": store})
    run_state_machine_as_test(
        machine, settings=settings(max_examples=examples(40), stateful_step_count=20, deadline=None)
    )

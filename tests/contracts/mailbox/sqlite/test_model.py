"""Random lives of a mailbox, with crashes of both sides, against the model of it (model.py)."""

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.contracts.mailbox.sqlite.model import (
    SECOND,
    Died,
    Mail,
    Mode,
    Model,
    NewMail,
    Out,
    as_new,
)
from tests.lengths import examples
from threadkeep.mailbox.adapters import NotNow, Outgoing, Refused
from threadkeep.mailbox.container.container import Container
from threadkeep.mailbox.host.host import Host
from threadkeep.mailbox.records import Destination, Place
from threadkeep.mailbox.rows import read_moment

BEGIN = 1_772_000_000 * SECOND
PLACES = ("keyed", "asked", "plain")
CRON = "*/5 * * * *"
MODES: tuple[Mode, ...] = (
    *("ok", "refuses", "offline", "breaks", "dies before", "dies after"),
    *("doubt, sent", "doubt, not"),
)
SOME_MODES = st.lists(st.sampled_from(MODES), max_size=4)
WAITS = st.sampled_from((1, 5, 30, 300, 3600))
pytestmark = pytest.mark.slow


class Channel:
    """A channel that does as it is told, and remembers what it did."""

    def __init__(self, place: str, modes: list[Mode], effects: list[tuple[str, str]]) -> None:
        self.honours_key = place == "keyed"
        self.was_sent = self._was_sent if place == "asked" else None
        self._place = place
        self._modes = modes
        self._effects = effects

    def send(self, mail: Outgoing) -> str:
        mode = self._modes.pop(0) if self._modes else "ok"
        known = self.honours_key and (self._place, mail.id) in self._effects
        if mode in ("ok", "dies after", "doubt, sent") and not known:
            self._effects.append((self._place, mail.id))
        if mode.startswith("dies"):
            raise Died
        if mode == "refuses":
            raise Refused("not this one")
        if mode == "offline":
            raise NotNow("the channel is away")
        if mode == "breaks":
            raise ConnectionError("the line is down")
        if mode.startswith("doubt"):
            raise TimeoutError
        return f"platform-{mail.id}"

    def _was_sent(self, key: str) -> bool:
        return (self._place, key.partition(":")[2]) in self._effects


class Mailbox(RuleBasedStateMachine):
    """One session folder and its model; a rule does the same to both."""

    def __init__(self) -> None:
        super().__init__()
        shared_memory = Path("/dev/shm")  # only because nothing waits for a disk there
        place = shared_memory if shared_memory.is_dir() else None
        self.work = Path(tempfile.mkdtemp(prefix="threadkeep-model-", dir=place))
        self.folder = self.work / "sess-1"
        self.model = Model(BEGIN)
        self.effects: list[tuple[str, str]] = []
        self.words = 0
        host = Host.create(self.folder, agent_group="ag-1", session="sess-1", clock=self.clock)
        host.write_routing(Place("keyed", "chat"))
        host.write_destinations([Destination(p, p, "channel", p, "chat") for p in PLACES])
        self.host = host
        self.container: Container | None = None
        self.start()

    def teardown(self) -> None:
        try:
            self._verify()
        finally:
            shutil.rmtree(self.work)

    def _verify(self) -> None:
        assert [found for found in self.host.verify() if found.severity == "error"] == []

    def clock(self) -> int:
        return self.model.now

    def _say(self) -> str:
        self.words += 1
        return f"words {self.words}"

    # ------------------------------------------------------------------ the host writes

    @rule(later=st.sampled_from((None, 5, 90)), trigger=st.booleans())
    def send(self, later: int | None, *, trigger: bool) -> None:
        due = None if later is None else self.model.now + later * SECOND
        self.host.send(self._say(), process_after=due, trigger=trigger)
        self.model.expected.append(NewMail("chat", due=due, trigger=trigger))

    @rule()
    def send_again(self) -> None:
        """The same id with the same words is the same mail."""
        for _ in range(2):
            self.host.send("the same", id="same")
        if not any(mail.id == "same" for mail in self.model.mails.values()):
            self.model.expected.append(NewMail("chat"))

    @rule(recurring=st.booleans())
    def task(self, *, recurring: bool) -> None:
        due = self.model.next_run() if recurring else self.model.now + 60 * SECOND
        if recurring:
            self.host.insert_task(self._say(), recurrence=CRON)
        else:
            self.host.insert_task(self._say(), process_after=due)
        self.model.expected.append(NewMail("task", due=due, recurring=recurring))

    @rule(
        pick=st.randoms(use_true_random=False), verb=st.sampled_from(("pause", "resume", "cancel"))
    )
    def change_task(self, pick: Any, verb: str) -> None:
        known = [mail for mail in self.model.mails.values() if mail.kind == "task"]
        which = pick.choice(known).series if known else "nothing"
        if verb == "pause":
            found = self.host.pause_task(which), self.model.move(which, "pending", "paused")
        elif verb == "resume":
            found = self.host.resume_task(which), self.model.move(which, "paused", "pending")
        else:
            found = self.host.cancel_task(which), self.model.cancel(which)
        assert found[0] == found[1]

    @precondition(lambda self: self.model.failed())
    @rule(pick=st.randoms(use_true_random=False))
    def retry(self, pick: Any) -> None:
        mail = pick.choice(self.model.failed())
        self.host.retry(mail.id)
        self.model.retry(mail)

    @rule(pick=st.randoms(use_true_random=False))
    def retry_delivery(self, pick: Any) -> None:
        failed = [out for out in self.model.outs.values() if out.state == "failed"]
        if failed:
            out = pick.choice(failed)
            self.host.retry(out.id)
            self.model.retry_out(out)

    # ------------------------------------------------------------------ the container works

    def start(self) -> None:
        self.container = Container(self.folder, clock=self.clock)
        assert self.container.start() == len(self.model.in_hand())
        self.model.let_go(self.model.in_hand())

    @precondition(lambda self: self.container is None)
    @rule()
    def start_container(self) -> None:
        self.start()

    @precondition(lambda self: self.container is not None)
    @rule(again=st.booleans())
    def crash_container(self, *, again: bool) -> None:
        """The kernel frees its lock; nothing else is tidied up."""
        assert self.container is not None
        self.container.stop()
        self.container = None
        if again:
            self.start()

    @precondition(lambda self: self.container is not None)
    @rule(limit=st.sampled_from((1, 3, 10)))
    def poll_and_claim(self, limit: int) -> None:
        assert self.container is not None
        mails = self.container.poll(limit)
        assert [mail.seq for mail in mails] == self.model.waiting()[:limit]
        claimed = self.container.claim(mails)
        mine = self.model.claim(self.model.waiting()[:limit])
        assert claimed == [self.model.mails[seq].id for seq in mine]
        assert self.container.claim(mails) == []

    @precondition(lambda self: self.container is not None)
    @rule(times=st.integers(2, 6))
    def crash_with_mail_in_hand(self, times: int) -> None:
        """Mail that ends every container that takes it."""
        for _ in range(times):
            self.poll_and_claim(1)
            self.crash_container(again=True)

    @precondition(lambda self: self.container is not None)
    @rule(how=st.sampled_from(("complete", "fail")), place=st.sampled_from(PLACES))
    def whole_turn(self, how: str, place: str) -> None:
        """What usually happens: take, answer, finish, take over, deliver."""
        self.poll_and_claim(10)
        self.answer(place, None)
        if self.model.in_hand():
            self.finish(how, all_=True)
        self.sweep(dies=False)
        self._compare()
        self.drain([])

    @precondition(lambda self: self.container is not None and self.model.in_hand())
    @rule(how=st.sampled_from(("complete", "complete", "fail", "release")), all_=st.booleans())
    def finish(self, how: str, *, all_: bool) -> None:
        assert self.container is not None
        seqs = self.model.in_hand() if all_ else self.model.in_hand()[:1]
        ids = [self.model.mails[seq].id for seq in seqs]
        if how == "release":
            assert self.container.release(ids) == len(ids)
            self.model.give_back(seqs)
            return
        if how == "complete":
            self.container.complete(ids)
        else:
            self.container.fail(ids, "it was too hard")
        for seq in seqs:
            self.model.finish(seq, "completed" if how == "complete" else "failed")

    # ------------------------------------------------------------------ the container writes

    @precondition(lambda self: self.container is not None)
    @rule(place=st.sampled_from(PLACES), count=st.integers(2, 4))
    def answer_at_length(self, place: str, count: int) -> None:
        for _ in range(count):
            self.answer(place, None)

    @precondition(lambda self: self.container is not None)
    @rule(place=st.sampled_from(PLACES), later=st.sampled_from((None, None, 20)))
    def answer(self, place: str, later: int | None) -> None:
        assert self.container is not None
        due = None if later is None else self.model.now + later * SECOND
        sent = self.container.send(self._say(), to=place, deliver_after=due)
        self._sent(sent.id, sent.seq, place, due=due)

    @precondition(lambda self: self.container is not None and self.model.outs)
    @rule(pick=st.randoms(use_true_random=False))
    def edit(self, pick: Any) -> None:
        assert self.container is not None
        target = pick.choice(list(self.model.outs.values()))
        if target.task is None:
            sent = self.container.edit(target.seq, self._say())
            self._sent(sent.id, sent.seq, target.place)

    @precondition(lambda self: self.container is not None)
    @rule(recurring=st.booleans())
    def schedule(self, *, recurring: bool) -> None:
        assert self.container is not None
        due = self.model.next_run() if recurring else self.model.now + 30 * SECOND
        self.container.schedule(
            self._say(), process_after=due, recurrence=CRON if recurring else None
        )
        row = self._rows("outbound", "SELECT id, seq FROM messages_out ORDER BY seq DESC LIMIT 1")[
            0
        ]
        task = NewMail("task", due=due, recurring=recurring)
        self._sent(row[0], row[1], "", task=task)

    def _sent(self, out_id: str, seq: int | None, place: str, **more: Any) -> None:
        assert seq == self.model.next_out()
        self.model.outs[seq] = Out(out_id, seq, place, **more)

    # ------------------------------------------------------------------ the host works

    @rule(rounds=st.lists(st.tuples(SOME_MODES, WAITS), min_size=1, max_size=3))
    def drain_again_and_again(self, rounds: list[tuple[list[Mode], int]]) -> None:
        """Time goes by between two drains, so that what was put off comes up again."""
        for modes, seconds in rounds:
            self.drain(modes)
            self._compare()
            self.wait(seconds)

    @rule(modes=SOME_MODES)
    def drain(self, modes: list[Mode]) -> None:
        left = list(modes)
        channels = {place: Channel(place, left, self.effects) for place in PLACES}
        died = [_dies(lambda: self.host.drain(channels)), _dies(lambda: self.model.drain(modes))]
        assert died[0] == died[1]
        if died[0]:
            self._start_host()

    def _start_host(self) -> None:
        self.host = Host(self.folder, clock=self.clock)
        self._verify()

    @rule(dies=st.booleans())
    def sweep(self, *, dies: bool) -> None:
        """Sweep; the host may die after it has counted claims, before it lets go of them."""
        running = self.container is not None
        folder = self.host.context.folder
        if dies and not running:
            setattr(folder.outbound, "write", _die)  # noqa: B010  (on this object only)
            has_claims = bool(self.model.in_hand())
            assert _dies(self.host.sweep) == has_claims
            self._start_host()
        else:
            self.host.sweep()
        self.model.sweep(running=running, dies=dies)

    @precondition(lambda self: self.model.in_hand())
    @rule(deaths=st.lists(st.booleans(), min_size=1, max_size=3), seconds=WAITS)
    def end_of_a_container(self, deaths: list[bool], seconds: int) -> None:
        """Its claims are let go, by a host that may die over it, some time later once more."""
        if self.container is not None:
            self.crash_container(again=False)
        for dies in deaths:
            self.sweep(dies=dies)
            self._compare()
            self.wait(seconds)

    @rule(seconds=WAITS)
    def wait(self, seconds: int) -> None:
        self.model.now += seconds * SECOND

    # ------------------------------------------------------------------ what must hold

    @invariant()
    def nothing_is_lost_and_nothing_is_there_twice(self) -> None:
        self._compare()

    def _compare(self) -> None:
        """Compare all mail to the agent with the model, which learns the numbers of new rows."""
        rows = {row.seq: row for row in self._mails()}
        for seq in sorted(set(rows) - set(self.model.mails)):
            new = as_new(rows[seq])
            assert new in self.model.expected, f"nobody expected {new}"
            self.model.expected.remove(new)
            self.model.adopt(rows[seq].id, seq, new)
        assert self.model.expected == []
        assert rows == {seq: _shown(mail) for seq, mail in self.model.mails.items()}
        assert self.host.due() == self.model.wanted()

    @invariant()
    def the_container_has_said_what_it_said(self) -> None:
        ids = {mail.id: seq for seq, mail in self.model.mails.items()}
        acks = self._rows("outbound", "SELECT message_id, status FROM processing_ack")
        assert {ids[mail_id]: status for mail_id, status in acks} == {
            seq: said.status for seq, said in self.model.said.items()
        }
        tries = self._rows("outbound", "SELECT message_id, tries FROM tk_claim WHERE tries > 0")
        assert {ids[mail_id]: n for mail_id, n in tries} == {
            seq: n for seq, n in self.model.claims.items() if n > 0
        }

    @invariant()
    def deliveries_stand_where_they_should(self) -> None:
        sql = "SELECT message_out_id, state, attempts, due FROM tk_delivery"
        found = {out_id: rest for out_id, *rest in self._rows("inbound", sql)}
        assert found.keys() == {o.id for o in self.model.outs.values() if o.state != "unseen"}
        for out in self.model.outs.values():
            if out.state != "unseen":
                state, attempts, due = found[out.id]
                assert (state, attempts, read_moment(due)) == (out.state, out.attempts, out.due)
        outs = self._rows("outbound", "SELECT seq, id FROM messages_out")
        assert dict(outs) == {seq: out.id for seq, out in self.model.outs.items()}

    @invariant()
    def effects_are_had_once_and_in_order(self) -> None:
        assert self.effects == self.model.effects
        assert len(set(self.effects)) == len(self.effects)
        usual = {o.id: seq for seq, o in self.model.outs.items() if not (o.again or o.held)}
        for place in PLACES:
            order = [
                usual[out_id]
                for where, out_id in self.effects
                if where == place and out_id in usual
            ]
            assert order == sorted(order)

    @invariant()
    def general_rules_hold(self) -> None:
        live = [
            mail.series
            for mail in self.model.mails.values()
            if mail.recurring and mail.status in ("pending", "paused")
        ]
        assert len(set(live)) == len(live)
        assert all(mail.tries <= 6 for mail in self.model.mails.values())
        failed = {mail.id for mail in self.model.mails.values() if mail.status == "failed"}
        reasons = self._rows("inbound", "SELECT message_id FROM tk_dead WHERE reason <> ''")
        assert {mail_id for (mail_id,) in reasons} == failed

    # ------------------------------------------------------------------ looking

    def _rows(self, side: str, sql: str) -> list[Any]:
        with closing(sqlite3.connect(self.folder / f"{side}.db")) as connection:
            return connection.execute(sql).fetchall()

    def _mails(self) -> Iterator[Mail]:
        sql = """SELECT id, seq, kind, series_id, process_after, status, trigger, recurrence,
                        channel_type, tries FROM messages_in"""
        for row in self._rows("inbound", sql):
            mail_id, seq, kind, series, due, status, trigger, cron, channel, tries = row
            assert cron in (None, CRON)
            yield Mail(
                id=mail_id,
                seq=seq,
                kind=kind,
                series=series,
                due=read_moment(due),
                status=status,
                trigger=bool(trigger),
                recurring=cron is not None,
                is_note=channel == "agent",
                tries=tries,
            )


def _shown(mail: Mail) -> Mail:
    return Mail(**{**vars(mail), "copied": False})


def _dies(action: Any) -> bool:
    try:
        action()
    except Died:
        return True
    return False


def _die() -> None:
    raise Died


TestMailbox = Mailbox.TestCase
TestMailbox.settings = settings(max_examples=examples(30), stateful_step_count=30, derandomize=True)

"""A host and an agent that are killed again and again while they exchange mail.

What must hold when both have run on until all is quiet:

- every mail that was acknowledged to its sender is there, and is completed; or it is failed with a
  reason, and then it was claimed as often as allowed;
- every answer has exactly one effect outside, in the order of numbers per channel. Mail that was
  claimed more than once may have more than one answer, unless the answers share an id;
- numbers are even on one side and odd on the other, no claim is left, both files are sound.
"""

import os
import random
import select
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from tests.faults.mail_effects import ASKED, KEYED, Effects, fast
from threadkeep.mailbox.context import DEFAULT, claims_allowed
from threadkeep.mailbox.host.host import Host
from threadkeep.mailbox.records import Destination, Place
from threadkeep.mailbox.verification import verify

PROGRAM = Path(__file__).with_name("mail_programs.py")
MAILS = 4
# A round has about so many events of one side: kills fall on all of them, and after the last.
EVENTS = 16
PATIENCE = 120.0


class Program:
    """One of the two programs, and how often it has said something."""

    def __init__(self, role: str, *arguments: Path) -> None:
        self.command = [sys.executable, str(PROGRAM), role, *map(str, arguments)]
        self.events = 0
        self._rest = b""
        self.start()

    def start(self) -> None:
        """Begin a life."""
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(self.command, stdin=pipe, stdout=pipe, bufsize=0)

    def fileno(self) -> int:
        """Return where its words come from, for select."""
        assert self.process.stdout is not None
        return self.process.stdout.fileno()

    def order(self, lines: list[str]) -> None:
        """Tell the program what to do."""
        assert self.process.stdin is not None
        self.process.stdin.write("".join(f"{line}\n" for line in lines).encode())

    def read(self) -> list[str]:
        """Return what it has said; a program that ended by itself is a failure."""
        said = os.read(self.fileno(), 65536)
        assert said, f"{self.command[2]} ended by itself with {self.process.wait(PATIENCE)}"
        return self._lines(said)

    def kill(self) -> list[str]:
        """End it at once; give what it had said and nobody had read."""
        with self.process as process:
            process.send_signal(signal.SIGKILL)
            assert process.stdout is not None
            lines = self._lines(process.stdout.read())
        assert process.returncode == -signal.SIGKILL, f"{self.command[2]}: {process.returncode}"
        self._rest = b""
        return lines

    def _lines(self, said: bytes) -> list[str]:
        *whole, self._rest = (self._rest + said).split(b"\n")
        self.events += len(whole)
        return [line.decode() for line in whole]


class Score(NamedTuple):
    """What an exchange came to."""

    rounds: int
    kills: int
    mails: int
    answers: int
    given_up: int
    in_doubt: int

    def __str__(self) -> str:
        return (
            f"{self.rounds} rounds, {self.kills} kills, {self.mails} mails, {self.answers} answers;"
            f" {self.given_up} given up, {self.in_doubt} in doubt, 0 lost, 0 effects twice"
        )


class Exchange:
    """One session folder, two programs, and what the host acknowledged."""

    def __init__(self, work: Path, seed: int) -> None:
        self.folder = work / "sess-1"
        self.effects = Effects(work / "effects")
        made = Host.create(self.folder, agent_group="ag-1", session="sess-1", clock=fast)
        made.write_routing(Place(KEYED, "chat-1"))
        made.write_destinations([Destination(ASKED, ASKED, "channel", ASKED, "chat-2")])
        self.context = made.context
        self.rng = random.Random(seed)
        self.wanted = 0
        self.acknowledged: set[int] = set()
        self.kills = self.asked = self.quiet = 0

    def run(self, rounds: int) -> Score:
        """Make so many rounds; the first thing that does not hold is an AssertionError."""
        self.host = Program("host", self.folder, self.effects.path)
        self.agent = Program("agent", self.folder)
        try:
            for number in range(1, rounds + 1):
                self.play()
                self.settle()
                check(self, whole=number % 10 == 0 or number == rounds)
        finally:
            for program in (self.host, self.agent):
                with program.process as process:
                    process.kill()
        return self.score(rounds)

    # One round ------------------------------------------------------------------------

    def play(self) -> None:
        """Send some mail and kill one of the two, or both, at some event; perhaps twice."""
        self.wanted += MAILS
        for victims in self._plan():
            self._order()
            end = sum(victim.events for victim in victims) + self.rng.randint(1, EVENTS)
            self._listen(lambda: self._is_quiet() or sum(v.events for v in victims) >= end)  # noqa: B023
            for victim in victims:
                self._kill(victim)
            for victim in victims:
                victim.start()
            if self.rng.random() < 0.25:
                self._kill_while_starting(self.rng.choice(victims))

    def _plan(self) -> list[list[Program]]:
        one = self.rng.choice(([self.host], [self.agent]))
        plans = ([one], [one], [one], [[self.host, self.agent]], [one, one])
        return self.rng.choice(plans)

    def _kill_while_starting(self, victim: Program) -> None:
        end = victim.events + self.rng.randint(0, 2)  # before, at and after its first word
        self._listen(lambda: victim.events >= end)
        self._kill(victim)
        victim.start()

    def _kill(self, victim: Program) -> None:
        for line in victim.kill():
            self._note(line)
        self.kills += 1

    def settle(self) -> None:
        """Let both go on until all is quiet."""
        self._order()
        self._listen(self._is_quiet)

    # Talking to the programs ----------------------------------------------------------

    def _order(self) -> None:
        """Ask for the mail that was not acknowledged yet, and to be told when all is quiet."""
        numbers = range(1, self.wanted + 1)
        missing = [f"send {number}" for number in numbers if number not in self.acknowledged]
        self.asked += 1
        self.host.order([*missing, f"quiet {self.asked}"])

    def _is_quiet(self) -> bool:
        return self.quiet == self.asked

    def _listen(self, enough: Callable[[], bool]) -> None:
        while not enough():
            ready = select.select([self.host, self.agent], [], [], PATIENCE)[0]
            assert ready, f"nothing happened for {PATIENCE:g} s: {self._open()}"
            for program in ready:
                for line in program.read():
                    self._note(line)

    def _note(self, line: str) -> None:
        word, _, value = line.partition(" ")
        if word == "sent":
            self.acknowledged.add(int(value))
        elif word == "quiet":
            self.quiet = int(value)

    def _open(self) -> list[Any]:
        return self.rows(
            "inbound", "SELECT id, status, tries FROM messages_in WHERE status = 'pending'"
        )

    # Looking --------------------------------------------------------------------------

    def rows(self, side: str, sql: str) -> list[Any]:
        """Read one of the files as any program could."""
        with closing(sqlite3.connect(self.folder / f"{side}.db", timeout=60)) as connection:
            return connection.execute(sql).fetchall()

    def score(self, rounds: int) -> Score:
        """Count what there is in the end."""
        [(given_up,)] = self.rows("inbound", "SELECT count(*) FROM tk_dead")
        [(in_doubt,)] = self.rows(
            "inbound", "SELECT count(*) FROM tk_delivery WHERE state = 'unknown'"
        )
        [(answers,)] = self.rows("outbound", "SELECT count(*) FROM messages_out")
        return Score(rounds, self.kills, self.wanted, answers, given_up, in_doubt)


# What must hold ---------------------------------------------------------------------------


def check(exchange: Exchange, *, whole: bool) -> None:
    """Look whether everything holds; with `whole`, also what takes longer to look at."""
    assert exchange.acknowledged == set(range(1, exchange.wanted + 1))
    answers = exchange.rows("outbound", "SELECT id, seq, in_reply_to FROM messages_out")
    _check_mails(exchange, Counter(mail_id for _, _, mail_id in answers))
    _check_effects(exchange, {answer_id: seq for answer_id, seq, _ in answers})
    left = exchange.rows("outbound", "SELECT * FROM processing_ack WHERE status = 'processing'")
    assert left == []
    for side, odd in (("inbound", 0), ("outbound", 1)):
        table = "messages_out" if odd else "messages_in"
        assert exchange.rows(side, f"SELECT id FROM {table} WHERE seq % 2 IS NOT {odd}") == []
        assert exchange.rows(side, "PRAGMA integrity_check") == [("ok",)]
    if whole:
        found = verify(exchange.context)
        assert [problem for problem in found if problem.severity == "error"] == []


def _check_mails(exchange: Exchange, answered: Counter[str]) -> None:
    sql = """SELECT m.id, m.status, m.tries, d.reason FROM messages_in m
              LEFT JOIN tk_dead d ON d.message_id = m.id WHERE m.id GLOB 'm-*'"""
    found = {mail_id: rest for mail_id, *rest in exchange.rows("inbound", sql)}
    assert set(found) == {f"m-{number}" for number in exchange.acknowledged}
    most = claims_allowed(DEFAULT)
    for mail_id, (status, tries, reason) in found.items():
        count = answered[mail_id]
        assert 1 <= tries <= most, (mail_id, tries)
        if status == "failed":
            assert reason, mail_id
            assert tries == most, (mail_id, tries)
        else:
            assert (status, reason) == ("completed", None), mail_id
            assert count >= 1, mail_id
        shares_an_id = int(mail_id.removeprefix("m-")) % 2 == 0
        assert count <= (1 if shares_an_id else tries), (mail_id, count, tries)


def _check_effects(exchange: Exchange, answers: dict[str, int]) -> None:
    effects = exchange.effects.all()
    had = Counter(effect.key.rpartition(":")[2] for effect in effects)
    assert {key: n for key, n in had.items() if n > 1} == {}, "an effect was had twice"
    assert set(had) <= set(answers), "an effect without an answer"
    sql = "SELECT message_out_id, state, attempts FROM tk_delivery WHERE state <> 'sent'"
    for message_id, state, attempts in exchange.rows("inbound", sql):
        # Killed at each of its attempts: then nobody can tell, and that is what it says.
        assert (state, attempts) == ("unknown", DEFAULT.delivery_attempts), message_id
        answers.pop(message_id)
    assert set(answers) <= set(had), "an answer had no effect"
    for channel in (KEYED, ASKED):
        order = [effect.seq for effect in effects if effect.channel == channel]
        assert order == sorted(order), f"{channel} got its answers out of order"

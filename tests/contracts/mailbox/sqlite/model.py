"""A mailbox as plain values: what every verb of both sides must come to.

Times are in milliseconds, whole seconds all of them. Mail is known by its number: ids of notes and
of later runs are chosen by the mailbox. Rows that a verb adds are first `expected`, without a
number, until the mailbox has given them one.
"""

from collections import deque
from dataclasses import dataclass, field, replace
from typing import Literal

CLAIMS = 6
ATTEMPTS = 3
SECOND = 1000
EVERY = 300 * SECOND  # of the recurring tasks: */5 * * * *

Status = Literal["pending", "paused", "completed", "failed"]
Mode = Literal[
    "ok", "refuses", "offline", "breaks", "dies before", "dies after", "doubt, sent", "doubt, not"
]


class Died(BaseException):
    """The host ended in the middle of a delivery."""


@dataclass(frozen=True)
class NewMail:
    """A row to the agent that must appear."""

    kind: str
    series: str | None = None
    """None for a series of its own."""
    due: int | None = None
    status: Status = "pending"
    trigger: bool = True
    recurring: bool = False
    is_note: bool = False


@dataclass
class Mail:
    """A row to the agent."""

    id: str
    seq: int
    kind: str
    series: str
    due: int | None
    status: Status
    trigger: bool
    recurring: bool
    is_note: bool
    tries: int = 0
    copied: bool = False


@dataclass
class Claim:
    """What the container has said of mail; `counted` is the host's knowledge of a claim."""

    status: Literal["processing", "completed", "failed"]
    counted: bool = False


@dataclass
class Out:
    """A row from the agent."""

    id: str
    seq: int
    place: str
    due: int | None = None
    task: NewMail | None = None
    state: str = "unseen"
    attempts: int = 0
    held: bool = False
    again: bool = False


@dataclass
class Model:
    """Everything that both sides and the channels know."""

    now: int
    mails: dict[int, Mail] = field(default_factory=dict)
    outs: dict[int, Out] = field(default_factory=dict)
    said: dict[int, Claim] = field(default_factory=dict)
    claims: dict[int, int] = field(default_factory=dict)
    effects: list[tuple[str, str]] = field(default_factory=list)
    expected: list[NewMail] = field(default_factory=list)

    # ------------------------------------------------------------------ numbers

    def next_in(self) -> int:
        """Return the number of the next mail to the agent."""
        return max(self.mails, default=0) + 2

    def next_out(self) -> int:
        """Return the number of the next mail from the agent."""
        most = max([0, *self.mails, *self.outs])
        return most + 1 + most % 2

    def adopt(self, mail_id: str, seq: int, new: NewMail) -> None:
        """Take a row in that the mailbox has given a number."""
        assert seq == self.next_in(), "a number was left out or given twice"
        self.mails[seq] = Mail(
            id=mail_id,
            seq=seq,
            kind=new.kind,
            series=new.series or mail_id,
            due=new.due,
            status=new.status,
            trigger=new.trigger,
            recurring=new.recurring,
            is_note=new.is_note,
        )

    def next_run(self) -> int:
        """Return when a recurring task is due next."""
        return (self.now // EVERY + 1) * EVERY

    # ------------------------------------------------------------------ the container

    def is_due(self, mail: Mail) -> bool:
        """Tell whether the time of mail has come."""
        return mail.due is None or mail.due <= self.now

    def waiting(self) -> list[int]:
        """Return what a poll finds, oldest first."""
        return [
            seq
            for seq, mail in sorted(self.mails.items())
            if mail.status == "pending" and self.is_due(mail) and seq not in self.said
        ]

    def wanted(self) -> int:
        """Return how much mail wants the agent to be awake."""
        return sum(
            m.status == "pending" and m.trigger and self.is_due(m) for m in self.mails.values()
        )

    def claim(self, seqs: list[int]) -> list[int]:
        """Take mail in hand; what was taken too often fails instead."""
        mine = []
        for seq in seqs:
            if seq in self.said:
                continue
            tries = max(self.claims.get(seq, 0), self.mails[seq].tries)
            if tries >= CLAIMS:
                self.said[seq] = Claim("failed")
                continue
            self.claims[seq] = tries + 1
            self.said[seq] = Claim("processing")
            mine.append(seq)
        return mine

    def finish(self, seq: int, status: Literal["completed", "failed"]) -> None:
        """Say what became of mail; the first word counts."""
        if seq not in self.said or self.said[seq].status == "processing":
            self.said[seq] = Claim(status)

    def in_hand(self) -> list[int]:
        """Return the mail that is claimed and not finished."""
        return sorted(seq for seq, said in self.said.items() if said.status == "processing")

    def give_back(self, seqs: list[int]) -> None:
        """Give mail back untouched: that was no try."""
        self.let_go(seqs)
        for seq in seqs:
            self.claims[seq] -= 1

    def let_go(self, seqs: list[int]) -> None:
        """Take claims away from a container that is gone."""
        for seq in seqs:
            del self.said[seq]

    # ------------------------------------------------------------------ the host's sweep

    def sweep(self, *, running: bool, dies: bool = False) -> None:
        """Take over answers; without a container let go of claims, unless we die before."""
        answered = [seq for seq, said in self.said.items() if said.status != "processing"]
        live = [
            self.mails[seq] for seq in answered if self.mails[seq].status in ("pending", "paused")
        ]
        for mail in live:
            mail.tries = max(mail.tries, self.claims.get(mail.seq, 0))
        self._settle([(mail, self.said[mail.seq].status == "failed") for mail in live])
        if not running:
            self._reset(dies=dies)

    def _reset(self, *, dies: bool) -> None:
        over = []
        for seq in self.in_hand():
            mail, claim = self.mails[seq], self.said[seq]
            if mail.status != "pending" or claim.counted:
                continue
            claim.counted = True
            mail.tries = self.claims[seq]
            if mail.tries >= CLAIMS:
                over.append((mail, True))
            else:
                mail.due = self.now + 5 * SECOND * 2 ** (mail.tries - 1)
        self._settle(over)
        if not dies:
            self.let_go(self.in_hand())

    def _settle(self, over: list[tuple[Mail, bool]]) -> None:
        if any(failed and not mail.is_note for mail, failed in over):
            self._tell()
        runs = [replace_status(mail, failed=failed) for mail, failed in over]
        for mail, before in runs:
            if mail.recurring:
                mail.recurring = False
                if not self._live_rows(mail.series):
                    held: Status = "paused" if before == "paused" else "pending"
                    run = NewMail("task", mail.series, self.next_run(), held, recurring=True)
                    self.expected.append(run)

    def _live_rows(self, series: str) -> list[Mail]:
        rows = (mail for mail in self.mails.values() if mail.series == series and mail.recurring)
        return [mail for mail in rows if mail.status in ("pending", "paused")]

    def _tell(self) -> None:
        self.expected.append(NewMail("chat", trigger=False, is_note=True))

    # ------------------------------------------------------------------ tasks and dead letters

    def move(self, which: str, before: Status, after: Status) -> int:
        """Pause, or go on with, a task and what belongs to its series."""
        rows = [mail for mail in self._tasks(which) if mail.status == before]
        for mail in rows:
            mail.status = after
        return len(rows)

    def cancel(self, which: str) -> int:
        """Drop a task and what belongs to its series."""
        rows = [mail for mail in self._tasks(which) if mail.status in ("pending", "paused")]
        for mail in rows:
            mail.status, mail.recurring = "completed", False
        return len(rows)

    def _tasks(self, which: str) -> list[Mail]:
        tasks = (mail for mail in self.mails.values() if mail.kind == "task")
        return [mail for mail in tasks if which in (mail.id, mail.series)]

    def failed(self) -> list[Mail]:
        """Give mail to the agent that can be tried once more."""
        return [m for m in self.mails.values() if m.status == "failed" and not m.copied]

    def retry(self, mail: Mail) -> None:
        """Try mail once more, as a copy."""
        mail.copied = True
        copy = NewMail(mail.kind, mail.series, trigger=mail.trigger, is_note=mail.is_note)
        self.expected.append(copy)

    def retry_out(self, out: Out) -> None:
        """Send once more what a channel refused."""
        out.state, out.attempts, out.due, out.again = "prepared", 0, None, True

    # ------------------------------------------------------------------ delivery

    def drain(self, modes: list[Mode]) -> None:
        """Deliver what is due; a channel does as the modes say, one after the other, then well."""
        ways = deque(modes)
        blocked: set[str] = set()
        self._take_over()
        for _, out in sorted(self.outs.items()):
            if out.state not in ("prepared", "sending"):
                continue
            if out.place in blocked or (out.due is not None and out.due > self.now):
                is_free = out.held
            else:
                is_free = self._deliver(out, ways)
            if not is_free:
                blocked.add(out.place)

    def _take_over(self) -> None:
        for out in self.outs.values():
            if out.state == "unseen":
                out.state = "prepared"
                out.held = out.due is not None and out.due > self.now
                out.due = out.due if out.held else None

    def _deliver(self, out: Out, ways: deque[Mode]) -> bool:
        if out.state == "sending" and self._resolved(out):
            return True
        out.state, out.attempts, out.due = "sending", out.attempts + 1, None
        if out.task is not None:
            self.expected.append(out.task)
            out.state = "sent"
            return True
        return self._send(out, ways.popleft() if ways else "ok")

    def _resolved(self, out: Out) -> bool:
        """Decide about what may have been sent; False if it may be sent again."""
        spent = out.attempts >= ATTEMPTS
        if out.place == "asked" and self._had(out):
            out.state = "sent"
        elif out.place == "plain" or (spent and out.place == "keyed"):
            self._give_up(out, "unknown")
        elif spent:
            self._give_up(out, "failed")
        return out.state != "sending"

    def _send(self, out: Out, mode: Mode) -> bool:
        if mode in ("ok", "dies after", "doubt, sent") and not (
            out.place == "keyed" and self._had(out)
        ):
            self.effects.append((out.place, out.id))
        if mode.startswith("dies"):
            raise Died
        if mode == "ok":
            out.state = "sent"
        elif mode == "refuses":
            self._give_up(out, "failed")
        elif mode == "offline":
            out.state, out.attempts, out.due = "prepared", out.attempts - 1, self.now + 30 * SECOND
        elif mode == "breaks" or not self._resolved(out):
            self._later(out)
        return out.state not in ("prepared", "sending")

    def _later(self, out: Out) -> None:
        if out.attempts >= ATTEMPTS:
            self._give_up(out, "failed")
            return
        out.state = "prepared"
        out.due = self.now + 5 * SECOND * 2 ** (out.attempts - 1)

    def _had(self, out: Out) -> bool:
        return (out.place, out.id) in self.effects

    def _give_up(self, out: Out, state: str) -> None:
        out.state, out.due = state, None
        self._tell()


def replace_status(mail: Mail, *, failed: bool) -> tuple[Mail, Status]:
    """Settle mail; give it with the status it had."""
    before = mail.status
    mail.status = "failed" if failed else "completed"
    return mail, before


def as_new(mail: Mail) -> NewMail:
    """Return what a row shows of how it came to be, to find it among the expected ones."""
    own = NewMail(mail.kind, mail.series if mail.series != mail.id else None)
    return replace(
        own,
        due=mail.due,
        status=mail.status,
        trigger=mail.trigger,
        recurring=mail.recurring,
        is_note=mail.is_note,
    )

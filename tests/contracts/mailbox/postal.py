"""What the tests of delivery share: a clock that stands, channels that crash, and looks inside."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.mail import MailFactory, look_at
from threadkeep.base.tx import Tx
from threadkeep.mailbox.adapters import Outgoing, Sent
from threadkeep.mailbox.context import DEFAULT
from threadkeep.mailbox.host.host import Host
from threadkeep.mailbox.records import OutMail, Place
from threadkeep.testing import place_of

NOW = 1_760_000_000_000
CHAT = Place("test", "chat-1")


class Crash(BaseException):
    """The power goes out: no handler of ours may see it."""


class Clock:
    """A clock that moves when told to."""

    def __init__(self, now: int = NOW) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now

    def pass_seconds(self, seconds: float) -> None:
        self.now += round(seconds * 1000)


class Channel:
    """A channel that keeps what it was sent; `trouble` is raised instead, once each."""

    def __init__(self, *trouble: BaseException | None) -> None:
        self.trouble = list(trouble)
        self.sent: list[Outgoing] = []

    def send(self, mail: Outgoing) -> str | None:
        error = self.trouble.pop(0) if self.trouble else None
        if error is not None:
            raise error
        self.sent.append(mail)
        return f"p-{len(self.sent)}"

    @property
    def texts(self) -> list[str]:
        return [mail.text for mail in self.sent]


class KeyedChannel(Channel):
    """A channel that takes each key once."""

    honours_key = True

    def send(self, mail: Outgoing) -> str | None:
        if any(known.key == mail.key for known in self.sent):
            return "known"
        return super().send(mail)


class AskedChannel(Channel):
    """A channel that can tell what it was sent."""

    def was_sent(self, key: str) -> Sent | bool | None:
        for number, mail in enumerate(self.sent, 1):
            if mail.key == key:
                return Sent(f"p-{number}")
        return False


class Dies:
    """A channel around another one that brings the host down before or after a message."""

    def __init__(self, inner: Channel, *, after: bool) -> None:
        self._inner = inner
        self._after = after
        for name in ("honours_key", "was_sent"):
            if hasattr(inner, name):
                setattr(self, name, getattr(inner, name))

    def send(self, mail: Outgoing) -> str | None:
        if self._after:
            self._inner.send(mail)
        raise Crash


class Desk:
    """A host and a container of one mailbox, with one clock; the options are the host's."""

    def __init__(self, factory: MailFactory, clock: Clock, **options: Any) -> None:
        self.clock = clock
        self.box = factory.open(clock=clock, **options)
        self.host = self.box.host
        self.host.write_routing(CHAT)
        self.container = self.box.new_container(policy=DEFAULT, zone="UTC")

    @property
    def path(self) -> Path:
        """Return the folder of the session."""
        return place_of(self.box)

    def new_host(self) -> Host:
        """A host that knows nothing but what is kept, as after a restart."""
        return self.box.new_host()

    def say(self, *texts: str, place: Place = CHAT) -> list[OutMail]:
        return [self.container.insert_message("chat", {"text": t}, place) for t in texts]

    def rows(self, sql: str, *values: Any, side: str = "inbound") -> list[tuple[Any, ...]]:
        return look_at(self.box, side.removesuffix("bound"), sql, *values)

    def state(self, mail: OutMail | str) -> str:
        wanted = mail if isinstance(mail, str) else mail.id
        return str(
            self.rows("SELECT state FROM tk_delivery WHERE message_out_id = ?", wanted)[0][0]
        )

    def notes(self) -> list[str]:
        return [m.text for m in self.host.inbox() if m.content.get("senderId") == "system"]


def count_writes(host: Host, monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """Return a list that grows with every write transaction on inbound.db."""
    seen: list[None] = []
    _around_writes(host, monkeypatch, lambda: seen.append(None), _nothing)
    return seen


def crash_at_write(
    host: Host, monkeypatch: pytest.MonkeyPatch, number: int, *, committed: bool
) -> None:
    """Let the host die in its n-th write of inbound.db, before or after the commit."""
    left = [number]

    def die() -> None:
        left[0] -= 1
        if left[0] == 0:
            raise Crash

    inside, behind = (_nothing, die) if committed else (die, _nothing)
    _around_writes(host, monkeypatch, inside, behind)


def _nothing() -> None:
    pass


def _around_writes(
    host: Host,
    monkeypatch: pytest.MonkeyPatch,
    inside: Callable[[], object],
    behind: Callable[[], object],
) -> None:
    file = host.context.folder.inbound
    real = file.write

    @contextmanager
    def write() -> Iterator[Tx]:
        with real() as tx:
            yield tx
            inside()
        behind()

    monkeypatch.setattr(file, "write", write)

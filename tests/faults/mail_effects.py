"""Effects outside of the mailbox: lines of a file, each on the disk before it counts as sent."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from threadkeep.base.clock import now_ms
from threadkeep.mailbox.adapters import Outgoing, Sent

# The channel that dedups by itself, and the one that must be asked after a crash.
KEYED, ASKED = "keyed", "asked"
_SPEED = 60
_SINCE = 1_767_225_600_000  # 2026-01-01


def fast() -> int:
    """Return a time that runs sixty times as fast as life, the same in every process."""
    return _SINCE + (now_ms() - _SINCE) * _SPEED


class Effect(NamedTuple):
    """One message as somebody outside has seen it."""

    key: str
    seq: int
    channel: str
    text: str


class Effects:
    """The file of effects, one line each, appended whole."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def all(self) -> list[Effect]:
        """Return all effects so far."""
        if not self.path.exists():
            return []
        parts = [line.split(" ", 3) for line in self.path.read_text().splitlines()]
        return [Effect(key, int(seq), channel, text) for key, seq, channel, text in parts]

    def add(self, mail: Outgoing) -> None:
        """Have an effect; it is on the disk when this returns."""
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, _line(mail))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _line(mail: Outgoing) -> bytes:
    return f"{mail.key} {mail.seq} {mail.place.channel_type} {mail.text}\n".encode()


class Keyed:
    """A channel that gives no second effect to a key."""

    honours_key = True

    def __init__(self, effects: Effects, told: Callable[[str], None]) -> None:
        self._effects = effects
        self._told = told
        self._known = {effect.key for effect in effects.all()}

    def send(self, mail: Outgoing) -> str:
        if mail.key not in self._known:
            self._effects.add(mail)
            self._known.add(mail.key)
        self._told(mail.key)
        return f"platform-{mail.id}"


class Asked:
    """A channel that sends whatever it is given, and knows what it has sent."""

    def __init__(self, effects: Effects, told: Callable[[str], None]) -> None:
        self._effects = effects
        self._told = told

    def send(self, mail: Outgoing) -> str:
        self._effects.add(mail)
        self._told(mail.key)
        return f"platform-{mail.id}"

    def was_sent(self, key: str) -> Sent | bool:
        seen = any(effect.key == key for effect in self._effects.all())
        return Sent(f"platform-{key}") if seen else False


ADAPTERS: dict[str, Callable[[Effects, Callable[[str], None]], Keyed | Asked]] = {
    KEYED: Keyed,
    ASKED: Asked,
}

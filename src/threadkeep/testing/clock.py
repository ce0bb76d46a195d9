"""A clock for tests: it stands until it is told to move."""

from typing import Final

NOON: Final = 1_800_000_000_000
_DAY: Final = 86_400


class ManualClock:
    """A clock in epoch milliseconds that moves when told to, and by `step` with each look."""

    def __init__(self, now: int = NOON, step: int = 1) -> None:
        self.now = now
        self.step = step

    def __call__(self) -> int:
        """Return the time."""
        self.now += self.step
        return self.now

    def seconds(self) -> float:
        """Return the time in seconds, as the state store wants it."""
        return self() / 1000

    def forward(self, seconds: float = 0, *, days: float = 0) -> None:
        """Let time go by; negative numbers set the clock back."""
        self.now += round((seconds + days * _DAY) * 1000)

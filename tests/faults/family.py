"""Starting children for the crash tests, talking to them, and killing them."""

import json
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.faults.children import SESSION
from threadkeep.chat.store import ChatStore

CHILDREN = Path(__file__).with_name("children.py")


def new_store(path: Path) -> Path:
    """Make a store with one empty session."""
    with ChatStore.open(path) as store:
        store.create_session(agent="coder", model="p/m", session_id=SESSION)
    return path


def race_for_queue(path: Path, rounds: int) -> dict[str, int]:
    """Let two processes race for each queued message; give how often each side won.

    "both" and "none" must not happen. What the winner said is compared with what is stored.
    """
    wins = {"fire": 0, "cancel": 0, "both": 0, "none": 0}
    with (
        ChatStore.open(path) as store,
        Child("take", path, "fire") as firing,
        Child("take", path, "cancel") as cancelling,
    ):
        assert [firing.hear(), cancelling.hear()] == ["ready", "ready"]
        for number in range(rounds):
            queued = store.enqueue(SESSION, f"turn {number}")
            # Whoever is told first has a head start: take turns.
            first, second = (firing, cancelling) if number % 2 else (cancelling, firing)
            first.tell(queued.id)
            second.tell(queued.id)
            fired, cancelled = firing.hear(), cancelling.hear()
            shown = any(message["id"] == queued.id for message in store.ui_messages(SESSION))
            assert shown == fired
            wins[_winner(fired=fired, cancelled=cancelled)] += 1
        assert store.queued(SESSION) == []
        assert store.verify().problems == []
    return wins


def _winner(*, fired: bool, cancelled: bool) -> str:
    if fired == cancelled:
        return "both" if fired else "none"
    return "fire" if fired else "cancel"


def record_and_kill(path: Path, key: str, count: int) -> None:
    """Record a reply and die when so many chunks were acknowledged and no more is asked for."""
    with Child("record", path, key) as child:
        child.tell(count)
        for _ in range(count):
            child.hear()
        child.kill()


class Child:
    """A process of `children.py`; leaving the `with` block hangs up and waits for its end."""

    def __init__(self, role: str, database: Path, argument: str = "") -> None:
        command = [sys.executable, str(CHILDREN), role, str(database), argument]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._to, self._from = self._process.stdin, self._process.stdout

    def tell(self, command: object) -> None:
        """Send a command."""
        self._to.write(f"{command}\n".encode())
        self._to.flush()

    def hear(self) -> Any:
        """Wait for the next answer."""
        line = self._from.readline()
        assert line, f"the child ended: {self._errors()}"
        return json.loads(line)

    def ask(self, command: object) -> Any:
        """Send a command and wait for its answer."""
        self.tell(command)
        return self.hear()

    def answers(self) -> list[Any]:
        """Return every whole answer that is still to come, until the child ends."""
        return [json.loads(line) for line in self._from if line.endswith(b"\n")]

    def kill(self) -> None:
        """End it as a crash does: without a chance to do anything more."""
        self._process.kill()
        self._process.wait()

    def _errors(self) -> str:
        self._process.kill()
        assert self._process.stderr is not None
        return self._process.stderr.read().decode(errors="replace")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            self._process.kill()
        _, errors = self._process.communicate()
        code = self._process.returncode
        assert error is not None or code in (0, -9), errors.decode(errors="replace")

"""One session folder, and the four programs that may work on it: both hosts, both containers."""

import json
from pathlib import Path
from typing import Any, Self

from tests.support.mail import FakeClock
from tests.support.nanoclaw import NanoContainer, Row, make_folder
from tests.support.nanoclaw_host import NanoHost
from threadkeep.mailbox.adapters import Outgoing
from threadkeep.mailbox.container.container import Container
from threadkeep.mailbox.host.host import Host


class Channel:
    """Keeps what either host sends; `refuses` names texts it does not take."""

    honours_key = True

    def __init__(self) -> None:
        self.sent: list[tuple[str, Row, dict[str, bytes]]] = []
        self.refuses: set[str] = set()

    def send(self, mail: Outgoing) -> str | None:
        return self._take(mail.id, mail.content, {file.name: file.data for file in mail.files})

    def theirs(self, row: Row, files: dict[str, bytes]) -> str:
        return self._take(row["id"], json.loads(row["content"]), files)

    def _take(self, out_id: str, said: Row, files: dict[str, bytes]) -> str:
        if said.get("text") in self.refuses:
            raise RuntimeError(said["text"])
        self.sent.append((out_id, said, files))
        return f"p-{out_id}"

    @property
    def texts(self) -> list[str]:
        return [said.get("text", "") for _, said, _ in self.sent]


class World:
    """One folder and the four programs that may work on it."""

    def __init__(self, path: Path) -> None:
        """Look at a folder that is there."""
        self.path = path
        self.clock = FakeClock()
        self.channel = Channel()
        self.their_host = NanoHost(path, self.clock)

    @classmethod
    def make(cls, path: Path, *, ours: bool) -> Self:
        """Make a folder as we do, or as they do; its mail goes to one chat."""
        if ours:
            Host.create(path, clock=FakeClock())
        else:
            make_folder(path)
        world = cls(path)
        world.their_host.route("slack", "C1", "T1")
        return world

    @property
    def host(self) -> Host:
        """A host of ours that knows only the files; no container runs as far as it knows."""
        return Host(self.path, clock=self.clock, running=lambda: False)

    @property
    def container(self) -> Container:
        return Container(self.path, clock=self.clock)

    @property
    def their_container(self) -> NanoContainer:
        container = NanoContainer(self.path, self.clock)
        container.boot()
        return container

    def drain(self, *, ours: bool) -> list[str]:
        """Deliver, and give what was said."""
        before = len(self.channel.sent)
        if ours:
            self.host.drain({"slack": self.channel})
        else:
            self.their_host.drain(self.channel.theirs)
        return self.channel.texts[before:]

    def sweep(self, *, ours: bool) -> None:
        if ours:
            self.host.sweep()
        else:
            self.their_host.sweep()

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return [tuple(row.values()) for row in self.their_host.inbound(sql)]

    def statuses(self) -> set[str]:
        return {status for (status,) in self.rows("SELECT DISTINCT status FROM messages_in")}

    def check(self) -> None:
        """Nothing may be wrong with the folder but that others can read theirs."""
        assert [p for p in self.host.verify() if "open to other users" not in p.what] == []

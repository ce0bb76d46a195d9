"""The agent in a sandbox that shares nothing with the host but the session folder.

It has no network, its own processes, a read-only system, and as far as this machine allows it the
files of another user. Everything the two say to each other goes through the folder.
"""

import base64
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.conftest import REPO, cannot_run, need_tool
from threadkeep.base.presence import is_held
from threadkeep.mailbox.adapters import Outgoing
from threadkeep.mailbox.folder import Owner
from threadkeep.mailbox.host.host import Host
from threadkeep.mailbox.records import Place

pytestmark = pytest.mark.faults

AGENT = REPO / "tests" / "faults" / "mail_sandbox_agent.py"
NOBODY = 65534
SYSTEM = ("/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache")
# Everything of its own; with --unshare-all the user as well, who then cannot become another one.
OWN_USER = ("--unshare-all",)
OTHER_USER = ("--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts")


class Chat:
    """A channel that keeps what it is given."""

    honours_key = True

    def __init__(self) -> None:
        self.mails: list[Outgoing] = []

    def send(self, mail: Outgoing) -> str:
        self.mails.append(mail)
        return f"platform-{len(self.mails)}"


class Agent:
    """The program in its sandbox."""

    def __init__(self, command: Sequence[str]) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
        self.released = 0
        self.seen: dict[str, Any] = {}

    def wait_until_up(self) -> None:
        """Wait until it works; learn what it found."""
        released, seen = self.hear("up").split(" ", 1)
        self.released, self.seen = int(released), json.loads(seen)

    def hear(self, word: str) -> str:
        """Wait until the agent says that something has happened; give the rest of the line."""
        said, _, rest = self._hear().partition(" ")
        assert said == word
        return rest

    def kill(self) -> None:
        """End the sandbox with everything in it, and return when nobody is left."""
        self._process.kill()
        with self._process as process:
            assert process.stdout is not None
            process.stdout.read()  # ends when the last holder of the other end is gone

    def _hear(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the agent ended by itself"
        return line.strip()


class Room:
    """A host, a chat, and agents in sandboxes, over one folder."""

    def __init__(self, path: Path, *, other_user: bool) -> None:
        owner = Owner(NOBODY, NOBODY) if other_user else None
        self.host = Host.create(path, agent_group="ag-1", session="sess-1", owner=owner)
        self.host.write_routing(Place("test", "chat-1"))
        self.chat = Chat()
        self.other_user = other_user

    def command(self) -> list[str]:
        interpreter = os.path.realpath(sys.executable)
        modules = str(Path(msgspec.__file__).parents[1])
        seen = [*SYSTEM, sys.base_prefix, modules, str(REPO / "src"), str(AGENT)]
        # Without this the folders above would be open to root alone.
        above = dict.fromkeys(str(up) for path in seen for up in reversed(Path(path).parents[:-1]))
        binds = [word for path in above for word in ("--perms", "0755", "--dir", path)]
        binds += [word for path in seen for word in ("--ro-bind-try", path, path)]
        own = OTHER_USER if self.other_user else OWN_USER
        return [
            *(need_tool("bwrap"), *own, "--die-with-parent"),
            # Before what is bound: the project itself may live below it.
            *("--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", *binds),
            *("--bind", str(self.host.context.folder.path), "/workspace", "--chdir", "/workspace"),
            *("--clearenv", "--setenv", "PYTHONPATH", f"{REPO / 'src'}:{modules}"),
            *(interpreter, "-B", str(AGENT), *([str(NOBODY)] if self.other_user else [])),
        ]

    @contextmanager
    def agent(self) -> Iterator[Agent]:
        """Run an agent; it is gone at the end of the block."""
        agent = Agent(self.command())
        try:
            agent.wait_until_up()
            yield agent
        finally:
            agent.kill()

    def deliver(self) -> Outgoing:
        """Take over answers, deliver what was said, and give the last of it."""
        self.host.sweep()
        self.host.drain({"test": self.chat})
        return self.chat.mails[-1]


# Only root can start the agent as another user.
KINDS = {"own namespace": False} | ({"other user": True} if os.geteuid() == 0 else {})


@pytest.fixture(params=KINDS.values(), ids=list(KINDS))
def room(tmp_path: Path, request: pytest.FixtureRequest) -> Room:
    room = Room(tmp_path / "ag-1" / "sess-1", other_user=request.param)
    own = OTHER_USER if request.param else OWN_USER
    probe = [need_tool("bwrap"), *own, "--ro-bind", "/", "/", "true"]
    done = subprocess.run(probe, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        cannot_run(f"bwrap cannot make namespaces here: {done.stderr.strip()}")
    return room


def test_the_sandbox_is_one(room: Room) -> None:
    with tempfile.NamedTemporaryFile(dir="/tmp") as theirs, room.agent() as agent:
        seen = agent.seen
        assert seen["uid"] == (NOBODY if room.other_user else os.getuid())
        assert seen["pid"] < 10
        assert seen["links"] == ["lo"]
        assert "workspace" in seen["root"]
        assert Path(theirs.name).name not in seen["tmp"]
        room.host.send("peek")
        agent.hear("done")
    assert room.deliver().text in ("EROFS", "EACCES")


def test_mail_goes_both_ways(room: Room) -> None:
    with room.agent() as agent:
        sent = [room.host.send(f"number {number}") for number in range(5)]
        assert [agent.hear("done") for _ in sent] == [mail.id for mail in sent]
        room.deliver()
        assert is_held(room.host.context.folder.agent_lock_path)
        assert room.host.context.folder.heartbeat_ms() is not None
    assert [mail.text for mail in room.chat.mails] == [f"NUMBER {number}" for number in range(5)]
    assert [mail.in_reply_to for mail in room.chat.mails] == [mail.id for mail in sent]
    assert {room.host.mail(mail.id).status for mail in sent} == {"completed"}
    assert room.host.verify() == []


def test_a_question_is_asked_and_answered(room: Room) -> None:
    with room.agent() as agent:
        room.host.send("ask")
        question = agent.hear("asked")
        asked = room.deliver()
        assert asked.id == question
        assert [option["label"] for option in asked.content["options"]] == ["left", "right"]
        room.host.answer(question, "right")
        agent.hear("done")
        assert room.deliver().text == "so right"


def test_files_go_both_ways(room: Room) -> None:
    data = bytes(range(256)) * 300
    attached = {"name": "there.bin", "data": base64.b64encode(data).decode()}
    with room.agent() as agent:
        room.host.send("file", attachments=[attached])
        agent.hear("done")
    answer = room.deliver()
    assert [(file.name, file.data) for file in answer.files] == [("back.bin", data[::-1])]
    assert list(room.host.context.folder.outbox_path.iterdir()) == []


def test_a_killed_sandbox_leaves_its_mail_for_the_next_one(room: Room) -> None:
    mail = room.host.send("hang")
    with room.agent() as agent:
        agent.hear("hanging")
        assert [claim.message_id for claim in room.host.claims()] == [mail.id]
        # While it lives, nobody takes its mail away.
        assert room.host.sweep().reset is None
    assert not is_held(room.host.context.folder.agent_lock_path)
    with room.agent() as agent:
        assert agent.released == 1
        agent.hear("done")
    assert room.deliver().text == "not this time"
    found = room.host.mail(mail.id)
    assert (found.status, found.tries) == ("completed", 2)
    assert room.host.verify() == []


def test_the_claims_of_a_killed_sandbox_wait_their_turn(room: Room) -> None:
    mail = room.host.send("hang")
    with room.agent() as agent:
        agent.hear("hanging")
    swept = room.host.sweep()
    assert swept.reset is not None
    assert swept.reset.retried == (mail.id,)
    assert room.host.claims() == []
    assert room.host.mail(mail.id).process_after is not None

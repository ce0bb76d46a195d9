"""Session folders as other programs left them, and what a mailbox must make of each.

Each check works on copies: hosts write. What a folder shall give is told by the keys of its
`expected.json`; a key that nothing here checks is a failure, not a pass.
"""

import json
import shutil
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from threadkeep.mailbox.adapters import Outgoing
from threadkeep.mailbox.container.container import Container
from threadkeep.mailbox.host.host import Host
from threadkeep.mailbox.records import Mail

Expected = dict[str, Any]
MINUTE: Final = 60_000
SWEEPS: Final = 5
_LIVE: Final = ("pending", "paused")


class Sink:
    """A channel that keeps what it is given."""

    def __init__(self) -> None:
        self.sent: list[Outgoing] = []

    def send(self, mail: Outgoing) -> str:
        self.sent.append(mail)
        return f"p-{len(self.sent)}"


class Starter:
    """A runner of containers that end at once: every start succeeds, nothing runs."""

    def __init__(self) -> None:
        self.starts = 0

    def is_running(self) -> bool:
        return False

    def start(self) -> bool:
        self.starts += 1
        return True

    def stop(self, reason: str) -> None:
        raise AssertionError(f"nothing runs, and is ended: {reason}")


class GoldenFolder:
    """One folder with what is expected of it, looked at by our host and our container."""

    def __init__(self, folder: Path, expected: Expected, scratch: Path) -> None:
        self._folder = folder
        self._scratch = scratch
        self.expected = expected
        self.now = round(datetime.fromisoformat(expected["look_at"]).timestamp() * 1000)
        self.options: Expected = {"clock": lambda: self.now, "zone": expected["zone"]}
        self.channel = Sink()
        self.runner = Starter()

    def copy(self, name: str) -> Path:
        """Return a fresh copy of the folder."""
        return Path(shutil.copytree(self._folder, self._scratch / name / "ag-1" / "sess-1"))

    @cached_property
    def path(self) -> Path:
        """The copy that the host of `host` works on."""
        return self.copy("host")

    @cached_property
    def host(self) -> Host:
        """Our host after one drain and five sweeps."""
        host = Host(self.path, **self.options)
        self.before = {mail.id for mail in host.inbox(limit=1000)}
        self.crons = {m.series_id: m.recurrence for m in host.inbox(limit=1000) if m.recurrence}
        channels = dict.fromkeys(_channels(self.path), self.channel)
        host.drain(channels)
        first = len(self.channel.sent)
        host.drain(channels)
        assert self.channel.sent[first:] == [], "a second drain sent something"
        for _ in range(SWEEPS):
            host.sweep(self.runner)
        return host

    @cached_property
    def container(self) -> Container:
        """Our container, started in a fresh copy."""
        container = Container(self.copy("container"), **self.options)
        container.start()
        return container

    @property
    def mail(self) -> list[Mail]:
        """All mail to the agent."""
        return self.host.inbox(limit=1000)

    @property
    def added(self) -> list[Mail]:
        """What our host wrote."""
        return [mail for mail in self.mail if mail.id not in self.before]

    @property
    def live(self) -> list[Mail]:
        """The tasks that are still to come."""
        return self.host.tasks()

    def check(self, key: str) -> None:
        """Compare one key of what is expected."""
        if key not in TOLD:
            self.host  # noqa: B018  (each check is one after a drain and five sweeps)
            CHECKS[key](self, self.expected[key])


def _channels(path: Path) -> list[str]:
    with closing(sqlite3.connect(path / "outbound.db")) as connection:
        sql = "SELECT DISTINCT channel_type FROM messages_out WHERE channel_type IS NOT NULL"
        return [kind for (kind,) in connection.execute(sql)]


# ------------------------------------------------------------------ what the host made of it


def _sent(look: GoldenFolder, wanted: list[str]) -> None:
    assert [mail.content.get("text") for mail in look.channel.sent] == wanted


def _sent_types(look: GoldenFolder, wanted: list[str]) -> None:
    assert [mail.content.get("type") for mail in look.channel.sent] == wanted


def _sent_files(look: GoldenFolder, wanted: list[list[str]]) -> None:
    files = [file for mail in look.channel.sent for file in mail.files]
    assert [[file.name, file.data.decode()] for file in files] == wanted


def _statuses(look: GoldenFolder, wanted: Mapping[str, str]) -> None:
    assert {name: look.host.mail(name).status for name in wanted} == wanted


def _statuses_one_of(look: GoldenFolder, wanted: Mapping[str, list[str]]) -> None:
    for name, words in wanted.items():
        assert look.host.mail(name).status in words


def _due(look: GoldenFolder, wanted: int) -> None:
    assert look.host.due() == wanted


def _due_at_least(look: GoldenFolder, wanted: int) -> None:
    waiting = [m for m in look.mail if m.status == "pending" and m.trigger and m.kind != "system"]
    later = [m for m in waiting if m.process_after and m.tries]  # let go, and waits for its pause
    assert look.host.due() + len(later) >= wanted
    assert look.runner.starts >= 1


def _wakes(look: GoldenFolder, wanted: int) -> None:
    assert look.runner.starts == wanted


def _tasks(look: GoldenFolder, wanted: list[str]) -> None:
    assert sorted(mail.id for mail in look.live) == sorted(wanted)


def _task_prompts(look: GoldenFolder, wanted: list[str]) -> None:
    assert sorted(mail.text for mail in look.live) == sorted(wanted)


def _live_rows(look: GoldenFolder, wanted: int) -> None:
    assert len(look.live) == wanted


def _live_status(look: GoldenFolder, wanted: str) -> None:
    assert {mail.status for mail in look.live} == {wanted}


def _rearmed(look: GoldenFolder, wanted: Mapping[str, str]) -> None:
    for series, status in wanted.items():
        (run,) = [m for m in look.added if m.series_id == series]
        assert (run.status, run.recurrence) == (status, look.crons[series])
        assert run.id != series


def _rearmed_not_before(look: GoldenFolder, minutes: int) -> None:
    (run,) = look.live
    assert run.id in {mail.id for mail in look.added}
    due = datetime.fromisoformat(run.process_after or "").timestamp() * 1000
    assert due >= look.now + minutes * MINUTE


def _dead_letters(look: GoldenFolder, wanted: list[str]) -> None:
    assert [letter.id for letter in look.host.dead_letters()] == wanted


def _notes_to_agent(look: GoldenFolder, wanted: int) -> None:
    assert len([m for m in look.added if m.kind == "chat"]) == wanted


def _verify_errors(look: GoldenFolder, wanted: int) -> None:
    for name, before in (("before", look.copy("verify")), ("after", look.path)):
        found = [p for p in Host(before, **look.options).verify() if p.severity == "error"]
        assert len(found) == wanted, (name, found)


def _outbox_empty(look: GoldenFolder, wanted: bool) -> None:  # noqa: FBT001
    outbox = look.path / "outbox"
    assert (not any(outbox.iterdir())) == wanted


def _claim_released(look: GoldenFolder, wanted: list[str]) -> None:
    assert not {claim.message_id for claim in look.host.claims()} & set(wanted)
    assert all(look.host.mail(name).status == "pending" for name in wanted)


def _cli(look: GoldenFolder, wanted: list[Expected]) -> None:
    for asked in wanted:
        text = f'"requestId":"{asked["id"]}"'
        rows = [m for m in look.mail if text in m.raw and m.status == "pending"]
        assert [(m.id, m.kind, m.trigger) for m in rows] == [
            (f"cli-resp-{asked['id']}", "system", False)
        ]
        frame = rows[0].content["frame"]
        assert (rows[0].content["type"], frame["id"]) == ("cli_response", asked["id"])
        assert frame["ok"] is asked["ok"], (asked, frame)
        if not asked["ok"]:
            assert frame["error"]["code"] in asked["code"].split("|")


# ------------------------------------------------------------------ what a container sees


def _container_poll(look: GoldenFolder, wanted: list[str]) -> None:
    assert [mail.id for mail in look.container.poll()] == wanted


def _container_triggered(look: GoldenFolder, wanted: bool) -> None:  # noqa: FBT001
    assert look.container.triggered() is wanted


def _container_task_prompts(look: GoldenFolder, wanted: list[str]) -> None:
    assert sorted(mail.text for mail in look.container.tasks()) == sorted(wanted)


def _next_out_odd(look: GoldenFolder, wanted: bool) -> None:  # noqa: FBT001
    before = [mail.seq or 0 for mail in look.host.outbox(limit=1000)]
    sent = look.container.send("one more", to=None)
    assert (sent.seq or 0) > max(before)
    assert ((sent.seq or 0) % 2 == 1) is wanted


def _attachment(look: GoldenFolder, wanted: list[str]) -> None:
    message_id, name, text = wanted
    mail = look.container.mail(message_id)
    assert isinstance(mail, Mail)
    assert look.container.attachment(mail, name).decode() == text


def _reborn(look: GoldenFolder, wanted: str) -> None:
    """New words under an old id reach the agent, whichever side starts first."""
    for first in ("host", "container"):
        path = look.copy(f"reborn-{first}")
        if first == "container":
            container = Container(path, **look.options)
            container.start()
        host = Host(path, **look.options)
        host.send("born again", id=wanted)
        host.send("born again", id=wanted)  # told twice
        if first == "host":
            container = Container(path, **look.options)
            container.start()
        for _ in range(2):
            host.sweep(Starter())
            assert [mail.text for mail in container.poll()] == ["born again"]


CHECKS: Final[Mapping[str, Callable[[GoldenFolder, Any], None]]] = {
    "sent": _sent,
    "sent_types": _sent_types,
    "sent_files": _sent_files,
    "statuses": _statuses,
    "statuses_one_of": _statuses_one_of,
    "due": _due,
    "due_at_least": _due_at_least,
    "wakes": _wakes,
    "tasks": _tasks,
    "task_prompts": _task_prompts,
    "live_rows": _live_rows,
    "live_status": _live_status,
    "rearmed": _rearmed,
    "rearmed_not_before_min": _rearmed_not_before,
    "rearmed_not_before_min_full": _rearmed_not_before,
    "dead_letters": _dead_letters,
    "notes_to_agent": _notes_to_agent,
    "verify_errors": _verify_errors,
    "outbox_empty": _outbox_empty,
    "claim_released": _claim_released,
    "cli": _cli,
    "container_poll": _container_poll,
    "container_poll_first": _container_poll,
    "container_triggered": _container_triggered,
    "container_task_prompts": _container_task_prompts,
    "next_out_odd": _next_out_odd,
    "attachment": _attachment,
    "reborn_id": _reborn,
}
# What a folder tells about itself; nothing follows from it.
TOLD: Final = frozenset(("story", "made_by", "look_at", "zone", "the_real_host_says"))


def expected_of(folder: Path) -> Expected:
    """Read what is expected of a folder."""
    found: Expected = json.loads((folder / "expected.json").read_text())
    return found

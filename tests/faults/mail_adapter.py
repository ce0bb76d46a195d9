"""The mailbox behind the line protocol of the fault tools (protocol.py).

The tools know a store by one path. If that ends in `outbound.db`, its folder is the session
folder; otherwise the folder stands beside the path. The modes `ordered` and `ordered-in` leave one
of the two files at the very path when they are done, for tools that copy and damage a single file;
the verifier then puts a folder around a copy of it.

A key is the id of a message and says who wrote it, when and on which side: `iteration-writer-place`
with an `i` (to the agent) or an `o` (from the agent) behind it.
"""

import argparse
import base64
import hashlib
import json
import random
import re
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

REPO = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPO / "src"), str(REPO)]

from tests.faults.mail_old_files import INBOUND_VERSIONS, make_old_mail  # noqa: E402
from tests.faults.protocol import Adapter, Save, patiently, speak, tell  # noqa: E402
from tests.faults.replies import words  # noqa: E402
from threadkeep.base.sqlite.shared_file import SharedFile  # noqa: E402
from threadkeep.mailbox.container.container import Container  # noqa: E402
from threadkeep.mailbox.folder import (  # noqa: E402
    Folder,
    bring_up_inbound,
    bring_up_outbound,
    inbound_queries,
    outbound_queries,
)
from threadkeep.mailbox.host.host import Host  # noqa: E402
from threadkeep.mailbox.records import Mail, OutMail, Place  # noqa: E402
from threadkeep.mailbox.verification import verify  # noqa: E402

CHAT = Place("test", "chat-1")
ALL = 1_000_000
FILE_EVERY = 8
_KEY = re.compile(r"(?P<iter>\d+)-(?P<writer>\d+)-(?P<place>\d+)(?P<side>[io])")


def folder_of(database: Path) -> Path:
    """Return the session folder that belongs to the path a tool knows."""
    if database.name == "outbound.db":
        return database.parent
    return database.with_name(f"{database.name}.mail")


def open_host(folder: Path) -> Host:
    """Open the host's side of the folder; make or complete it if need be, and only then write."""
    whole = (folder / "inbound.db").exists() and (folder / "outbound.db").exists()
    host = Host(folder) if whole else Host.create(folder, session="sess-faults")
    if not host.routing().known:
        host.write_routing(CHAT)
    return host


def text_of(key: str) -> str:
    rng = random.Random(key)
    return f"{key} {words(rng, rng.choice((5, 40, 40, 400)))}"


def files_of(key: str) -> dict[str, bytes]:
    """Return the file that goes with every eighth message."""
    known = _KEY.fullmatch(key)
    if known is None or int(known["place"]) % FILE_EVERY:
        return {}
    return {"notes.txt": text_of(f"file of {key}").encode() * 20}


def digest(text: str, place: Place, files: dict[str, bytes]) -> str:
    """Hash what the other side sees of a message."""
    seen = [text, place.channel_type, place.platform_id]
    seen += [f"{name} {hashlib.sha256(data).hexdigest()}" for name, data in files.items()]
    return hashlib.sha256(json.dumps(seen).encode()).hexdigest()[:16]


# Writing ----------------------------------------------------------------------------------


class Writer:
    """One process that writes on either side, and says so."""

    def __init__(self, folder: Path, options: argparse.Namespace, *, with_files: bool) -> None:
        self.host = open_host(folder)
        self.container = Container(folder)
        self.name = f"{options.iter}-{options.w}"
        self.with_files = with_files
        self.written = 0

    def save(self, side: str) -> None:
        """Write the next message on a side; try until the mailbox takes it."""
        key = f"{self.name}-{self.written}{side}"
        self.written += 1
        files = files_of(key) if self.with_files else {}
        save = Save(key, 0, digest(text_of(key), CHAT, files))
        verb = self._post if side == "i" else self._send
        tell("ACK", *save, patiently([save], lambda: verb(key, files)))

    def _post(self, key: str, files: dict[str, bytes]) -> None:
        attached = [
            {"name": name, "data": base64.b64encode(data).decode()} for name, data in files.items()
        ]
        self.host.send(text_of(key), id=key, attachments=attached)

    def _send(self, key: str, files: dict[str, bytes]) -> None:
        self.container.send(text_of(key), id=key, files=list(files.items()))


SIDES = {"both": "oi", "send": "o", "post": "i", "ordered": "o", "ordered-in": "i"}


def write(options: argparse.Namespace) -> None:
    database = Path(options.db)
    folder = folder_of(database)
    ordered = options.mode.startswith("ordered")
    writer = Writer(folder, options, with_files=not ordered)
    sides = SIDES[options.mode]
    for place in range(options.n):
        writer.save(sides[place % len(sides)])
    if ordered:
        (folder / ("outbound.db" if sides == "o" else "inbound.db")).replace(database)
        tell("NOTE", "the file is in its place")
        signal.pause()


# Reading back -----------------------------------------------------------------------------


def show(database: str) -> list[str]:
    path = Path(database)
    if path.name == "outbound.db" or not path.exists():
        return show_folder(folder_of(path))
    with tempfile.TemporaryDirectory(dir=path.parent) as around:
        folder = Path(around) / "folder"
        open_host(folder)
        shutil.copyfile(path, folder / f"{side_of(path)}.db")
        return show_folder(folder)


def show_folder(folder: Path) -> list[str]:
    """Print what both files hold; give what is wrong with them."""
    host = open_host(folder)
    order = Order()
    for mail in host.inbox(limit=ALL):
        _show(order, mail, _staged(folder, mail))
    for out in host.outbox(limit=ALL):
        _show(order, out, _outgoing(folder, out))
    found = [str(problem) for problem in verify(host.context) if problem.severity == "error"]
    return order.problems + found


def side_of(path: Path) -> str:
    """Tell which of the two files a lone one is: by the version in its name, or what is in it."""
    version = re.search(r"(\d)\.db$", path.name)
    if version is not None:
        return "inbound" if int(version[1]) in INBOUND_VERSIONS else "outbound"
    # Damage may have left little of it, but not all of one and none of the other.
    return "inbound" if b"CREATE TABLE messages_in" in path.read_bytes() else "outbound"


def _staged(folder: Path, mail: Mail) -> dict[str, bytes]:
    files: list[dict[str, str]] = mail.content.get("attachments", [])
    return {file["name"]: _bytes(folder / file["localPath"]) for file in files}


def _outgoing(folder: Path, out: OutMail) -> dict[str, bytes]:
    names: list[str] = out.content.get("files", [])
    return {name: _bytes(folder / "outbox" / out.id / name) for name in names}


def _bytes(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b"the file is not there"


def _show(order: "Order", mail: Mail | OutMail, files: dict[str, bytes]) -> None:
    tell("HAVE", mail.id, 0, digest(mail.text, mail.place, files))
    known = _KEY.fullmatch(mail.id)
    if known is not None:
        order.see(known, mail.seq or 0)


class Order:
    """Watches parity, and that each writer's messages are numbered in the order it wrote them."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self._last: dict[tuple[str, str], tuple[int, int, int]] = {}

    def see(self, known: re.Match[str], seq: int) -> None:
        """Take note of the next message of a side."""
        writer = (known["side"], known["writer"])
        at = (int(known["iter"]), int(known["place"]), seq)
        if seq % 2 != (known["side"] == "o"):
            self.problems.append(f"{known[0]} has the number {seq}, which is the other side's")
        if at <= self._last.get(writer, (-1, -1, -1)):
            self.problems.append(f"{known[0]} stands behind a later one")
        self._last[writer] = at


# Older files ------------------------------------------------------------------------------


def migrate(path: Path) -> None:
    """Bring one file up where it lies."""
    _bring_up(path, side_of(path))


def fresh(path: Path, version: int) -> None:
    make_old_mail(path, version)
    _bring_up(path, "inbound" if version in INBOUND_VERSIONS else "outbound")


def _bring_up(path: Path, side: str) -> None:
    around: Any = SimpleNamespace(
        inbound=SharedFile(path, inbound_queries()), outbound=SharedFile(path, outbound_queries())
    )
    verb = bring_up_inbound if side == "inbound" else bring_up_outbound
    verb(cast("Folder", around))


if __name__ == "__main__":
    speak(Adapter("mailbox", list(SIDES), write, show, make_old_mail, migrate, fresh))

"""Session folders for the tests of `threadkeep mail`: ours, and one that NanoClaw made."""

from pathlib import Path

from tests.faults.mail_old_files import make_old_mail
from threadkeep.mailbox.host.host import Host
from threadkeep.mailbox.records import Destination, Place

CHAT = Place("cli", "me")


def make_box(folder: Path) -> Host:
    """Make a folder of ours whose mail goes to one chat."""
    host = Host.create(folder, agent_group="helper")
    host.write_routing(CHAT)
    host.write_destinations([Destination("me", "Me", "channel", "cli", "me")])
    return host


def make_theirs(folder: Path, inbound: int = 3, outbound: int = 5) -> Path:
    """Make a folder as a build of NanoClaw left it: 40 rows each way, without tables of ours."""
    folder.mkdir(parents=True)
    make_old_mail(folder / "inbound.db", inbound)
    make_old_mail(folder / "outbound.db", outbound)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    """Return the bytes of both files: looking must not change them."""
    return {name: (folder / name).read_bytes() for name in ("inbound.db", "outbound.db")}

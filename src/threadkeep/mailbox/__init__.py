"""Contract 3: mail between a host and an agent in a sandbox, over two SQLite files in a folder."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from threadkeep.mailbox.adapters import (
        Adapter,
        File,
        FileAdapter,
        MaybeSent,
        NotNow,
        Outgoing,
        Refused,
        Sent,
    )
    from threadkeep.mailbox.container.agent_loop import run_agent
    from threadkeep.mailbox.container.container import Container, open_here
    from threadkeep.mailbox.context import Policy
    from threadkeep.mailbox.folder import Folder, Owner, provision
    from threadkeep.mailbox.host.host import Host
    from threadkeep.mailbox.index import MailIndex
    from threadkeep.mailbox.mailroom import Mailroom
    from threadkeep.mailbox.records import DeadLetter, Delivery, Destination, Mail, OutMail, Place
    from threadkeep.mailbox.recurrence import next_due
    from threadkeep.mailbox.runner import ProcessRunner, Runner
    from threadkeep.mailbox.verification import Problem, verify

__all__ = ["Adapter", "Container", "DeadLetter", "Delivery", "Destination", "File", "FileAdapter"]
__all__ += ["Folder", "Host", "Mail", "MailIndex", "Mailroom", "MaybeSent", "NotNow", "OutMail"]
__all__ += ["Outgoing", "Owner", "Place", "Policy", "Problem", "ProcessRunner", "Refused", "Runner"]
__all__ += ["Sent", "next_due", "open_here", "provision", "run_agent", "verify"]

_LAZY = {  # where the names live; each is loaded when first asked for
    "adapters": "Adapter File FileAdapter MaybeSent NotNow Outgoing Refused Sent",
    "container.agent_loop": "run_agent",
    "container.container": "Container open_here",
    "context": "Policy",
    "folder": "Folder Owner provision",
    "host.host": "Host",
    "index": "MailIndex",
    "mailroom": "Mailroom",
    "records": "DeadLetter Delivery Destination Mail OutMail Place",
    "recurrence": "next_due",
    "runner": "ProcessRunner Runner",
    "verification": "Problem verify",
}


def __getattr__(name: str) -> Any:
    for module, names in _LAZY.items():
        if name in names.split():
            return getattr(import_module(f"threadkeep.mailbox.{module}"), name)
    raise AttributeError(f"module 'threadkeep.mailbox' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__

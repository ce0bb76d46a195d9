"""Channels: what carries mail of agents to people, and what is promised about it.

An adapter is anything with `send`. What it promises decides what happens after a crash between
sending a message and writing that down:

- `honours_key` is True: sending again with the same key has no second effect, so it is sent
  again. Every message arrives exactly once.
- it has `was_sent(key)`: it is asked. Exactly once, as far as it can tell.
- neither: the message is marked `unknown` and never sent again by itself. At most once.

A message of which the adapter says that it was not sent is tried again in every case.

`Mailroom.serve` calls adapters from several threads at once, for each session from one of them.
"""

from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any, Protocol

import msgspec

from threadkeep.base import json
from threadkeep.base.files import LineFile
from threadkeep.errors import Busy, Invalid, ThreadkeepError
from threadkeep.mailbox.context import Prefix, new_id
from threadkeep.mailbox.records import Json, Place
from threadkeep.mailbox.rows import read_moment


class NotNow(Busy):
    """The channel is not there now; the message was not sent, and no attempt is spent."""


class Refused(Invalid):
    """The message was not sent and never can be."""


class ToldByAnswer(Refused):
    """The message never can be sent, and its sender was told so by an answer of its own."""


class MaybeSent(ThreadkeepError):
    """Nobody can tell whether the message was sent."""


class File(msgspec.Struct, frozen=True):
    """A file that goes with a message."""

    name: str
    data: bytes


class Sent(msgspec.Struct, frozen=True):
    """The word of a channel that it has a message, and what it calls it."""

    platform_message_id: str | None = None


class Outgoing(msgspec.Struct, frozen=True, kw_only=True):
    """A message on its way out. `key` is the same for every attempt to send it."""

    session: str
    agent_group: str | None
    id: str
    seq: int | None
    key: str
    kind: str
    content: Json
    place: Place
    timestamp: str
    in_reply_to: str | None = None
    attempt: int = 1
    files: tuple[File, ...] = ()
    skipped: tuple[tuple[str, str], ...] = ()
    """Files that it names and that cannot go with it, each with the reason."""

    @property
    def text(self) -> str:
        """The words in it: a chat's, or those for channels that cannot show a card."""
        said = self.content.get("text", self.content.get("fallbackText", ""))
        return said if isinstance(said, str) else ""

    def derived_id(self, prefix: Prefix) -> str:
        """Return an id for what follows from this message: the same one at every attempt."""
        digest = blake2b(self.key.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        left = [int.from_bytes(digest, "big")]

        def draw(below: int) -> int:
            left[0], digit = divmod(left[0], below)
            return digit

        return new_id(prefix, read_moment(self.timestamp) or 0, draw)


class Adapter(Protocol):
    """One channel. It may also have `honours_key: bool` and `was_sent(key)`; see above.

    `was_sent` gives Sent or True, False for certainly not, None if it cannot tell.
    """

    def send(self, mail: Outgoing) -> str | None:
        """Send a message, and give what the channel calls it.

        Raise NotNow while the channel is away, Refused for what it will never take, MaybeSent
        (or TimeoutError) when nobody can tell. Any other error means that it was not sent. The
        agent is told the words of these three; of other errors only the type, because the words
        may hold secrets.
        """


class FileAdapter:
    """A channel that is a file: one JSON object per line, each message once, also after a crash."""

    honours_key = True

    def __init__(self, path: str | Path) -> None:
        self._file = LineFile(Path(path))
        self._known: dict[str, str] = {}

    def send(self, mail: Outgoing) -> str | None:
        """Append the message unless its key is there; the channel calls it by its own id."""
        line = json.encode(_shown(mail))
        if self._file.append(line, lambda news: self._has(mail.key, news)):
            self._known[mail.key] = mail.id
        return self._known[mail.key]

    def _has(self, key: str, news: list[str]) -> bool:
        for line in news:
            found = _read(line)
            self._known[str(found.get("key"))] = str(found.get("id"))
        return key in self._known


def _shown(mail: Outgoing) -> Json:
    return {
        "key": mail.key,
        "id": mail.id,
        "seq": mail.seq,
        "session": mail.session,
        "agent_group": mail.agent_group,
        "kind": mail.kind,
        "channel_type": mail.place.channel_type,
        "platform_id": mail.place.platform_id,
        "thread_id": mail.place.thread_id,
        "in_reply_to": mail.in_reply_to,
        "content": mail.content,
        "files": [{"name": file.name, "bytes": len(file.data)} for file in mail.files],
    }


def _read(line: str) -> Mapping[str, Any]:
    try:
        found = json.decode(line)
    except Invalid:  # not a line of ours
        return {}
    return found if isinstance(found, dict) else {}

"""Hostile values for every field of the mailbox (see hostile_protocol.py)."""

import base64
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any

REPO = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPO / "src"), str(REPO)]

from tests.faults.hostile_protocol import Target, serve  # noqa: E402
from tests.faults.mail_adapter import folder_of, open_host  # noqa: E402
from threadkeep.errors import Conflict, Invalid, NotFound  # noqa: E402
from threadkeep.mailbox.container.container import Container  # noqa: E402
from threadkeep.mailbox.context import Policy  # noqa: E402
from threadkeep.mailbox.host.host import Host  # noqa: E402
from threadkeep.mailbox.records import Destination  # noqa: E402
from threadkeep.mailbox.verification import verify  # noqa: E402

LONG = 1 << 20
ROOMY = Policy(content_bytes=48 << 20)  # the longest value must fit several times


class Both:
    """Both sides of one session folder, which can be rebuilt."""

    def __init__(self, database: Path) -> None:
        self.folder = folder_of(database)
        open_host(self.folder)
        self.host = Host(self.folder, policy=ROOMY)
        self.container = Container(self.folder, policy=ROOMY)
        self._empty = {path: path.read_bytes() for path in self.folder.glob("*.db")}

    def renew(self) -> None:
        """Begin with an empty folder; nobody has the files open between two calls."""
        for path, data in self._empty.items():
            path.write_bytes(data)
        for name in ("inbox", "outbox"):
            shutil.rmtree(self.folder / name, ignore_errors=True)
        (self.folder / "outbox").mkdir()


# Each gives back, one after the other, what the fields of its kind made of the value. ----------


def texts(both: Both, value: str) -> Iterator[Any]:
    host, container = both.host, both.container
    mail = host.send(value, sender=value, sender_id=value)
    yield from (host.mail(mail.id).text, container.mail(mail.id).text, container.poll()[0].text)
    yield from (container.poll()[0].content[field] for field in ("sender", "senderId"))
    out = container.send(value)
    yield from (out.text, host.outbox()[-1].text)
    if len(value) > LONG:  # once in each direction is enough of it
        return
    words = value if value.strip() else f"no{value}thing"  # a question needs some
    question = container.ask(words, [words], title=words)
    asked = host.outbox()[-1].content
    yield from (asked[part] if words == value else value for part in ("question", "title"))
    host.answer(question, value, user_id=value)
    yield (container.answer(question) or {})["selectedOption"]
    yield host.note(value).text
    container.set_state(f"k{value}", value)
    yield container.get_state(f"k{value}")
    container.edit(out.seq or 0, value)
    yield host.outbox()[-1].text
    failed(both, mail.id, value)
    task(both, value)


def failed(both: Both, message_id: str, reason: str) -> None:
    """Any words may be the reason why mail failed; they may be shortened, never lost."""
    both.container.claim([message_id])
    both.container.fail([message_id], reason)
    both.host.sync()
    both.host.dead_letters()
    both.host.trace(message_id)


def task(both: Both, value: str) -> None:
    """A task needs some words; then it takes any."""
    with suppress(Invalid):
        both.host.insert_task(value, script=value, process_after="2030-01-01")
        both.host.tasks()


def ids(both: Both, value: str) -> Iterator[Any]:
    out = both.container.send("x", id=value) if value else both.container.send("x", id="empty")
    yield out.id if value else value
    yield both.host.outbox()[-1].id if value else value
    yield both.host.send("x", id=value).id
    yield both.container.poll()[0].id
    both.container.claim([value])
    both.container.complete([value])
    yield both.host.sync().completed[0]
    yield both.host.mail(value).id


def values(both: Both, value: Any) -> Iterator[Any]:
    said = {"source": "s", "event": "e", "payload": value}
    mail = both.host.insert_message("webhook", said)
    yield from (mail.content["payload"], both.container.poll()[0].content["payload"])
    both.container.card({"v": value}, "fallback")
    yield both.host.outbox()[-1].content["card"]["v"]


def lines(both: Both, value: str) -> Iterator[Any]:
    """A line of JSON is words like others when it is said in a chat."""
    yield both.host.send(value).text
    yield both.container.send(value).text


def queries(both: Both, value: str) -> Iterator[Any]:
    """What is looked for by any name is found or not found."""
    host, container = both.host, both.container
    looks: tuple[Callable[[], object], ...] = (
        lambda: host.mail(value),
        lambda: container.mail(value),
        lambda: host.trace(value),
        lambda: container.send("x", to=value),
        lambda: host.cancel_task(value),
        lambda: container.answer(value),
        lambda: container.complete([value]),
        lambda: host.retry(value),
        lambda: host.insert_task("x", recurrence=value),
        lambda: host.send("x", process_after=value),
    )
    for look in looks:
        with suppress(NotFound, Invalid, Conflict):
            look()
    if value.strip():
        host.write_destinations([Destination(value, value, "channel", "test", "chat-1")])
        container.send("x", to=value)
    yield value


def names(both: Both, value: str) -> Iterator[Any]:
    """Where a file of this name came to lie; outside its own folder if any did."""
    data = base64.b64encode(b"data").decode()
    mail = both.host.send("x", attachments=[{"name": value, "data": data}])
    places = [both.folder / mail.content["attachments"][0]["localPath"]]
    with suppress(Invalid):
        out = both.container.send("x", files=[(value, b"data")])
        places.append(both.folder / "outbox" / out.id / out.content["files"][0])
    yield next((str(p) for p in places if not p.resolve().is_file()), str(places[0]))


SLOTS: dict[str, Callable[[Both, Any], Iterator[Any]]] = {
    "text": texts,
    "id": ids,
    "json": values,
    "jsontext": lines,
    "query": queries,
    "filename": names,
}


def opened(database: Path) -> AbstractContextManager[Both]:
    return nullcontext(Both(database))


def problems(both: Both) -> list[str]:
    return [str(found) for found in verify(both.host.context) if found.severity == "error"]


if __name__ == "__main__":
    serve(Target("mailbox", opened, SLOTS, problems, Both.renew))

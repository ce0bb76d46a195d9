"""Given: what is about the files of SQLite."""

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from tests.support.mail import CHAT, MailFactory, Pair, name_places, open_pair
from threadkeep.base.tx import Sql
from threadkeep.errors import Invalid, NotFound, ThreadkeepError
from threadkeep.mailbox import Container, Folder, Host, next_due, verify
from threadkeep.mailbox.records import Place

Act = Callable[[Container, Any], object]

ODD: tuple[Any, ...] = (
    *(None, 0, -1, 1.5, float("nan"), True, b"x", "", " ", "\0", "\ud800", "../x", "x" * 300),
    *(
        [],
        [1],
        {},
        {"a": 1},
        object(),
        2**63,
        -(2**70),
        date(2026, 1, 1),
        ("a", "b"),
        Path("/no/x"),
    ),
)

WORDS = ("", " ", "\0", "\ud800", "../x", "x" * 300)
MANY = ("\0", "\ud800", "../x", "x" * 300)
CHATS = (None, "", "\0", "../x", "x" * 300)

# Calls that refuse whatever is not of their kind; what they do take is left out.
ACTS: dict[str, tuple[Act, tuple[Any, ...]]] = {
    "poll": (lambda c, v: c.poll(v), (None, 2**63)),
    "claim": (lambda c, v: c.claim(v), ([],)),
    "claim one": (lambda c, v: c.claim([v]), ()),
    "complete": (lambda c, v: c.complete(v), ([],)),
    "complete one": (lambda c, v: c.complete([v]), ()),
    "fail one": (lambda c, v: c.fail([v], "x"), ()),
    "reason": (lambda c, v: c.fail(["none"], v), ()),
    "text": (lambda c, v: c.send(v), WORDS),
    "to": (lambda c, v: c.send("x", to=v), (None,)),
    "files": (lambda c, v: c.send("x", files=v), ([],)),
    "file": (lambda c, v: c.send("x", files=[v]), ()),
    "name of a file": (lambda c, v: c.send("x", files=[(v, b"")]), (" ",)),
    "bytes of a file": (lambda c, v: c.send("x", files=[("a", v)]), (b"x",)),
    "deliver_after": (lambda c, v: c.send("x", deliver_after=v), (None, 0, -1)),
    "unless_said": (lambda c, v: c.send("x", unless_said=v), (None, 0, -1, 1.5, 2**63, -(2**70))),
    "id": (lambda c, v: c.send("x", id=v), (None, " ")),
    "edit": (lambda c, v: c.edit(v, "x"), (True,)),
    "emoji": (lambda c, v: c.react(2, v), MANY),
    "card": (lambda c, v: c.card(v, "x"), ({}, {"a": 1})),
    "kind": (lambda c, v: c.insert_message(v, {}, CHAT), ()),
    "content": (lambda c, v: c.insert_message("chat", v, CHAT), ({}, {"a": 1})),
    "place": (lambda c, v: c.insert_message("chat", {}, v), ()),
    "question": (lambda c, v: c.ask(v, ["a"]), MANY),
    "options": (lambda c, v: c.ask("q", v), (("a", "b"),)),
    "option": (lambda c, v: c.ask("q", [v]), WORDS),
    "title": (lambda c, v: c.ask("q", ["a"], title=v), MANY),
    "prompt": (lambda c, v: c.schedule(v, process_after=0), MANY),
    "process_after": (lambda c, v: c.schedule("x", process_after=v), (0, -1)),
    "recurrence": (lambda c, v: c.schedule("x", recurrence=v), ()),
    "changed recurrence": (lambda c, v: c.update_task("t", recurrence=v), (None,)),
    "task": (lambda c, v: c.cancel_task(v), MANY),
    "action": (lambda c, v: c.act(v), MANY),
    "field of an action": (lambda c, v: c.act("x", of={1: v}), ()),
    "mail": (lambda c, v: c.mail(v), (True,)),
    "attachment": (lambda c, v: c.attachment(v, "x"), ()),
    "key": (lambda c, v: c.set_state(v, "x"), MANY),
    "value": (
        lambda c, v: c.set_state("k", v),
        (None, *WORDS),
    ),
    "timeout of a tool": (lambda c, v: c.tool_started("Bash", v), (None, 0)),
    "timeout": (lambda c, v: c.wait_for_answer("q", v), (0, -1, 1.5, True, 2**63, -(2**70))),
    "provider": (lambda c, v: c.start(v), MANY),
    "folder": (lambda _c, v: Container(v), ()),
    "zone": (lambda c, v: Container(c.context.folder, zone=v), ()),
    "expression": (lambda _c, v: next_due(v, 0), ("", " ")),
    "start of a search": (lambda _c, v: next_due("* * * * *", v), (0, -1)),
}


def picture(pair: Pair) -> list[tuple[str, bytes]]:
    # The lock of those who write is no mail: it stays once somebody has begun to write.
    files = sorted(p for p in pair.path.rglob("*") if p.is_file() and p.suffix != ".lock")
    return [(str(path), path.read_bytes()) for path in files]


@pytest.mark.parametrize("name", ACTS)
def test_what_is_of_the_wrong_type_is_refused_and_nothing_is_written(
    name: str, factory: MailFactory
) -> None:
    pair = open_pair(factory)
    name_places(pair.host)
    pair.host.send("hello")
    before = picture(pair)
    act, taken = ACTS[name]
    for odd in ODD:
        if any(odd is one or (type(odd), odd) == (type(one), one) for one in taken):
            continue
        with pytest.raises(ThreadkeepError) as refused:
            act(pair.container, odd)
        assert isinstance(refused.value, Invalid | NotFound), odd
        assert picture(pair) == before, odd


def test_a_row_with_half_a_character_can_be_verified(factory: MailFactory) -> None:
    pair = open_pair(factory)
    sent = pair.container.send("x")
    with pair.host.context.folder.outbound.write() as tx:
        tx.run(Sql("UPDATE messages_out SET platform_id = ?"), (b"C\xed\xa0\x80",))
    found = verify(pair.path)
    assert [problem.where for problem in found] == [f"messages_out '{sent.id}'"]
    assert "hash" in found[0].what


def test_the_verifier_of_the_package_is_the_function(factory: MailFactory) -> None:
    pair = open_pair(factory)
    assert verify(Folder(pair.path)) == verify(str(pair.path)) == []


HOST_ACTS: dict[str, tuple[Callable[[Host, Any], object], tuple[Any, ...]]] = {
    "text": (lambda h, v: h.send(v), WORDS),
    "sender": (lambda h, v: h.send("x", sender=v), WORDS),
    "id": (lambda h, v: h.send("x", id=v), (None, " ", "../x", "x" * 300)),
    "place": (lambda h, v: h.send("x", place=v), (None,)),
    "part of a place": (lambda h, v: h.send("x", place=Place("slack", v)), CHATS),
    "timestamp": (lambda h, v: h.send("x", timestamp=v), (None, 0, -1)),
    "attachments": (lambda h, v: h.send("x", attachments=v), ([],)),
    "attachment": (lambda h, v: h.send("x", attachments=[v]), ({}, {"a": 1})),
    "data": (lambda h, v: h.send("x", attachments=[{"data": v}]), (None, "", MANY[-1])),
    "kind": (lambda h, v: h.insert_message(v, {}), ()),
    "content": (lambda h, v: h.insert_message("chat", v), ({}, {"a": 1})),
    "prompt": (lambda h, v: h.insert_task(v), MANY),
    "script": (lambda h, v: h.insert_task("x", script=v), (None, *WORDS)),
    "recurrence": (lambda h, v: h.insert_task("x", recurrence=v), (None,)),
    "note": (lambda h, v: h.note(v), WORDS),
    "question": (lambda h, v: h.answer(v, "a"), ()),
    "option": (lambda h, v: h.answer("q", v), WORDS),
    "destinations": (lambda h, v: h.write_destinations(v), ([],)),
    "destination": (lambda h, v: h.write_destinations([v]), ()),
    "routing": (lambda h, v: h.write_routing(v), ()),
}


@pytest.mark.parametrize("name", HOST_ACTS)
def test_a_host_refuses_what_is_of_the_wrong_type_and_writes_nothing(
    name: str, factory: MailFactory
) -> None:
    pair = open_pair(factory)
    before = picture(pair)
    act, taken = HOST_ACTS[name]
    for odd in ODD:
        if any(odd is one or (type(odd), odd) == (type(one), one) for one in taken):
            continue
        with pytest.raises(Invalid):
            act(pair.host, odd)
        assert picture(pair) == before, odd

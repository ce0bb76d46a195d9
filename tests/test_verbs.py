"""The table of verbs: every verb of a store is in it, or it is said why not."""

import inspect
import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from tests.conftest import REPO
from threadkeep.base.verb_table import Verb, faults, said_by
from threadkeep.base.verbs import limits_of
from threadkeep.chat.store import ChatStore
from threadkeep.errors import Invalid
from threadkeep.mailbox.host.host import Host
from threadkeep.mailbox.index import MailIndex
from threadkeep.mcp.server import offered
from threadkeep.mcp.tools import read_arguments
from threadkeep.testing import ChatFactory
from threadkeep.verbs import INSIDE, OWNERS, TABLES, each_verb
from threadkeep.web.api.endpoints import read_address, read_body

CHAT, STATE = TABLES["chat"], TABLES["state"]


@pytest.mark.parametrize("store", sorted(OWNERS))
def test_every_verb_of_a_store_stands_in_the_table_or_inside(store: str) -> None:
    inside = INSIDE.get(store, {})
    assert faults(TABLES[store], inside, OWNERS[store]) == []
    assert all(reason.strip() for reason in inside.values())


def test_a_table_that_is_not_right_is_seen() -> None:
    left = {name: one for name, one in CHAT.items() if name != "vacuum"}
    assert faults(left, INSIDE["chat"], OWNERS["chat"]) == ["vacuum is in no line"]
    wrong = msgspec.structs.replace(CHAT["vacuum"], path="/chat/{nobody}/vacuum")
    found = faults({**CHAT, "vacuum": wrong}, INSIDE["chat"], OWNERS["chat"])
    assert found == ["vacuum: 'nobody' of its address is not a parameter"]


def test_what_a_verb_takes_is_what_its_signature_says() -> None:
    compact: Any = CHAT["compact"].body
    assert set(compact.__struct_fields__) >= {"summary", "summary_tokens", "tail_turns"}
    repair: Any = CHAT["repair_orphans"].body
    judge: Any = CHAT["judge"].body
    assert "human_tools" in repair.__struct_fields__
    assert "rules" in judge.__struct_fields__
    # Neither a path nor a function can be sent.
    assert set(CHAT["backup"].arguments) == {"reason", "keep"}
    assert "sessions_dir" not in STATE["delete_session"].arguments


def test_arguments_by_name_are_refused_when_there_is_no_such_name() -> None:
    with pytest.raises(Invalid, match="'sesion'") as caught:
        CHAT["session"].named({"sesion": "s"})
    assert "session" in caught.value.hint
    assert STATE["archive_sessions"].named({"min_messages": 3}) == {"min_messages": 3}


def test_what_cannot_be_sent_is_refused_also_where_more_is_taken() -> None:
    assert STATE["prune_sessions"].takes_more
    with pytest.raises(Invalid, match="'sessions_dir'"):
        STATE["prune_sessions"].named({"sessions_dir": "anywhere"})


def test_a_line_that_hides_a_dry_run_is_seen() -> None:
    wrong = msgspec.structs.replace(STATE["prune_sessions"], destroys=False)
    (found,) = faults({**STATE, "prune_sessions": wrong}, INSIDE["state"], OWNERS["state"])
    assert found.startswith("prune_sessions: it has a dry run")


def test_what_destroys_is_a_dry_run_unless_it_is_told_otherwise() -> None:
    for one in (one for table in TABLES.values() for one in table.values() if one.destroys):
        assert one.named({}) == {"dry_run": True}
        assert one.named({"dry_run": False}) == {"dry_run": False}


# Verbs that end something and have no dry run, each with its reason.
_HARMLESS = {
    "clear_backend_heartbeat": "a sign of life",
    "clear_compression_failure_cooldown": "a pause, which the next failure sets again",
    "clear_session_activity_labels": "what a session does right now",
    "delete_gateway_routing_entries": "routes, which the next message makes again",
    "delete_telegram_topic_binding": "a binding, which the next message makes again",
    "prune_stale_heartbeats": "signs of life of programs that ended",
}


def test_no_verb_deletes_what_was_said_without_a_dry_run() -> None:
    ends = ("delete", "clear", "prune", "purge", "forget", "drop")
    lines = [one for table in TABLES.values() for one in table.values() if not one.reads]
    found = {one.name for one in lines if one.name.startswith(ends) and not one.destroys}
    assert found == set(_HARMLESS)


# Every argument with limits, by the name that it has at its verb's address.
_LIMITED = [
    pytest.param(one, name, target, limits, id=f"{store}.{one.name}.{name}")
    for store, lines in TABLES.items()
    for one in lines.values()
    for target, argument in one.arguments.items()
    if one.path and target not in one.preset
    for name in ([told for told, of in one.names.items() if of == target] or [target])
    if (limits := limits_of(argument.kind)) is not None
]
_TOOLS = {tool.name: tool for tool in offered(write=True)}


def beyond(limits: msgspec.Meta) -> Any:
    """Return a value that is just beyond limits."""
    if limits.ge is not None:
        return limits.ge - 1
    return "" if limits.max_length is None else "x" * (limits.max_length + 1)


def within(kind: Any) -> Any:
    """Return a value that no limits of a type refuse."""
    limits = limits_of(kind)
    return "x" if limits is None or limits.ge is None else 1


def words_of(error: Invalid) -> str:
    """Return what an error says of a value, without the value's name; -1 and -1.0 are the same."""
    return error.message.rpartition(": ")[2].partition(", not ")[0].partition(" ")[2]


@pytest.fixture(scope="module")
def chat() -> Iterator[ChatStore]:
    """Return a store: verbs of chat look at it before they look at their arguments."""
    with ChatFactory() as factory, factory.open() as store:
        yield store


@pytest.mark.parametrize("one, name, target, limits", _LIMITED)
def test_every_surface_refuses_what_python_refuses_in_the_same_words(
    one: Verb, name: str, target: str, limits: msgspec.Meta, chat: ChatStore
) -> None:
    wrong = beyond(limits)
    store = chat if one.owner.store == "chat" else None
    needed = {n: within(of.kind) for n, of in one.arguments.items() if of.required}
    with pytest.raises(Invalid) as in_python:
        one.function(store, **{**needed, target: wrong})
    assert in_python.value.message.startswith(f"{target} must ")
    kind = one.asked if one.body is None or name in one.in_path else one.body
    required = {f.name: "x" for f in msgspec.structs.fields(kind) if f.required}
    with pytest.raises(Invalid) as over_http:
        if kind is one.asked:
            path = {field: str(wrong) if field == name else "1" for field in one.in_path}
            pairs = {**required, name: str(wrong)}
            read_address(kind, [(n, v) for n, v in pairs.items() if n not in path], path)
        else:
            read_body(kind, json.dumps({**required, name: wrong}).encode())
    assert words_of(over_http.value) == words_of(in_python.value)
    taken = _TOOLS[one.tool].arguments if one.tool else msgspec.Struct
    if name in {*taken.__struct_fields__} - {"since", "until"}:  # it takes times as they are typed
        with pytest.raises(Invalid) as by_tool:
            read_arguments(taken, {**required, name: wrong})
        assert words_of(by_tool.value) == words_of(in_python.value)


def test_every_verb_that_a_hint_names_is_there() -> None:
    classes = {one.name: one.type for one in OWNERS.values()} | {
        "Host": Host,
        "MailIndex": MailIndex,
    }
    for one in filter(None, (one.also for one in each_verb())):
        owner, _, name = one.partition(".")
        assert callable(getattr(classes[owner], name)), one
    named = re.compile(r"`([A-Z]\w+)\.(\w+)\((\w*)=?\w*\)`")
    stores = [REPO / "src" / "threadkeep" / room for room in ("chat", "state", "mailbox")]
    found = {
        match
        for room in stores
        for path in room.rglob("*.py")
        for match in named.findall(path.read_text("utf-8"))
    }
    assert len(found) >= 8
    for owner, name, argument in found:
        taken = inspect.signature(getattr(classes[owner], name)).parameters
        assert not argument or argument in taken, (owner, name, argument)


def test_each_surface_writes_the_verbs_of_a_hint_its_own_way() -> None:
    hint = "`ChatStore.import_sessions(replace=True)` replaces; `Nobody.knows()` it"
    said = said_by(hint, each_verb(), lambda one, argument, _: f"{one.command} --{argument}")
    assert said == "`chat import --replace` replaces; `Nobody.knows()` it"


def test_a_record_is_sent_by_its_id() -> None:
    assert CHAT["session"].arguments["session"].kind is str
    assert CHAT["sessions"].arguments["parent"].kind == str | None

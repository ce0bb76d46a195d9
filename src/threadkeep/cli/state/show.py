"""`threadkeep state show` and `lineage`: a conversation, and the family it belongs to."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import click

from threadkeep import SessionDB
from threadkeep.cli.chat.parts import LIMIT, cut, header, indented, value_text
from threadkeep.cli.command import Call
from threadkeep.cli.complete import complete_state_session
from threadkeep.cli.output import counted, one_line, write, write_pieces
from threadkeep.cli.state.group import reading, session_argument, state_command
from threadkeep.cli.state.words import Json, cost_of, plain, readable, when
from threadkeep.cli.wrap import StyledText
from threadkeep.errors import Invalid, NotFound
from threadkeep.state.naming import find_state_session, flags_of, messages_near

_LONG = 20_000  # what people and models write is cut later than what tools put out
_NEIGHBOURS = 5
_COUNTERS = {
    "input_tokens": "input",
    "output_tokens": "output",
    "cache_read_tokens": "cache read",
    "cache_write_tokens": "cache write",
    "reasoning_tokens": "reasoning",
}


@state_command(
    "show",
    "threadkeep state show last --last 10",
    "threadkeep state show --around 4711",
    lists=True,
)
@click.argument("session", required=False, shell_complete=complete_state_session)
@click.option("--last", type=click.IntRange(1), metavar="N", help="Only the last N messages.")
@click.option("--around", type=int, metavar="MESSAGE", help="Only this message and its neighbours.")
@click.option("--prompt", is_flag=True, help="Show the system prompt.")
@click.option("--full", is_flag=True, help="Do not cut long texts.")
def show(
    call: Call,
    *,
    session: str | None,
    last: int | None,
    around: int | None,
    prompt: bool,
    full: bool,
) -> None:
    """Show a session: what was said, thought, called and answered, message by message.

    `search` and `show` number the messages; with --around the SESSION need not be named.
    """
    with reading(call) as store:
        chosen = _around(store, around) if around is not None else None
        session_id = _session_of(store, session, chosen)
        if last is not None and chosen is None:
            chosen = store.get_messages(session_id, limit=last, latest=True)
        facts = _facts(store, session_id)
        if call.as_json:
            whole = store.get_messages(session_id) if chosen is None else chosen
            call.answer("messages", session=plain(facts), messages=plain(whole))
            return
        messages = store.iter_messages(session_id) if chosen is None else chosen
        write_pieces(_pieces(facts, messages, prompt=prompt, full=full, marked=around))


def _around(store: SessionDB, message_id: int) -> list[Json]:
    found: list[Json] = messages_near(store, message_id, _NEIGHBOURS, _NEIGHBOURS)
    if not found:
        msg = f"there is no message {message_id}"
        raise NotFound(msg, hint="`threadkeep state search` and `show` number the messages")
    return found


def _session_of(store: SessionDB, named: str | None, chosen: Sequence[Json] | None) -> str:
    if named is None and not chosen:
        raise Invalid("which session?", hint="name one, or a message with --around")
    owner = chosen[0]["session_id"] if chosen else None
    found = owner if named is None else find_state_session(store, named)
    if owner not in (None, found):
        msg = f"the message belongs to session {owner!r}, not to {found!r}"
        raise NotFound(msg, hint="leave the session out")
    return str(found)


def _facts(store: SessionDB, session_id: str) -> Json:
    tip = store.get_compression_tip(session_id)
    flags = flags_of(store, [session_id])[session_id]
    going_on = {} if tip == session_id else {"continued_in": tip}
    return {**(store.get_session(session_id) or {}), **flags, **going_on}


# ---------------------------------------------------------------------- a conversation


def _pieces(
    session: Json, messages: Iterable[Json], *, prompt: bool, full: bool, marked: int | None
) -> Iterator[StyledText]:
    yield from _session_pieces(session)
    if prompt and session.get("system_prompt"):
        yield StyledText("\nsystem prompt\n", "bold magenta")
        yield StyledText(indented(readable(session["system_prompt"]), "  ") + "\n", "dim")
    for message in messages:
        yield StyledText("\n")
        if message["id"] == marked:
            yield StyledText("▶ ", "bold yellow")
        yield from message_pieces(message, full=full)


def _session_pieces(session: Json) -> Iterator[StyledText]:
    marks = [word for word in ("pinned", "archived") if session.get(f"{word}_at") is not None]
    yield StyledText(one_line(session["id"]), "bold")
    yield StyledText(f"  {one_line(str(session['title'] or '(no title)'))}")
    yield StyledText("".join(f"  [{mark}]" for mark in marks) + "\n", "yellow")
    used = [f"{name} {session[key]:,}" for key, name in _COUNTERS.items() if session.get(key)]
    ended = session["ended_at"]
    yield from _line(
        f"source {session['source']}",
        f"model {session['model']}" if session["model"] else "",
        f"user {session['user_id']}" if session["user_id"] else "",
    )
    yield from _line(
        f"started {when(session['started_at'])}",
        f"ended {when(ended)} ({session['end_reason']})" if ended is not None else "",
        counted(session["message_count"] or 0, "message"),
        counted(session["tool_call_count"] or 0, "tool call"),
    )
    yield from _line(f"tokens: {', '.join(used)}" if used else "", cost_of(session))
    yield from _line(
        f"child of {session['parent_session_id']}" if session["parent_session_id"] else "",
        f"goes on in {session['continued_in']}" if "continued_in" in session else "",
    )


def _line(*facts: str) -> Iterator[StyledText]:
    shown = [one_line(fact) for fact in facts if fact]
    if shown:
        yield StyledText(f"{' · '.join(shown)}\n", "dim")


def message_pieces(message: Json, *, full: bool = False) -> Iterator[StyledText]:
    """Show a message with its thoughts and its tool calls; long texts are cut unless `full`."""
    role = str(message["role"])
    short, long = (0, 0) if full else (LIMIT, LIMIT if role == "tool" else _LONG)
    yield StyledText(f"#{message['id']} ", "bold")
    yield from header(role, when(message["timestamp"]), str(message["tool_name"] or ""))
    if message["reasoning"]:
        thought = cut(readable(message["reasoning"]).strip(), short)
        yield StyledText(indented(f"thinking: {thought}", "  ") + "\n", "dim italic")
    content = readable(message["content"])
    if content.strip():
        yield StyledText(indented(cut(content.rstrip("\n"), long), "  ") + "\n")
    for call in _calls(message["tool_calls"]):
        yield from _call_pieces(call, short)


def _calls(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value] if value else []


def _call_pieces(call: Any, limit: int) -> Iterator[StyledText]:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        yield StyledText(f"  ▸ {value_text(plain(call), limit)}\n", "yellow")
        return
    yield StyledText(f"  ▸ {one_line(str(function.get('name', '')))} ", "yellow")
    yield StyledText(f"{value_text(plain(function.get('arguments', '')), limit)}\n")


# ---------------------------------------------------------------------- lineage


@state_command("lineage", "threadkeep state lineage last", lists=True)
@session_argument
def lineage(call: Call, *, session: str) -> None:
    """Show the family of a session: continuations after compression, branches, delegates.

    A relation in brackets was not written down by anybody but inferred from times and reasons.
    """
    with reading(call) as store:
        session_id = find_state_session(store, session)
        family = store.get_lineage(session_id)
    if call.as_json:
        call.answer("lineage", session_id=session_id, lineage=plain(family))
        return
    for lead, node in zip(branches([one["depth"] for one in family]), family, strict=True):
        here = node["id"] == session_id
        write(f"{lead}{one_line(node['id'])}", "bold green" if here else "bold", end="")
        write(f"  {_relation(node)}{'  ◀' if here else ''}")


def _relation(node: Json) -> str:
    relation = node["relation"] or ""
    facts = (
        f"({relation})" if node["inferred"] else relation,
        when(node["started_at"]),
        counted(node["message_count"] or 0, "message"),
        one_line(node["title"] or ""),
    )
    return " · ".join(fact for fact in facts if fact)


def branches(depths: Sequence[int]) -> list[str]:
    """Draw the lines of a tree, given how deep each node is, parents before children."""
    leads: list[str] = []
    below: dict[int, None] = {}  # the levels on which a sibling follows, seen from the end
    for depth in reversed(depths):
        joint = "├─ " if depth in below else "└─ "
        lead = "".join("│  " if level in below else "   " for level in range(1, depth))
        leads.append(lead + joint if depth else "")
        below = dict.fromkeys([*(level for level in below if level < depth), depth])
    return leads[::-1]

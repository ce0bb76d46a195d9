"""`threadkeep state ls` and `search`."""

import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, timedelta
from typing import Any, Final

import click

from threadkeep import SessionDB
from threadkeep.base.engines import without_password
from threadkeep.cli import transcript
from threadkeep.cli.command import Call
from threadkeep.cli.options import (
    OneOf,
    complete_state_session,
    limit_option,
    since_option,
    until_option,
)
from threadkeep.cli.output import (
    StyledText,
    counted,
    facts,
    is_terminal,
    note,
    one_line,
    paging,
    size_text,
    table,
    terminal_width,
    write,
    write_pieces,
    write_snippet,
)
from threadkeep.cli.state import group
from threadkeep.cli.times import moment
from threadkeep.errors import Invalid, NotFound
from threadkeep.state.naming import find_state_session, flags_of, messages_near

_NAME = 16  # a terminal shows so much of the name of a source or a model
_TITLE = 60


@group.state_command(
    "ls",
    "threadkeep state ls --by-activity",
    "threadkeep state ls --source telegram",
    lists=True,
    pages=True,
)
@click.option("--source", help="Only sessions of this source, such as cli or telegram.")
@click.option("--exclude-source", "excluded", multiple=True, help="Leave out this source.")
@click.option("--children", is_flag=True, help="Include continuations, branches and delegates.")
@click.option("--archived", is_flag=True, help="Include archived sessions.")
@click.option("--hidden", is_flag=True, help="Include hidden sessions.")
@click.option("--by-activity", is_flag=True, help="Order by last use instead of by start.")
@click.option("--min-messages", default=0, metavar="N", help="Only with at least N messages.")
@limit_option(20, "How many; -1 for all.")
@click.option("--offset", default=0, help="Skip the first N.")
def ls(
    call: Call,
    *,
    source: str | None,
    excluded: tuple[str, ...],
    children: bool,
    archived: bool,
    hidden: bool,
    by_activity: bool,
    min_messages: int,
    limit: int,
    offset: int,
) -> None:
    """List sessions, newest first; a compressed one appears as its continuation.

    --json has everything except the system prompts, which `show` has.
    """
    with group.reading(call) as store:
        found = store.list_sessions_rich(
            source,
            exclude_sources=excluded,
            limit=limit,
            offset=offset,
            include_children=children,
            order_by_last_active=by_activity,
            include_archived=archived,
            include_hidden=hidden,
            min_message_count=min_messages,
        )
        flags = flags_of(store, [one["id"] for one in found])
    if call.as_json:
        call.answer("sessions", sessions=[_listed(one, flags[one["id"]]) for one in found])
        return
    columns = ("id", "last active", "source", "model", "messages", "cost", "title")
    spare = ("cost", "model", "messages", "source", "last active")
    rows = [_row(one) for one in found]
    with paging(wanted=call.pager):
        table(columns, rows, wide="title", spare=spare)
    if not found:
        note("No sessions match; --children and --archived include more")
    elif len(found) == limit:
        note(f"More with --offset {offset + limit}")


def _listed(session: group.Json, flags: group.Json) -> group.Json:
    shown = {name: value for name, value in session.items() if name != "system_prompt"}
    at = {name: flags.get(name) for name in ("pinned_at", "archived_at")}
    return {**shown, **at}


def _row(session: group.Json) -> tuple[str, ...]:
    limit = _NAME if is_terminal() else 0
    marks = [word for word in ("pinned", "archived", "hidden") if session[word]]
    name = session["title"] or session["preview"] or ""
    return (
        session["id"],
        group.when(session["last_active"]),
        one_line(str(session["source"]), limit),
        one_line(str(session["model"] or ""), limit),
        f"{session['message_count'] or 0:,}",
        group.cost_of(session),
        " ".join([*(f"[{mark}]" for mark in marks), str(name)]),
    )


@group.state_command(
    "search",
    "threadkeep state search gateway/run.py --since 7d",
    "threadkeep state search '\"connection refused\" OR timeout' --role tool",
    lists=True,
    pages=True,
)
@click.argument("words", nargs=-1, required=True)
@click.option("--source", "sources", multiple=True, help="Only in sessions of this source.")
@click.option("--exclude-source", "excluded", multiple=True, help="Not in those of this source.")
@click.option("--role", "roles", multiple=True, help="Who said it: user, assistant, tool, …")
@since_option()
@until_option()
@click.option(
    "--sort",
    type=OneOf(["rank", "newest", "oldest"]),
    default="rank",
    show_default=True,
    help="The order.",
)
@click.option("--session", shell_complete=complete_state_session, help="Only in this session.")
@limit_option(20, "How many; -1 for all.")
@click.option("--offset", default=0, help="Skip the first N.")
def search(
    call: Call,
    *,
    words: tuple[str, ...],
    sources: tuple[str, ...],
    excluded: tuple[str, ...],
    roles: tuple[str, ...],
    since: str | None,
    until: str | None,
    sort: str,
    session: str | None,
    limit: int,
    offset: int,
) -> None:
    """Search messages and tool calls for WORDS.

    Any text works, including punctuation; "a phrase", OR, NOT and a prefix* are understood.
    """
    now = time.time()
    with group.searching(call) as store:
        hits = store.search_messages(
            " ".join(words),
            list(sources) or None,
            list(excluded) or None,
            list(roles) or None,
            limit,
            offset,
            since=moment(since, now),
            until=moment(until, now, end=True),
            sort=sort,
            session_id=None if session is None else find_state_session(store, session),
        )
        owners = {hit["session_id"] for hit in hits}
        titles = {owner: store.get_session_title(owner) for owner in owners}
    if call.as_json:
        call.answer(
            "hits", hits=[group.plain({**hit, "title": titles[hit["session_id"]]}) for hit in hits]
        )
        return
    with paging(wanted=call.pager):
        for hit in hits:
            _show_hit(hit, titles[hit["session_id"]])
    if not hits:
        note("nothing found")


def _show_hit(hit: group.Json, title: str | None) -> None:
    write(f"{one_line(hit['session_id'])} #{hit['id']}", "bold", end=" ")
    facts = [group.when(hit["timestamp"]), hit["role"], hit["tool_name"], hit["source"]]
    named = [one_line(str(fact)) for fact in facts if fact]
    write(" ".join(named) + (f" · {one_line(title, _TITLE)}" if title else ""), "dim")
    write_snippet(hit["snippet"] or "")


# ------------------------------------------------------------------------------
# `threadkeep state show` and `lineage`: a conversation, and the family it belongs to.

_SHORT, _LONG = (
    transcript.LIMIT,
    20_000,
)  # what people and models write is cut later than what tools put out
_NEIGHBOURS = 5
_COUNTERS = {
    "input_tokens": "input",
    "output_tokens": "output",
    "cache_read_tokens": "cache read",
    "cache_write_tokens": "cache write",
    "reasoning_tokens": "reasoning",
}


@group.state_command(
    "show",
    "threadkeep state show last --last 10",
    "threadkeep state show --around 4711",
    lists=True,
)
@click.argument("session", required=False, shell_complete=complete_state_session)
@click.option("--last", type=click.IntRange(1), metavar="N", help="Only the last N messages.")
@click.option(
    "--around", type=int, metavar="MESSAGE", help="Only this message and those around it."
)
@click.option("--prompt", is_flag=True, help="Show the system prompt.")
@click.option("--full", is_flag=True, help="Show long texts in full.")
def show(
    call: Call,
    *,
    session: str | None,
    last: int | None,
    around: int | None,
    prompt: bool,
    full: bool,
) -> None:
    """Show a session message by message, with reasoning, tool calls and results.

    `search` and `show` number the messages; with --around, SESSION can be left out.
    """
    with group.reading(call) as store:
        chosen = _around(store, around) if around is not None else None
        session_id = _session_of(store, session, chosen)
        if last is not None and chosen is None:
            chosen = store.get_messages(session_id, limit=last, latest=True)
        facts = _facts(store, session_id)
        if call.as_json:
            whole = store.get_messages(session_id) if chosen is None else chosen
            call.answer("messages", session=group.plain(facts), messages=group.plain(whole))
            return
        messages = store.iter_messages(session_id) if chosen is None else chosen
        write_pieces(_pieces(facts, messages, prompt=prompt, full=full, marked=around))


def _around(store: SessionDB, message_id: int) -> list[group.Json]:
    found: list[group.Json] = messages_near(store, message_id, _NEIGHBOURS, _NEIGHBOURS)
    if not found:
        msg = f"there is no message {message_id}"
        raise NotFound(msg, hint="`threadkeep state search` and `show` number the messages")
    return found


def _session_of(store: SessionDB, named: str | None, chosen: Sequence[group.Json] | None) -> str:
    if named is None and not chosen:
        raise Invalid("which session?", hint="name one, or a message with --around")
    owner = chosen[0]["session_id"] if chosen else None
    found = owner if named is None else find_state_session(store, named)
    if owner not in (None, found):
        msg = f"the message belongs to session {owner!r}, not to {found!r}"
        raise NotFound(msg, hint="leave the session out")
    return str(found)


def _facts(store: SessionDB, session_id: str) -> group.Json:
    tip = store.get_compression_tip(session_id)
    flags = flags_of(store, [session_id])[session_id]
    going_on = {} if tip == session_id else {"continued_in": tip}
    return {**(store.get_session(session_id) or {}), **flags, **going_on}


# ---------------------------------------------------------------------- a conversation


def _pieces(
    session: group.Json,
    messages: Iterable[group.Json],
    *,
    prompt: bool,
    full: bool,
    marked: int | None,
) -> Iterator[StyledText]:
    yield from _session_pieces(session)
    if prompt and session.get("system_prompt"):
        yield StyledText("\nsystem prompt\n", "bold magenta")
        prompt_text = transcript.indented(group.readable(session["system_prompt"]), "  ")
        yield StyledText(f"{prompt_text}\n", "dim")
    for message in messages:
        yield StyledText("\n")
        if message["id"] == marked:
            yield StyledText("▶ ", "bold yellow")
        yield from message_pieces(message, full=full)


def _session_pieces(session: group.Json) -> Iterator[StyledText]:
    marks = [word for word in ("pinned", "archived") if session.get(f"{word}_at") is not None]
    yield StyledText(one_line(session["id"]), "bold")
    yield StyledText(f"  {one_line(str(session['title'] or '(no title)'))}")
    yield StyledText("".join(f"  [{mark}]" for mark in marks) + "\n", "yellow")
    used = [f"{name} {session[key]:,}" for key, name in _COUNTERS.items() if session.get(key)]
    ended = session["ended_at"]
    yield from transcript.facts_line(
        f"source {session['source']}",
        f"model {session['model']}" if session["model"] else "",
        f"user {session['user_id']}" if session["user_id"] else "",
    )
    yield from transcript.facts_line(
        f"started {group.when(session['started_at'])}",
        f"ended {group.when(ended)} ({session['end_reason']})" if ended is not None else "",
        counted(session["message_count"] or 0, "message"),
        counted(session["tool_call_count"] or 0, "tool call"),
    )
    yield from transcript.facts_line(
        f"tokens: {', '.join(used)}" if used else "", group.cost_of(session)
    )
    yield from transcript.facts_line(
        f"child of {session['parent_session_id']}" if session["parent_session_id"] else "",
        f"continued in {session['continued_in']}" if "continued_in" in session else "",
    )


def message_pieces(message: group.Json, *, full: bool = False) -> Iterator[StyledText]:
    """Show a message with its thoughts and its tool calls; long texts are cut unless `full`."""
    role = str(message["role"])
    short, long = (0, 0) if full else (_SHORT, _SHORT if role == "tool" else _LONG)
    yield StyledText(f"#{message['id']} ", "bold")
    yield from transcript.header(
        role, group.when(message["timestamp"]), str(message["tool_name"] or "")
    )
    if message["reasoning"]:
        reasoning = group.readable(message["reasoning"]).strip()
        yield from transcript.thought(transcript.cut(reasoning, short))
    content = group.readable(message["content"])
    if content.strip():
        yield from transcript.said(transcript.cut(content.rstrip("\n"), long))
    for call in _calls(message["tool_calls"]):
        yield from _call_pieces(call, short)


def _calls(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value] if value else []


def _call_pieces(call: Any, limit: int) -> list[StyledText]:
    function = call.get("function") if isinstance(call, dict) else None
    known = function if isinstance(function, dict) else {"arguments": call}
    given = group.plain(known.get("arguments", ""))
    return transcript.called(str(known.get("name", "")), transcript.value_text(given, limit))


# ---------------------------------------------------------------------- lineage


@group.state_command("lineage", "threadkeep state lineage last", lists=True)
@group.session_argument
def lineage(call: Call, *, session: str) -> None:
    """Show the family of a session: continuations after compression, branches, delegates.

    A relation in brackets was inferred from times and reasons, not recorded.
    """
    with group.reading(call) as store:
        session_id = find_state_session(store, session)
        family = store.get_lineage(session_id)
    if call.as_json:
        call.answer("lineage", session_id=session_id, lineage=group.plain(family))
        return
    for lead, node in zip(branches([one["depth"] for one in family]), family, strict=True):
        here = node["id"] == session_id
        write(f"{lead}{one_line(node['id'])}", "bold green" if here else "bold", end="")
        write(f"  {_relation(node)}{'  ◀' if here else ''}")


def _relation(node: group.Json) -> str:
    relation = node["relation"] or ""
    facts = (
        f"({relation})" if node["inferred"] else relation,
        group.when(node["started_at"]),
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


# ------------------------------------------------------------------------------
# `threadkeep state stats`: totals, and a small bar chart of what was used.

_STATS_COUNTERS: Final = (
    *("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens"),
    *("reasoning_tokens", "total_tokens", "estimated_cost_usd", "actual_cost_usd"),
)
_EIGHTHS: Final = " ▏▎▍▌▋▊▉"
_DAYS: Final = "30d"
_SHOWN_DAYS: Final = 92  # of more days only those that have something are shown
_LABEL: Final = 32
_LEAST: Final = 10


@group.state_command(
    "stats", "threadkeep state stats", "threadkeep state stats --by model --since 7d", lists=True
)
@click.option(
    "--by",
    type=OneOf(["day", "model", "source", "session"]),
    default="day",
    show_default=True,
    help="What the bars stand for.",
)
@click.option(
    "--of",
    "measure",
    type=OneOf(["tokens", "cost", "sessions"]),
    default="tokens",
    show_default=True,
    help="What the bars measure.",
)
@click.option("--since", metavar="TIME", help=f"A date, or an age.  [by day: {_DAYS}, else all]")
@until_option("A date, or an age.")
@click.option("--source", help="Only sessions of this source.")
@limit_option(40, "How many bars; not for days.")
def stats(
    call: Call,
    *,
    by: str,
    measure: str,
    since: str | None,
    until: str | None,
    source: str | None,
    limit: int,
) -> None:
    """Show sessions, messages, tokens and cost: totals, and by day, model, source or session."""
    now = time.time()
    first = moment(since or (_DAYS if by == "day" else None), now)
    last = moment(until, now, end=True)
    with group.reading(call) as store:
        counts: group.Json = {
            "sessions": store.session_count(source),
            "messages": store.message_count(),
            "sources": store.session_count_by_source(),
        }
        place, file = call.home.place("state", call.db), call.home.file("state", call.db)
        name = str(without_password(place))
        used = store.usage(by, since=first, until=last, source=source)
        everything = store.usage("source", source=source)
    totals = _totals(everything)
    if call.as_json:
        call.answer("usage", file=name, **counts, totals=totals, by=by, usage=group.plain(used))
        return
    facts(
        {
            "file": name if file is None else f"{name}, {size_text(file.stat().st_size)}",
            "sessions": f"{counts['sessions']:,}",
            "messages": f"{counts['messages']:,}" + (" (of all sources)" if source else ""),
            "sources": ", ".join(f"{name} {n:,}" for name, n in counts["sources"].items()),
            "tokens": f"{totals['input_tokens']:,} in, {totals['output_tokens']:,} out",
            "cost": group.cost_of(totals) or "not reported",
        }
    )
    write()
    if by == "day":
        _chart(_every_day(used, now if last is None else min(now, last)), by, measure)
    else:
        _chart(used[:limit], by, measure)
        if len(used) > limit:
            note(f"{len(used) - limit:,} more: --limit {len(used)}")
    if not used:
        note("No tokens or cost were reported" + (f" in the last {_DAYS}" if not since else ""))


def _totals(used: Sequence[group.Json]) -> group.Json:
    return {name: sum(one[name] for one in used) for name in _STATS_COUNTERS}


def _every_day(used: Sequence[group.Json], until: float) -> list[group.Json]:
    """Put in the days on which nothing was used, up to today: gaps tell something, too."""
    if not used:
        return []
    by_day = {str(one["day"]): one for one in used}
    begin = date.fromisoformat(min(by_day))
    end = max(date.fromtimestamp(until), date.fromisoformat(max(by_day)))  # noqa: DTZ012  (local)
    span = (end - begin).days + 1
    if span > _SHOWN_DAYS:
        return list(used)
    nothing = {**dict.fromkeys(_STATS_COUNTERS, 0), "sessions": 0}
    names = [(begin + timedelta(days=n)).isoformat() for n in range(span)]
    return [by_day.get(name, {"day": name, **nothing}) for name in names]


# ---------------------------------------------------------------------- the chart


def _chart(used: Sequence[group.Json], by: str, measure: str) -> None:
    texts = [(one_line(str(one[by])), *_amounts(one)) for one in used]
    if not is_terminal():
        table((by, "tokens", "cost", "sessions"), texts)
        return
    if not texts:
        return
    from rich.cells import cell_len, set_cell_size

    label = min(_LABEL, max(cell_len(text[0]) for text in texts))
    numbers = [f"{tokens} tokens  {cost}".rstrip() for _, tokens, cost, _ in texts]
    room = terminal_width() - label - max(map(len, numbers)) - 4
    drawn = bars([_height(one, measure) for one in used], max(_LEAST, room))
    for (name, *_), bar, number in zip(texts, drawn, numbers, strict=True):
        write(set_cell_size(name, label), end="  ")
        write(bar, "cyan", end="  ")
        write(number, "dim")


def _amounts(one: group.Json) -> tuple[str, str, str]:
    return f"{one['total_tokens']:,}", group.cost_of(one), f"{one['sessions']:,}"


def _height(one: group.Json, measure: str) -> float:
    if measure == "cost":
        return float(one["actual_cost_usd"] or one["estimated_cost_usd"] or 0)
    return float(one["total_tokens"] if measure == "tokens" else one["sessions"])


def bars(values: Sequence[float], width: int) -> list[str]:
    """Draw values as bars of at most `width` characters, in steps of an eighth of one.

    All have the same length, filled up with blanks; what is more than nothing can be seen.
    """
    most = max(values, default=0)
    return [_bar(value, most, width) for value in values]


def _bar(value: float, most: float, width: int) -> str:
    eighths = max(1, round(value / most * width * 8)) if value > 0 else 0
    whole, rest = divmod(min(eighths, width * 8), 8)
    return ("█" * whole + (_EIGHTHS[rest] if rest else "")).ljust(width)

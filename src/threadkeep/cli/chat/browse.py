"""`threadkeep chat ls`, `search` and `size`."""

from collections.abc import Iterator, Set as AbstractSet
from typing import Any

import click

from threadkeep import ChatHit, ChatStore, Message, Run, Session
from threadkeep.base.clock import iso
from threadkeep.chat.replies import running_runs
from threadkeep.chat.usage import Timeline, Turn
from threadkeep.cli.command import Call, session_argument, store_command
from threadkeep.cli.options import OneOf, complete_session, limit_option, since_option
from threadkeep.cli.output import (
    StyledText,
    counted,
    document,
    facts,
    is_terminal,
    note,
    one_line,
    paging,
    size_text,
    table,
    write,
    write_pieces,
    write_snippet,
)
from threadkeep.cli.times import read_times
from threadkeep.cli.transcript import LIMIT, Json, facts_line, header, indented, part_pieces
from threadkeep.cli.words import duration, local_time, model_name, model_text, money, tokens
from threadkeep.errors import NotFound

_NAME = 16  # a terminal shows so much of the name of an agent or a model


@store_command("ls", "threadkeep chat ls --agent build --title release", lists=True, pages=True)
@click.option("--agent", help="Only sessions of this agent.")
@click.option("--workspace", metavar="DIR", help="Only sessions rooted in this folder.")
@click.option("--parent", shell_complete=complete_session, help="Only branches of this session.")
@click.option("--archived", is_flag=True, help="Only archived sessions.")
@click.option("--all", "everything", is_flag=True, help="Include archived ones and side branches.")
@click.option("--title", metavar="TEXT", help="Only sessions with this in their title.")
@limit_option(50, "How many, at most 500.")
@click.option("--cursor", help="Continue after the previous page.")
def ls(
    call: Call,
    *,
    agent: str | None,
    workspace: str | None,
    parent: str | None,
    archived: bool,
    everything: bool,
    title: str | None,
    limit: int,
    cursor: str | None,
) -> None:
    """List sessions, most recently changed first."""
    with call.reading() as store:
        page = store.sessions(
            agent=agent,
            workspace=workspace,
            parent=None if parent is None else store.find_session(parent),
            archived=None if everything else archived,
            title=title,
            ephemeral=everything,
            limit=limit,
            cursor=cursor,
        )
    more = page.next_cursor
    if call.as_json:
        call.answer("sessions", sessions=page.items, next_cursor=more)
        if more is not None and call.as_lines:
            note(f"More: --cursor {more}")
        return
    columns = ("id", "updated", "agent", "model", "tokens", "cost", "title")
    spare = ("cost", "model", "tokens", "agent", "updated")
    with paging(wanted=call.pager):
        table(columns, map(_row, page.items), wide="title", spare=spare)
    if more is not None:
        note(f"More: --cursor {more}")
    elif not page.items:
        note("No sessions match; --all includes archived ones and side branches")


def _row(session: Session) -> tuple[str, ...]:
    title, person = session.title or "", is_terminal()
    return (
        session.id,
        local_time(session.updated_at) if person else iso(session.updated_at),
        one_line(session.agent, _NAME if person else 0),
        one_line(model_name(session.model), _NAME if person else 0),
        f"{session.total_tokens:,}",
        money(session.cost_usd),
        f"[archived] {title}" if session.archived_at is not None else title,
    )


@store_command(
    "search", 'threadkeep chat search "connection refused" --since 7d', lists=True, pages=True
)
@click.argument("words", nargs=-1, required=True)
@click.option("--session", shell_complete=complete_session, help="Only in this session.")
@click.option("--agent", help="Only in sessions of this agent.")
@click.option("--role", type=OneOf(["user", "assistant", "system"]), help="Who said it.")
@since_option()
@click.option("--all", "everything", is_flag=True, help="Include archived and rewound messages.")
@limit_option(20, "How many, at most 200.")
def search(
    call: Call,
    *,
    words: tuple[str, ...],
    session: str | None,
    agent: str | None,
    role: str | None,
    since: str | None,
    everything: bool,
    limit: int,
) -> None:
    """Search messages, reasoning, tool calls and results for WORDS, best match first."""
    with call.following() as store:
        hits = store.search(
            " ".join(words),
            session=None if session is None else store.find_session(session),
            agent=agent,
            role=role,
            archived=everything,
            hidden=everything,
            since=read_times(since, None)[0],
            limit=limit,
        )
    if call.as_json:
        call.answer("hits", hits=hits)
        return
    with paging(wanted=call.pager):
        for hit in hits:
            _show_hit(hit)
    if not hits:
        note("nothing found")


def _show_hit(hit: ChatHit) -> None:
    write(f"{hit.session_id} {hit.message_id}", "bold", end=" ")
    title = f" · {one_line(hit.title, 60)}" if hit.title else ""
    write(f"{iso(hit.at)} {hit.role} {one_line(hit.type)}{title}", "dim")
    write_snippet(hit.snippet)


@store_command("size", "threadkeep chat size --json")
def size(call: Call) -> None:
    """Show the disk usage of the store, and its largest sessions."""
    with call.reading() as store:
        report = store.size()
    if call.as_json:
        document(size=report)
        return
    facts(
        {
            "file": size_text(report.file_bytes),
            "log": size_text(report.wal_bytes),
            "free inside": size_text(report.free_bytes),
            **{name: f"{count:,} rows" for name, count in report.rows.items()},
        }
    )
    write()
    rows = [
        (str(one["session_id"]), size_text(int(str(one["bytes"]))), str(one["title"] or ""))
        for one in report.largest
    ]
    table(("largest sessions", "size", "title"), rows, wide="title")


# ------------------------------------------------------------------------------
# `threadkeep chat show`: the inspector. What happened, turn by turn, and why.

_TARGET = 80
_DIGEST = 12


@store_command("show", "threadkeep chat show last", "threadkeep chat show last --view model")
@session_argument
@click.option(
    "--view",
    type=OneOf(["transcript", "model", "all"]),
    default="transcript",
    show_default=True,
    help="What people see, what the model gets, or everything.",
)
@click.option("--prompt", is_flag=True, help="Show the text of the system prompts.")
@click.option("--full", is_flag=True, help="Show long tool inputs and outputs in full.")
def show(call: Call, *, session: str, view: Any, prompt: bool, full: bool) -> None:
    """Show a session: every turn with its model, prompt, tools, verdicts, tokens and cost."""
    with call.reading() as store:
        known = store.find_session(session)
        # Before and after: a run that begins or ends meanwhile must not look crashed.
        running = running_runs(store, known.id)
        found = store.timeline(known, view)
        running |= running_runs(store, known.id)
        digests = {digest for turn in found.turns for digest in prompt_digests(turn)}
        digests |= {run.system_prompt_digest or "" for run in found.runs} - {""}
        prompts = {digest: _prompt_text(store, digest) for digest in sorted(digests) if prompt}
    if call.as_json:
        document(
            timeline=found,
            running=sorted(running),
            **({"system_prompts": prompts} if prompt else {}),
        )
        return
    write_pieces(inspector(found, prompts, 0 if full else LIMIT, running))


def _prompt_text(store: ChatStore, digest: str) -> str | None:
    try:
        return store.system_prompt(digest)
    except NotFound:
        return None


def prompt_digests(turn: Turn) -> list[str]:
    """Name the system prompts of a turn: its runs know, or the message says so itself."""
    noted = turn.message.metadata.get("system_prompt_digest")
    known = [run.system_prompt_digest for run in turn.runs if run.system_prompt_digest]
    return known or ([noted] if isinstance(noted, str) else [])


# ---------------------------------------------------------------------- the whole


def inspector(
    found: Timeline, prompts: dict[str, str | None], limit: int, running: AbstractSet[str]
) -> Iterator[StyledText]:
    """Show a timeline; `prompts` has the texts to show, by digest, `running` the live runs."""
    yield from _session_pieces(found)
    shown: set[str] = set()
    for place, turn in enumerate(found.turns, 1):
        yield StyledText("\n")
        fresh = [digest for digest in prompt_digests(turn) if digest in {*prompts} - shown]
        shown.update(fresh)
        yield from _turn_pieces(
            place, turn, {digest: prompts[digest] for digest in fresh}, limit, running
        )
    for run in found.runs:
        yield StyledText("\n")
        yield StyledText("run without a message\n", "bold")
        yield from _run_pieces(run, running)


def _session_pieces(found: Timeline) -> Iterator[StyledText]:
    session = found.session
    yield StyledText(one_line(session.id), "bold")
    yield StyledText(f"  {one_line(session.title or '(no title)')}")
    yield StyledText("  [archived]\n" if session.archived_at is not None else "\n", "yellow")
    yield from facts_line(
        f"agent {session.agent}",
        f"model {model_text(session.model)}" if session.model else "",
        f"workspace {session.workspace_root}" if session.workspace_root else "",
        f"mode {session.mode}" if session.mode else "",
    )
    yield from facts_line(
        f"created {iso(session.created_at)}",
        f"updated {iso(session.updated_at)}",
        f"{counted(len(found.turns), 'message')} ({found.view})",
    )
    if session.parent_id is not None:
        yield from facts_line(f"branch of {session.parent_id}", f"at {session.parent_message_id}")
    yield from facts_line(f"in context: {session.total_tokens:,} tokens", tokens(session.usage))
    yield from facts_line(f"total: {sum(found.used.values()):,} tokens", money(found.cost_usd))
    for rule in session.permissions:
        yield from facts_line("rule " + " ".join(_rule_words(rule)))


def _rule_words(rule: Any) -> list[str]:
    if not isinstance(rule, dict):
        return [str(rule)]
    return [str(rule.get(key, "")) for key in ("action", "permission", "pattern", "source")]


# ---------------------------------------------------------------------- a turn


def _turn_pieces(
    place: int,
    turn: Turn,
    prompts: dict[str, str | None],
    limit: int,
    running: AbstractSet[str],
) -> Iterator[StyledText]:
    message = turn.message
    yield StyledText(f"#{place} ", "bold")
    yield from header(turn.role, iso(message.created_at), message.id, *_marks(message))
    yield from _turn_facts(turn)
    for run in turn.runs:
        yield from _run_pieces(run, running)
    if turn.usage is not None and any(turn.usage.values()):
        yield from facts_line(f"tokens {tokens(turn.usage)}", money(turn.cost_usd), lead="  ")
    for digest, text in prompts.items():
        yield from _prompt_pieces(digest, text)
    yield from _part_pieces(turn, limit)


def _part_pieces(turn: Turn, limit: int) -> Iterator[StyledText]:
    """The parts, and under each tool call the verdict that was given on it."""
    verdicts = {v.get("tool_call_id"): v for run in turn.runs for v in run.verdicts}
    for part in (*turn.parts, *turn.chunks):
        yield from part_pieces(part, limit)
        call = part.get("toolCallId")
        if call in verdicts:
            yield from _verdict_pieces(verdicts[call])
    calls = {part.get("toolCallId") for part in turn.parts} - {None}
    for call, verdict in verdicts.items():
        if call not in calls:
            yield from _verdict_pieces(verdict)


def _marks(message: Message) -> Iterator[str]:
    if message.hidden:
        yield "hidden by a rewind"
    if message.queued:
        yield "queued"
    if "compaction" in message.metadata:
        yield "compaction"


def _turn_facts(turn: Turn) -> Iterator[StyledText]:
    """What a message says about its turn itself; a run knows better where there is one."""
    if turn.runs:
        return
    noted = turn.message.metadata
    model = noted.get("model")
    digest, tools = noted.get("system_prompt_digest"), noted.get("tools")
    yield from facts_line(
        f"agent {noted['agent']}" if "agent" in noted else "",
        f"model {model_text(model)}" if isinstance(model, dict) else "",
        f"temperature {noted['temperature']}" if "temperature" in noted else "",
        f"prompt {digest[:_DIGEST]}" if isinstance(digest, str) else "",
        f"tools {tool_names(tools)}" if isinstance(tools, list) else "",
        _trigger_words(noted.get("trigger")),
        lead="  ",
    )


def _trigger_words(trigger: Any) -> str:
    return f"triggered by {trigger.get('source')}" if isinstance(trigger, dict) else ""


def tool_names(tools: list[Any]) -> str:
    """Name the tools of a catalogue: entries are names, or objects that have one."""
    names = [str(tool.get("name", tool)) if isinstance(tool, dict) else str(tool) for tool in tools]
    return ", ".join(names)


def _run_pieces(run: Run, running: AbstractSet[str]) -> Iterator[StyledText]:
    digest = run.system_prompt_digest
    took = "" if run.ended_at is None else duration(run.ended_at - run.started_at)
    yield from facts_line(
        f"run {run.id}",
        f"agent {run.agent}",
        f"model {model_text(run.model)}" if run.model else "",
        _end_words(run, running),
        took,
        lead="  ",
    )
    yield from facts_line(
        f"prompt {digest[:_DIGEST]}" if digest else "",
        f"tools {tool_names(run.tools)}" if run.tools else "",
        lead="  ",
    )


def _end_words(run: Run, running: AbstractSet[str]) -> str:
    if run.end_reason is None:
        return "running" if run.id in running else "crashed"
    details = [word for word in (run.finish_reason, run.error_text) if word]
    return f"ended: {run.end_reason}" + (f" ({', '.join(details)})" if details else "")


def _verdict_pieces(verdict: Json) -> Iterator[StyledText]:
    action = str(verdict.get("action", ""))
    target = one_line(str(verdict.get("target", "")), _TARGET)
    said = f"{action} {verdict.get('permission', '')} {target}: {verdict.get('reason', '')}"
    style = {"allow": "green", "deny": "red"}.get(action, "yellow")
    yield StyledText(f"    permission: {one_line(said)}\n", style)


def _prompt_pieces(digest: str, text: str | None) -> Iterator[StyledText]:
    yield StyledText(f"  system prompt {digest[:_DIGEST]}:\n", "magenta")
    shown = "(text not stored)" if text is None else text
    yield StyledText(indented(shown.rstrip("\n"), "    ") + "\n", "dim")

"""`threadkeep chat show`: the inspector. What happened, turn by turn, and why."""

from collections.abc import Iterator, Set as AbstractSet
from typing import Any

import click

from threadkeep import ChatStore, Message, Run
from threadkeep.base.clock import iso
from threadkeep.chat.replies import running_runs
from threadkeep.chat.usage import Timeline, Turn
from threadkeep.cli.chat.parts import LIMIT, Json, header, indented, part_pieces
from threadkeep.cli.chat.words import duration, model_text, money, tokens
from threadkeep.cli.command import Call, session_argument, store_command
from threadkeep.cli.output import counted, document, one_line, write_pieces
from threadkeep.cli.wrap import StyledText
from threadkeep.errors import NotFound

_TARGET = 80
_DIGEST = 12


@store_command("show", "threadkeep chat show last", "threadkeep chat show last --view model")
@session_argument
@click.option(
    "--view",
    type=click.Choice(["transcript", "model", "all"]),
    default="transcript",
    show_default=True,
    help="What people see, what the model gets, or everything.",
)
@click.option("--prompt", is_flag=True, help="Show the text of the system prompts.")
@click.option("--full", is_flag=True, help="Do not cut long tool inputs and outputs.")
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
    yield from _line(
        f"agent {session.agent}",
        f"model {model_text(session.model)}" if session.model else "",
        f"workspace {session.workspace_root}" if session.workspace_root else "",
        f"mode {session.mode}" if session.mode else "",
    )
    yield from _line(
        f"created {iso(session.created_at)}",
        f"updated {iso(session.updated_at)}",
        f"{counted(len(found.turns), 'message')} ({found.view})",
    )
    if session.parent_id is not None:
        yield from _line(f"branch of {session.parent_id}", f"at {session.parent_message_id}")
    yield from _line(f"in context: {session.total_tokens:,} tokens", tokens(session.usage))
    yield from _line(f"spent in all: {sum(found.used.values()):,} tokens", money(found.cost_usd))
    for rule in session.permissions:
        yield from _line("rule " + " ".join(_rule_words(rule)))


def _rule_words(rule: Any) -> list[str]:
    if not isinstance(rule, dict):
        return [str(rule)]
    return [str(rule.get(key, "")) for key in ("action", "permission", "pattern", "source")]


def _line(*facts: str, lead: str = "") -> Iterator[StyledText]:
    shown = [one_line(fact) for fact in facts if fact]
    if shown:
        yield StyledText(f"{lead}{' · '.join(shown)}\n", "dim")


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
        yield from _line(f"tokens {tokens(turn.usage)}", money(turn.cost_usd), lead="  ")
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
        yield "waits in the queue"
    if "compaction" in message.metadata:
        yield "compaction"


def _turn_facts(turn: Turn) -> Iterator[StyledText]:
    """What a message says about its turn itself; a run knows better where there is one."""
    if turn.runs:
        return
    noted = turn.message.metadata
    model = noted.get("model")
    digest, tools = noted.get("system_prompt_digest"), noted.get("tools")
    yield from _line(
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
    yield from _line(
        f"run {run.id}",
        f"agent {run.agent}",
        f"model {model_text(run.model)}" if run.model else "",
        _end_words(run, running),
        took,
        lead="  ",
    )
    yield from _line(
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
    shown = "(its text is not stored)" if text is None else text
    yield StyledText(indented(shown.rstrip("\n"), "    ") + "\n", "dim")

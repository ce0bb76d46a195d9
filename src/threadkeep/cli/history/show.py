"""`threadkeep show` and `raw`: one captured session, to read or as its agent wrote it."""

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import click

from threadkeep.cli import transcript
from threadkeep.cli.command import Call, store_command
from threadkeep.cli.history.sessions import find, looking, session_argument, short_id
from threadkeep.cli.output import StyledText, counted, document, one_line, paged
from threadkeep.cli.words import Json, folded, one_name, session_json, token_words, when
from threadkeep.errors import NotFound

if TYPE_CHECKING:
    from threadkeep.knowledge.records import CapturedSession
    from threadkeep.knowledge.transcript import SessionArchive, TranscriptEntry

_AROUND = 6  # entries before and after the one that is asked for
_LINES = 12
_CHARACTERS = 1500
_TITLE = 60


class TranscriptView:
    """How much of a transcript is shown."""

    def __init__(
        self, *, tools: bool, reasoning: bool, full: bool, at: str | None, prompts: bool = False
    ) -> None:
        self.tools = tools
        self.prompts = prompts
        self.reasoning = reasoning
        self.at = at
        self._full = full

    def wants(self, shown: "TranscriptEntry") -> bool:
        """Tell whether an entry is shown; the one that was asked for always is."""
        if shown.row.key == self.at:
            return True
        if self.prompts:
            return shown.row.kind == "prompt"
        if shown.row.kind == "reasoning":
            return self.reasoning
        return self.tools or shown.row.kind not in ("tool_call", "tool_result")

    def cut(self, text: str) -> str:
        """Fold what tools and programs wrote; what people and models said stays whole."""
        clean = text.strip("\n")
        return clean if self._full else folded(clean, lines=_LINES, characters=_CHARACTERS)


@store_command(
    "show",
    "threadkeep show last",
    "threadkeep show 5f0c2a7e --no-tools",
    "threadkeep show 5f0c2a7e --full --reasoning --json",
    lists=True,
    pages=True,
)
@session_argument
@click.option("--prompts", is_flag=True, help="Only what the user asked.")
@click.option("--no-tools", is_flag=True, help="Leave out tool calls and their results.")
@click.option(
    "--reasoning", is_flag=True, help="Include the model's reasoning, where it was logged."
)
@click.option("--full", is_flag=True, help="Show long tool calls and results in full.")
@click.option(
    "--at", metavar="REF", help="Only this message and those around it, such as message:12."
)
def show(
    call: Call,
    *,
    session: str,
    agent: str | None,
    prompts: bool,
    no_tools: bool,
    reasoning: bool,
    full: bool,
    at: str | None,
) -> None:
    """Show a captured session: facts and tokens, then every prompt, answer and tool call.

    SESSION is an id or the beginning of one, `agent:id`, a title, or `last`. --json has every entry
    in full.
    """
    view = TranscriptView(
        tools=not no_tools, reasoning=reasoning, full=full, at=at, prompts=prompts
    )
    with looking(call) as history:
        found = find(history, session, agent)
        entries: Iterable[TranscriptEntry] = history.transcript(found)
        if at is not None:
            entries, view.at = _around(found, list(entries), at)
        if call.as_json:
            if prompts:
                entries = filter(view.wants, entries)
            call.answer("messages", **_as_json(history, found, entries))
            return
        paged(_pieces(history, found, entries, view), wanted=call.pager)


@store_command("raw", "threadkeep raw last > session.jsonl", "threadkeep raw codex:019caf10")
@session_argument
def raw(call: Call, *, session: str, agent: str | None) -> None:
    """Print the log lines of a session as its agent wrote them, with secrets masked.

    Nothing else is printed to stdout.
    """
    with looking(call) as history:
        found = find(history, session, agent)
        lines = history.raw(found)
        if call.as_json:
            document(lines=[line.decode("utf-8", "replace") for line in lines])
            return
        stdout = sys.stdout.buffer
        between = b""
        for line in lines:
            stdout.write(between + line)
            between = b"\n"
        stdout.write(b"" if history.ends_open(found) else between)
        stdout.flush()


def _around(
    session: "CapturedSession", entries: list["TranscriptEntry"], name: str
) -> tuple[list["TranscriptEntry"], str]:
    """Return a message with those around it, and its key; it may be named by that as well."""
    for place, shown in enumerate(entries):
        if name in (shown.row.key, f"message:{shown.row.id}"):
            return entries[max(0, place - _AROUND) : place + _AROUND + 1], shown.row.key
    msg = f"session {session.session_id} has no message {name!r}"
    raise NotFound(msg, hint="`threadkeep search` and `threadkeep show --json` name the messages")


def _as_json(
    history: "SessionArchive", session: "CapturedSession", entries: Iterable["TranscriptEntry"]
) -> Json:
    from threadkeep.knowledge.copies import NO_LINKS

    links = history.links([session])
    return {
        "session": session_json(session, links.get(session.id, NO_LINKS)),
        "tokens": history.store.spent_in(session),
        "children": [session_json(child) for child in history.children(session)],
        "messages": [_entry_json(shown) for shown in entries],
    }


def _entry_json(shown: "TranscriptEntry") -> Json:
    names = ("key", "role", "tool", "call_id", "error", "model", "text")
    said = {name: getattr(shown.entry, name) for name in names}
    return {
        "ref": f"message:{shown.row.id}",
        "part": shown.row.kind,
        **said,
        "at": shown.row.at,
        "copied_from": shown.entry.origin or None,
    }


# ---------------------------------------------------------------------- facts


def _pieces(
    history: "SessionArchive",
    session: "CapturedSession",
    entries: Iterable["TranscriptEntry"],
    view: TranscriptView,
) -> Iterator[StyledText]:
    yield from _facts(history, session)
    speaker = ""
    for shown in entries:
        if view.wants(shown):
            yield from _speaker(shown, speaker)
            yield from _entry(shown, view)
            speaker = shown.row.role if shown.row.kind != "prompt" else ""


def _facts(history: "SessionArchive", session: "CapturedSession") -> Iterator[StyledText]:
    from threadkeep.knowledge.copies import NO_LINKS

    yield StyledText(one_line(session.session_id), "bold")
    yield StyledText(f"  {one_name(session)}\n")
    failed = f"{session.errors:,} failed" if session.errors else ""
    spent = token_words(history.store.spent_in(session))
    yield from transcript.facts_line(session.agent, session.version, session.model, session.profile)
    yield from transcript.facts_line(session.cwd or session.project, session.git_branch)
    yield from transcript.facts_line(
        f"{when(session.started_at)} – {when(session.ended_at)}",
        counted(session.entries, "message"),
        counted(session.tool_calls, "tool call"),
        failed,
    )
    yield from transcript.facts_line(f"tokens: {spent}" if spent else "")
    yield from transcript.facts_line(
        f"started by {session.parent_session_id}" if session.parent_session_id else ""
    )
    links = history.links([session]).get(session.id, NO_LINKS)
    yield from transcript.facts_line(f"continues {links.continues}" if links.continues else "")
    for later in links.continued_in:
        yield from transcript.facts_line(f"continued in {later}")
    for child in history.children(session):
        told = f"{one_name(child, _TITLE)} ({counted(child.entries, 'message')})"
        yield from transcript.facts_line(f"subagent {short_id(history, child)}: {told}")


# ---------------------------------------------------------------------- entries


def _speaker(shown: "TranscriptEntry", before: str) -> Iterator[StyledText]:
    """Say who speaks, if that is not who spoke before; results belong to who asked for them."""
    role = "assistant" if shown.row.role == "tool" else shown.row.role
    if role != ("assistant" if before == "tool" else before):
        yield StyledText("\n")
        yield from transcript.header(role, when(shown.row.at), shown.entry.model)


def _entry(shown: "TranscriptEntry", view: TranscriptView) -> Iterator[StyledText]:
    entry, kind = shown.entry, shown.row.kind
    if shown.row.key == view.at:
        yield StyledText("▶ ", "bold yellow")
    if kind in ("prompt", "text"):
        yield from transcript.said(entry.text.strip("\n"))
    elif kind == "reasoning":
        yield from transcript.thought(entry.text.strip())
    elif kind == "tool_call":
        yield from transcript.called(entry.tool, transcript.hanging(view.cut(entry.text)))
    elif kind == "tool_result":
        text = transcript.hanging(view.cut(entry.text))
        yield from transcript.answered(text, error=entry.error)
    else:
        style = "red" if entry.error else "magenta" if kind == "summary" else "dim"
        yield from transcript.noted(kind, view.cut(entry.text), style)

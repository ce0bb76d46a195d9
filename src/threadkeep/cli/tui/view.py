"""What the terminal browser shows of sessions, messages and hits: text that cannot do harm."""

from typing import Final

from rich.console import Group, RenderableType
from rich.markdown import Markdown
from rich.padding import Padding
from rich.text import Text

from threadkeep.base.text import printable
from threadkeep.cli.output import StyledText, marked, one_line
from threadkeep.cli.words import folded, one_name, project_of, when
from threadkeep.knowledge.results import SessionDetail, SessionSummary, TranscriptMessage
from threadkeep.knowledge.tail import TailEntry
from threadkeep.memory.records import Hit, HitDetail

COLUMNS: Final = ("when", "agent", "project", "messages", "tokens", "cost", "title")
_NUMBERS: Final = {"messages", "tokens", "cost"}
_PROJECT: Final = 20
_TITLE: Final = 100
_NOTE: Final = 160  # characters of what an agent's own program noted
_LINES: Final = 12
_CHARACTERS: Final = 1500
_ROLES: Final = {"user": "bold green", "assistant": "bold cyan", "system": "bold magenta"}
_STYLES: Final = {"user": "green", "tool": "dim", "system": "dim"}


def money(cost: int | None) -> str:
    """Write a cost; one that is not known has none."""
    return "" if cost is None or not cost else f"${cost / 1_000_000:.2f}"


def session_cells(one: SessionSummary) -> tuple[Text, ...]:
    """Describe a session in the columns of the list."""
    session = one.session
    star = "★ " if one.labels.starred else ""
    live = "● " if one.live else ""
    cells = (
        when(session.ended_at or session.started_at)[:16],
        session.agent,
        one_line(project_of(session), _PROJECT),
        f"{session.entries:,}",
        f"{one.tokens:,}",
        money(one.cost),
        f"{star}{live}{one_name(session, _TITLE)}",
    )
    return tuple(
        Text(printable(cell), justify="right" if name in _NUMBERS else "left", no_wrap=True)
        for name, cell in zip(COLUMNS, cells, strict=True)
    )


def session_head(detail: SessionDetail) -> Text:
    """Say what is known of a session above its messages."""
    one = detail.listed
    session = one.session
    facts = (
        *(session.agent, session.model, project_of(session), session.git_branch),
        *(when(session.started_at), f"{session.entries:,} messages", f"{one.tokens:,} tokens"),
        *(money(one.cost), " ".join(f"#{tag}" for tag in one.labels.tags)),
    )
    known = printable(" · ".join(one_line(fact) for fact in facts if fact))
    star = "★ " if one.labels.starred else ""
    name = (printable(one_name(session, _TITLE)), "bold")
    return Text.assemble((star, "yellow"), name, (f"\n{known}", "dim"))


def message_body(message: TranscriptMessage, *, full: bool) -> RenderableType:
    """Show a message: what was said as Markdown, what tools did folded unless it is opened."""
    text = message.text.strip("\n")
    if message.part in ("prompt", "text"):
        said = Markdown(printable(text), hyperlinks=False)
        return Group(_speaker(message), Padding(said, (0, 0, 0, 2)))
    shown = printable(text if full else folded(text, lines=_LINES, characters=_CHARACTERS))
    shown = shown.replace(" (--full shows all)", " (Enter shows all)")
    if message.part == "reasoning":
        return Padding(Text(shown, "dim italic"), (0, 0, 0, 2))
    if message.part == "tool_call":
        return Padding(
            Text.assemble((f"▸ {one_line(message.tool)} ", "yellow"), shown), (0, 0, 0, 2)
        )
    if message.part == "tool_result":
        sign, style = ("✗", "red") if message.error else ("→", "dim")
        return Padding(Text(f"{sign} {shown}", style), (0, 0, 0, 4))
    noted = shown if full else one_line(text, _NOTE)
    return Padding(Text(f"[{message.part}] {printable(noted)}", "dim"), (0, 0, 0, 2))


def _speaker(message: TranscriptMessage) -> Text:
    facts = " · ".join(one_line(fact) for fact in (when(message.at), message.model) if fact)
    star = " ★" if message.labels.starred else ""
    return Text.assemble(
        (one_line(message.role), _ROLES.get(message.role, "bold")), (f"  {facts}", "dim"), star
    )


def hit_rows(hit: Hit) -> Text:
    """Show a hit: where it was, and the words that were found."""
    facts = (hit.kind, when(hit.at), hit.agent, hit.project, one_line(hit.title, 60))
    told = Text(printable(" · ".join(fact for fact in facts if fact)), "dim", no_wrap=True)
    if hit.more:
        told.append(f" · {hit.more} more in this session")
    return Text("\n").join([told, _styled(marked(one_line(hit.snippet)))])


def _styled(pieces: list[StyledText]) -> Text:
    return Text.assemble(*((printable(text), style) for text, style in pieces))


def hit_detail(found: HitDetail) -> RenderableType:
    """Show what a hit stands for, whole, with what is known of it."""
    facts = "\n".join(f"{name}: {one_line(str(value))}" for name, value in found.facts.items())
    head = Text(printable(f"{found.hit.ref}  {one_line(found.hit.title)}"), "bold")
    return Group(head, Text(printable(facts), "dim"), Text(), Text(printable(found.text)))


def tail_line(one: TailEntry) -> Text:
    """Show something that was just written, on a line."""
    said = one.entry.text if one.row.kind != "tool_call" else f"{one.entry.tool} {one.entry.text}"
    mark = {"tool_call": "▸ ", "tool_result": "✗ " if one.entry.error else "→ "}
    place = (
        f"{when(one.row.at)[11:19]} {one.session.agent} {one_line(project_of(one.session), 16)} "
    )
    style = "red" if one.entry.error else _STYLES.get(one.row.role, "")
    return Text.assemble(
        (printable(place), "dim"),
        (printable(mark.get(one.row.kind, "") + one_line(said, 500)), style),
    )

"""A session in the terminal browser: its messages to read, and what can be done with it."""

from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, ClassVar, Concatenate, Final, NamedTuple, ParamSpec, TypeVar, cast
from zoneinfo import ZoneInfo

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen, Screen
from textual.widget import Widget
from textual.widgets import Footer, Input, OptionList, Static

from threadkeep.base.clock import now_ms
from threadkeep.cli.command import Call
from threadkeep.cli.hand_off import TARGETS, continued, put_file, written
from threadkeep.cli.history.sessions import looking
from threadkeep.cli.tui import view
from threadkeep.errors import ThreadkeepError
from threadkeep.knowledge.library import Browse
from threadkeep.knowledge.query import Query, parse_query
from threadkeep.knowledge.results import SessionDetail, SessionSummary, Spot, TranscriptMessage
from threadkeep.memory.memory import Memory

_PAGE: Final = 100  # messages that are read at once
_LOOK_SECONDS: Final = 1.0
_PROMPT: Final = "prompt"

P = ParamSpec("P")
S = TypeVar("S", bound=Widget)
R = TypeVar("R", bound=Coroutine[Any, Any, None] | None)


class TuiContext(NamedTuple):
    """What the screens read, and how they were asked for."""

    call: Call
    browse: Browse
    memory: Memory

    def query(self, typed: str) -> Query:
        """Read a filter as the page reads it."""
        return parse_query(typed, now_ms(), ZoneInfo(self.call.home.zone))

    def star(self, one: SessionSummary) -> bool:
        """Star a session, or take its star away; tell which."""
        starred = not one.labels.starred
        with self.call.home.knowledge(self.call.db) as store:
            store.labels.put(one.ref, now=now_ms(), star=starred)
        return starred

    def export(self, ref: str) -> Path:
        """Write a session as Markdown into this folder, under its own name."""
        name, text = written(self.call, ref, None, "markdown")
        path = Path.cwd() / f"{name.replace(':', '-').replace('/', '-')}.md"
        put_file(path, text.encode())
        return path

    def resume(self, ref: str, agent: str) -> str:
        """Hand a session to another agent; give the command that continues it there."""
        with looking(self.call) as history:
            return continued(self.call, history, history.find(ref), agent).command


@contextmanager
def _told(screen: Widget) -> Iterator[None]:
    try:
        yield
    except ThreadkeepError as error:
        told = f"{error.message}\n{error.hint}".strip()
        screen.notify(told, severity="error", markup=False)


def telling(act: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Say what went wrong at the bottom of the screen, and stay there."""

    async def rest(screen: S, going: Awaitable[None]) -> None:
        with _told(screen):
            await going

    @wraps(act)
    def run(screen: S, /, *given: P.args, **named: P.kwargs) -> R:
        with _told(screen):
            going = act(screen, *given, **named)
            return going if going is None else cast("R", rest(screen, going))
        return cast("R", None)  # only what is not awaited fails before it is

    return run


# ---------------------------------------------------------------------- one session


class MessageWidget(Static):
    """One message of a transcript."""

    def __init__(self, message: TranscriptMessage) -> None:
        super().__init__(view.message_body(message, full=False), markup=False)
        self.message = message
        self._full = False

    def unfold(self) -> None:
        """Show all of it, or its beginning again."""
        self._full = not self._full
        self.update(view.message_body(self.message, full=self._full))


class SessionScreen(Screen[None]):
    """A session to read: its messages, more of them as one continues."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "step(1)", "Next", show=False),
        Binding("k", "step(-1)", "Previous", show=False),
        Binding("J", "prompt(1)", "Next prompt"),
        Binding("K", "prompt(-1)", "Previous prompt", show=False),
        Binding("g,home", "edge(0)", "First", show=False),
        Binding("G,end", "edge(1)", "Last", show=False),
        Binding("slash", "find", "Find", key_display="/"),
        Binding("n", "spot(1)", "Next found", show=False),
        Binding("N", "spot(-1)", "Previous found", show=False),
        Binding("left_square_bracket", "other('newer')", "Newer", show=False),
        Binding("right_square_bracket", "other('older')", "Older", show=False),
        Binding("enter", "unfold", "Unfold", show=False),
        Binding("f", "follow", "Follow"),
        Binding("s", "star", "Star"),
        Binding("e", "export", "Export"),
        Binding("c", "resume", "Continue in…"),
        Binding("escape", "leave", "Back"),
    ]

    def __init__(self, around: TuiContext, ref: str, at: str | None = None) -> None:
        super().__init__()
        self._around = around
        self._ref = ref
        self._at = at
        self._detail: SessionDetail = around.browse.session(ref)
        self._views: list[MessageWidget] = []
        self._total = 0
        self._cursor = 0
        self._spots: list[Spot] = []
        self._spot = -1
        self._following = False
        self._seen = around.browse.database.changes()

    def compose(self) -> ComposeResult:
        """Put what is known of the session above its messages."""
        yield Static(view.session_head(self._detail), id="head", markup=False)
        yield VerticalScroll(id="messages")
        yield Input(placeholder="Find in this session", id="find")
        yield Footer()

    async def on_mount(self) -> None:
        """Show the beginning, or the message that was asked for."""
        self.query_one("#find").display = False
        self.query_one("#messages").focus()
        await self._open(self._at)
        self.set_interval(_LOOK_SECONDS, self._look)

    async def _open(self, at: str | int | None) -> None:
        """Read the messages around a place, or from the beginning."""
        window = self._around.browse.window(self._ref, at=at, limit=_PAGE)
        self._total = window.total
        self._views = [MessageWidget(one) for one in window.messages]
        messages = self.query_one("#messages", VerticalScroll)
        await messages.remove_children()
        await messages.mount(*self._views)
        wanted = [
            number
            for number, one in enumerate(self._views)
            if at in (one.message.key, one.message.position)
        ]
        self._choose(wanted[0] if wanted else 0)

    async def _more(self, *, later: bool) -> bool:
        """Read what comes before or after; tell whether there was anything."""
        if not self._views:
            return False
        messages = self.query_one("#messages", VerticalScroll)
        edge = self._views[-1 if later else 0].message.position
        side: dict[str, Any] = {"after": edge} if later else {"before": edge}
        window = self._around.browse.window(self._ref, limit=_PAGE, **side)
        views = [MessageWidget(one) for one in window.messages]
        self._total = window.total
        if not views:
            return False
        if later:
            await messages.mount(*views)
            self._views += views
        else:
            await messages.mount(*views, before=0)
            self._views = views + self._views
            self._cursor += len(views)
        return True

    def _choose(self, number: int) -> None:
        """Put the cursor on a message and bring it into sight."""
        for one in self.query(".chosen"):
            one.remove_class("chosen")
        if self._views:
            self._cursor = max(0, min(number, len(self._views) - 1))
            self._views[self._cursor].add_class("chosen")
            self._views[self._cursor].scroll_visible(animate=False)

    @telling
    async def action_step(self, by: int) -> None:
        """Go to the next message, or the one before."""
        wanted = self._cursor + by
        if wanted < 0 and await self._more(later=False):
            wanted = self._cursor - 1
        elif wanted >= len(self._views):
            await self._more(later=True)
        self._choose(wanted)

    @telling
    async def action_prompt(self, by: int) -> None:
        """Go to the next prompt, or the one before."""
        while True:
            places = [n for n, one in enumerate(self._views) if one.message.part == _PROMPT]
            rest = [n for n in places if (n - self._cursor) * by > 0]
            if rest:
                return self._choose(rest[0] if by > 0 else rest[-1])
            if not await self._more(later=by > 0):
                return None

    @telling
    async def action_edge(self, end: int) -> None:
        """Go to the first message, or the last."""
        await self._open(max(0, self._total - 1) if end else 0)

    @telling
    async def action_spot(self, by: int) -> None:
        """Go to the next place that was found, or the one before."""
        if self._spots:
            self._spot = (self._spot + by) % len(self._spots)
            await self._open(self._spots[self._spot].position)
            self.notify(f"{self._spot + 1} of {len(self._spots)}")

    def action_find(self) -> None:
        """Type what to find."""
        field = self.query_one("#find", Input)
        field.display = True
        field.focus()

    @telling
    async def on_input_submitted(self, event: Input.Submitted) -> None:
        """Go to the first place with these words."""
        self._spots = self._around.browse.find(self._ref, event.value)
        self._spot = -1
        self.action_leave()
        if self._spots:
            await self.action_spot(1)
        else:
            self.notify(f"No matches for {event.value!r}", markup=False)

    @telling
    async def action_other(self, which: str) -> None:
        """Go to the session before or after this one in the list."""
        ref = self._detail.newer if which == "newer" else self._detail.older
        if ref is not None:
            await self.app.switch_screen(SessionScreen(self._around, ref))

    def action_unfold(self) -> None:
        """Show all of a long message, or its beginning again."""
        if self._views:
            self._views[self._cursor].unfold()

    @telling
    async def action_follow(self) -> None:
        """Stay at the end as more is written, or no longer."""
        self._following = not self._following
        self.notify("Following" if self._following else "No longer following")
        if self._following:
            await self.action_edge(1)

    @telling
    async def _look(self) -> None:
        changes = self._around.browse.database.changes()
        if changes == self._seen:
            return
        self._seen = changes
        self._refresh_head()
        if self._following:
            await self._more(later=True)
            self._choose(len(self._views) - 1)

    def _refresh_head(self) -> None:
        self._detail = self._around.browse.session(self._ref)
        self.query_one("#head", Static).update(view.session_head(self._detail))

    @telling
    def action_star(self) -> None:
        """Star the session, or take its star away."""
        self._around.star(self._detail.listed)
        self._refresh_head()

    @telling
    def action_export(self) -> None:
        """Write the session as Markdown."""
        self.notify(f"wrote {self._around.export(self._ref)}", markup=False)

    @telling
    def action_resume(self) -> None:
        """Choose an agent to continue the session in."""
        self.app.push_screen(ResumeScreen(self._around, self._ref))

    def action_leave(self) -> None:
        """Leave the search, or the session."""
        field = self.query_one("#find", Input)
        if field.display:
            field.display = False
            self.query_one("#messages").focus()
        else:
            self.app.pop_screen()


class ResumeScreen(ModalScreen[None]):
    """The agents that a session can be continued in."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss", "Back"),
        Binding("j", "step(1)", "Next", show=False),
        Binding("k", "step(-1)", "Previous", show=False),
    ]

    def __init__(self, around: TuiContext, ref: str) -> None:
        super().__init__()
        self._around = around
        self._ref = ref
        own = around.browse.session(ref).resume
        self._own = {f"{ref.partition(':')[0]}, where it was": own} if own else {}

    def compose(self) -> ComposeResult:
        """List them, its own agent first."""
        with VerticalScroll(classes="box"):
            yield Static("Continue in", classes="title")
            yield OptionList(*self._own, *TARGETS, id="agents", markup=False)

    def on_mount(self) -> None:
        """Begin with the first."""
        agents = self.query_one(OptionList)
        agents.focus()
        agents.highlighted = 0

    def action_step(self, by: int) -> None:
        """Go up or down."""
        agents = self.query_one(OptionList)
        (agents.action_cursor_down if by > 0 else agents.action_cursor_up)()

    @telling
    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """End with the command that continues it there."""
        name = str(event.option.prompt)
        self.app.exit(self._own.get(name) or self._around.resume(self._ref, name))

"""The terminal browser: its screens, and the keys that they share with the page."""

from typing import ClassVar, Final

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen, Screen
from textual.widgets import DataTable, Footer, Input, OptionList, RichLog, Static
from textual.widgets.option_list import Option

from threadkeep.cli.tui import view
from threadkeep.cli.tui.session import ResumeScreen, SessionScreen, TuiContext, telling
from threadkeep.knowledge.query import Query
from threadkeep.knowledge.results import SessionSummary
from threadkeep.knowledge.tail import Tail
from threadkeep.memory.records import Hit

_PAGE: Final = 100  # sessions that are read at once
_HITS: Final = 30
_LATEST: Final = 30  # entries that a tail begins with
_LOOK_SECONDS: Final = 1.0


# ---------------------------------------------------------------------- the list


class SessionsScreen(Screen[None]):
    """The captured sessions, the latest first, narrowed by a filter."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("j", "step(1)", "Next", show=False),
        Binding("k", "step(-1)", "Previous", show=False),
        Binding("r", "recall", "Recall"),
        Binding("f", "tail", "Follow"),
        Binding("s", "star", "Star"),
        Binding("e", "export", "Export"),
        Binding("c", "resume", "Continue in…"),
        Binding("escape", "leave", "Back", show=False),
    ]

    def __init__(self, around: TuiContext, typed: str = "") -> None:
        super().__init__()
        self._around = around
        self._typed = typed
        self._shown: list[SessionSummary] = []
        self._next: str | None = None
        self._seen = around.browse.database.changes()

    def compose(self) -> ComposeResult:
        """Put the filter above the list."""
        yield Input(
            self._typed, placeholder="Filter: agent:codex project:web cost:>1 words", id="filter"
        )
        yield DataTable(cursor_type="row", id="sessions")
        yield Static(id="told", markup=False)
        yield Footer()

    def on_mount(self) -> None:
        """Show the list, and keep it current."""
        table = self.query_one(DataTable)
        table.add_columns(*view.COLUMNS)
        table.focus()
        self.load()
        self.set_interval(_LOOK_SECONDS, self._look)

    @telling
    def load(self) -> None:
        """Show the sessions that the filter means; the cursor stays on its session."""
        table = self.query_one(DataTable)
        was = self._chosen()
        page = self._around.browse.sessions(self._around.query(self._typed), limit=_PAGE)
        self._shown, self._next = [], page.next
        table.clear()
        self._add(page.items)
        refs = [one.ref for one in self._shown]
        if was is not None and was.ref in refs:
            table.move_cursor(row=refs.index(was.ref), animate=False)
        more = "" if page.next is None else "+"
        missing = ", ".join(page.missing)
        nothing = "No sessions match" if self._typed else "No sessions were captured yet"
        told = f"{len(refs)}{more} sessions" if refs else nothing
        self.query_one("#told", Static).update(
            f"{told}{f' · not found: {missing}' * bool(missing)}"
        )

    def _add(self, items: tuple[SessionSummary, ...]) -> None:
        table = self.query_one(DataTable)
        for one in items:
            table.add_row(*view.session_cells(one))
            self._shown.append(one)

    def _chosen(self) -> SessionSummary | None:
        row = self.query_one(DataTable).cursor_row
        return self._shown[row] if 0 <= row < len(self._shown) else None

    def _look(self) -> None:
        changes = self._around.browse.database.changes()
        if changes != self._seen:
            self._seen = changes
            self.load()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Narrow the list while the filter is typed."""
        if event.value != self._typed:
            self._typed = event.value
            self.load()

    def on_input_submitted(self) -> None:
        """Go back to the list."""
        self.query_one(DataTable).focus()

    @telling
    def on_data_table_row_highlighted(self, event: DataTable.RowHighlighted) -> None:
        """Read more of the list as its end comes into sight."""
        if self._next is not None and event.cursor_row >= len(self._shown) - 1:
            query = self._around.query(self._typed)
            page = self._around.browse.sessions(query, cursor=self._next, limit=_PAGE)
            self._next = page.next
            self._add(page.items)

    @telling
    def on_data_table_row_selected(self) -> None:
        """Open the session under the cursor."""
        if (one := self._chosen()) is not None:
            self.app.push_screen(SessionScreen(self._around, one.ref))

    def action_filter(self) -> None:
        """Type a filter."""
        self.query_one(Input).focus()

    def action_step(self, by: int) -> None:
        """Go up or down in the list."""
        table = self.query_one(DataTable)
        table.move_cursor(row=table.cursor_row + by, animate=False)

    def action_recall(self) -> None:
        """Ask a question over everything."""
        self.app.push_screen(RecallScreen(self._around))

    @telling
    def action_tail(self) -> None:
        """Follow what the sessions of the filter write."""
        self.app.push_screen(TailScreen(self._around, self._around.query(self._typed)))

    @telling
    def action_star(self) -> None:
        """Star the session, or take its star away."""
        if (one := self._chosen()) is not None:
            self._around.star(one)
            self.load()

    @telling
    def action_export(self) -> None:
        """Write the session as Markdown."""
        if (one := self._chosen()) is not None:
            self.notify(f"wrote {self._around.export(one.ref)}", markup=False)

    @telling
    def action_resume(self) -> None:
        """Choose an agent to continue the session in."""
        if (one := self._chosen()) is not None:
            self.app.push_screen(ResumeScreen(self._around, one.ref))

    def action_leave(self) -> None:
        """Leave the filter, or clear it."""
        if self.focused is self.query_one(Input):
            self.query_one(DataTable).focus()
        elif self._typed:
            self.query_one(Input).value = ""


# ---------------------------------------------------------------------- recall, tail


class RecallScreen(Screen[None]):
    """One question over everything, and what was found."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "question", "Ask", key_display="/"),
        Binding("j", "step(1)", "Next", show=False),
        Binding("k", "step(-1)", "Previous", show=False),
        Binding("escape", "leave", "Back"),
    ]

    def __init__(self, around: TuiContext) -> None:
        super().__init__()
        self._around = around
        self._hits: tuple[Hit, ...] = ()

    def compose(self) -> ComposeResult:
        """Put the question above what was found."""
        yield Input(placeholder="What do you want to recall?", id="question")
        yield OptionList(id="hits", markup=False)
        yield Footer()

    @telling
    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Look for it."""
        query = self._around.query(event.value)
        self._hits = self._around.memory.recall(query.text, query, limit=_HITS, fold="session").hits
        found = self.query_one(OptionList)
        found.clear_options()
        found.add_options([Option(view.hit_rows(hit)) for hit in self._hits])
        if self._hits:
            found.focus()
            found.highlighted = 0
        else:
            self.notify("Nothing found; fewer or other words may help")

    @telling
    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Open a hit: a message in its session, anything else whole."""
        hit = self._hits[event.option_index]
        if hit.kind == "message" and hit.session_id:
            ref = f"{hit.agent}:{hit.session_id}"
            self.app.push_screen(SessionScreen(self._around, ref, hit.key))
        else:
            self.app.push_screen(DetailScreen(self._around, hit.ref))

    def action_question(self) -> None:
        """Type another question."""
        self.query_one(Input).focus()

    def action_step(self, by: int) -> None:
        """Go up or down in what was found."""
        found = self.query_one(OptionList)
        (found.action_cursor_down if by > 0 else found.action_cursor_up)()

    def action_leave(self) -> None:
        """Leave the question, or the screen."""
        if self.focused is self.query_one(Input) and self._hits:
            self.query_one(OptionList).focus()
        else:
            self.app.pop_screen()


class DetailScreen(ModalScreen[None]):
    """What is behind a hit that is no message."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "dismiss", "Back")]

    def __init__(self, around: TuiContext, ref: str) -> None:
        super().__init__()
        self._found = around.memory.open(ref)

    def compose(self) -> ComposeResult:
        """Show it whole."""
        with VerticalScroll(classes="box"):
            yield Static(view.hit_detail(self._found), markup=False)


class TailScreen(Screen[None]):
    """What agents write, as they write it."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,f", "app.pop_screen", "Back")]

    def __init__(self, around: TuiContext, query: Query) -> None:
        super().__init__()
        self._around = around
        self._tail = Tail(around.browse.store, around.browse.sources, query)
        self._seen = around.browse.database.changes()

    def compose(self) -> ComposeResult:
        """Show lines, the latest at the bottom."""
        yield RichLog(wrap=True, id="tail")
        yield Footer()

    def on_mount(self) -> None:
        """Begin with the latest, and follow."""
        log = self.query_one(RichLog)
        for one in self._tail.latest(_LATEST):
            log.write(view.tail_line(one))
        self.set_interval(_LOOK_SECONDS / 2, self.look)

    def look(self) -> None:
        """Show what came since the last look."""
        changes = self._around.browse.database.changes()
        if changes != self._seen:
            self._seen = changes
            for one in self._tail.new():
                self.query_one(RichLog).write(view.tail_line(one))


class HelpScreen(ModalScreen[None]):
    """All keys."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,question_mark,q", "dismiss", "Back")]
    KEYS: ClassVar[dict[str, str]] = {
        "/": "filter, find or ask",
        "j  k": "next, previous",
        "J  K": "next, previous prompt",
        "[  ]": "newer, older session",
        "n  N": "next, previous place found",
        "g  G": "first, last message",
        "Enter": "open; unfold a long message",
        "r": "recall: search everything",
        "f": "follow what is new",
        "s": "star",
        "e": "export as Markdown into this folder",
        "c": "continue in an agent: prints the command",
        "Ctrl K": "palette",
        "Esc": "back",
        "q": "quit",
    }

    def compose(self) -> ComposeResult:
        """List them."""
        with VerticalScroll(classes="box"):
            told = "\n".join(f"{keys:<8}{does}" for keys, does in self.KEYS.items())
            yield Static(told, markup=False)


class Tui(App[str]):
    """The terminal browser; it ends with a command to run, if one was chosen."""

    TITLE = "threadkeep"
    COMMAND_PALETTE_BINDING = "ctrl+k"
    CSS_PATH = "tui.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark", "help", "Keys", key_display="?"),
        Binding("q", "quit", "Quit"),
        Binding("ctrl+c", "quit", show=False, priority=True),  # it ends every other command, too
    ]

    def __init__(self, around: TuiContext, typed: str = "") -> None:
        super().__init__()
        self._around = around
        self._typed = typed

    def get_default_screen(self) -> Screen[None]:
        """Begin with the list."""
        return SessionsScreen(self._around, self._typed)

    def action_help(self) -> None:
        """Show all keys."""
        self.push_screen(HelpScreen())

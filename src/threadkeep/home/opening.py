"""How a home's captured history is opened: its store, its sources, its rules."""

import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

import msgspec

from threadkeep.base.clock import now_ms
from threadkeep.base.config import AutoMemorySettings, Config, read_settings, store_path
from threadkeep.base.paths import environment, expand
from threadkeep.base.spool import Spool
from threadkeep.base.tx import Tx
from threadkeep.capture.capture import History
from threadkeep.capture.intake import CaptureContext, this_machine
from threadkeep.capture.observed.collector import waiting_in
from threadkeep.capture.observed.intake import Facts, ObservedContext, Rules, report
from threadkeep.capture.observed.observed import Observations
from threadkeep.capture.observed.visits import VisitRules, rules_of
from threadkeep.capture.records import Exclusion
from threadkeep.capture.redact.engine import Redactor
from threadkeep.capture.redact.rules import Rule, RuleRefusal, load_rules, own_rules
from threadkeep.errors import Invalid, NotFound, ReadOnly, ThreadkeepError
from threadkeep.home.status import FALLBACK, fallback_folders, spool_folder
from threadkeep.knowledge.archive import known_projects
from threadkeep.knowledge.library import Browse
from threadkeep.knowledge.memory_documents import has_memories
from threadkeep.knowledge.memory_intake import Retention
from threadkeep.knowledge.records import Observed
from threadkeep.knowledge.schema import changes_until, names, user_version
from threadkeep.knowledge.search_index import noted_so_far
from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.knowledge.vector_rows import vector_model
from threadkeep.memory.memory import Memory
from threadkeep.memory.records import Meaning
from threadkeep.sources.chat_store import ChatSource
from threadkeep.sources.claude.memory import (
    READER as MEMORIES,
    ClaudeMemory,
    Discovery,
    NamedMemory,
)
from threadkeep.sources.git_facts import GitCache, facts_at
from threadkeep.sources.hippo_notes import READER, HippoNotes
from threadkeep.sources.mailboxes import MailboxSource
from threadkeep.sources.records import Source, UserHome
from threadkeep.sources.registry import foreign_sources
from threadkeep.sources.state_store import StateSource
from threadkeep.transfer.originals import AdoptReport

if TYPE_CHECKING:
    from threadkeep.capture.github.ci import Ci
    from threadkeep.capture.github.client import Api
    from threadkeep.home.home import Home
    from threadkeep.memory.learn.cited_answers import GroundedAnswer, Passage


# ------------------------------------------------------------------------------
# How a home's view of CI is opened: its store, its settings, and the server that is asked.


def make_ci(home: "Home", store: KnowledgeStore, repos: tuple[str, ...] = ()) -> "Ci":
    """Put a store and the settings of a home together; `repos` are followed instead of its own."""
    from threadkeep.capture.github.ci import Ci
    from threadkeep.capture.github.client import Api
    from threadkeep.capture.github.tokens import find_token

    settings = home.config.github
    if repos:
        settings = msgspec.structs.replace(settings, watched_repos=repos)

    def api(sleep: Callable[[float], None]) -> "Api":
        token = find_token(settings.token_env, settings.api_url, home.environ)
        return Api(settings.api_url, token, sleep=sleep)

    return Ci(store, settings, home.redactor().text, api)


# ------------------------------------------------------------------------------
# Every source that there is: other programs', and the stores of a home.


def all_sources(chats: list[Path], states: list[Path], mail: list[Path]) -> dict[str, Source]:
    """Give every source by name: other programs', and the stores of a home."""
    own: dict[str, Source] = {
        "chat": ChatSource(chats),
        "state": StateSource(states),
        "hermes-imported": StateSource(states, "hermes", imported=True),
        "mailbox": MailboxSource(mail),
        READER: HippoNotes(),
    }
    return foreign_sources() | own


def make_redactor(config: Config, file: Path, environ: Mapping[str, str]) -> Redactor:
    """Make the redactor of a home: our own rules, and those of the files that it names."""
    named = [store_path(name, file, environ) for name in config.redact.rules]
    return Redactor.default(
        [rule for path in named for rule in load_rules(read_settings(path)).rules]
    )


def open_history(
    home: "Home",
    store: KnowledgeStore,
    environ: Mapping[str, str],
    user_home: str | Path | None,
    roots: Iterable[str | Path] = (),
) -> History:
    """Put a store, its sources and its rules together; if that fails, the store is closed."""
    try:
        config = home.config
        chats, states = [home.chat_path()], [home.paths().data / "state.db"]
        sources = all_sources(chats, states, [home.paths().data / "mailbox"])
        sources[MEMORIES] = _memories(config.auto_memory, environ)
        redactor = home.redactor()
        around = CaptureContext(
            store=store,
            user=_user(home, store, environ, user_home, roots),
            mask=redactor.piece,
            clock=now_ms,
            who=this_machine(),
            exclusion=Exclusion(excluded_places(config, environ)),
            redactor=redactor,
        )
        enabled = _enabled(sources, config.capture.disable)
        if not config.auto_memory.enabled or not _holds_memories(store):
            enabled.pop(MEMORIES, None)
        return History(around, enabled)
    except BaseException:
        store.close()
        raise


def excluded_places(config: Config, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Give the patterns of projects that the user keeps out; folders also by their real names."""
    named = [_place(one, environ) for one in config.capture.exclude]
    real = [os.path.realpath(one) for one in named if one.startswith("/")]
    return tuple(dict.fromkeys([*named, *real]))


def _place(pattern: str, environ: Mapping[str, str]) -> str:
    """Read a pattern of projects; a leading `~` is the user's home."""
    return str(expand(pattern, environ)) if pattern.startswith("~") else pattern


def _user(
    home: "Home",
    store: KnowledgeStore,
    environ: Mapping[str, str],
    user_home: str | Path | None,
    roots: Iterable[str | Path],
) -> UserHome:
    named = tuple(_folder(root, "give a folder that holds projects") for root in roots)
    if user_home is not None:
        return UserHome(_folder(user_home, "give the folder that holds .claude"), roots=named)
    lasting = tuple(expand(root, environ) for root in home.config.capture.roots)

    def projects() -> list[Path]:
        with store.context.db.read() as tx:
            return known_projects(tx)

    own = Path(environ.get("HOME") or Path.home())
    return UserHome(own, environ, (*lasting, *named), projects)


def _folder(given: str | Path, hint: str) -> Path:
    named = Path(os.path.abspath(given))
    if not named.is_dir():
        raise NotFound(f"there is no folder {named}", hint=hint)
    return named


def _memories(settings: AutoMemorySettings, environ: Mapping[str, str]) -> ClaudeMemory:
    """Make the source of Claude's notes as the settings say."""
    found = settings.discovery
    discovery = Discovery(
        projects=found.enabled and found.claude_projects,
        settings=found.enabled and found.read_claude_settings,
        include=found.include_patterns,
        exclude=found.exclude_patterns,
    )
    named = [
        NamedMemory(expand(one.path, environ), one.repository or "", one.logical_path or "")
        for one in settings.sources
    ]
    absence = (settings.absence_confirm_polls - 1) * settings.poll_interval_secs * 1000
    keep = Retention(settings.max_revision_count, settings.max_revision_age_days, absence)
    return ClaudeMemory(discovery, named, keep)


def _holds_memories(store: KnowledgeStore) -> bool:
    """Tell whether a file is of a version that has a place for notes.

    One at 18 may have the tables too, with what was imported: nothing is added to that.
    """
    with store.context.db.read() as tx:
        known = changes_until(user_version(tx))
        return has_memories(tx) and any("memory_documents" in change.tables for change in known)


def _enabled(sources: dict[str, Source], disabled: tuple[str, ...]) -> dict[str, Source]:
    unknown = [name for name in disabled if name not in sources]
    if unknown:
        msg = f"[capture] disable: there is no source {unknown[0]!r}"
        raise Invalid(msg, hint=f"the sources are {', '.join(sources)}")
    # Both read the same file: who wants nothing of it captured means the two of them.
    left_out = {*disabled, *(("hermes-imported",) if "state" in disabled else ())}
    return {name: one for name, one in sources.items() if name not in left_out}


# ------------------------------------------------------------------------------
# How a home's memory is opened: its store, its sources, and what it may use of models.

Tell = Callable[[str], None]

# What Hippo's programs hear as well: nothing that was learned is left out.
_EVERYTHING: Final = "HIPPO_RETRIEVAL_INCLUDE_EXCLUDED"


def open_memory(home: "Home", store: KnowledgeStore) -> Memory:
    """Put a store, its sources and the model of its vectors together; on failure it is closed."""
    try:
        data = home.paths().data
        sources = all_sources([home.chat_path()], [data / "state.db"], [data / "mailbox"])
        zone = ZoneInfo(home.zone)
        meaning = _meaning(home, store)
        everything = home.environ.get(_EVERYTHING, "").lower() in {"1", "true", "yes"}
        return Memory(
            *(store, sources, home.config.recall),
            meaning=meaning,
            zone=zone,
            include_excluded=everything,
        )
    except BaseException:
        store.close()
        raise


def _meaning(home: "Home", store: KnowledgeStore) -> Meaning | None:
    """Give what compares by meaning, where the file has vectors and their model can be had."""
    with store.context.db.read() as tx:
        made_by = vector_model(tx)
    if made_by is None:
        return None  # nothing to compare with: numpy is not even loaded
    from threadkeep.memory.vectors.choice import choose

    embedder = choose(home.config.embeddings, home.paths().cache, home.environ).embedder
    if embedder is None:
        return None
    from threadkeep.knowledge.vectors import VectorIndex

    return Meaning(embedder, VectorIndex(embedder.model))


def answering(
    home: "Home", memory: Memory, tell: Tell = lambda _: None
) -> "Callable[[str, Sequence[Passage]], GroundedAnswer | None] | None":
    """Give the model that answers from passages, None where none is configured or ready."""
    if not home.config.model.url:
        return None
    from threadkeep.memory.learn.model import make_answerer

    return make_answerer(home.config.model, memory.store.context, home.environ, tell=tell)


# ------------------------------------------------------------------------------
# How a home's observations are opened: its spool, its store, and what its user keeps out.


class Reporter(msgspec.Struct, frozen=True):
    """Leaves what was observed in the spool of a home; its store need not even exist."""

    spool: Spool
    rules: Rules
    visits: VisitRules

    def report(self, thing: Observed) -> bool:
        """Leave a report, its secrets masked; False if the user keeps it out."""
        return report(self.spool, self.rules, thing)


def make_reporter(home: "Home") -> Reporter:
    """Put the spool of a home and its rules together."""
    return Reporter(Spool(spool_folder(home)), make_rules(home), rules_of(home.config.browser))


def make_rules(home: "Home") -> Rules:
    """Take what a home's user keeps out, and how secrets are masked, from its configuration."""
    config = home.config
    return Rules(
        clean=home.redactor().text,
        folders=Exclusion(excluded_places(config, home.environ)),
        commands=config.shell.exclude,
        visits=config.browser.enabled,
        sites=rules_of(config.browser).domains,
        domains=config.browser.exclude,
        strip_params=config.browser.strip_params,
    )


def open_observations(home: "Home", store: KnowledgeStore) -> Observations:
    """Put a store, the spool and the rules together; if that fails, the store is closed."""
    try:
        around = ObservedContext(
            store=store,
            rules=make_rules(home),
            clock=now_ms,
            facts=_fresh_facts,
            user=this_machine().username,
        )
        spool = Spool(spool_folder(home))
        fallbacks = fallback_folders(home, store.file)
        return Observations(around, spool, rules_of(home.config.browser), fallbacks)
    except BaseException:
        store.close()
        raise


def with_fallback(home: "Home", done: AdoptReport) -> AdoptReport:
    """Add what Hippo's programs could not deliver to what was imported; its files stay."""
    folder = done.original.path.parent / FALLBACK
    if done.dry_run or not waiting_in(folder):
        return done
    with home.observations(done.target) as observations:
        came = observations.copy(folder)
    note = f"{came.new} events that Hippo had not delivered were brought in from {folder}"
    return msgspec.structs.replace(done, notes=[*done.notes, note])


def _fresh_facts() -> Facts:
    cache = GitCache()
    return lambda cwd, at: facts_at(cwd, at, cache)


# ------------------------------------------------------------------------------
# A file of Hippo's that is used where it is: its conversations are listed like our own.
#
# Such a file has slices of conversations and none of our tables. What lists sessions needs them, as
# recall needs its index: the first look makes both. Nothing of Hippo's is changed by that.

log = logging.getLogger(__name__)

_OURS: Final = "SELECT 1 FROM tk_logs WHERE reader <> ? LIMIT 1"


def make_listable(home: "Home", store: KnowledgeStore) -> None:
    """Make sessions of new slices in a file that is looked at, if nobody captures into it.

    Where the file cannot be written all stays as it is.
    """
    if store.access.finding.kind != "current":
        return  # to look at a file is no reason to bring it to another version
    with store.context.db.read() as tx:
        if not _has_news(tx):
            return
    path = store.context.db.path
    try:
        with home.history(path, must_exist=True) as history:
            history.note_sessions(everything=False)
    except ThreadkeepError as error:
        log.warning("the conversations in %s are not listed: %s", path, error.message)


def open_history_to_list(home: "Home", path: str | Path | None = None) -> "History":
    """Open the captured history to list and search it; close it after use."""
    history = home.history(path, read_only=True)
    make_listable(home, history.store)
    return history


def open_memory_to_ask(home: "Home", path: str | Path | None = None) -> "Memory":
    """Open memory so that its index can be brought up, where that changes nothing of the contract.

    No store is begun by a question, and none is brought to another version.
    """
    memory = home.memory(path, read_only=True)
    if memory.store.access.finding.kind != "current":
        return memory
    memory.close()
    with suppress(ReadOnly):
        return home.memory(path, must_exist=True)
    return home.memory(path, read_only=True)


def _has_news(tx: Tx) -> bool:
    last = int(tx.value("last_slice") or 0)
    if "tk_indexed" not in names(tx, "table"):
        return last > 0
    captured = tx.execute(_OURS, (READER,)).fetchone() is not None
    return not captured and last > noted_so_far(tx)


# ------------------------------------------------------------------------------
# What surfaces browse, named in one place, and how it is opened.


def open_browse(home: "Home", path: str | Path | None = None) -> Browse:
    """Open the captured history to browse it; its store must exist. Close it after use."""
    store = home.knowledge(path, read_only=True)
    try:
        make_listable(home, store)
        data = home.paths().data
        sources = all_sources([home.chat_path()], [data / "state.db"], [data / "mailbox"])
        return Browse(store, sources, ZoneInfo(home.zone))
    except BaseException:
        store.close()
        raise


# ------------------------------------------------------------------------------
# The rules for secrets as people may look at them: which there are, and where each is from.

_OWN = "threadkeep"


class KnownRule(msgspec.Struct, frozen=True):
    """A rule for one kind of secret: its name, the file it is from, the words it looks for."""

    id: str
    origin: str
    keywords: list[str]


class RefusedRule(msgspec.Struct, frozen=True):
    """A rule of a file that cannot be used, and why."""

    id: str
    origin: str
    reason: str


class RuleBook(msgspec.Struct, frozen=True):
    """All rules of a home."""

    rules: list[KnownRule]
    refused: list[RefusedRule]


def rule_book(home: "Home") -> RuleBook:
    """List our own rules, then those of the files that the configuration names."""
    book = RuleBook([_known(rule, _OWN) for rule in own_rules()], [])
    for name in home.config.redact.rules:
        path = store_path(name, home.paths().config, environment())
        _add_file(book, path)
    return book


def _add_file(book: RuleBook, path: Path) -> None:
    found = load_rules(read_settings(path), str(path))
    book.rules.extend(_known(rule, str(path)) for rule in found.rules)
    book.refused.extend(_refused(rule, str(path)) for rule in found.refused)


def _known(rule: Rule, origin: str) -> KnownRule:
    return KnownRule(rule.id, origin, [word.decode("utf-8", "replace") for word in rule.keywords])


def _refused(rule: RuleRefusal, origin: str) -> RefusedRule:
    return RefusedRule(rule.id, origin, rule.reason)

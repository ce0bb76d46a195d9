"""How a home's capture is opened: its store, every source, and its rules for secrets.

Loading this loads every way in which something is brought in; who only looks loads `opening`.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from threadkeep.base.clock import now_ms
from threadkeep.base.config import AutoMemorySettings, Config, read_settings, store_path
from threadkeep.base.engines import is_url
from threadkeep.base.paths import environment, expand
from threadkeep.base.spool import Spool
from threadkeep.capture.capture import History
from threadkeep.capture.intake import CaptureContext, this_machine
from threadkeep.capture.observed.collector import waiting_in
from threadkeep.capture.observed.intake import Facts, ObservedContext, Rules, report
from threadkeep.capture.observed.observed import Observations
from threadkeep.capture.observed.visits import VisitRules, rules_of
from threadkeep.capture.records import Exclusion
from threadkeep.capture.redact.engine import Redactor
from threadkeep.capture.redact.rules import Rule, RuleRefusal, load_rules, own_rules
from threadkeep.errors import Invalid, NotFound
from threadkeep.home.home import FALLBACK, fallback_folders, spool_folder
from threadkeep.home.opening import all_sources
from threadkeep.knowledge.memory_intake import Retention
from threadkeep.knowledge.records import Observed
from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.sources.claude.memory import (
    READER as MEMORIES,
    ClaudeMemory,
    Discovery,
    NamedMemory,
)
from threadkeep.sources.git_facts import GitCache, facts_at
from threadkeep.sources.own import OwnPlace, ServedStore
from threadkeep.sources.records import Source, UserHome

if TYPE_CHECKING:
    from threadkeep.capture.github.ci import Ci
    from threadkeep.capture.github.client import Api
    from threadkeep.home.home import Home
    from threadkeep.transfer.originals import AdoptReport


# ------------------------------------------------------------------------------
# How a home's view of CI is opened: its store, its settings, and the server that is asked.


def make_ci(home: "Home", store: KnowledgeStore, repos: tuple[str, ...] = ()) -> "Ci":
    """Put a store and the settings of a home together; `repos` are followed instead of its own."""
    from threadkeep.capture.github.ci import Ci
    from threadkeep.capture.github.client import Api, find_token

    settings = home.config.github
    if repos:
        settings = msgspec.structs.replace(settings, watched_repos=repos)

    def api(sleep: Callable[[float], None]) -> "Api":
        token = find_token(settings.token_env, settings.api_url, home.environ)
        return Api(settings.api_url, token, sleep=sleep)

    return Ci(store, settings, home.redactor().text, api)


# ------------------------------------------------------------------------------
# How a home's history is opened to capture into it.


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
        chat, state = _own_place(home, "chat"), _own_place(home, "state")
        sources = dict(all_sources([chat], [state], [home.paths().data / "mailbox"]))
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
        if not config.auto_memory.enabled or not store.archive.takes_memories():
            enabled.pop(MEMORIES, None)
        served = [one for one in (chat, state) if isinstance(one, ServedStore)]
        return History(around, enabled, served)
    except BaseException:
        store.close()
        raise


def _own_place(home: "Home", store: str) -> OwnPlace:
    """Return where a home's own conversations are read: a file, or a server."""
    if not is_url(home.place(store)):
        file = home.file("chat") if store == "chat" else None
        return file or home.paths().data / "state.db"
    opened = home.chat if store == "chat" else home.state
    return ServedStore(lambda: opened(read_only=True).database)


def excluded_places(config: Config, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the patterns of projects that the user keeps out; folders also by their real names."""
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
    own = Path(environ.get("HOME") or Path.home())
    return UserHome(own, environ, (*lasting, *named), store.archive.projects)


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


def _enabled(sources: dict[str, Source], disabled: tuple[str, ...]) -> dict[str, Source]:
    unknown = [name for name in disabled if name not in sources]
    if unknown:
        msg = f"[capture] disable: there is no source {unknown[0]!r}"
        raise Invalid(msg, hint=f"the sources are {', '.join(sources)}")
    # Both read the same file: who wants nothing of it captured means the two of them.
    left_out = {*disabled, *(("hermes-imported",) if "state" in disabled else ())}
    return {name: one for name, one in sources.items() if name not in left_out}


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


def with_fallback(home: "Home", done: "AdoptReport") -> "AdoptReport":
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

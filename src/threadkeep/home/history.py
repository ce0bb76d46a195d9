"""How a home's captured history is opened: its store, its sources, its rules."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from threadkeep.base.clock import now_ms
from threadkeep.base.config import AutoMemorySettings, Config, read_settings, store_path
from threadkeep.base.paths import expand
from threadkeep.capture.context import CaptureContext
from threadkeep.capture.exclusion import Exclusion
from threadkeep.capture.harvesting import this_machine
from threadkeep.capture.history import History
from threadkeep.errors import Invalid, NotFound
from threadkeep.home.all_sources import all_sources
from threadkeep.knowledge.layout import user_version
from threadkeep.knowledge.logs import known_projects
from threadkeep.knowledge.memory_documents import has_memories
from threadkeep.knowledge.memory_intake import Retention
from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.knowledge.versions import changes_until
from threadkeep.redact.engine import Redactor
from threadkeep.redact.rules import load_rules
from threadkeep.sources.claude_memory import (
    READER as MEMORIES,
    ClaudeMemory,
    Discovery,
    NamedMemory,
)
from threadkeep.sources.records import Source, UserHome

if TYPE_CHECKING:
    from threadkeep.home.facade import Home


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
            db=store.context.db,
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
        return History(store, around, enabled)
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

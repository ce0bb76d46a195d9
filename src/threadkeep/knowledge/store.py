"""KnowledgeStore: what agents, shells, browsers and CI did, in one file; one line for each verb."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import cache, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, Protocol, Self, TypeVar

import msgspec

from threadkeep.base.clock import Clock, now_ms
from threadkeep.base.database import DEFAULT_BUDGET, Database
from threadkeep.base.engines import Place, give_back_space
from threadkeep.base.sql import Engine, load_queries
from threadkeep.base.sqlite.upkeep import file_of, sqlite_file
from threadkeep.base.tx import Tx
from threadkeep.base.verbs import Later, loaded_later, show_as_method
from threadkeep.knowledge.kinds import QueriesOfKinds
from threadkeep.knowledge.opening import (
    Access,
    KnowledgeContext,
    need_captured,
    open_knowledge,
    refuse_write,
)
from threadkeep.knowledge.schema import SCHEMA_VERSION

if TYPE_CHECKING:
    from threadkeep.base.sqlite.backup import BackupRetention, Progress
    from threadkeep.knowledge import (
        agent_views as agent_views_,
        archive as archive_,
        checks as checks_,
        command_list as command_list_,
        commands as commands_,
        copies as copies_,
        failures as failures_,
        forget as forget_,
        forget_scope as forget_scope_,
        health as health_,
        labels as labels_,
        ledger as ledger_,
        lessons as lessons_,
        memory_documents as memory_documents_,
        memory_intake as memory_intake_,
        merge as merge_,
        node_words as node_words_,
        nodes as nodes_,
        prices as prices_,
        projects as projects_,
        queues as queues_,
        reindex as reindex_,
        segments as segments_,
        session_list as session_list_,
        sessions as sessions_,
        usage as usage_,
        vector_rows as vector_rows_,
        vectors as vectors_,
        workflow_runs as workflow_runs_,
    )
else:  # each is loaded by the first who uses a verb of it
    for _module in (
        *("agent_views", "archive", "checks", "command_list", "commands", "copies", "failures"),
        *("forget", "forget_scope", "health", "labels", "ledger", "lessons", "memory_documents"),
        *("memory_intake", "merge", "node_words", "nodes", "prices", "projects", "queues"),
        *("reindex", "segments"),
        *("session_list", "sessions", "usage", "vector_rows", "vectors", "workflow_runs"),
    ):
        globals()[f"{_module}_"] = Later(f"{__package__}.{_module}")

_FILES: Final = (
    *("queries.sql", "forget.sql", "observed.sql", "workflows.sql", "tickets.sql", "nodes.sql"),
    *("recall.sql", "vectors.sql", "model.sql", "alarms.sql", "failures.sql", "service.sql"),
    *("evidence.sql", "memory_views.sql", "browse.sql", "agent_views.sql", "tail.sql"),
    *("memory.sql", "labels.sql", "projects.sql"),
)
QUERIES: Final = QueriesOfKinds(load_queries(__package__, *_FILES))


def queries_of(engine: Engine) -> Mapping[str, str]:
    """Return the named queries of a knowledge store as an engine takes them."""
    return QUERIES if engine == "sqlite" else _of_postgres()


@cache
def _of_postgres() -> Mapping[str, str]:
    return QueriesOfKinds(load_queries(__package__, *_FILES, engine="postgres"), "postgres")


P = ParamSpec("P")
R = TypeVar("R")


@loaded_later
def reads(
    function: Callable[Concatenate[Tx, P], R], *, lenient: bool = False
) -> Callable[Concatenate[Any, P], R]:
    """Make a verb of a function that takes `tx` first: it runs in one snapshot.

    With `lenient` text that is no UTF-8 is read as well as it can be.
    """

    @wraps(function)
    def verb(of: "_Verbs", /, *args: P.args, **kwargs: P.kwargs) -> R:
        with of.context.db.read(lenient=lenient) as tx:
            return function(tx, *args, **kwargs)

    show_as_method(verb, function, given=1)
    return verb


@loaded_later
def writes(function: Callable[Concatenate[Tx, P], R]) -> Callable[Concatenate[Any, P], R]:
    """Make a verb of such a function that writes: all of it is durable when it returns."""

    @wraps(function)
    def verb(of: "_Verbs", /, *args: P.args, **kwargs: P.kwargs) -> R:
        refuse_write(of.context.access)
        with of.context.db.write() as tx:
            return function(tx, *args, **kwargs)

    show_as_method(verb, function, given=1)
    return verb


class _Verbs(Protocol):
    @property
    def context(self) -> KnowledgeContext: ...


# ------------------------------------------------------------------------------
# The verbs in groups. Whoever does more in one transaction borrows it from the store, and calls the
# functions behind the verbs.


class ArchiveVerbs(msgspec.Struct, frozen=True):
    """Logs and what was read from them: lines, entries, sessions, slices, memory files."""

    context: KnowledgeContext

    log = reads(archive_.load_log)
    looks = reads(archive_.all_looks)
    fingerprints = reads(archive_.fingerprints)
    projects = reads(archive_.known_projects)
    slices = reads(segments_.slices_of, lenient=True)
    has_unlisted = reads(sessions_.has_unlisted)
    note_up_to = writes(sessions_.note_up_to)
    note_retold = writes(copies_.note_retold)
    takes_memories = reads(memory_documents_.takes_memories)
    absent_memories = reads(memory_intake_.absent_memories)


class EvidenceVerbs(msgspec.Struct, frozen=True):
    """What shells, browsers and CI did, and recurring failures."""

    context: KnowledgeContext

    contract_events = reads(command_list_.contract_events)
    drop_spool_place = writes(commands_.drop_spool_place)
    watched = reads(workflow_runs_.watched)
    watch = writes(workflow_runs_.register)
    pending = reads(workflow_runs_.pending)
    runs = reads(workflow_runs_.list_runs)
    run = reads(workflow_runs_.run_details)
    latest_run = reads(agent_views_.latest_run, lenient=True)
    settle = writes(workflow_runs_.settle)
    known_run = reads(workflow_runs_.known_run)
    knows_repo = reads(workflow_runs_.knows_repo)
    open_runs = reads(workflow_runs_.open_runs)
    note_gone = writes(workflow_runs_.note_gone)
    last_answer = reads(workflow_runs_.last_answer)
    keep_answer = writes(workflow_runs_.keep_answer)
    same_answer = writes(workflow_runs_.same_answer)
    lessons = reads(lessons_.list_lessons, lenient=True)
    learned_to = reads(failures_.learned_to)
    failures_wait = reads(failures_.failures_wait)


class NodeVerbs(msgspec.Struct, frozen=True):
    """What was learned, and the notes of agents."""

    context: KnowledgeContext

    nodes = reads(agent_views_.node_views, lenient=True)
    events = reads(agent_views_.event_views, lenient=True)
    entities = reads(agent_views_.entity_views, lenient=True)
    projects = reads(agent_views_.project_views, lenient=True)
    memories = reads(memory_documents_.query_memories, lenient=True)
    memory_history = reads(memory_documents_.memory_history, lenient=True)
    write_note = writes(nodes_.write_note)


class QueueVerbs(msgspec.Struct, frozen=True):
    """What waits to be learned from, and what a model was asked and used for it."""

    context: KnowledgeContext

    names = reads(queues_.queues_of)
    tickets_wait = reads(queues_.tickets_wait)
    locks = reads(queues_.locks)
    holders = reads(queues_.holders)
    reap = writes(queues_.reap)
    used = reads(ledger_.total)
    add_use = writes(ledger_.add)
    troubles = reads(ledger_.troubles)
    is_refused = reads(ledger_.is_refused)
    refuse = writes(ledger_.refuse)


class IndexVerbs(msgspec.Struct, frozen=True):
    """The indexes of words and of meaning, where they are rebuilt or kept tidy."""

    context: KnowledgeContext

    want = writes(reindex_.want_index)
    logs_left = reads(reindex_.logs_to_index)
    finish = writes(reindex_.finish_index)
    is_done = writes(reindex_.index_is_done)
    rebuild_words = writes(node_words_.rebuild_node_words)
    vector_model = reads(vector_rows_.vector_model)
    drift = reads(vector_rows_.drift)
    start_over = writes(vector_rows_.start_over)
    missing_vectors = reads(vector_rows_.missing)
    is_tidy = reads(vector_rows_.is_tidy)
    last_entry = reads(vector_rows_.last_entry)
    note_complete = writes(vector_rows_.note_complete)
    open_contract_vectors = writes(vectors_.open_contract_vectors)


class ForgettingVerbs(msgspec.Struct, frozen=True):
    """What is deleted for good."""

    context: KnowledgeContext

    waiting = reads(forget_scope_.forgotten_but_there)
    listed = reads(merge_.list_forgotten)
    erase_before = writes(forget_.erase_before)


class LabelVerbs(msgspec.Struct, frozen=True):
    """What people put on sessions and messages: stars, tags and notes."""

    context: KnowledgeContext

    put = writes(labels_.put_labels)
    of = reads(labels_.labels_of)
    listed = reads(labels_.labelled)
    tags = reads(labels_.tags)


class ProjectVerbs(msgspec.Struct, frozen=True):
    """Projects as people see them."""

    context: KnowledgeContext

    project = reads(projects_.read_project, lenient=True)
    rename = writes(projects_.rename_project)
    split = writes(projects_.split_project)


class UpkeepVerbs(msgspec.Struct, frozen=True):
    """The state of capture: the health of sources, the service, the checks of files."""

    context: KnowledgeContext

    note_failure = writes(health_.note_failure)
    recount = writes(health_.recount)
    service = reads(health_.the_service)
    deep_checks = reads(checks_.last_deep_checks)
    note_deep_checks = writes(checks_.note_deep_checks)


class KnowledgeStore:
    """A knowledge store: the contract's tables, and the archive of everything captured."""

    def __init__(self, context: KnowledgeContext) -> None:
        self.context = context

    @classmethod
    def open(
        cls,
        path: Place,
        *,
        read_only: bool = False,
        schema: int = SCHEMA_VERSION,
        timeout: float = DEFAULT_BUDGET,
        clock: Clock = now_ms,
    ) -> Self:
        """Open a file, create it, or migrate an older one to `schema`; a newer one is only read.

        The URL of a home on a server opens its knowledge store there.
        """
        opened = open_knowledge(
            path, queries_of, read_only=read_only, schema=schema, budget=timeout, clock=clock
        )
        return cls(KnowledgeContext(opened.database, opened.access, clock))

    @property
    def database(self) -> Database:
        """The file as a whole: where it is, whether it changed, its copies; no tables."""
        return self.context.db

    @property
    def access(self) -> Access:
        """What may be done with this file, and why not more."""
        return self.context.access

    @property
    def clock(self) -> Clock:
        """The clock, in epoch milliseconds."""
        return self.context.clock

    @property
    def path(self) -> Path:
        """The file, by the name it was opened by."""
        return sqlite_file(self.context.db).path

    @property
    def file(self) -> Path | None:
        """The file itself, behind whatever links lead to it; None for a store on a server."""
        return file_of(self.context.db)

    @property
    def name(self) -> str:
        """What the store is called in messages: its path, or its address."""
        return self.context.db.name

    def read(self, *, lenient: bool = False) -> AbstractContextManager[Tx]:
        """Return a read transaction, for functions of this package that take `tx` first."""
        return self.context.db.read(lenient=lenient)

    def write(
        self,
        *,
        durable: bool = True,
        key: str | None = None,
        budget: float | None = None,
        foreign_keys: bool = True,
    ) -> AbstractContextManager[Tx]:
        """Return a write transaction for the same functions; those of one `key` never overlap."""
        if not foreign_keys and self.file is not None:  # a table is rebuilt
            file = sqlite_file(self.context.db)
            return file.write(durable=durable, budget=budget, foreign_keys=False)
        return self.context.db.write(durable=durable, key=key, budget=budget)

    @property
    def archive(self) -> ArchiveVerbs:
        """Logs and what was read from them."""
        return ArchiveVerbs(self.context)

    @property
    def evidence(self) -> EvidenceVerbs:
        """What shells, browsers and CI did."""
        return EvidenceVerbs(self.context)

    @property
    def nodes(self) -> NodeVerbs:
        """What was learned."""
        return NodeVerbs(self.context)

    @property
    def queues(self) -> QueueVerbs:
        """What waits to be learned from."""
        return QueueVerbs(self.context)

    @property
    def indexes(self) -> IndexVerbs:
        """The indexes of words and of meaning; `index` fills them."""
        return IndexVerbs(self.context)

    @property
    def forgetting(self) -> ForgettingVerbs:
        """What is deleted for good."""
        return ForgettingVerbs(self.context)

    @property
    def labels(self) -> LabelVerbs:
        """Stars, tags and notes."""
        return LabelVerbs(self.context)

    @property
    def projects(self) -> ProjectVerbs:
        """Projects as people see them: renamed, merged, split."""
        return ProjectVerbs(self.context)

    @property
    def upkeep(self) -> UpkeepVerbs:
        """The state of capture; see `health`, `drops` and `alarms`."""
        return UpkeepVerbs(self.context)

    sessions = reads(session_list_.list_sessions)
    missing_words = reads(session_list_.missing_words)
    find_session = reads(sessions_.find_session)
    children_of = reads(sessions_.children_of)
    links_of = reads(sessions_.links_of)
    entries_of = reads(sessions_.entries_of)
    search_rows = reads(sessions_.search_rows)
    usage = reads(usage_.usage_of)
    spent_in = reads(usage_.spent_in)
    recent_answers = reads(prices_.recent_answers)
    answers_of = reads(prices_.answers_of)
    unfinished_answers = reads(prices_.unfinished_answers)
    list_events = reads(command_list_.list_events)
    list_shell_sessions = reads(command_list_.list_shell_sessions)
    list_visits = reads(command_list_.list_visits)
    list_entities = reads(command_list_.list_entities)
    count_today = reads(command_list_.count_today)
    health = reads(health_.all_health)
    drops = reads(health_.all_drops)
    alarms = reads(health_.list_alarms)

    def index(
        self,
        limit: int | None = None,
        *,
        budget: float | None = None,
        stop: Callable[[], bool] | None = None,
        lazily: bool = False,
    ) -> int:
        """Index what is new or has changed, at most `limit` rows; return the number of rows.

        Whoever writes does this behind it, so that a question only reads; `lazily` not for entries
        alone, which are found without it, until anything else comes.
        """
        from threadkeep.knowledge import search_index as index_  # noqa: PLC0415  (not for lists)

        done, some = 0, 1
        while some and self.access.writable and (limit is None or done < limit):
            if stop is not None and stop():
                break
            with self.read() as tx:
                if not index_.is_behind(tx, but_entries=lazily):
                    break
            room = index_.BATCH if limit is None else min(index_.BATCH, limit - done)
            with self.write(durable=False, budget=budget) as tx:
                some = index_.index_things(tx, room)
            done += some
        return done

    def need_captured(self) -> None:
        """Raise if a file is open for reading into which nothing has been captured."""
        with self.read() as tx:
            need_captured(tx, self.access)

    def facts(self) -> "checks_.KnowledgeFacts":
        """Return how much was captured into the file, and what was derived from it."""
        from threadkeep.knowledge.checks import facts  # noqa: PLC0415  (for `status` alone)

        with self.read() as tx:
            return facts(tx, self.clock())

    def acknowledge(self, number: int, note: str | None = None) -> "health_.Alarm":
        """Acknowledge an alarm; if repeated, the first note is kept."""
        from threadkeep.knowledge.health import ack_alarm  # noqa: PLC0415  (few have alarms)

        refuse_write(self.access)
        with self.write() as tx:
            return ack_alarm(tx, number, self.clock(), note)

    def put_away(self) -> int:
        """Remove the alarms that resolved on their own; return their number."""
        from threadkeep.knowledge.health import prune_alarms  # noqa: PLC0415

        refuse_write(self.access)
        with self.write() as tx:
            return prune_alarms(tx, self.clock())

    def backup(
        self,
        target: Path | None = None,
        *,
        reason: str = "manual",
        progress: "Progress | None" = None,
        keep: "BackupRetention | None" = None,
    ) -> Path:
        """Copy the store to a new file while others keep working, and check the copy."""
        from threadkeep.base.sqlite.backup import make_backup  # noqa: PLC0415  (loaded when it is used)

        return make_backup(self.context.db, target, reason=reason, progress=progress, keep=keep)

    def vacuum(self) -> None:
        """Rewrite the store without free pages and their contents."""
        give_back_space(self.context.db)

    def truncate_log(self) -> bool:
        """Checkpoint and truncate the write-ahead log; False if a reader prevents it."""
        return self.file is None or sqlite_file(self.context.db).truncate_log()

    def unlock_vectors(self) -> bool:
        """Make the contract's vectors writable, if the file has any; return whether they are."""
        from threadkeep.knowledge.vectors import unlock  # noqa: PLC0415  (few need vectors)

        return unlock(self.context.db)

    def close(self) -> None:
        """Close the file."""
        self.context.db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

"""What happened beside agents, read from an opened store: commands, pages, CI, alarms.

A file of another program, or an older one, may lack a table: then nothing happened there.
"""

from threadkeep.errors import NotFound
from threadkeep.knowledge.events import CommandFilter, CommandRow, StoredVisit
from threadkeep.knowledge.health import Drop, Health
from threadkeep.knowledge.layout import names
from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.knowledge.workflows import RunDetails, RunRow, list_runs, run_details


def _has(store: KnowledgeStore, table: str) -> bool:
    with store.context.db.read() as tx:
        return table in names(tx, "table")


def commands(store: KnowledgeStore, wanted: CommandFilter, limit: int) -> list[CommandRow]:
    """List commands and tool calls, the latest first."""
    return store.list_events(wanted, limit=limit) if _has(store, "events") else []


def visits(
    store: KnowledgeStore,
    since: int | None,
    until: int | None,
    domain: str | None,
    text: str | None,
    limit: int,
) -> list[StoredVisit]:
    """List visits to pages, the latest first."""
    if not _has(store, "browser_events"):
        return []
    return store.list_visits(since=since, until=until, domain=domain, text=text, limit=limit)


def ci_runs(store: KnowledgeStore, repo: str | None, limit: int) -> list[RunRow]:
    """List runs of CI, the newest first."""
    if not _has(store, "workflow_runs"):
        return []
    with store.context.db.read(lenient=True) as tx:
        return list_runs(tx, repo, limit)


def ci_run(store: KnowledgeStore, number: int) -> RunDetails:
    """Give a run of CI with its jobs."""
    found = None
    if _has(store, "workflow_runs"):
        with store.context.db.read(lenient=True) as tx:
            found = run_details(tx, number)
    if found is None:
        raise NotFound(f"there is no run {number}", hint="`threadkeep ci` lists them")
    return found


def health(store: KnowledgeStore) -> list[Health]:
    """Tell how the capture of each source is."""
    return store.health() if _has(store, "source_health") else []


def drops(store: KnowledgeStore) -> list[Drop]:
    """Tell what did not become a row, and why."""
    return store.drops() if _has(store, "tk_drops") else []

"""What a node rests on, row by row, so that whoever reads an answer can look for themselves."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from threadkeep.base.json import decode, encode
from threadkeep.base.text import from_sql
from threadkeep.base.tx import Row, Tx
from threadkeep.errors import Invalid
from threadkeep.knowledge.health import health_name
from threadkeep.knowledge.memory_documents import PROBE_REPOSITORY, SOURCE_KIND, category_of
from threadkeep.knowledge.schema import changes_until, user_version

# ------------------------------------------------------------------------------
# Which nodes are shown by default: those without evidence, and those with some that is good.
#
# Evidence is good when it is real and settled: no probe, no session that continues, no run
# of CI that is not over, no memory whose file is gone or whose newer text has taken its place.

_SETTLED_MS: Final = 90_000


def eligibility(tx: Tx, now: int) -> dict[str, Any]:
    """Return what queries need to tell good evidence, by the version of the file."""
    return {
        "strict": any(change.hides for change in changes_until(user_version(tx))),
        "settled": now - _SETTLED_MS,
        "probe": PROBE_REPOSITORY,
    }


def eligible_nodes(tx: Tx, ids: Iterable[int], now: int) -> set[int]:
    """Return those of some nodes that are shown by default."""
    values = {**eligibility(tx, now), "ids": encode(list(ids))}
    return {row[0] for row in tx.all("eligible_nodes", values)}


# ------------------------------------------------------------------------------
# How fresh the capture of a source is: what an answer that rests on it is worth today.

FreshnessStatus = Literal[
    "fresh", "stale", "failing", "suppressed_idle", "expected_absent", "unknown"
]

_HOUR_MS: Final = 3_600_000
_DAY_MS: Final = 24 * _HOUR_MS
# For how long a source may have been silent and counts as fresh; agents that are used now and then
# may be so for longer.
_FRESH_MS: Final[Mapping[str, int]] = {
    "shell": _DAY_MS,
    "claude-tool": _DAY_MS,
    "browser": 2 * _DAY_MS,
    "workflow": 3 * _DAY_MS,
    "agentic-session-claude": _DAY_MS // 2,
    SOURCE_KIND: 7 * _DAY_MS,
}
_AGENT: Final = "agentic-session-"
_NOW_AND_THEN_MS: Final = 3 * _DAY_MS
_TOO_MANY_FAILURES: Final = 3


class Freshness(msgspec.Struct, frozen=True):
    """How one source is captured."""

    source: str  # the row of `source_health`
    status: FreshnessStatus
    age_ms: int | None  # since something of it came
    rows: int  # that there are of it
    consecutive_failures: int = 0
    alarms: tuple[str, ...] = ()  # the rules about it that are broken now

    @property
    def is_stale(self) -> bool:
        """Tell whether nothing that is known of it may still be so."""
        return self.status != "fresh"

    @property
    def is_unhealthy(self) -> bool:
        """Tell whether something may be missing."""
        return self.status in {"stale", "failing", "expected_absent", "unknown"}


def source_of(kind: str) -> str:
    """Name the row of `source_health` that a kind of evidence belongs to."""
    if kind in {"shell", "claude-tool", "browser", "workflow", SOURCE_KIND}:
        return kind
    return health_name("claude-code" if kind == "claude" else kind)


def freshness_of(tx: Tx, kinds: Iterable[str], now: int) -> dict[str, Freshness]:
    """Tell of kinds of evidence how their sources are captured, by kind."""
    if "source_health" not in tx.tables():
        return {}
    return {kind: _look(tx, kind, now) for kind in sorted(set(kinds))}


def _look(tx: Tx, kind: str, now: int) -> Freshness:
    source = source_of(kind)
    harness = "claude-code" if kind == "claude" else kind
    values = {"kind": kind, "harness": harness, "probe": PROBE_REPOSITORY}
    rows, latest = tx.one("rows_of_source", values) or (0, None)
    health = tx.one("health_of_source", {"source": source})
    alarms = tuple(row[0] for row in tx.all("alarms_about", {"source": source}))
    heard, failures, failed_at, probe_ok, probed_at = health or (None, 0, None, None, None)
    at = max((one for one in (heard, latest) if one), default=None)
    age = None if at is None else max(0, now - at)
    broken = (
        bool(alarms)
        or (failures or 0) > _TOO_MANY_FAILURES
        or bool(failures and failed_at and now - failed_at < _DAY_MS)
        or (probe_ok == 0 and probed_at is not None)
    )
    status = _status(source, rows, age, known=health is not None, broken=broken)
    return Freshness(source, status, age, rows, failures or 0, alarms)


def _status(
    source: str, rows: int, age: int | None, *, known: bool, broken: bool
) -> FreshnessStatus:
    if not rows and not known:
        return "expected_absent"
    if broken:
        return "failing"
    if not rows:
        return "expected_absent"
    if age is None or not known:
        return "unknown"
    occasional = source not in _FRESH_MS
    if age <= _FRESH_MS.get(source, _NOW_AND_THEN_MS):
        return "fresh"
    return "suppressed_idle" if occasional or source == "browser" else "stale"


_EXCERPT: Final = 500
_MOST: Final = 50  # of one node
# The names under which the contract's own programs know the agents.
_SHORT: Final = {"claude-code": "claude"}


class EvidencePacket(msgspec.Struct, frozen=True, omit_defaults=True):
    """One row that a node rests on."""

    ref: str  # shell-1, claude-5, browser-2, workflow-9, memory-3
    source_kind: str
    table: str
    row_id: int
    timestamp_ms: int
    excerpt: str
    rank: int = 0
    session_id: str | None = None
    harness: str | None = None
    segment_index: int | None = None
    freshness: Freshness | None = None


def evidence_packets(
    tx: Tx, nodes: Iterable[int], now: int, *, everything: bool = False
) -> dict[int, list[EvidencePacket]]:
    """Return what nodes rest on, the latest first; only what is real and settled, unless all is."""
    values = {**eligibility(tx, now), "ids": encode(list(nodes)), "everything": everything}
    found: dict[int, list[EvidencePacket]] = {}
    for node, *rest in tx.all("evidence_packets", values):
        packets = found.setdefault(node, [])
        if len(packets) < _MOST:
            packets.append(_packet(tuple(rest), len(packets)))
    return found


def _packet(row: Row, rank: int) -> EvidencePacket:
    table, number, at, kind, excerpt, session, harness, segment = row
    name = _SHORT.get(harness, str(harness)) if table == "agentic_sessions" else kind
    prefix = {"events": "shell", "memory_chunks": "memory"}.get(table, name)
    return EvidencePacket(
        ref=f"{prefix}-{number}",
        source_kind=SOURCE_KIND if table == "memory_chunks" else name,
        table=table,
        row_id=number,
        timestamp_ms=at or 0,
        excerpt=_cut(excerpt),
        rank=rank,
        session_id=session,
        harness=harness,
        segment_index=segment,
    )


def _cut(value: Any) -> str:
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value or "")
    plain = text.strip()
    return plain if len(plain) <= _EXCERPT else f"{plain[: _EXCERPT - 1]}…"


# ------------------------------------------------------------------------------
# What nodes are derived from, as plain values: commands, visits, notes and runs.

_VISITS_AROUND_MS: Final = 5 * 60_000
_MOST_VISITS: Final = 10
_MOST_REMARKS: Final = 60
_LOG_EXCERPT: Final = 16_000
_TITLE: Final = 400


class CommandEvidence(msgspec.Struct, frozen=True):
    """One command or tool call, with what it printed."""

    id: int
    session: int
    at: int  # epoch milliseconds, when it was reported
    command: str
    output: str
    exit_code: int | None
    duration_ms: int
    cwd: str
    repo: str
    branch: str
    commit: str
    by_agent: bool  # False: typed by a person
    tool: str = ""  # as the agent calls it


class VisitEvidence(msgspec.Struct, frozen=True):
    """One visit to a page."""

    id: int
    at: int
    url: str
    title: str
    domain: str
    dwell_ms: int
    query: str  # what was searched for there
    text: str


class MemoryNote(msgspec.Struct, frozen=True):
    """A revision of a memory."""

    revision: int
    repository: str
    logical_path: str
    category: str  # that its name tells, empty if none
    is_current: bool  # no newer one has come
    sections: tuple[tuple[str, str], ...]  # the headings above each, and what it says


class Remark(msgspec.Struct, frozen=True):
    """What a job of CI said about a line of code."""

    level: str
    tool: str
    rule: str
    path: str
    line: int | None
    message: str


class JobDone(msgspec.Struct, frozen=True):
    """One job of a run."""

    name: str
    conclusion: str
    remarks: tuple[Remark, ...] = ()
    excerpt: str = ""  # the end of its log


class RunDone(msgspec.Struct, frozen=True):
    """One run of CI."""

    id: int
    repo: str
    sha: str
    branch: str
    event: str
    conclusion: str
    url: str
    actor: str
    name: str  # of the workflow
    title: str  # of the change that it checked
    at: int | None
    seconds: int | None
    jobs: tuple[JobDone, ...] = ()


def read_commands(tx: Tx, ids: Sequence[int]) -> list[CommandEvidence]:
    """Read commands with what they printed."""
    return [_command(row) for row in tx.all("evidence_commands", {"ids": encode(list(ids))})]


def _command(row: tuple[Any, ...]) -> CommandEvidence:
    number, session, at, command, stdout, stderr, code, duration, *place, kind, tool = row
    cwd, repo, branch, commit = map(_text, place)
    return CommandEvidence(
        id=number,
        session=session,
        at=at,
        command=_text(command),
        output="\n".join(filter(None, (_text(stdout), _text(stderr)))),
        exit_code=code,
        duration_ms=duration,
        cwd=cwd,
        repo=repo,
        branch=branch,
        commit=commit,
        by_agent=kind != "shell",
        tool=_text(tool),
    )


def read_visits(tx: Tx, ids: Sequence[int]) -> list[tuple[VisitEvidence, float | None]]:
    """Read visits, each with how far the page was scrolled."""
    rows = tx.all("evidence_visits", {"ids": encode(list(ids))})
    return [(_visit(row), row[-1]) for row in rows]


def visits_around(tx: Tx, since: int, until: int) -> list[VisitEvidence]:
    """Read what was looked at around some time, without the pages' text."""
    span = {
        "since": since - _VISITS_AROUND_MS,
        "until": until + _VISITS_AROUND_MS,
        "limit": _MOST_VISITS,
    }
    return [_visit(row) for row in tx.all("evidence_visits_around", span)]


def _visit(row: tuple[Any, ...]) -> VisitEvidence:
    number, at, url, title, domain, dwell, query, text, _ = row
    return VisitEvidence(
        *(number, at, _text(url), _text(title), _text(domain), dwell, _text(query), _text(text))
    )


def read_note(tx: Tx, revision: int) -> MemoryNote | None:
    """Read a revision of a memory with its sections; None if it is gone."""
    row = tx.one("memory_to_publish", {"id": revision})
    if row is None:
        return None
    _, _, _, _, _, repository, logical_path, _, current, _ = row
    parts = tx.all("chunks_of_revision", {"id": revision})
    return MemoryNote(
        *(revision, _text(repository), _text(logical_path)),
        category=category_of(_text(logical_path)) or "",
        is_current=current == revision,
        sections=tuple((_text(path), _text(text)) for _, path, text in parts),
    )


def read_run(tx: Tx, number: int) -> RunDone | None:
    """Read a run of CI with its jobs; None if it is gone."""
    row = tx.one("evidence_run", {"id": number})
    if row is None:
        return None
    number, repo, sha, branch, event, conclusion, url, actor, raw, started, completed = row
    told = _told(raw)
    return RunDone(
        *(number, _text(repo), _text(sha), _text(branch), _text(event), _text(conclusion)),
        *(_text(url), _text(actor), _text(told.get("name"))[:_TITLE]),
        *(_text(told.get("display_title"))[:_TITLE], started),
        seconds=(completed - started) // 1000 if started and completed else None,
        jobs=tuple(_job(tx, *job) for job in tx.all("evidence_jobs", {"id": number})),
    )


def _job(tx: Tx, number: int, name: str, conclusion: str | None) -> JobDone:
    remarks = tx.all("evidence_remarks", {"id": number, "limit": _MOST_REMARKS})
    excerpts = tx.all("evidence_excerpts", {"id": number, "length": _LOG_EXCERPT})
    return JobDone(
        *(_text(name), _text(conclusion)),
        tuple(_remark(row) for row in remarks),
        "\n".join(_text(row[0]) for row in excerpts),
    )


def _remark(row: tuple[Any, ...]) -> Remark:
    level, tool, rule, path, line, message = row
    return Remark(_text(level), _text(tool), _text(rule), _text(path), line, _text(message))


def _told(raw: Any) -> dict[str, Any]:
    try:
        found = decode(raw) if raw else None
    except Invalid:
        return {}
    return found if isinstance(found, dict) else {}


def _text(value: Any) -> str:
    """Return a stored text, empty for none; one that no UTF-8 can hold is stored as bytes."""
    return from_sql(value) if isinstance(value, str | bytes) else ""

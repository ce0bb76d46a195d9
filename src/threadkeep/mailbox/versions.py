"""Which NanoClaw is on the other side: what its versions do differently, and how a folder shows it.

All that differs stands in VERSIONS, all that tells them apart in SIGNS; verbs ask `look`, and go by
what the version does, never by its number. What nothing tells is None: then the other side can be
asked (a `cli_request` for `tasks-list` is answered by every version), or the careful way is taken.
"""

from collections.abc import Iterable, Mapping
from typing import Final, Literal, NamedTuple

import msgspec

from threadkeep.base.tx import Sql, Tx
from threadkeep.mailbox.context import MailContext

HostOrContainer = Literal["host", "container"]

# The versions whose real programs this mailbox was tried with, and when.
TRIED: Final = ("2.0.64", "2.1.54")
TRIED_ON: Final = "2026-11-18"


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """What one version of NanoClaw does; later ones do the same until another row says else."""

    name: str
    """The first version that does so."""
    task_commands: bool
    """Agents ask for tasks with `ncl` (a `cli_request`); else with actions like `schedule_task`."""
    failed_run: str
    """The ack of a task by which its host records the run as failed; others it calls completed."""
    called_off: str
    """The status of a task that was called off."""
    iso_times: bool
    """Rows carry ISO times with milliseconds and `Z`; else SQLite's form."""
    strict: bool
    """Rows of messages_in that do not fit are skipped by the container, and stay due."""


VERSIONS: Final[Mapping[str, Version]] = {
    version.name: version
    for version in (
        Version(
            name="2.0.64",
            task_commands=False,
            failed_run="failed",
            called_off="completed",
            iso_times=False,
            strict=False,
        ),
        Version(
            name="2.1",
            task_commands=True,
            failed_run="script-skip:error",
            called_off="cancelled",
            iso_times=True,
            strict=False,
        ),
        Version(
            name="2.4",
            task_commands=True,
            failed_run="script-skip:error",
            called_off="cancelled",
            iso_times=True,
            strict=True,
        ),
    )
}
_ORDER: Final = tuple(VERSIONS)
OLDEST: Final = VERSIONS[_ORDER[0]]
# The words for mail that some version writes; any other is final, too, and shown as it is.
STATUSES: Final = frozenset(("pending", "paused", "completed", "failed")) | frozenset(
    version.called_off for version in VERSIONS.values()
)


class Sign(NamedTuple):
    """Something that a version leaves in a folder: its newest trace, as a day, '' if undated.

    What we leave as well (`ours_too`) proves nothing where a side of ours has been.
    """

    side: HostOrContainer
    version: str
    table: str  # `outbound.` before those of the other file
    newest: str
    ours_too: bool = False


_RECENT: Final = 1000  # rows per sign: the newest tell, and a look must not cost a history
_T, _SPACE = "'____-__-__T%'", "'____-__-__ %'"


def _newest(table: str, time: str, which: str) -> str:
    # `which` and the names are texts of this module, never of a folder.
    rows = f"(SELECT * FROM {table} ORDER BY rowid DESC LIMIT {_RECENT})"  # noqa: S608
    return f"SELECT max(substr({time}, 1, 10)) FROM {rows} WHERE {which}"  # noqa: S608


_OUT: Final = "outbound.messages_out"
_HOST_ROW: Final = "id LIKE 'deny-%'"
SIGNS: Final = (
    Sign(
        *("host", "2.1", "delivered"),
        _newest("delivered", "delivered_at", f"delivered_at LIKE {_T}"),
    ),
    Sign(
        *("host", "2.0.64", "delivered"),
        _newest("delivered", "delivered_at", f"delivered_at LIKE {_SPACE}"),
        ours_too=True,
    ),
    Sign(
        *("host", "2.1", "messages_in"),
        _newest("messages_in", "timestamp", "status = 'cancelled'"),
        ours_too=True,
    ),
    Sign(
        *("host", "2.1", "messages_in"),
        _newest(
            "messages_in",
            "timestamp",
            """kind = 'task' AND content LIKE '%"originSessionId"%'""",
        ),
        ours_too=True,
    ),
    Sign(
        *("host", "2.1", "session_routing"),
        "SELECT '' FROM session_routing WHERE thread_id LIKE 'system:tasks:%'",
        ours_too=True,
    ),
    Sign(*("host", "2.1", _OUT), _newest(_OUT, "timestamp", _HOST_ROW)),
    Sign(
        *("host", "2.4", "messages_in"),
        "SELECT '' FROM main.sqlite_master WHERE name = 'idx_messages_in_engaged'",
    ),
    Sign(
        *("container", "2.1", _OUT),
        _newest(_OUT, "timestamp", f"timestamp LIKE {_T} AND NOT {_HOST_ROW}"),
        ours_too=True,
    ),
    Sign(
        *("container", "2.0.64", _OUT),
        _newest(_OUT, "timestamp", f"timestamp LIKE {_SPACE} AND NOT {_HOST_ROW}"),
        ours_too=True,
    ),
    Sign(
        *("container", "2.1", _OUT),
        _newest(_OUT, "timestamp", "kind = 'task_log'"),
        ours_too=True,
    ),
    Sign(
        *("container", "2.1", "outbound.processing_ack"),
        _newest("outbound.processing_ack", "status_changed", "status LIKE 'script-skip:%'"),
        ours_too=True,
    ),
    Sign(
        *("container", "2.1", "outbound.session_state"),
        "SELECT '' FROM outbound.session_state WHERE key = 'current_in_reply_to'",
    ),
    Sign(*("container", "2.4", "outbound.token_usage_log"), "SELECT ''"),
)


class OtherSide(NamedTuple):
    """Who has worked in a folder: NanoClaw's versions, None where nothing tells, and ours."""

    host: Version | None
    container: Version | None
    our_host: bool = False
    our_container: bool = False


def look(ctx: MailContext) -> OtherSide:
    """Tell from a folder who has worked in it; newer signs beat older ones."""
    folder = ctx.folder
    with folder.inbound.read(folder.beside_inbound, owner_runs=ctx.running) as tx:
        tables = _tables(tx)
        ours = {"host": "tk_meta" in tables, "container": "outbound.tk_claim" in tables}
        found = [
            (sign, day)
            for sign in SIGNS
            if sign.table in tables
            and not (sign.ours_too and ours[sign.side])
            and (day := _day(tx, sign)) is not None
        ]
    host, container = (
        newest((sign.version, day) for sign, day in found if sign.side == side)
        for side in ("host", "container")
    )
    return OtherSide(host, container, ours["host"], ours["container"])


def _tables(tx: Tx) -> frozenset[str]:
    sql = """SELECT name FROM main.sqlite_master WHERE type = 'table' UNION ALL
             SELECT 'outbound.' || name FROM outbound.sqlite_master WHERE type = 'table'"""
    return frozenset(name for (name,) in tx.all(Sql(sql)))


def _day(tx: Tx, sign: Sign) -> str | None:
    row = tx.one(Sql(sign.newest))
    return None if row is None or row[0] is None else str(row[0])


def newest(signs: Iterable[tuple[str, str]]) -> Version | None:
    """Choose among versions seen on days: the last day counts, and on it the later version.

    Installs get upgraded, so two versions on one day are an upgrade. What has no day tells how far
    a version of the same make goes, but does not outlive an older one that came back.
    """
    seen = [(day, _ORDER.index(name)) for name, day in signs]
    if not seen:
        return None
    latest = max(((day, order) for day, order in seen if day), default=None)
    undated = max((order for day, order in seen if not day), default=0)
    order = undated if latest is None else latest[1] and max(latest[1], undated)
    return VERSIONS[_ORDER[order]]

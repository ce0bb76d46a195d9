"""What `threadkeep capture` says about the spool: commands and visits beside the agents' logs."""

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from threadkeep.cli.command import PROBLEMS, Call
from threadkeep.cli.history.words import Json
from threadkeep.cli.output import counted, note, warn
from threadkeep.errors import ThreadkeepError

if TYPE_CHECKING:
    from threadkeep.capture.observed.intake import BatchReport


class SpoolReport(NamedTuple):
    """What came of the spool; in a dry run only how much lies in it."""

    stored: "BatchReport | None"
    waiting: int = 0
    trouble: str = ""

    def as_json(self) -> Json:
        """Shape it for `--json`."""
        counts: Json = {} if self.stored is None else msgspec.structs.asdict(self.stored)
        return {**counts, "waiting": self.waiting, "error": self.trouble or None}


def tell_collected(found: SpoolReport | None, *, quiet: bool) -> int:
    """Say what came of the spool, trouble in any case; give the exit code."""
    if found is None:
        return 0
    if found.trouble:
        warn(f"commands and visits were not collected: {found.trouble}")
        return PROBLEMS
    if not quiet and found.stored is None and found.waiting:
        note(f"would collect {counted(found.waiting, 'file')} of commands and visits")
    if not quiet and found.stored is not None and any(msgspec.structs.astuple(found.stored)):
        note(collected_words(found.stored))
    return 0


def collect_reports(call: Call, *, dry_run: bool = False) -> SpoolReport:
    """Collect what shells and browsers left; a dry run only counts the files."""
    from threadkeep.home.observed import collect_now
    from threadkeep.home.status import reports_waiting

    try:
        if dry_run:
            return SpoolReport(None, reports_waiting(call.home, call.db))
        return SpoolReport(collect_now(call.home, call.db))
    except ThreadkeepError as error:
        return SpoolReport(None, trouble=error.message)


def collected_words(stored: "BatchReport") -> str:
    """Write what was collected, leaving out what is zero."""
    more = {
        "updated": stored.updated,
        "known before": stored.known,
        "kept out": stored.excluded,
        "not understood": stored.refused,
    }
    told = [f"{stored.new:,} new", *(f"{count:,} {name}" for name, count in more.items() if count)]
    return f"commands and visits: {', '.join(told)}"

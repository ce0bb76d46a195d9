"""What `threadkeep capture` says about the spool: commands and visits beside the agents' logs."""

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from threadkeep.cli.command import PROBLEMS, Call
from threadkeep.cli.history.words import Json
from threadkeep.cli.output import counted, note, warn
from threadkeep.errors import ThreadkeepError

if TYPE_CHECKING:
    from threadkeep.home.observed import Stored


class Collected(NamedTuple):
    """What came of the spool; in a dry run only how much lies in it."""

    stored: "Stored | None"
    waiting: int = 0
    trouble: str = ""

    def as_json(self) -> Json:
        """Shape it for `--json`."""
        counts: Json = {} if self.stored is None else msgspec.structs.asdict(self.stored)
        return {**counts, "waiting": self.waiting, "error": self.trouble or None}


def tell_collected(found: Collected | None, *, quiet: bool) -> int:
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


def collect_reports(call: Call, *, dry_run: bool = False) -> Collected:
    """Collect what shells and browsers left; a dry run only counts the files."""
    from threadkeep.home.observed import collect_now, reports_waiting

    try:
        if dry_run:
            return Collected(None, reports_waiting(call.home, call.db))
        return Collected(collect_now(call.home, call.db))
    except ThreadkeepError as error:
        return Collected(None, trouble=error.message)


def collected_words(stored: "Stored") -> str:
    """Write what was collected, leaving out what is zero."""
    more = {
        "updated": stored.updated,
        "known before": stored.known,
        "kept out": stored.excluded,
        "not understood": stored.refused,
    }
    told = [f"{stored.new:,} new", *(f"{count:,} {name}" for name, count in more.items() if count)]
    return f"commands and visits: {', '.join(told)}"

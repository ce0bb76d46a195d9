"""Sessions of which only another program's notes are here: slices in a file that we took over.

They become sessions like all others, so that lists, searches and pages know them. The log itself,
should it be captured, takes their place.
"""

from collections import defaultdict
from collections.abc import Sequence
from itertools import islice
from typing import Any, Final

import msgspec

from threadkeep.base.tx import Tx
from threadkeep.capture.backlog import Backlog
from threadkeep.capture.batches import Batches
from threadkeep.capture.context import CaptureContext
from threadkeep.capture.documents import DocumentCapture
from threadkeep.capture.report import HarnessReport
from threadkeep.knowledge.things import NOTED, noted_so_far
from threadkeep.sources.hippo_notes import READER, HippoNotes
from threadkeep.sources.records import Log, Stamp

_TOGETHER: Final = 200  # sessions whose slices are in memory
_MARK_EVERY: Final = 500  # slices: to write the mark at every capture would be dear
_COLUMNS: Final = (
    *("session_id", "harness", "segment_index", "model", "agent", "project_dir", "cwd"),
    *("git_branch", "slug", "title", "parent_session_id", "is_subagent", "summary_text"),
    *("tool_calls_json", "user_prompts_json", "commit_messages_json", "source_file"),
    *("message_count", "token_count", "start_time", "end_time"),
)


def note_sessions(around: CaptureContext, *, everything: bool = False) -> int:
    """Bring in the sessions of slices that are new, or of all; give how many sessions those are."""
    with around.db.read() as tx:
        seen = noted_so_far(tx)
        last = int(tx.value("last_slice") or 0)
        found = tx.all("noted_sessions", {"after": 0 if everything else seen, "reader": READER})
    by_harness: defaultdict[str, list[str]] = defaultdict(list)
    for harness, session_id in found:
        by_harness[harness].append(session_id)
    for harness, names in by_harness.items():
        waiting = iter(names)
        while some := list(islice(waiting, _TOGETHER)):
            _bring_in(around, harness, some)
    if last > seen and (found or last - seen >= _MARK_EVERY):
        with around.db.write() as tx:
            tx.run("indexed_on", {"kind": NOTED, "upto": last, "rows": 0, "words": 0})
    return len(found)


def _bring_in(around: CaptureContext, harness: str, names: Sequence[str]) -> None:
    with around.db.read(lenient=True) as tx:
        source = HippoNotes(harness, _slices(tx, harness, names))
    log = Log(f"{READER}:{harness}", Stamp(0, 0, 0, 0))  # a file of ours may be moved
    with Batches(around.db) as batches:
        backlog = Backlog(batches)
        DocumentCapture(around, READER, source, log, HarnessReport()).run(backlog)
        backlog.settle()


def _slices(tx: Tx, harness: str, names: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    values = {"harness": harness, "names": msgspec.json.encode(list(names)).decode()}
    slices: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for row in tx.all("slices_of_sessions", values):
        told = dict(zip(_COLUMNS, row, strict=True))
        slices[told["session_id"]].append(told)
    return slices

"""What ended a failure of CI: the commit with which the same job passed again."""

from typing import Any, Final

from threadkeep.base.json import decode
from threadkeep.base.tx import Tx
from threadkeep.errors import Invalid
from threadkeep.knowledge.lessons import LessonKey, note_fix

_LESSONS: Final = 20  # of one pass: the newest without a hint
_SHORT_SHA: Final = 10
_LONGEST_MESSAGE: Final = 160


def learn_ci_fixes(tx: Tx) -> int:
    """Give lessons of CI the commit that ended the failure, where the job passed again."""
    rows = tx.all("ci_lessons_without_hint", {"limit": _LESSONS})
    return sum(_learn(tx, LessonKey(*row)) for row in rows)


def commit_message(raw_json: str) -> str:
    """Give the first line of a run's commit message, else its title; empty if it has neither."""
    try:
        told = decode(raw_json)
    except Invalid:
        return ""
    commit = _table(_table(told).get("head_commit"))
    for value in (commit.get("message"), _table(told).get("display_title")):
        if isinstance(value, str) and value.strip():
            return value.strip().splitlines()[0][:_LONGEST_MESSAGE]
    return ""


def _learn(tx: Tx, key: LessonKey) -> bool:
    failed = tx.one("ci_last_failure", key._asdict())
    if failed is None:
        return False
    job, branch, at = failed
    values = {"repo": key.repo, "job": job, "branch": branch, "at": at}
    passed = tx.one("ci_next_success", values)
    if passed is None:
        return False
    message = commit_message(passed[2])
    said = f": {message}" if message else ""
    return note_fix(tx, key, f"{job} passed again with {passed[1][:_SHORT_SHA]}{said}", passed[3])


def _table(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}

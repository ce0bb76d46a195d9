"""Findings: what a check says about one thing, why that is so, and the one command that helps."""

from collections.abc import Iterable
from typing import Final, Literal

import msgspec

Level = Literal["ok", "info", "warn", "fail"]
LEVELS: Final[tuple[Level, ...]] = ("ok", "info", "warn", "fail")


class Finding(msgspec.Struct, frozen=True):
    """What one check found. `cause` and `fix` are empty where there is nothing to do."""

    group: str
    check: str
    level: Level
    what: str
    cause: str = ""
    fix: str = ""  # one command, or one thing to do
    doc: str = ""  # where more is written


def worst(findings: Iterable[Finding]) -> Level:
    """Give the gravest level among findings."""
    return max((one.level for one in findings), key=LEVELS.index, default="ok")


def ok(group: str, check: str, what: str) -> Finding:
    """Say that something is as it should be."""
    return Finding(group, check, "ok", what)


def all_kept(good: int, total: int, finding: Finding) -> Finding:
    """Give a finding about some of many: whatever its level is, it is ok where all are good."""
    return finding if good < total else ok(finding.group, finding.check, finding.what)

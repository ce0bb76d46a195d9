"""The logs of the bundled demo history, moved in time so that the demo ends today."""

import os
import re
from datetime import UTC, datetime, timedelta, tzinfo
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

from threadkeep.base.files import foreign_holders, make_private_dir, remove_folder
from threadkeep.base.presence import ExclusiveLock
from threadkeep.base.sqlite.backup import remove_with_sidecars

if TYPE_CHECKING:
    from threadkeep.home.home import Home

_FOLDER: Final = "demo-history"
_DAY: Final = ".day"  # the file in the folder that says which day its logs end on
_LOCK: Final = "demo-history.lock"
_LOOKS: Final = 500  # ten seconds: it takes a tenth of one to write them
_HOUR: Final = timedelta(hours=1)
# The forms in which the logs write a time: 2026-03-04T10:20, 2026-03-04 10:20, rollout-…T10-20,
# the folder 2026/03/04, `Mar 4, 2026, 10:20 AM` of Cursor, milliseconds.
_TIME: Final = re.compile(r"(20\d\d-\d\d-\d\d)([T ])(\d\d)(?=[:-]\d\d)")
_WHOLE: Final = re.compile(r"20\d\d-\d\d-\d\d([T ])\d\d:\d\d:\d\d")
_DATE: Final = re.compile(r"\b(20\d\d)([-/])(\d\d)\2(\d\d)\b(?![T ]\d\d[:-]\d\d)")
_WORDS: Final = re.compile(r"[A-Z][a-z]+day, [A-Z][a-z]{2} \d+, 20\d\d, \d+:\d\d [AP]M")
_WORDS_FORM: Final = "%A, %b %d, %Y, %I:%M %p"
_MS: Final = re.compile(r"\b[12]\d{12}\b")


def demo_folder(home: "Home", now: datetime) -> Path:
    """Return the folder of the demo history, laid out like the home of a user.

    Its logs are written into the home once a day, moved so that the last of them ends today. What
    was captured of an older copy goes with it, unless somebody is looking at it.
    """
    today = now.astimezone(ZoneInfo(home.zone))
    folder = home.demo_history.with_name(_FOLDER)
    make_private_dir(folder.parent)
    # Of two that start at once one writes, and the other takes what was written.
    with ExclusiveLock(folder.with_name(_LOCK), "another demo", looks=_LOOKS):
        day = folder / _DAY
        written = day.read_text("utf-8") if day.is_file() else ""  # the last that is written
        if written != str(today.date()):
            _renew(home, folder, today, known=bool(written))
    return folder


def _renew(home: "Home", folder: Path, today: datetime, *, known: bool) -> None:
    looked_at = bool(foreign_holders(home.demo_history))
    if known and looked_at:
        return
    remove_folder(folder)
    if not looked_at:
        remove_with_sidecars(home.demo_history)
    _write(folder, today)


def _write(folder: Path, now: datetime) -> None:
    bundled = resources.files("threadkeep").joinpath("demo", "history")
    logs = {name: one.read_text("utf-8") for name, one in _files(bundled, "")}
    by = moved_by(max(filter(None, (last_time(text, now.tzinfo) for text in logs.values()))), now)
    for name, text in logs.items():
        place = folder / moved(name, by)
        make_private_dir(place.parent)
        place.write_text(moved(text, by), "utf-8")
        if last := last_time(text, now.tzinfo):
            os.utime(place, ((last + by).timestamp(),) * 2)
    (folder / _DAY).write_text(str(now.date()), "utf-8")


def _files(folder: Traversable, before: str) -> list[tuple[str, Traversable]]:
    found = []
    for one in sorted(folder.iterdir(), key=lambda entry: entry.name):
        name = f"{before}{one.name}"
        found += _files(one, f"{name}/") if one.is_dir() else [(name, one)]
    return found


# ---------------------------------------------------------------------- pure


def last_time(text: str, zone: tzinfo | None) -> datetime | None:
    """Return the last time in a log; a `T` means UTC, a blank the clock on the wall."""
    found = [datetime.fromtimestamp(int(ms) / 1000, UTC) for ms in _MS.findall(text)]
    for match in _WHOLE.finditer(text):
        at = datetime.fromisoformat(match[0])
        found.append(at.replace(tzinfo=UTC if match[1] == "T" else zone))
    return max(found, default=None)


def moved_by(last: datetime, now: datetime) -> timedelta:
    """Tell how far to move a history so that it ends today, and not later than now.

    Whole days keep the hours of work; only before the hour in which it ends is it moved by hours.
    """
    by = timedelta(days=(now.date() - last.astimezone(now.tzinfo).date()).days)
    ahead = last + by - now
    return by if ahead <= timedelta() else by + (-ahead) // _HOUR * _HOUR


def moved(text: str, by: timedelta) -> str:
    """Move every time in a text."""
    days = timedelta(days=round(by / timedelta(days=1)))

    def time(match: re.Match[str]) -> str:
        at = datetime.fromisoformat(f"{match[1]}T{match[3]}:00") + by
        return f"{at:%Y-%m-%d}{match[2]}{at:%H}"

    def date(match: re.Match[str]) -> str:
        year, between, month, day = match.groups()
        at = datetime.fromisoformat(f"{year}-{month}-{day}") + days
        return at.strftime(f"%Y{between}%m{between}%d")

    def words(match: re.Match[str]) -> str:
        at = datetime.strptime(match[0], _WORDS_FORM) + by  # noqa: DTZ007  (its zone follows it)
        return f"{at:%A, %b} {at.day}, {at:%Y}, {at.hour % 12 or 12}:{at:%M %p}"

    text = _WORDS.sub(words, _TIME.sub(time, _DATE.sub(date, text)))
    return _MS.sub(lambda match: str(int(match[0]) + by // timedelta(milliseconds=1)), text)

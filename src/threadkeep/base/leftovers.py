"""Files that belong to something that is gone: removed by name, and only in their folder."""

import glob
import logging
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

log = logging.getLogger(__name__)


def remove_leftovers(folder: Path, name: str, patterns: Iterable[str]) -> None:
    """Remove the files of a folder that fit a pattern in which `{}` stands for the name.

    A name that is more than one part of a path removes nothing. What cannot be removed stays.
    """
    if not name or Path(name).name != name:
        return
    for pattern in patterns:
        with suppress(OSError):
            for path in folder.glob(pattern.replace("{}", glob.escape(name))):
                _remove(path)


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        log.info("%s stays: %s", path, error)

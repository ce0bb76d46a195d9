"""What may go wrong with one log without stopping the others, and how it is told."""

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from threadkeep.capture.report import HarnessReport
from threadkeep.errors import NotFound, ThreadkeepError
from threadkeep.sources.records import UnreadablePlace

log = logging.getLogger(__name__)

# What a broken log, or a mistake in the parser of one, raises. An error of the database under the
# store is none of these, and ends the run.
TROUBLES: Final = (
    *(OSError, ThreadkeepError, msgspec.MsgspecError),
    *(ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError),
)


def tell(what: str, error: Exception, part: HarnessReport) -> str:
    """Report what could not be read, and give the reason in words."""
    expected = isinstance(error, (OSError, ThreadkeepError))
    said = str(error) if expected else f"{type(error).__name__}: {error}"
    log.warning("%s: %s", what, said, exc_info=not expected)
    part.errors[what] = said
    return said


def has_vanished(path: str, error: Exception) -> bool:
    """Tell whether an error only means that a log was deleted after it was found."""
    return isinstance(error, (FileNotFoundError, NotFound)) and not exists(Path(path))


def tell_unseen(unseen: Iterable[UnreadablePlace], part: HarnessReport) -> None:
    """Report the places that could not be looked into; a link is not followed, and no error."""
    for one in unseen:
        if one.is_failure:
            log.warning("%s: %s", one.path, one.told)
            part.errors[one.path] = one.told
        else:
            part.passed[one.path] = one.told


def exists(place: Path) -> bool:
    """Tell whether a place is there; one that may not be looked at is not."""
    try:
        return place.exists()
    except OSError:
        return False

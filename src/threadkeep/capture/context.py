"""What a run of capture works with."""

from collections.abc import Callable

import msgspec

from threadkeep.base.sqlite import Database
from threadkeep.capture.exclusion import Exclusion
from threadkeep.capture.harvesting import MachineUser
from threadkeep.redact.engine import MaskedBlock, Redactor
from threadkeep.sources.records import UserHome

# Masks the secrets in a piece of a log, given what stands before and behind it there; the number of
# lines stays the same.
Mask = Callable[[bytes, bytes, bytes], MaskedBlock]


class CaptureContext(msgspec.Struct, frozen=True):
    """The store, whose logs they are, and what is done to every line before it is stored."""

    db: Database
    user: UserHome
    mask: Mask
    clock: Callable[[], int]  # epoch milliseconds
    who: MachineUser
    exclusion: Exclusion
    redactor: Redactor | None = None  # the same for single texts; None: our own rules alone

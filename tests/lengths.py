"""How much of a test is done: a sample in the run of every day, all of it at full length.

Every promise is tested in every run. With THREADKEEP_LONG=1 nothing is left out: `make faults` runs
the fault tools and all tests so.
"""

import os

AT_LENGTH = os.environ.get("THREADKEEP_LONG", "").lower() in {"1", "true", "yes"}


def at_length(full: int, short: int) -> int:
    """Choose a size or a number: all of it at full length, less in the run of every day."""
    return full if AT_LENGTH else short


def examples(full: int) -> int:
    """Say how many examples a property gets: a third of them in the run of every day."""
    return at_length(full, max(full // 3, 5))

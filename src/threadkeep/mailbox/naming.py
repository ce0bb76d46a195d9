"""Names that people gave, made fit for an agent to write and for a folder to bear."""

import re
from collections.abc import Collection
from typing import Final

NAMELESS: Final = "unnamed"

_OTHERS: Final = re.compile("[^a-z0-9]+")
# A file name may have 255 bytes; this leaves room for the number of a collision.
_FOLDER_LENGTH: Final = 100


def local_name(text: str) -> str:
    """Give the name an agent uses: lower-case letters and digits, all else becomes `-`."""
    return _OTHERS.sub("-", text.lower()).strip("-") or NAMELESS


def folder_name(text: str) -> str:
    """Give a local name short enough for a folder."""
    return local_name(text)[:_FOLDER_LENGTH].rstrip("-")


def distinct_name(wanted: str, taken: Collection[str]) -> str:
    """Give the wanted name, or the first of `wanted-2`, `wanted-3`, … that is not taken."""
    name, number = wanted, 1
    while name in taken:
        number += 1
        name = f"{wanted}-{number}"
    return name

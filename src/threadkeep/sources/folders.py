"""Folders and names of other programs, whatever is in them."""

import os
from pathlib import Path


def folders_in(folder: Path) -> list[Path]:
    """List the folders in a folder by name; none if it cannot be looked into."""
    try:
        with os.scandir(folder) as found:
            below = [entry for entry in found if _is_folder(entry)]
    except OSError:
        return []
    return [Path(entry.path) for entry in sorted(below, key=lambda entry: entry.name)]


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def printable(name: str) -> str:
    """Give a file's name as text that can be stored, whatever bytes it was made of."""
    return name.encode("utf-8", "backslashreplace").decode()

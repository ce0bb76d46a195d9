"""Write docs/reference/licences.md: which package is installed for what, and under which licence.

`python scripts/licences.py` reads what the installed packages say of themselves; a test fails when
one of them says something else than the page, or has a licence that nobody has looked at.
"""

import re
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import Final

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from packaging.utils import canonicalize_name

from scripts.hashes import REPO, groups, read_pins

PAGE: Final = REPO / "docs" / "reference" / "licences.md"
# Licences that ask for nothing but to be named along with the code.
PERMISSIVE: Final = frozenset(
    (
        *("0BSD", "Apache-2.0", "BSD", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "MIT", "MIT-0"),
        *("PSF-2.0", "Zlib"),
    )
)
# Any other licence, for a package by its name: why it may be used all the same.
LOOKED_AT: Final = {
    "certifi": (
        "MPL-2.0",
        "a list of certificates that tests and documentation tools read; it is not changed",
    ),
    "hypothesis": ("MPL-2.0", "runs tests; nothing of it is passed on"),
    "pathspec": ("MPL-2.0", "used by the build backend, as it is; nothing of it is passed on"),
    "psycopg": (
        "LGPL-3.0-only",
        "installed beside threadkeep by those who use a server; nothing of it is passed on",
    ),
    "psycopg-binary": ("LGPL-3.0-only", "as psycopg, whose compiled part it is"),
}
# What older packages write, in the names that are used today.
_NAMES: Final = {
    "apache 2.0": "Apache-2.0",
    "apache software license": "Apache-2.0",
    "bsd license": "BSD",
    "mit license": "MIT",
    "mit license, apache license, version 2.0": "MIT OR Apache-2.0",
    "mozilla public license 2.0 (mpl 2.0)": "MPL-2.0",
}
_PURPOSES: Final = {"use": "to use it", "work": "to work on it", "models": "tests with models"}
_HEAD: Final = """<!-- Written by scripts/licences.py from what is installed. -->

# Licences

threadkeep is under the Apache License 2.0. It contains no code of others; these packages are
installed beside it, as they are. `to use it` is what `threadkeep[all]` brings and what builds it,
`to work on it` is for tests and documentation.

| package | licence | needed |
|---|---|---|
"""


def licence_of(name: str) -> str:
    """Return the licence that an installed package names, `unknown` if it names none."""
    told = metadata(name)
    classified = [
        one.rpartition("::")[2].strip()
        for one in told.get_all("Classifier") or []
        if one.startswith("License ::") and one != "License :: DFSG approved"
    ]
    written = [*(told.get_all("License-Expression") or []), *(told.get_all("License") or [])]
    known = (said for said in [*written, *classified] if said != "UNKNOWN" and "\n" not in said)
    said = next(known, "unknown")
    return _NAMES.get(said.lower(), said)


def is_permissive(licence: str) -> bool:
    """Tell whether a licence, or one of a choice, asks for nothing but to be named."""
    choices = [one.strip("()") for one in re.split(r"\s+OR\s+", licence)]
    return any(PERMISSIVE.issuperset(re.split(r"\s+AND\s+", one)) for one in choices)


def refused(name: str, licence: str) -> str:
    """Say why a package may not be used, nothing if it may."""
    looked_at = LOOKED_AT.get(canonicalize_name(name))
    if is_permissive(licence) or (looked_at is not None and looked_at[0] == licence):
        return ""
    return f"{name} is under {licence}: look at it, then name it in LOOKED_AT with the reason"


def installed() -> Iterator[tuple[str, str, str]]:
    """Return every pinned package that is installed, its licence, and what it is needed for."""
    pins = read_pins((REPO / "constraints.txt").read_text("utf-8"))
    for group, names in groups(pins).items():
        for name in names:
            try:
                yield name, licence_of(name), _PURPOSES[group]
            except PackageNotFoundError:
                continue


def rows_of(page: str) -> dict[str, tuple[str, str]]:
    """Read the table of the page: a package's licence, and what it is needed for."""
    found = re.findall(r"^\| (\S+) \| ([^|]+?) \| ([^|]+?) \|", page, re.MULTILINE)
    return {name: (licence, needed) for name, licence, needed in found if name != "package"}


def write_page(rows: dict[str, tuple[str, str]]) -> str:
    """Write the page."""
    lines = [f"| {name} | {told[0]} | {told[1]} |" for name, told in rows.items()]
    notes = [
        f"* **{name}** ({licence}): {reason}."
        for name, (licence, reason) in LOOKED_AT.items()
        if name in rows
    ]
    end = "Licences that ask for more than to be named, and why they are used here all the same:"
    return _HEAD + "\n".join([*lines, "", end, "", *notes, ""])


def main() -> None:
    """Write the page; what is not installed here keeps its row."""
    before = rows_of(PAGE.read_text("utf-8")) if PAGE.exists() else {}
    pins = read_pins((REPO / "constraints.txt").read_text("utf-8"))
    now = before | {name: (licence, needed) for name, licence, needed in installed()}
    rows = {name: now[name] for name in sorted(now, key=str.lower) if name in pins}
    PAGE.write_text(write_page(rows), "utf-8")


if __name__ == "__main__":
    main()

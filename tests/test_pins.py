"""What is installed: its pins with their hashes, its bounds, and under which licence it is."""

import hashlib
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from scripts import hashes, licences
from tests.conftest import REPO

PINS = hashes.read_pins((REPO / "constraints.txt").read_text("utf-8"))
LINE = re.compile(
    r"# Written by scripts/hashes\.py: pip install --require-hashes --no-deps -r hashed/\w+\.txt"
    r"|[\w.-]+==[\w.+]+ \\|    --hash=sha256:[0-9a-f]{64}(?: \\)?"
)


def hashed(group: str) -> dict[str, str]:
    lines = (REPO / "hashed" / f"{group}.txt").read_text("utf-8").splitlines()
    assert [line for line in lines if not LINE.fullmatch(line)] == [], "nothing else, no place"
    return dict(line.removesuffix(" \\").split("==") for line in lines if "==" in line)


def test_every_pin_has_its_hashes() -> None:
    found = {group: hashed(group) for group in ("use", "work", "models")}
    assert {**found["use"], **found["work"], **found["models"]} == PINS, "run scripts/hashes.py"
    assert sum(map(len, found.values())) == len(PINS)
    assert {name: list(pins) for name, pins in found.items()} == hashes.groups(PINS)


def test_what_is_needed_to_use_it_ends_before_the_next_major_version() -> None:
    project = tomllib.loads((REPO / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    asked = [*project["dependencies"], *(one for e in extras for one in extras[e])]
    tools = {canonicalize_name(Requirement(one).name) for one in [*extras["dev"], *extras["docs"]]}
    versions = {canonicalize_name(name): Version(version) for name, version in PINS.items()}
    for requirement in map(Requirement, asked):
        name = canonicalize_name(requirement.name)
        if name == "threadkeep" or name in tools:
            continue
        (end,) = [one.version for one in requirement.specifier if one.operator == "<"]
        assert versions[name] < Version(end), f"{name} is pinned past its bound"
        assert versions[name].major + 1 == Version(end).major, f"{name}: tested with its last one"


# ---------------------------------------------------------------------- the script


def make_wheel(folder: Path, name: str) -> Path:
    """Write a wheel that holds nothing but its name."""
    path = folder / name
    package, version, *_ = name.split("-")
    info = f"{package}-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n"
        )
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
        archive.comment = name.encode()
    return path


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    "archive, usable",
    [
        ("tiny_one-1.0-py3-none-any.whl", True),
        ("tiny_one-1.0.tar.gz", True),
        ("Tiny.One-1.0-cp311-cp311-manylinux_2_17_x86_64.whl", True),
        ("tiny_one-1.0-cp38-abi3-macosx_11_0_arm64.whl", True),
        ("tiny_one-1.0-cp313-cp313-musllinux_1_2_aarch64.whl", True),
        ("tiny_one-1.0-cp310-cp310-manylinux_2_17_x86_64.whl", False),
        ("tiny_one-1.0-cp311-cp311-win_amd64.whl", False),
        ("tiny_one-1.0-pp311-pypy311_pp73-manylinux_2_17_x86_64.whl", False),
        ("tiny_one-1.0-py2-none-any.whl", False),
        ("tiny_one-1.0.1-py3-none-any.whl", False),
        ("tiny_one_more-1.0-py3-none-any.whl", False),
        ("tiny_one-1.0.exe", False),
        ("README", False),
    ],
)
def test_which_archives_count(archive: str, usable: bool) -> None:  # noqa: FBT001
    assert hashes.is_usable(archive, "tiny-one", "1.0") == usable


def test_hashes_are_found_wherever_pip_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index, links = tmp_path / "simple" / "tiny-one", tmp_path / "links"
    index.mkdir(parents=True)
    links.mkdir()
    told = make_wheel(tmp_path, "tiny_one-1.0-py3-none-any.whl")
    untold = make_wheel(links, "tiny_one-1.0-cp311-cp311-manylinux_2_17_x86_64.whl")
    page = f'<a href="../../{told.name}#sha256={sha256(told)}">x</a><a href="gone-9.whl">y</a>'
    (index / "index.html").write_text(page)
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "simple").as_uri())
    monkeypatch.setenv("PIP_FIND_LINKS", str(links))
    indexes, folders = hashes.sources(hashes.pip_settings())
    assert (indexes, folders) == ([(tmp_path / "simple").as_uri()], [str(links)])
    found = hashes.hashes_of("Tiny.One", "1.0", hashes.archives("Tiny.One", indexes, folders))
    assert found == sorted([sha256(told), sha256(untold)])
    assert hashes.sources({"no-index": ["true"], "find-links": ["a"]}) == ([], ["a"])
    answer = '{"files": [{"filename": "a-1.whl", "url": "a-1.whl", "hashes": {"sha256": "0f"}}]}'
    (one,) = hashes.json_links(answer, "https://example.org/simple/a/")
    assert one == ("a-1.whl", "https://example.org/simple/a/a-1.whl", "0f")


@pytest.mark.parametrize("tampered", [False, True])
def test_pip_takes_the_archive_that_was_hashed_and_no_other(
    tmp_path: Path,
    tampered: bool,  # noqa: FBT001
) -> None:
    wheel = make_wheel(tmp_path, "tiny_one-1.0-py3-none-any.whl")
    (tmp_path / "use.txt").write_text(hashes.line_of("tiny-one", "1.0", [sha256(wheel)]) + "\n")
    if tampered:
        with zipfile.ZipFile(wheel, "a") as archive:
            archive.writestr("tiny_one.py", "evil = True")
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--no-deps",
        "--no-index",
        "--require-hashes",
    ]
    command += ["--find-links", str(tmp_path), "--target", str(tmp_path / "site")]
    done = subprocess.run(
        [*command, "-r", str(tmp_path / "use.txt")], capture_output=True, text=True, check=False
    )
    assert (done.returncode == 0) is not tampered, done.stderr
    assert ("DO NOT MATCH THE HASHES" in done.stderr) is tampered


# ---------------------------------------------------------------------- licences


def test_the_page_says_which_package_has_which_licence() -> None:
    page = licences.rows_of(licences.PAGE.read_text("utf-8"))
    assert set(page) == set(PINS), "run scripts/licences.py"
    found = {name: (licence, needed) for name, licence, needed in licences.installed()}
    assert len(found) > len(hashes.groups(PINS)["use"]) / 2
    assert {name: page[name] for name in found} == found, "run scripts/licences.py"
    assert licences.write_page(page) == licences.PAGE.read_text("utf-8")


def test_a_licence_that_nobody_looked_at_is_refused() -> None:
    page = licences.rows_of(licences.PAGE.read_text("utf-8"))
    assert [why for name, row in page.items() if (why := licences.refused(name, row[0]))] == []
    bad = ("unknown", "GPL-3.0-only", "MIT AND LGPL-2.1", "AGPL-3.0 OR SSPL-1.0", "MPL-2.0", "")
    assert all(licences.refused("some-package", licence) for licence in bad)
    assert licences.refused("certifi", "GPL-3.0-only")
    assert not licences.refused("some-package", "GPL-2.0 OR (MIT AND Zlib)")
    names = {canonicalize_name(name) for name in PINS}
    assert set(licences.LOOKED_AT) <= names
    assert all(reason for _, reason in licences.LOOKED_AT.values())

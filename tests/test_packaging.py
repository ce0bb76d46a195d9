"""The wheel holds all that the program needs, and runs away from the source tree."""

import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.conftest import REPO

SRC = REPO / "src"


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel, which needs no network, and unpack it as an installer would."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=REPO, check=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def run(site: Path, *arguments: str) -> str:
    """Run `python -m threadkeep` on the unpacked wheel, not on the source tree."""
    environment = os.environ | {"PYTHONPATH": str(site), "THREADKEEP_HOME": str(site.parent)}
    done = subprocess.run(
        [sys.executable, "-m", "threadkeep", *arguments],
        cwd=site.parent,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout


def files_below(folder: Path) -> set[str]:
    found = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}
    return {name for name in found if "__pycache__" not in name}


def test_the_wheel_holds_every_file_of_the_package(unpacked: Path) -> None:
    packed = files_below(unpacked / "threadkeep")
    assert packed == files_below(SRC / "threadkeep")
    assert "py.typed" in packed


# The scripts that make a contract's fresh files: one database each, but for the mailbox's three.
HEADS = {"mailbox": {"inbound.sql", "outbound.sql", "index.sql"}}


def test_every_contract_brings_its_sql(unpacked: Path) -> None:
    package = unpacked / "threadkeep"
    stores = [
        name for name in ("chat", "state", "mailbox", "knowledge") if (package / name).is_dir()
    ]
    assert "chat" in stores
    for name in stores:
        assert HEADS.get(name, {"head.sql"}) <= files_below(package / name / "sql"), name


def test_the_demo_conversation_is_in_the_wheel(unpacked: Path) -> None:
    data = {name for name in files_below(unpacked / "threadkeep") if not name.endswith(".py")}
    assert [name for name in data if "demo" in name] != []


def test_the_module_runs_from_the_wheel_and_tells_the_version(unpacked: Path) -> None:
    version = tomllib.loads((REPO / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    assert version in run(unpacked, "--version")


def test_the_default_install_is_light() -> None:
    project = tomllib.loads((REPO / "pyproject.toml").read_text("utf-8"))["project"]
    names = {requirement.partition(">=")[0] for requirement in project["dependencies"]}
    assert names == {"ahocorasick_rs", "click", "msgspec", "rich", "zstandard"}

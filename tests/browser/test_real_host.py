"""The whole way: installed by our command, driven in Chromium, found in the spool."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.chromium import Chromium, chromium
from tests.browser.conftest import EXTENSION_ID
from tests.browser.pages import PAGES, PROSE
from threadkeep.capture.observed.envelopes import read_line
from threadkeep.knowledge.records import Heartbeat, Visit

pytestmark = pytest.mark.slow

SETTINGS = """\
[browser]
min_dwell_ms = 0
strip_params = ["token"]
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with settings, and the host installed for Chromium by the command."""
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "config.toml").write_text(SETTINGS, "utf-8")
    around = os.environ | {
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "THREADKEEP_HOME": str(folder),
    }
    command = [sys.executable, "-m", "threadkeep", "browser", "install", "chromium"]
    subprocess.run(command, env=around, check=True, capture_output=True)
    return folder


@pytest.fixture
def browser(home: Path, tmp_path: Path) -> Iterator[Chromium]:
    profile = tmp_path / "config" / "chromium"  # where the installation put the manifest
    with chromium(profile, PAGES) as pipe:
        given = Chromium(pipe, profile, EXTENSION_ID)
        given.load_extension(home / "browser" / "extension-chromium")
        yield given


def test_a_page_that_was_read_is_in_the_spool(browser: Chromium, home: Path) -> None:
    browser.stored("config", "value.domains && value.minDwellMs === 0")
    browser.read("http://docs.rs/?token=abc&page=2").leave()
    browser.stored("sent", "value.count === 1")
    found = [
        read_line(line, "spool")
        for file in sorted((home / "spool").glob("*.jsonl"))
        for line in file.read_bytes().splitlines()
    ]
    (visit,) = (one for one in found if isinstance(one, Visit))
    assert visit.url == "http://docs.rs/?page=2"
    assert (visit.title, visit.domain) == ("Spools & threads", "docs.rs")
    assert visit.extracted_text == PROSE.strip()
    assert any(isinstance(one, Heartbeat) and one.source == "browser" for one in found)

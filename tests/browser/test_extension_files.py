"""The extension as files: what it asks for, what it may do, and that nothing in it is from afar."""

import json
import re
import struct
import tomllib
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.browser.chromium import EXTENSION, manifest
from tests.browser.conftest import EXTENSION_ID
from tests.conftest import REPO
from threadkeep.capture.observed.browsers import extension_id
from threadkeep.capture.observed.visits import DEFAULT_DOMAINS

SCRIPTS = sorted(EXTENSION.glob("*.js"))
MANIFESTS = ("manifest.json", "manifest.firefox.json")


@pytest.fixture(params=MANIFESTS)
def described(request: pytest.FixtureRequest) -> dict[str, Any]:
    return manifest(request.param)


def test_the_sites_are_those_of_the_host(described: dict[str, Any]) -> None:
    assert described["host_permissions"] == [f"*://*.{domain}/*" for domain in DEFAULT_DOMAINS]


def test_both_browsers_get_the_same_extension() -> None:
    ours, theirs = map(manifest, MANIFESTS)
    differing = {key for key in ours | theirs if ours.get(key) != theirs.get(key)}
    of_chromium = {"key", "minimum_chrome_version"}
    assert differing == {"background", "browser_specific_settings", *of_chromium}


def test_the_id_in_chromium_follows_from_the_key() -> None:
    assert extension_id(manifest()["key"]) == EXTENSION_ID


def test_the_manifest_for_firefox_is_one_that_firefox_takes() -> None:
    described = manifest("manifest.firefox.json")
    gecko = described["browser_specific_settings"]["gecko"]
    assert gecko["id"] == "threadkeep@local"
    # The first version in which a user can add sites to an extension like this one.
    assert float(gecko["strict_min_version"]) >= 128
    assert gecko["data_collection_permissions"] == {"required": ["none"]}
    assert described["background"] == {"scripts": ["background.js"], "type": "module"}


def test_it_asks_for_no_more_than_it_needs(described: dict[str, Any]) -> None:
    assert described["manifest_version"] == 3
    assert set(described["permissions"]) == {
        *("activeTab", "alarms", "nativeMessaging", "scripting", "storage"),
    }
    assert described["incognito"] == "not_allowed"
    assert "content_scripts" not in described  # registered when it is on
    assert "web_accessible_resources" not in described
    assert "externally_connectable" not in described


def test_its_pages_load_nothing_from_elsewhere(described: dict[str, Any]) -> None:
    policy = described["content_security_policy"]["extension_pages"]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert {rules["script-src"], rules["style-src"], rules["img-src"]} == {"'self'"}
    assert "connect-src" not in rules  # nothing, as default-src says


def test_the_version_is_that_of_the_package(described: dict[str, Any]) -> None:
    project = tomllib.loads((REPO / "pyproject.toml").read_text("utf-8"))["project"]
    assert described["version"] == project["version"]


def named_files(described: dict[str, Any]) -> set[str]:
    """Files that a manifest, a page or another script names."""
    background = described["background"]
    found = {*background.get("scripts", []), background.get("service_worker", "background.js")}
    found |= {described["action"]["default_popup"], *described["icons"].values()}
    popup = (EXTENSION / "popup.html").read_text("utf-8")
    found |= set(re.findall(r'(?:src|href)="([^"]+)"', popup))
    for script in SCRIPTS:
        text = script.read_text("utf-8")
        found |= set(re.findall(r'^(?:import|\} from|export).*"\./([^"]+)"', text, re.MULTILINE))
    pages = (EXTENSION / "pages.js").read_text("utf-8")
    (listed,) = re.findall(r"FILES = (\[.*\])", pages)
    return found | set(json.loads(listed))


def test_every_file_is_there_and_used(described: dict[str, Any]) -> None:
    there = {
        path.relative_to(EXTENSION).as_posix() for path in EXTENSION.rglob("*") if path.is_file()
    }
    assert named_files(described) == there - set(MANIFESTS)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_no_script_runs_text_or_fetches(script: Path) -> None:
    text = script.read_text("utf-8")
    risky = r"\beval\(|\bFunction\(|innerHTML|outerHTML|document\.write|\bfetch\(|XMLHttpRequest"
    assert re.findall(risky + r"|WebSocket|import\(|https?://[a-z]", text) == []
    assert max(map(len, text.splitlines())) <= 120


def test_icons_are_as_large_as_the_manifest_says(described: dict[str, Any]) -> None:
    for size, name in described["icons"].items():
        head = (EXTENSION / name).read_bytes()[:24]
        assert head[:8] == b"\x89PNG\r\n\x1a\n"
        assert struct.unpack(">II", head[16:]) == (int(size), int(size))
    assert all(int(a) < int(b) for a, b in pairwise(described["icons"]))

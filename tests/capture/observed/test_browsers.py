"""Installing the host for browsers: manifests where they look, a script that starts, no harm."""

import json
import os
import stat
import subprocess
import sys
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from threadkeep.capture.observed.browsers import (
    BROWSERS,
    InstallContext,
    extension_id,
    install,
    manifest_folder,
    packaged_extension,
    plan_install,
    plan_uninstall,
    uninstall,
)
from threadkeep.errors import Conflict, Invalid, ReadOnly

KEY = b64encode(b"a public key").decode()
EXTENSION = {
    "manifest.json": json.dumps({"name": "for Chromium", "key": KEY}).encode(),
    "manifest.firefox.json": b'{"name": "for Firefox"}',
    "background.js": b"// works",
    "icons/16.png": b"\x89PNG",
}
ID = "alhdeipkadijhameiomahmnhdlgcfhpd"  # of KEY, from sha256sum and tr


def around(tmp_path: Path, **changes: Any) -> InstallContext:
    values: dict[str, Any] = {
        "environ": {"HOME": str(tmp_path / "me")},
        "platform": "linux",
        "python": sys.executable,
        "data": tmp_path / "da ta's",
    }
    return InstallContext(**(values | changes))


def install_for(browser: str, where: InstallContext, **options: bool) -> tuple[Path, ...]:
    return install(plan_install(browser, where, EXTENSION, **options))


def manifest(browser: str, where: InstallContext, name: str = "threadkeep") -> dict[str, Any]:
    path = manifest_folder(browser, where) / f"{name}.json"
    found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return found


def files_below(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


@pytest.mark.parametrize(
    "browser, linux, macos",
    [
        ("firefox", ".mozilla/native-messaging-hosts", "Mozilla"),
        ("librewolf", ".librewolf/native-messaging-hosts", "LibreWolf"),
        ("chromium", ".config/chromium/NativeMessagingHosts", "Chromium"),
        ("chrome", ".config/google-chrome/NativeMessagingHosts", "Google/Chrome"),
        (
            "brave",
            ".config/BraveSoftware/Brave-Browser/NativeMessagingHosts",
            "BraveSoftware/Brave-Browser",
        ),
        ("edge", ".config/microsoft-edge/NativeMessagingHosts", "Microsoft Edge"),
        ("vivaldi", ".config/vivaldi/NativeMessagingHosts", "Vivaldi"),
    ],
)
def test_manifests_go_where_the_browser_looks(
    browser: str, linux: str, macos: str, tmp_path: Path
) -> None:
    assert manifest_folder(browser, around(tmp_path)) == tmp_path / "me" / linux
    support = tmp_path / "me" / "Library" / "Application Support"
    mac = around(tmp_path, platform="darwin")
    assert manifest_folder(browser, mac) == support / macos / "NativeMessagingHosts"


def test_chromium_follows_the_folder_for_configuration(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path / "me"), "XDG_CONFIG_HOME": str(tmp_path / "conf")}
    folder = manifest_folder("chrome", around(tmp_path, environ=environ))
    assert folder == tmp_path / "conf/google-chrome/NativeMessagingHosts"
    odd = around(tmp_path, environ=environ | {"XDG_CONFIG_HOME": "relative"})
    assert tmp_path / "me" in manifest_folder("chrome", odd).parents


@pytest.mark.parametrize("browser", [b for b in BROWSERS if BROWSERS[b].family == "chromium"])
def test_a_chromium_is_told_the_origin_of_the_extension(browser: str, tmp_path: Path) -> None:
    where = around(tmp_path)
    install_for(browser, where)
    found = manifest(browser, where)
    assert found.pop("description")
    assert found == {
        "name": "threadkeep",
        "path": str(where.data / "browser/native-host"),
        "type": "stdio",
        "allowed_origins": [f"chrome-extension://{ID}/"],
    }
    assert files_below(where.data / "browser/extension-chromium") == {
        name: EXTENSION[name] for name in ("manifest.json", "background.js", "icons/16.png")
    }


@pytest.mark.parametrize("browser", ["firefox", "librewolf"])
def test_a_firefox_is_told_the_id_of_the_extension(browser: str, tmp_path: Path) -> None:
    where = around(tmp_path)
    install_for(browser, where)
    assert manifest(browser, where)["allowed_extensions"] == ["threadkeep@local"]
    copied = files_below(where.data / "browser/extension-firefox")
    assert copied["manifest.json"] == EXTENSION["manifest.firefox.json"]
    assert sorted(copied) == ["background.js", "icons/16.png", "manifest.json"]


def test_the_next_step_is_told(tmp_path: Path) -> None:
    where = around(tmp_path)
    said = plan_install("edge", where, EXTENSION).next_step
    assert "edge://extensions" in said
    assert str(where.data / "browser/extension-chromium") in said
    said = plan_install("firefox", where, EXTENSION).next_step
    assert "about:debugging" in said
    assert str(where.data / "browser/extension-firefox/manifest.json") in said


def test_a_plan_writes_nothing(tmp_path: Path) -> None:
    plan = plan_install("firefox", around(tmp_path), EXTENSION, hippo=True)
    assert {step.change for step in plan.steps} == {"new"}
    assert list(tmp_path.iterdir()) == []


def test_installing_twice_changes_nothing(tmp_path: Path) -> None:
    where = around(tmp_path)
    assert len(install_for("chrome", where)) == 5
    before = files_below(tmp_path)
    assert {step.change for step in plan_install("chrome", where, EXTENSION).steps} == {"same"}
    assert install_for("chrome", where) == ()
    assert files_below(tmp_path) == before


def test_what_changed_is_written_anew(tmp_path: Path) -> None:
    where = around(tmp_path)
    install_for("chrome", where)
    script = where.data / "browser/native-host"
    script.chmod(0o777)
    newer = EXTENSION | {"background.js": b"// works better"}
    written = install(plan_install("chrome", where, newer))
    assert written == (script, where.data / "browser/extension-chromium/background.js")
    assert stat.S_IMODE(script.stat().st_mode) == 0o700


def test_everything_is_for_the_owner_alone(tmp_path: Path) -> None:
    where = around(tmp_path)
    old = os.umask(0)
    try:
        install_for("firefox", where, hippo=True)
    finally:
        os.umask(old)
    modes = {p: stat.S_IMODE(p.stat().st_mode) for p in tmp_path.rglob("*")}
    script = where.data / "browser/native-host"
    assert modes.pop(script) == 0o700
    assert {mode for path, mode in modes.items() if path.is_dir()} == {0o700}
    assert {mode for path, mode in modes.items() if path.is_file()} == {0o600}


# --- the script


def fake_python(tmp_path: Path) -> Path:
    """Make a program in an awkward place that prints its arguments and its environment."""
    program = tmp_path / "it's $HOME `x`" / "python"
    program.parent.mkdir()
    names = "THREADKEEP_HOME THREADKEEP_CONFIG XDG_DATA_HOME XDG_CONFIG_HOME"
    program.write_text(
        '#!/bin/sh\nprintf "%s\\n" "$@"\n'
        f'for n in {names}; do eval "printf \'%s\\n\' \\"$n=\\${{$n-}}\\""; done\n'
    )
    program.chmod(0o700)
    return program


def run_script(where: InstallContext, *arguments: str) -> list[str]:
    script = where.data / "browser/native-host"
    shown = subprocess.run([script, *arguments], env={}, capture_output=True, text=True, check=True)
    return shown.stdout.splitlines()


def test_the_script_starts_the_host_and_passes_on_what_the_browser_says(tmp_path: Path) -> None:
    where = around(tmp_path, python=str(fake_python(tmp_path)))
    install_for("firefox", where)
    said = run_script(where, "/a b/threadkeep.json", "threadkeep@local")
    expected = ["-P", "-m", "threadkeep", "native-host", "/a b/threadkeep.json", "threadkeep@local"]
    assert said == [
        *expected,
        *("THREADKEEP_HOME=", "THREADKEEP_CONFIG=", "XDG_DATA_HOME=", "XDG_CONFIG_HOME="),
    ]


def test_the_script_knows_the_places_that_were_set(tmp_path: Path) -> None:
    named = {
        "HOME": str(tmp_path / "me"),
        "THREADKEEP_HOME": "~/x",
        "THREADKEEP_CONFIG": "/c/it's.toml",
        "XDG_CONFIG_HOME": str(tmp_path),
    }
    where = around(tmp_path, python=str(fake_python(tmp_path)), environ=named)
    install_for("firefox", where)
    assert run_script(where)[4:] == [
        f"THREADKEEP_HOME={where.data}",
        "THREADKEEP_CONFIG=/c/it's.toml",
        "XDG_DATA_HOME=",
        f"XDG_CONFIG_HOME={tmp_path}",
    ]


# --- other programs' manifests


def test_hippos_extension_can_be_given_our_host(tmp_path: Path) -> None:
    where = around(tmp_path)
    install_for("firefox", where, hippo=True)
    found = manifest("firefox", where, "hippo_daemon")
    assert (found["name"], found["allowed_extensions"]) == ("hippo_daemon", ["hippo-browser@local"])
    assert found["path"] == manifest("firefox", where)["path"]
    with pytest.raises(Invalid, match="Hippo"):
        plan_install("chrome", where, EXTENSION, hippo=True)


def foreign_link(path: Path) -> None:
    target = path.with_name("elsewhere.json")
    target.write_text('{"path": "/x/browser/native-host"}')
    path.symlink_to(target)


@pytest.mark.parametrize(
    "make",
    [
        lambda path: path.write_text('{"name": "hippo_daemon", "path": "/opt/hippo"}'),
        lambda path: path.write_text("not JSON"),
        lambda path: path.write_text("[1]"),
        foreign_link,
        lambda path: path.symlink_to("/nowhere/at/all"),
    ],
)
def test_a_foreign_manifest_is_never_overwritten_without_a_word(
    make: Callable[[Path], object], tmp_path: Path
) -> None:
    where = around(tmp_path)
    path = manifest_folder("firefox", where) / "hippo_daemon.json"
    path.parent.mkdir(parents=True)
    make(path)
    before = (os.path.realpath(path), path.read_bytes() if path.exists() else b"")
    plan = plan_install("firefox", where, EXTENSION, hippo=True)
    assert [step.path for step in plan.steps if step.change == "foreign"] == [path]
    with pytest.raises(Conflict, match=r"hippo_daemon\.json"):
        install(plan)
    assert not where.data.exists(), "refused whole"
    assert path in install(plan, replace=True)
    assert manifest("firefox", where, "hippo_daemon")["path"].endswith("native-host")
    assert path in uninstall("firefox", where)
    assert (os.path.realpath(path), path.read_bytes() if path.exists() else b"") == before


def test_a_manifest_of_another_data_folder_is_ours(tmp_path: Path) -> None:
    install_for("firefox", around(tmp_path, data=tmp_path / "old"))
    where = around(tmp_path)
    written = install_for("firefox", where)
    assert manifest_folder("firefox", where) / "threadkeep.json" in written
    assert manifest("firefox", where)["path"].startswith(str(where.data))


# --- uninstalling


def test_uninstalling_leaves_nothing_but_folders(tmp_path: Path) -> None:
    where = around(tmp_path)
    install_for("firefox", where, hippo=True)
    planned = plan_uninstall("firefox", where)
    assert [path.name for path in planned] == [
        *("threadkeep.json", "hippo_daemon.json", "native-host", "extension-firefox"),
    ]
    assert uninstall("firefox", where) == planned
    assert files_below(tmp_path) == {}
    assert uninstall("firefox", where) == ()


def test_uninstalling_keeps_what_other_browsers_use(tmp_path: Path) -> None:
    where = around(tmp_path)
    for browser in ("chrome", "brave", "firefox"):
        install_for(browser, where)
    assert [path.name for path in uninstall("chrome", where)] == ["threadkeep.json"]
    assert [path.name for path in uninstall("firefox", where)] == [
        *("threadkeep.json", "extension-firefox"),
    ]
    assert install_for("brave", where) == ()


def test_uninstalling_does_not_touch_foreign_manifests(tmp_path: Path) -> None:
    where = around(tmp_path)
    path = manifest_folder("firefox", where) / "hippo_daemon.json"
    path.parent.mkdir(parents=True)
    path.write_text('{"path": "/opt/hippo"}')
    install_for("firefox", where)
    uninstall("firefox", where)
    assert path.read_text() == '{"path": "/opt/hippo"}'


# --- what cannot be


def test_unknown_browsers_and_systems_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="netscape"):
        plan_install("netscape", around(tmp_path), EXTENSION)
    with pytest.raises(Invalid, match="Windows"):
        plan_install("chrome", around(tmp_path, platform="win32"), EXTENSION)
    with pytest.raises(Invalid, match="Python"):
        plan_install("chrome", around(tmp_path, python=""), EXTENSION)
    with pytest.raises(Invalid, match="UTF-8"):
        plan_install("chrome", around(tmp_path, data=Path("/a\udcff")), EXTENSION)


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    where = around(tmp_path)
    (tmp_path / "me").write_text("a file where the home should be")
    with pytest.raises(ReadOnly, match="native-messaging-hosts"):
        install_for("firefox", where)


# --- the extension


def test_chromiums_ids_are_made_of_the_key() -> None:
    assert extension_id(KEY) == ID
    with pytest.raises(Invalid, match="base64"):
        extension_id("no key!")


@given(st.binary(), st.binary())
def test_an_id_is_32_letters_and_belongs_to_one_key(one: bytes, other: bytes) -> None:
    ids = [extension_id(b64encode(key).decode()) for key in (one, other)]
    assert (ids[0] == ids[1]) == (one == other)
    assert all(len(name) == 32 and set(name) <= set("abcdefghijklmnop") for name in ids)


@pytest.mark.parametrize("browser", ["firefox", "chromium"])
def test_the_extension_in_the_package_can_be_installed(browser: str, tmp_path: Path) -> None:
    where = around(tmp_path)
    install(plan_install(browser, where, packaged_extension()))
    folder = where.data / f"browser/extension-{browser}"
    shipped = json.loads((folder / "manifest.json").read_text("utf-8"))
    icons = shipped["icons"].values()
    assert all((folder / icon).is_file() for icon in icons)
    named = manifest(browser, where)
    if browser == "firefox":
        ids = [shipped["browser_specific_settings"]["gecko"]["id"]]
        assert named["allowed_extensions"] == ids
    else:
        ids = [f"chrome-extension://{extension_id(shipped['key'])}/"]
        assert named["allowed_origins"] == ids

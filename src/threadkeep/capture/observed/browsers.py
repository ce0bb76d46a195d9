"""Telling browsers where the native-messaging host is, and laying the extension ready.

A browser looks for a manifest with the host's name in a folder of its own, and starts the program
that the manifest names. That program is a small script in the data folder, so that the manifest
stays right when Python or the environment of the browser is another one.
"""

import os
import shlex
import tempfile
from base64 import b64decode
from collections.abc import Iterator, Mapping
from hashlib import sha256
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from shutil import rmtree
from typing import Any, Final, Literal, NamedTuple

import msgspec

from threadkeep.base.files import PRIVATE_FILE, make_private_dir, translate_os
from threadkeep.base.json import decode, encode
from threadkeep.base.paths import expand
from threadkeep.errors import Conflict, Invalid

HOST_NAME: Final = "threadkeep"
FIREFOX_EXTENSION: Final = "threadkeep@local"
HIPPO_HOST: Final = "hippo_daemon"
HIPPO_EXTENSION: Final = "hippo-browser@local"
PRIVATE_PROGRAM: Final = 0o700

Family = Literal["firefox", "chromium"]
Change = Literal["new", "same", "changed", "foreign"]


class Browser(NamedTuple):
    """Where a browser looks for manifests, and how its pages for extensions are called."""

    family: Family
    linux: str  # Chromium's below the folder for configuration, Firefox's below the home
    macos: str  # below ~/Library/Application Support
    page: str


BROWSERS: Final[Mapping[str, Browser]] = {
    "firefox": Browser("firefox", ".mozilla", "Mozilla", "about:debugging"),
    "librewolf": Browser("firefox", ".librewolf", "LibreWolf", "about:debugging"),
    "chromium": Browser("chromium", "chromium", "Chromium", "chrome://extensions"),
    "chrome": Browser("chromium", "google-chrome", "Google/Chrome", "chrome://extensions"),
    "brave": Browser(
        "chromium",
        "BraveSoftware/Brave-Browser",
        "BraveSoftware/Brave-Browser",
        "brave://extensions",
    ),
    "edge": Browser("chromium", "microsoft-edge", "Microsoft Edge", "edge://extensions"),
    "vivaldi": Browser("chromium", "vivaldi", "Vivaldi", "vivaldi://extensions"),
}

_SCRIPT: Final = ("browser", "native-host")
_MANIFESTS: Final = {"chromium": "manifest.json", "firefox": "manifest.firefox.json"}
_ASIDE: Final = ".before-threadkeep"
# A browser that was not started from a shell does not know what the shell sets.
_BAKED: Final = ("THREADKEEP_CONFIG", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME")


class InstallContext(msgspec.Struct, frozen=True):
    """The machine as far as an installation needs it; `data` is the data folder, absolute."""

    environ: Mapping[str, str]
    platform: str  # as sys.platform says it
    python: str  # as sys.executable says it
    data: Path


class BrowserInstallStep(msgspec.Struct, frozen=True):
    """One file that belongs to an installation, and what is in its place now."""

    path: Path
    content: bytes
    mode: int
    change: Change


class BrowserInstallPlan(msgspec.Struct, frozen=True):
    """What an installation will write; nothing has been written yet."""

    browser: str
    steps: tuple[BrowserInstallStep, ...]
    next_step: str


def packaged_extension() -> dict[str, bytes]:
    """Read the extension that comes with threadkeep: the names of its files, and their bytes."""
    folder = resources.files("threadkeep.capture.observed").joinpath("extension")
    return dict(_files_in(folder, ""))


def extension_id(public_key: str) -> str:
    """Return the id that Chromium derives from the `key` of an extension's manifest."""
    try:
        der = b64decode(public_key, validate=True)
    except ValueError:
        raise Invalid(
            "the `key` of an extension's manifest is not base64",
            hint="it is the public key in DER form, in base64",
        ) from None
    digits = sha256(der).hexdigest()[:32]
    return "".join(chr(ord("a") + int(digit, 16)) for digit in digits)


def plan_install(
    browser: str, around: InstallContext, extension: Mapping[str, bytes], *, hippo: bool = False
) -> BrowserInstallPlan:
    """Find out what to write so that a browser knows the host; nothing is written yet.

    With `hippo`, Hippo's own extension for Firefox finds threadkeep in the place of its host.
    """
    kind = known_browser(browser)
    if hippo and kind.family != "firefox":
        raise Invalid(
            f"Hippo has no extension for {browser}", hint="leave --hippo out, or name firefox"
        )
    script = around.data.joinpath(*_SCRIPT)
    folder = manifest_folder(browser, around)
    manifests = [(HOST_NAME, _who_may(kind.family, extension))]
    manifests += [(HIPPO_HOST, {"allowed_extensions": [HIPPO_EXTENSION]})] if hippo else []
    target = _extension_folder(kind.family, around)
    return BrowserInstallPlan(
        browser=browser,
        steps=(
            _step(script, _script(around), PRIVATE_PROGRAM),
            *(
                _step(target / name, content, PRIVATE_FILE)
                for name, content in _chosen(extension, kind.family)
            ),
            *(
                _manifest_step(folder / f"{name}.json", _manifest(name, script, allowed))
                for name, allowed in manifests
            ),
        ),
        next_step=_next_step(kind, target),
    )


def install(plan: BrowserInstallPlan, *, replace: bool = False) -> tuple[Path, ...]:
    """Write what a plan says; give the files that are new or changed.

    The manifest of another program is refused unless `replace` is set; then it is kept beside
    ours, and comes back with `uninstall`.
    """
    foreign = [step.path for step in plan.steps if step.change == "foreign"]
    if foreign and not replace:
        raise Conflict(
            f"{foreign[0]} belongs to another program; nothing was written",
            hint="inspect it; --replace moves it aside and `browser uninstall` restores it",
        )
    due = [step for step in plan.steps if step.change != "same"]
    for step in due:
        try:
            _write(step)
        except OSError as error:
            raise translate_os(error, step.path, "cannot write") from error
    return tuple(step.path for step in due)


def plan_uninstall(browser: str, around: InstallContext) -> tuple[Path, ...]:
    """Name what belongs to this browser alone: its manifests, then what no other one uses."""
    kind = known_browser(browser)
    own = tuple(_our_manifests(browser, around))
    others = [b for b in BROWSERS if b != browser and any(_our_manifests(b, around))]
    shared = [around.data.joinpath(*_SCRIPT)] if not others else []
    if not any(BROWSERS[other].family == kind.family for other in others):
        shared.append(_extension_folder(kind.family, around))
    return (*own, *(path for path in shared if path.exists()))


def uninstall(browser: str, around: InstallContext) -> tuple[Path, ...]:
    """Remove what `plan_uninstall` names; a manifest that was put aside comes back."""
    paths = plan_uninstall(browser, around)
    for path in paths:
        try:
            _remove(path)
        except OSError as error:
            raise translate_os(error, path, "cannot remove") from error
    return paths


def known_browser(name: str) -> Browser:
    """Return what is known about a browser."""
    if name not in BROWSERS:
        raise Invalid(f"{name!r} is not a supported browser", hint="one of " + ", ".join(BROWSERS))
    return BROWSERS[name]


def manifest_folder(browser: str, around: InstallContext) -> Path:
    """Return the folder where a browser looks for the manifests of this user."""
    kind, home = known_browser(browser), expand("~", around.environ)
    if around.platform == "darwin":
        return home / "Library" / "Application Support" / kind.macos / "NativeMessagingHosts"
    if around.platform == "win32":
        raise Invalid("browsers on Windows are not supported", hint="use Linux or macOS")
    if kind.family == "firefox":
        return home / kind.linux / "native-messaging-hosts"
    config = Path(around.environ.get("XDG_CONFIG_HOME", ""))
    base = config if config.is_absolute() else home / ".config"
    return base / kind.linux / "NativeMessagingHosts"


def _files_in(folder: Traversable, prefix: str) -> Iterator[tuple[str, bytes]]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _files_in(entry, f"{prefix}{entry.name}/")
        else:
            yield prefix + entry.name, entry.read_bytes()


def _chosen(extension: Mapping[str, bytes], family: Family) -> Iterator[tuple[str, bytes]]:
    """Yield the files for one family of browsers; its manifest gets the name that it must have."""
    for name, content in extension.items():
        if name == _MANIFESTS[family]:
            yield "manifest.json", content
        elif name not in _MANIFESTS.values():
            yield name, content


def _extension_folder(family: Family, around: InstallContext) -> Path:
    return around.data / "browser" / f"extension-{family}"


def _who_may(family: Family, extension: Mapping[str, bytes]) -> dict[str, list[str]]:
    """Name the extension that may start the host, in the words of the browser's family."""
    if family == "firefox":
        return {"allowed_extensions": [FIREFOX_EXTENSION]}
    key = decode(extension[_MANIFESTS[family]])["key"]
    return {"allowed_origins": [f"chrome-extension://{extension_id(key)}/"]}


def _manifest(name: str, script: Path, allowed: Mapping[str, list[str]]) -> bytes:
    value: dict[str, Any] = {
        "name": name,
        "description": "threadkeep keeps the pages that you read",
        "path": _as_text(script),
        "type": "stdio",
        **allowed,
    }
    return msgspec.json.format(encode(value).encode(), indent=2) + b"\n"


def _script(around: InstallContext) -> bytes:
    """Write the program that browsers start, with what it needs from today's environment."""
    if not around.python:
        raise Invalid("the path of Python is not known", hint="run threadkeep with a full path")
    named = {name: around.environ[name] for name in _BAKED if around.environ.get(name)}
    if around.environ.get("THREADKEEP_HOME"):
        named["THREADKEEP_HOME"] = _as_text(around.data)
    # -P: whatever lies in the folder where the browser was started is not imported.
    lines = [
        "#!/bin/sh",
        *(f"export {name}={shlex.quote(value)}" for name, value in sorted(named.items())),
        f'exec {shlex.quote(around.python)} -P -m threadkeep native-host "$@"',
    ]
    return os.fsencode("\n".join(lines) + "\n")


def _as_text(path: Path) -> str:
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise Invalid(
            f"{str(path)!a} is not UTF-8, and a browser's manifest must be",
            hint="choose another data folder",
        ) from None
    return os.path.abspath(path)


def _step(path: Path, content: bytes, mode: int) -> BrowserInstallStep:
    return BrowserInstallStep(path, content, mode, _change(path, content, mode))


def _manifest_step(path: Path, content: bytes) -> BrowserInstallStep:
    is_theirs = os.path.lexists(path) and not _is_ours(path)
    return BrowserInstallStep(
        path, content, PRIVATE_FILE, "foreign" if is_theirs else _change(path, content)
    )


def _change(path: Path, content: bytes, mode: int = PRIVATE_FILE) -> Change:
    try:
        is_same = path.read_bytes() == content and path.stat().st_mode & 0o777 == mode
    except FileNotFoundError:
        return "new"
    except OSError as error:
        raise translate_os(error, path, "cannot read") from error
    return "same" if is_same else "changed"


def _is_ours(path: Path) -> bool:
    """Tell whether a manifest starts our script, in whatever data folder; never through a link."""
    try:
        value = None if path.is_symlink() else decode(path.read_bytes())
    except (OSError, Invalid):
        return False
    program = value.get("path") if isinstance(value, dict) else None
    return isinstance(program, str) and Path(program).parts[-2:] == _SCRIPT


def _our_manifests(browser: str, around: InstallContext) -> Iterator[Path]:
    folder = manifest_folder(browser, around)
    paths = (folder / f"{name}.json" for name in (HOST_NAME, HIPPO_HOST))
    return (path for path in paths if _is_ours(path))


def _write(step: BrowserInstallStep) -> None:
    """Put a file in its place in one step, for the owner alone."""
    make_private_dir(step.path.parent)
    if step.change == "foreign":
        step.path.replace(_aside(step.path))
    descriptor, spare = tempfile.mkstemp(prefix=".threadkeep-", dir=step.path.parent)
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123  (a descriptor)
            file.write(step.content)
        Path(spare).chmod(step.mode)
        Path(spare).replace(step.path)
    except OSError:
        Path(spare).unlink(missing_ok=True)
        raise


def _remove(path: Path) -> None:
    if path.is_dir():
        rmtree(path)
        return
    path.unlink()
    if os.path.lexists(_aside(path)):
        _aside(path).replace(path)


def _aside(path: Path) -> Path:
    return path.with_name(path.name + _ASIDE)


def _next_step(kind: Browser, target: Path) -> str:
    if kind.family == "chromium":
        return (
            f"open {kind.page}, switch on developer mode, "
            f"choose “Load unpacked” and the folder {target}"
        )
    return (
        f"open {kind.page}, choose “This Firefox”, then “Load Temporary Add-on” and "
        f"{target / 'manifest.json'}; that lasts until the browser ends. To keep it, zip the "
        "content of that folder and add the file in a browser that takes unsigned extensions "
        "(xpinstall.signatures.required = false in about:config)"
    )

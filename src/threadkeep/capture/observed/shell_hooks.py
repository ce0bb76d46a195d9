"""Installing the shell hooks: a hook file in the data folder, one marked block in a start-up file.

The start-up files belong to the user. Nothing but the block is changed in them: mode, links, line
ends and a missing last newline stay, and taking the block out restores every byte.
"""

import contextlib
import os
import secrets
import stat
import sys
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Final, Literal

import msgspec

from threadkeep.base.files import PRIVATE_FILE, make_private_dir, sync_dir, translate_os
from threadkeep.errors import Conflict, Invalid

SHELLS: Final = ("zsh", "bash", "fish")
SPOOL: Final = "spool"

_PLACEHOLDER: Final = "'@SPOOL@'"
_BEGIN: Final = b"# >>> threadkeep: `threadkeep shell-init` wrote this, --uninstall takes it out"
_END: Final = b"# <<< threadkeep\n"
# Behind the first line: what else has to go with the block.
_ENDED_LINE: Final = b" (and the line end before it)"
_NEW_FILE: Final = b" (and the file)"
_START_UP_MODE: Final = 0o644
_ANY: Final = "the start-up file"  # in an error, when nobody says which

Action = Literal["create", "change", "keep", "remove"]


class ShellInstallStep(msgspec.Struct, frozen=True):
    """One file of a plan: what is done with it, and what it holds afterwards."""

    action: Action
    path: Path  # behind any links
    content: bytes = b""
    mode: int = PRIVATE_FILE


class ShellInstallPlan(msgspec.Struct, frozen=True):
    """What an installation or its removal does, file by file and in this order."""

    shell: str
    steps: tuple[ShellInstallStep, ...]

    @property
    def changes(self) -> tuple[ShellInstallStep, ...]:
        """The files that are not yet as they should be."""
        return tuple(step for step in self.steps if step.action != "keep")


def render(shell: str, spool: Path) -> str:
    """Return the text of a shell's hook, which writes to this spool folder."""
    _check(shell)
    file = resources.files("threadkeep.capture.observed.hooks").joinpath(f"hook.{shell}")
    return file.read_text(encoding="utf-8").replace(_PLACEHOLDER, quoted(shell, str(spool)))


def quoted(shell: str, text: str) -> str:
    """Quote any text as one word of a shell."""
    if shell == "fish":
        return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return "'" + text.replace("'", "'\\''") + "'"


def install(
    shell: str,
    environ: Mapping[str, str],
    data: Path,
    *,
    platform: str = sys.platform,
    dry_run: bool = False,
) -> ShellInstallPlan:
    """Write the hook of a shell and load it in the start-up files; done again, it changes nothing.

    A dry run gives the same plan and writes nothing.
    """
    hook = _hook_file(shell, data)
    spool = _absolute(data) / SPOOL
    block = os.fsencode(loading(shell, hook))
    steps = (
        _writing(hook, os.fsencode(render(shell, spool))),
        *(_adding(file, block) for file in start_up_files(shell, environ, platform)),
    )
    if not dry_run:
        make_private_dir(spool)
        _carry_out(steps)
    return ShellInstallPlan(shell, steps)


def uninstall(
    shell: str,
    environ: Mapping[str, str],
    data: Path,
    *,
    platform: str = sys.platform,
    dry_run: bool = False,
) -> ShellInstallPlan:
    """Take the block out of the start-up files again, byte for byte, and remove the hook.

    Shells that run already keep their hook, and what they wrote to the spool stays.
    """
    hook = _hook_file(shell, data)
    # The hook goes last: a start-up file never names one that is not there.
    steps = (
        *(_taking_out(file) for file in start_up_files(shell, environ, platform)),
        ShellInstallStep("keep" if _read(hook) is None else "remove", hook),
    )
    if not dry_run:
        _carry_out(steps)
    return ShellInstallPlan(shell, steps)


def start_up_files(shell: str, environ: Mapping[str, str], platform: str) -> tuple[Path, ...]:
    """Name the files that an interactive shell of this user reads when it starts."""
    _check(shell)
    home = _home(environ)
    if shell == "zsh":
        return (Path(environ.get("ZDOTDIR") or home, ".zshrc"),)
    if shell == "fish":
        config = environ.get("XDG_CONFIG_HOME") or home / ".config"
        return (Path(config, "fish", "conf.d", "threadkeep.fish"),)
    # Terminals on macOS start login shells, which do not read .bashrc.
    login = (home / ".bash_profile",) if platform == "darwin" else ()
    return (home / ".bashrc", *login)


def loading(shell: str, hook: Path) -> str:
    """Return the line that loads a hook where it is, and says nothing where it is not."""
    file = quoted(shell, str(hook))
    if shell == "fish":
        return f"test -r {file}; and source {file}"
    if shell == "bash":
        return f"if [[ -r {file} ]]; then source {file}; fi"
    # Read with zsh's own options and without aliases, whatever the user has set.
    sourcing = quoted(shell, f"source {file}")
    return f"if [[ -r {file} ]]; then emulate zsh -o no_aliases -c {sourcing}; fi"


# ------------------------------------------------------------------ the block in a start-up file


def with_block(content: bytes | None, block: bytes, name: str = _ANY) -> bytes:
    """Put the block at the end of a start-up file, or in the place of the one that is there.

    None is a file that does not exist. The block has plain line ends even where the file has
    others: a shell would take a carriage return for a part of the command.
    """
    if content is None:
        return _block(block, _NEW_FILE)
    found = _find(content, name)
    if found is not None:
        begin, end, goes_too = found
        return content[:begin] + _block(block, goes_too) + content[end:]
    if content and not content.endswith(b"\n"):
        return content + b"\n" + _block(block, _ENDED_LINE)
    return content + _block(block, b"")


def without_block(content: bytes, name: str = _ANY) -> bytes | None:
    """Return a start-up file as it was before the block was put in; None: it did not exist."""
    found = _find(content, name)
    if found is None:
        return content
    begin, end, goes_too = found
    before, after = content[:begin], content[end:]
    if goes_too == _ENDED_LINE and not after:  # what was added since needs the line end
        before = before.removesuffix(b"\n")
    return None if goes_too == _NEW_FILE and not before + after else before + after


def _block(block: bytes, goes_too: bytes) -> bytes:
    return _BEGIN + goes_too + b"\n" + block + b"\n" + _END


def _find(content: bytes, name: str) -> tuple[int, int, bytes] | None:
    """Find the block: its first byte, the one after its last, and what has to go with it."""
    begin = content.find(_BEGIN)
    if begin < 0:
        return None
    line_end, end = content.find(b"\n", begin), content.find(_END, begin)
    if end < 0:
        raise Conflict(
            f"{name} has the first line of threadkeep's block but not its last",
            hint=f"by hand, remove what follows {_BEGIN[:16].decode()!r}, then try again",
        )
    return begin, end + len(_END), content[begin + len(_BEGIN) : line_end]


# ------------------------------------------------------------------ plans


def _adding(file: Path, block: bytes) -> ShellInstallStep:
    return _writing(file, with_block(_read(file), block, str(file)), _START_UP_MODE)


def _taking_out(file: Path) -> ShellInstallStep:
    content = _read(file)
    if content is None:
        return ShellInstallStep("keep", file)
    left = without_block(content, str(file))
    return ShellInstallStep("remove", file.resolve()) if left is None else _writing(file, left)


def _writing(file: Path, content: bytes, mode: int = PRIVATE_FILE) -> ShellInstallStep:
    """Plan to give a file this content; one that is there keeps its mode."""
    real = file.resolve()  # a dotfile manager's link stays a link
    there = _read(real)
    if there is None:
        return ShellInstallStep("create", real, content, mode)
    kept = stat.S_IMODE(real.stat().st_mode)
    return ShellInstallStep("keep" if there == content else "change", real, content, kept)


def _carry_out(steps: tuple[ShellInstallStep, ...]) -> None:
    for step in steps:
        try:
            if step.action == "remove":
                step.path.unlink()
            elif step.action != "keep":
                _replace(step)
        except OSError as error:
            raise translate_os(error, step.path, "cannot write") from error


def _replace(step: ShellInstallStep) -> None:
    """Write a file whole, or not at all: beside it first, and then in its place."""
    folder = step.path.parent
    make_private_dir(folder)
    spare = folder / f".{step.path.name}.{secrets.token_hex(6)}.new"
    try:
        descriptor = os.open(spare, os.O_CREAT | os.O_EXCL | os.O_WRONLY, PRIVATE_FILE)
        with open(descriptor, "wb") as file:  # noqa: PTH123  (a descriptor)
            file.write(step.content)
            _dress(file.fileno(), step)
            file.flush()
            os.fsync(file.fileno())
        spare.replace(step.path)
    except BaseException:
        with contextlib.suppress(OSError):
            spare.unlink()
        raise
    sync_dir(folder)


def _dress(descriptor: int, step: ShellInstallStep) -> None:
    """Give the new file the owner and the mode of the old one."""
    if step.action == "change":
        old = step.path.stat()
        with contextlib.suppress(PermissionError):  # only root may give a file away
            os.fchown(descriptor, old.st_uid, old.st_gid)
    os.fchmod(descriptor, step.mode)


def _read(file: Path) -> bytes | None:
    try:
        return file.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise translate_os(error, file, "cannot read") from error


# ------------------------------------------------------------------ what is asked for


def _hook_file(shell: str, data: Path) -> Path:
    _check(shell)
    return _absolute(data) / "hooks" / f"hook.{shell}"


def _absolute(data: Path) -> Path:
    """A shell looks from any folder, so what it is told must not depend on where we are."""
    return Path(os.path.abspath(data))


def _check(shell: str) -> None:
    if shell not in SHELLS:
        raise Invalid(f"there is no hook for the shell {shell!r}", hint="known: zsh, bash, fish")


def _home(environ: Mapping[str, str]) -> Path:
    home = environ.get("HOME")
    if not home:
        raise Invalid(
            "HOME is not set, so there is no start-up file",
            hint="set HOME to your home folder",
        )
    return Path(home)

"""Places that refuse: a full disk, a read-only folder."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.conftest import cannot_run


def _mount(*args: str) -> None:
    done = subprocess.run(["mount", *args], capture_output=True, text=True, check=False)
    if done.returncode:
        cannot_run(f"cannot mount here: {done.stderr.strip()}")


@contextmanager
def small_disk(folder: Path, size: str = "2m") -> Iterator[Path]:
    """Mount a file system of a few megabytes; needs root."""
    if os.geteuid() != 0:
        cannot_run("needs root to mount a small file system")
    folder.mkdir()
    _mount("-t", "tmpfs", "-o", f"size={size}", "threadkeep-test", str(folder))
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=False)


def fill(folder: Path) -> Path:
    """Use up what is left of a disk; give the file that does."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"\0" * 4096)
        except OSError:
            return filler


@contextmanager
def read_only(path: Path) -> Iterator[None]:
    """Make a folder or file read-only; root, who may write anywhere, needs a mount for that."""
    if os.geteuid() != 0:
        mode = path.stat().st_mode
        path.chmod(mode & ~0o222)
        try:
            yield
        finally:
            path.chmod(mode)
        return
    _mount("--bind", str(path), str(path))
    try:
        _mount("-o", "remount,bind,ro", str(path))
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=False)

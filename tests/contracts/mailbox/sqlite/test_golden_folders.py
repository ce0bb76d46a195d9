"""Folders of the real NanoClaw, 2.0.64 and 2.1.54 (optional test data): what we make of them."""

import os
from pathlib import Path

import pytest

from tests.conftest import REPO
from tests.support.mail_golden import TOLD, GoldenFolder, expected_of

_NAMED = os.environ.get("THREADKEEP_SHARED")
_ROOT = (Path(_NAMED) if _NAMED else REPO.parent / "shared") / "data" / "mailbox_new"


def _cases() -> list[tuple[str, str]]:
    folders = sorted(path.parent for path in _ROOT.glob("*/expected.json"))
    return [(f.name, key) for f in folders for key in expected_of(f) if key not in TOLD]


@pytest.mark.skipif(
    not _cases(), reason="needs the folders of mailbox_new; set THREADKEEP_SHARED to their home"
)
@pytest.mark.parametrize("name, key", _cases())
def test_a_real_folder_gives_what_it_should(tmp_path: Path, name: str, key: str) -> None:
    folder = _ROOT / name
    GoldenFolder(folder, expected_of(folder), tmp_path).check(key)

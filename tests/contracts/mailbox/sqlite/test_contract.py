"""The contract holds in folders that NanoClaw made, too."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.nanoclaw import make_folder
from threadkeep.testing import MailboxFactory, MailPair
from threadkeep.testing.mailbox_suite import *  # noqa: F403


class NanoClawFolders(MailboxFactory):
    """Mailboxes in folders that NanoClaw's host made, or one of its first builds."""

    def __init__(self, *, older: bool) -> None:
        super().__init__()
        self._older = older

    def place(self, store: MailPair | None = None) -> str:
        place = super().place(store)
        if store is None:
            make_folder(Path(place), older=self._older)
        return place


@pytest.fixture(params=[False, True], ids=["today", "first builds"])
def mailbox_factory(request: pytest.FixtureRequest) -> Iterator[MailboxFactory]:
    with NanoClawFolders(older=request.param) as factory:
        yield factory

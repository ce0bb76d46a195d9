"""What tests of the mailbox begin with: a factory of mailboxes."""

import pytest

from tests.support.mail import MailFactory


@pytest.fixture
def factory(mailbox_factory: MailFactory) -> MailFactory:
    return mailbox_factory

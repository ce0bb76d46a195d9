"""Clean messages stay as they are: one in a thousand may be altered, no more."""

from pathlib import Path
from random import Random

import pytest

from tests.lengths import at_length
from tests.redact.clean import from_transcripts, synthetic
from threadkeep.redact import Redactor

REDACTOR = Redactor.default()


def test_synthetic_messages_stay() -> None:
    messages = list(synthetic(Random(3), at_length(20_000, 5_000)))
    altered = [message for message in messages if REDACTOR.text(message) is not message]
    assert len(altered) <= len(messages) // 1000, altered[:3]


@pytest.mark.slow
def test_real_messages_stay(shared_data: Path) -> None:
    every = at_length(1, 5)
    messages = list(from_transcripts(shared_data / "data" / "harness"))[:100_000:every]
    altered = [message for message in messages if REDACTOR.text(message) != message]
    assert len(messages) > 10_000 // every
    assert len(altered) <= len(messages) // 1000, altered[:3]

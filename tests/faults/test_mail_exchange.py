"""A host and an agent exchange mail and are killed at any moment: nothing is lost, nothing twice.

`make faults` makes a thousand rounds of it.
"""

from pathlib import Path

import pytest

from tests.faults.mail_exchange import Exchange

pytestmark = [pytest.mark.faults, pytest.mark.slow]


def test_rounds_of_kills_lose_nothing_and_repeat_nothing(tmp_path: Path) -> None:
    score = Exchange(tmp_path, seed=401).run(20)
    print(score)
    assert score.mails == 80
    assert score.kills >= 20
    assert score.answers >= score.mails - score.given_up

"""Every public format of secrets is masked, wherever it stands; the share is printed."""

import json
from collections import Counter
from collections.abc import Callable
from random import Random

import pytest

from tests.capture.redact.formats import ALONE, NAMED, WRITTEN, draw, is_gone, planted
from tests.lengths import at_length
from threadkeep.capture.redact.engine import Redactor

REDACTOR = Redactor.default()
Record = Callable[[str, object], None]


def ways(text: str) -> list[str]:
    """Return a text without its secrets: as it is, in a line of JSON, in JSON within JSON."""
    line = json.dumps({"type": "user", "message": {"content": text}})
    nested = json.dumps({"output": json.dumps({"stdout": text})}) + "\n"
    once = json.loads(REDACTOR.json_line(line))["message"]["content"]
    twice = json.loads(json.loads(REDACTOR.block(nested))["output"])["stdout"]
    return [REDACTOR.text(text), once, twice]


def test_ninety_nine_of_a_hundred_secrets_of_every_format_are_masked(
    record_property: Record,
) -> None:
    tried: Counter[str] = Counter()
    missed: Counter[str] = Counter()
    for name, value, text in planted(Random(15), at_length(40, 3)):
        for masked in ways(text):
            tried[name] += 1
            missed[name] += not is_gone(value, masked)
    recall = 1 - missed.total() / tried.total()
    told = f"{recall:.2%} of {tried.total()} secrets in {len(tried)} formats are masked"
    record_property("figure", f"redaction: {told}")
    assert len(tried) >= 220
    assert recall >= 0.99, missed.most_common(5)
    assert [name for name in tried if missed[name] > tried[name] // 2] == []


@pytest.mark.parametrize("field", ["id", "session_id", "callID", "signature"])
def test_a_form_that_cannot_be_mistaken_is_masked_in_an_identifier_too(field: str) -> None:
    secret = draw(Random(3), ALONE["github"])
    assert json.loads(REDACTOR.json_line(json.dumps({field: secret}))) == {field: "[REDACTED]"}


def test_the_shapes_are_drawn_as_they_are_written() -> None:
    assert len(draw(Random(1), NAMED["beamer"].shape)) == 46
    assert draw(Random(1), WRITTEN["freemius"][1]).startswith("sk_")
    assert draw(Random(1), "(a|b){3}[c]{2}").startswith(("a", "b"))

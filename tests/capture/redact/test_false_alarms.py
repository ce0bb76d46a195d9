"""What is no secret stays as it is: made lines, and real transcripts; the masks are counted."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from tests.capture.redact.clean import synthetic
from tests.capture.redact.harmless import TEXTS, lines
from tests.lengths import at_length
from threadkeep.capture.redact.engine import Redactor

REDACTOR = Redactor.default()
Record = Callable[[str, object], None]
MOST = 5
# What was looked at by a person and is a secret, or stands for one in a test: the first half of
# the digest of each value.
REVIEWED = frozenset({"b40ae5f1fc71413e98278b1598011ad9"})


def test_synthetic_messages_stay() -> None:
    messages = list(synthetic(Random(3), at_length(20_000, 5_000)))
    altered = [message for message in messages if REDACTOR.text(message) is not message]
    assert len(altered) <= len(messages) // 1000, altered[:3]


@pytest.mark.parametrize("text", TEXTS)
def test_code_and_prose_about_secrets_stay(text: str) -> None:
    assert REDACTOR.text(text) is text


def test_identifiers_and_pictures_stay(record_property: Record) -> None:
    made = list(lines(Random(7), at_length(2_000, 150)))
    altered = [line for line in made if REDACTOR.json_line(line) is not line]
    record_property("figure", f"redaction: {len(altered)} of {len(made)} harmless lines are masked")
    assert altered == []


def masks_in(path: Path) -> Iterator[tuple[str, str]]:
    """Return the rule and the value of every mask of a log."""
    data = path.read_bytes()
    masked = REDACTOR.block(data)
    if masked is not data:
        for line, new in zip(data.split(b"\n"), masked.split(b"\n"), strict=True):
            if line != new:
                text = line.decode("utf-8", "replace")
                yield from ((one.rule, text[one.start : one.end]) for one in REDACTOR.scan(text))


def test_few_masks_on_real_transcripts_are_false(
    shared_data: Path, record_property: Record
) -> None:
    logs = [
        path
        for folder in ("harness", "harness2")
        for path in sorted((shared_data / "data" / folder).rglob("*"))
        if path.suffix in {".jsonl", ".json", ".md", ".log", ".txt"}
    ]
    found = [(rule, value) for path in logs for rule, value in masks_in(path)]
    size = sum(path.stat().st_size for path in logs) / 1e6
    false = [
        one for one in found if hashlib.sha256(one[1].encode()).hexdigest()[:32] not in REVIEWED
    ]
    told = f"{len(false)} of {len(found)} masks on {size:.0f} MB of real transcripts are false"
    record_property("figure", f"redaction: {told}")
    assert size > 40
    assert len(false) <= MOST, Counter(rule for rule, _ in false)

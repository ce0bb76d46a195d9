"""The replies of the fault tests are worth something only if they are telling."""

from collections import Counter

from tests.faults.replies import digest, moments, revision_of, story
from threadkeep.chat.wire.protocol import validate_chunk

KEYS = [f"k{number}" for number in range(60)]
KINDS = (
    *("start", "start-step", "finish-step", "reset-step", "finish", "abort", "error"),
    *("text-start", "text-delta", "text-end"),
    *("reasoning-start", "reasoning-delta", "reasoning-end"),
    *("tool-input-start", "tool-input-delta", "tool-input-available", "tool-input-error"),
    *("tool-output-available", "tool-output-error", "tool-output-denied"),
    *("tool-approval-request", "tool-approval-response"),
    *("file", "source-url", "source-document", "data-progress", "data-passing", "custom"),
    *("message-metadata", "from-the-future"),
)


def test_every_kind_of_chunk_comes_up() -> None:
    chunks = [chunk for key in KEYS for segment in story(key).segments for chunk in segment]
    seen = Counter(validate_chunk(chunk)["type"] for chunk in chunks)
    assert set(seen) == set(KINDS)
    assert max(sum(map(len, story(key).segments)) for key in KEYS) > 500


def test_the_same_key_tells_the_same_story() -> None:
    assert story("k1") == story("k1")
    assert story("k1") != story("k2")


def test_a_revision_is_known_by_its_looks_alone() -> None:
    for key in KEYS:
        looks: dict[str, int] = {}
        for moment in moments(story(key)):
            assert looks.setdefault(moment.digest, moment.rev) == moment.rev
        assert len(set(looks.values())) == len(looks)


def test_a_revision_is_found_by_its_looks() -> None:
    told = list(moments(story("k18")))
    for moment in (told[0], told[len(told) // 2], told[-1]):
        assert revision_of("k18", moment.digest) == moment.rev
    assert revision_of("k18", digest({"role": "assistant", "parts": []})) == -1

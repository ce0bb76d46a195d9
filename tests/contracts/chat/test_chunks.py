"""Which chunks are well formed."""

from typing import Any

import pytest

from tests.support.streams import random_case
from threadkeep.chat.wire.protocol import validate_chunk
from threadkeep.errors import Invalid


@pytest.mark.parametrize(
    "chunk, names",
    [
        (None, "object"),
        ([], "list"),
        ("text-start", "str"),
        ({}, "type"),
        ({"type": 1}, "type"),
        ({"type": "text-start"}, '"id"'),
        ({"type": "text-delta", "id": "1"}, '"delta"'),
        ({"type": "text-delta", "id": 1, "delta": "x"}, '"id" must be a string, found int'),
        ({"type": "reasoning-end", "id": None}, '"id"'),
        ({"type": "tool-input-start", "toolCallId": "c"}, '"toolName"'),
        ({"type": "tool-input-delta", "toolCallId": "c"}, '"inputTextDelta"'),
        ({"type": "tool-output-error", "toolCallId": "c"}, '"errorText"'),
        ({"type": "tool-approval-response", "approvalId": "a", "approved": 1}, '"approved"'),
        ({"type": "file", "url": "u"}, '"mediaType"'),
        ({"type": "start", "messageId": 5}, '"messageId"'),
        ({"type": "start", "messageMetadata": "x"}, '"messageMetadata" must be an object'),
        ({"type": "data-x", "id": 5}, '"id"'),
        ({"type": "data-x", "transient": "yes"}, '"transient" must be true or false'),
        ({"type": "text-start", "id": "1", "providerMetadata": []}, '"providerMetadata"'),
    ],
)
def test_malformed_chunks_are_refused_with_the_field_named(chunk: object, names: str) -> None:
    with pytest.raises(Invalid) as caught:
        validate_chunk(chunk)
    assert names in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    "chunk",
    [
        {"type": "from-the-future", "id": 5},
        {"type": "text-start", "id": "1", "providerMetadata": None, "more": 1},
        {"type": "tool-output-available", "toolCallId": "c"},
        {"type": "message-metadata", "messageMetadata": None},
        {"type": "data-x"},
    ],
)
def test_unknown_types_extra_fields_and_nulls_pass(chunk: dict[str, Any]) -> None:
    assert validate_chunk(chunk) is chunk


def test_everything_the_generator_makes_is_well_formed() -> None:
    for seed in range(200):
        for version in (6, 7):
            for chunk in random_case(seed, version)["chunks"]:
                validate_chunk(chunk, version)

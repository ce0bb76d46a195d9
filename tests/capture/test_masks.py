"""Masks over the edges of lines, pieces and captures; what is noted of them."""

from pathlib import Path
from random import Random

import pytest

from tests.capture.redact.formats import draw, pem
from tests.support.toy_sources import conversation
from tests.support.worlds import World
from threadkeep.capture.redact.engine import MaskedBlock, Redactor
from threadkeep.sources import files
from threadkeep.testing import KnowledgeFactory

REDACTOR = Redactor.default()


@pytest.fixture
def world(tmp_path: Path, knowledge_factory: KnowledgeFactory) -> World:
    made = World(tmp_path, knowledge_factory)
    made.mask = REDACTOR.piece
    return made


def key(seed: int) -> list[str]:
    """Make the lines of a private key."""
    return pem(Random(seed)).split("\n")


def body_left(world: World, lines: list[str]) -> list[str]:
    """Return the lines of a key that can still be read in the archive."""
    kept = b"\n".join(world.raw()).decode()
    return [line for line in lines[1:-1] if line[8:40] in kept]


def notes(world: World) -> list[tuple[int, str, int]]:
    return world.ask("SELECT line, rule, place FROM tk_masks ORDER BY line, place")


MARKS = ("{}", "#### {}", "> {}", "  12\u2192{}", "+{}", "| {}")


@pytest.mark.parametrize("mark", MARKS)
def test_a_key_in_lines_that_are_no_json_is_masked_line_by_line(world: World, mark: str) -> None:
    lines = key(1)
    text = "\n".join(["before", *(mark.format(line) for line in lines), "behind"]) + "\n"
    world.write(conversation(1) + text.encode())
    world.capture()
    assert body_left(world, lines) == []
    assert len(world.raw()) == len(lines) + 3
    assert (world.raw()[1], world.raw()[-1]) == (b"before", b"behind")


def test_a_key_that_is_still_being_written_is_masked_in_every_capture(world: World) -> None:
    lines = key(2)
    world.write(conversation(1))
    world.capture()
    for line in lines:
        world.append(line.encode() + b"\n")
        world.capture()
    world.append(b"behind the key\n")
    world.capture()
    assert body_left(world, lines) == []
    assert world.raw()[-1] == b"behind the key"


@pytest.mark.parametrize("size", [90, 200, 333])
def test_a_key_over_the_edges_of_pieces_is_masked(
    world: World, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "PIECE_BYTES", size)
    lines = key(3)
    world.write(conversation(1) + ("\n".join(lines) + "\nbehind\n").encode())
    world.capture()
    assert body_left(world, lines) == []
    assert world.raw()[-1] == b"behind"


@pytest.mark.parametrize("shift", range(0, 44, 4))
def test_a_secret_over_the_cut_of_a_long_line_is_masked_on_both_sides(
    world: World, shift: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "LONGEST_LINE", 1000)
    monkeypatch.setattr(files, "PIECE_BYTES", 128)
    secret = draw(Random(4), "ghp_[0-9a-zA-Z]{36}")
    start = 1000 - shift
    long = b"x" * (start - 1) + b" " + secret.encode() + b" " + b"y" * 500 + b"\n"
    world.write(long + conversation(1))
    world.capture()
    whole = b"".join(world.raw())
    assert not any(secret[at : at + 8].encode() in whole for at in range(len(secret) - 7))
    assert len(world.raw()) == 3


def test_words_after_a_key_stay(world: World) -> None:
    lines = ["see -----BEGIN RSA PRIVATE KEY----- in the file", "and then go on with the work"]
    world.write(conversation(1) + ("\n".join(lines) + "\n").encode())
    world.capture()
    assert [line.decode() for line in world.raw()[1:]] == lines


def test_a_mask_notes_its_rule_and_its_place_and_nothing_else(world: World) -> None:
    secret = draw(Random(5), "ghp_[0-9a-zA-Z]{36}")
    world.write(conversation(2) + f'{{"text": "a {secret} b {secret} c"}}\n'.encode())
    world.capture()
    line = world.raw()[2]
    first = line.find(b"[REDACTED]")
    second = line.find(b"[REDACTED]", first + 1)
    assert notes(world) == [(2, "github-token", first), (2, "github-token", second)]
    assert secret[8:20].encode() not in world.stored()


def test_the_same_lines_in_other_pieces_have_the_same_masks() -> None:
    lines = [
        "{}",
        "log line",
        *key(6),
        "more",
        '{"a": "' + draw(Random(6), "AKIA[A-Z2-7]{16}") + '"}',
    ]
    data = ("\n".join(lines) + "\n").encode()
    whole = REDACTOR.block(data)
    masked = b""
    for cut in range(len(lines)):
        before = "".join(line + "\n" for line in lines[:cut]).encode()
        masked += REDACTOR.piece(lines[cut].encode() + b"\n", before).data
    assert masked == whole
    assert whole.count(b"\n") == data.count(b"\n")


def test_a_clean_piece_is_the_same_object() -> None:
    data = b'{"text": "the token is wrong"}\nplain\n'
    assert REDACTOR.piece(data, b"before\n", b"") == MaskedBlock(data)
    assert REDACTOR.piece(data).data is data

"""Damage as fuzzers do it: a share of all bits flipped, the same for the same seed."""

import random


def flip_bits(data: bytes, ratio: float, seed: int) -> bytes:
    """Flip this share of the bits, at places drawn from a seed."""
    rng = random.Random(seed)
    changed = bytearray(data)
    bits = len(data) * 8
    for _ in range(round(bits * ratio)):
        place = rng.randrange(bits)
        changed[place >> 3] ^= 1 << (place & 7)
    return bytes(changed)


def replace_bytes(data: bytes, ratio: float, seed: int) -> bytes:
    """Put any byte in the place of this share of the bytes; line feeds come and go."""
    rng = random.Random(seed)
    changed = bytearray(data)
    for _ in range(max(1, round(len(data) * ratio)) if data else 0):
        changed[rng.randrange(len(data))] = (
            rng.choice(b'\n\0"{}\\[],:\xff\x80\x1b') if (rng.random() < 0.5) else rng.randrange(256)
        )
    return bytes(changed)

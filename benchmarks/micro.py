"""`ids` and `json`: what is called for every chunk and every row."""

import json as stdlib
import secrets
import uuid
from collections.abc import Callable, Mapping
from functools import partial

import msgspec

from benchmarks.corpus import Json, Writer
from benchmarks.measure import Counters, in_turn, median_of, used_by
from benchmarks.place import Place
from benchmarks.report import Result, Table, figure, ratio, times
from threadkeep.base import json
from threadkeep.base.hashes import checksum, content_hash
from threadkeep.base.ids import IdSource

_MICRO = 1e6
_LOOPS = 5_000
_PART = 940
Call = Callable[[], object]


def run_ids(place: Place) -> Result:
    """Mint ids beside the usual random ones."""
    mint = IdSource().new
    ways: dict[str, Call] = {
        "threadkeep, rising": partial(mint, "msg"),
        "uuid.uuid4, random": lambda: f"msg_{uuid.uuid4().hex}",
        "secrets.token_hex, random": lambda: f"msg_{secrets.token_hex(13)}",
    }
    return Result([_table("ids: one id", place, ways)])


def run_json(place: Place) -> Result:
    """Encode and decode a part and a chunk; hash a row."""
    part = {"type": "text", "text": Writer(5).text(_PART - 60), "state": "done"}
    chunk = {"type": "text-delta", "id": "p", "delta": "ten letter"}
    return Result(
        [
            _table(f"json: a part of {_PART} bytes", place, _json_ways(part)),
            _table("json: a chunk of 50 bytes", place, _json_ways(chunk)),
            _table("hashes: a row of 940 bytes", place, _hash_ways(json.encode(part))),
        ]
    )


def _json_ways(value: Json) -> dict[str, Call]:
    text = json.encode(value)
    packed = msgspec.json.encode(value)
    return {
        "encode, threadkeep (exact or refused)": partial(json.encode, value),
        "encode, msgspec alone": lambda: msgspec.json.encode(value).decode(),
        "encode, standard library": partial(stdlib.dumps, value),
        "decode, threadkeep": partial(json.decode, text),
        "decode, msgspec alone": partial(msgspec.json.decode, packed),
        "decode, standard library": partial(stdlib.loads, text),
    }


def _hash_ways(text: str) -> dict[str, Call]:
    row = ("prt_0", "msg_0", "ses_0", 0, "text", text, None, None, 1, 1, None)
    return {
        "content_hash of a part row": partial(content_hash, *row),
        "checksum of a journal row": partial(checksum, *row),
    }


def _table(title: str, place: Place, ways: Mapping[str, Call]) -> Table:
    timed = {name: partial(used_by, partial(_repeat, way)) for name, way in ways.items()}
    runs = in_turn(timed, place.either(9, 5))
    costs: dict[str, Counters] = {name: median_of(found) for name, found in runs.items()}
    first = next(iter(costs.values()))
    rows = [
        (name, figure(cost.cpu / _LOOPS * _MICRO, 2), times(ratio(cost.cpu, first.cpu)))
        for name, cost in costs.items()
    ]
    return Table(title, ("way", "CPU µs", "to the first"), rows)


def _repeat(call: Call) -> None:
    for _ in range(_LOOPS):
        call()

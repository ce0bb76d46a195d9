"""What a hand-off makes of a session's words, read as capture will read it."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from threadkeep.base import json
from threadkeep.capture.claims import alone
from threadkeep.export.handing import HandOff
from threadkeep.knowledge.entries import text_hash
from threadkeep.sources.common import table
from threadkeep.sources.decoding import decode_line
from threadkeep.sources.opencode_records import message_line, part_line
from threadkeep.sources.records import Log, Source, Stamp


def retold_in(made: HandOff, sources: Mapping[str, Source]) -> dict[str, set[int]]:
    """Give the hashes of the texts in a session that was handed over, by where they were said."""
    log = Log(str(made.path), Stamp(0, 0, 0, 0), made.session_id)
    fresh = partial(sources[made.program].parser, log, None)
    found: dict[str, set[int]] = defaultdict(set)
    for number, line in enumerate(_lines(made)):
        for record in decode_line(line):
            for entry in alone(fresh, record, line, number):
                if entry.origin:
                    found[entry.origin].add(text_hash(entry.text))
    return found


def _lines(made: HandOff) -> Iterable[bytes]:
    if made.program != "opencode":
        return made.data.splitlines()
    return _parts(json.decode(made.data.decode()))


def _parts(document: Any) -> Iterator[bytes]:
    """Give the records that a document for OpenCode becomes in its database."""
    for message in table(document)["messages"]:
        _, about = message_line(message["info"]["id"], json.encode(message["info"]))
        for part in message["parts"]:
            yield part_line(part["id"], about, json.encode(part))

"""The limit: what it costs to read every line, parse it and throw the result away.

    python capture_limits.py json|orjson|msgspec|nothing FOLDER

Runs in any environment that has the parser: only the standard library is imported here. "nothing"
is the start of Python alone, so that the others can be shown without it.
"""

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

Parse = Callable[[bytes], Any]


def parser(name: str) -> tuple[Parse, type[Exception]]:
    """Return the function that parses one line, and what it raises when it cannot."""
    if name == "msgspec":
        module = importlib.import_module("msgspec")
        return module.json.Decoder().decode, module.DecodeError
    return importlib.import_module(name).loads, ValueError


def parse_all(parse: Parse, refusal: type[Exception], folder: Path) -> None:
    """Parse all lines of all logs below a folder; a line that is no JSON is passed over."""
    for path in sorted(folder.rglob("*.jsonl")):
        with path.open("rb") as lines:
            for line in lines:
                try:
                    parse(line)
                except refusal:
                    continue


if __name__ == "__main__":
    if sys.argv[1] != "nothing":
        parse_all(*parser(sys.argv[1]), Path(sys.argv[2]))

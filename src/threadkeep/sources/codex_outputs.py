"""Codex: what a tool gave back, and whether it went wrong."""

from typing import Any, Final

import msgspec

from threadkeep.sources.common import block_text, table, text

_HEAD: Final = 400
_FAILED: Final = (
    "apply_patch verification failed",
    "exec_command failed",
    "execution error",
    "failed to parse function arguments",
    "unsupported call",
    "aborted by user",
)
_EXIT: Final = "Exit code: "
_EXITED: Final = "Process exited with code "


class _Result(msgspec.Struct):
    output: str
    metadata: dict[str, Any] = {}


_results: Final = msgspec.json.Decoder(_Result)


def output_of(given: object) -> tuple[str, bool]:
    """Give the text of a tool's output, and whether it tells of a failure."""
    if isinstance(given, list):
        said = "\n".join(filter(None, map(_piece, given)))
        return said, _failed(said)
    if isinstance(given, dict):
        said = block_text(given.get("content"))
        return said, given.get("success") is False or _failed(said)
    said = text(given)
    if said.startswith('{"output":'):
        return _from_json(said)
    return said, _failed(said)


def _from_json(said: str) -> tuple[str, bool]:
    try:
        result = _results.decode(said)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return said, False
    code = result.metadata.get("exit_code")
    return result.output, isinstance(code, int) and code != 0


def _piece(block: object) -> str:
    if isinstance(block, str):
        return block
    found = table(block)
    if said := text(found.get("text")):
        return said
    if "image" in text(found.get("type")):
        return "[image]"
    return block_text(found.get("content"))


def _failed(said: str) -> bool:
    """Look for an exit code in the lines above the output itself."""
    head = said[:_HEAD].partition("\nOutput:")[0]
    if head.startswith(_EXIT):
        return head[len(_EXIT) :].partition("\n")[0].strip() != "0"
    before, found, code = head.partition(_EXITED)
    if found and (not before or before.endswith("\n")):
        return code.partition("\n")[0].strip() != "0"
    return head.startswith(_FAILED)

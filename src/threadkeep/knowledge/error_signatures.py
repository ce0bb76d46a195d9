"""What went wrong, in a word: the part of an error that is the same the next time.

Numbers, addresses, paths and quoted names change from time to time; the kind of the error stays.
"""

import re
from collections.abc import Callable, Iterable
from typing import Final

from threadkeep.knowledge.command_shapes import exit_step

_LONGEST_RULE: Final = 60
_LOOKED_AT: Final = 200  # lines from the end: there the error is
_LONGEST_LINE: Final = 400
# Ctrl-C, a closed pipe, a closed terminal, a stopped or ended job: somebody's wish, not a failure.
_WISHED: Final = frozenset({129, 130, 131, 137, 141, 143, 146, 147, 148})
# Programs that say "no" or "different" with exit code 1.
_ANSWERS: Final = frozenset(
    {
        *("grep", "egrep", "fgrep", "rg", "ag", "ack", "diff", "cmp", "test", "[", "[[", "false"),
        *("which", "type", "command", "pgrep", "expr", "let", "read", "colordiff", "zgrep", "jq"),
        *("difft", "delta", "less", "man", "fzf", "hash", "Grep", "Glob", "glob"),
    }
)
_GIT_ANSWERS: Final = frozenset({"diff", "grep", "check-ignore", "merge-base", "rev-parse"})
# What an agent is told when a person, not the tool, ended its call.
_REFUSED: Final = re.compile(
    r"user doesn't want to (?:proceed|take this action)|request interrupted by user"
    r"|user (?:rejected|denied|declined|cancell?ed)|(?:rejected|aborted) by (?:the )?user"
    r"|cancelled: parallel tool call|tool_use_error>Cancelled|^\s*Command aborted",
    re.IGNORECASE,
)
_EXIT_CODE: Final = re.compile(r"\s*(?:Error: )?(?:Exit code|exited with code)[: ]+(\d{1,3})\b")

_QUOTED: Final = re.compile(r"`[^`\n]*`|'[^'\n]*'|\"[^\"\n]*\"|‘[^’\n]*’|“[^”\n]*”")
_PATH: Final = re.compile(r"(?<![\w/])(?:[A-Za-z]:)?[~.\w+@-]*(?:[\\/][\w.+@-]+)+[\\/]?(?::\d+)*")
_HEX: Final = re.compile(r"\b(?:0x[0-9a-fA-F]+|(?=[0-9a-f]*\d)[0-9a-f]{7,}(?:-[0-9a-f]+)*)\b")
_NUMBER: Final = re.compile(r"\d+(?:[.,:]\d+)*")
_SPACES: Final = re.compile(r"\s+")
_COLOURS: Final = re.compile(r"\x1b\[[0-9;:?]*[ -/]*[@-~]")

_RAISED: Final = re.compile(
    r"(?:^|[\s:(])((?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Fault|Interrupt|Timeout|NotFound))"
    r"(?=$|[:\s(\]])"
)
_CODES: Final = (
    re.compile(r"\berror\[(E\d{4})\]"),
    re.compile(r"\berror (TS\d{4,5})\b"),
    re.compile(r"\b(?:ERR!|error) (?:code )?(E[A-Z]{3,}[A-Z0-9]*)\b"),
    re.compile(
        r"\b(E(?:NOENT|ACCES|EXIST|CONNREFUSED|CONNRESET|TIMEDOUT|ADDRINUSE|PERM|RESOLVE))\b"
    ),
)
_LINT: Final = re.compile(r"(?:^|[\s:])([A-Z]{1,4}\d{3,4})\b")
_LINTERS: Final = frozenset({"ruff", "flake8", "pylint", "pycodestyle", "pydocstyle", "shellcheck"})
_TYPED: Final = re.compile(r"\[([a-z][a-z0-9-]{3,})\]\s*$")
_TYPERS: Final = frozenset({"mypy", "pyright", "dmypy"})
_PHRASES: Final = (
    *("command not found", "No such file or directory", "Permission denied"),
    *("String to replace not found", "File has not been read yet", "Connection refused"),
    *("not a git repository", "CONFLICT", "Segmentation fault", "No space left on device"),
)
_ASSERTED: Final = re.compile(r"^E\s+assert\b|^FAILED .* - assert\b")
# Says that something failed, not what.
_WEAK: Final = re.compile(
    r"(?:g?make(?:\[\d+\])?: \*\*\*|[=\s]*\d+ (?:failed|passed|errors?)\b|={3,}|Command failed"
    r"|npm (?:ERR!|error) A complete|error: (?:recipe|process)\b|Found \d+ errors?|[i×•] "
    r"|short test summary|(?:Error: )?(?:Exit code|exited with code)[: ]+\d+$)"
    r"|.*(?:\bELIFECYCLE\b|[│┃]|\bexited with code \d)",
    re.IGNORECASE,
)
_PLAINLY: Final = re.compile(
    r"(?:^|[\s\]])(?:error|fatal|panic|failed|failure)\b.{0,3}[:\[(]", re.IGNORECASE
)
_TELLING: Final = re.compile(
    r"\b(?:error|fatal|failed|failure|panicked|cannot|could not|unable|denied|refused|not found"
    r"|unknown|invalid|unexpected|missing|undefined|exception|abort(?:ed)?)\b",
    re.IGNORECASE,
)


def is_failure(command: str, exit_code: int | None, output: str = "") -> bool:
    """Tell whether a command failed: not by a person's wish, and not as its way to say no."""
    if exit_code is None or exit_code == 0 or _REFUSED.search(output[:_LONGEST_LINE]):
        return False
    told = _EXIT_CODE.match(output)
    code = int(told[1]) if told else exit_code
    if code in _WISHED:
        return False
    step = exit_step(command)
    is_answer = step.program in _ANSWERS or (
        step.program == "git" and step.words[:1] and step.words[0] in _GIT_ANSWERS
    )
    return not (code == 1 and is_answer)


def rule_of(program: str, output: str, exit_code: int | None) -> str:
    """Name the kind of an error shortly; by the exit code where nothing else tells it."""
    lines = _lines(output)
    for find in _ways(program):
        for line in reversed(lines):
            if found := find(line):
                return found[:_LONGEST_RULE]
    told = telling_line(output)
    if told:
        return generalize(told)[:_LONGEST_RULE].rstrip()
    return f"exit {exit_code}" if exit_code else "failed"


def telling_line(output: str) -> str:
    """Give the line of an output that says most about what went wrong; empty if none does."""
    lines = _lines(output)
    for is_told in (_RAISED.search, _PLAINLY.search, _TELLING.search):
        for line in reversed(lines):
            if is_told(line) and not _WEAK.match(line):
                return line
    return ""


def generalize(line: str) -> str:
    """Write a line without what changes from time to time: names, paths, addresses, numbers."""
    line = _SPACES.sub(" ", _COLOURS.sub("", line[: 2 * _LONGEST_LINE])).strip()
    line = _PATH.sub("PATH", _QUOTED.sub("…", line))
    return _NUMBER.sub("N", _HEX.sub("N", line))


def _lines(output: str) -> list[str]:
    whole = _COLOURS.sub("", output).splitlines()[-_LOOKED_AT:]
    return [line.strip()[:_LONGEST_LINE] for line in whole if line.strip()]


def _ways(program: str) -> Iterable[Callable[[str], str]]:
    if program in _LINTERS:
        yield _first(_LINT)
    if program in _TYPERS:
        yield _first(_TYPED)
    yield from (_first(code) for code in _CODES)
    yield _raised
    yield _phrase


def _first(pattern: re.Pattern[str]) -> Callable[[str], str]:
    def find(line: str) -> str:
        found = pattern.search(line)
        return found[1] if found else ""

    return find


def _raised(line: str) -> str:
    found = _RAISED.search(line)
    if found is None:
        return "AssertionError" if _ASSERTED.match(line) else ""
    return found[1].rsplit(".", 1)[-1]


def _phrase(line: str) -> str:
    low = line.lower()
    return next((phrase for phrase in _PHRASES if phrase.lower() in low), "")

"""The shape of a command: what stays the same when somebody tries it again.

Flags, numbers, wrappers, pipes and the folder change; the program, its subcommand and its targets
do not. Two commands of one shape are the same attempt.
"""

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from threadkeep.base.paths import project_name
from threadkeep.base.text import pattern
from threadkeep.base.words import index_words

_READ: Final = 8_192  # characters: of a longer command the end is input
_LONGEST: Final = 1_000  # without its documents; beyond this it is a script, told by its beginning
_MOST_WORDS: Final = 12
_MOST_STEPS: Final = 6
_MOST_AIMS: Final = 3
_NAME: Final = pattern(r"[\w@:.+-]{1,40}")
_ASSIGNED: Final = pattern(r"[A-Za-z_]\w*=")
_JOINS: Final = frozenset({"&&", "||", ";", ";;", "&", "\n"})
_PIPES: Final = frozenset({"|", "|&"})
_REDIRECTS: Final = pattern(r"[<>&]*[<>][<>&]*")
# What is in a here-document is input; what follows it is a command again.
_DOCUMENT: Final = pattern(
    r"<<-?\s*\\?['\"]?(\w+)['\"]?([^\n]*)(?:\n.*?(?:\n[ \t]*\1\b|\Z))?", re.DOTALL
)
# A step that prepares the next ones and says nothing about them.
_PREPARES: Final = frozenset(
    {"cd", "pushd", "popd", "export", "source", ".", "echo", "printf", "sleep", "set", "true", ":"}
)
# Programs that run another, with how many of their own words stand before it.
_WRAPPERS: Final = {
    **dict.fromkeys(("sudo", "time", "nohup", "env", "command", "exec", "nice", "npx", "bunx"), 0),
    **dict.fromkeys(("xvfb-run", "builtin", "doas", "uvx", "caffeinate", "stdbuf"), 0),
    **dict.fromkeys(("timeout", "gtimeout"), 1),
}
_RUNNERS: Final = frozenset({"uv", "poetry", "pdm", "hatch", "pipenv", "rye", "pixi"})
_PYTHON: Final = pattern(r"(?:python|pypy)[\d.]*$")
# Flags whose value is not what is worked on.
_VALUED: Final = frozenset(
    {
        *("-m", "--message", "-k", "-n", "-j", "-C", "-c", "--tb", "--timeout", "--jobs", "-am"),
        *("--maxfail", "--color", "--format", "-F", "--log-level", "--author", "--date", "-w"),
    }
)
_SHELLS: Final = frozenset({"bash", "sh", "zsh", "dash", "fish"})
_INLINE: Final = frozenset({"-c", "-lc", "-ic"})
# Programs that only look.
_LOOKS: Final = frozenset(
    {
        *("ls", "cat", "head", "tail", "grep", "rg", "find", "fd", "cd", "pwd", "echo", "which"),
        *("less", "more", "tree", "wc", "ps", "top", "htop", "df", "du", "man", "type", "file"),
        *("stat", "history", "clear", "date", "whoami", "env", "printenv", "bat", "jq", "sort"),
        *("read", "glob", "diff", "sleep", "exit", "uniq", "awk", "printf", "test", "true"),
    }
)
_GIT_LOOKS: Final = frozenset({"status", "log", "diff", "show", "branch", "blame", "remote"})


class SimpleCommand(NamedTuple):
    """One simple command without what changes from try to try."""

    program: str
    words: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The step as one line."""
        return " ".join((self.program, *self.words))


@lru_cache(maxsize=2048)  # a run is asked for its shape, its program and its target
def steps_of(command: str) -> tuple[SimpleCommand, ...]:
    """Return the simple commands that a command line is made of, without those that prepare."""
    found = [step for words in _simple(command) if (step := _step(words)) is not None]
    working = [step for step in found if step.program not in _PREPARES]
    return tuple((working or found)[:_MOST_STEPS])


def shape_of(command: str) -> str:
    """Return what a command has in common with every other try of it; empty for nothing."""
    return " && ".join(step.text for step in steps_of(command))


def main_step(command: str) -> SimpleCommand:
    """Return the step that a command line is run for: the last one that does more than look."""
    steps = steps_of(command)
    working = [step for step in steps if not only_looks(step)]
    return (working or steps or (SimpleCommand(""),))[-1]


def exit_step(command: str) -> SimpleCommand:
    """Give the step whose exit code is that of the whole line: the last, at the end of its pipe."""
    words = shell_words(_DOCUMENT.sub(r"\2", command[:_READ])[:_LONGEST])
    at = max((at + 1 for at, word in enumerate(words) if word in _JOINS | _PIPES), default=0)
    return _step(words[at:]) or SimpleCommand("")


def only_looks(step: SimpleCommand) -> bool:
    """Tell whether a step changes and checks nothing."""
    if step.program == "git":
        return not step.words or step.words[0] in _GIT_LOOKS
    return not step.program or step.program in _LOOKS


def target_of(command: str, cwd: str = "") -> str:
    """Give the file or folder that a command works on, below its folder; empty if it names none."""
    for word in main_step(command).words:
        if _is_path(word):
            return _below(word, cwd)
    return ""


def aim_of(command: str, cwd: str = "") -> str:
    """Return what a command is about: its file, else its words, such as the target of `make`."""
    words = [word for word in main_step(command).words if _NAME.fullmatch(word)]
    return target_of(command, cwd) or " ".join(words[:_MOST_AIMS])


def project_of(repo: str | None, cwd: str) -> str:
    """Name the project of a command: its repository, else the last component of its folder."""
    return repo or project_name(cwd)


# ---------------------------------------------------------------------- words


def _simple(command: str) -> list[list[str]]:
    """Split a command line into simple commands; of a pipe only its first part counts."""
    steps: list[list[str]] = [[]]
    skipping = False
    for word in shell_words(_DOCUMENT.sub(r"\2", command[:_READ])[:_LONGEST]):
        if word in _JOINS:
            steps.append([])
            skipping = False
        elif word in _PIPES:
            skipping = True
        elif not skipping:
            steps[-1].append(word)
    return [step for step in steps if step]


# A word as a shell reads it, and signs; what is left is a quote that is never closed.
_WORD: Final = pattern(
    r"""(?P<signs>[();<>|&]+)|(?P<plain>[^ \t\r\n'"\\();<>|&]+)(?![^ \t\r\n();<>|&])"""
    r"""|(?P<word>(?:[^ \t\r\n'"\\();<>|&]|'[^']*'|"(?:[^"\\]|\\.)*"|\\.)+)|(?P<open>['"\\])""",
    re.DOTALL,
)
_PIECE: Final = pattern(r"""'([^']*)'|"((?:[^"\\]|\\.)*)"|\\(.)|([^'"\\]+)""", re.DOTALL)
_ESCAPED: Final = pattern(r"""\\(["\\])""")


def shell_words(command: str) -> list[str]:
    """Split a command as `shlex` does, in a fifth of its time."""
    line = command.replace("\n", " ; ")
    words = []
    for found in _WORD.finditer(line):
        if found["open"]:
            return command.split()
        words.append(_unquoted(found["word"]) if found["word"] else found[0])
    return words


def _unquoted(word: str) -> str:
    pieces = _PIECE.findall(word)
    return "".join(one + _ESCAPED.sub(r"\1", two) + sign + bare for one, two, sign, bare in pieces)


def _step(words: list[str]) -> SimpleCommand | None:
    words = _without_redirects(words)
    while words:
        rest = _unwrapped(words)
        if rest == words:
            break
        words = rest
    if not words:
        return None
    program = PurePosixPath(words[0]).name or words[0]
    if program in _SHELLS and len(words) > 2 and words[1] in _INLINE:  # noqa: PLR2004
        inner = steps_of(words[2])
        return inner[-1] if inner else SimpleCommand(program)
    if _PYTHON.match(program):
        program = "python"
    return SimpleCommand(program, tuple(_targets(words[1:])[:_MOST_WORDS]))


def _without_redirects(words: list[str]) -> list[str]:
    kept: list[str] = []
    is_target = False
    for word in words:
        if _REDIRECTS.fullmatch(word):
            if kept and kept[-1].isdigit():
                kept.pop()  # the number of a stream: 2>&1
            is_target = True
        elif is_target:
            is_target = False
        else:
            kept.append(word)
    return kept


def _unwrapped(words: list[str]) -> list[str]:
    """Take off one thing that stands before the command itself."""
    first = PurePosixPath(words[0]).name
    if _ASSIGNED.match(words[0]):
        return words[1:]
    if first in _WRAPPERS:
        return _after_flags(words[1:])[_WRAPPERS[first] :]
    if first in _RUNNERS and words[1:2] == ["run"]:
        return _after_flags(words[2:])
    if _PYTHON.match(first) and words[1:2] == ["-m"] and len(words) > 2:  # noqa: PLR2004
        return words[2:]
    return words


def _after_flags(words: list[str]) -> list[str]:
    at = 0
    while at < len(words) and words[at].startswith("-"):
        at += 1
    return words[at:]


def _targets(words: list[str]) -> list[str]:
    kept: list[str] = []
    flag = ""
    for word in words:
        is_value = flag in _VALUED or (bool(flag) and word.isdigit())
        flag = word if word.startswith("-") else ""
        if not flag and not is_value:
            kept.append(_plain(word))
    return [word for word in kept if word]


def _plain(word: str) -> str:
    """Return a target without the part of the file that is meant, and in one spelling."""
    return word.split("::", 1)[0].removeprefix("./").rstrip("/")


def _is_path(word: str) -> bool:
    is_plain = "://" not in word and not any(mark in word for mark in "\n\t '\"{}()$*<>|=")
    return is_plain and ("/" in word or re.search(r"\.[A-Za-z]\w{0,5}$", word) is not None)


def _below(word: str, cwd: str) -> str:
    folder = cwd.rstrip("/") + "/"
    return word.removeprefix(folder) if len(folder) > 1 else word


# ------------------------------------------------------------------------------
# What went wrong, in a word: the part of an error that is the same the next time.
#
# Numbers, addresses, paths and quoted names change from time to time; the kind of the error stays.

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
_REFUSED: Final = pattern(
    r"user doesn't want to (?:proceed|take this action)|request interrupted by user"
    r"|user (?:rejected|denied|declined|cancell?ed)|(?:rejected|aborted) by (?:the )?user"
    r"|cancelled: parallel tool call|tool_use_error>Cancelled|^\s*Command aborted",
    re.IGNORECASE,
)
_EXIT_CODE: Final = pattern(r"\s*(?:Error: )?(?:Exit code|exited with code)[: ]+(\d{1,3})\b")

_QUOTED: Final = pattern(r"`[^`\n]*`|'[^'\n]*'|\"[^\"\n]*\"|‘[^’\n]*’|“[^”\n]*”")
_PATH: Final = pattern(r"(?<![\w/])(?:[A-Za-z]:)?[~.\w+@-]*(?:[\\/][\w.+@-]+)+[\\/]?(?::\d+)*")
_HEX: Final = pattern(r"\b(?:0x[0-9a-fA-F]+|(?=[0-9a-f]*\d)[0-9a-f]{7,}(?:-[0-9a-f]+)*)\b")
_NUMBER: Final = pattern(r"\d+(?:[.,:]\d+)*")
_SPACES: Final = pattern(r"\s+")
_COLOURS: Final = pattern(r"\x1b\[[0-9;:?]*[ -/]*[@-~]")

_RAISED: Final = pattern(
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
_LINT: Final = pattern(r"(?:^|[\s:])([A-Z]{1,4}\d{3,4})\b")
_LINTERS: Final = frozenset({"ruff", "flake8", "pylint", "pycodestyle", "pydocstyle", "shellcheck"})
_TYPED: Final = pattern(r"\[([a-z][a-z0-9-]{3,})\]\s*$")
_TYPERS: Final = frozenset({"mypy", "pyright", "dmypy"})
_PHRASES: Final = (
    *("command not found", "No such file or directory", "Permission denied"),
    *("String to replace not found", "File has not been read yet", "Connection refused"),
    *("not a git repository", "CONFLICT", "Segmentation fault", "No space left on device"),
)
# Words that any error may have, and what `generalize` writes for what changes.
_SMALL: Final = frozenset(
    {"a", "an", "and", "at", "be", "by", "for", "from", "has", "in", "is", "it", "not", "of", "on"}
    | {"or", "the", "to", "was", "path", "n"}
)
_FEW: Final = 3  # words that stay from time to time: fewer do not tell an error
_LEAST_OF_LINE: Final = 0.75  # of these words, in one line
_ASSERTED: Final = pattern(r"^E\s+assert\b|^FAILED .* - assert\b")
# Says that something failed, not what.
_WEAK: Final = pattern(
    r"(?:g?make(?:\[\d+\])?: \*\*\*|[=\s]*\d+ (?:failed|passed|errors?)\b|={3,}|Command failed"
    r"|npm (?:ERR!|error) A complete|error: (?:recipe|process)\b|Found \d+ errors?|[i×•] "
    r"|short test summary|(?:Error: )?(?:Exit code|exited with code)[: ]+\d+$)"
    r"|.*(?:\bELIFECYCLE\b|[│┃]|\bexited with code \d)",
    re.IGNORECASE,
)
_PLAINLY: Final = pattern(
    r"(?:^|[\s\]])(?:error|fatal|panic|failed|failure)\b.{0,3}[:\[(]", re.IGNORECASE
)
_TELLING: Final = pattern(
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
    """Return the line of an output that says most about what went wrong; empty if none does."""
    lines = _lines(output)
    for is_told in (_RAISED.search, _PLAINLY.search, _TELLING.search):
        for line in reversed(lines):
            if is_told(line) and not _WEAK.match(line):
                return line
    return ""


def says_the_same(error_text: str, output: str) -> bool:
    """Tell whether an output has an error: what it names, and its words in one line and the next.

    Words that are far apart are no sign of the same error, and numbers change each time. Of an
    error with few words the whole line must be there. A module that is missing is the error; one
    with a code is told by it, whatever it names.
    """
    line = telling_line(error_text) or error_text[:_LONGEST_LINE]
    lines = _lines(output)
    rule = rule_of("", line, None)
    if any(map(str.isdigit, rule)):  # a code
        return any(rule in one for one in lines)
    names = "|".join({re.escape(found[0][1:-1]) for found in _QUOTED.finditer(line)})
    named = re.compile(rf"(?<!\w)(?:{names})(?!\w)", re.IGNORECASE)
    if names and not any(map(named.search, lines)):
        return False
    shape = generalize(line)
    words = set(index_words(shape))
    lasting = words - _SMALL
    if len(lasting) < _FEW and lasting != words:
        return any(shape.lower() in generalize(one).lower() for one in lines)
    if len(lasting) == 1:  # one word is in many lines: it must be in the one that says most
        return lasting <= set(index_words(telling_line(output)))
    if len(lasting) < _FEW:  # the same words in another order say something else
        return any(_in_order(index_words(shape), index_words(one)) for one in lines)
    # The words of a path are no words of an error.
    held = [set(index_words(_PATH.sub(" ", one))) for one in lines]
    pairs = (one | other for one, other in zip(held, [*held[1:], set()], strict=True))
    least = len(lasting) * _LEAST_OF_LINE
    return any(len(lasting & pair) >= least for pair in pairs)


def _in_order(words: list[str], line: list[str]) -> bool:
    left = iter(line)
    return all(word in left for word in words)


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


def _first(wanted: re.Pattern[str]) -> Callable[[str], str]:
    def find(line: str) -> str:
        found = wanted.search(line)
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

"""What a shell command is made of: its programs, what it tries, what it is run for."""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final, Literal, NamedTuple

from threadkeep.knowledge.records import Outcome
from threadkeep.memory.learn.identifiers import as_file
from threadkeep.memory.learn.text_cleaning import cut_words, one_line, words

_LONGEST: Final = 8_000
_TOKEN: Final = re.compile(
    r"(?<!\S)#[^\n]*|'[^']*'|\"(?:[^\"\\]|\\.)*\"|\\.|[|&;\n()]+|[^\s'\"\\|&;()]+|[ \t]+|.",
    re.DOTALL,
)
_HERE_DOCUMENT: Final = re.compile(r"<<-?\s*(['\"]?)(\w{1,40})\1")
_ASSIGNMENT: Final = re.compile(r"^[A-Za-z_]\w*=")
# Lower case: what PowerShell and prose have in their place is no program.
_PROGRAM: Final = re.compile(r"^[a-z][a-z0-9._+-]{1,40}$")
_VERB: Final = re.compile(r"[a-z][\w:-]{0,30}$")
_OPTION: Final = re.compile(r"-|\d+[smh]?$")
# These run another program: the next word is the one that counts.
_CARRIERS: Final = words(
    "sudo env time nohup command exec xargs nice timeout stdbuf then do else if while until ! {"
    " bunx npx pnpx doas caffeinate watch"
)
_QUESTIONS: Final = (["command", "-v"], ["command", "-V"])  # is there such a program?
_RUNS: Final = (["uv", "run"], ["poetry", "run"], ["pipenv", "run"], ["bundle", "exec"])
# Too common to tell anything: they are part of every command line.
_DULL: Final = words(
    "cd echo ls cat head tail wc pwd sleep printf test true false which export source set unset for"
    " done fi exit return clear read shift local eval type alias pushd popd sort uniq cut tr tee"
    " xargs mkdir touch rm cp mv basename dirname date wait esac case select function in let"
    " break continue trap grep find sed awk less more man history foreach ; [ [[ } try catch"
    " finally param nl mktemp rmdir chmod file tree du df stat realpath readlink seq tac rev od xxd"
)
_WITH_VERB: Final = words(
    "git go cargo npm pnpm yarn bun uv pip docker kubectl gh make mise poetry dotnet terraform helm"
    " systemctl brew apt just deno rails mix gradle mvn python python3 node nx turbo aws gcloud"
    " threadkeep podman rustup conda cmake task"
)
_SOME_OPTIONS: Final = r"(?: --?\S+){0,3} "
_KINDS: Final = {
    "testing": (
        r"\b(?:pytest|jest|vitest|mocha|phpunit|rspec|ctest|tox|nox|unittest|playwright test)\b"
        r"|\b(?:go|cargo|npm|pnpm|yarn|bun|make|mise|dotnet|deno|just|task|mvn|gradle|run|mix|swift)"
        + _SOME_OPTIONS
        + r"(?:test|tests|t|test:\S+|check)\b"
    ),
    "linting": (
        r"\b(?:ruff|eslint|golangci-lint|clippy|flake8|pylint|shellcheck|biome|prettier|black|gofmt"
        r"|rubocop|oxlint|rustfmt)\b|\b(?:lint|fmt|format)(?::\S+)?(?=\s|$)"
    ),
    "type checking": r"\b(?:mypy|pyright|tsc|typecheck|type-check)\b",
    "building": (
        r"\b(?:go|cargo|npm|pnpm|yarn|bun|make|docker|dotnet|run)"
        + _SOME_OPTIONS
        + r"(?:build|compile|install|package)\b|\b(?:webpack|vite build|esbuild|cmake)\b"
    ),
    "dependencies": (
        r"\b(?:pip|uv|npm|pnpm|yarn|bun|cargo|go|brew|apt|apt-get|gem|composer)"
        + _SOME_OPTIONS
        + r"(?:install|add|remove|get|upgrade|update|sync|mod)\b"
    ),
    "committing": r"\bgit(?: -\S+(?: /\S+)?){0,4} (?:commit|merge|rebase|cherry-pick|tag|revert)\b",
    "publishing": (
        r"\bgit(?: -\S+(?: /\S+)?){0,4} push\b|\bgh (?:pr (?:create|merge|edit|ready)|release)\b"
        r"|\b(?:npm|cargo|twine|uv) (?:publish|upload)\b"
    ),
    "review": r"\bgh (?:pr (?:view|diff|review|checks|list|comment)|api)\b",
    "containers": r"\b(?:docker|podman|kubectl|helm)\b",
    "deploying": r"\b(?:terraform|ansible|vercel|netlify|flyctl|wrangler)\b|kubectl apply",
    "databases": r"\b(?:psql|sqlite3|mysql|mongosh|redis-cli|alembic|prisma)\b",
}
_KIND_PATTERNS: Final = tuple((name, re.compile(pattern)) for name, pattern in _KINDS.items())
# What is run to see whether something works: its end tells how the work ended.
CHECKS: Final = frozenset({"testing", "linting", "type checking", "building"})
_PIPED: Final = re.compile(
    r"\|\s{0,4}(?:head|tail|grep|less|cat|wc|tee|sed|awk|sort)\b|;\s{0,4}echo|\|\|"
)
_MESSAGE: Final = re.compile(
    r"\bgit(?: -\S+(?: /\S+)?){0,4} commit\b[^\n]{0,200}?(?:-a?m|--message)[ =]?"
    r"(?:\"((?:[^\"\\$]|\\.)[^\"\n]{2,200})|'([^'\n]{3,200}))"
)
_HERE_MESSAGE: Final = re.compile(
    r"\bgit(?: -\S+(?: /\S+)?){0,4} commit\b[^\n]{0,200}?<<-?\s*['\"]?\w+['\"]?\n\s*([^\n]{3,200})"
)


def without_documents(command: str) -> str:
    """Take out the bodies of here-documents: they are files, not commands."""
    lines = iter(command[:_LONGEST].split("\n"))
    kept = []
    for line in lines:
        kept.append(line)
        found = _HERE_DOCUMENT.search(line)
        if found is not None:
            for body in lines:
                if body.strip(" \t)\"'") == found[2]:
                    break
    return "\n".join(kept)


def parts_of(command: str) -> list[list[str]]:
    """Return the words of each simple command of a command line, quotes and all."""
    parts: list[list[str]] = [[]]
    here, outside = parts[0], list[list[str]]()
    glue = False
    for token in _TOKEN.findall(without_documents(command)):
        if token in {"'", '"'}:  # it is never closed: what follows is text
            break
        if token[0] == "#":
            continue
        if token[0] in "|&;\n()":
            here = _behind(token, here, outside, parts)
            glue = token[-1] == ")" and bool(here)
        elif token.isspace():
            glue = False
        elif glue:
            here[-1] += token
        else:
            here.append(token)
            glue = True
    return [part for part in parts if part]


def _behind(
    token: str, here: list[str], outside: list[list[str]], parts: list[list[str]]
) -> list[str]:
    """Give the command that continues behind a sign: a new one, or that around closed brackets."""
    if token.startswith("()"):  # the name of a function that is written here
        here.clear()
    for sign in token:
        if sign == ")" and outside:
            here = outside.pop()
            continue
        if sign == "(":
            outside.append(here)
        here = []
        parts.append(here)
    return here


class CommandLine(NamedTuple):
    """What a command line does, looked at once."""

    programs: tuple[str, ...]  # those that are part of every command left out
    tries: tuple[str, ...]  # by name, so that a second try is known as one: `git push`
    kinds: tuple[str, ...]  # what it is run for: testing, building, committing …
    hides_its_end: bool  # its exit code may be another program's, at the end of a pipe


def read_line(command: str) -> CommandLine:
    """Say what a command line runs, tries and is run for."""
    runs = list(_runs(command))
    kinds = [_kinds(" ".join((program, *rest))[:160]) for program, rest in runs[:12]]
    # Beside a test or a commit, what prepares it does not count as a try of its own.
    counted = [run for run, kind in zip(runs, kinds, strict=False) if kind] or runs
    keys = dict.fromkeys(_key(program, rest) for program, rest in counted[:6])
    return CommandLine(
        programs=tuple(dict.fromkeys(program for program, _ in runs)),
        tries=tuple(keys),
        kinds=tuple(dict.fromkeys(name for kind in kinds for name in kind)),
        hides_its_end=_PIPED.search(command[:_LONGEST]) is not None,
    )


@lru_cache(maxsize=1024)  # the same commands come again and again
def _kinds(text: str) -> Sequence[str]:
    return [name for name, pattern in _KIND_PATTERNS if pattern.search(text)]


def _key(program: str, rest: list[str]) -> str:
    if program not in _WITH_VERB:
        return program
    verbs = [word for word in rest if _VERB.match(word)][:2]
    return " ".join([program, *(verbs if verbs[:1] in (["run"], ["pr"]) else verbs[:1])])


def _runs(command: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each program worth naming with the words behind it."""
    for part in parts_of(command):
        bare = _without_carriers(part)
        name = bare[0].rsplit("/", 1)[-1] if bare else ""
        if name not in _DULL and _PROGRAM.match(name) and _is_program(bare[0], name):
            yield name, bare[1:]


def _is_program(word: str, name: str) -> bool:
    """Tell a program from a data file; a script is one where it is called by its path."""
    return as_file(name) is None or "/" in word


def _without_carriers(part: list[str]) -> list[str]:
    """Drop assignments, and what only runs the program behind it: `sudo -E`, `timeout 5`."""
    at = 0
    carried = False
    while at < len(part):
        if part[at : at + 2] in _QUESTIONS:
            return []
        if part[at] in _CARRIERS:
            carried = True
        elif part[at : at + 2] in _RUNS:
            carried, at = True, at + 1
        elif not (_ASSIGNMENT.match(part[at]) or (carried and _OPTION.match(part[at]))):
            break
        at += 1
    return part[at:]


def commit_message(command: str) -> str | None:
    """Return the first line of the message that a `git commit` is given."""
    text = command[:_LONGEST]
    if "commit" not in text:
        return None
    here = _HERE_MESSAGE.search(text)
    if here is not None:
        return one_line(here[1])
    found = _MESSAGE.search(text)
    return one_line((found[1] or found[2]).split("\\n")[0]) if found else None


def shown(command: str, limit: int = 120) -> str:
    """Return a command on one line, short enough for a sentence."""
    message = commit_message(command)
    if message is not None and _HERE_DOCUMENT.search(command):
        return cut_words(f'git commit -m "{message}"', limit)
    lines = without_documents(command[: limit * 20]).split("\n")
    line = one_line(" ".join(one for one in lines if not one.lstrip().startswith("#")))
    if line.startswith("cd ") and " && " in line[:200]:
        line = line.partition(" && ")[2]  # where it ran says the project
    return cut_words(line, limit)


# ------------------------------------------------------------------------------
# What agents' tools do, whatever their program calls them.

Does = Literal["runs", "changes", "reads", "commits", "other"]

_DOES: Final[dict[str, Does]] = {
    **dict.fromkeys(
        words(
            "bash shell shell_command exec_command run_shell_command powershell run_terminal_cmd"
            " execute_command terminal local_shell run_in_terminal exec"
        ),
        "runs",
    ),
    **dict.fromkeys(
        words(
            "edit write multiedit notebookedit apply_patch replace write_file create create_file"
            " patch str_replace edit_file str_replace_editor search_replace delete_file"
            " write_to_file"
        ),
        "changes",
    ),
    **dict.fromkeys(words("read read_file view open_file read_many_files"), "reads"),
    "commit": "commits",
}
_PATCHED: Final = re.compile(r"^\*\*\* (?:Update|Add|Delete) File: (.{1,300})$", re.MULTILINE)
_NAMED: Final = re.compile(
    r"^(?:file_path|filePath|path|filename|target_file): (.{1,300})$", re.MULTILINE
)
_PARAMETER: Final = re.compile(
    r"^(?:workdir|yield_time_ms|max_output_tokens|timeout|timeout_ms|description|login|dir_path"
    r"|justification|sandbox_permissions|prefix_rule|run_in_background|dangerouslyDisableSandbox"
    r"|is_background|shell|tty|with_escalated_permissions|command_description|directory): .*$",
    re.MULTILINE,
)


def does(tool: str) -> Does:
    """Say what a tool is for, by its name."""
    return _DOES.get(tool.lower(), "other")


def bare_command(text: str) -> str:
    """Return the command in what a shell tool was given, without the other parameters."""
    return _PARAMETER.sub("", text).strip().removeprefix("command=")


def files_given(text: str) -> list[str]:
    """Return the files that a tool was told to read or change."""
    found = _PATCHED.findall(text) or _NAMED.findall(text)[:1]
    if not found:
        found = [text.partition("\n")[0].partition(" -> ")[0]]
    names = (as_file(name.strip()) or _without_verb(name) for name in found)
    return [name for name in names if name]


def _without_verb(name: str) -> str | None:
    verb, _, path = name.strip().partition(" ")
    return as_file(path) if verb in {"read", "write", "edit"} else None


# ------------------------------------------------------------------------------
# How work ended, judged from its last attempts and its last words.


class Attempt(NamedTuple):
    """One try of something; `ok` is None where nobody can tell."""

    key: str
    ok: bool | None


_GOOD: Final = re.compile(
    r"\b(?:done|fixed|completed?|implemented|committed|pushed|merged|updated|added|created|removed"
    r"|renamed|replaced|works|working now|passes|passing|all (?:tests )?pass|successfully|resolved"
    r"|is (?:now )?in place|verified|ready|landed|opened|written|wrapped|all green|finished)\b",
    re.IGNORECASE,
)
_BAD: Final = re.compile(
    r"\b(?:still fail\w*|unable to|could ?n[o']t|cannot|can't|failed to|not working|blocked|gave up"
    r"|d(?:id|oes) ?n[o']t work|no luck|remains? broken|hit (?:my|the|your) \w{0,20} ?limit)\b",
    re.IGNORECASE,
)
_UNHAPPY: Final = re.compile(
    r"^(?:no[,. ]|nope|still |that'?s (?:wrong|not)|wrong|it (?:still )?(?:does ?n[o']t|fails)"
    r"|does ?n[o']t work|not what|huh|revert|undo|stop)",
    re.IGNORECASE,
)


def last_attempts(attempts: Iterable[Attempt]) -> dict[str, bool]:
    """Return how the last try of each thing ended, where that is known."""
    return {attempt.key: attempt.ok for attempt in attempts if attempt.ok is not None}


def outcome_of(attempts: Iterable[Attempt]) -> Outcome:
    """Judge by the last try of each thing: what failed first and then worked is a success."""
    ends = last_attempts(attempts)
    if not ends:
        return "unknown"
    if all(ends.values()):
        return "success"
    return "partial" if any(ends.values()) else "failure"


def outcome_of_work(
    attempts: Sequence[Attempt],
    last_words: str,
    last_prompt: str,
    *,
    changed: bool,
    broken_off: bool,
) -> Outcome:
    """Judge a piece of an agent's work: by what was checked, else by what was said at its end."""
    checked = outcome_of(attempts)
    if checked == "unknown":
        checked = _by_words(last_words, changed=changed)
    if checked == "success" and (broken_off or _UNHAPPY.match(last_prompt)):
        return "partial"
    return checked


def _by_words(last_words: str, *, changed: bool) -> Outcome:
    if _BAD.search(last_words):
        return "partial" if changed or _GOOD.search(last_words) else "failure"
    return "success" if _GOOD.search(last_words) else "unknown"


def tries(attempts: Sequence[Attempt], key: str) -> str:
    """Say how the tries of one thing went, in plain words; empty if nobody can tell."""
    ends = [attempt.ok for attempt in attempts if attempt.key == key and attempt.ok is not None]
    failed = ends.count(False)
    if not ends:
        return ""
    if not failed:
        return "passed" if len(ends) == 1 else f"passed {len(ends)} times"
    times = "" if failed == 1 else f" {failed} times"
    return f"failed{times}, then passed" if ends[-1] else f"failed{times}"

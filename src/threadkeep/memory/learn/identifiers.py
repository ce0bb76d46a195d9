"""The names in captured text: files, programs, variables, domains, errors, commits, versions.

Each pattern is linear, and each name is given as it stands in the text.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from threadkeep.base.config import EnrichSettings
from threadkeep.base.paths import expand
from threadkeep.errors import Invalid
from threadkeep.memory.learn.text_cleaning import cut_words, one_line, words

_LANGUAGES: Final = {
    "python": ("py", "pyi", "ipynb"),
    "typescript": ("ts", "tsx", "mts", "cts"),
    "javascript": ("js", "jsx", "mjs", "cjs"),
    "go": ("go",),
    "rust": ("rs",),
    "c": ("c", "h"),
    "c++": ("cc", "cpp", "cxx", "hpp", "hh"),
    "c#": ("cs", "csproj"),
    "java": ("java",),
    "kotlin": ("kt", "kts"),
    "swift": ("swift",),
    "ruby": ("rb",),
    "php": ("php",),
    "lua": ("lua",),
    "elixir": ("ex", "exs"),
    "shell": ("sh", "bash", "zsh", "fish"),
    "powershell": ("ps1", "psm1"),
    "sql": ("sql",),
    "html": ("html", "htm"),
    "css": ("css", "scss", "sass", "less"),
    "vue": ("vue",),
    "svelte": ("svelte",),
    "terraform": ("tf", "tfvars"),
    "nix": ("nix",),
    "zig": ("zig",),
    "dart": ("dart",),
    "scala": ("scala",),
    "haskell": ("hs",),
}
_BY_EXTENSION: Final = {ext: name for name, exts in _LANGUAGES.items() for ext in exts}
_EXTENSIONS: Final = frozenset(_BY_EXTENSION) | words(
    "md mdx rst txt json jsonl json5 yaml yml toml ini cfg conf env lock xml csv tsv log db sqlite"
    " proto graphql gradle cmake mk patch diff svg png jpg jpeg gif webp pdf mod sum service plist"
    " ejs hbs j2 tmpl tpl map wasm zip gz tgz whl jar spec snap bat cmd dockerfile"
)
_BARE_FILES: Final = words(
    "Makefile Dockerfile Justfile Procfile Gemfile Rakefile Vagrantfile CMakeLists.txt LICENSE"
    " .gitignore .dockerignore .env .npmrc .editorconfig .gitattributes go.mod go.sum"
)
# Written with a dot like files, but not files.
_NOT_FILES: Final = words("Node.js Next.js Vue.js React.js D3.js Express.js Nuxt.js")
_PATH_TOKEN: Final = re.compile(r"[\w.@~+/\\:-]+")
_PLACES: Final = ("/dev/", "/proc/", "/sys/", "//", "@")
# Scratch files, and the two sides of a diff.
_PASSING: Final = ("/tmp/", "/var/folders/", "a/", "b/")  # noqa: S108
_LINE_NUMBER: Final = re.compile(r":\d+(?:[:-]\d+)?:?$")

_URL: Final = re.compile(r"https?://([A-Za-z0-9][A-Za-z0-9.-]{1,200})")
_LOCAL: Final = re.compile(r"^(?:localhost|[\d.]+|.*\.(?:local|localhost|internal|test|invalid))$")
_EXAMPLES: Final = ("example.com", "example.org", "example.net")

_VARIABLE: Final = re.compile(
    r"\$\{?([A-Z][A-Z0-9_]{2,60})\b"
    r"|(?<![\w$./-])([A-Z][A-Z0-9_]{2,60})=(?=\S)"
    r"|(?:process\.env\.|getenv\(['\"]|environ(?:\.get\(|\[)['\"]|Getenv\(\"|\$env:)"
    r"([A-Z][A-Z0-9_]{2,60})\b"
)
_PLAIN_VARIABLES: Final = words("CI DEBUG PYTHONPATH GOFLAGS RUSTFLAGS CFLAGS LDFLAGS")
_DULL_VARIABLES: Final = words("HOME PWD OLDPWD USER PATH SHELL TERM LANG TMPDIR EOF IFS")

_ERROR_NAME: Final = re.compile(
    r"\b(?:[A-Z][A-Za-z0-9]{1,40}(?:Error|Exception|Warning|Failure|Fault)"
    r"|E[A-Z]{3,12}(?=\W|$)|[A-Z]{2,5}\d{3,5}|E\d{3,4}|C\d{4}"
    r"|SQLITE_[A-Z]{3,20}|SIG(?:KILL|SEGV|ABRT|TERM|INT|PIPE|BUS)|ERR_[A-Z0-9_]{3,40})\b"
)
_ERRNO: Final = words(
    "ENOENT EACCES EEXIST EPERM ENOTDIR EISDIR ENOTEMPTY ECONNREFUSED ECONNRESET ETIMEDOUT EPIPE"
    " EADDRINUSE ENOSPC EMFILE EINVAL EAGAIN EBUSY ELOOP EXDEV ENOTFOUND EROFS EAI_AGAIN ERESOLVE"
    " ENOMEM EHOSTUNREACH EINTR ESRCH ENOEXEC"
)
_ERROR_LINE: Final = re.compile(
    r"(?:^|[\s\[(:])(?:[Ee]rrors?|ERRORS?|[Ff]atal|FATAL|panic|PANIC|FAILED|FAIL|[Ff]ailed|Failure"
    r"|[A-Z]\w{1,40}(?:Error|Exception))(?:\[[A-Z]\d{2,5}\])?(?::|!| TS\d|$| to | - )"
    r"|command not found|No such file or directory|[Pp]ermission denied|[Cc]annot find|not found:"
    r"|[Cc]onnection refused|timed out|[Uu]ndefined (?:reference|symbol|name)|Traceback \(most"
    r"|Segmentation fault|CONFLICT \(|--- FAIL|\bpanicked at\b|unresolved import"
    r"|^(?:E  +\S|ERROR\b|FAILED |FAIL |✗|✖|×|❌)|:\d+:\d+: [Ee]rror\b"
)
# Something of this is in each of them, and it is quick to look for.
_HINT: Final = re.compile(
    r"rror|ERROR|atal|FATAL|panic|PANIC|FAIL|ailed|ailure|xception|not found|No such|annot find"
    r"|ermission denied|onnection refused|timed out|ndefined|Traceback|Segmentation|CONFLICT"
    r"|unresolved|✗|✖|×|❌|^E  ",
    re.MULTILINE,
)
# What agents' programs say about a call of a tool is no error of the work itself.
_OF_THE_PROGRAM: Final = (
    *("The user doesn't want to", "<tool_use_error>", "File has not been read", "[Request interru"),
    *("String to replace not found", "Could not find the exact text", "File has been modified"),
    *("Sibling tool call errored", "apply_patch verification failed", "Request was aborted"),
    *("Claude requested permissions", "This command requires approval", "InputValidationError"),
    *("Command aborted", "No changes made to", "Error: Exit code"),
)
_FEW_LINES: Final = 2
_SHORTEST_LINE: Final = 12
_LONGEST_LINE: Final = 2_000
# Says that something failed, not what: it counts where nothing else is said.
_SAYS_NOTHING: Final = re.compile(
    r"\btask failed$|exited with code \d+$|^npm error command failed|^Tool execution aborted"
    r"|^Files with errors: \d|^\[?Operation [Cc]ancel|status code \d{3}$"
)
_ZERO_ERRORS: Final = re.compile(r"\b(?:0|no|No|zero) (?:errors?|failures?|failed)\b|\b0 failed\b")
# Lines of code and of reports that speak of errors without being one.
_CODE_LINE: Final = re.compile(
    r"^\s*(?:\d+[:|→\t]|===|//|#|\*|/\*|[-+<>|]\s|import |from |func |def |class |return |if |catch"
    r"|throw |except|raise |const |let |var |type |export |t\.|fmt\.|assert|case |\w+\()"
)

_COMMIT_LINE: Final = re.compile(
    r"^\[([^\]\n]{1,120}?) (?:\(root-commit\) )?([0-9a-f]{7,40})\] (.*)$", re.MULTILINE
)
_VERSION: Final = re.compile(
    r"(?<![\w.-])v?\d{1,4}\.\d{1,4}(?:\.\d{1,6})?(?:-[a-z]+\.?\d{0,4})?(?![\w.])"
)
_FLAG: Final = re.compile(r"(?<!\S)--?[A-Za-z][\w-]{1,40}")
_SYMBOL: Final = re.compile(
    r"\b(?:[a-z][a-z0-9]*_[a-z0-9_]+|[A-Z][a-z0-9]+(?:[A-Z][a-z0-9]*)+|[a-z]+(?:[A-Z][a-z0-9]*)+"
    r"|[A-Z][A-Z0-9]*_[A-Z0-9_]+)\b"
)
_TICKED: Final = re.compile(r"`([^`\n]{2,60})`")
_ISSUE: Final = re.compile(r"(?<![\w&/])#\d{1,6}\b|\b[A-Z]{2,8}-\d{1,6}\b")
_SERVICES: Final = words(
    "github gitlab bitbucket docker kubernetes postgres postgresql mysql mariadb redis mongodb"
    " elasticsearch kafka rabbitmq nginx aws gcp azure vercel netlify cloudflare heroku stripe"
    " slack sentry datadog grafana prometheus terraform ollama openai anthropic supabase firebase"
    " jira systemd launchd"
)


def unique(names: Iterable[str], limit: int = 20) -> tuple[str, ...]:
    """Return the first few different names, in their order."""
    kept: dict[str, None] = {}
    for name in names:
        kept[name] = None
        if len(kept) == limit:
            break
    return tuple(kept)


def as_file(token: str) -> str | None:
    """Give a word as the name of a file, without the line number behind it; None if it is none."""
    name = _LINE_NUMBER.sub("", token.strip("\"'`,;()[]{}<>")).rstrip(".:,")
    if not _may_be_path(name):
        return None
    last = name.replace("\\", "/").rsplit("/", 1)[-1]
    if last in _BARE_FILES:
        return name
    stem, dot, extension = last.rpartition(".")
    if not dot or not stem or extension.lower() not in _EXTENSIONS or name in _NOT_FILES:
        return None
    return name


def _may_be_path(name: str) -> bool:
    return (
        2 < len(name) <= 200  # noqa: PLR2004
        and _PATH_TOKEN.fullmatch(name) is not None
        and not name.startswith(("-", ":", *_PLACES))
        and ":" not in name[2:]  # but for a drive
        and "..." not in name
    )


def files_in(text: str) -> Iterator[str]:
    """Yield the files that a text names."""
    for token in text.split():
        if "." not in token and "file" not in token:
            continue
        found = as_file(token)
        if found is not None and not found.startswith(_PASSING):
            yield from _apart(found)


def _apart(name: str) -> list[str]:
    """Return two files that are written with a slash between them, `A.md/B.md`, each by itself."""
    parts = name.split("/")
    is_list = len(parts) > 1 and all(as_file(part) is not None for part in parts)
    return parts if is_list else [name]


def distinct_files(names: Iterable[str], limit: int = 20) -> tuple[str, ...]:
    """Return the first few different files; a second way to write one of them is left out."""
    kept: dict[str, None] = {}
    for name in names:
        if len(kept) == limit:
            break
        if not any(one.endswith(f"/{name}") or name.endswith(f"/{one}") for one in kept):
            kept[name] = None
    return tuple(kept)


def shortened(path: str, folders: Iterable[str]) -> str:
    """Return a path as seen from the folder that it lies in: still a part of what was written."""
    for folder in folders:
        root = folder.rstrip("/\\")
        if len(root) > 1 and path.startswith((f"{root}/", f"{root}\\")):
            return path[len(root) + 1 :] or path
    return path


def languages_of(files: Iterable[str]) -> list[str]:
    """Name the languages of files, by how their names end, the most used first."""
    counts: dict[str, int] = {}
    for name in files:
        language = _BY_EXTENSION.get(name.rpartition(".")[2].lower())
        if language is not None:
            counts[language] = counts.get(language, 0) + 1
    return sorted(counts, key=lambda language: -counts[language])


def domains_in(text: str) -> Iterator[str]:
    """Yield the hosts of the addresses in a text, this machine's own left out."""
    for found in _URL.finditer(text):
        host = found[1].rstrip(".-").lower()
        is_public = "." in host and not host.endswith(_EXAMPLES) and not _LOCAL.match(host)
        if is_public and found[1].startswith(host):
            yield host


def variables_in(text: str) -> Iterator[str]:
    """Yield the environment variables that a text sets or reads."""
    for found in _VARIABLE.finditer(text):
        name = found[1] or found[2] or found[3]
        if name in _DULL_VARIABLES:
            continue
        if "_" in name.strip("_") or name in _PLAIN_VARIABLES:
            yield name


def error_names_in(line: str) -> Iterator[str]:
    """Yield the names and codes of errors in a line that tells of one."""
    for found in _ERROR_NAME.finditer(line):
        name = found[0]
        if name.startswith("E") and name.isalpha() and name.isupper() and name not in _ERRNO:
            continue
        if not name.startswith(("RFC", "UTF", "ISO", "SHA", "HTTP", "Test")):
            yield name


def error_lines(text: str, limit: int = 5) -> list[str]:
    """Return the lines of some output that tell of an error, as they stand, the same kind once."""
    found: dict[str, str] = {}
    at = 0
    while len(found) < limit and (hint := _HINT.search(text, at)) is not None:
        start = text.rfind("\n", 0, hint.start()) + 1
        end = text.find("\n", hint.end())
        at = end if end >= 0 else len(text)
        line = text[start:at]
        if _tells_of_error(line):
            shown = cut_words(one_line(line), 240)
            found.setdefault("".join(c for c in shown if not c.isdigit()), shown)
    telling = [line for line in found.values() if not _SAYS_NOTHING.search(line)]
    return telling or list(found.values())


def _tells_of_error(line: str) -> bool:
    return (
        _SHORTEST_LINE <= len(line) <= _LONGEST_LINE
        and _ERROR_LINE.search(line[:400]) is not None
        and not _ZERO_ERRORS.search(line)
        and not _CODE_LINE.match(line)
    )


def failure_lines(output: str, limit: int = 3) -> list[str]:
    """Give the lines that say why something failed: those that tell of errors, else a lone line."""
    lines = [line for line in output.split("\n") if line.strip()]
    if not lines or lines[0].startswith(_OF_THE_PROGRAM):
        return []
    lone = lines[0] if len(lines) <= _FEW_LINES and len(lines[0]) >= _SHORTEST_LINE else ""
    return error_lines(output, limit) or ([cut_words(one_line(lone), 240)] if lone else [])


def commits_in(output: str) -> list[tuple[str, str, str]]:
    """Return branch, hash and subject of each commit that git tells of in its output."""
    found = (match.groups() for match in _COMMIT_LINE.finditer(output))
    return [(branch.split()[-1], sha, one_line(subject)) for branch, sha, subject in found]


def services_in(text: str) -> Iterator[str]:
    """Yield the services that commands and requests name, as they are written there.

    Names in capitals are parts of variables, and those behind an @ of mail addresses.
    """
    lower = text.lower()
    for name in sorted(_SERVICES):
        if name not in lower:
            continue
        for spelling in (name, name.capitalize()):
            if re.search(rf"(?<![\w@-]){spelling}(?![\w-])", text):
                yield spelling
                break


def dense_words(text: str) -> Iterator[str]:
    """Yield the words of a text that look like identifiers: symbols, flags, versions, issues."""
    for pattern in (_TICKED, _SYMBOL, _FLAG, _VERSION, _ISSUE):
        for found in pattern.finditer(text):
            yield found[1] if pattern is _TICKED else found[0]


_PROJECTS: Final = "~/projects"


def project_roots(settings: EnrichSettings, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the folders whose names are cut off the files that knowledge mentions.

    The variable that Hippo's programs know is heard as well.
    """
    if told := environ.get("HIPPO_PROJECT_ROOTS"):
        return tuple(part for part in told.split(":") if part)
    if settings.project_roots is not None:
        return tuple(str(expand(one, environ)) for one in settings.project_roots)
    found: list[str] = []
    with suppress(OSError, Invalid), os.scandir(expand(_PROJECTS, environ)) as folders:
        found = [one.path for one in folders if Path(one.path, ".git").exists()]
    return tuple(sorted(found))

"""Other programs that read the same transcripts, each the way its users start it.

They live in an environment of their own, beside what npm has, made by `python -m benchmarks
--install-peers`; one that is not there is left out, with a line that says so. None needs a network,
and none keeps running.
"""

import shutil
import subprocess
import sys
import venv
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.capture_corpus import Corpus
from benchmarks.capture_run import Used, launch
from benchmarks.place import Place

# The versions that were measured; orjson is for the limit.
REQUIREMENTS: Final = (
    "agentsview==0.46.1",
    "claude-code-log==1.7.0",
    "claude-code-transcripts==0.6",
    "claude-conversation-extractor==1.1.2",
    "orjson",
)
# Version 19 asks for Node 22, and 20 for a binary that not every registry has.
NPM_REQUIREMENTS: Final = ("ccusage@18.0.11",)

Command = tuple[list[str], Mapping[str, str]]  # a program with its arguments, its environment


class Peer(NamedTuple):
    """A program, and how to start it on a user home with an empty folder for what it writes."""

    program: str
    makes: str
    command: Callable[[Path, Path], Command]
    python: bool = True
    whole: bool = True  # keeps what tools answered, too
    slow: bool = False  # so slow that it gets the transcripts once, never repeated
    codex: bool = False  # reads those of Codex too


def _agentsview(home: Path, output: Path) -> Command:
    offline = {"AGENTSVIEW_NO_DAEMON": "1", "AGENTSVIEW_DISABLE_UPDATE_CHECK": "1"}
    quiet = {"AGENTSVIEW_TELEMETRY_ENABLED": "0", "AGENTSVIEW_DATA_DIR": str(output)}
    return ["sync"], {"HOME": str(home), **offline, **quiet}


def _code_log(home: Path, output: Path) -> Command:
    """Without its cache, which is quicker for a first run and leaves the home as it was."""
    places = ["--projects-dir", str(home / ".claude" / "projects"), "-o", str(output / "html")]
    return ["convert", "--all-projects", "--no-cache", *places], {"HOME": str(output)}


def _transcripts(home: Path, output: Path) -> Command:
    places = ["-s", str(home / ".claude" / "projects"), "-o", str(output / "html")]
    return ["all", "-q", "--include-agents", *places], {"HOME": str(output)}


def _extractor(home: Path, output: Path) -> Command:
    everything = ["--all", "--detailed", "--format", "json"]
    return [*everything, "--output", str(output)], {"HOME": str(home)}


def _ccusage(home: Path, output: Path) -> Command:
    """Its sums by day, with the prices that it brings along; it keeps nothing."""
    del output
    return ["daily", "--json", "--offline"], {"HOME": str(home)}


PEERS: Final[Mapping[str, Peer]] = {
    "agentsview": Peer(
        "agentsview", "SQLite with full text", _agentsview, python=False, codex=True
    ),
    "claude-code-log": Peer("claude-code-log", "HTML", _code_log, slow=True),
    "claude-code-transcripts": Peer("claude-code-transcripts", "HTML", _transcripts, slow=True),
    "claude-conversation-extractor": Peer(
        "claude-extract", "JSON without tool results", _extractor, whole=False
    ),
    "ccusage": Peer("ccusage", "tokens by day, printed", _ccusage, python=False, whole=False),
}


def environment(cache: Path) -> Path:
    """Name the folder of the environment."""
    return cache / "bench-capture-venv"


def install(cache: Path) -> None:
    """Make the environment and install every peer that can be had."""
    folder = environment(cache)
    venv.create(folder, with_pip=True, clear=True)
    for wanted in REQUIREMENTS:
        quiet = ("--quiet", "--disable-pip-version-check")
        command = [str(folder / "bin" / "python"), "-m", "pip", "install", *quiet, wanted]
        _install(wanted, command)
    for wanted in NPM_REQUIREMENTS:
        npm = shutil.which("npm") or "npm"
        _install(wanted, [npm, "install", "--silent", "--global", "--prefix", str(folder), wanted])


def _install(wanted: str, command: list[str]) -> None:
    print(f"installing {wanted} …", file=sys.stderr)
    try:
        failed = subprocess.run(command, check=False).returncode
    except FileNotFoundError:  # there is no npm
        failed = 1
    if failed:
        print(f"{wanted} could not be installed; it will be left out", file=sys.stderr)


def installed(cache: Path) -> Iterator[str]:
    """Name the peers that are there."""
    for name, peer in PEERS.items():
        if (environment(cache) / "bin" / peer.program).exists():
            yield name


class Made(NamedTuple):
    """What a peer used, of how many bytes of transcripts, and how many it wrote."""

    used: Used
    read: int
    written: int


def run_peer(place: Place, name: str, corpus: Corpus) -> Made:
    """Run a peer once, into an empty folder."""
    peer = PEERS[name]
    program = environment(place.folder.parent) / "bin" / peer.program
    with place.fresh() as output:
        arguments, env = peer.command(corpus.home, output)
        used = launch([str(program), *arguments], env, cwd=output)
        written = sum(path.stat().st_size for path in output.rglob("*") if path.is_file())
    return Made(used, corpus.size if peer.codex else corpus.claude, written)

"""The sources by name. Each is loaded when it is asked for: most machines have few of them."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from threadkeep.sources.records import Source

# Name -> the module whose SOURCE it is, or another name in it. A program that keeps its work in
# several ways has several.
_MODULES: Final = {
    "claude-code": "claude.transcripts",
    "cowork-names": "claude.cowork",
    "openclaude": "claude.transcripts:OPENCLAUDE",
    "workbuddy": "claude.transcripts:WORKBUDDY",
    "command-code": "claude.transcripts:COMMAND_CODE",
    "qoder": "claude.transcripts:QODER",
    "codex": "codex.rollouts",
    "codex-names": "codex.threads",
    "trae-cli": "codex.rollouts:TRAE",
    "cursor": "cursor.agent_transcripts",
    "cursor-old": "cursor.old_transcripts",
    "cursor-chats": "cursor.chats",
    "cursor-ide": "cursor.editor",
    "opencode": "opencode.database",
    "opencode-tree": "opencode.files",
    "kilo": "opencode.database:KILO",
    "mimocode": "opencode.database:MIMOCODE",
    "gemini-cli": "gemini_cli",
    "gemini-json": "gemini_json",
    "copilot-cli": "copilot_cli",
    "copilot-names": "copilot_cli:NAMES",
    "pi": "pi",
    "openclaw": "openclaw",
    "qwen-code": "qwen_code",
    "qwen-json": "gemini_json:QWEN",
    "kimi-code": "kimi_code",
    "kimi-code-names": "kimi_code:NAMES",
    "kimi-cli": "kimi_cli",
    "kimi-cli-names": "kimi_cli:NAMES",
    "gptme": "gptme",
    "gptme-names": "gptme:NAMES",
    "grok-build": "grok_build",
    "continue": "continue_dev",
    "cline": "cline.sessions",
    "cline-tasks": "cline.tasks:CLINE",
    "roo-code": "cline.tasks:ROO",
    "kilo-tasks": "cline.tasks:KILO",
    "goose": "goose",
    "goose-logs": "goose:LOGS",
    "llm": "llm_logs",
    "crush": "crush",
    "openhands": "openhands",
    "amp": "amp",
    "droid": "droid",
    "droid-usage": "droid:USAGE",
    "vscode-copilot": "vscode_copilot",
    "vscode-transcripts": "copilot_cli:TRANSCRIPTS",
    "zed": "zed",
    "mistral-vibe": "mistral_vibe",
    "mistral-vibe-logs": "mistral_vibe:OLDER",
    "kiro": "kiro",
    "kiro-lines": "kiro:LINES",
    "kiro-names": "kiro:NAMES",
    "warp": "warp",
    "auggie": "auggie",
    "iflow": "iflow",
    "windsurf": "unreadable:WINDSURF",
    "antigravity": "unreadable:ANTIGRAVITY",
    "trae": "unreadable:TRAE",
    "kiro-ide": "unreadable:KIRO_IDE",
    "junie": "unreadable:JUNIE",
    "codebuff": "unreadable:CODEBUFF",
    "chatgpt": "exports.chatgpt",
    "claude-ai": "exports.claude_ai",
    "aider": "aider",
    "hermes": "state_store",
}


GROUP: Final = "threadkeep.sources"  # the entry points through which packages bring sources
_ABOUT: Final = (
    ".dist-info",
    ".egg-info",
)  # where packages describe themselves


class Sources(Mapping[str, "Source"]):
    """Sources by name, each made when it is first asked for.

    `more` are those of other packages: they are looked for when somebody wants them all, or one
    that is not known here.
    """

    def __init__(
        self,
        makers: Mapping[str, Callable[[], "Source"]],
        more: Callable[[], Mapping[str, Callable[[], "Source"]]] = dict,
    ) -> None:
        self.makers = makers
        self.more = more
        self._all: Mapping[str, Callable[[], Source]] | None = None
        self._made: dict[str, Source] = {}

    def __getitem__(self, name: str) -> "Source":
        if name not in self._made:
            maker = self.makers.get(name) or self._everything()[name]
            self._made[name] = maker()
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        # To ask is no reason to load it.
        return name in self.makers or name in self._everything()

    def __iter__(self) -> Iterator[str]:
        return iter(self._everything())

    def __len__(self) -> int:
        return len(self._everything())

    def _everything(self) -> Mapping[str, Callable[[], "Source"]]:
        if self._all is None:
            self._all = {**self.more(), **self.makers}  # nobody takes the name of one of ours
        return self._all


def foreign_sources() -> Sources:
    """Return the sources of other programs, by name."""
    makers = {name: partial(_load, module) for name, module in _MODULES.items()}
    return Sources(makers, packaged)


def _load(module: str) -> "Source":
    path, _, name = module.partition(":")
    source: Source = getattr(import_module(f"threadkeep.sources.{path}"), name or "SOURCE")
    return source


def packaged() -> Mapping[str, Callable[[], "Source"]]:
    """Return the sources that other packages bring, by the names of their entry points."""
    if not any(map(_may_bring, sys.path)):
        return {}
    from importlib.metadata import entry_points  # noqa: PLC0415  (40 ms, to read what all bring)

    return {one.name: partial(_bring, one) for one in entry_points(group=GROUP)}


def _may_bring(place: str) -> bool:
    """Tell whether a package below a place may bring a source: its entry points name the group."""
    folder = place or os.curdir
    try:
        with os.scandir(folder) as inside:
            packages = [one.path for one in inside if one.name.endswith(_ABOUT)]
    except NotADirectoryError:
        return True  # an archive, into which only Python looks
    except OSError:
        return False
    return any(map(_names_group, packages))


def _names_group(about: str) -> bool:
    try:
        with open(os.path.join(about, "entry_points.txt"), "rb") as points:  # noqa: PTH118, PTH123
            return GROUP.encode() in points.read()
    except OSError:
        return False


def _bring(point: "EntryPoint") -> "Source":
    """Load another package's source; one that cannot be used stands in its place and says why."""
    from threadkeep.sources.format import UnreadableLogs, checked  # noqa: PLC0415  (with the first)

    try:
        return checked(point.name, point.load())
    except (Exception, SystemExit) as error:  # noqa: BLE001  (somebody else's code)
        fix = "fix or remove the package that provides it"
        return UnreadableLogs(point.name, f"{point.value}: {error}", fix)

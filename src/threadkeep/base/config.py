"""The configuration file: TOML, typed, with every setting shown in a commented default."""

import os
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from threadkeep.base.backup import KEEP_COUNT, KEEP_DAYS
from threadkeep.base.config_text import BODY_LIMIT, DEFAULT_TEXT, PART_LIMIT
from threadkeep.base.files import PRIVATE_FILE, make_private_dir
from threadkeep.base.paths import expand
from threadkeep.base.trouble import translate_os
from threadkeep.errors import Conflict, Invalid, NotFound

Positive = Annotated[int, msgspec.Meta(ge=1)]
Natural = Annotated[int, msgspec.Meta(ge=0)]
Port = Annotated[int, msgspec.Meta(ge=1, le=65_535)]


class StoreSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table `[stores]`: files that are not at their default place, and their form."""

    chat: str | None = None
    state: str | None = None
    knowledge: str | None = None
    knowledge_schema: Literal[18, 23] = 18


class CaptureSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table `[capture]`."""

    exclude: tuple[str, ...] = ()
    disable: tuple[str, ...] = ()
    roots: tuple[str, ...] = ()


class MemoryFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An entry of `[[auto_memory.sources]]`: a file of notes, and what it is called."""

    path: str
    repository: str | None = None
    logical_path: str | None = None


class DiscoverySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table `[auto_memory.discovery]`."""

    enabled: bool = True
    claude_projects: bool = True
    read_claude_settings: bool = True
    include_patterns: tuple[str, ...] = ()
    exclude_patterns: tuple[str, ...] = ()


class AutoMemorySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table `[auto_memory]`: the notes that Claude keeps, in stores of schema 23."""

    enabled: bool = True
    poll_interval_secs: Positive = 60
    absence_confirm_polls: Positive = 2
    max_revision_count: Positive = 20
    max_revision_age_days: Positive = 90
    discovery: DiscoverySettings = DiscoverySettings()
    sources: tuple[MemoryFile, ...] = ()


class ShellSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table `[shell]`."""

    exclude: tuple[str, ...] = ()
    output_head_lines: Positive = 50
    output_tail_lines: Positive = 100


class SocketSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table `[socket]`."""

    path: str | None = None
    brain_port: Port | None = None  # None: there is no brain of Hippo


class BrowserSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table `[browser]`."""

    enabled: bool = True
    domains: tuple[str, ...] | None = None  # None: the list that comes with threadkeep
    exclude: tuple[str, ...] = ()
    strip_params: tuple[str, ...] = (
        *("token", "api_key", "password", "secret", "auth", "session", "key", "sig"),
    )
    min_dwell_ms: Natural = 3000
    dedup_window_minutes: Natural = 30


class GithubSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table `[github]`."""

    enabled: bool = False
    watched_repos: tuple[str, ...] = ()
    api_url: str = "https://api.github.com"
    token_env: str = "THREADKEEP_GITHUB_TOKEN"  # noqa: S105  the name of a variable
    poll_interval_secs: Positive = 300
    tight_poll_interval_secs: Positive = 45
    watchlist_ttl_secs: Positive = 1200
    log_excerpt_max_bytes: Positive = 51_200
    lesson_min_occurrences: Positive = 2
    lesson_window_days: Positive = 30
    lesson_path_segments: Positive = 2


class RedactSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table `[redact]`."""

    rules: tuple[str, ...] = ()


class EnrichSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table `[enrich]`."""

    enabled: bool = True
    project_roots: tuple[str, ...] | None = None  # None: found below ~/projects


class ModelSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table `[model]`."""

    url: str | None = None  # None: no model is used
    name: str | None = None
    api_key_env: str = "THREADKEEP_MODEL_KEY"
    daily_tokens: Natural = 200_000
    timeout_secs: Positive = 120


class EmbeddingSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table `[embeddings]`."""

    provider: Literal["auto", "builtin", "url", "off"] = "auto"
    url: str | None = None
    name: str | None = None
    api_key_env: str = "THREADKEEP_MODEL_KEY"


class RecallSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table `[recall]`."""

    half_life_days: Positive = 180
    floor: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.7
    weights: dict[Literal["message", "node", "command", "page", "ci", "lesson"], float] = {}


class HealthSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table `[health]`."""

    alarm_interval_minutes: Positive = 60


class ServeSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table `[serve]`."""

    enrich: bool = True
    watchdog: bool = True
    maintenance: bool = True
    backup_hours: Natural = 24


class WebSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table `[web]`: the page and the HTTP API."""

    enabled: bool = True
    host: str = "127.0.0.1"
    port: Port = 7717
    allow_remote: bool = False
    tls_cert: str | None = None
    tls_key: str | None = None
    own_name: bool = True
    body_limit: Positive = BODY_LIMIT


class McpSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table `[mcp]`: what agents may do through MCP."""

    write: bool = False


class RetentionSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table `[retention]`; None keeps for ever."""

    commands_days: Positive | None = None
    pages_days: Positive | None = None
    ci_days: Positive | None = None
    sessions_days: Positive | None = None


class Chat(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table `[chat]`."""

    save_on: Literal["chunk", "step", "turn"] = "chunk"
    event_log: bool | None = None
    part_limit: Positive = PART_LIMIT


class Backups(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table `[backups]`."""

    keep_count: Positive = KEEP_COUNT
    keep_days: Positive = KEEP_DAYS


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that the configuration file can say."""

    stores: StoreSettings = StoreSettings()
    capture: CaptureSettings = CaptureSettings()
    auto_memory: AutoMemorySettings = AutoMemorySettings()
    shell: ShellSettings = ShellSettings()
    socket: SocketSettings = SocketSettings()
    browser: BrowserSettings = BrowserSettings()
    github: GithubSettings = GithubSettings()
    redact: RedactSettings = RedactSettings()
    enrich: EnrichSettings = EnrichSettings()
    model: ModelSettings = ModelSettings()
    embeddings: EmbeddingSettings = EmbeddingSettings()
    recall: RecallSettings = RecallSettings()
    health: HealthSettings = HealthSettings()
    serve: ServeSettings = ServeSettings()
    web: WebSettings = WebSettings()
    mcp: McpSettings = McpSettings()
    retention: RetentionSettings = RetentionSettings()
    chat: Chat = Chat()
    backups: Backups = Backups()


def parse_config(text: str, file: str) -> Config:
    """Read the text of a configuration file; an error names the key and the file."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Invalid(f"{file} is not TOML: {error}", hint="text goes in quotes") from None
    for key, known in unknown_keys(table, Config):
        raise Invalid(
            f"{file}: there is no setting {key!r}", hint="known here: " + ", ".join(known)
        )
    try:
        return msgspec.convert(table, Config)
    except msgspec.ValidationError as error:
        said, _, place = str(error).partition(" - at `$.")
        key = place.removesuffix("`") or "the file"
        hint = "`threadkeep paths --init` writes a commented default where there is none"
        raise Invalid(f"{file}: {key}: {said}", hint=hint) from None


def unknown_keys(table: Mapping[str, Any], shape: Any) -> Iterator[tuple[str, list[str]]]:
    """Yield each key that `shape` does not have, with the keys that it does have."""
    known = {field.name: field.type for field in msgspec.structs.fields(shape)}
    for key, value in table.items():
        if key not in known:
            yield key, sorted(known)
        elif isinstance(value, dict) and hasattr(known[key], "__struct_fields__"):
            for inner, names in unknown_keys(value, known[key]):
                yield f"{key}.{inner}", names


def load_config(path: Path) -> Config:
    """Read a configuration file; one that is not there means the defaults."""
    try:
        text = read_settings(path)
    except NotFound:
        return Config()
    return parse_config(text, str(path))


def read_settings(path: Path) -> str:
    """Read a file of settings as text."""
    try:
        return path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        raise NotFound(f"there is no file {path}", hint="check the path") from None
    except UnicodeDecodeError as error:
        msg = f"{path} is not UTF-8 text at byte {error.start}"
        raise Invalid(msg, hint="save the file as UTF-8") from None
    except OSError as error:
        raise translate_os(error, path) from error


def write_default(path: Path) -> None:
    """Write the commented default to a file that is not there yet."""
    make_private_dir(path.parent)
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, PRIVATE_FILE)
    except FileExistsError:
        msg = f"{path} exists already and was left as it is"
        raise Conflict(msg, hint="edit it, or move it away first") from None
    except OSError as error:
        raise translate_os(error, path) from error
    with open(descriptor, "w", encoding="utf-8") as file:  # noqa: PTH123  (a descriptor)
        file.write(DEFAULT_TEXT)


def store_path(named: str, config_file: Path, environ: Mapping[str, str]) -> Path:
    """Give the path that a `[stores]` entry names."""
    return config_file.parent / expand(named, environ)

"""The configuration file: TOML, typed, with every setting shown in a commented default."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec

from threadkeep.base.files import PRIVATE_FILE, make_private_dir, translate_os
from threadkeep.base.paths import expand
from threadkeep.errors import Conflict, Invalid, NotFound

# ------------------------------------------------------------------------------
# The commented default of the configuration file, and the numbers that stand in it.

# The same as the chat store's own; a larger part belongs into a file.
PART_LIMIT: Final = 64 * 1024 * 1024

# Which backups are kept: so many, and none older than so many days.
KEEP_COUNT: Final = 10
KEEP_DAYS: Final = 30

# What the web server takes in one request.
BODY_LIMIT: Final = 16 * 1024 * 1024

DEFAULT_TEXT: Final = f"""\
# The configuration of threadkeep. Every setting is shown, commented out, with its default.
# Order of precedence: an option on the command line, the environment, this file, the default.

[stores]
# Where the files are, when not in the data folder (`threadkeep paths` shows it).
# Relative paths start at the folder of this file; "~" is your home.
# chat = "chat.db"
# Not set: state.db in the data folder; if it is not there, Hermes Agent's own if it exists.
# state = "state.db"
# knowledge = "knowledge.db"

# The schema version of the knowledge store: 18, or 23 for today's Hippo, which works on no other.
# An older store is brought to it when it is next written, after a backup; there is no way back.
# knowledge_schema = 18

[capture]
# Projects that stay out: a folder with everything below it, the name of a project, or a pattern
# like "*-private". What was captured before stays until `threadkeep forget`.
# exclude = []

# Agents that are not captured, by the names that `threadkeep sources` shows.
# disable = []

# Folders that hold projects: logs that programs like Aider leave in a project are looked for below
# them, beside the usual places and the projects in which other agents worked.
# roots = []

[auto_memory]
# The notes that Claude keeps for each project (memory/*.md), in stores of schema version 23.
# Nothing is written to them, and nothing leaves this machine.
# enabled = true

# A file that is missing for so many looks, so many seconds apart, counts as deleted.
# poll_interval_secs = 60
# absence_confirm_polls = 2

# Older revisions of a note go when there are more, or when they are older.
# max_revision_count = 20
# max_revision_age_days = 90

# Notes elsewhere: [{{ path = "~/notes/kiln.md", repository = "ada/kiln" }}], each with a
# logical_path if it is not to be called as the file is.
# sources = []

[auto_memory.discovery]
# Where notes are looked for automatically: Claude's folders of projects, and the folders that its
# settings name (autoMemoryDirectory).
# enabled = true
# claude_projects = true
# read_claude_settings = true

# Patterns of folders, or of the names that Claude gives to projects. Empty: all of them.
# include_patterns = []
# exclude_patterns = []

[shell]
# Commands that are not kept: patterns like "pass *" or "*secret*"; [capture] exclude keeps out
# whole folders. A command typed with a space in front is never kept.
# exclude = []

# How many lines of output `threadkeep run` keeps from the beginning and from the end.
# output_head_lines = 50
# output_tail_lines = 100

[socket]
# Where `threadkeep watch` listens for Hippo's programs. Not set: daemon.sock in the data folder.
# path = "daemon.sock"

# Where Hippo's brain answers when it shares the store: it is asked for its schema version first.
# brain_port = 9175

[browser]
# enabled = true

# Pages are kept of these domains and their sub-domains alone.
# Not set: well-known places for developers (`threadkeep browser domains` shows them).
# domains = []

# Domains that are excluded, with their sub-domains.
# exclude = []

# Parameters that are cut out of addresses.
# strip_params = ["token", "api_key", "password", "secret", "auth", "session", "key", "sig"]

# The extension reports no shorter visits; visits within so many minutes are one.
# min_dwell_ms = 3000
# dedup_window_minutes = 30

[github]
# enabled = false

# Repositories whose CI is followed, as "owner/name".
# watched_repos = []

# Where the API is, and which variable holds the token.
# api_url = "https://api.github.com"
# token_env = "THREADKEEP_GITHUB_TOKEN"

# Seconds between two looks; and while a pushed commit is waited for.
# poll_interval_secs = 300
# tight_poll_interval_secs = 45
# watchlist_ttl_secs = 1200

# Bytes kept of the end of a failed job's log.
# log_excerpt_max_bytes = 51200

# A failure becomes a lesson when it came so often within so many days.
# lesson_min_occurrences = 2
# lesson_window_days = 30
# lesson_path_segments = 2

[redact]
# Files with more rules for secrets, in the format of gitleaks or of Hippo's redact.toml.
# rules = []

[enrich]
# What was captured becomes searchable knowledge automatically, without a model.
# enabled = true

# Folders whose names are cut off the files that knowledge mentions. Not set: the folders below
# ~/projects that hold a repository.
# project_roots = []

[model]
# A model that writes better summaries and answers: any server with an OpenAI-compatible API.
# Not set: none is used.
# url = "http://127.0.0.1:11434/v1"

# Which model. Not set: the first one of the server that can chat.
# name = "qwen3:8b"

# The variable that holds the key, if the server wants one.
# api_key_env = "THREADKEEP_MODEL_KEY"

# Tokens that may be used in a day (UTC), asked and answered together. 0: no limit.
# daily_tokens = 200000

# Seconds that one answer may take.
# timeout_secs = 120

[embeddings]
# Search by meaning: "auto" uses the built-in model where its parts are installed, "builtin" insists
# on them, "url" asks a server with an OpenAI-compatible API, "off" does without.
# provider = "auto"
# url = "http://127.0.0.1:11434/v1"
# name = "nomic-embed-text"
# api_key_env = "THREADKEEP_MODEL_KEY"

[recall]
# What is this many days old counts half of what is new; it never counts less than `floor` of it.
# half_life_days = 180
# floor = 0.7

# How much each kind of hit counts: message, command, visit, run, lesson, node.
# weights = {{ visit = 0.8 }}

[health]
# A violation that ended and comes back within so many minutes is the same alarm, not a new one.
# alarm_interval_minutes = 60

[serve]
# Which parts run beside capture.
# enrich = true
# watchdog = true
# maintenance = true

# Hours between two backups of each store. 0: none.
# backup_hours = 24

[web]
# The page and the HTTP API of `threadkeep serve` and `threadkeep up`.
# enabled = true
# host = "127.0.0.1"
# port = 7717

# Any other host than loopback is refused, unless both files of TLS are given, or this is true.
# allow_remote = false
# tls_cert = "cert.pem"
# tls_key = "key.pem"

# On loopback browsers see the page under a name of its own, http://….localhost, so that no other
# program of this machine is shown its cookie. Safari does not find such names: with false the page
# stays at 127.0.0.1, and its cookie goes to every server there.
# own_name = true

# The largest request body that is accepted, in bytes.
# body_limit = {BODY_LIMIT}

[mcp]
# Tools that change something (`remember`) are offered to agents only when this is true.
# write = false

[retention]
# Days after which things are deleted for good while `threadkeep serve` runs. Not set: never.
# commands_days = 365
# pages_days = 90
# ci_days = 365
# sessions_days = 730

[budget]
# What a day and a month may cost, in dollars; `threadkeep budget 200` sets the month's. The status
# line, `usage` and the page show how much of it is spent. Not set: no budget.
# day = 10
# month = 200

[chat]
# When a reply that streams in is stored: with every "chunk", or only at the end of each "step"
# or "turn". What was not stored yet is lost in a crash.
# save_on = "chunk"

# Keep every event for ever, so that a store can be rebuilt from its log. Not set: each file
# keeps the setting it has, and a new file keeps no log.
# event_log = false

# The largest part (text, tool result, ...) that is accepted, in characters.
# part_limit = {PART_LIMIT}

[backups]
# How many backups to keep beside a store, and for how many days. The newest is never removed.
# keep_count = {KEEP_COUNT}
# keep_days = {KEEP_DAYS}
"""


Positive = Annotated[int, msgspec.Meta(ge=1)]
Dollars = Annotated[float, msgspec.Meta(gt=0, le=1_000_000)]
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


# `page` and `ci` are what visits and runs were called before.
WeightKind = Literal["message", "command", "visit", "run", "lesson", "node", "page", "ci"]


class RecallSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table `[recall]`."""

    half_life_days: Positive = 180
    floor: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.7
    weights: dict[WeightKind, float] = {}


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
    """The table `[retention]`; None keeps forever."""

    commands_days: Positive | None = None
    pages_days: Positive | None = None
    ci_days: Positive | None = None
    sessions_days: Positive | None = None


class BudgetSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table `[budget]`: dollars; None: no limit. The page and the status line warn."""

    day: Dollars | None = None
    month: Dollars | None = None


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
    budget: BudgetSettings = BudgetSettings()
    chat: Chat = Chat()
    backups: Backups = Backups()


def parse_config(text: str, file: str) -> Config:
    """Read the text of a configuration file; an error names the key and the file."""
    import tomllib  # noqa: PLC0415  (most homes have no configuration file)

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
        from threadkeep.base.verbs import fault_words  # noqa: PLC0415  (most files are valid)

        hint = "`threadkeep paths --init` writes a commented default"
        raise Invalid(f"{file}: {fault_words(error, Config, table)}", hint=hint) from None


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
        msg = f"{path} already exists and was left unchanged"
        raise Conflict(msg, hint="edit it, or move it away first") from None
    except OSError as error:
        raise translate_os(error, path) from error
    with open(descriptor, "w", encoding="utf-8") as file:  # noqa: PTH123  (a descriptor)
        file.write(DEFAULT_TEXT)


def store_path(named: str, config_file: Path, environ: Mapping[str, str]) -> Path:
    """Return the path that a `[stores]` entry names."""
    return config_file.parent / expand(named, environ)

"""The root of the command line: every command there is, with its place and what it does."""

import os
from typing import Final

import click

from threadkeep import __version__
from threadkeep.cli.command import CommandEntry, Commands, Sections
from threadkeep.cli.options import folder_option

# A help page of 80 columns shows 58 characters of each, and a test refuses more.
SECTIONS: Final[Sections] = {
    "Get started": {
        "up": CommandEntry("serve:up", "Capture, serve and open the page: all at once"),
        "capture": CommandEntry(
            "history.capture:capture", "Capture what agents wrote on this machine"
        ),
        "tui": CommandEntry("tui.command:tui", "Browse sessions in the terminal"),
        "demo": CommandEntry("demo:demo", "Record a short conversation and follow it live"),
    },
    "Find": {
        "recall": CommandEntry(
            "memory.recall:recall", "Search everything: messages, commands, visits, runs"
        ),
        "ask": CommandEntry("memory.answers:ask", "Answer a question with quoted passages"),
        "search": CommandEntry("history.search:search", "Search the messages of all agents"),
        "fixed": CommandEntry("memory.answers:fixed", "Find how an error was fixed before"),
        "similar": CommandEntry(
            "memory.recall:similar", "Find items similar to a result or a text"
        ),
        "context": CommandEntry(
            "memory.answers:context", "Print what is remembered as a block for a prompt"
        ),
        "timeline": CommandEntry(
            "memory.answers:timeline", "Show what happened on a day, whoever did it"
        ),
        "open": CommandEntry(
            "memory.recall:open_", "Show the item a reference such as message:12 points to"
        ),
    },
    "Read": {
        "sessions": CommandEntry(
            "history.sessions:sessions", "List captured sessions, latest first"
        ),
        "show": CommandEntry("history.show:show", "Show a captured session"),
        "compare": CommandEntry("history.compare:compare", "Compare two sessions"),
        "tail": CommandEntry("history.tail:tail", "Follow what all agents write, live"),
        "usage": CommandEntry(
            "usage.command:usage", "Show tokens and cost by day, model, project, …"
        ),
        "projects": CommandEntry(
            "history.projects:projects", "List projects; rename, merge or split them"
        ),
        "commands": CommandEntry(
            "observed.commands:commands", "List commands that shells and agents ran"
        ),
        "lessons": CommandEntry("observed.ci:lessons", "List recurring failures"),
        "memories": CommandEntry("memory.answers:memories", "List Claude's memory notes"),
        "label": CommandEntry("history.labels:label", "Star, tag or annotate a session or message"),
        "labels": CommandEntry("history.labels:labels", "List what has a star, a tag or a note"),
        "sql": CommandEntry("history.sql:sql", "Run a read-only SQL query over the history"),
        "raw": CommandEntry(
            "history.show:raw", "Print a session's log lines as its agent wrote them"
        ),
    },
    "Hand off": {
        "export": CommandEntry("hand_off:export", "Write a session in another agent's format"),
        "resume": CommandEntry("hand_off:resume", "Continue a session in another agent"),
        "mcp": CommandEntry("mcp:mcp", "Serve agents over the Model Context Protocol"),
    },
    "Keep current": {
        "serve": CommandEntry("serve:serve", "Run capture, enrichment and upkeep of the stores"),
        "service": CommandEntry("serve:service", "Run `serve` automatically at login"),
        "web": CommandEntry("web:web", "List or revoke browser logins"),
        "watch": CommandEntry("history.capture:watch", "Keep capturing what agents write"),
        "sources": CommandEntry(
            "history.sources:sources", "Show which agents were found and how much was captured"
        ),
        "shell-init": CommandEntry(
            "observed.setup:shell_init", "Record every command run in a shell"
        ),
        "import-history": CommandEntry("observed.setup:import_history", "Import shell histories"),
        "run": CommandEntry("observed.spool:run", "Run a command and keep its output"),
        "browser": CommandEntry("observed.setup:browser", "Record the developer pages you read"),
        "github": CommandEntry("observed.ci:github", "Follow GitHub Actions: runs and failures"),
        "send-event": CommandEntry("observed.spool:send_event", "Report a command from a script"),
        "enrich": CommandEntry("memory.learn:enrich", "Summarize what was captured into knowledge"),
        "embed": CommandEntry("memory.learn:embed", "Compute embeddings for search by meaning"),
    },
    "Stores": {
        "chat": CommandEntry("chat.commands:chat", "Conversations: record, read, branch, follow"),
        "state": CommandEntry(
            "state.commands:state", "Session history in Hermes Agent's file format"
        ),
        "mail": CommandEntry("mail.commands:mail", "Mail between a host and an agent in a sandbox"),
        "knowledge": CommandEntry("history.knowledge:knowledge", "Knowledge files: check, migrate"),
        "import": CommandEntry("originals:import_", "Import another program's data, or an export"),
        "migrate": CommandEntry(
            "migration:migrate", "Move a home to a PostgreSQL server, or back to files"
        ),
        "backup": CommandEntry("backups:backup", "Copy a live store, checked row by row"),
        "restore": CommandEntry("backups:restore", "Restore a store from a backup"),
    },
    "Maintain": {
        "status": CommandEntry("status:status", "Show the stores, their sizes and health"),
        "paths": CommandEntry("status:paths", "Show where data and settings are kept"),
        "budget": CommandEntry("settings:budget", "Show or set what a day or a month may cost"),
        "doctor": CommandEntry("health:doctor", "Find problems and say how to fix them"),
        "alarms": CommandEntry("health:alarms", "Recorded gaps in capture: list, acknowledge"),
        "watchdog": CommandEntry(
            "health:watchdog", "Compare what was captured with what is on disk"
        ),
        "probe": CommandEntry("health:probe", "Send a test event through the whole pipeline"),
        "forget": CommandEntry(
            "history.forget:forget", "Delete captured sessions, or lines, for good"
        ),
        "redact": CommandEntry(
            "history.forget:redact", "Secrets: test the rules, mask what is stored"
        ),
        "uninstall": CommandEntry("status:uninstall", "Show how to remove threadkeep"),
        "completion": CommandEntry(
            "completion:completion", "Print completions for bash, zsh or fish"
        ),
        "man": CommandEntry("manual:man", "Write the manual pages"),
    },
    "": {
        "statusline": CommandEntry("usage.command:statusline", ""),
        "version": CommandEntry("status:version", ""),
        "events": CommandEntry("observed.commands:ALIASES", ""),  # what it was called before
        "native-host": CommandEntry("observed.setup:native_host", ""),
        "native-messaging-host": CommandEntry("observed.ci:ALIASES", ""),
        "gh-poll": CommandEntry("observed.ci:ALIASES", ""),
        "gh-pending-notifications": CommandEntry("observed.ci:ALIASES", ""),
    },
}


def _example_text() -> str:
    lines = (
        *("threadkeep up", 'threadkeep recall "how did we fix the slow query"'),
        *("threadkeep sessions --project harbor --since 7d", "threadkeep show last"),
        *("threadkeep usage daily --breakdown", "threadkeep tail"),
    )
    return "\n".join(["\b", "Example:", *(f"  {line}" for line in lines)])


@click.group(
    cls=Commands,
    sections=SECTIONS,
    invoke_without_command=True,
    epilog=_example_text(),
)
@click.version_option(
    __version__, "-V", "--version", prog_name="threadkeep", message="%(prog)s %(version)s"
)
@folder_option("--home", "The folder that holds everything.")
@click.option("-q", "--quiet", is_flag=True, help="Print only data, warnings and errors.")
@click.option("-v", "--verbose", count=True, help="Print more; twice: everything that is logged.")
@click.pass_context
def cli(ctx: click.Context, home: str | None, *, quiet: bool, verbose: int) -> None:
    """Keep everything that AI agents say and do, and find it again.

    `threadkeep COMMAND --help` has details and examples. With --json a command prints one JSON
    document, with --jsonl one object per item of a list.
    """
    del home, quiet  # every command asks the context for it
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
    else:
        _set_up_log(verbose)


def _set_up_log(verbose: int) -> None:
    """Log what THREADKEEP_LOG asks for, or more."""
    import logging

    wanted = os.environ.get("THREADKEEP_LOG", "warning").upper()
    level = logging.getLevelNamesMapping().get(wanted, logging.WARNING)
    logging.basicConfig(level=level, format="%(levelname)s: %(message)s")
    if verbose:
        logging.getLogger().setLevel(logging.INFO if verbose == 1 else logging.DEBUG)

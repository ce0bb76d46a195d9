"""The root of the command line: every command there is, with its place and what it does."""

import os
from typing import Final

import click

from threadkeep import __version__
from threadkeep.cli.command import CommandEntry, Commands, Sections
from threadkeep.cli.options import folder_option

# A help page of 80 columns shows 58 characters of each, and a test refuses more.
SECTIONS: Final[Sections] = {
    "Begin": {
        "up": CommandEntry("serve:up", "Capture, serve and open the page: all at once"),
        "capture": CommandEntry(
            "history.capture:capture", "Bring in what agents wrote on this machine"
        ),
        "demo": CommandEntry("demo:demo", "Record a short conversation and follow it live"),
    },
    "Find": {
        "recall": CommandEntry(
            "memory.recall:recall", "Find words in everything: messages, commands, runs"
        ),
        "ask": CommandEntry("memory.answers:ask", "Answer a question with passages that were said"),
        "search": CommandEntry(
            "history.search:search", "Find words in what agents were told and did"
        ),
        "fixed": CommandEntry("memory.answers:fixed", "Find how an error was ended before"),
        "similar": CommandEntry(
            "memory.recall:similar", "Find what is like a hit, or like any text"
        ),
        "context": CommandEntry(
            "memory.answers:context", "Give what is remembered, as a prompt's block"
        ),
        "timeline": CommandEntry(
            "memory.answers:timeline", "Tell what happened on a day, whoever did it"
        ),
        "open": CommandEntry(
            "memory.recall:open_", "Show what is behind a reference such as message:12"
        ),
    },
    "Read": {
        "sessions": CommandEntry(
            "history.sessions:sessions", "List captured sessions, the latest first"
        ),
        "show": CommandEntry("history.show:show", "Show a captured session"),
        "tail": CommandEntry("history.tail:tail", "Follow what all agents write, live"),
        "usage": CommandEntry(
            "usage.command:usage", "Sum up tokens and cost: by day, model, project"
        ),
        "commands": CommandEntry(
            "observed.commands:commands", "List commands that shells and agents ran"
        ),
        "lessons": CommandEntry("observed.ci:lessons", "List failures that came back"),
        "memories": CommandEntry("memory.answers:memories", "List the notes that Claude keeps"),
        "raw": CommandEntry("history.show:raw", "Write a session's lines as its agent wrote them"),
    },
    "Hand on": {
        "export": CommandEntry("hand_off:export", "Write a session in another agent's format"),
        "resume": CommandEntry("hand_off:resume", "Go on with a session in another agent"),
        "mcp": CommandEntry("mcp:mcp", "Let agents ask, over the Model Context Protocol"),
    },
    "Keep current": {
        "serve": CommandEntry("serve:serve", "Capture, listen, learn and look after the stores"),
        "service": CommandEntry("serve:service", "Have the system run `serve` at each log-in"),
        "web": CommandEntry("web:web", "The page's logins: list the browsers, revoke one"),
        "watch": CommandEntry("history.capture:watch", "Go on capturing what agents write"),
        "sources": CommandEntry(
            "history.sources:sources", "Show which agents were found, and how much"
        ),
        "shell-init": CommandEntry("observed.setup:shell_init", "Keep every command of a shell"),
        "import-history": CommandEntry(
            "observed.setup:import_history", "Bring in histories of shells"
        ),
        "run": CommandEntry("observed.spool:run", "Run a command and keep what it prints"),
        "browser": CommandEntry("observed.setup:browser", "Keep the developer pages that are read"),
        "github": CommandEntry("observed.ci:github", "Follow GitHub Actions: runs and failures"),
        "send-event": CommandEntry("observed.spool:send_event", "Report a command from a script"),
        "enrich": CommandEntry("memory.learn:enrich", "Make knowledge of what was captured"),
        "embed": CommandEntry(
            "memory.learn:embed", "Make vectors, to find the same in other words"
        ),
    },
    "Stores": {
        "chat": CommandEntry("chat.commands:chat", "Conversations: record, read, branch, follow"),
        "state": CommandEntry(
            "state.commands:state", "Session history in Hermes Agent's file format"
        ),
        "mail": CommandEntry("mail.commands:mail", "Mail between a host and an agent in a sandbox"),
        "knowledge": CommandEntry("history.knowledge:knowledge", "Knowledge files: check, migrate"),
        "import": CommandEntry(
            "originals:import_", "Take over another program's data, or an export"
        ),
        "backup": CommandEntry("backups:backup", "Copy a live store, checked row by row"),
        "restore": CommandEntry("backups:restore", "Put a backup in the place of a store"),
    },
    "Care": {
        "status": CommandEntry("status:status", "Show the files, their sizes and health"),
        "paths": CommandEntry("status:paths", "Show where data, settings and stores are"),
        "doctor": CommandEntry("health:doctor", "Say what is wrong, and what helps"),
        "alarms": CommandEntry("health:alarms", "Recorded gaps in capture: list, acknowledge"),
        "watchdog": CommandEntry("health:watchdog", "Check capture against what is on the disk"),
        "probe": CommandEntry("health:probe", "Send a made-up event the whole way"),
        "forget": CommandEntry(
            "history.forget:forget", "Delete captured sessions, or lines, for good"
        ),
        "redact": CommandEntry(
            "history.forget:redact", "Secrets: test the rules, mask what is stored"
        ),
        "completion": CommandEntry("completion:completion", "Teach bash, zsh or fish to complete"),
        "man": CommandEntry("manual:man", "Write the manual pages"),
    },
    "": {
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


@click.group(cls=Commands, sections=SECTIONS, invoke_without_command=True, epilog=_example_text())
@click.version_option(__version__, prog_name="threadkeep", message="%(prog)s %(version)s")
@folder_option("--home", "Keep everything in this folder.")
@click.option("-q", "--quiet", is_flag=True, help="Say nothing but data, warnings and errors.")
@click.option("-v", "--verbose", count=True, help="Say more; twice: all that is logged.")
@click.pass_context
def cli(ctx: click.Context, home: str | None, *, quiet: bool, verbose: int) -> None:
    """Record what agents say and do, capture what others did, lose nothing, find it again.

    `threadkeep COMMAND --help` tells more, with examples. --json answers in one JSON document,
    --jsonl in one object for each item of a list.
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

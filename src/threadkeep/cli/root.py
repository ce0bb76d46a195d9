"""The root of the command line: every command there is, with its place and what it does."""

from typing import Final

import click

from threadkeep import __version__
from threadkeep.cli.groups import Commands, Entry, Sections
from threadkeep.cli.options import folder_option

# A help page of 80 columns shows 58 characters of each, and a test refuses more.
SECTIONS: Final[Sections] = {
    "Begin": {
        "up": Entry("up:COMMANDS", "Capture, serve and open the page: all at once"),
        "capture": Entry("history.capture:capture", "Bring in what agents wrote on this machine"),
        "demo": Entry("demo:demo", "Record a short conversation and follow it live"),
    },
    "Find": {
        "recall": Entry("memory.recall:recall", "Find words in everything: messages, commands, CI"),
        "ask": Entry("memory.answers:ask", "Answer a question with passages that were said"),
        "search": Entry("history.search:search", "Find words in what agents were told and did"),
        "fixed": Entry("memory.answers:fixed", "Find how an error was ended before"),
        "similar": Entry("memory.recall:similar", "Find what is like a hit, or like any text"),
        "context": Entry("memory.answers:context", "Give what is remembered, as a prompt's block"),
        "timeline": Entry("memory.timeline:timeline", "Tell what happened on a day, all sources"),
        "open": Entry("memory.recall:open_", "Show what is behind a reference such as message:12"),
    },
    "Read": {
        "sessions": Entry("history.listing:sessions", "List captured sessions, the latest first"),
        "show": Entry("history.show:show", "Show a captured session"),
        "tail": Entry("history.tail:tail", "Follow what all agents write, live"),
        "usage": Entry("usage.command:usage", "Sum up tokens and cost: by day, model, project"),
        "events": Entry("observed.events:events", "List commands that shells and agents ran"),
        "lessons": Entry("observed.ci_listing:lessons", "List failures that came back"),
        "memories": Entry("memory.notes:memories", "List the notes that Claude keeps"),
        "raw": Entry("history.show:raw", "Write a session's lines as its program wrote them"),
    },
    "Hand on": {
        "export": Entry("handoff:COMMANDS", "Write a session in another program's format"),
        "resume": Entry("handoff:COMMANDS", "Go on with a session in another program"),
        "mcp": Entry("agents:COMMANDS", "Let agents ask, over the Model Context Protocol"),
    },
    "Keep current": {
        "serve": Entry("service.serve:serve", "Capture, listen, learn and look after the stores"),
        "service": Entry("service.service:service", "Have the system run `serve` at each log-in"),
        "web": Entry("service.web:web", "The page's logins: list the browsers, revoke one"),
        "watch": Entry("history.capture:watch", "Go on capturing what agents write"),
        "sources": Entry("history.sources:sources", "Show which agents were found, and how much"),
        "shell-init": Entry("observed.shells:shell_init", "Keep every command of a shell"),
        "import-history": Entry("observed.shells:import_history", "Bring in histories of shells"),
        "run": Entry("observed.running:run", "Run a command and keep what it prints"),
        "browser": Entry("observed.browsers:browser", "Keep the developer pages that are read"),
        "github": Entry("observed.ci:github", "Follow GitHub Actions: runs and failures"),
        "send-event": Entry("observed.sending:send_event", "Report a command from a script"),
        "enrich": Entry("memory.learning:enrich", "Make knowledge of what was captured"),
        "embed": Entry("memory.learning:embed", "Make vectors, to find the same in other words"),
    },
    "Stores": {
        "chat": Entry("chat.commands:chat", "Conversations: record, read, branch, follow"),
        "state": Entry("state.commands:state", "Session history in Hermes Agent's file format"),
        "mail": Entry("mail.commands:mail", "Mail between a host and an agent in a sandbox"),
        "knowledge": Entry("history.knowledge:knowledge", "Knowledge files: check, migrate"),
        "import": Entry("importing:import_", "Take over what Hermes, Grida, Hippo, NanoClaw have"),
        "backup": Entry("backups:backup", "Copy a live store, checked row by row"),
        "restore": Entry("backups:restore", "Put a backup in the place of a store"),
    },
    "Care": {
        "status": Entry("place:status", "Show the files, their sizes and health"),
        "paths": Entry("place:paths", "Show where data, settings and stores are"),
        "doctor": Entry("care.doctor:doctor", "Say what is wrong, and what helps"),
        "alarms": Entry("care.alarms:alarms", "Recorded gaps in capture: list, acknowledge"),
        "watchdog": Entry("care.alarms:watchdog", "Check capture against what is on the disk"),
        "probe": Entry("observed.probing:probe", "Send a made-up event the whole way"),
        "forget": Entry("history.forget:forget", "Delete captured sessions, or lines, for good"),
        "redact": Entry("history.redacting:redact", "Secrets: test the rules, mask what is stored"),
        "completion": Entry("completion:completion", "Teach bash, zsh or fish to complete"),
        "man": Entry("manual:man", "Write the manual pages"),
    },
    "": {
        "native-host": Entry("observed.browsers:native_host", ""),
        "native-messaging-host": Entry("observed.aliases:ALIASES", ""),
        "gh-poll": Entry("observed.aliases:ALIASES", ""),
        "gh-pending-notifications": Entry("observed.aliases:ALIASES", ""),
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
    --jsonl in one object for each thing that is listed.
    """
    del home, quiet  # every command asks the context for it
    if verbose:
        _log_more(verbose)
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def _log_more(verbose: int) -> None:
    import logging

    logging.getLogger().setLevel(logging.INFO if verbose == 1 else logging.DEBUG)

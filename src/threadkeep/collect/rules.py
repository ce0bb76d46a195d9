"""What is done to everything reported before it is stored: left out, or its secrets masked."""

import os
import re
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Final

import msgspec

from threadkeep.capture.exclusion import Exclusion
from threadkeep.collect.domains import is_listed
from threadkeep.collect.visits import split_address, stripped
from threadkeep.knowledge.observed import Command, GitState, Heartbeat, Observed, Output, Visit

# Where one command of a line ends and the next begins, as far as patterns are concerned.
_SLASHES: Final = re.compile(r"^/+")
_BETWEEN: Final = re.compile(r"[;&|\n]+|\$\(|`|\(")


class Rules(msgspec.Struct, frozen=True):
    """What the user keeps out, and how secrets are masked."""

    clean: Callable[[str], str]
    folders: Exclusion = Exclusion()
    commands: tuple[str, ...] = ()  # patterns of commands
    visits: bool = True  # whether pages are kept at all
    sites: tuple[str, ...] | None = None  # the only domains of which pages are kept; None: any
    domains: tuple[str, ...] = ()  # excluded with all below them
    strip_params: tuple[str, ...] = ()  # cut out of addresses


def prepare(thing: Observed, rules: Rules) -> Observed | None:
    """Mask the secrets of what was reported; None if the user does not want it kept."""
    match thing:
        case Command():
            return None if is_excluded(thing, rules) else masked_command(thing, rules)
        case Visit():
            return None if is_excluded(thing, rules) else masked_visit(thing, rules)
        case Heartbeat():
            return msgspec.structs.replace(thing, error=_maybe(thing.error, rules.clean))
        case _:
            return thing


def is_excluded(thing: Command | Visit, rules: Rules) -> bool:
    """Tell whether the user keeps out this folder, this command, or this site. Probes pass."""
    if thing.probe_tag is not None:
        return False
    if isinstance(thing, Visit):
        return not rules.visits or not _is_wanted(thing, rules)
    return lies_in(thing.cwd, rules.folders) or matches(thing.command, rules.commands)


def lies_in(folder: str, excluded: Exclusion) -> bool:
    """Tell whether a folder is kept out, by any of its names: links and dots lead into it too."""
    if not folder or not excluded.patterns:
        return False
    plain = _SLASHES.sub("/", os.path.normpath(folder))
    return any(map(excluded.of_place, (folder, plain, os.path.realpath(plain))))


def _is_wanted(visit: Visit, rules: Rules) -> bool:
    address = split_address(visit.url)
    hosts = (visit.domain, address.domain() if address else "")
    if any(is_listed(host, rules.domains) for host in hosts):
        return False
    return rules.sites is None or all(is_listed(host, rules.sites) for host in hosts)


def matches(command: str, patterns: tuple[str, ...]) -> bool:
    """Tell whether a command, or one that is part of it, fits one of the patterns.

    A pattern of one plain word names a program, whatever its arguments.
    """
    if not patterns:
        return False
    parts = [command.strip(), *(part.strip() for part in _BETWEEN.split(command))]
    return any(_fits(part, pattern) for part in parts for pattern in patterns if part)


def _fits(part: str, pattern: str) -> bool:
    if fnmatchcase(part, pattern):
        return True
    first = part.split(None, 1)[0] if part.split() else ""
    return first == pattern or first.rpartition("/")[2] == pattern


def masked_command(command: Command, rules: Rules) -> Command:
    """Mask the secrets in everything that a command brought along."""
    clean = rules.clean
    return msgspec.structs.replace(
        command,
        command=clean(command.command),
        cwd=clean(command.cwd),
        stdout=_masked_output(command.stdout, clean),
        stderr=_masked_output(command.stderr, clean),
        env=masked_variables(command.env, rules),
        git=_masked_git(command.git, clean),
    )


def masked_visit(visit: Visit, rules: Rules) -> Visit:
    """Mask the secrets in everything that a visit brought along."""
    clean = rules.clean
    if _leads_from_outside(visit, rules):
        visit = msgspec.structs.replace(visit, referrer=None, search_query=None)
    return msgspec.structs.replace(
        visit,
        url=clean(_stripped(visit.url, rules)),
        title=_maybe(visit.title, clean),
        extracted_text=_maybe(visit.extracted_text, clean),
        search_query=_maybe(visit.search_query, clean),
        referrer=_maybe(visit.referrer, lambda url: clean(_stripped(url, rules))),
    )


def _leads_from_outside(visit: Visit, rules: Rules) -> bool:
    """Tell whether somebody came from a site that is kept out, with what was looked for there."""
    address = split_address(visit.referrer) if visit.referrer else None
    return address is not None and is_listed(address.domain(), rules.domains)


def _stripped(url: str, rules: Rules) -> str:
    address = split_address(url)
    return stripped(address, rules.strip_params) if address else url


def masked_variables(variables: dict[str, str], rules: Rules) -> dict[str, str]:
    """Mask the secrets in the values of variables; one that names a folder kept out goes."""
    return {
        name: _masked_value(name, text, rules.clean)
        for name, text in variables.items()
        if not any(lies_in(place, rules.folders) for place in text.split(":"))
    }


def _masked_value(name: str, text: str, clean: Callable[[str], str]) -> str:
    # With its name in front, a value is found by rules that look for assignments.
    told = clean(f"{name}={text}")
    return told.removeprefix(f"{name}=") if told.startswith(f"{name}=") else clean(text)


def _masked_output(output: Output | None, clean: Callable[[str], str]) -> Output | None:
    if output is None:
        return None
    return msgspec.structs.replace(output, content=clean(output.content))


def _masked_git(git: GitState | None, clean: Callable[[str], str]) -> GitState | None:
    if git is None:
        return None
    return msgspec.structs.replace(
        git, repo=_maybe(git.repo, clean), branch=_maybe(git.branch, clean)
    )


def _maybe(text: str | None, clean: Callable[[str], str]) -> str | None:
    return None if text is None else clean(text)

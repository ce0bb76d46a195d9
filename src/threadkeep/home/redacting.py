"""The rules for secrets as people may look at them: which there are, and where each is from."""

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from threadkeep.base.config import read_settings, store_path
from threadkeep.home.places import environment
from threadkeep.redact.rules import Rule, RuleRefusal, load_rules, own_rules

if TYPE_CHECKING:
    from threadkeep.home.facade import Home


_OWN = "threadkeep"


class KnownRule(msgspec.Struct, frozen=True):
    """A rule for one kind of secret: its name, the file it is from, the words it looks for."""

    id: str
    origin: str
    keywords: list[str]


class RefusedRule(msgspec.Struct, frozen=True):
    """A rule of a file that cannot be used, and why."""

    id: str
    origin: str
    reason: str


class RuleBook(msgspec.Struct, frozen=True):
    """All rules of a home."""

    rules: list[KnownRule]
    refused: list[RefusedRule]


def rule_book(home: "Home") -> RuleBook:
    """List our own rules, then those of the files that the configuration names."""
    book = RuleBook([_known(rule, _OWN) for rule in own_rules()], [])
    for name in home.config.redact.rules:
        path = store_path(name, home.paths().config, environment())
        _add_file(book, path)
    return book


def _add_file(book: RuleBook, path: Path) -> None:
    found = load_rules(read_settings(path), str(path))
    book.rules.extend(_known(rule, str(path)) for rule in found.rules)
    book.refused.extend(_refused(rule, str(path)) for rule in found.refused)


def _known(rule: Rule, origin: str) -> KnownRule:
    return KnownRule(rule.id, origin, [word.decode("utf-8", "replace") for word in rule.keywords])


def _refused(rule: RuleRefusal, origin: str) -> RefusedRule:
    return RefusedRule(rule.id, origin, rule.reason)

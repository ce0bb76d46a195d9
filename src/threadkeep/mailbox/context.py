"""Ids of the mailbox: `<prefix>-<epoch ms>-<6 base36>`, and those built from other ids."""

import secrets
from collections.abc import Callable
from typing import Final, Literal, NamedTuple

import msgspec

from threadkeep.base.clock import Clock, find_zone, iso
from threadkeep.mailbox.folder import Folder
from threadkeep.mailbox.rows import sqlite_form

# Gives a whole number from 0 up to, but not including, its argument.
Below = Callable[[int], int]

Prefix = Literal[
    "sess",
    "ag",  # an agent group
    "mg",  # a chat
    "mga",  # the wiring of the two
    "msg",
    "task",
    "a2a",  # mail from another agent
    "sys",  # from here on: what the host tells an agent, asks people, or runs
    "sys-resp",
    "restart",
    "deny",
    "appr",
    "appr-note",
    "cli",
]

_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_TAIL_LENGTH: Final = 6


def new_id(prefix: Prefix, now_ms: int, random: Below = secrets.randbelow) -> str:
    """Make an id of one kind: the time it was made, then six random characters."""
    tail = "".join(_DIGITS[random(len(_DIGITS))] for _ in range(_TAIL_LENGTH))
    return f"{prefix}-{now_ms}-{tail}"


def question_row_id(question_id: str, ms: int) -> str:
    """Return the id of the mail that answers a question."""
    return f"qr-{question_id}-{ms}"


def answer_row_id(request_id: str) -> str:
    """Return the id of the mail that answers a command."""
    return f"cli-resp-{request_id}"


def channel_message_id(platform_id: str, agent_group_id: str) -> str:
    """Return the id of mail from a channel; the same post may go to several agent groups."""
    return f"{platform_id}:{agent_group_id}"


def platform_part(message_id: str, agent_group_id: str) -> str:
    """Give back the platform's own id; an id that is not this group's stays as it is.

    A platform's id may have colons of its own, so only the exact ending is taken off.
    """
    return message_id.removesuffix(f":{agent_group_id}")


# ------------------------------------------------------------------------------
# How patient a mailbox is: every number that decides about tries, times and sizes.

CatchUp = Literal["collapse", "all", "skip"]
KILO: Final = 1024


class Policy(msgspec.Struct, frozen=True):
    """The limits of one mailbox; the defaults are NanoClaw's where it has any."""

    retries: int = 5
    """How often unfinished mail is claimed again: six claims in all."""
    backoff_s: int = 5
    """The first pause before another claim; each one doubles: 5, 10, 20, 40, 80 s."""
    delivery_attempts: int = 3
    """How often a channel may refuse a message before it is given up."""
    delivery_backoff_s: int = 5
    """The first pause before another delivery; each one doubles."""
    offline_s: int = 30
    """The pause when a channel is not there at all; that spends no attempt."""
    ceiling_ms: int = 30 * 60_000
    """A container without a heartbeat for so long is ended."""
    claim_ms: int = 60_000
    """A claim this old without a heartbeat since is stuck."""
    hops: int = 16
    """How often agents may pass mail on among themselves before somebody else speaks."""
    hop_memory_ms: int = 60 * 60_000
    """After so long a silence between agents the count starts over."""
    content_bytes: int = 4 * KILO * KILO
    """The largest content of one message."""
    prompt_mails: int = 10
    """How many messages one poll gives."""
    drain: int = 100
    """How many messages one look at the outbox takes over at once."""
    run_backoff_s: int = 120
    """After a run that failed, the next one of its series comes no sooner; each one doubles."""
    run_backoff_most_s: int = 3600
    """The longest such pause: 2, 4, 8, 16, 32, 60, 60 minutes."""
    runs_failed: int = 8
    """After so many failed runs in a row the next one is put on hold."""
    same_mail_ms: int = 60 * 60_000
    """The same words under the same id are new mail, once the first is over for so long."""
    catch_up: CatchUp = "collapse"
    """What happens to runs that were missed: one run now, all of them, or none."""
    catch_up_runs: int = 100
    """The most missed runs that `all` makes up for."""


DEFAULT: Final = Policy()


def claims_allowed(policy: Policy) -> int:
    """Return how often one message may be claimed in all."""
    return policy.retries + 1


def run_pause_ms(policy: Policy, failures: int) -> int:
    """Return how long a series waits at least after so many failed runs in a row, 0 after none."""
    if failures <= 0:
        return 0
    doubled = policy.run_backoff_s * 2 ** min(failures - 1, 30)
    return int(min(doubled, policy.run_backoff_most_s)) * 1000


def backoff_seconds(policy: Policy, claims: int) -> int | None:
    """Return the pause after so many unfinished claims, None if that was the last one."""
    if claims >= claims_allowed(policy):
        return None
    return int(policy.backoff_s * 2 ** max(claims - 1, 0))


# ------------------------------------------------------------------------------
# What every verb of either side works with.


class MailContext(NamedTuple):
    """The surroundings of a verb: the folder, the time, and how patient to be.

    `running` is the host's knowledge whether a container works in the folder, None if it has none.
    """

    folder: Folder
    clock: Clock
    zone: str = "UTC"
    policy: Policy = DEFAULT
    agent_group: str | None = None
    session: str = ""
    running: Callable[[], bool] | None = None
    random: Below = secrets.randbelow

    def checked(self) -> "MailContext":
        """Return the context itself; refuse a zone that is not known here."""
        find_zone(self.zone)
        return self

    def now_sql(self) -> str:
        """Return the time as the database writes it."""
        return sqlite_form(self.clock())

    def now_iso(self) -> str:
        """Return the time as messages carry it."""
        return iso(self.clock())

    def new_id(self, prefix: Prefix) -> str:
        """Make an id."""
        return new_id(prefix, self.clock(), self.random)

"""Ids of the mailbox: `<prefix>-<epoch ms>-<6 base36>`, and those built from other ids."""

import secrets
from collections.abc import Callable
from typing import Final, Literal

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
    """Give the id of the mail that answers a question."""
    return f"qr-{question_id}-{ms}"


def answer_row_id(request_id: str) -> str:
    """Give the id of the mail that answers a command."""
    return f"cli-resp-{request_id}"


def channel_message_id(platform_id: str, agent_group_id: str) -> str:
    """Give the id of mail from a channel; the same post may go to several agent groups."""
    return f"{platform_id}:{agent_group_id}"


def platform_part(message_id: str, agent_group_id: str) -> str:
    """Give back the platform's own id; an id that is not this group's stays as it is.

    A platform's id may have colons of its own, so only the exact ending is taken off.
    """
    return message_id.removesuffix(f":{agent_group_id}")

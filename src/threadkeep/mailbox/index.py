"""MailIndex: the host's own record of agents, chats, sessions and questions, in `mailbox.db`.

Every verb is one function in a module of this package; here they come together. A verb that
writes is one transaction, durable when it returns.
"""

import secrets
from pathlib import Path
from typing import Self

from threadkeep.base.backup import make_backup
from threadkeep.base.clock import Clock, now_ms
from threadkeep.base.database import DEFAULT_BUDGET, Database
from threadkeep.base.schema import prepare, refuse_newer
from threadkeep.base.verbs import reads, writes
from threadkeep.errors import Invalid
from threadkeep.mailbox import (
    index_destinations as destinations_,
    index_groups as groups,
    index_questions as questions,
    index_sessions as sessions_,
)
from threadkeep.mailbox.ids import Below
from threadkeep.mailbox.index_layout import QUERIES, SCHEMA, read_version
from threadkeep.mailbox.index_rows import MailIndexContext


class MailIndex:
    """Which mailboxes there are, who they belong to, and where their agents may send."""

    def __init__(self, context: MailIndexContext) -> None:
        """Use `MailIndex.open`."""
        self.context = context

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        read_only: bool = False,
        budget: float = DEFAULT_BUDGET,
        clock: Clock = now_ms,
        random: Below = secrets.randbelow,
    ) -> Self:
        """Open an index, create it if it is missing, or bring an older one up.

        `budget` is how long a write may wait, in seconds.
        """
        database = Database(path, QUERIES, budget=budget, read_only=read_only)
        index = cls(MailIndexContext(database, clock, random))
        try:
            if read_only:
                index._check_readable()
            else:
                prepare(database, SCHEMA, index._backup_before_upgrade)
        except BaseException:
            database.close()
            raise
        return index

    def _check_readable(self) -> None:
        with self.context.db.read() as tx:
            version = read_version(tx)
        if version is None:
            msg = f"{self.path} is not an index of mailboxes"
            raise Invalid(msg, hint="check the path; opening it for writing makes a new one")
        refuse_newer(self.context.db, SCHEMA, version)

    def _backup_before_upgrade(self, reason: str) -> None:
        make_backup(self.context.db, reason=reason, clock=self.context.clock)

    @property
    def path(self) -> Path:
        """The file of the index."""
        return self.context.db.path

    def close(self) -> None:
        """Close the index."""
        self.context.db.close()

    def __enter__(self) -> Self:
        """Use the index in a `with` block, which closes it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the index."""
        self.close()

    # agents, chats, and who serves which
    add_agent_group = writes(groups.add_agent_group)
    agent_group = reads(groups.agent_group)
    agent_groups = reads(groups.agent_groups)
    zone = reads(groups.zone)
    set_zone = writes(groups.set_zone)
    add_messaging_group = writes(groups.add_messaging_group)
    messaging_group = reads(groups.messaging_group)
    messaging_group_at = reads(groups.messaging_group_at)
    messaging_groups = reads(groups.messaging_groups)
    wire = writes(groups.wire)
    agents_of = reads(groups.agents_of)

    # sessions
    resolve_session = writes(sessions_.resolve_session)
    session = reads(sessions_.session)
    sessions = reads(sessions_.sessions)
    newest_active_session = reads(sessions_.newest_active_session)
    close_session = writes(sessions_.close_session)
    reopen_session = writes(sessions_.reopen_session)
    set_container_status = writes(sessions_.set_container_status)
    touch = writes(sessions_.touch)

    # where an agent may send
    add_destination = writes(destinations_.add_destination)
    remove_destination = writes(destinations_.remove_destination)
    destinations = reads(destinations_.destinations)
    may_send = reads(destinations_.may_send)
    may_reach_agent = reads(destinations_.may_reach_agent)

    # questions
    add_question = writes(questions.add_question)
    question = reads(questions.question)
    take_question = writes(questions.take_question)
    forget_questions = writes(questions.forget_questions)

"""Taking over NanoClaw's mailboxes: each session folder is copied, then known to our mailroom.

The two databases of a folder go through SQLite's backup API, attachments through the caution that
any file of a sandboxed agent gets. A folder gets its name when it is complete.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, get_args

from threadkeep.base import nofollow
from threadkeep.base.clock import iso
from threadkeep.base.files import make_private_dir, sync_dir, translate_os
from threadkeep.base.sqlite.backup import make_backup
from threadkeep.base.sqlite.database import SqliteDatabase
from threadkeep.base.sqlite.foreign import open_foreign
from threadkeep.errors import NotFound, ThreadkeepError
from threadkeep.mailbox.attachments import folder_for
from threadkeep.mailbox.folder import Folder, session_dir
from threadkeep.mailbox.index import MailIndex
from threadkeep.mailbox.index_records import SessionMode
from threadkeep.mailbox.letters import look_at
from threadkeep.mailbox.mailroom import Mailroom
from threadkeep.mailbox.merge import MailDifference, merge, news, remember
from threadkeep.transfer.originals import (
    AdoptReport,
    HomeLike,
    Original,
    Progress,
    mail_count,
    mail_folders,
)

Row = dict[str, Any]
_FILE_LIMIT: Final = 1 << 30
_BOXES: Final = ("inbox", "outbox")
_CENTRAL: Final = "v2.db"
_MADE: Final = re.compile(r"sess-(\d{13})-")


class Central(NamedTuple):
    """What NanoClaw's own index says, by id; empty if there is none beside the sessions."""

    sessions: Mapping[str, Row]
    agents: Mapping[str, Row]
    chats: Mapping[str, Row]
    wirings: Mapping[str, Row]


def adopt_mail(
    home: HomeLike, original: Original, *, dry_run: bool, progress: Progress | None
) -> AdoptReport:
    """Copy the session folders that we do not know yet, and enter them into the index.

    Of the others comes what is new in them.
    """
    folders, unseen = mail_folders(original.path)
    central = _read_central(original.path.parent / _CENTRAL)
    target = home.paths().data / "mailbox"
    known = _known(home)
    # The newest first: of several sessions at one place only one can be active.
    new = sorted((f for f in folders if f.name not in known), key=_made, reverse=True)
    rest = [folder for folder in folders if folder.name in known]
    if dry_run:
        fresh = [folder for folder in rest if _news(target, folder)]
        updated, skipped = len(fresh), len(rest) - len(fresh)
        return AdoptReport(
            original, target, added=len(new), updated=updated, skipped=skipped, dry_run=True
        )
    work = _FolderRound(len(folders), progress)
    with home.mailroom() as room:
        added = sum(work.did(folder, lambda one: _adopt(room, one, central)) for folder in new)
        updated = sum(work.did(folder, lambda one: _update(target, one)) for folder in rest)
    problems = [f"{one.path}: {one.why}; {one.fix}" for one in unseen] + work.problems
    skipped = len(rest) - updated
    return AdoptReport(
        original, target, added=added, updated=updated, skipped=skipped, problems=problems
    )


class _FolderRound:
    """Goes through folders; a bad one does not keep out the others."""

    def __init__(self, total: int, progress: Progress | None) -> None:
        self._total, self._count, self._progress = total, 0, progress
        self.problems: list[str] = []

    def did(self, folder: Path, verb: Callable[[Path], bool]) -> bool:
        """Do something with a folder; tell whether it was done."""
        try:
            done = verb(folder)
        except ThreadkeepError as error:
            self.problems.append(f"{folder}: {error}")
            done = False
        self._count += 1
        if self._progress is not None:
            self._progress(self._count, self._total)
        return done


def _known(home: HomeLike) -> set[str]:
    try:
        with home.mail_index() as index:
            return {session.id for session in index.sessions()}
    except NotFound:
        return set()


def _made(folder: Path) -> int:
    """Tell when a session was begun: its id says so, else the folder."""
    found = _MADE.match(folder.name)
    return int(found[1]) if found else folder.stat().st_mtime_ns // 1_000_000


# ---------------------------------------------------------------------- copying


def _adopt(room: Mailroom, folder: Path, central: Central) -> bool:
    group = folder.parent.name
    target = session_dir(room.root / "mailbox", group, folder.name)
    if not target.exists():  # else an import was cut off before it entered the folder
        _copy_folder(folder, target)
    chat = _enter_places(room.index, group, folder.name, central)
    _enter_session(room.index, folder, chat, central)
    return True


def _update(root: Path, folder: Path) -> bool:
    """Bring what is new in a folder into our copy of it; tell whether there was anything."""
    found = _news(root, folder)
    if not found:
        return False
    ours = look_at(session_dir(root, folder.parent.name, folder.name))
    for box in _BOXES:
        _copy_files(folder, ours.folder.path, box, found.ids)
    merge(ours, found)
    return True


def _news(root: Path, folder: Path) -> MailDifference:
    target = session_dir(root, folder.parent.name, folder.name)
    if not target.exists():  # it was removed here
        return MailDifference()
    mail_count(folder)  # refuses links and views
    return news(look_at(target), Folder(folder))


def _copy_folder(folder: Path, target: Path) -> None:
    mail_count(folder)  # refuses links and views, which what follows would go through
    copy = target.with_name(f".{target.name}.importing")
    above = target.parent
    make_private_dir(above)
    nofollow.remove_tree(above, copy.name)  # of an import that was killed
    make_private_dir(copy)
    try:
        _fill(folder, copy)
        remember(look_at(copy))
        copy.rename(target)
        sync_dir(above)
    except OSError as error:
        nofollow.remove_tree(above, copy.name)
        raise translate_os(error, target, "cannot write") from error
    except BaseException:
        nofollow.remove_tree(above, copy.name)
        raise


def _fill(folder: Path, copy: Path) -> None:
    for name in ("inbound.db", "outbound.db"):
        with SqliteDatabase(folder / name, {}, read_only=True) as database:
            make_backup(database, copy / name)
    for box in _BOXES:
        _copy_files(folder, copy, box)


def _copy_files(folder: Path, copy: Path, box: str, messages: Iterable[str] | None = None) -> None:
    """Copy the attachments of one direction, `<box>/<message>/<file>`; of some messages, or all."""
    nofollow.make_dir(copy, box)
    wanted = None if messages is None else {folder_for(message) for message in messages}
    for message in _names(folder, box):
        if wanted is not None and message not in wanted:
            continue
        files = {
            name: nofollow.read(folder, (box, message), name, _FILE_LIMIT)
            for name in _names(folder, box, message)
            if nofollow.is_file(folder, (box, message), name)
        }
        if files:
            nofollow.make_dir(copy, box, message)
            nofollow.write_files(copy, (box, message), files)


def _names(folder: Path, *parts: str) -> list[str]:
    try:
        return nofollow.list_names(folder, *parts)
    except ThreadkeepError:  # not there, a plain file, or a link: nothing of it is ours to copy
        return []


# ---------------------------------------------------------------------- the index


def _read_central(path: Path) -> Central:
    if not path.is_file():
        return Central({}, {}, {}, {})
    with open_foreign(path) as database:
        names = ("sessions", "agent_groups", "messaging_groups", "messaging_group_agents")
        there = database.tables()
        found = []
        for name in names:
            columns = database.columns(name) if name in there else []
            sql = f'SELECT * FROM "{name}"'  # noqa: S608  (one of the names above)
            rows = database.rows(sql) if columns else iter(())
            found.append({row[columns.index("id")]: _row(columns, row) for row in rows})
    return Central(*found)


def _row(columns: list[str], values: tuple[Any, ...]) -> Row:
    return dict(zip(columns, values, strict=True))


def _enter_places(index: MailIndex, group: str, session_id: str, central: Central) -> str | None:
    """See to it that the agent and the chat of a session are known; give the chat's id."""
    if group not in {agent.id for agent in index.agent_groups()}:
        known = central.agents.get(group, {})
        index.add_agent_group(str(known.get("name") or group), group_id=group)
    their_id = central.sessions.get(session_id, {}).get("messaging_group_id")
    chat = central.chats.get(their_id, {}) if their_id is not None else {}
    if not chat.get("channel_type") or not chat.get("platform_id"):
        return None
    added = index.add_messaging_group(
        str(chat["channel_type"]),
        str(chat["platform_id"]),
        name=chat.get("name"),
        is_group=bool(chat.get("is_group")),
    )
    for wiring in _wirings(central, their_id, group):
        index.wire(added.id, group, **wiring)
    return str(added.id)


def _wirings(central: Central, chat: Any, group: str) -> Iterator[Row]:
    for row in central.wirings.values():
        if (row.get("messaging_group_id"), row.get("agent_group_id")) == (chat, group):
            mode = row.get("session_mode")
            priority = row.get("priority")
            yield {
                "session_mode": mode if mode in get_args(SessionMode) else "shared",
                "priority": priority if isinstance(priority, int) else 0,
            }


def _enter_session(index: MailIndex, folder: Path, chat: str | None, central: Central) -> None:
    """Enter a session under its own id; where its place is taken, as a closed one."""
    known = central.sessions.get(folder.name, {})
    index.enter_session(
        folder.name,
        folder.parent.name,
        chat,
        known.get("thread_id"),
        agent_provider=known.get("agent_provider"),
        created_at=str(known.get("created_at") or iso(_made(folder))),
        closed=known.get("status") == "closed",
    )

"""Taking over mail from the agent: each row of messages_out once, whatever it holds."""

import logging
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from threadkeep.base import json
from threadkeep.base.clock import is_due
from threadkeep.base.presence import ExclusiveLock
from threadkeep.base.tx import Row, Tx
from threadkeep.errors import Busy, Conflict, Invalid, StorageFull
from threadkeep.mailbox import content as shapes
from threadkeep.mailbox.adapters import (
    File,
    MaybeSent,
    NotNow,
    Outgoing,
    Refused,
    Sent,
    ToldByAnswer,
)
from threadkeep.mailbox.attachments import clear_outbox, collect
from threadkeep.mailbox.container.outbound import platform_name
from threadkeep.mailbox.context import MailContext
from threadkeep.mailbox.host.post_office import SYSTEM, PostOffice, Route, is_record, route_of
from threadkeep.mailbox.notices import called, shortened, tell
from threadkeep.mailbox.records import Delivery, DeliveryState, Json, OutMail
from threadkeep.mailbox.rows import delivery_of, out_of, read_moment, sqlite_form

SEPARATOR: Final = "\x1f"
_BY_SEQ: Final = "out"
_BY_ROWID: Final = "out_rowid"
_LAST_SECOND: Final = 253_402_300_799_000  # of the year 9999


class OutboxCursor(NamedTuple):
    """How far messages_out was taken over.

    By number, and by when it was written: programs that choose a number before they begin to
    write may come late with a lower one.
    """

    seq: int = 0
    rowid: int = 0


def open_deliveries(ctx: MailContext) -> list[Delivery]:
    """Prepare what is new among the agent's mail; list all that is open, in order of numbers."""
    cursor, known = _look(ctx)
    # Without news one look at each file is all: of hundreds of sessions most are idle.
    return _look(ctx)[1] if _take_over(ctx, cursor) else known


def _take_over(ctx: MailContext, cursor: OutboxCursor) -> bool:
    """Prepare all that is behind the cursor; tell whether there was anything."""
    began = cursor
    while True:
        rows, after = _new_rows(ctx, cursor)
        if not rows:
            return cursor != began
        _prepare(ctx, rows, after)
        cursor = after


def _look(ctx: MailContext) -> tuple[OutboxCursor, list[Delivery]]:
    with ctx.folder.inbound.read() as tx:
        seq = tx.value("cursor", {"name": _BY_SEQ})
        rowid = tx.value("cursor", {"name": _BY_ROWID})
        rows = tx.all("open_deliveries")
    return OutboxCursor(seq or 0, rowid or 0), [delivery_of(row) for row in rows]


def _new_rows(ctx: MailContext, cursor: OutboxCursor) -> tuple[list[Row], OutboxCursor]:
    limit = ctx.policy.drain
    with ctx.folder.outbound.read(owner_runs=ctx.running) as tx:
        fresh = tx.all("out_fresh", {"seq": cursor.seq, "limit": limit})
        late = tx.all("out_late", {"seq": cursor.seq, "rowid": cursor.rowid, "limit": limit})
        last = tx.value("last_rowid") or 0
    seq = fresh[-1][1] if fresh else cursor.seq
    # What has a higher number is found by it, however early it was written.
    rowid = late[-1][-1] if len(late) == limit else last
    return fresh + late, OutboxCursor(seq, max(rowid, cursor.rowid))


def _prepare(ctx: MailContext, rows: list[Row], after: OutboxCursor) -> None:
    with ctx.folder.inbound.write() as tx:
        nameless = [row for row in rows if not row[0]]
        for row in rows:
            if row[0]:
                _prepare_one(ctx, tx, row)
        if nameless:
            tell(ctx, tx, f"{len(nameless)} messages had no usable id and were not delivered.")
        for name, value in ((_BY_SEQ, after.seq), (_BY_ROWID, after.rowid)):
            tx.run("set_cursor", {"name": name, "seq": value})


def _prepare_one(ctx: MailContext, tx: Tx, row: Row) -> None:
    message_id, seq, channel_type, platform_id, deliver_after, _ = row
    due = due_of(deliver_after, ctx.clock())
    tx.run(
        "prepare",
        {
            "id": message_id,
            "seq": seq if isinstance(seq, int) else None,
            "key": key_of(ctx, message_id),
            "place": f"{channel_type or ''}{SEPARATOR}{platform_id or ''}",
            "due": due,
            "held": int(due is not None),
            "now": ctx.now_sql(),
        },
    )


def key_of(ctx: MailContext, message_id: str) -> str:
    """Return the idempotency key of a message: the same one at every attempt.

    It is never read back from the folder: the agent could have put the key of a message there
    that another session has yet to send.
    """
    return f"{ctx.session}:{message_id}"


def due_of(deliver_after: str | None, now: int) -> str | None:
    """Return when a message may go, in whole seconds and never too early; None for at once.

    What is no time is seen when the message is read; it must not hold up the others here.
    """
    ms = read_moment(deliver_after)
    if ms is None or ms <= now:
        return None
    return sqlite_form(min(-(-ms // 1000) * 1000, _LAST_SECOND))


# ------------------------------------------------------------------------------
# Delivery: mail from the agent, on its way to channels, to other agents and to the host itself.
#
# Each message goes from prepared to sending to sent, failed or unknown, in a table of the host's
# own. Only one drain works in a folder at a time, so a message found in `sending` is what a crash
# left behind. What is written down and what was sent can differ by that one message at most.

log = logging.getLogger(__name__)
IsOver = Callable[[], bool]

OPEN: Final = frozenset(("prepared", "sending"))
_CRASHED: Final = "the host stopped while it was being sent"


class DeliveryReport(msgspec.Struct, frozen=True):
    """What one drain did, by the ids of messages; `busy` if another one is at work.

    `deferred` were tried and will be again; `waiting` have their time to come, or wait for
    those before them.
    """

    sent: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    deferred: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    busy: bool = False


class DeliveryOutcome(msgspec.Struct, frozen=True):
    """What became of one message in this round."""

    row: Delivery
    state: DeliveryState
    attempts: int
    due: str | None = None
    reason: str | None = None
    platform_message_id: str | None = None
    note: str | None = None
    has_files: bool = False


def drain(ctx: MailContext, post: PostOffice, is_over: IsOver = lambda: False) -> DeliveryReport:
    """Send what is due; costs what is open, not what was ever said.

    Once `is_over` says so, the message at hand is the last one; the others wait.
    """
    try:
        alone = ExclusiveLock(ctx.folder.host_lock_path, "another host")
    except Conflict:
        return DeliveryReport(busy=True)
    with alone:
        return _Round(ctx, post, is_over).run(open_deliveries(ctx))


class _Round:
    """One pass over the open messages.

    What became of one is written together with the mark of the next: one commit per message.
    """

    def __init__(self, ctx: MailContext, post: PostOffice, is_over: IsOver) -> None:
        self._ctx = ctx
        self._post = post
        self._is_over = is_over
        self._unwritten: list[DeliveryOutcome] = []
        self._done: list[DeliveryOutcome] = []

    def run(self, rows: Sequence[Delivery]) -> DeliveryReport:
        """Deliver in the order of numbers; one place gets its mail in that order only."""
        blocked: set[str] = set()
        waiting = []
        try:
            for row in rows:
                if self._is_over() or row.place in blocked or self._waits(row):
                    waiting.append(row.message_out_id)
                    is_free = row.held
                else:
                    is_free = self._deliver(row)
                if not is_free:
                    blocked.add(row.place)
        except (Exception, KeyboardInterrupt, SystemExit):
            self._write(None)  # or what was sent would be in doubt
            raise
        self._write(None)
        return _report(self._done, waiting)

    def _deliver(self, row: Delivery) -> bool:
        """Try one message; tell whether the next one to the same place may go."""
        step = self._attempt(row)
        self._unwritten.append(step)
        return step.state not in OPEN

    def _attempt(self, row: Delivery) -> DeliveryOutcome:
        mail: OutMail | None = None
        try:
            elsewhere = self._elsewhere(row) if row.state == "sending" else None
            if elsewhere is not None:
                return _done_elsewhere(row, elsewhere)
            mail = self._read(row)
            content = content_of(mail, self._ctx.policy.content_bytes)
            route = self._route(mail)
            if row.state == "sending":
                step = self._resolve(row, mail, route)
                if step is not None:
                    return step
                row = replace(row, state="prepared")
            parcel = self._pack(row, mail, content, route)
        except Exception as error:  # noqa: BLE001  (one bad message must not stop those behind it)
            return self._after(row, mail, error)
        return self._send(row, mail, route, parcel)

    def _elsewhere(self, row: Delivery) -> Row | None:
        """Tell what another host did since ours stopped in the middle of sending it."""
        with self._ctx.folder.inbound.read() as tx:
            return tx.one("delivered", {"id": row.message_out_id})

    def _read(self, row: Delivery) -> OutMail:
        ctx = self._ctx
        asked = {"id": row.message_out_id, "cap": ctx.policy.content_bytes}
        with ctx.folder.outbound.read(owner_runs=ctx.running) as tx:
            found = tx.one("out", asked)
        if found is None:
            raise Refused("it is no longer among the outbound mail")
        return out_of(found)

    def _route(self, mail: OutMail) -> Route:
        route = route_of(self._post, mail)
        if route is None:
            raise NotNow(f"the channel {_short(mail.place.channel_type)} is not there")
        return route

    def _pack(self, row: Delivery, mail: OutMail, content: Json, route: Route) -> Outgoing:
        """Make a message ready to send; all that can go wrong before it is sent goes wrong here."""
        parcel = Outgoing(
            session=self._ctx.session,
            agent_group=self._ctx.agent_group,
            id=mail.id,
            seq=mail.seq,
            key=key_of(self._ctx, mail.id),
            kind=mail.kind,
            content=content,
            place=mail.place,
            timestamp=mail.timestamp,
            in_reply_to=mail.in_reply_to,
            attempt=row.attempts + 1,
        )
        return self._pack_for_channel(parcel) if route.is_channel else parcel

    def _pack_for_channel(self, parcel: Outgoing) -> Outgoing:
        self._post.check(parcel)
        found = collect(self._ctx.folder.path, parcel.id, _file_names(parcel.content))
        packed = replace(
            parcel,
            content=self._with_platform_id(parcel.content),
            files=tuple(File(name, data) for name, data in found.files),
            skipped=tuple(found.skipped),
        )
        if shapes.is_question(parcel.content):
            self._post.asked(packed)
        return packed

    def _with_platform_id(self, content: Json) -> Json:
        """Name the message that is edited or reacted to as the channel knows it."""
        target = content.get("messageId")
        if content.get("operation") not in ("edit", "reaction") or not isinstance(target, str):
            return content
        self._write(None)  # it may be the one that was sent just now
        with self._ctx.folder.inbound.read() as tx:
            row = tx.one("delivered", {"id": target})
        known = None if row is None else row[1]
        return {**content, "messageId": known or platform_name(target, self._ctx.agent_group)}

    # ------------------------------------------------------------------ sending

    def _send(
        self, row: Delivery, mail: OutMail, route: Route, parcel: Outgoing
    ) -> DeliveryOutcome:
        elsewhere = self._write(row)
        if elsewhere is not None:
            return _done_elsewhere(row, elsewhere)
        try:
            given = route.send(parcel)
        except (MaybeSent, TimeoutError) as error:
            return self._in_doubt(row, mail, route, error)
        except Exception as error:  # noqa: BLE001  (whatever an adapter raises, it was not sent)
            return self._after(row, mail, error)
        return _sent(row, mail, None if given is None else str(given), parcel)

    def _in_doubt(
        self, row: Delivery, mail: OutMail, route: Route, error: Exception
    ) -> DeliveryOutcome:
        begun = replace(row, state="sending", attempts=row.attempts + 1)
        step = self._resolve(begun, mail, route, reason_of(error))
        return step or self._later(replace(begun, state="prepared"), reason_of(error))

    def _resolve(
        self, row: Delivery, mail: OutMail, route: Route, reason: str = _CRASHED
    ) -> DeliveryOutcome | None:
        """Say what became of a message that may have been sent; None if it can be sent again."""
        spent = row.attempts >= self._ctx.policy.delivery_attempts
        if route.repeatable:
            return _given_up(row, mail, "unknown", reason) if spent else None
        if route.was_sent is None:
            return _given_up(row, mail, "unknown", reason)
        try:
            answer = route.was_sent(key_of(self._ctx, mail.id))
        except Exception as error:  # noqa: BLE001  (it could not be asked: ask later)
            return self._after(row, mail, error)
        if answer is None:
            return _given_up(row, mail, "unknown", reason)
        if answer is False:
            return _given_up(row, mail, "failed", reason) if spent else None
        name = answer.platform_message_id if isinstance(answer, Sent) else None
        return _sent(replace(row, attempts=row.attempts - 1), mail, name)

    def _after(self, row: Delivery, mail: OutMail | None, error: Exception) -> DeliveryOutcome:
        """Decide what an error means for a message: later, or never.

        One that may have been sent before stays in doubt.
        """
        reason = reason_of(error)
        level = logging.INFO if isinstance(error, (NotNow, Refused)) else logging.WARNING
        log.log(level, "message %s of %s: %r", row.message_out_id, self._ctx.folder.path, error)
        if isinstance(error, (Busy, StorageFull)):
            due = self._due_in(self._ctx.policy.offline_s)
            return DeliveryOutcome(row, row.state, row.attempts, due, reason)
        row = replace(row, attempts=row.attempts + 1)
        if isinstance(error, Refused) or row.attempts >= self._ctx.policy.delivery_attempts:
            state: DeliveryState = "failed" if row.state == "prepared" else "unknown"
            step = _given_up(row, mail, state, reason)
            return replace(step, note=None) if isinstance(error, ToldByAnswer) else step
        return self._later(row, reason)

    def _later(self, row: Delivery, reason: str) -> DeliveryOutcome:
        due = self._due_in(self._pause(row.attempts))
        return DeliveryOutcome(row, row.state, row.attempts, due, reason)

    def _waits(self, row: Delivery) -> bool:
        """Tell whether a message is not to go yet: its own time, or a pause after an attempt."""
        due = read_moment(row.due)
        if due is None:
            return False
        own = row.held and row.reason is None
        longest = max(self._pause(row.attempts), self._ctx.policy.offline_s) * 1000
        now = self._ctx.clock()
        return due > now if own else not is_due(due, now, longest)

    def _pause(self, attempts: int) -> int:
        return int(self._ctx.policy.delivery_backoff_s * 2 ** max(attempts - 1, 0))

    def _due_in(self, seconds: int) -> str:
        return sqlite_form(self._ctx.clock() + seconds * 1000)

    # ------------------------------------------------------------------ writing down

    def _write(self, begin: Delivery | None) -> Row | None:
        """Write what became of messages, and mark the next one as begun.

        Give the row of `delivered` instead, if another host has dealt with that one.
        """
        if begin is None and not self._unwritten:
            return None
        with self._ctx.folder.inbound.write() as tx:
            for step in self._unwritten:
                _record(self._ctx, tx, step)
            elsewhere = None if begin is None else _begin(self._ctx, tx, begin)
        written, self._unwritten = self._unwritten, []
        self._done += written
        for step in written:
            if step.state == "sent" and step.has_files:
                clear_outbox(self._ctx.folder.path, step.row.message_out_id)
        return elsewhere


def _begin(ctx: MailContext, tx: Tx, row: Delivery) -> Row | None:
    elsewhere = tx.one("delivered", {"id": row.message_out_id})
    if elsewhere is None:
        begun = DeliveryOutcome(row, "sending", row.attempts + 1, reason=row.reason)
        _record(ctx, tx, begun)
    return elsewhere


def _record(ctx: MailContext, tx: Tx, step: DeliveryOutcome) -> None:
    now = ctx.now_sql()
    message_id = step.row.message_out_id
    known = tx.count(
        "set_delivery",
        {
            "id": message_id,
            "state": step.state,
            "attempts": step.attempts,
            "due": step.due,
            "reason": step.reason,
            "now": now,
        },
    )
    if step.state not in OPEN:
        # Any row here keeps another host from sending it, also what may have been sent.
        outcome = {
            "id": message_id,
            "platform_message_id": step.platform_message_id,
            "status": "delivered" if step.state == "sent" else "failed",
            "now": now,
        }
        tx.run("mark_delivered", outcome)
    if step.note is not None and known:
        tell(ctx, tx, step.note, [message_id])


def _report(done: Sequence[DeliveryOutcome], waiting: Sequence[str]) -> DeliveryReport:
    def ids(*states: str) -> tuple[str, ...]:
        return tuple(step.row.message_out_id for step in done if step.state in states)

    return DeliveryReport(ids("sent"), ids("failed"), ids("unknown"), ids(*OPEN), tuple(waiting))


# ---------------------------------------------------------------------- outcomes


def _sent(
    row: Delivery, mail: OutMail, name: str | None, parcel: Outgoing | None = None
) -> DeliveryOutcome:
    skipped = () if parcel is None else parcel.skipped
    lost = "; ".join(f"{shown[:80]}: {reason}" for shown, reason in skipped)
    note = f"Message {called(mail)} was delivered without a file. {shortened(lost)}"
    return DeliveryOutcome(
        row,
        "sent",
        row.attempts + 1,
        platform_message_id=name,
        note=note if skipped else None,
        has_files=bool(_file_names(mail.content)),
    )


def _given_up(
    row: Delivery, mail: OutMail | None, state: DeliveryState, reason: str
) -> DeliveryOutcome:
    name = row.message_out_id if mail is None else _called(mail)
    if state == "unknown":
        note = f"It is not known whether message {name} was delivered: {reason}"
    else:
        note = f"Message {name} was not delivered: {reason}"
    return DeliveryOutcome(row, state, row.attempts, reason=reason, note=note)


def _called(mail: OutMail) -> str:
    action = mail.content.get("action")
    if mail.kind == SYSTEM and isinstance(action, str):
        return f"{called(mail)} ({action[:80]})"
    return called(mail)


def _done_elsewhere(row: Delivery, found: Row) -> DeliveryOutcome:
    """Another host has dealt with it, and told whom it tells."""
    state: DeliveryState = "sent" if found[2] == "delivered" else "failed"
    reason = "by another host"
    return DeliveryOutcome(row, state, row.attempts, reason=reason, platform_message_id=found[1])


def reason_of(error: Exception) -> str:
    """Say why, as the agent may know it: words of other programs may hold secrets of the host."""
    if isinstance(error, (NotNow, Refused, MaybeSent)):
        return shortened(str(error))
    return type(error).__name__


# ---------------------------------------------------------------------- what the agent wrote


def content_of(mail: OutMail, limit: int) -> Json:
    """Read what a message says; refuse one that nobody could deliver."""
    if is_record(mail):
        return mail.content
    if mail.deliver_after is not None and read_moment(mail.deliver_after) is None:
        hint = "write it like 2026-08-14 11:19:55"
        raise Refused(f"deliver_after is not a time: {_short(mail.deliver_after)}", hint=hint)
    if mail.kind != SYSTEM and not mail.place.known:
        hint = "name a destination, or give channel_type and platform_id"
        raise Refused("it does not say where to", hint=hint)
    if mail.raw is None:
        raise Refused(f"its content is not text, or has more than {limit:,} bytes")
    try:
        content = json.decode(mail.raw)
    except Invalid as error:
        raise Refused("its content is not JSON", hint='a chat is {"text": …}') from error
    if not isinstance(content, dict):
        raise Refused("its content is not a JSON object", hint='a chat is {"text": …}')
    return content


def _file_names(content: Json) -> list[object]:
    names = content.get("files")
    return names if isinstance(names, list) else []


def _short(text: str | None) -> str:
    return ascii(text or "")[:82]

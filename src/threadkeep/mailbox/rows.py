"""The two ways a mailbox writes time, and one way to read both.

Rows carry ISO text with a zone (`2026-08-14T11:19:55.136Z`); what older programs let the database
write is SQLite's form (`2026-08-14 11:19:55`), always UTC, whole seconds. As text the two do not
sort together: of one day all of SQLite's form come first.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from threadkeep.base.clock import find_zone, iso
from threadkeep.base.hashes import fingerprint
from threadkeep.base.text import from_sql, to_sql
from threadkeep.base.tx import Row, Tx
from threadkeep.errors import Invalid
from threadkeep.mailbox.records import Delivery, Destination, Mail, OutMail, Place

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# The years that both forms can write.
_FIRST, _LAST = -62_135_596_800_000, 253_402_300_799_999
_HINT = "write it like 2026-08-14T11:19:55Z, with a zone or in the zone of the host"


def sqlite_form(ms: int) -> str:
    """Write a time as SQLite's `datetime()` does; hosts compare some columns as such text."""
    try:
        moment = _EPOCH + timedelta(milliseconds=ms)
    except OverflowError:
        raise Invalid(f"{ms} ms since 1970 is not a date", hint=_HINT) from None
    return moment.strftime("%Y-%m-%d %H:%M:%S").rjust(19, "0")


def whole_iso(ms: int) -> str:
    """Write a time as ISO in whole seconds: a pause, which nobody wished for by itself."""
    return sqlite_form(ms).replace(" ", "T") + "Z"


def like(written: str | None, ms: int) -> str:
    """Write a time in the form of another one, ISO if there is none, so that both sort as text."""
    is_sqlite = written is not None and written[10:11] == " "
    return sqlite_form(ms) if is_sqlite else iso(ms)


def read_moment(text: str | None) -> int | None:
    """Read either form as epoch milliseconds; text without a zone is UTC. None if it is no time."""
    if not text or not text[:1].isdigit() or "-" not in text[:5]:
        return None
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return _to_ms(moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC))


def parse_moment(given: datetime | str | int, zone: str = "UTC") -> int:
    """Read a time that somebody gave, in `zone` if it names none; refuse what is no time."""
    ms = None
    if isinstance(given, str | datetime):
        ms = _given_ms(given, zone)
    elif isinstance(given, int) and not isinstance(given, bool):
        ms = given
    if ms is None or not _FIRST <= ms <= _LAST:
        raise Invalid(f"{str(given)[:40]!r} is not a time", hint=_HINT)
    return ms


def _given_ms(given: datetime | str, zone: str) -> int | None:
    try:
        moment = given if isinstance(given, datetime) else datetime.fromisoformat(given.strip())
    except ValueError:
        return None
    return _to_ms(moment if moment.tzinfo is not None else moment.replace(tzinfo=find_zone(zone)))


def normal_moment(given: datetime | str | int | None, zone: str = "UTC") -> str | None:
    """Write a given time as ISO in UTC, None for none."""
    return None if given is None else iso(parse_moment(given, zone))


def _to_ms(moment: datetime) -> int | None:
    try:
        return (moment - _EPOCH) // timedelta(milliseconds=1)
    except OverflowError:
        return None


# ------------------------------------------------------------------------------
# Rows of the two databases as records, and the hashes that watch over them.

MAIL_COLUMNS: Final = 16
# Enough for any content that was accepted; more is not read.
CAP: Final = 64 * 1024 * 1024


def mail_of(row: Row) -> Mail:
    """Read a row of messages_in, whatever is in it: the folder is the agent's to write, too."""
    return Mail(
        id=text_of(row[0]) or "",
        seq=_whole(row[1]),
        kind=text_of(row[2]) or "",
        timestamp=text_of(row[3]) or "",
        status=text_of(row[4]) or "pending",
        process_after=text_of(row[5]),
        recurrence=text_of(row[6]),
        series_id=text_of(row[7]),
        tries=_whole(row[8]) or 0,
        trigger=bool(row[9]),
        place=Place(text_of(row[10]), text_of(row[11]), text_of(row[12])),
        raw=row[13] if isinstance(row[13], str) else "",
        source_session_id=text_of(row[14]),
        on_wake=bool(row[15]),
    )


def out_of(row: Row) -> OutMail:
    """Read a row of messages_out, whatever the other side put into it."""
    return OutMail(
        id=text_of(row[0]) or "",
        seq=_whole(row[1]),
        in_reply_to=text_of(row[2]),
        timestamp=text_of(row[3]) or "",
        deliver_after=text_of(row[4]),
        kind=text_of(row[5]) or "",
        place=Place(text_of(row[6]), text_of(row[7]), text_of(row[8])),
        raw=row[9],
    )


def delivery_of(row: Row) -> Delivery:
    """Read a row of tk_delivery, whatever is in it; a due time that is none is at once."""
    message_id, seq, state, key, place, attempts, due, held, reason, changed = row
    moment = read_moment(text_of(due))
    return Delivery(
        message_out_id=text_of(message_id) or "",
        seq=_whole(seq),
        state=state,
        key=text_of(key) or "",
        place=text_of(place) or "",
        attempts=max(_whole(attempts) or 0, 0),
        due=None if moment is None else sqlite_form(moment),
        held=bool(held),
        reason=text_of(reason),
        changed=text_of(changed) or "",
    )


def destination_of(row: Row) -> Destination:
    """Read a row of destinations."""
    name, *rest = map(text_of, row)
    display_name, kind, *where = rest
    return Destination(name or "", display_name, kind or "", *where)


def text_of(value: Any) -> str | None:
    """Read a value that should be text; half a character is kept as bytes (see base.text)."""
    if not isinstance(value, bytes):
        return None if value is None else str(value)
    try:
        return from_sql(value)
    except UnicodeDecodeError:
        return value.decode("utf-8", "replace")


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) else None


def keep_in_hash(tx: Tx, mail: Mail) -> None:
    """Remember what never changes in a row of messages_in."""
    tx.run("keep_hash", {"id": mail.id, "hash": in_hash(mail)})


def in_hash(mail: Mail) -> int:
    """Hash what never changes in a row of messages_in."""
    return _hash((mail.id, mail.seq, mail.kind, mail.timestamp, *_parts(mail.place), mail.raw))


def out_hash(mail: OutMail) -> int:
    """Hash what never changes in a row of messages_out."""
    return _hash((mail.id, mail.seq, mail.kind, mail.timestamp, *_parts(mail.place), mail.raw))


def _parts(place: Place) -> tuple[str | None, str | None, str | None]:
    return place.channel_type, place.platform_id, place.thread_id


def _hash(fields: Sequence[str | int | None]) -> int:
    try:
        return fingerprint(fields)
    except UnicodeEncodeError:  # half a character in a row that the agent wrote
        return fingerprint([to_sql(one) if isinstance(one, str) else one for one in fields])

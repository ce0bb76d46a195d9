"""Rows of the two databases as records, and the hashes that watch over them."""

from collections.abc import Sequence
from typing import Any, Final

from threadkeep.base.hashes import fingerprint
from threadkeep.base.tx import Row, Tx
from threadkeep.mailbox.records import Delivery, Mail, OutMail, Place

MAIL_COLUMNS: Final = 16
# Enough for any content that was accepted; more is not read.
CAP: Final = 64 * 1024 * 1024


def mail_of(row: Row) -> Mail:
    """Read a row of messages_in, whatever is in it: the folder is the agent's to write, too."""
    return Mail(
        id=str(row[0]),
        seq=_whole(row[1]),
        kind=_text(row[2]) or "",
        timestamp=_text(row[3]) or "",
        status=_text(row[4]) or "pending",
        process_after=_text(row[5]),
        recurrence=_text(row[6]),
        series_id=_text(row[7]),
        tries=_whole(row[8]) or 0,
        trigger=bool(row[9]),
        place=Place(_text(row[10]), _text(row[11]), _text(row[12])),
        raw=row[13] if isinstance(row[13], str) else "",
        source_session_id=_text(row[14]),
        on_wake=bool(row[15]),
    )


def out_of(row: Row) -> OutMail:
    """Read a row of messages_out, whatever the other side put into it."""
    return OutMail(
        id=str(row[0]),
        seq=_whole(row[1]),
        in_reply_to=_text(row[2]),
        timestamp=_text(row[3]) or "",
        deliver_after=_text(row[4]),
        kind=_text(row[5]) or "",
        place=Place(_text(row[6]), _text(row[7]), _text(row[8])),
        raw=row[9],
    )


def delivery_of(row: Row) -> Delivery:
    """Read a row of tk_delivery."""
    names = Delivery.__struct_fields__
    fields = dict(zip(names, row, strict=True))
    return Delivery(**{**fields, "held": bool(fields["held"])})


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) else None


def keep_in_hash(tx: Tx, mail: Mail) -> None:
    """Remember what never changes in a row of messages_in."""
    tx.run("keep_hash", {"id": mail.id, "hash": in_hash(mail)})


def in_hash(mail: Mail) -> int:
    """Hash what never changes in a row of messages_in."""
    return _hash((mail.id, mail.seq, mail.kind, mail.timestamp, mail.raw))


def out_hash(mail: OutMail) -> int:
    """Hash what never changes in a row of messages_out."""
    place = (mail.place.channel_type, mail.place.platform_id, mail.place.thread_id)
    return _hash((mail.id, mail.seq, mail.kind, mail.timestamp, *place, mail.raw))


def _hash(fields: Sequence[str | int | None]) -> int:
    return fingerprint(fields)

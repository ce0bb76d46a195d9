"""How a home is, and who may look at it: for callers from outside."""

from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from threadkeep.base.page import Cursor, Limit, Page, page_of
from threadkeep.base.verbs import RowId, Words, with_limits
from threadkeep.home.status import Status
from threadkeep.knowledge.health import Alarm
from threadkeep.service.doctor.doctor import diagnose
from threadkeep.service.doctor.facts import Finding, Level
from threadkeep.service.health import ObservedStatus, observed_status
from threadkeep.service.metrics import metrics_of
from threadkeep.service.web_access import Login, Logins, read_token

if TYPE_CHECKING:
    from threadkeep.home.stores import Stores

LoginName = Annotated[str, Meta(pattern="^[0-9a-f]{1,10}$")]


class AlarmRow(msgspec.Struct, frozen=True):
    """A recorded violation of a rule about capture."""

    id: int
    invariant: str
    source: str | None
    raised_at: int
    since: int | None
    details: str
    acked_at: int | None
    ack_note: str | None
    resolved_at: int | None
    active: bool


class Diagnosis(msgspec.Struct, frozen=True):
    """What the doctor says."""

    level: Level
    took_ms: int
    findings: tuple[Finding, ...]


class Revoked(msgspec.Struct, frozen=True):
    """Logins that were ended."""

    revoked: list[Login]


@with_limits
class HomeCare:
    """What the stores are like, how capture is, alarms, and what the doctor says."""

    def __init__(self, stores: "Stores") -> None:
        self._stores = stores

    def status(self) -> Status:
        """Report the state of the home and its stores."""
        return self._stores.home.status(knowledge_path=self._stores.db)

    def sources(self) -> ObservedStatus:
        """Report the state of capture for shells, browsers and CI."""
        return observed_status(self._stores.home, self._stores.db)

    def doctor(self) -> Diagnosis:
        """Report problems, their causes and how to fix them."""
        installed = version("threadkeep")
        found = diagnose(self._stores.home, self._stores.db, version=installed)
        return Diagnosis(found.level, found.took_ms, found.findings)

    def metrics(self) -> str:
        """Return metrics of the home, and of its server, in Prometheus's format."""
        return metrics_of(self._stores.home, self._stores.db)

    def alarms(
        self,
        *,
        all: Annotated[  # noqa: A002  (as it is called over HTTP)
            bool, Meta(description="Include those acknowledged or resolved.")
        ] = False,
        limit: Limit = 50,
        cursor: Cursor | None = None,
    ) -> Page[AlarmRow]:
        """List recorded gaps in capture, the latest first."""
        found = [_row(one) for one in self._stores.browse().store.alarms(active=not all)]
        return page_of(found, lambda one: (one.raised_at, one.id), limit, cursor, newest_first=True)

    def ack(self, alarm: RowId, note: Words | None = None) -> AlarmRow:
        """Acknowledge an alarm; repeating it changes nothing."""
        return _row(self._stores.history("change").store.acknowledge(alarm, note))


def _row(alarm: Alarm) -> AlarmRow:
    same = {one: getattr(alarm, one) for one in AlarmRow.__struct_fields__ if one != "since"}
    return AlarmRow(since=alarm.since_ms, **same)


class WebLogins:
    """The browsers that a link let in to the page of a home."""

    def __init__(self, stores: "Stores") -> None:
        self._token = read_token(stores.home)
        self._logins = Logins(stores.home)

    def logins(self) -> list[Login]:
        """List the browsers logged in by a link, the last used first."""
        return self._logins.listed(self._token)

    def revoke(self, login: LoginName) -> Login:
        """End a login at once; a unique prefix of its id is enough."""
        return self._logins.revoke(self._token, login)

    def revoke_all(self) -> Revoked:
        """End every login at once; the token remains valid."""
        return Revoked(self._logins.revoke_all(self._token))

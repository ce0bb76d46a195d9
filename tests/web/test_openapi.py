"""The server keeps what its own description promises, for requests of all kinds that it allows.

schemathesis makes requests from the description, right ones and wrong ones, and holds every answer
against it. THREADKEEP_API_EXAMPLES says how many of each a verb gets.
"""

import os
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from schemathesis import GenerationMode
from schemathesis.core.failures import FailureGroup

from tests.web.site import Site, captured_home
from threadkeep.web.api import openapi
from threadkeep.web.guard import Bucket

Case = Any  # its class is generic in what nobody here cares about

EXAMPLES = int(os.environ.get("THREADKEEP_API_EXAMPLES", "1"))
# All verbs are read by one reader: where there is little time, some of them get wrong requests.
WRONG_EVERY = 6 if EXAMPLES == 1 else 1
# What is there, so that not every right request is about something that is not.
THERE: dict[str, dict[str, Any]] = {
    "chat": {"session": "c1", "message": "m1", "chat_id": "c1"},
    "state": {"session": "s1", "message": 1},
    "mail": {"session": "clerk", "letter": "2"},
    "memory": {"ref": "message:1", "node": "1", "entity": 1},
}
# The words of the reader; a store may refuse what the description allows: a time that is no time.
READER = ("invalid body", "invalid address", "there is no parameter")
TOO_LONG = {413, 414}
# The gate asks everybody for the token before a verb is known; other tests look at it.
NOT_HERE = [schemathesis.checks.ignored_auth]
ONCE = settings(
    max_examples=EXAMPLES,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Return a site with something in every store, that answers as quickly as it is asked."""
    site = Site(captured_home(tmp_path_factory.mktemp("full") / "home"))
    gate: Any = site.server.config.app
    gate._known = gate._strangers = Bucket(1e12, 1e12)
    site.post("/api/chat/sessions", {"agent": "a", "model": "m", "session_id": "c1"})
    site.post("/api/chat/sessions/c1/messages", {"text": "hello", "message_id": "m1"})
    site.post("/api/state/sessions", {"session_id": "s1", "source": "cli"})
    said = [{"role": "user", "content": "hello"}]
    site.post("/api/state/sessions/s1/messages", {"messages": said})
    site.post("/api/mail/sessions", {"agent": "clerk"})
    site.post("/api/mail/sessions/clerk/letters", {"text": "hello"})
    yield site
    site.close()


@schemathesis.serializer("application/x-ndjson")
def lines(_: Any, value: Any) -> bytes:
    """Send lines as they are; what is no text is left out."""
    return value.encode("utf-8", "replace") if isinstance(value, str) else b""


def test_the_server_keeps_what_its_description_promises(full: Site) -> None:
    headers = {"Authorization": f"Bearer {full.token}"}
    described = schemathesis.openapi.from_url(f"{full.url}/api/openapi.json", headers=headers)
    troubles: list[str] = []
    found_all: list[Any] = list(described.get_all_operations())
    # What streams is asked by the real client, in other tests.
    operations = [one for one in found_all if one.ok().path not in openapi.PATHS]
    assert len(found_all) == len(operations) + len(openapi.PATHS)
    for number, found in enumerate(operations):
        for mode in modes_of(found.ok(), number):
            right = mode is GenerationMode.POSITIVE
            troubles += troubles_with(found.ok(), mode, headers, aimed=right and number % 2 == 0)
    assert troubles == []
    assert len(operations) > 120


def modes_of(operation: Any, number: int) -> list[GenerationMode]:
    """Say which requests a verb gets: what takes nothing cannot be asked wrongly."""
    takes = operation.query or operation.path_parameters or operation.body
    wrong = takes and number % WRONG_EVERY == 0
    return list(GenerationMode) if wrong else [GenerationMode.POSITIVE]


def troubles_with(
    operation: Any, mode: GenerationMode, headers: dict[str, str], *, aimed: bool
) -> list[str]:
    """Ask one verb, and hold its answers against the description."""
    troubles: list[str] = []

    @seed(0)
    @ONCE
    @given(case=operation.as_strategy(generation_mode=mode))
    def ask(case: Case) -> None:
        if aimed:
            aim(case)
        troubles.extend(troubles_of(case, case.call(headers=headers)))

    ask()
    return troubles


def aim(case: Case) -> None:
    """Ask for something that is there."""
    there = THERE.get(case.path.split("/")[2], {})
    names: dict[str, Any] = dict(case.path_parameters or {})
    case.path_parameters = {name: there.get(name, value) for name, value in names.items()}


def troubles_of(case: Case, answer: Any) -> list[str]:
    try:
        case.validate_response(answer, excluded_checks=NOT_HERE)
    except FailureGroup as group:
        serious = [one for one in group.exceptions if is_serious(one, answer)]
        return [f"{case.method} {case.path}: {one}\n{case.as_curl_command()}" for one in serious]
    return []


def is_serious(failure: Exception, answer: Any) -> bool:
    kind = type(failure).__name__
    if kind == "RejectedPositiveData":
        said: str = answer.json()["message"]
        return said.startswith(READER)
    return not (kind == "AcceptedNegativeData" and answer.status_code in TOO_LONG)

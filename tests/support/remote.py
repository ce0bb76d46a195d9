"""Stores behind a server on loopback, used through the remote client: an engine of the suites.

One server of this process answers for all of them; the first part of the address says which store
is meant. A store is opened with the options of the test: clocks and redaction work as they do here.
"""

import asyncio
import logging
import os
import socket
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, Final, Self

import pytest
import uvicorn

from threadkeep.client import Line, RemoteRecorder, RemoteStore, record
from threadkeep.errors import Invalid
from threadkeep.home.home import Home
from threadkeep.home.stores import Stores, Way
from threadkeep.service.web_access import make_token
from threadkeep.testing import ChatFactory, StateFactory, place_of
from threadkeep.verbs import OWNERS
from threadkeep.web.app import make_app
from threadkeep.web.guard import Bucket, place_of as address_of

# What a test may ask a store for that stays in the process which has the store open, and why.
CANNOT_CROSS: Final = {
    "context": "the inside of a store",
    "database": "the open file",
    "usage_queue": "a thread of the process that has the store open",
    "read": "a transaction of the open file",
    "write": "a transaction of the open file",
}

# Tests of the suites that are about this process, and why.
ABOUT_THE_PROCESS: Final = {
    **dict.fromkeys(
        (
            "test_rebuild_settles_what_an_abandoned_recorder_left",
            "test_abandoned_recorder_does_not_lock_its_session",
            "test_second_recorder_of_a_message_is_refused_until_the_first_is_gone",
            "test_abandoned_recorder_is_not_kept_alive",
        ),
        "a recorder that is let go without an end is the server's until it closes it",
    ),
    **dict.fromkeys(
        (
            "test_child_of_a_fork_leaves_the_recording_alone",
            "test_forked_child_has_no_timer_and_the_parent_keeps_its_own",
        ),
        "the recorder is in a process that is not forked",
    ),
    **dict.fromkeys(
        (
            "test_time_that_has_not_passed_writes_nothing",
            "test_steps_and_turns_wait_for_their_end",
            "test_feeding_and_the_timer_take_turns",
        ),
        "the timer of recorders is a thread of the server",
    ),
    "test_tail_misses_nothing_of_a_recorder_that_ends_while_it_looks": "the server looks",
    **dict.fromkeys(
        (
            "test_times_are_numbers[remote-since-time1]",
            "test_times_are_numbers[remote-until-time1]",
            "test_any_content_comes_back_as_it_was[remote-bytes \\xff]",
            "test_what_is_no_session_id_is_refused_everywhere[remote-bytes]",
            "test_what_is_no_session_id_is_refused_everywhere[remote-PosixPath]",
        ),
        "JSON has no place for it",
    ),
    "test_export_all_leaves_out_a_session_deleted_meanwhile": "the server reads ahead",
}

_which: ContextVar[str] = ContextVar("which")


_THREAD = "remote stores"


class LoopbackStores(Stores):
    """The stores of all tests: the request says which one is meant."""

    def __init__(self, home: Home) -> None:
        super().__init__(home)
        self.by_name: dict[str, Any] = {}

    def call(self, verb: Any, given: dict[str, Any]) -> Any:
        self._chat = place_of(self._meant())  # an import looks whether the file is there
        return super().call(verb, given)

    def chat(self, way: Way) -> Any:
        return self._meant()

    def state(self, way: Way) -> Any:
        return self._meant()

    def _meant(self) -> Any:
        return self.by_name[_which.get()]


class Loopback:
    """The server, in a thread that ends with the process."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="threadkeep-", ignore_cleanup_errors=True)
        home = Home(Path(self._folder.name), environ=os.environ | {"TZ": "UTC"})
        self.token = make_token(home)
        listener = socket.socket()
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listener.bind(("127.0.0.1", 0))
        listener.listen(64)
        port = listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.stores = LoopbackStores(home)
        self._names = count(1)
        gate: Any = make_app(home, address_of("127.0.0.1", port, "http", 1 << 30))
        gate._known = Bucket(1e12, 1e12)
        gate._app.state.stores = self.stores
        self._gate = gate
        config = uvicorn.Config(
            self._app, interface="asgi3", ws="none", log_config=None, access_log=False
        )
        # Its tracebacks would be written while a test's are, which Python 3.11 does not bear.
        logging.getLogger("uvicorn.error").addFilter(lambda told: told.threadName != _THREAD)
        self._server = uvicorn.Server(config)
        serve = self._server.serve(sockets=[listener])
        threading.Thread(target=asyncio.run, args=(serve,), daemon=True, name=_THREAD).start()
        while not self._server.started:
            time.sleep(0.01)

    async def _app(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "lifespan":
            _, name, rest = scope["path"].split("/", 2)
            scope = {**scope, "path": f"/{rest}", "raw_path": f"/{rest}".encode()}
            _which.set(name)
        await self._gate(scope, receive, send)

    def add(self, store: Any) -> tuple[str, Line]:
        """Serve a store; give its name, and a line to it."""
        name = str(next(self._names))
        self.stores.by_name[name] = store
        return name, Line(f"{self.url}/{name}", self.token, 60.0)


@cache
def loopback() -> Loopback:
    """Return the server of this process."""
    return Loopback()


class LoopbackStore(RemoteStore):
    """A store that is used over HTTP; what stays over there ends the test with the reason."""

    def __init__(self, kind: str, store: Any) -> None:
        self.served = store
        self.is_closed = False
        self.name, line = loopback().add(store)
        super().__init__(line, OWNERS[kind])

    @property
    def path(self) -> Path:
        """The file, for who looks behind the store's back."""
        return place_of(self.served)

    def __getattr__(self, name: str) -> Any:
        if name == "db_path":
            raise AttributeError(name)
        if name in CANNOT_CROSS or (name.startswith("_") and not name.startswith("__")):
            pytest.skip(f"{name}: {CANNOT_CROSS.get(name, 'the inside of a store')}")
        return super().__getattr__(name)

    def _call(self, one: Any, /, *args: Any, **kwargs: Any) -> Any:
        try:
            return super()._call(one, *args, **kwargs)
        except Invalid as error:
            if "cannot be sent to another host" in str(error):
                pytest.skip(str(error))
            raise
        finally:
            self._end_if_closed()

    def record(self, *args: Any, **options: Any) -> "LoopbackRecorder":
        try:
            return LoopbackRecorder(record(self, *args, **options))
        finally:
            self._end_if_closed()

    def close(self) -> None:
        self.served.close()  # the line stays: the store itself says that it is closed
        self.is_closed = True
        self._end_if_closed()

    def _end_if_closed(self) -> None:
        if self.is_closed:
            self.line.hang_up()


class LoopbackRecorder:
    """A recorder that is fed over HTTP; whoever reaches into it ends the test with the reason."""

    def __init__(self, recorder: RemoteRecorder) -> None:
        object.__setattr__(self, "recorder", recorder)

    def __getattr__(self, name: str) -> Any:
        _refuse_inside(name)
        return getattr(self.recorder, name)

    def __setattr__(self, name: str, value: object) -> None:
        _refuse_inside(name)
        setattr(self.recorder, name, value)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.recorder.close(error)


def _refuse_inside(name: str) -> None:
    if name.startswith("_") and not name.startswith("__"):
        pytest.skip(f"{name}: the inside of a recorder that the server has")


class RemoteChatFactory(ChatFactory):
    """Chat stores behind a server."""

    def connect(self, place: str, **options: Any) -> Any:
        return LoopbackStore("chat", super().connect(place, **options))

    def close(self) -> None:
        with _hanging_up(self._opened):
            super().close()


class RemoteStateFactory(StateFactory):
    """Session stores behind a server."""

    def connect(self, place: str, **options: Any) -> Any:
        return LoopbackStore("state", super().connect(place, **options))

    def close(self) -> None:
        with _hanging_up(self._opened):
            super().close()


@contextmanager
def _hanging_up(stores: Iterable[Any]) -> Iterator[None]:
    """Close the lines to stores behind the stores themselves: an open socket is a warning."""
    lines = [store.line for store in stores]
    yield
    for line in lines:
        line.close()

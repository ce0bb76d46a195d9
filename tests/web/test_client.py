"""The remote client: the stores of a served home, used as if they were here."""

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import threadkeep
from tests.conftest import REPO
from tests.web.site import Site, captured_home
from threadkeep.client import RemoteHome
from threadkeep.errors import Conflict, Invalid, NoStore, NotFound, Unreachable
from threadkeep.home.questions import Questions
from threadkeep.home.stores import Stores
from threadkeep.state.leases import CompressionSessionBusyError


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    site = Site(tmp_path_factory.mktemp("client") / "home")
    yield site
    site.close()


@pytest.fixture
def home(served: Site) -> Iterator[RemoteHome]:
    with threadkeep.connect(served.url, served.token) as found:
        yield found


def test_what_is_written_there_is_the_same_record_here(served: Site, home: RemoteHome) -> None:
    made = home.chat().create_session(agent="helper", model="m", title="Tides")
    with served.home.chat(must_exist=True) as here:
        assert here.session(made) == made
        assert here.find_session(made.id[:12]) == home.chat().find_session(made.id[:12])
    assert home.chat().sessions(title="Tides").items == [made]


def test_the_example_of_the_documentation_runs(
    served: Site,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = (REPO / "docs" / "http.md").read_text("utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (tmp_path / "web.token").write_text(served.token)
    monkeypatch.chdir(tmp_path)
    exec(example.replace("http://127.0.0.1:7717", served.url), {})
    assert capsys.readouterr().out.splitlines() == ["It is ready.", "0 captured sessions"]


def test_a_list_of_a_store_that_is_not_there_is_empty(tmp_path: Path) -> None:
    bare = Site(tmp_path / "bare")
    try:
        with threadkeep.connect(bare.url, bare.token) as home:
            assert home.chat().sessions().items == []
            with pytest.raises(NoStore):
                home.chat().session("s")
        assert not list(bare.folder.glob("*.db"))
    finally:
        bare.close()


def test_errors_come_back_as_what_they_are(home: RemoteHome) -> None:
    chat, state = home.chat(), home.state()
    with pytest.raises(NotFound, match="nobody") as caught:
        chat.session("nobody")
    assert type(caught.value) is NotFound
    assert caught.value.hint
    chat.create_session(agent="a", model="m", session_id="twice")
    with pytest.raises(Conflict, match="twice"):
        chat.create_session(agent="a", model="m", session_id="twice")
    state.create_session("s1", "cli")
    with pytest.raises(CompressionSessionBusyError, match="lease lost"):
        state.publish_compression_child(
            parent_session_id="none", child_session_id="c", source="cli", messages=[]
        )
    with pytest.raises(TypeError, match="agnet"):
        chat.create_session(agent="a", model="m", agnet="b")  # type: ignore[call-arg]


def test_a_path_stays_where_it_is(home: RemoteHome, tmp_path: Path) -> None:
    home.chat().create_session(agent="a", model="m")
    with pytest.raises(Invalid, match="'target' of backup cannot be sent"):
        home.chat().backup(tmp_path / "copy.db")
    copied = home.chat().backup()
    assert isinstance(copied, Path)
    assert copied.is_file()


def test_progress_is_told_while_it_works(home: RemoteHome) -> None:
    chat = home.chat()
    session = chat.create_session(agent="a", model="m")
    for number in range(3):
        chat.say(session, f"words {number}")
    lines = list(chat.export(session))
    steps: list[int] = []
    chat.delete(session)
    report = chat.import_sessions(lines, progress=steps.append)
    assert report.imported == [session.id]
    assert steps
    with pytest.raises(Invalid):
        chat.import_sessions(["{}"], progress=steps.append)


def test_a_recorder_and_who_follows_it(home: RemoteHome) -> None:
    chat = home.chat()
    session = chat.create_session(agent="a", model="m")
    seen: list[str] = []
    first = threading.Event()

    def follow() -> None:
        for event in chat.tail(session, until_idle=True):
            seen.append(event.data["type"])
            first.set()

    with chat.record(session) as recorder:
        recorder.feed({"type": "start", "messageId": "m1"})
        thread = threading.Thread(target=follow)
        thread.start()
        assert first.wait(30)
        recorder.feed({"type": "text-start", "id": "t"})
        recorder.feed({"type": "text-delta", "id": "t", "delta": "high water"})
        message = recorder.message
    thread.join(30)
    assert seen[:3] == ["start", "text-start", "text-delta"]
    assert message is not None
    assert message["parts"][0]["text"] == "high water"
    assert chat.message(session, "m1")["parts"][0]["text"] == "high water"


def test_a_stream_leaves_room_for_other_questions(home: RemoteHome) -> None:
    chat = home.chat()
    session = chat.create_session(agent="a", model="m")
    chat.say(session, "one")
    pieces = chat.export(session)
    first = next(pieces)
    assert chat.session(session).id == session.id
    assert [first, *pieces] == list(chat.export(session))


def test_what_is_captured_is_listed(home: RemoteHome) -> None:
    assert list(home.knowledge().sessions().items) == []


def test_memory_answers_from_there_as_it_does_here(tmp_path: Path) -> None:
    site = Site(captured_home(tmp_path / "full"))
    try:
        with threadkeep.connect(site.url, site.token) as home:
            found = home.memory().recall("tests", kind=["message"], limit=3)
            assert found.hits
            assert (
                found.hits
                == Questions(Stores(site.home)).recall("tests", kind=["message"], limit=3).hits
            )
            assert home.memory().open(found.hits[0].ref).hit.ref == found.hits[0].ref
            with pytest.raises(Invalid, match="limit must be a number from 1 to 200, not 201"):
                home.memory().recall("tests", limit=201)
            stored = home.captured().remember("The heron gauge is in feet.", author="a script")
            assert home.memory().open(stored.ref).hit.ref == stored.ref
            noted = home.memory().recall("heron gauge", kind=["node"]).hits[0]
            assert noted.ref == stored.ref
            assert "Noted by an agent (a script), not verified" in noted.snippet
    finally:
        site.close()


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{",
        b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.2/\r\ncontent-length: 0\r\n\r\n",
    ],
    ids=["cut off", "led elsewhere"],
)
def test_an_answer_that_is_none_is_told(answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with suppress(OSError):  # nobody listens any more
                while True:  # what only reads is asked again
                    connection, _ = listener.accept()
                    with connection:
                        connection.recv(1 << 16)
                        connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        port = listener.getsockname()[1]
        with (
            threadkeep.connect(f"http://127.0.0.1:{port}", "x") as home,
            pytest.raises(Unreachable, match=str(port)),
        ):
            home.chat().session("s")
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(30)


def test_nobody_there_and_a_wrong_token_are_told(served: Site) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(Unreachable, match=str(port)):
        threadkeep.connect(f"http://127.0.0.1:{port}", "x").chat().sessions()
    with pytest.raises(threadkeep.ThreadkeepError, match="token"):
        threadkeep.connect(served.url, "wrong").chat().sessions()
    with pytest.raises(Invalid, match="not the address"):
        threadkeep.connect("localhost:80")

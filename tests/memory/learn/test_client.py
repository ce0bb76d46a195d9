"""The client of model servers, against a scripted one: limits, patience, and where the key goes."""

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.scripted_model import (
    Script,
    Turn,
    breaks_off,
    hangs_up,
    model_server,
    never_answers,
    raw,
    says,
    sends,
    used,
)
from threadkeep.errors import Invalid
from threadkeep.memory.learn import model_client as client_module
from threadkeep.memory.learn.model_client import ModelClient, ModelFailed, ModelReply, is_forbidden

KEY = "sk-verysecretkey0123456789"
HELLO = [{"role": "user", "content": "hello"}]


@pytest.fixture(scope="module")
def server() -> Iterator[Script]:
    with model_server() as script:
        yield script


@pytest.fixture
def script(server: Script) -> Script:
    server.asked.clear()
    server.will("{}")
    server.models = {"data": [{"id": "toy-chat"}]}
    return server


class Sleeps:
    def __init__(self) -> None:
        self.slept: list[float] = []

    def __call__(self, seconds: float) -> None:
        self.slept.append(seconds)


def client_of(
    script: Script, key: str | None = KEY, **options: Any
) -> tuple[ModelClient, list[float]]:
    sleeps = Sleeps()
    given: dict[str, Any] = {"timeout": 10.0, "clock": lambda: 1_800_000_000.0}
    return ModelClient(script.url, key, sleep=sleeps, **(given | options)), sleeps.slept


def test_chat_asks_with_temperature_0_and_gives_text_and_usage(script: Script) -> None:
    script.will(says("hi", used(12, 3)))
    client, slept = client_of(script)
    assert client.chat("toy-chat", HELLO, 77) == ModelReply("hi", 12, 3)
    (asked,) = script.asked_at("/v1/chat/completions")
    assert asked.body["temperature"] == 0
    assert asked.body["max_tokens"] == 77
    assert asked.body["messages"] == HELLO
    assert asked.headers["Authorization"] == f"Bearer {KEY}"
    assert slept == []


def test_without_a_key_none_is_sent(script: Script) -> None:
    client, _ = client_of(script, key=None)
    client.chat("toy-chat", HELLO, 5)
    assert "Authorization" not in script.asked[0].headers


def test_text_in_parts_is_put_together(script: Script) -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}, 7]
    script.will(sends({"choices": [{"message": {"content": parts}}]}))
    assert client_of(script)[0].chat("m", HELLO, 5).text == "ab"


@pytest.mark.parametrize("wrong", [{"prompt_tokens": -5}, {"prompt_tokens": "many"}, "none", 3])
def test_usage_that_is_no_count_is_none(script: Script, wrong: Any) -> None:
    script.will(says("hi", wrong))
    assert client_of(script)[0].chat("m", HELLO, 5) == ModelReply("hi", None, None)


@pytest.mark.parametrize(
    "trouble", [sends({}, 500), sends({}, 502), sends({}, 503), hangs_up, breaks_off]
)
def test_trouble_on_the_way_is_tried_three_times(script: Script, trouble: Turn) -> None:
    script.will(trouble, trouble, says("at last"))
    client, slept = client_of(script)
    assert client.chat("m", HELLO, 5).text == "at last"
    assert slept == [0.5, 1.0]
    assert client.requests == 3


def test_after_three_tries_the_error_names_stage_model_and_endpoint(script: Script) -> None:
    script.will(sends({"error": {"message": "out of memory"}}, 500))
    client, slept = client_of(script)
    with pytest.raises(ModelFailed) as caught:
        client.chat("toy-chat", HELLO, 5)
    for part in ("chat", "toy-chat", "127.0.0.1", "/v1/chat/completions", "500", "out of memory"):
        assert part in str(caught.value)
    assert len(script.asked) == 3
    assert slept == [0.5, 1.0]


@pytest.mark.parametrize("status", [429, 503])
def test_the_servers_own_wait_is_honoured(script: Script, status: int) -> None:
    script.will(sends({}, status, Retry_After="7"), says("ok"))
    client, slept = client_of(script)
    assert client.chat("m", HELLO, 5).text == "ok"
    assert slept == [7.0]


def test_a_server_that_wants_an_hour_is_not_waited_for(script: Script) -> None:
    script.will(sends({}, 429, Retry_After="3600"))
    client, slept = client_of(script)
    with pytest.raises(ModelFailed, match="429"):
        client.chat("m", HELLO, 5)
    assert slept == []
    assert len(script.asked) == 1


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_a_refusal_is_not_repeated(script: Script, status: int) -> None:
    script.will(sends({"error": {"message": f"bad key {KEY}"}}, status))
    client, slept = client_of(script)
    with pytest.raises(ModelFailed, match=str(status)) as caught:
        client.chat("m", HELLO, 5)
    assert KEY not in str(caught.value)
    assert "[key]" in str(caught.value)
    assert (len(script.asked), slept) == (1, [])


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_no_redirect_is_followed(script: Script, status: int) -> None:
    with model_server() as elsewhere:
        script.will(sends({}, status, Location=f"{elsewhere.url}/chat/completions"))
        with pytest.raises(ModelFailed, match="elsewhere"):
            client_of(script)[0].chat("m", HELLO, 5)
        assert elsewhere.asked == []


def test_a_slow_answer_is_given_up_and_not_asked_for_twice(script: Script) -> None:
    script.will(never_answers)
    client, _ = client_of(script, timeout=0.05)
    with pytest.raises(ModelFailed, match=r"no answer within 0\.05 seconds"):
        client.chat("m", HELLO, 5)
    assert client.requests == 1
    script.stopping.set()
    script.stopping.clear()


def test_an_endless_answer_is_cut_off(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "_MOST_JSON", 10_000)
    script.will("x" * 20_000)
    with pytest.raises(ModelFailed, match="longer than 10,000 bytes"):
        client_of(script)[0].chat("m", HELLO, 5)


@pytest.mark.parametrize("body", [b"<html>login</html>", b"", b"{", b"\xff\xfe", b"[" * 5_000])
def test_what_is_not_json_is_no_answer(script: Script, body: bytes) -> None:
    script.will(raw(body))
    with pytest.raises(ModelFailed, match="not JSON"):
        client_of(script)[0].chat("m", HELLO, 5)


@pytest.mark.parametrize(
    "value", [{}, [], None, {"choices": []}, {"choices": [{"message": {"content": None}}]}, "x"]
)
def test_an_answer_without_text_is_refused(script: Script, value: Any) -> None:
    script.will(sends(value))
    with pytest.raises(ModelFailed, match="no text"):
        client_of(script)[0].chat("m", HELLO, 5)


def test_models_are_named(script: Script) -> None:
    script.models = {
        "data": [{"id": "a"}, {"id": 7}, {}, None, "b", {"id": ""}, {"id": "c\x1b[2J"}]
    }
    assert client_of(script)[0].models() == ["a", "b"]


@pytest.mark.parametrize("value", [{"data": {"id": "a"}}, {}, "x", 5, None])
def test_a_garbage_list_of_models_is_refused(script: Script, value: Any) -> None:
    script.models = value
    with pytest.raises(ModelFailed, match="not a list of models"):
        client_of(script)[0].models()


def test_vectors_come_in_the_order_of_their_texts(script: Script) -> None:
    rows = [{"index": 1, "embedding": [3, 4.5]}, {"index": 0, "embedding": [1.0, 2.0]}]
    script.will(sends({"data": rows}))
    assert client_of(script)[0].embeddings("e", ["a", "b"]) == [[1.0, 2.0], [3.0, 4.5]]
    assert script.asked[0].body == {"model": "e", "input": ["a", "b"]}


def test_no_texts_need_no_request(script: Script) -> None:
    assert client_of(script)[0].embeddings("e", []) == []
    assert script.asked == []


@pytest.mark.parametrize(
    "rows",
    [
        None,
        [],
        [{"embedding": [1.0]}],
        [{"embedding": None}, {"embedding": [1.0]}],
        [{"embedding": []}, {"embedding": [1.0]}],
        [{"embedding": [None]}, {"embedding": [1.0]}],
        [{"embedding": [10**400]}, {"embedding": [1.0]}],
        [{"embedding": [True]}, {"embedding": [1.0]}],
        [{"index": 0, "embedding": [1.0]}, {"index": 0, "embedding": [1.0]}],
        [{"index": 9, "embedding": [1.0]}, {"index": 0, "embedding": [1.0]}],
        ["x", "y"],
    ],
)
def test_vectors_that_are_missing_or_no_numbers_are_refused(script: Script, rows: Any) -> None:
    script.will(sends({"data": rows}))
    with pytest.raises(ModelFailed, match="one vector"):
        client_of(script)[0].embeddings("e", ["a", "b"])


def test_a_server_that_is_not_there_is_named_and_nothing_counts_as_sent() -> None:
    with model_server() as gone:
        url = gone.url
    sleeps = Sleeps()
    client = ModelClient(url, sleep=sleeps)
    with pytest.raises(ModelFailed, match=r"127\.0\.0\.1.*is the server running"):
        client.chat("m", HELLO, 5)
    assert client.requests == 0
    assert sleeps.slept == [0.5, 1.0]


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://h/v1", "localhost", "", "http://"])
def test_only_http_addresses_are_taken(url: str) -> None:
    with pytest.raises(Invalid):
        ModelClient(url)


def test_what_is_secret_in_an_address_is_not_shown() -> None:
    client = ModelClient("https://user:pass@models.example/v1?key=abc")
    assert client.endpoint == "https://models.example:443/v1"


def test_a_key_does_not_leave_the_machine_in_the_open() -> None:
    with pytest.raises(Invalid, match="without encryption") as caught:
        ModelClient("http://models.example/v1", KEY)
    assert KEY not in str(caught.value)


@pytest.mark.parametrize("key", ["two words", "line\nbreak", "nön"])
def test_a_key_that_cannot_be_sent_is_refused_unseen(key: str) -> None:
    with pytest.raises(Invalid) as caught:
        ModelClient("https://models.example/v1", key)
    assert key not in str(caught.value)


@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254",
        "169.254.1.1",
        "fe80::1%eth0",
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "fd00:ec2::254",
        "100.100.100.200",
        "0.0.0.0",
        "224.0.0.1",
    ],
)
def test_addresses_where_no_model_lives_are_forbidden(address: str) -> None:
    assert is_forbidden(address)


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "192.168.1.7", "10.0.0.1", "1.1.1.1"])
def test_other_addresses_are_not(address: str) -> None:
    assert not is_forbidden(address)


def test_a_name_that_leads_to_a_metadata_service_is_refused_after_it_was_resolved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def resolve(host: str, port: int, **_: Any) -> list[Any]:
        return [(2, 1, 6, "", ("127.0.0.1", port)), (2, 1, 6, "", ("169.254.169.254", port))]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    client = ModelClient("http://models.example/v1")
    with pytest.raises(ModelFailed, match="not the address of a model server"):
        client.models()
    assert client.requests == 0

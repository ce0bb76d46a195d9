"""A model server on this machine that answers what a test has written down, or misbehaves."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

Json = dict[str, Any]
Turn = Callable[["Handler"], None]


class Asked(NamedTuple):
    path: str
    headers: dict[str, str]
    body: Json


class Script:
    """What the server will answer, turn by turn; the last turn is repeated."""

    def __init__(self) -> None:
        self.url = ""
        self.models: Any = {"data": [{"id": "nomic-embed-text"}, {"id": "toy-chat"}]}
        self.turns: list[Turn] = [says("{}")]
        self.asked: list[Asked] = []
        self.stopping = threading.Event()
        self._lock = threading.Lock()

    def will(self, *turns: Turn | str) -> None:
        """Write down the next turns; a text is said as it is."""
        self.turns = [says(turn) if isinstance(turn, str) else turn for turn in turns]

    def next_turn(self) -> Turn:
        with self._lock:
            return self.turns.pop(0) if len(self.turns) > 1 else self.turns[0]

    def asked_at(self, path: str) -> list[Asked]:
        return [one for one in self.asked if one.path.endswith(path)]


class Handler(BaseHTTPRequestHandler):
    """One request."""

    script: Script

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self.script.asked.append(Asked(self.path, dict(self.headers), {}))
        if callable(self.script.models):
            self.script.models(self)
        else:
            self.send_json(self.script.models)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.script.asked.append(Asked(self.path, dict(self.headers), json.loads(body)))
        self.script.next_turn()(self)

    def send_json(self, value: Any, status: int = 200, **headers: str) -> None:
        self.send_bytes(json.dumps(value).encode(), status, **headers)

    def send_bytes(self, body: bytes, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def says(text: str, usage: Any = None) -> Turn:
    """Answer a chat with a text, and with usage if there is some."""
    reply: Json = {"choices": [{"message": {"role": "assistant", "content": text}}]}
    if usage is not None:
        reply["usage"] = usage
    return lambda handler: handler.send_json(reply)


def streams(text: str) -> Turn:
    """Answer a chat with a text as a stream, or whole where the client wants it so."""

    def turn(handler: Handler) -> None:
        usage = {**used(1000, 50), "total_tokens": 1050}
        if not handler.script.asked[-1].body.get("stream"):
            says(text, usage)(handler)
            return
        own = {"id": "c-1", "object": "chat.completion.chunk", "created": 1, "model": "m-1"}
        said = {"index": 0, "delta": {"role": "assistant", "content": text}, "finish_reason": None}
        ended = {"index": 0, "delta": {}, "finish_reason": "stop"}
        chunks = ({**own, "choices": [said]}, {**own, "choices": [ended], "usage": usage})
        events = [*map(json.dumps, chunks), "[DONE]"]
        body = "".join(f"data: {event}\n\n" for event in events).encode()
        handler.send_bytes(body, content_type="text/event-stream")

    return turn


def used(asked: int, answered: int) -> Json:
    return {"prompt_tokens": asked, "completion_tokens": answered}


def sends(value: Any, status: int = 200, **headers: str) -> Turn:
    """Answer with any JSON, status and headers."""
    return lambda handler: handler.send_json(value, status, **headers)


def raw(body: bytes, status: int = 200) -> Turn:
    return lambda handler: handler.send_bytes(body, status)


def hangs_up(handler: Handler) -> None:
    """End the connection without a word."""
    handler.close_connection = True


def breaks_off(handler: Handler) -> None:
    """Promise more than comes."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"choices"')


def never_answers(handler: Handler) -> None:
    """Keep quiet until the test is over."""
    handler.script.stopping.wait()


@contextmanager
def model_server() -> Iterator[Script]:
    """Run a scripted server on a free port of this machine."""
    script = Script()
    handler = type("Scripted", (Handler,), {"script": script})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = False
    server.block_on_close = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    script.url = f"http://127.0.0.1:{server.server_port}/v1"
    try:
        yield script
    finally:
        script.stopping.set()
        server.shutdown()
        server.server_close()
        thread.join()

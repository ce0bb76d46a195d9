"""A CI server on this machine that behaves like GitHub's API, and misbehaves when told to."""

import hashlib
import json
import re
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

Json = dict[str, Any]
Fault = Callable[["Handler"], None]

REPO = "octo/app"
SHA = "a" * 40
# Behind a proxy, or by GitHub itself: links name another host and the repository by number.
LINK_BASE = "https://elsewhere.example/repositories/7"


class Asked(NamedTuple):
    path: str
    headers: dict[str, str]


class Ci:
    """What the server knows; tests change it while it runs."""

    def __init__(self) -> None:
        self.runs: dict[str, list[Json]] = {REPO: []}  # the newest first
        self.jobs: dict[int, list[Json]] = {}
        self.annotations: dict[int, list[Json]] = {}
        self.logs: dict[int, bytes] = {}
        self.asked: list[Asked] = []
        self.blobs_asked: list[Asked] = []
        self.token: str | None = None
        self.blobs = ""  # where logs are
        self._faults: list[tuple[str, Fault]] = []
        self._lock = threading.Lock()

    def misbehave(self, part: str, *faults: Fault) -> None:
        """Let the next requests whose path has this part meet these faults, one each."""
        self._faults += [(part, fault) for fault in faults]

    def take_fault(self, path: str) -> Fault | None:
        with self._lock:
            for at, (part, fault) in enumerate(self._faults):
                if part in path:
                    del self._faults[at]
                    return fault
        return None

    def add_run(self, number: int, repo: str = REPO, **changed: Any) -> Json:
        run = run_json(number, **changed)
        self.runs.setdefault(repo, []).insert(0, run)
        return run

    def add_failure(self, number: int, *messages: str, log: bytes = b"boom\n", **run: Any) -> Json:
        """Add a failed run with one failed job of ten times its number."""
        job = job_json(number * 10, run_attempt=run.get("run_attempt", 1))
        self.jobs[number] = [job]
        self.annotations[number * 10] = [annotation_json(message) for message in messages]
        self.logs[number * 10] = log
        return self.add_run(number, conclusion="failure", **run)

    def paths(self, part: str = "") -> list[str]:
        return [one.path for one in self.asked if part in one.path]


def run_json(number: int, **changed: Any) -> Json:
    return {
        "id": number,
        "head_sha": SHA,
        "head_branch": "main",
        "event": "push",
        "status": "completed",
        "conclusion": "success",
        "run_attempt": 1,
        "run_started_at": "2027-01-15T07:00:00Z",
        "updated_at": "2027-01-15T07:10:00Z",
        "html_url": f"https://github.example/octo/app/actions/runs/{number}",
        "actor": {"login": "octocat"},
        "display_title": "A change",
        "repository": {"full_name": REPO, "description": "x" * 100},
    } | changed


def job_json(number: int, **changed: Any) -> Json:
    return {
        "id": number,
        "name": "ruff",
        "status": "completed",
        "conclusion": "failure",
        "run_attempt": 1,
        "started_at": "2027-01-15T07:01:00Z",
        "completed_at": "2027-01-15T07:09:00Z",
        "runner_name": "runner-1",
        "check_run_url": f"https://evil.example/repos/octo/app/check-runs/{number}",
    } | changed


def annotation_json(message: str, **changed: Any) -> Json:
    return {
        "path": "src/app/main.py",
        "start_line": 3,
        "annotation_level": "failure",
        "message": message,
    } | changed


class Handler(BaseHTTPRequestHandler):
    """Answers one request; `ci` is set by `serve`."""

    ci: Ci
    is_blobs = False
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        asked = Asked(self.path, {name.lower(): value for name, value in self.headers.items()})
        (self.ci.blobs_asked if self.is_blobs else self.ci.asked).append(asked)
        fault = self.ci.take_fault(self.path)
        if fault is not None:
            fault(self)
        elif self.is_blobs:
            job = int(urlsplit(self.path).path.rpartition("/")[2])
            self.answer(200, self.ci.logs[job], {"Content-Type": "text/plain"})
        elif self.ci.token and asked.headers.get("authorization") != f"Bearer {self.ci.token}":
            self.say(401, {"message": "Bad credentials"})
        else:
            self._route()

    def _route(self) -> None:
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        path = parts.path.removeprefix("/api/v3")
        routes: list[tuple[str, Callable[..., None]]] = [
            (r"/repos/(.+/.+)/actions/runs", self._runs),
            (r"/repos/(.+/.+)/actions/runs/(\d+)", self._run),
            (r"/repos/.+/.+/actions/runs/(\d+)/jobs", self._jobs),
            (r"/repos/.+/.+/check-runs/(\d+)/annotations", self._annotations),
            (r"/repos/.+/.+/actions/jobs/(\d+)/logs", self._logs),
        ]
        for pattern, route in routes:
            if found := re.fullmatch(pattern, path):
                route(query, *found.groups())
                return
        self.say(404, {"message": "Not Found"})

    def _runs(self, query: dict[str, str], repo: str) -> None:
        if repo not in self.ci.runs:
            self.say(404, {"message": "Not Found"})
            return
        runs = [r for r in self.ci.runs[repo] if query.get("head_sha") in {None, r["head_sha"]}]
        self._paged(runs, query, "workflow_runs")

    def _run(self, query: dict[str, str], repo: str, number: str) -> None:
        for run in self.ci.runs[repo]:
            if run["id"] == int(number):
                self.say(200, run)
                return
        self.say(404, {"message": "Not Found"})

    def _jobs(self, query: dict[str, str], number: str) -> None:
        self._paged(self.ci.jobs.get(int(number), []), query, "jobs")

    def _annotations(self, query: dict[str, str], number: str) -> None:
        self._paged(self.ci.annotations.get(int(number), []), query, None)

    def _logs(self, query: dict[str, str], number: str) -> None:
        if int(number) not in self.ci.logs:
            self.say(404, {"message": "Not Found"})
            return
        where = f"{self.ci.blobs}/{number}?sig=SIGNATURE"
        self.answer(302, b"", {"Location": where})

    def _paged(self, rows: list[Json], query: dict[str, str], name: str | None) -> None:
        size, page = int(query.get("per_page", 30)), int(query.get("page", 1))
        shown = rows[(page - 1) * size : page * size]
        headers = {}
        if page * size < len(rows):
            following = "&".join(f"{k}={v}" for k, v in (query | {"page": str(page + 1)}).items())
            link = f"{LINK_BASE}{urlsplit(self.path).path}?{following}"
            headers["Link"] = f'<{LINK_BASE}?page=1>; rel="first", <{link}>; rel="next"'
        value = shown if name is None else {"total_count": len(rows), name: shown}
        self.say(200, value, headers)

    def say(self, status: int, value: Any, headers: dict[str, str] | None = None) -> None:
        body = json.dumps(value).encode()
        tag = f'W/"{hashlib.sha256(body).hexdigest()[:16]}"'
        if status == 200 and self.headers.get("If-None-Match") == tag:
            self.answer(304, b"", {"ETag": tag})
        else:
            self.answer(status, body, {"ETag": tag, **(headers or {})})

    def answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


# ---------------------------------------------------------------------- faults


def refuse(status: int, body: bytes = b'{"message": "no"}', **headers: str) -> Fault:
    shown = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda handler: handler.answer(status, body, shown)


def cut_short(body: bytes, promised: int) -> Fault:
    """Promise more bytes than come."""

    def fault(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", str(promised))
        handler.end_headers()
        handler.wfile.write(body)
        handler.wfile.flush()
        handler.close_connection = True

    return fault


def stall(until: threading.Event, body: bytes = b'{"workflow') -> Fault:
    """Send a beginning, and then nothing."""

    def fault(handler: Handler) -> None:
        cut_short(body, 1000)(handler)
        until.wait(60)

    return fault


def stream(piece: bytes, times: int) -> Fault:
    """Send a large body in chunks."""

    def fault(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        chunk = b"%x\r\n%s\r\n" % (len(piece), piece)
        for _ in range(times):
            handler.wfile.write(chunk)
        handler.wfile.write(b"0\r\n\r\n")

    return fault


def hang_up(handler: Handler) -> None:
    handler.close_connection = True


def redirect(where: str, status: int = 302) -> Fault:
    return lambda handler: handler.answer(status, b"", {"Location": where})


# ---------------------------------------------------------------------- running


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """A client that hangs up is no news."""


@contextmanager
def listening(
    ci: Ci, *, is_blobs: bool = False, tls: ssl.SSLContext | None = None
) -> Iterator[str]:
    """Serve on a free port; gives the address."""
    handler = type("Bound", (Handler,), {"ci": ci, "is_blobs": is_blobs})
    server = _Server(("127.0.0.1", 0), handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

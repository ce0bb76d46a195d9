"""Messages without secrets: code, logs, hashes, images, lock files."""

import base64
import hashlib
from collections.abc import Iterator
from random import Random
from uuid import UUID

WORDS = [
    "token", "key", "secret", "password", "auth", "user", "session", "cache", "index", "value",
    "request", "response", "client", "server", "config", "path", "file", "name", "test", "build",
    "error", "result", "state", "message", "part", "chunk", "store", "table", "column", "query",
]  # fmt: skip
CODE = (
    "def {a}_{b}({c}: str, {d}_key: int = {n}) -> None:",
    "const {a}{B} = await get{B}({c}.{d}Token, {{ key: '{a}' }});",
    "    self.{a}_token = {b}.{c}_token",
    "if {a}.key == {b}.key and {c}_password is not None:",
    "export {A}_KEY=${{{B}_KEY}}",
    "{a}: {{ type: String, key: true, {b}Key: {n} }}",
    'assert {a}["token"] == {b}["{c}"]',
    "{a}.{b}({c}=lambda key: key.{d})",
    "SELECT {a}_key, {b}_token FROM {c} WHERE {d}_id = {n};",
    "import {{ {a}Token, {b}Key }} from './{c}/{d}.js'",
    'type {A} struct {{ {B}Key string `json:"{c}_key"` }}',
)
LOGS = (
    "2026-01-02T03:04:05.{n}Z INFO {a}.{b}: {c} took {n} ms, tokens={n} key={d}",
    "[{n}] {a}/{b}: token refreshed for {u}",
    "GET /v1/{a}/{u}?page={n}&sort={b} 200 {n}",
    "commit {h} {a}: {b} {c}",
    '{a}@{n}.1.2: resolved "https://registry.test/{a}/-/{a}-{n}.tgz#{h}"',
    '"{a}/{b}": {{"version": "{n}.0.1", "integrity": "sha512-{s}"}}',
    "go: {a}.test/{b} v0.0.0-20260102030405-{x} h1:{s}",
    "--hash=sha256:{l} \\",
    '{{"usage": {{"input_tokens": {n}, "cache_read_input_tokens": {n}}}, "uuid": "{u}"}}',
    "![{a}](data:image/png;base64,{i})",
    "drwxr-xr-x {n} {a} {b} {n} Jan  2 03:04 {c}-{d}",
    "e.{a}=function(t,n){{var r=n({n});t.key=r.{b}}},{c}:function(e){{return e.token}}",
    "{a} {b} {c} the {d} token, and the password of {a} {b}?",
)


def synthetic(random: Random, count: int) -> Iterator[str]:
    """Make messages as they fill transcripts."""
    for _ in range(count):
        lines = random.choices(CODE + LOGS, k=random.randint(1, 3))
        yield "\n".join(_filled(random, line) for line in lines)


def _filled(random: Random, line: str) -> str:
    a, b, c, d = random.choices(WORDS, k=4)
    noise = random.randbytes(64)
    digest = hashlib.sha256(noise).hexdigest()
    return line.format(
        a=a, b=b, c=c, d=d, A=a.upper(), B=b.capitalize(), n=random.randrange(10**5),
        u=UUID(bytes=noise[:16]), h=digest[:40], x=digest[:12], l=digest,
        s=base64.b64encode(noise).decode(), i=base64.b64encode(random.randbytes(150)).decode(),
    )  # fmt: skip

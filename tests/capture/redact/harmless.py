"""Lines of logs without a secret in them, of the kinds that were once taken for one."""

import base64
import json
import string
from collections.abc import Iterator
from random import Random
from uuid import UUID

ALNUM = string.ascii_letters + string.digits
HEX = "0123456789abcdef"
# What programs call fields that only name something.
FIELDS = (
    "id", "callID", "tool_use_id", "toolCallId", "session_id", "sessionId", "uuid", "parentUuid",
    "requestId", "message_id", "signature", "sha256", "etag", "integrity", "digest", "hash",
    "defaultEnvironmentId", "commit", "checksum", "thread_id", "request_id", "fingerprint",
)  # fmt: skip
PREFIXES = (
    "tooluse_", "toolu_01", "call_", "msg_", "ses_", "prt_", "req_", "chatcmpl-", "run_", "env_01",
    "item_", "rs_", "fc_", "resp_", "evt_", "cse_", "zzz_", "job-", "",
)  # fmt: skip
# Code and prose with the names of secrets in them.
TEXTS = (
    "Now pass `initialSelectedId` to the modal",
    "`pt.pwd = pt.env.Pwd()` takes the folder from the system",
    'apikey := d.options.Template(APIKey, "")',
    "open http://localhost:3210/segments?auth=oauth,cli,apikey,url please",
    "flags.PWD = *envFlags.PWD",
    '{Style: FolderType, Pwd: "\\\\\\\\localhost\\\\d$", Expected: "x"}',
    "checkboxToken.content = checkboxHtml;",
    'if err := os.WriteFile(path, []byte("secret: "+highEntropySecret), 0o644); err != nil {',
    "this.credentials = clientOrCredentials;",
    'return &tokens.TokenSet{AccessToken: "exchanged-1"}',
    'store.data[issuer] = tokens.TokenSet{AccessToken: "opaque-not-a-jwt"}',
    'RefreshToken: "rt_abc123def456",',
    "echo \"PASS: 'md:grid-cols-5' found\"",
    "this.env={GIT_ASKPASS:n,GIT_ASKPASS_NODE:process.execPath,EXTRA_ARGS:x}",
    '"-usage.CacheTokens += other.CacheTokens","-usage.OutputTokens += other.OutputTokens"',
    '{"token_sha1": "5a06a555aab2", "n": 1}',
    "input=../../../etc/passwd generated_id=2026-01-27-da8007e2 error=none",
    "Authorization: Bearer eyJhbGciOiJIUzI1NiJ9...",
    'const key = Symbol("cacheKeyOfTheUser2"); map.set(key, value)',
    "ls ses_21fe87b8dffeb4i4xXXFTP6n0l.json\nses_21febcf06ffeJghJ3HBFdGtKzh.json",
    "const tokenBudget = computeTokenBudget(contextWindow, maxOutputTokens);",
    "auth: { strategy: 'session-cookie', provider: authProviders.github }",
    "passwordField.value = form.querySelector('#password2').value",
)


def lines(random: Random, count: int) -> Iterator[str]:
    """Make lines of logs: ids in their fields, pictures, thoughts with a signature, code."""
    for _ in range(count):
        yield json.dumps({"type": "user", "message": {"content": random.choice(TEXTS)}})
        yield json.dumps({random.choice(FIELDS): name(random), "type": "tool"})
        yield json.dumps(
            {"ids": [name(random) for _ in range(8)], "out": json.dumps(picture(random))}
        )
        yield json.dumps(picture(random))
        thought = {"type": "thinking", "thinking": "so", "signature": blob(random, 300)}
        yield json.dumps({"message": {"content": [thought]}})


def name(random: Random) -> str:
    """Make an identifier as programs draw them."""
    drawn = "".join(random.choices(ALNUM, k=random.choice([22, 24, 26])))
    kinds = (random.choice(PREFIXES) + drawn, str(UUID(bytes=random.randbytes(16))))
    return random.choice([*kinds, "".join(random.choices(HEX, k=40))])


def picture(random: Random) -> dict[str, object]:
    """Make a block of a picture."""
    source = {"type": "base64", "media_type": "image/png", "data": blob(random, 40_000)}
    return {"type": "image", "source": source, "url": f"data:image/png;base64,{blob(random, 900)}"}


def blob(random: Random, size: int) -> str:
    """Make base64, now and then in lines."""
    data = random.randbytes(random.randint(size // 4, size))
    text = base64.b64encode(data).decode()
    if random.random() < 0.8:
        return text
    return "\n".join(text[at : at + 76] for at in range(0, len(text), 76))

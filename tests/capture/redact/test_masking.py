"""What is masked, what stays, and that neither JSON nor a second run can tell."""

import json
import pickle
from random import Random
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.capture.redact.planting import ALNUM, IN_CONTEXT, SHAPED, of, plant, planted, value_of
from threadkeep.base.text import redact_texts
from threadkeep.capture.redact.engine import PRIVATE, Redactor
from threadkeep.capture.redact.rules import MASK

REDACTOR = Redactor.default()
V = "aB3dE5fG7hJ9kL1mN2pQ"

texts = st.lists(
    st.one_of(
        st.text(max_size=20),
        st.sampled_from([
            "password", "token", "api_key", "=", ": ", '"', "'", "\\", "\n", "\\n", "<private>",
            "</PRIVATE>", "://u:", "@h", "Bearer ", "Authorization: ",
            "-----BEGIN PRIVATE KEY-----",
            "-----END PRIVATE KEY-----", MASK, "AKIA", "ghp_", "sk-", "\u00e9", "\U0001f600",
            "--", "é",
        ]),
        st.integers(0, 999).map(lambda seed: of(Random(seed), ALNUM, 16, 40)),
        st.sampled_from([*SHAPED, *IN_CONTEXT]).map(lambda name: plant(Random(name), name)[2]),
    ),
    max_size=8,
).map("".join)  # fmt: skip
values = st.recursive(
    st.none() | st.booleans() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


def shape(value: Any) -> Any:
    """Return a value without its texts."""
    if isinstance(value, dict):
        return {key: shape(item) for key, item in value.items()}
    if isinstance(value, list):
        return [shape(item) for item in value]
    return str if isinstance(value, str) else value


def forms(text: str) -> list[tuple[str, str]]:
    """Return a text as it is, and inside JSON once, twice and three times, each with its mask."""
    once = json.dumps({"type": "user", "message": {"content": text}})
    twice = json.dumps({"out": json.dumps({"x": text, "y": [text]})})
    thrice = json.dumps({"o": json.dumps({"r": json.dumps({"x": text})})}) + "\n"
    return [
        (text, REDACTOR.text(text)),
        (once, REDACTOR.json_line(once)),
        (twice, REDACTOR.json_line(twice)),
        (thrice, REDACTOR.block(thrice)),
    ]


def left_of(secret: str, masked: str) -> list[str]:
    """Return the pieces of a secret that can still be read; frames of keys are not secret."""
    lines = [line for line in secret.split("\n") if not line.startswith(("-----", "Version"))]
    pieces = [line[at : at + 6] for line in lines for at in range(max(1, len(line) - 5))]
    return [piece for piece in pieces if piece and piece in masked]


def test_ninety_nine_of_a_hundred_planted_secrets_leave_no_trace() -> None:
    assert len(SHAPED) + len(IN_CONTEXT) >= 60
    found = planted(Random(20), 1_000)
    leaked = [
        (name, raw)
        for name, secret, text in found
        for raw, masked in forms(text)
        if left_of(value_of(name, secret), masked)
    ]
    assert len(leaked) <= len(found) * 4 // 100, leaked[:5]


@pytest.mark.parametrize("name", sorted(IN_CONTEXT))
def test_only_the_value_is_masked(name: str) -> None:
    template, make = IN_CONTEXT[name]
    secret = make(Random(name))
    assert REDACTOR.text(template.format(secret)) == template.format(MASK)


@pytest.mark.parametrize("name", sorted(set(SHAPED) - {"slack-hook", "discord-hook"}))
def test_a_shaped_secret_is_masked_whole(name: str) -> None:
    secret = SHAPED[name](Random(name))
    assert REDACTOR.text(f"use {secret} now") == f"use {MASK} now"


@pytest.mark.parametrize(
    "text, masked",
    [
        ("export API_KEY=abcdefghijk; ls", "export API_KEY=[REDACTED]; ls"),
        (f'curl -H "Authorization: Bearer {V}" h', 'curl -H "Authorization: Bearer [REDACTED]" h'),
        (f"TOKEN={V}\\nNEXT=1", "TOKEN=[REDACTED]\\nNEXT=1"),
        (f'api_key\\\\\\": \\\\\\"{V}\\\\\\"', 'api_key\\\\\\": \\\\\\"[REDACTED]\\\\\\"'),
        ("https://bob:s3cretpw@h/x.git", "https://bob:[REDACTED]@h/x.git"),
        (f"https://h/v1?key={V}&cx=1", "https://h/v1?key=[REDACTED]&cx=1"),
        (f"sshpass -p {V} ssh h", "sshpass -p [REDACTED] ssh h"),
        (f"docker login -u bob -p {V} r", "docker login -u bob -p [REDACTED] r"),
        (f'get(u, auth=("bob", "{V}"))', 'get(u, auth=("bob", "[REDACTED]"))'),
        (f"aws configure set aws_secret_key {V}", f"aws configure set aws_secret_key {MASK}"),
        ("PASSWORD='correct-horse-9'", "PASSWORD='[REDACTED]'"),
        (f"<password>{V}</password>", "<password>[REDACTED]</password>"),
        ("password = '9)K}f2>mQ'", "password = '[REDACTED]'"),
        ('DB_PASSWORD="9)K}f2>mQ"', 'DB_PASSWORD="[REDACTED]"'),
        ("d=xoxd-rM%2Fa9%2Bz4Q7 x", "d=[REDACTED] x"),
        ("glpat-.a1B2c3D4e5F6g7H8 x", "[REDACTED] x"),
        (f"dp.st.prd.{V}{V}{V} x", "[REDACTED] x"),
        ("password=supersecret1", f"password={MASK}"),
        ("password: correcthorse9", f"password: {MASK}"),
        ("curl -u admin:hunter22 http://x", f"curl -u admin:{MASK} http://x"),
        ("api_token=foobarbaz1", f"api_token={MASK}"),
    ],
)  # fmt: skip
def test_the_words_around_a_secret_stay(text: str, masked: str) -> None:
    assert REDACTOR.text(text) == masked


@pytest.mark.parametrize(
    "text",
    [
        "api_key=<your-key>", "API_KEY=xxxxxxxx", "password: ********", "token=$TOKEN",
        "TOKEN=${TOKEN}", "api_key: process.env.API_KEY", 'api_key=os.environ["API_KEY"]',
        "API_KEY=YOUR_API_KEY", "password=changeme", "password: string", "token: str",
        "token = get_token()", "secret = config.secret.value", "key_file=/etc/ssl/private.key",
        "commit 9fceb02d0ae598e95dc970b74767f19372d61af8", "tokens: 12345", "max_tokens=4096",
        "id 123e4567-e89b-12d3-a456-426614174000", '"input_tokens":123456', "API_KEY=[REDACTED]",
        "token: Optional[str] = None", "const token = await getToken(user);", "author: Smith1",
        "password: z.string().min(8)", "if token == expectedToken:", '"key":"Enter2"',
        '"sessionKey":"123e4567-e89b-12d3-a456-426614174000"', "primary_key=True",
        "keyboard: us-intl-1", "monkey=banana12", "tokenizer: gpt2-medium", '"token_type":"Bearer"',
        "secretName: my-app-secret-1", "password_hash = hash_password(password)",
        "--- PASS: TestCacheReadWrite (0.00s)", "bypass=true123", "auth=JWTAuth()",
        "https://example.com:8080/path@v1", "postgres://user:password@localhost:5432/db",
        "${{ secrets.GITHUB_TOKEN }}", '--token "$TOKEN"', "--key-file ./key.pem",
        'cache_key = f"user:{user_id}:v2"', "Authorization: Bearer <token>",
        "Authorization: `Bearer ${token}`", '"Authorization": f"Bearer {token}"',
        "sk-learn-contrib-some-package", "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "toolu_01AbCdEfGhIjKlMnOpQrStUv", "key=lambda x: x[1]", "apiKey={apiKey}",
        'password: "{{ vault_pw }}"', "token: src/auth/token2.ts", "PWD=/home/u/x1",
        "run_A1b2C3d4E5f6G7h8I9j0K1l2 done", "cache key: build-linux-f706357c35db",
        "FUNC:_ZNSt17moneypunct_bynameIwLb0EEC1EPKcm",
        "x.py,sha256=NUeB-CPKtGc4hR-ZsLmfzOTu6l0C1Z_-o5EKKeXVmKc,191",
        "mode-unified-2026-01-26T15-31-02", "the primary key is generated",
        "password is required", "Das Passwort ist falsch",
        "mkdir -p src/app2/lib3", "chunk-9fceb02d0ae598e95dc970b74767f193.js",
        "tokens_used: 123456789", "integrity sha512-" + "abcDEF123/xyz+890" * 5 + "==",
    ],
)  # fmt: skip
def test_what_only_looks_like_a_secret_stays(text: str) -> None:
    assert REDACTOR.text(text) is text


@given(texts)
def test_a_second_run_changes_nothing(text: str) -> None:
    once = REDACTOR.text(text)
    assert REDACTOR.text(once) == once


@given(values)
def test_a_json_line_keeps_its_structure(value: Any) -> None:
    for line in (
        json.dumps(value),
        json.dumps(value, ensure_ascii=False),
        json.dumps([json.dumps(value)]),
    ):
        masked = REDACTOR.json_line(line)
        assert shape(json.loads(masked)) == shape(json.loads(line))
        assert REDACTOR.json_line(masked) == masked


@given(st.lists(values, max_size=4))
def test_a_block_is_masked_like_its_lines(items: list[Any]) -> None:
    lines = [json.dumps(item) for item in items]
    block = "".join(line + "\n" for line in lines)
    expected = "".join(REDACTOR.json_line(line) + "\n" for line in lines)
    assert REDACTOR.block(block) == expected
    assert REDACTOR.block(block.encode()) == expected.encode()


def test_a_clean_block_is_the_same_object() -> None:
    block = (
        json.dumps({"usage": {"input_tokens": 12}, "text": "the token is wrong"}).encode() + b"\n"
    )
    assert REDACTOR.block(block) is block


def test_findings_are_counted_in_letters() -> None:
    text = f"é🙂 api_key={V} é"
    (found,) = REDACTOR.scan(text)
    assert (found.rule, text[found.start : found.end]) == ("secret-assignment", V)


@pytest.mark.parametrize(
    "text, masked",
    [
        ("a <private>b</private> c", f"a {PRIVATE} c"),
        ("a <PRIVATE>b\nc</Private> d <private>e", f"a {PRIVATE} d {PRIVATE}"),
        ("a <private>b</private><private>c</private>", f"a {PRIVATE}{PRIVATE}"),
        ("no </private> opening", "no </private> opening"),
    ],
)
def test_private_parts_are_replaced(text: str, masked: str) -> None:
    assert REDACTOR.text(text) == masked


def test_an_open_private_part_ends_with_its_own_json_string() -> None:
    line = json.dumps({"a": "x <private>y", "b": "z", "<private>": 1})
    assert json.loads(REDACTOR.json_line(line)) == {"a": f"x {PRIVATE}", "b": "z", "<private>": 1}
    escaped = line.replace("<", "\\u003c").replace(">", "\\u003e")
    assert json.loads(REDACTOR.json_line(escaped))["a"] == f"x {PRIVATE}"


def test_a_secret_in_the_name_of_a_member_stays_and_one_beside_it_goes() -> None:
    secret = "AKIA" + "QWERTYUIOP123456"
    line = json.dumps({secret: secret, "n": 12345678})
    assert json.loads(REDACTOR.json_line(line)) == {secret: MASK, "n": 12345678}


def test_a_number_in_json_is_never_masked() -> None:
    line = '{"password": 12345678, "token": 1234567890123456}'
    assert REDACTOR.json_line(line) is line


def test_a_line_that_is_not_json_is_masked_as_text() -> None:
    assert REDACTOR.block(f'{{"cut": "password={V}\n') == f'{{"cut": "password={MASK}\n'


def test_it_is_the_hook_of_the_stores() -> None:
    value = {"parts": [{"text": f"TOKEN={V}"}], "n": 1}
    assert redact_texts(REDACTOR.text, value) == {"parts": [{"text": f"TOKEN={MASK}"}], "n": 1}


def test_a_finding_is_named_by_the_longest_keyword() -> None:
    found = REDACTOR.scan(plant(Random(1), "anthropic")[1])
    assert [finding.rule for finding in found] == ["anthropic-key"]


def test_a_redactor_can_be_handed_to_another_process() -> None:
    copy = pickle.loads(pickle.dumps(REDACTOR))
    text = f"<private>a</private> TOKEN={V}"
    assert copy.text(text) == REDACTOR.text(text) == f"{PRIVATE} TOKEN={MASK}"

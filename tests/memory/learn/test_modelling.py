"""Who writes nodes with a model, from the settings to the draft, over real HTTP to a script."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from tests.support.knowledge import NOW
from tests.support.scripted_model import Script, model_server, says, sends, used
from threadkeep.base.config import ModelSettings
from threadkeep.knowledge.health import Health
from threadkeep.knowledge.ledger import FailureStreak, ModelUsage, day_of, spent
from threadkeep.knowledge.records import Decision, Mentions, NodeDraft
from threadkeep.knowledge.store import KnowledgeStore
from threadkeep.memory.learn.cited_answers import Passage
from threadkeep.memory.learn.evidence_text import Author, Material
from threadkeep.memory.learn.model import (
    BadAnswer,
    ModelLimits,
    borne_out,
    make_answerer,
    make_author,
)
from threadkeep.memory.learn.model_client import (
    LONGEST_WAIT_MS,
    ModelClient,
    PreflightResult,
    can_chat,
    choose_model,
    rests,
    wait_after_failures,
)
from threadkeep.memory.learn.prompts import messages_for

KEY = "sk-secret-0123456789abcdef"
SOURCE = "$ cargo build\nerror[E0425]: cannot find value `foo_bar` in src/main.rs\nexit code 101"
NODE: dict[str, Any] = {
    "summary": "cargo build failed with E0425 in src/main.rs.",
    "intent": "Build the program.",
    "outcome": "failure",
    "entities": {"tools": ["cargo", "rustup"], "files": ["src/main.rs", "src/lib.rs"]},
    "tags": ["build"],
    "embed_text": "cargo build E0425 foo_bar src/main.rs invented_name",
}
GOOD = json.dumps(NODE)
MATERIAL = Material("shell", "shell", SOURCE, "octo/app", (), NodeDraft("rules", "rules"))


class World:
    """A store, a scripted server, and a clock that tests move."""

    def __init__(self, script: Script, path: Path) -> None:
        self.script = script
        self.now = NOW
        self.told: list[str] = []
        self.slept: list[float] = []
        self.path = path
        self.settings = ModelSettings(url=script.url, timeout_secs=10)
        self.environ = {"THREADKEEP_MODEL_KEY": KEY}
        self.store = KnowledgeStore.open(path, clock=lambda: self.now)

    def make_client(self, *args: Any, **options: Any) -> ModelClient:
        return ModelClient(*args, sleep=self.slept.append, **options)

    def author(self, **changed: Any) -> Author | None:
        return make_author(
            msgspec.structs.replace(self.settings, **changed),
            self.store,
            self.environ,
            limits=ModelLimits(output_tokens=500),
            tell=self.told.append,
            make_client=self.make_client,
        )

    def write(self, material: Material = MATERIAL) -> tuple[NodeDraft, str] | None:
        author = self.author()
        assert author is not None
        return author(material)

    def ledger(self) -> list[ModelUsage]:
        with self.store.context.db.read() as tx:
            return spent(tx, day_of(self.now))

    def health(self) -> Health:
        (row,) = (one for one in self.store.health() if one.source == "brain-preflight")
        return row


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with model_server() as script:
        world = World(script, tmp_path / "knowledge.db")
        with world.store:
            yield world


def chats(world: World) -> int:
    return len(world.script.asked_at("/chat/completions"))


def test_a_good_answer_is_a_draft_of_the_model_without_what_it_made_up(world: World) -> None:
    world.script.will(says(GOOD, used(321, 45)))
    written = world.write()
    assert written is not None
    draft, model = written
    assert model == "toy-chat"
    assert draft.outcome == "failure"
    assert draft.entities == Mentions(tools=("cargo",), files=("src/main.rs",))
    assert "invented_name" not in draft.embed_text
    assert "foo_bar" in draft.embed_text
    assert world.ledger() == [ModelUsage(day_of(NOW), "toy-chat", "enrich", 1, 0, 321, 45)]
    assert world.told == []


def test_bad_json_twice_then_good(world: World) -> None:
    world.script.will(
        says("Sure, here you go!", used(10, 5)), says('{"summary": ', used(20, 5)), GOOD
    )
    assert world.write() is not None
    asked = world.script.asked_at("/chat/completions")
    assert [len(one.body["messages"]) for one in asked] == [2, 4, 4]
    assert "not valid JSON" in asked[1].body["messages"][3]["content"]
    (row,) = world.ledger()
    assert (row.calls, row.failures) == (3, 2)


def test_three_bad_answers_leave_the_node_to_the_rules_and_are_not_paid_again(world: World) -> None:
    world.script.will("no JSON here")
    assert world.write() is None
    assert chats(world) == 3
    assert "not valid JSON" in world.told[0]
    assert world.write() is None
    assert chats(world) == 3
    changed = msgspec.structs.replace(MATERIAL, source=f"{SOURCE}\n$ cargo test")
    world.script.will(GOOD)
    assert world.write(changed) is not None


def test_one_bad_piece_does_not_stop_the_next(world: World) -> None:
    author = world.author()
    assert author is not None
    world.script.will("no", "no", "no", GOOD)
    assert author(MATERIAL) is None
    assert author(msgspec.structs.replace(MATERIAL, source=f"{SOURCE}\n")) is not None


def test_a_summary_about_something_else_is_asked_for_again(world: World) -> None:
    wrong = json.dumps(NODE | {"summary": "Deployed app_server to node17.example.com."})
    world.script.will(wrong, GOOD)
    assert world.write() is not None
    reminder = world.script.asked_at("/chat/completions")[1].body["messages"][3]["content"]
    assert "app_server is not in the evidence" in reminder


def test_a_failing_server_is_left_alone_for_the_rest_and_for_a_while(world: World) -> None:
    author = world.author()
    assert author is not None
    world.script.will(sends({}, 500))
    assert author(MATERIAL) is None
    assert chats(world) == 3
    assert world.slept == [0.5, 1.0]
    assert author(MATERIAL) is None
    assert chats(world) == 3
    assert "HTTP 500" in world.told[0]
    assert world.author() is None
    assert "skipped" in world.told[-1]
    world.now += 5_000
    world.script.will(GOOD)
    assert world.write() is not None


def test_back_off_grows_although_the_list_of_models_is_answered(world: World) -> None:
    world.script.will(sends({}, 400))
    waits = []
    for _ in range(4):
        assert world.write() is None
        waits.append(0)
        while world.author() is None:
            world.now += 5_000
            waits[-1] += 5_000
    assert waits == [5_000, 10_000, 20_000, 40_000]


def test_the_budget_ends_the_calls_and_not_the_work(world: World) -> None:
    world.settings = msgspec.structs.replace(world.settings, daily_tokens=4_000)
    world.script.will(says(GOOD, used(3_000, 500)))
    author = world.author()
    assert author is not None
    assert author(MATERIAL) is not None
    assert author(msgspec.structs.replace(MATERIAL, source=f"{SOURCE}!")) is None
    assert "4,000 tokens" in world.told[0]
    assert chats(world) == 1
    world.settings = msgspec.structs.replace(world.settings, daily_tokens=3_600)
    assert world.author() is None
    assert chats(world) == 1


def test_our_own_prompts_are_never_enriched(world: World) -> None:
    source = messages_for(MATERIAL)[0]["content"]
    assert world.write(msgspec.structs.replace(MATERIAL, source=source)) is None
    assert chats(world) == 0


def test_without_an_address_nobody_is_asked(world: World) -> None:
    assert world.author(url=None) is None
    assert world.script.asked == []
    assert world.told == []


@pytest.mark.parametrize(
    "models, name, outcome",
    [
        ({"data": []}, None, "no_models"),
        ({"data": [{"id": "nomic-embed"}, {"id": "ModernBERT"}]}, None, "no_models"),
        ({"data": [{"id": "toy"}]}, "big", "model_missing"),
        ("garbage", None, "unreachable"),
    ],
)
def test_preflight_troubles_stand_in_the_health_row(
    world: World, models: Any, name: str | None, outcome: str
) -> None:
    world.script.models = models
    assert world.author(name=name) is None
    first = world.health()
    assert first.consecutive_failures == 1
    assert (first.last_error_msg or "").startswith(f"{outcome}: http://127.0.0.1:")
    assert len(first.last_error_msg or "") <= 500
    world.now += 5_000
    assert world.author(name=name) is None
    assert world.health().consecutive_failures == 2
    world.script.models = {"data": [{"id": "toy"}, {"id": "big"}]}
    world.now += 10_000
    assert world.author(name=name) is not None
    assert world.health().consecutive_failures == 0
    assert world.health().last_success_ts == world.now


def test_a_server_that_is_gone_is_unreachable(world: World) -> None:
    with model_server() as gone:
        url = gone.url
    assert world.author(url=url) is None
    assert (world.health().last_error_msg or "").startswith("unreachable: ")
    assert world.author(url=url) is None
    assert "skipped" in world.told[-1]
    assert world.author() is not None  # another address is not punished for it


def test_a_bad_address_is_told_and_stands_in_the_health_row(world: World) -> None:
    assert world.author(url="ftp://x") is None
    assert "not the address" in world.told[0]
    assert world.health().consecutive_failures == 1


def test_the_key_is_nowhere_but_on_the_wire(world: World, tmp_path: Path) -> None:
    world.script.will(sends({"error": {"message": f"wrong key {KEY}"}}, 401))
    assert world.write() is None
    assert world.script.asked[0].headers["Authorization"] == f"Bearer {KEY}"
    assert KEY not in str(world.told)
    world.store.close()
    for file in tmp_path.iterdir():
        assert KEY.encode() not in file.read_bytes()


def test_a_store_that_cannot_be_written_asks_no_model(world: World) -> None:
    world.store.close()
    with KnowledgeStore.open(world.path, read_only=True) as store:
        assert make_author(world.settings, store, {}, tell=world.told.append) is None
    assert "read-only" in world.told[0]
    assert world.script.asked == []


def test_questions_are_answered_from_passages_and_paid(world: World) -> None:
    world.script.will(says("It was E0425 in src/main.rs [1].", used(50, 9)))
    answer = make_answerer(world.settings, world.store, world.environ, tell=world.told.append)
    assert answer is not None
    answered = answer("what broke?", [Passage("n-1", SOURCE, "shell")])
    assert answered is not None
    assert answered.refs == ("n-1",)
    assert world.ledger() == [ModelUsage(day_of(NOW), "toy-chat", "answer", 1, 0, 50, 9)]
    world.script.will("It was E0599 [1].")
    assert answer("what broke?", [Passage("n-1", SOURCE, "shell")]) is None
    assert "E0599" in world.told[-1]


# ---------------------------------------------------------------------- pure parts


def test_the_wanted_model_is_chosen_else_the_first_that_can_chat() -> None:
    listed = ["nomic-embed-text", "a", "b:latest"]
    assert choose_model(listed, None) == PreflightResult("ok", "a")
    assert choose_model(listed, "b") == PreflightResult("ok", "b:latest")
    assert choose_model(listed, "nomic-embed-text") == PreflightResult("ok", "nomic-embed-text")
    assert choose_model(listed, "c").outcome == "model_missing"
    assert not can_chat("text-Embedding-3")


@given(st.integers(-5, 10_000))
def test_waits_grow_to_a_limit(failures: int) -> None:
    assert wait_after_failures(failures) <= wait_after_failures(failures + 1) <= LONGEST_WAIT_MS


def test_a_server_that_failed_while_the_clock_was_ahead_is_asked_once_it_is_right() -> None:
    now, pause = 1_794_769_003_000, wait_after_failures(3)
    assert rests([FailureStreak(3, now - pause + 1, "no")], now)
    assert not rests([FailureStreak(3, now - pause, "no")], now)
    assert not rests([FailureStreak(3, now + 2 * 86_400_000, "no")], now)
    assert not rests([], now)


def test_sentences_that_are_not_borne_out_go_one_by_one() -> None:
    draft = NodeDraft(
        summary="cargo build failed in src/main.rs. Then deploy_app ran.",
        intent="Build it.",
        key_decisions=("Rename foo_bar.", "Use tokio_util."),
        problems_encountered=("error E0425", "error E9999"),
        design_decisions=(Decision("foo_bar", "another name", "E0425"), Decision("x_y", "z", "")),
        embed_text="cargo",
    )
    kept = borne_out(draft, SOURCE)
    assert kept.summary == "cargo build failed in src/main.rs."
    assert kept.key_decisions == ("Rename foo_bar.",)
    assert kept.problems_encountered == ("error E0425",)
    assert kept.design_decisions == (Decision("foo_bar", "another name", "E0425"),)


@pytest.mark.parametrize("field", ["summary", "intent"])
def test_a_draft_about_another_thing_is_refused(field: str) -> None:
    draft = NodeDraft(summary="It failed.", intent="Build it.", embed_text="cargo")
    with pytest.raises(BadAnswer, match="other_thing"):
        borne_out(msgspec.structs.replace(draft, **{field: "Repair other_thing."}), SOURCE)

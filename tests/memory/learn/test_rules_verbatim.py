"""Nothing is claimed that the source does not say."""

from hypothesis import given, strategies as st

from threadkeep.knowledge.records import Mentions, NodeDraft
from threadkeep.memory.learn.name_check import EMBED_LIMIT, PER_TYPE, is_code_like, occurs, verbatim

SOURCE = "ran `cargo build` in app: error[E0425] in src/main.rs with RUST_LOG=1, see docs.rs"

names = st.text(min_size=0, max_size=30)
texts = st.text(max_size=300)
mentions = st.builds(
    Mentions,
    **{field: st.lists(names, max_size=25).map(tuple) for field in Mentions.__struct_fields__},
)
drafts = st.builds(
    NodeDraft,
    summary=texts,
    intent=texts,
    entities=mentions,
    tags=st.lists(names, max_size=25).map(tuple),
    embed_text=texts,
)


def all_names(draft: NodeDraft) -> list[str]:
    return [name for field in Mentions.__struct_fields__ for name in getattr(draft.entities, field)]


def test_what_stands_in_the_source_stays_and_what_does_not_goes() -> None:
    draft = NodeDraft(
        summary="It broke.",
        intent="Build it",
        entities=Mentions(
            tools=("cargo", "npm"),
            files=("src/main.rs", "src/lib.rs", "main.rs"),
            errors=("E0425", "E042"),
            env_vars=("RUST_LOG", "RUST_BACKTRACE"),
            domains=("docs.rs",),
        ),
        tags=("build", "E0425", "E9999", "src/other.rs"),
        embed_text="cargo build error E0425 E0433 src/main.rs --release broken build",
    )
    kept = verbatim(draft, SOURCE)
    assert kept.entities == Mentions(
        tools=("cargo",),
        files=("src/main.rs", "main.rs"),
        errors=("E0425",),
        env_vars=("RUST_LOG",),
        domains=("docs.rs",),
    )
    assert kept.tags == ("build", "E0425")
    assert kept.embed_text == "cargo build error E0425 src/main.rs broken build"
    assert (kept.summary, kept.intent) == (draft.summary, draft.intent)


def test_stop_words_masks_and_endless_names_are_no_entities() -> None:
    source = f"the file [REDACTED] of unknown **** and {'x' * 500} in app"
    wrong = ("the", "unknown", "[REDACTED]", "****", "x" * 500, "", " ", "...", "p")
    kept = verbatim(NodeDraft("s", "i", entities=Mentions(tools=(*wrong, "app"))), source)
    assert kept.entities.tools == ("app",)
    assert "REDACTED" not in verbatim(NodeDraft("s", "i", embed_text=source), source).embed_text


def test_an_embed_text_that_is_all_invented_gives_way_to_the_other_words() -> None:
    kept = verbatim(NodeDraft("Broke src/a.rs twice", "Build", embed_text="src/b.rs E0001"), SOURCE)
    assert kept.embed_text == "Build Broke twice"


@given(drafts, texts)
def test_every_name_and_every_code_like_word_occurs_in_the_source(
    draft: NodeDraft, source: str
) -> None:
    kept = verbatim(draft, source)
    assert all(occurs(name, source) for name in all_names(kept))
    for text in (*kept.tags, kept.embed_text):
        assert all(occurs(word, source) for word in text.split() if is_code_like(word))
    assert all(
        len(getattr(kept.entities, field)) <= PER_TYPE for field in Mentions.__struct_fields__
    )
    assert len(kept.embed_text) <= EMBED_LIMIT


@given(drafts, texts)
def test_a_second_look_finds_nothing_more_to_drop(draft: NodeDraft, source: str) -> None:
    once = verbatim(draft, source)
    assert verbatim(once, source) == once


@given(st.lists(st.from_regex(r"[a-z]{2,8}_[a-z]{2,8}", fullmatch=True), max_size=10, unique=True))
def test_names_that_all_stand_there_are_all_kept(given_names: list[str]) -> None:
    source = " | ".join(given_names)
    kept = verbatim(NodeDraft("s", "i", entities=Mentions(tools=tuple(given_names))), source)
    assert list(kept.entities.tools) == given_names


def test_a_name_is_no_part_of_a_longer_word() -> None:
    assert occurs("sts.go", "see sts/sts.go now")
    assert not occurs("sts.go", "see tests.go now")
    assert not occurs("FOO", "FOO_BAR")
    assert occurs("--flag", "x--flag")

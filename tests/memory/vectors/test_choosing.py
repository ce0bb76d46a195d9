"""Which embedder the settings mean; whatever cannot be had is said with its reason."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.memory.vectors.embedders import write_tiny_model
from threadkeep.base.config import EmbeddingSettings
from threadkeep.memory.vectors import builtin, choice as choosing
from threadkeep.memory.vectors.builtin import WeightsFolder
from threadkeep.memory.vectors.child import ChildEmbedder
from threadkeep.memory.vectors.choice import ServerEmbedder, choose, choose_in_child

HERE = EmbeddingSettings(url="http://127.0.0.1:9/v1", name="nomic")


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "model"
    write_tiny_model(folder)
    monkeypatch.setattr(choosing, "look_for_weights", lambda: WeightsFolder(folder, ""))
    return folder


def test_our_own_is_the_default_once_its_table_is_made(model: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    none = choose(EmbeddingSettings(), cache, {})
    assert none.embedder is None
    assert "not built yet" in none.reason
    made = choose(EmbeddingSettings(provider="builtin"), cache, {}, make=True)
    found = choose(EmbeddingSettings(), cache, {})
    assert made.embedder is not None
    assert found.embedder is not None
    assert found.embedder.model == builtin.MODEL


def test_a_process_that_stays_small_gets_a_child(model: Path, tmp_path: Path) -> None:
    found = choose_in_child(EmbeddingSettings(), tmp_path, {}).embedder
    assert isinstance(found, ChildEmbedder)
    assert (found.pid, found.model) == (None, builtin.MODEL)
    server = choose_in_child(HERE, tmp_path, {}).embedder
    assert isinstance(server, ServerEmbedder)


@pytest.mark.parametrize("settings", [HERE, replace(HERE, provider="url")])
def test_a_server_that_is_named_is_used(settings: EmbeddingSettings, tmp_path: Path) -> None:
    found = choose(settings, tmp_path, {}).embedder
    assert isinstance(found, ServerEmbedder)
    assert found.model == "nomic"


@pytest.mark.parametrize(
    "settings, says",
    [
        (replace(HERE, provider="off"), "switched off"),
        (EmbeddingSettings(provider="url", name="nomic"), "url is not set"),
        (EmbeddingSettings(url="http://127.0.0.1:9"), "name is not set"),
        (EmbeddingSettings(url="ftp://example.net", name="nomic"), "url"),
    ],
)
def test_what_cannot_be_had_is_said(settings: EmbeddingSettings, says: str, tmp_path: Path) -> None:
    for choice in (choose(settings, tmp_path, {}), choose_in_child(settings, tmp_path, {})):
        assert choice.embedder is None
        assert says in choice.reason


def test_without_weights_or_numpy_there_is_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choosing, "look_for_weights", lambda: WeightsFolder(None, "no weights"))
    assert choose(EmbeddingSettings(), tmp_path, {}) == (None, "no weights")
    assert choose_in_child(EmbeddingSettings(), tmp_path, {}) == (None, "no weights")
    monkeypatch.setattr(choosing, "has_numpy", lambda: False)
    assert "threadkeep[vectors]" in choose(HERE, tmp_path, {}).reason

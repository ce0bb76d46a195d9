"""Probes go the whole way and are seen by nobody but the health of their source."""

from pathlib import Path

import pytest

from threadkeep import Home
from threadkeep.base.tx import Sql
from threadkeep.capture.observed import observed
from threadkeep.errors import NotFound


@pytest.mark.parametrize("source", ["shell", "claude-tool", "browser"])
def test_a_probe_arrives_and_is_seen_by_nobody(tmp_path: Path, source: str) -> None:
    with Home(tmp_path / "h").observations() as observations:
        probed = observations.probe(source)
        assert probed.lag_ms is not None
        health = next(h for h in observations.health() if h.source == source)
        assert (health.probe_ok, health.probe_lag_ms) == (1, probed.lag_ms)
        assert (health.events_last_24h, health.last_event_ts) == (0, None)
        assert health.last_success_ts is not None
        assert not [
            *observations.events(),
            *observations.visits(),
            *observations.drops(),
        ]
        assert observations.store.list_shell_sessions() == []
        with observations.store.context.db.read() as tx:
            for queue in ("enrichment_queue", "browser_enrichment_queue"):
                assert tx.one(Sql(f"SELECT count(*) FROM {queue}")) == (0,)


def test_a_probe_that_does_not_arrive_is_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observed, "report", lambda *_: False)
    with Home(tmp_path / "h").observations() as observations:
        assert observations.probe("shell").lag_ms is None
        health = next(h for h in observations.health() if h.source == "shell")
        assert (health.probe_ok, health.probe_lag_ms) == (0, None)


def test_exclusions_do_not_hold_up_probes_and_old_ones_go(tmp_path: Path) -> None:
    folder = tmp_path / "h"
    folder.mkdir()
    (folder / "config.toml").write_text('[shell]\nexclude = ["*"]\n[capture]\nexclude = ["/"]\n')
    with Home(folder).observations() as observations:
        assert observations.probe("shell").lag_ms is not None
        with observations.store.context.db.write() as tx:
            tx.run(Sql("UPDATE events SET created_at = 0"))
        observations.probe("shell")
        with observations.store.context.db.read() as tx:
            assert tx.one(Sql("SELECT count(*) FROM events")) == (1,)


def test_an_unknown_source_is_named(tmp_path: Path) -> None:
    with Home(tmp_path / "h").observations() as observations, pytest.raises(NotFound, match="mail"):
        observations.probe("mail")

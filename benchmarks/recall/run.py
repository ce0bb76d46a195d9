"""`recall` and `recall-speed`: what is found, and how long it takes."""

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from benchmarks.place import Place
from benchmarks.recall import demo, doors, folding, locomo, speed
from benchmarks.report import Goal, Result, Table, figure
from threadkeep.base.config import EmbeddingSettings
from threadkeep.capture.capture import History
from threadkeep.home.home import Home
from threadkeep.knowledge.vectors import VectorIndex
from threadkeep.memory.memory import Memory
from threadkeep.memory.records import Meaning
from threadkeep.memory.vectors.backfill import archived_texts, embed_pending
from threadkeep.memory.vectors.choice import choose
from threadkeep.service.learn import enrich

_COLUMNS = ("arm", "questions", "recall@10", "MRR", "ms")
_FOLDED = (
    *("set, folded by", "questions", "session hit@1", "session MRR"),
    *("answer MRR", "answer found@10"),
)
TIMES = ("questions of this kind", "questions", "p50 ms", "p95 ms")
_MESSAGES, _LARGER = 100_000, 10
_PER_NODE = 10
_INSIDE_MS, _SERVED_MS = 5.0, 12.0
_GOALS = {"full text": (0.74, 0.45), "fused": (0.74, 0.51)}


def run(place: Place) -> Result:
    """Ask LoCoMo's questions with words, with vectors, and with both."""
    shown, wanted, folded = _demo(place)
    path = locomo.data_file()
    if path is None:
        missing = "recall: the conversations of LoCoMo are not here"
        return Result([shown, _folds(folded)], wanted, facts=[missing])
    data = json.loads(path.read_text("utf-8"))
    asked = locomo.questions(data)[:: place.either(1, 10)]
    with place.fresh() as folder, _captured(folder, data) as (history, now):
        scores = {"full text": locomo.ask_all(_memory(history, now), asked)}
        questions = list(folding.of_locomo(_memory(history, now), asked))
        folded |= {f"LoCoMo, {fold}": folding.score(questions, fold) for fold in folding.FOLDS}
        meaning = _meaning(history, place.folder.parent)
        if meaning is not None:
            scores["vectors"] = locomo.ask_vectors(history.store, meaning, asked)
            scores["fused"] = locomo.ask_all(_memory(history, now, meaning), asked)
    rows = [_row(arm, score) for arm, score in scores.items()]
    note = "" if len(scores) > 1 else "no embedder is installed: words alone were measured"
    goals = [goal for arm, score in scores.items() for goal in _goals(arm, score)]
    table = Table("LoCoMo: evidence among the first ten hits", _COLUMNS, rows, note)
    return Result([table, shown, _folds(folded)], [*goals, *wanted])


def _folds(scores: dict[str, folding.FoldScore]) -> Table:
    rows = [
        (name, str(one.questions), *(figure(each, 3) for each in one[1:]))
        for name, one in scores.items()
    ]
    return Table("Folded by what hits say, and by session", _FOLDED, rows)


def _demo(place: Place) -> tuple[Table, list[Goal], dict[str, folding.FoldScore]]:
    """Ask the questions over the bundled demo history, knowledge made of it included."""
    with place.fresh() as folder:
        home = demo.captured_demo(folder)
        with home.history() as history:
            enrich(home, history, at_once=True, with_model=False)
            meaning = _meaning(history, place.folder.parent)
            memory = Memory(history.store, history.sources)
            memory.index()
            scores = {"full text": demo.evaluate(memory, demo.questions())}
            asked = list(folding.of_demo(memory, demo.questions()))
            folded = {f"demo, {fold}": folding.score(asked, fold) for fold in folding.FOLDS}
            if meaning is not None:
                near = demo.by_meaning(memory, meaning)
                scores["vectors"] = demo.evaluate(memory, demo.questions(), near)
                memory.meaning = meaning
                scores["fused"] = demo.evaluate(memory, demo.questions())
    rows = [
        (
            *(arm, str(one.questions), figure(one.recall_at_10, 3)),
            *(figure(one.reciprocal_rank, 3), figure(one.milliseconds, 1)),
        )
        for arm, one in scores.items()
    ]
    goals = [
        Goal(f"demo, {arm}: questions missed", 0.1, 1 - one.recall_at_10, "")
        for arm, one in scores.items()
        if arm != "vectors"
    ]
    table = Table("The demo history: answers among the first ten hits", _COLUMNS, rows)
    return table, goals, folded


def run_speed(place: Place) -> Result:
    """Time the shipped questions over 100,000 messages and 10,000 nodes."""
    count = place.either(_MESSAGES, _MESSAGES // 10)
    return _timed(place, {count: f"{count:,} messages"})


def run_large(place: Place) -> Result:
    """Time the same questions over a store, and over one ten times as large."""
    count = place.either(_MESSAGES, _MESSAGES // 10)
    return _timed(place, {n: f"{n:,} messages" for n in (count, count * _LARGER)})


def _timed(place: Place, stores: dict[int, str]) -> Result:
    tables, goals = [], []
    rare: list[float] = []
    for count, name in stores.items():
        first = not rare
        with place.fresh() as folder:
            made = partial(_meaning if first else _no_meaning, cache=place.folder.parent)
            timed, fused = speed.measure(folder, count, count // _PER_NODE, made)
            asked = doors.measure(Home(folder / "home"), folder / "user") if first else []
        tables.append(Table(f"Recall over {name}", TIMES, [times_row(one) for one in timed]))
        rare.append(next(one.p50 for one in timed if one.group == "rare"))
        if first:
            goals.append(Goal("recall p95, all questions", 50.0, timed[-1].p95, " ms"))
            goals.append(Goal("recall p50, all questions", _INSIDE_MS, timed[-1].p50, " ms"))
            title = "The same over HTTP and MCP, as the asker sees it"
            tables.append(Table(title, TIMES, [times_row(one) for one in asked]))
            goals += [
                Goal(f"recall p50, {one.group}", _SERVED_MS, one.p50, " ms")
                for one in asked
                if one.group != doors.INSIDE
            ]
        if fused:
            tables.append(Table(f"With vectors, {name}", TIMES, [times_row(one) for one in fused]))
            goals.append(Goal("recall p95 with vectors", 100.0, fused[-1].p95, " ms"))
    if len(rare) > 1:
        goals.append(Goal("rare words when the store grows tenfold", 1.5, rare[1] / rare[0]))
    return Result(tables, goals)


def times_row(one: speed.Timed) -> tuple[str, ...]:
    return one.group, str(one.questions), figure(one.p50), figure(one.p95)


def _no_meaning(_: History, *, cache: Path) -> Meaning | None:
    del cache
    return None


# ---------------------------------------------------------------------- LoCoMo


@contextmanager
def _captured(folder: Path, data: list[dict[str, object]]) -> Iterator[tuple[History, int]]:
    user = folder / "user"
    user.mkdir()
    now = locomo.write_logs(data, user)
    with Home(folder / "home").history(user_home=user) as history:
        history.capture()
        yield history, now


def _memory(history: History, now: int, meaning: Meaning | None = None) -> Memory:
    memory = Memory(history.store, history.sources, clock=lambda: now, meaning=meaning)
    memory.index()
    return memory


def _meaning(history: History, cache: Path) -> Meaning | None:
    embedder = choose(EmbeddingSettings(), cache, {}, make=True).embedder
    if embedder is None:
        return None
    embed_pending(history.store, embedder, archived_texts(history.sources))
    return Meaning(embedder, VectorIndex(embedder.model))


def _row(arm: str, score: locomo.Score) -> tuple[str, ...]:
    shown = (score.recall, 3), (score.reciprocal_rank, 3), (score.milliseconds, 1)
    return arm, str(score.questions), *(figure(*one) for one in shown)


def _goals(arm: str, score: locomo.Score) -> list[Goal]:
    """Write goals as what may be missed at most: a goal is something to stay below."""
    recall, rank = _GOALS.get(arm, (math.nan, math.nan))
    if arm not in _GOALS:
        return []
    return [
        Goal(f"LoCoMo, {arm}: evidence missed", round(1 - recall, 3), 1 - score.recall, ""),
        Goal(f"LoCoMo, {arm}: 1 - MRR", round(1 - rank, 3), 1 - score.reciprocal_rank, ""),
    ]

"""Our next times against those of cron-parser, the library that NanoClaw computes them with."""

import json
import random
import subprocess
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from tests.conftest import need_tool
from tests.lengths import at_length
from tests.support.npm import installed
from threadkeep.errors import Invalid
from threadkeep.mailbox.recurrence import next_due, next_times

JUDGE = Path(__file__).parents[2] / "support" / "cron_judge.mjs"
CASES = at_length(500, 150)

# Zones, and when their clocks change; years that no future change of the law can reach.
CHANGES = {
    "UTC": ["2025-03-30T01:00Z"],
    "Asia/Kolkata": ["2025-03-30T01:00Z"],
    "America/New_York": ["2025-03-09T07:00Z", "2025-11-02T06:00Z"],
    "Europe/Madrid": ["2025-03-30T01:00Z", "2025-10-26T01:00Z"],
    "Australia/Lord_Howe": ["2024-10-05T15:30Z"],  # by half an hour
    "America/St_Johns": ["2025-03-09T05:30Z", "2025-11-02T04:30Z"],
    "America/Havana": ["2025-03-09T05:00Z", "2025-11-02T05:00Z"],  # midnight is skipped, or twice
    "Pacific/Apia": ["2011-12-30T10:00Z"],  # a whole day is skipped
    "Africa/Casablanca": ["2025-02-23T02:00Z", "2025-04-06T02:00Z"],
}
# Back by half an hour: the library walks in circles, which takes it a second for each time.
STANDS_STILL = [
    {"expr": expr, "tz": "Australia/Lord_Howe", "from": "2024-04-06T13:45:00.000Z", "count": count}
    for expr, count in (("5 3 * * *", 1), ("17 * * * *", 2))
]


def iso(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def our_answer(case: dict[str, Any]) -> list[str] | None:
    try:
        times = next_times(case["expr"], case["from"], case["tz"], case["count"])
    except Invalid:
        return None
    return [iso(moment) for moment in times]


def test_the_recorded_vectors_come_out_the_same(shared_data: Path) -> None:
    vectors = json.loads((shared_data / "data" / "mailbox" / "cron_vectors.json").read_bytes())
    ours = [our_answer(case | {"count": 3}) for case in vectors]
    different = [
        (case, answer)
        for case, answer in zip(vectors, ours, strict=True)
        if answer != case.get("next")
    ]
    assert len(vectors) > 250
    assert different == []


def test_the_first_of_the_recorded_times_is_what_is_due_next(shared_data: Path) -> None:
    vectors = json.loads((shared_data / "data" / "mailbox" / "cron_vectors.json").read_bytes())
    for case in vectors:
        if "next" in case:
            assert iso(next_due(case["expr"], case["from"], case["tz"])) == case["next"][0]


def test_the_real_library_gives_the_same_times() -> None:
    modules = installed("cron-parser", "5.5.0")
    cases = [*STANDS_STILL, *(a_case(random.Random(seed)) for seed in range(CASES))]
    asked = [need_tool("node"), str(JUDGE), str(modules)]
    done = subprocess.run(asked, input=json.dumps(cases).encode(), capture_output=True, check=True)
    theirs = json.loads(done.stdout)
    accepted = [answer for answer in theirs if answer is not None]
    different = [
        (case, mine, answer)
        for case, answer in zip(cases, theirs, strict=True)
        if (mine := our_answer(case)) != answer
    ]
    assert CASES // 2 < len(accepted) < CASES
    assert different == []


def a_case(rng: random.Random) -> dict[str, Any]:
    zone = rng.choice(list(CHANGES))
    change = datetime.fromisoformat(rng.choice(CHANGES[zone]))
    hours = rng.choice([4, 60])
    start = change + timedelta(milliseconds=rng.randint(-hours * 3_600_000, 7_200_000))
    return {"expr": an_expression(rng), "tz": zone, "from": iso(start), "count": 3}


def an_expression(rng: random.Random) -> str:
    fields = [
        a_field(rng, 0, 59),
        a_field(rng, 0, rng.choice([4, 23])),
        rng.choice(["*", "*", "*", "?", "L", "1L", "L,15", "32", a_field(rng, 1, 31)]),
        rng.choice(["*", "*", "*", "*", "mar", "NOV", "1-6,12", "*/3", "0"]),
        rng.choice(
            ["*", "*", "?", "5L", "sun", "7", "1#2", "2-7/2", "mon-Fri", a_field(rng, 0, 7)]
        ),
    ]
    if rng.random() < 0.3:
        fields = rng.choice([fields[1:], [a_field(rng, 0, 59), *fields]])
    text = " ".join(fields)
    if rng.random() < 0.1:
        place = rng.randrange(len(text))
        text = text[:place] + rng.choice("*?,-/L#0159x ") + text[place:]
    return text


def a_field(rng: random.Random, low: int, high: int) -> str:
    first, last = sorted((rng.randint(low, high), rng.randint(low, high)))
    several = sorted({rng.randint(low, high) for _ in range(3)})
    return rng.choice(
        [
            "*",
            str(first),
            str(last),
            f"{first}-{last}",
            f"*/{last + 1}",
            f"{first}/{last + 1}",
            f"{first}-{last}/{rng.randint(1, 4)}",
            ",".join(map(str, several)),
        ]
    )

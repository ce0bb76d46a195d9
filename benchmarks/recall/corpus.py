"""A large made-up history: messages through capture, nodes beside them, words as in a language."""

import json
import random
from datetime import UTC, datetime
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

from benchmarks.corpus import vocabulary
from threadkeep.base.tx import Sql
from threadkeep.home.home import Home

NOW: Final = 1_780_000_000_000
_PER_SESSION: Final = 200
_SPAN_MS: Final = 365 * 86_400_000
_WORDS: Final = 60_000
_ENGLISH: Final = (
    *("the", "to", "a", "of", "and", "in", "is", "it", "for", "that", "this", "with", "on"),
    *("file", "test", "error", "run", "use", "add", "fix", "build", "change", "server", "data"),
    *("config", "function", "import", "module", "user", "request", "branch", "commit", "deploy"),
    *("cache", "query", "table", "index", "timeout", "retry", "token", "parser", "version"),
)
_CHINESE: Final = "数据库锁定连接超时修复测试部署缓存索引查询用户请求错误日志版本"
_NODE = """
INSERT INTO knowledge_nodes (uuid, content, embed_text, outcome, tags, created_at, updated_at)
VALUES (:uuid, :content, :embed_text, 'success', '[]', :at, :at)
"""


class Words:
    """Writes text: a few words are everywhere, most are rare."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.all = [*_ENGLISH, *vocabulary(_WORDS)]
        self._weights = list(accumulate(1 / (rank + 2) for rank in range(len(self.all))))

    def text(self, count: int) -> str:
        """Write so many words."""
        return " ".join(self.random.choices(self.all, cum_weights=self._weights, k=count))

    def said(self) -> str:
        """Write a message: mostly short; some name code, a few are Chinese."""
        draw = self.random
        text = self.text(min(600, 8 + int(draw.expovariate(1 / 60))))
        if draw.random() < 0.1:
            text += f" src/{draw.choice(self.all)}_{draw.choice(self.all)}.py"
        if draw.random() < 0.05:
            text += f" error[E{draw.randrange(1000):04}]"
        if draw.random() < 0.01:
            text += "".join(draw.choices(_CHINESE, k=12))
        return text


def make_store(folder: Path, messages: int, nodes: int, url: str | None = None) -> Home:
    """Write logs, capture them into a new home or one on a server, and put nodes beside them."""
    user, words = folder / "user", Words(7)
    sessions = max(1, messages // _PER_SESSION)
    for number in range(sessions):
        write_log(user, words, number, sessions)
    home = Home(url or folder / "home")
    with home.history(user_home=user) as history:
        history.capture()
        with history.store.context.db.write() as tx:
            for number in range(nodes):
                tx.run(Sql(_NODE), _node(words, number))
    return home


def write_log(user: Path, words: Words, number: int, sessions: int) -> None:
    project = f"project{number % 20}"
    folder = user / ".claude" / "projects" / f"-code-{project}"
    folder.mkdir(parents=True, exist_ok=True)
    begun = NOW - _SPAN_MS + _SPAN_MS * number // sessions
    lines = [_record(words, number, turn, (project, begun)) for turn in range(_PER_SESSION)]
    (folder / f"made-{number}.jsonl").write_text("".join(lines), "utf-8")


def _record(words: Words, session: int, turn: int, where: tuple[str, int]) -> str:
    project, begun = where
    role = "assistant" if turn % 2 else "user"
    moment = _iso(begun + turn * 20_000)
    record: dict[str, Any] = {
        "type": role,
        "uuid": f"{session}-{turn}",
        "sessionId": f"made-{session}",
        "timestamp": moment,
        "cwd": f"/code/{project}",
        "message": {"role": role, "content": words.said()},
    }
    return json.dumps(record, ensure_ascii=False) + "\n"


def _iso(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")


def _node(words: Words, number: int) -> dict[str, Any]:
    content = {"summary": words.text(20), "intent": words.text(6), "tags": []}
    at = NOW - words.random.randrange(_SPAN_MS)
    told = json.dumps(content), words.text(60)
    return {"uuid": f"node-{number}", "content": told[0], "embed_text": told[1], "at": at}

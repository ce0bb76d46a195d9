"""Made-up agent sessions, the same in every run: turns, tool calls, logs, code, prompts.

At full size, 200,000 messages in 2,044 sessions, it is 172 MB of text: contents of 0 to 4,029
characters (641 on average, empty only where a tool is called), one message in 25 Chinese,
Japanese or Korean, and ten needles that stand in one message each.
"""

import json
import random
from collections.abc import Iterator
from itertools import accumulate, chain
from typing import Any, Final, NamedTuple

from benchmarks.corpus import vocabulary

Json = dict[str, Any]

SESSIONS, MESSAGES = 2_044, 200_000
LONGEST = 4_029
NEEDLES: Final = tuple(f"needle{letter * 3}" for letter in "abcdefghij")
SOURCES: Final = ("cli", "cli", "cli", "telegram", "telegram", "discord", "cron", "slack")
MODELS: Final = ("large-1", "large-2", "small-1")
TOOLS: Final = ("terminal", "read_file", "write_file", "web_search", "browser_click")
COMMON: Final = "docker"  # in most messages, as the subject of an agent's work is
_STEP = 7.0  # seconds between two messages
_BEGUN = 1_760_000_000.0

# The words that people type when they search, by how frequent they are.
_HEAD: Final = (
    COMMON, "the", "to", "and", "is", "of", "in", "file", "for", "with", "this", "error", "that",
    "it", "on", "deployment", "be", "run", "not", "from", "test", "timeout", "python", "kubernetes",
    "session", "gateway", "config", "config.yaml", "chat-send", "gateway/run.py", "server", "java",
    "it's", "user@host", "deploy", "deployed", "deploying", "deployments", "memory", "retry",
)  # fmt: skip
_CHINESE: Final = tuple(chr(0x4E00 + 37 * number) for number in range(500))
_KANA: Final = (
    "あいうえおかきくけこさしすせそたちつてとなにぬねのはひふへほまみむめもやゆよらりるれろわをん"
)
_KOREAN: Final = (
    *("배포", "오류", "서버", "시간", "초과", "파일", "설정", "다시", "실행", "테스트", "확인"),
    *("문제", "해결", "로그", "세션", "메모리", "사용자", "요청", "응답", "연결", "실패", "도커"),
    *("컨테이너", "네트워크", "데이터", "저장소", "업데이트", "버전", "코드", "함수", "변수"),
)
CHINESE_PHRASE: Final = "部署失败"  # stands in one message of eight that have no kana and no Korean
KOREAN_WORD: Final = "컨테이너"


class Session(NamedTuple):
    """A session, and its messages with the names of `append_message`'s arguments."""

    id: str
    source: str
    model: str
    system_prompt: str
    started_at: float
    ended: bool
    messages: list[Json]


def sessions(count: int = MESSAGES) -> Iterator[Session]:
    """Return about `count` messages, 98 in a session on average as in the full corpus."""
    maker = Maker(11)
    total = max(1, round(SESSIONS * count / MESSAGES))
    left = count
    for number in range(total):
        size = left if number == total - 1 else maker.size(left, total - number)
        left -= size
        yield maker.session(number, size, count)


def payload(session: Session) -> int:
    """Count the bytes of text that the session brings."""
    texts = chain.from_iterable(_texts(message) for message in session.messages)
    return len(session.system_prompt.encode()) + sum(len(text.encode()) for text in texts)


def _texts(message: Json) -> Iterator[str]:
    """Return what was said, thought and called; roles, names and ids are not payload."""
    for name in ("content", "reasoning", "tool_calls"):
        value = message.get(name)
        if value is not None:
            yield value if isinstance(value, str) else json.dumps(value)


class Maker:
    """Writes sessions from a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._words = [*_HEAD, *vocabulary(60_000)]
        self._weights = list(accumulate(1 / (rank + 2) for rank in range(len(self._words))))
        self._chinese = list(accumulate(1 / (rank + 20) for rank in range(len(_CHINESE))))
        self._written = self._hidden = 0
        self._prompts = [self.words(6_200) for _ in range(12)]

    def size(self, left: int, sessions_left: int) -> int:
        """Choose how many messages a session has: few or many, 98 on average."""
        drawn = int(self._random.expovariate(sessions_left / left)) + 2
        return min(drawn, left - 2 * (sessions_left - 1), 2_000)

    def session(self, number: int, size: int, count: int) -> Session:
        """Write one session of `size` messages."""
        began = _BEGUN + number * 600.0
        stamp = (
            f"{20_260_000 + number // 90:08}_{number % 90:06}_{self._random.getrandbits(32):08x}"
        )
        kinds = self._kinds(size)
        messages = [self._message(kind, count) for kind in kinds]
        for place, message in enumerate(messages):
            message["timestamp"] = began + place * _STEP
        return Session(
            stamp,
            SOURCES[number % len(SOURCES)],
            MODELS[number % len(MODELS)],
            f"{self._prompts[number % len(self._prompts)]}\nSession {number}.",
            began,
            number % 10 != 9,
            messages,
        )

    def _kinds(self, size: int) -> list[str]:
        """Lay out turns: the user speaks, tools are called and answer, the assistant replies."""
        kinds: list[str] = []
        while len(kinds) < size:
            calls = self._random.choice((0, 0, 1, 1, 2, 3))
            kinds += ["user", *("call", "tool") * calls, "reply"]
        return kinds[:size]

    def _message(self, kind: str, count: int) -> Json:
        self._written += 1
        if kind == "call":
            return self._call()
        if kind == "tool":
            name = TOOLS[self._written % len(TOOLS)]
            return {"role": "tool", "content": self._output(), "tool_name": name,
                    "tool_call_id": f"call_{self._written:08x}"}  # fmt: skip
        content = self._speech(kind)
        if self._hidden < len(NEEDLES) and self._written * len(NEEDLES) >= self._hidden * count:
            content = f"{content[: LONGEST - 20]} {NEEDLES[self._hidden]}"
            self._hidden += 1
        if kind == "user":
            return {"role": "user", "content": content}
        reply = {"role": "assistant", "content": content, "finish_reason": "stop"}
        thought = self.words(self._length(500)) if self._written % 3 == 0 else None
        return {**reply, "token_count": len(content) // 4, "reasoning": thought}

    def _call(self) -> Json:
        arguments = {
            "command": self.words(self._length(150)),
            "path": f"/srv/{self.words(14)}/run.py",
            "n": 20,
        }
        function = {"name": TOOLS[self._written % len(TOOLS)], "arguments": json.dumps(arguments)}
        call = {"id": f"call_{self._written:08x}", "type": "function", "function": function}
        content = "" if self._random.random() < 0.6 else self.words(self._length(160))
        return {"role": "assistant", "content": content, "tool_calls": [call],
                "finish_reason": "tool_calls"}  # fmt: skip

    def _speech(self, kind: str) -> str:
        length = self._length(480 if kind == "user" else 1_150)
        drawn = self._random.random()
        if drawn < 0.085:
            return self._unspaced(length)
        return self.words(length)

    def _length(self, mean: float) -> int:
        return min(LONGEST, 8 + int(self._random.expovariate(1 / mean)))

    def words(self, length: int) -> str:
        """Write words whose frequencies are those of a language."""
        words = self._random.choices(self._words, cum_weights=self._weights, k=length // 6 + 2)
        for place in range(11, len(words), 12):
            words[place] += "."
        return " ".join(words)[:length]

    def _output(self) -> str:
        length = self._length(1_040)
        return self._log(length) if self._random.random() < 0.5 else self._code(length)

    def _log(self, length: int) -> str:
        lines = []
        for number in range(length // 70 + 1):
            second = f"{number // 60 % 60:02}:{number % 60:02}"
            level = ("INFO", "WARN", "ERROR")[self._random.getrandbits(4) % 3]
            lines.append(f"2026-04-01T12:{second} {level} [{self._random.getrandbits(20):05x}] ")
            lines.append(self.words(34) + "\n")
        return "".join(lines)[:length]

    def _code(self, length: int) -> str:
        lines = []
        for _ in range(length // 60 + 1):
            name, value, other = self._random.choices(self._words, k=3)
            lines.append(f"    {name}_{other} = self.{value}({name!r}, {other}=None)\n")
        return "".join(lines)[:length]

    def _unspaced(self, length: int) -> str:
        length = max(12, length // 2)
        kind = self._random.random()
        if kind < 0.2:
            return " ".join(self._random.choices(_KOREAN, k=length // 4))
        letters = self._random.choices(_CHINESE, cum_weights=self._chinese, k=length)
        if kind < 0.4:
            letters[::2] = self._random.choices(_KANA, k=len(letters[::2]))
        for place in range(17, len(letters), 18):
            letters[place] = "，"
        if kind > 0.9:
            letters[3:7] = CHINESE_PHRASE
        if self._random.random() < 0.3:
            letters[8:8] = f" {COMMON} "
        return "".join(letters)

"""Shared by the tests of Cursor: its stores as it writes them, made in a folder."""

import hashlib
import json
import sqlite3
from pathlib import Path
from typing import Any

from threadkeep.sources.records import Log, Stamp, UserHome

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures" / "sources" / "cursor"
CHAT = "0c0ffee0-0000-4000-8000-000000000001"
MTIME_MS = 1_777_632_000_000


def user(home: Path, **env: str) -> UserHome:
    return UserHome(home, env)


def log_at(path: str, **about: Any) -> Log:
    return Log(path, Stamp(1, MTIME_MS * 1_000_000, 1, 1), **about)


def transcript(home: Path, slug: str, name: str, content: str = "") -> Path:
    path = home / ".cursor" / "projects" / slug / "agent-transcripts" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content or '{"role":"user","message":{"content":"hi"}}\n')
    return path


def editor_database(home: Path, rows: dict[str, Any], at: str = ".config") -> Path:
    """Make a state.vscdb with the given keys; a value that is no text is written as JSON."""
    path = home / at / "Cursor" / "User" / "globalStorage" / "state.vscdb"
    path.parent.mkdir(parents=True, exist_ok=True)
    with sqlite3.connect(path) as connection:
        for name in ("ItemTable", "cursorDiskKV"):
            columns = "(key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB)"
            connection.execute(f"CREATE TABLE IF NOT EXISTS {name} {columns}")
        for key, value in rows.items():
            stored = value if isinstance(value, (str, bytes)) else json.dumps(value)
            connection.execute("INSERT INTO cursorDiskKV VALUES (?, ?)", (key, stored))
    connection.close()
    return path


def composer(chat: str, bubbles: list[dict[str, Any]], **about: Any) -> dict[str, Any]:
    """Write a conversation as the keys of the editor's database."""
    headers = [{"bubbleId": bubble["bubbleId"], "type": bubble["type"]} for bubble in bubbles]
    own = {"_v": 3, "composerId": chat, "fullConversationHeadersOnly": headers, **about}
    rows = {f"bubbleId:{chat}:{bubble['bubbleId']}": bubble for bubble in bubbles}
    return {f"composerData:{chat}": own, **rows}


def field(number: int, content: bytes) -> bytes:
    """Write a length-delimited field of protocol buffers."""
    length, sized = len(content), b""
    while length > 0x7F:
        sized += bytes([length & 0x7F | 0x80])
        length >>= 7
    return bytes([number << 3 | 2]) + sized + bytes([length]) + content


class ChatStore:
    """A store.db as the command writes it: blobs by their hash, and the newest root."""

    def __init__(self, home: Path, project: str, chat: str = CHAT) -> None:
        folder = hashlib.md5(project.encode()).hexdigest()
        self.path = home / ".cursor" / "chats" / folder / chat / "store.db"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._connection = sqlite3.connect(self.path, isolation_level=None)
        self._connection.execute("CREATE TABLE blobs (id TEXT PRIMARY KEY, data BLOB)")
        self._connection.execute("CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT)")

    def blob(self, data: bytes) -> bytes:
        key = hashlib.sha256(data)
        self._connection.execute(
            "INSERT OR IGNORE INTO blobs VALUES (?, ?)", (key.hexdigest(), data)
        )
        return key.digest()

    def message(self, role: str, content: Any) -> bytes:
        return self.blob(json.dumps({"role": role, "content": content}).encode())

    def meta(self, **about: Any) -> None:
        stored = json.dumps(about).encode().hex()
        self._connection.execute("INSERT OR REPLACE INTO meta VALUES ('0', ?)", (stored,))

    def close(self) -> None:
        self._connection.close()

"""An embedder in a process of its own, so that the one which serves stays small.

The process is started by the first text and ends after some idle time; the next text starts
another. It notices by its closed pipe when this process is gone, however that ended.
"""

import contextlib
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from threadkeep.base.frames import FrameDecoder, encode_frame
from threadkeep.errors import Closed, ThreadkeepError
from threadkeep.memory.vectors.builtin import DIMENSIONS, MODEL
from threadkeep.memory.vectors.worker import LIMIT, EmbeddingReply, write_all

IDLE_SECONDS: Final = 60.0
# The first answer may have to wait for the table: half a minute on two idle cores.
ANSWER_SECONDS: Final = 300.0
_PIECE: Final = 1 << 16
_END_SECONDS: Final = 5.0
_LOOK_SECONDS: Final = 0.05

Start = Callable[[], "subprocess.Popen[bytes]"]


class _Gone(Exception):
    """The child ended before it answered."""


class ChildEmbedder:
    """Makes vectors in a child; safe to share between threads, which take turns."""

    def __init__(
        self,
        start: Start,
        *,
        model: str = MODEL,
        dimensions: int = DIMENSIONS,
        answer_seconds: float = ANSWER_SECONDS,
    ) -> None:
        self._start = start
        self._model = model
        self._dimensions = dimensions
        self._answer_seconds = answer_seconds
        self._turn = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._closed = False

    @property
    def model(self) -> str:
        """The name of the model."""
        return self._model

    @property
    def dimensions(self) -> int:
        """How many numbers a vector has."""
        return self._dimensions

    @property
    def pid(self) -> int | None:
        """The process that runs now, if any; one that has ended is cleared away."""
        child = self._child
        return child.pid if child is not None and child.poll() is None else None

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        """Return the vector of each text, in order."""
        if not texts:
            return []
        question = encode_frame(msgspec.msgpack.encode(list(texts)), limit=LIMIT)
        with self._turn:
            answer = self._ask(question)
        if answer.error or len(answer.vectors) != len(texts):
            said = answer.error or f"{len(answer.vectors)} vectors for {len(texts)} texts"
            raise ThreadkeepError(f"vectors could not be made: {said}", hint=answer.hint)
        return answer.vectors

    def close(self) -> None:
        """End the child, and wait for it; who waits for an answer gets Closed instead."""
        self._closed = True
        while not self._turn.acquire(timeout=_LOOK_SECONDS):
            child = self._child
            if child is not None:
                child.kill()
        try:
            self._end()
        finally:
            self._turn.release()

    def _ask(self, question: bytes) -> EmbeddingReply:
        """Ask the child; one that ended, for it was idle, is replaced once."""
        for last in (False, True):
            try:
                return self._exchange(question)
            except _Gone as error:
                self._end()
                if last:
                    msg = "the process that makes vectors exited without an answer"
                    hint = "its last messages are in this process's log"
                    raise ThreadkeepError(msg, hint=hint) from error
            except BaseException:
                self._end()  # half an answer may be in the pipe
                raise
        raise AssertionError  # pragma: no cover  (both turns of the loop end it)

    def _exchange(self, question: bytes) -> EmbeddingReply:
        if self._closed:
            raise Closed("the embedder was closed", hint="open it again")
        if self.pid is None:
            self._end()
            self._child = self._start()
        child = self._child
        if child is None or child.stdin is None or child.stdout is None:
            raise _Gone
        try:
            write_all(child.stdin.fileno(), question)
        except BrokenPipeError as error:
            raise _Gone from error
        return self._read(child.stdout.fileno())

    def _read(self, answers: int) -> EmbeddingReply:
        decoder = FrameDecoder(limit=LIMIT)
        deadline = time.monotonic() + self._answer_seconds
        while (body := decoder.take()) is None:
            left = max(0.0, deadline - time.monotonic())
            if not select.select([answers], [], [], left)[0]:
                msg = (
                    f"the process that makes vectors did not answer for {self._answer_seconds:g} s"
                )
                raise ThreadkeepError(msg, hint="try again; the process was ended")
            data = os.read(answers, _PIECE)
            if not data:
                raise _Gone
            decoder.feed(data)
        return msgspec.msgpack.decode(body, type=EmbeddingReply)

    def _end(self) -> None:
        """Close the pipes, which the child ends by; kill it if it does not."""
        child, self._child = self._child, None
        if child is None:
            return
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        try:
            child.wait(_END_SECONDS if child.poll() is None else 0)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def start_builtin(cache: Path, idle_seconds: float = IDLE_SECONDS) -> Start:
    """Return a function that starts the child with our own embedder."""
    module = (
        "threadkeep.memory.vectors.worker"  # -P: nothing is imported from the folder we stand in
    )
    command = [sys.executable, "-P", "-m", module, str(cache), str(idle_seconds)]

    def start() -> "subprocess.Popen[bytes]":
        # A session of its own: Ctrl-C is meant for the parent, which then closes the pipe.
        return subprocess.Popen(  # noqa: S603  (our own module)
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )

    return start

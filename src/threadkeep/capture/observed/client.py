"""A client of the socket: for our own commands, and for whoever wants to report from Python."""

from pathlib import Path
from typing import Final, Self

from threadkeep.base.frames import FrameDecoder, encode_frame
from threadkeep.base.json import decode
from threadkeep.base.local_socket import CONNECT_SECONDS, connect
from threadkeep.capture.observed.envelopes import write_envelope
from threadkeep.capture.observed.protocol import (
    Error,
    IngestEvent,
    Request,
    Response,
    decode_response,
    encode_request,
)
from threadkeep.errors import Busy, Closed, Conflict
from threadkeep.knowledge.records import Command, Visit

_CHUNK: Final = 64 << 10


class CollectorClient:
    """One connection to whoever listens at a path: threadkeep, or Hippo itself."""

    def __init__(
        self, path: Path, timeout: float = 5.0, *, connect_timeout: float = CONNECT_SECONDS
    ) -> None:
        """Connect; NotFound if nobody listens, Busy if it does not take us in time."""
        self.path = path
        self._link = connect(path, connect_timeout)
        self._link.settimeout(timeout)
        self._decoder = FrameDecoder()

    def send(self, thing: Command | Visit) -> None:
        """Hand over an event; that it was written is all there is to know."""
        self._write(IngestEvent(decode(write_envelope(thing))))

    def ask(self, request: Request) -> Response:
        """Ask, and give the answer; Conflict if the other side cannot answer."""
        self._write(request)
        response = decode_response(self._read())
        if isinstance(response, Error):
            msg = f"{type(request).__name__} was refused: {response.message}"
            raise Conflict(msg, hint=f"whoever listens at {self.path} said so")
        return response

    def close(self) -> None:
        """Hang up."""
        self._link.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write(self, request: Request) -> None:
        try:
            self._link.sendall(encode_frame(encode_request(request)))
        except TimeoutError:
            raise self._too_slow() from None
        except OSError as error:
            raise self._hung_up(error.strerror or "") from None

    def _read(self) -> bytes:
        while (frame := self._decoder.take()) is None:
            try:
                data = self._link.recv(_CHUNK)
            except TimeoutError:
                raise self._too_slow() from None
            except OSError as error:
                raise self._hung_up(error.strerror or "") from None
            if not data:
                raise self._hung_up("it ended")
            self._decoder.feed(data)
        return frame

    def _too_slow(self) -> Busy:
        msg = f"the process listening at {self.path} did not answer in time"
        return Busy(msg, hint="try again in a moment, or restart `threadkeep watch`")

    def _hung_up(self, why: str) -> Closed:
        return Closed(f"the connection to {self.path} was closed: {why}", hint="connect again")

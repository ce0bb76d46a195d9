"""Whose a connection on this machine is: the user of the program at its other end."""

import socket
import struct
import sys
from pathlib import Path
from typing import Final

Address = tuple[str, int]

_TABLES: Final = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LOCAL, _REMOTE, _USER = 1, 2, 7  # the columns of these tables


def peer_user(client: Address, server: Address) -> int | None:
    """Give the user id of whoever connected; None where the system does not tell."""
    wanted = (_written(client), _written(server))
    for table in _TABLES:
        try:
            lines = table.read_text("ascii", "replace").splitlines()[1:]
        except OSError:  # no Linux
            continue
        found = user_in(lines, *wanted)
        if found is not None:
            return found
    return None


def user_in(lines: list[str], local: str, remote: str) -> int | None:
    """Find the user of the socket with these two ends in a table of the kernel."""
    ends = f" {local} {remote} "
    for line in lines:
        if ends in line:  # cheaper than to take every line apart
            fields = line.split()
            if (fields[_LOCAL], fields[_REMOTE]) == (local, remote):
                return int(fields[_USER])
    return None


def _written(address: Address) -> str:
    """Write an address as the kernel does: each word of it in the machine's own byte order."""
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    try:
        packed = socket.inet_pton(family, address[0].partition("%")[0])
    except OSError:
        return ""  # no address: a socket of the file system, or a test
    words = struct.unpack(f"{'<' if sys.byteorder == 'little' else '>'}{len(packed) // 4}I", packed)
    return "".join(f"{word:08X}" for word in words) + f":{address[1]:04X}"

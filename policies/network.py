"""The address of an engine that its sidecar reaches over a network.

An engine has two ports: the one named for its records, and the next one for parameters. Engines
of further data-parallel ranks follow, two ports each.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .errors import WactlError
from .keys import Keys

LISTEN = "WACTL_LISTEN"
"""Environment variable: where the engine of rank 0 listens, instead of in the private folder."""


class AddressError(WactlError):
    """The address cannot be used; the text says why and what to do."""


@dataclass(frozen=True)
class Network:
    """One engine's address, and the keys without which there is none."""

    host: str
    port: int
    keys: Keys

    @property
    def records(self) -> str:
        """Where the engine publishes its records."""
        return f"tcp://{self.host}:{self.port}"

    @property
    def control(self) -> str:
        """Where it takes parameters."""
        return f"tcp://{self.host}:{self.port + 1}"

    def __str__(self) -> str:
        return self.records


def network(url: str, keys: Keys, rank: int = 0) -> Network:
    """The engine of a data-parallel rank, where ``tcp://HOST:PORT`` is that of rank 0.

    Raises `AddressError`.
    """
    parts = re.fullmatch(r"tcp://([^\s:/]+):(\d{1,5})", url)
    if parts is None:
        raise AddressError(f"{url!r} is no address; write it like tcp://10.0.0.5:5700")
    port = int(parts[2]) + 2 * rank
    if not 0 < port < 65535:
        raise AddressError(f"{url} leaves no two ports for rank {rank}; choose a port up to 65000")
    return Network(parts[1], port, keys)

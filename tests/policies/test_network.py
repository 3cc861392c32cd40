"""Addresses of engines on a network."""

from __future__ import annotations

import pytest
from wactl.policies.keys import Keys
from wactl.policies.network import AddressError, network

KEYS = Keys(b"s" * 40, b"p" * 40, b"q" * 40)


def test_every_rank_has_two_ports() -> None:
    """Rank 0 has the port named and the next one, and each further rank the two behind."""
    ports = [network("tcp://10.0.0.5:5700", KEYS, rank) for rank in range(3)]
    assert [(one.records, one.control) for one in ports] == [
        ("tcp://10.0.0.5:5700", "tcp://10.0.0.5:5701"),
        ("tcp://10.0.0.5:5702", "tcp://10.0.0.5:5703"),
        ("tcp://10.0.0.5:5704", "tcp://10.0.0.5:5705"),
    ]
    assert "sss" not in f"{ports[0]} {ports[0]!r}"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "10.0.0.5:5700",
        "tcp://10.0.0.5",
        "tcp://:5700",
        "tcp://host:port",
        "tcp://host:5700/x",
        "ipc:///tmp/x",
        "tcp://a b:5700",
        "tcp://host:123456",
    ],
)
def test_what_is_no_address_is_refused(url: str) -> None:
    """The text shows how one is written."""
    with pytest.raises(AddressError, match=r"no address; write it like tcp://10\.0\.0\.5:5700"):
        network(url, KEYS)


@pytest.mark.parametrize(("port", "rank"), [(0, 0), (65535, 0), (65534, 1), (99999, 0)])
def test_both_ports_have_to_exist(port: int, rank: int) -> None:
    """A port that leaves no room for the ports behind it is refused."""
    assert network(f"tcp://host:{65534 - 2 * rank}", KEYS, rank).port == 65534
    with pytest.raises(AddressError, match=f"leaves no two ports for rank {rank}"):
        network(f"tcp://host:{port}", KEYS, rank)

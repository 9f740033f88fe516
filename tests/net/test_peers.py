"""Two replicas of the hub, each with tunnels of its own: a caller at either of them reaches every node."""
import random
import socket

import pytest

import replicas
from dnskit import socket_in
from lab import wait_for
from replicas import peers, request

as_before = replicas.as_before


@pytest.fixture(scope="module")
def town(lab):
    made = replicas.Town(lab)
    yield made
    made.logs()


def test_any_replica_answers(town):
    """200 of 200 at the first time, wherever the caller asks."""
    chance = random.Random(6)
    asked = [(chance.choice(town.hubs), chance.choice(town.nodes).name) for _ in range(200)]
    assert [request(h, n) for h, n in asked] == [(200, n + "\n") for _, n in asked]
    a, b = town.hubs
    for h, o, nodes in ((a, b, 1), (b, a, 2)):
        known = peers(h)
        assert known[o.address]["nodes"] == nodes and known[h.address]["state"] == "itself"
        assert h.metrics()['edgeway_hub_peer_streams_total{what="asked"}'] == sum(
            1 for hub, n in asked if hub is h and not replicas.tunnel_of(h, n))
    assert 'at hub-2' in a.process.log() and 'door=peer peer=' in b.process.log()


def test_datagrams_at_any_replica(town):
    for h in town.hubs:
        for i, n in enumerate(town.nodes):
            with socket_in(h.machine, socket.SOCK_DGRAM, h.address, replicas.UDP + 1 + i) as s:
                for size in (1, 0, 60000):
                    s.send(b"x" * size)
                    assert s.recv(65536) == f"{n.name}\n".encode() + b"x" * size

"""Nodes of different sites connect to each other across the NATs of both, and what the hub carries until then, meanwhile and instead."""
import pytest

from lab import wait_for
from nat_site import NatTown


@pytest.fixture(scope="module")
def town(lab):
    made = NatTown(lab)
    yield made
    made.logs()


@pytest.fixture(autouse=True)
def as_before(town):
    yield
    for nat in town.nats:
        nat.rules("keeps")
        nat.straight()


def test_two_nats(town):
    """The first call goes through the hub; once the nodes have met, the hub carries nothing."""
    assert town.get(1, 2) == (200, "edge-2.web\n")
    town.meet(1, 2)
    before, direct = town.carried(), town.direct(1)
    for _ in range(5):
        assert town.get(1, 2) == (200, "edge-2.web\n")
        assert town.echo(1, 2).startswith(b"edge-2.web\n")
    assert town.direct(1) > direct
    assert town.carried() == before

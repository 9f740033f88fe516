"""lb.allow: who needs an endpoint at an address that is refused otherwise says so, and gets these and no others."""
import pytest

from forbidden_town import METADATA, NODE, Town


@pytest.fixture(scope="module")
def town(lab):
    made = Town(lab, "--lb.allow", f"{METADATA},{NODE}/32,100.100.0.0/16")
    yield made
    print(f"--- log of the agent\n{made.agent.process.log()[-4000:]}")


def test_what_is_named(town):
    assert town.get("headless") == (200, "forbidden\n")
    assert town.get("status-host-ip") == (200, "forbidden\n")
    assert town.get("own") == (200, "node\n")
    assert town.client.send("relayed.default.svc.cluster.local", 81, "x").startswith("forbidden\n")


def test_what_is_not(town):
    assert town.get("this-network")[0] == 503 and town.get("loopback")[0] == 503 and town.get("bridge")[0] == 503


def test_a_wrong_entry_is_named(town):
    status, said = town.agent.attempt("--lb.allow", "loopback")
    assert status == 2 and 'lb.allow' in said and '"loopback" is neither an address nor a network' in said

"""The same where the nodes' tunnels are at two replicas of the hub: one asks at the first, the other one comes to the second."""
import pytest

from lab import HUB_PORT
import nat_site
import replicas
from pki import Authority
from test_node_nat import Visitor


class Town(nat_site.NatTown):
    def __init__(self, lab):
        super().__init__(lab, hubs=self.start_hubs)

    def start_hubs(self, lab):
        self.ca = Authority(lab.dir, "shared")
        hubs = [replicas.start_hub(lab, self.ca, i, "--ingress.udp", "[]") for i in (0, 1)]
        replicas.name_hubs(hubs)
        replicas.know_each_other(hubs)
        return hubs

    def home(self, i):
        return self.hubs[i == 1]


@pytest.fixture(scope="module")
def town(lab):
    made = Town(lab)
    yield made
    made.logs()


@pytest.mark.parametrize("i, k", [(1, 2), (2, 1), (3, 2)])
def test_across_replicas(town, i, k):
    before = [h.metrics()['edgeway_hub_rendezvous_total{result="introduced"}'] for h in town.hubs]
    town.meet(i, k)
    carried = town.carried()
    assert town.get(i, k) == (200, f"edge-{k}.web\n")
    assert town.carried() == carried
    at = int(i == 2)  # who asks is introduced where it asks
    after = [h.metrics()['edgeway_hub_rendezvous_total{result="introduced"}'] for h in town.hubs]
    assert after[at] > before[at] and after[1 - at] == before[1 - at]


def test_rations_are_of_all_replicas_together(town):
    """Who asks at each of them in turn gets no further than at one."""
    said = [Visitor(town, town.nodes[2], town.agents[2], (h.address, HUB_PORT)).say(b"meet edge-1\n") for _ in range(15) for h in town.hubs]
    assert said[0].startswith(b"go ") and said[-1] == b"no this node has asked for that one too often\n", said
    assert sum(x.startswith(b"go ") for x in said) <= 20

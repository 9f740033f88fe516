"""Who holds a node's certificate wants addresses of the cloud through the hub, where rules give that node one port of one Service's endpoints and
the API server: by every name and field that it can think of, and with the help of a tenant who may write EndpointSlices in that namespace.
"""
import pytest

from caller_site import COUNT
from cloud_town import DATABASE, CloudTown, bare
from lab import HUB_ADDRESS, HUB_PORT, PATIENCE_S, Machine, endpoint_slice, pod, wait_for

VAULT, KUBELET, VICTIM = "192.0.2.40", "192.0.2.2", "192.0.2.41"
RULE = "{from: 'node:edge-1', to: ['cloud/shop/*:5432', 'cloud/default/kubernetes:443']}"
ASK = """
import socket, ssl, sys, h2.connection, h2.config, h2.events
address, port, data, authority, *fields = sys.argv[1:]
context = ssl.create_default_context(cafile=data + "/ca.pem")
context.load_cert_chain(data + "/node.crt", data + "/node.key")
context.set_alpn_protocols(["edgeway-tunnel/1"])
tls = context.wrap_socket(socket.create_connection((address, int(port)), PATIENCE), server_hostname=address)
c = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, header_encoding="utf-8", validate_outbound_headers=False))
c.initiate_connection()
c.send_headers(1, [(":method", "CONNECT"), (":authority", authority)] + [tuple(f.split("=", 1)) for f in fields])
tls.sendall(c.data_to_send())
while data := tls.recv(65536):
    for e in c.receive_data(data):
        if isinstance(e, h2.events.ResponseReceived):
            h = dict(e.headers)
            print(h[":status"], h.get("edgeway-reason", ""))
            sys.exit(0)
    tls.sendall(c.data_to_send())
print("0 closed")
""".replace("PATIENCE", str(PATIENCE_S))


class Town(CloudTown):
    def __init__(self, lab):
        super().__init__(lab)
        self.machines = [Machine(lab, name, address=address) for name, address in (("vault", VAULT), ("victim", VICTIM))] + [self.api.machine]
        for m, port in zip(self.machines, (8200, 5432, 10250)):
            self.backend(m, f"{m.name}-{port}", "--tcp", str(port))
        for m in self.machines[:2]:
            m.run("nft", "-f", "-", input=COUNT)
        self.api.machine.run("nft", "-f", "-", input=COUNT.replace("tcp flags", "tcp dport 10250 tcp flags"))
        self.api.ctl("put", group="", resource="namespaces", obj={"metadata": {"name": "prod"}})
        self.api.ctl("put", group="", resource="pods",
                     obj=pod("victim", (self.api.machine.name, KUBELET), VICTIM, ("pg", 5432, 0), namespace="prod"))
        wait_for("the pod", lambda: self.hub.metric("objects", "pods") == 1)
        self.reload(RULE)
        wait_for("told", lambda: "tunnel" in self.endpoints(self.agents[0], "shop/db"))

    def ask(self, authority, *fields, agent=0):
        """What the hub answers to a node, of which this is all: (status, reason)."""
        a = self.agents[agent]
        shown = a.node.run("/usr/bin/python3", "-c", ASK, HUB_ADDRESS, HUB_PORT, a.data, authority, *fields).stdout
        status, _, reason = shown.strip().partition(" ")
        return int(status), reason

    def touched(self):
        return [m.run("nft", "list", "counter", "inet", "seen", "came").stdout for m in self.machines]


@pytest.fixture(scope="module")
def town(lab):
    made = Town(lab)
    yield made
    made.logs()


def test_what_the_rules_give(town):
    """The way is there: what follows is refused by the rules alone."""
    assert town.ask(f"{DATABASE}:5432", "edgeway-service=shop/db", "edgeway-node=")[0] == 200
    assert town.ask(f"{KUBELET}:6443", "edgeway-service=default/kubernetes", "edgeway-node=")[0] == 200


@pytest.mark.parametrize("authority, fields, status", [
    (f"{VAULT}:8200", ["edgeway-service=shop/db"], 404),  # not an endpoint of it
    (f"{VAULT}:5432", ["edgeway-service=shop/db"], 404),
    (f"{VAULT}:8200", [], 404),
    (f"{VAULT}:8200", ["edgeway-service=shop/db", "edgeway-node=control-plane"], 404),
    (f"{VAULT}:8200", ["edgeway-service=shop/db", "edgeway-reach=*"], 404),
    (f"{VAULT}:8200", ["edgeway-service=default/kubernetes", "edgeway-caller=local"], 404),
    (f"{KUBELET}:10250", ["edgeway-service=default/kubernetes"], 404),  # the kubelet beside the API server
    (f"{DATABASE}:5432", ["edgeway-service=default/kubernetes"], 404),  # another Service's
    (f"{DATABASE}:8080", ["edgeway-service=shop/db"], 403),  # a port of it that no rule opens
    (f"{DATABASE}:5432", ["edgeway-service=shop/db", "edgeway-node=edge-2"], 404),
    ("127.0.0.1:10000", ["edgeway-service=shop/db"], 404),
    ("169.254.169.254:80", ["edgeway-service=shop/db"], 404),
    (f"{HUB_ADDRESS}:10000", ["edgeway-service=shop/db"], 404)])
def test_a_lie(town, authority, fields, status):
    before = town.touched()
    if not any(f.startswith("edgeway-node=") for f in fields):
        fields = [*fields, "edgeway-node="]
    assert town.ask(authority, *fields)[0] == status
    assert town.touched() == before


def test_another_node(town):
    """Its rule is not this one's."""
    status, reason = town.ask(f"{DATABASE}:5432", "edgeway-service=shop/db", "edgeway-node=", agent=1)
    assert status == 403 and "no rule of access gives a node endpoints of shop/db" in reason


@pytest.mark.parametrize("address, port, expected, why", [
    (VICTIM, 5432, 403, "a pod of another namespace"),
    (KUBELET, 10250, 403, "a port of a node itself"),
    ("100.100.100.200", 80, 403, "an address of a special kind"),
    (HUB_ADDRESS, HUB_PORT, 403, "a listener of the hub")])
def test_with_a_tenant(town, address, port, expected, why):
    """He leads his Service, which a rule opens, to what is not his."""
    before = town.touched()
    name = "mine-" + address.replace(".", "-")
    town.api.apply(bare(name, ("tcp", 5432, port), namespace="shop"), endpoint_slice(name, name, port, address, namespace="shop", port_name="tcp"))
    wait_for("the hub knows it", lambda: address in str(town.hub.services()["shop", name]))
    status, reason = town.ask(f"{address}:{port}", f"edgeway-service=shop/{name}", "edgeway-node=")
    assert (status, why in reason) == (expected, True), (status, reason)
    assert town.touched() == before
    assert town.hub.process.logged("door=outward caller=node:edge-1")

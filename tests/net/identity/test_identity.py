"""A node's certificate through its life: joined, renewed, revoked, expired; and what a hub keeps to itself."""
import json
import os
import re
import shutil
import signal
import stat
import subprocess

import pytest

from lab import Agent, Hub, Lab, Node, faketime, service, wait_for

LIFE_S = 16


@pytest.fixture
def lab():
    """One for each test: a hub has but one address."""
    with Lab() as made:
        yield made
        for p in made.processes:
            print(f"--- {p.name}\n{p.log()[-3000:]}")


def ctl(hub, *words, check=True):
    return hub.machine.run(hub.lab.program("edgewayctl"), "--socket", hub.socket, *words, check=check)


def nodes(hub):
    return {n["node"]: n for n in json.loads(hub.ask("/nodes")[1])["nodes"]}


def read(agent, name):
    with open(os.path.join(agent.data, name)) as f:
        return f.read()


def mode(path):
    return stat.S_IMODE(os.stat(path).st_mode)


def test_renewal(lab):
    """At two thirds of its life, with another key, while the connection stays."""
    hub = Hub(lab, "--tls.nodeLifetime", f"{LIFE_S}s")
    agent = Agent(Node(lab, "edge-1", "192.0.2.11"), hub)
    wait_for("synced", lambda: agent.state()["meta"]["synced"])
    first, key = read(agent, "node.crt"), read(agent, "node.key")
    serial = nodes(hub)["edge-1"]["serial"]
    ends = agent.metrics()["edgeway_meta_certificate_expiry_timestamp_seconds"]
    wait_for("renewed", lambda: agent.state()["meta"]["certificate_renewals"] >= 1, 4 * LIFE_S)
    assert read(agent, "node.crt") != first and read(agent, "node.key") != key
    assert mode(os.path.join(agent.data, "node.key")) == 0o600
    assert not os.path.exists(os.path.join(agent.data, "node.key.new"))
    assert agent.metrics()["edgeway_meta_certificate_expiry_timestamp_seconds"] > ends
    assert agent.process.logged("renewed this node's certificate")
    # The old connection carried on, and a new one is made with what is on the disk now.
    hub.write("web.yaml", service("web", ("http", 80, 8080)))
    wait_for("the service", lambda: agent.state()["services"] == 1)
    assert "lost the connection" not in agent.process.log()
    assert nodes(hub)["edge-1"]["serial"] != serial
    agent.stop()
    agent.token = ""
    agent.start()
    wait_for("connected again", lambda: agent.state()["meta"]["connected"])


def test_renewal_waits_for_the_hub(lab):
    """A hub that cannot keep what it signed gives nothing; the old certificate is used until it can."""
    hub = Hub(lab, "--tls.nodeLifetime", "40s")
    agent = Agent(Node(lab, "edge-1", "192.0.2.11"), hub)
    wait_for("synced", lambda: agent.state()["meta"]["synced"])
    folder = os.path.join(hub.machine.dir, "data", "nodes")
    record = os.path.join(folder, "edge-1")
    os.unlink(record)
    os.makedirs(os.path.join(record, "in-the-way"))
    before = read(agent, "node.crt")
    wait_for("a failure", lambda: agent.metrics()["edgeway_meta_certificate_renewal_failures_total"] >= 1)
    assert "cannot write" in agent.state()["meta"]["certificate_error"]
    assert read(agent, "node.crt") == before and agent.state()["meta"]["connected"]
    os.rmdir(os.path.join(record, "in-the-way"))
    os.rmdir(record)
    wait_for("renewed", lambda: agent.state()["meta"]["certificate_renewals"] == 1)
    assert agent.state()["meta"]["certificate_error"] == ""


def test_expired_while_offline(lab):
    """The agent says so and what to do; with a token that serves it joins again by itself."""
    hub = Hub(lab, "--tls.nodeLifetime", "8s")
    agent = Agent(Node(lab, "edge-1", "192.0.2.11"), hub)
    wait_for("synced", lambda: agent.state()["meta"]["synced"])
    token = hub.token("--node", "edge-1")
    hub.write("web.yaml", service("web", ("http", 80, 8080)))
    wait_for("the service", lambda: agent.state()["services"] == 1)
    agent.stop()
    agent.token = ""
    ends = subprocess.run(["openssl", "x509", "-noout", "-checkend", "0", "-in", os.path.join(agent.data, "node.crt")])
    wait_for("the end of the certificate", lambda: subprocess.run(
        ["openssl", "x509", "-noout", "-checkend", "0", "-in", os.path.join(agent.data, "node.crt")],
        stdout=subprocess.DEVNULL).returncode == 1, 20, 0.5)
    assert ends.returncode in (0, 1)
    agent.start()
    state = agent.state()
    assert state["services"] == 1 and not state["meta"]["connected"]
    assert "has expired: make a token with `edgewayctl token create --node edge-1`" in state["meta"]["error"]
    agent.stop()
    agent.token = token
    agent.start()
    wait_for("joined again", lambda: agent.state()["meta"]["synced"])


def test_expired_while_running(lab):
    """The hub is away for longer than the certificate lives."""
    hub = Hub(lab, "--tls.nodeLifetime", "10s")
    node = Node(lab, "edge-1", "192.0.2.11")
    agent = Agent(node, hub, token=hub.token("--node", "edge-1", "--uses", "2"))
    wait_for("synced", lambda: agent.state()["meta"]["synced"])
    hub.process.kill()
    wait_for("said", lambda: "certificate has expired; joining again with hub.token" in agent.process.log())
    hub.start()
    wait_for("joined again", lambda: agent.state()["meta"]["synced"])


def test_revocation(lab):
    hub = Hub(lab)
    one = Agent(Node(lab, "edge-1", "192.0.2.11"), hub)
    two = Agent(Node(lab, "edge-2", "192.0.2.12"), hub)
    for a in (one, two):
        wait_for("synced", lambda a=a: a.state()["meta"]["synced"])
    early = hub.token("--node", "edge-1")
    assert ctl(hub, "node", "revoke", "edge-9", check=False).returncode == 1
    assert ctl(hub, "node", "revoke", check=False).returncode == 2
    assert ctl(hub, "node", "revoke", "edge-1").stdout == "revoked edge-1\n"
    wait_for("cut", lambda: not one.state()["meta"]["connected"])
    wait_for("told why", lambda: "this node's certificate was revoked" in one.process.log())
    assert one.process.logged("the certificate of this node was revoked")  # of the connection that was open
    wait_for("the operator sees it", lambda: nodes(hub)["edge-1"]["revoked"] and not nodes(hub)["edge-1"]["connected"])
    assert two.state()["meta"]["connected"] and not nodes(hub)["edge-2"]["revoked"]
    path = os.path.join(hub.machine.dir, "data", "revoked.json")
    assert mode(path) == 0o600
    # A restart forgets nothing, and no token of before helps.
    hub.process.stop()
    hub.start()
    one.stop()
    one.token = ""
    one.start()
    wait_for("refused again", lambda: "was revoked: make a token" in one.state()["meta"]["error"])
    one.stop()
    one.token = early
    one.start()
    wait_for("refused as well", lambda: "refused the token" in one.process.log().rsplit("starting", 1)[-1])
    assert not one.state()["meta"]["connected"]
    one.stop()
    key = read(one, "node.key")
    one.token = hub.token("--node", "edge-1")
    one.start()
    wait_for("joined anew", lambda: one.state()["meta"]["synced"])
    assert read(one, "node.key") != key
    assert not nodes(hub)["edge-1"]["revoked"]
    shown = ctl(hub, "node", "list").stdout
    assert re.search(r"edge-1\s+true\s+\S+\s+192\.0\.2\.11\S*\s+\S+\s+true", shown), shown
    # Damage is an error with a remedy, never an empty list.
    hub.process.stop()
    with open(path, "w") as f:
        f.write('{"revoked":[{"node":"edge-1"')
    with pytest.raises(Exception):
        hub.start()
    assert hub.process.logged("cannot be told which nodes are revoked") and hub.process.logged("revoked.json")


def fill(path):
    """A folder in the way stands for a full disk: nothing can be written there."""
    os.unlink(path)
    os.mkdir(path)


def test_revocation_on_a_full_disk(lab):
    """In force at once, told as not written by the answer, the log, status and doctor, and written as soon as that is possible."""
    hub = Hub(lab)
    agent = Agent(Node(lab, "edge-1", "192.0.2.11"), hub)
    wait_for("synced", lambda: agent.state()["meta"]["synced"])
    paths = [os.path.join(hub.machine.dir, "data", name) for name in ("revoked.json", "tokens.json")]
    for path in paths:
        fill(path)
    said = ctl(hub, "node", "revoke", "edge-1").stdout
    assert said.startswith("revoked edge-1\nbut not on the disk yet: cannot write ") and "is lost if the hub ends before" in said
    wait_for("cut", lambda: not agent.state()["meta"]["connected"])
    wait_for("refused", lambda: "this node's certificate was revoked" in agent.process.log())
    assert nodes(hub)["edge-1"]["revoked"]
    assert hub.process.logged("a list is not on the disk: cannot write")
    assert "is tried again" in ctl(hub, "status").stdout and "is tried again" in ctl(hub, "doctor", check=False).stdout
    assert hub.state()["hub"]["unwritten"] != ""
    for path in paths:
        os.rmdir(path)
    wait_for("written", lambda: hub.state()["hub"]["unwritten"] == "")
    hub.process.kill()
    hub.start()
    assert nodes(hub)["edge-1"]["revoked"]
    wait_for("refused still", lambda: "was revoked" in agent.state()["meta"]["error"])


def test_the_process_shows_no_token(lab):
    """Neither the arguments nor the environment that others may read, of the agent and of its helper; it reads it again at SIGHUP."""
    hub = Hub(lab)
    for i, way in enumerate(("flag", "variable")):
        node = Node(lab, f"edge-{i}", f"192.0.2.{20 + i}")
        agent = Agent(node, hub, "--hub.proxy", "", start=False)
        token, agent.token = agent.token, agent.token if way == "flag" else ""
        argv = agent.argv()
        if way == "variable":
            at = argv.index("--hub.token")
            del argv[at:at + 2]
        agent.process = node.start("agent", *argv, env={**os.environ, "EDGEWAY_HUB_TOKEN": token} if way == "variable" else None)
        agent.wait_ready()
        wait_for("joined", lambda: agent.state()["meta"]["synced"])
        pids = [agent.process.pid, *map(int, subprocess.run(["pgrep", "-P", str(agent.process.pid)], text=True, stdout=subprocess.PIPE).stdout.split())]
        assert len(pids) == 2
        for pid in pids:
            for name in ("cmdline", "environ"):
                with open(f"/proc/{pid}/{name}", "rb") as f:
                    shown = f.read()
                assert token.split(".")[1].encode() not in shown and (name == "environ" or b"--dataDir" in shown), (way, name)
        agent.process.popen.send_signal(signal.SIGHUP)
        wait_for("read again", lambda: "reload" in agent.process.log())
        assert "hub.token" not in agent.process.log()  # it is the same
        assert agent.stop() == 0


def test_a_hub_is_revoked_alone(lab):
    """Its stolen certificate is refused by nodes that a good hub has told, also after a restart; the hub itself takes another one. A TLS session that is
    resumed shows no certificate: none is from then on."""
    hub = Hub(lab)
    agent = Agent(Node(lab, "edge-1", "192.0.2.11"), hub)

    def resumed_after_kill():
        wait_for("synced", lambda: agent.state()["meta"]["synced"])
        hub.process.kill()
        hub.start()
        wait_for("synced again", lambda: hub.metrics()["edgeway_hub_nodes_connected"] and agent.state()["meta"]["synced"])
        return hub.metrics()["edgeway_hub_nodes_resumed_total"]

    assert resumed_after_kill() == 1
    data, stolen = os.path.join(hub.machine.dir, "data"), os.path.join(lab.dir, "stolen")
    shutil.copytree(data, stolen)
    serial = hub.state()["hub"]["certificates"]["hub"]["serial"]
    assert serial in ctl(hub, "hub", "list").stdout
    assert ctl(hub, "hub", "revoke", "nobody", check=False).returncode == 1
    assert ctl(hub, "hub", "revoke", serial).stdout == f"revoked {serial}\n"
    assert hub.state()["hub"]["certificates"]["hub"]["serial"] != serial
    assert re.search(rf"revoked\s+\S+\s+{serial}", ctl(hub, "hub", "list").stdout)
    wait_for("the node knows", lambda: agent.metrics()["edgeway_meta_revoked_hubs"] == 1)
    assert agent.state()["meta"]["connected"]
    # The thief has certificate and key, and is where the hub was.
    hub.process.stop()
    for name in ("hub.pem", "hub.key", "hub.names"):
        shutil.copy(os.path.join(stolen, name), os.path.join(data, name))
    os.rename(os.path.join(data, "revoked.json"), os.path.join(data, "kept"))
    hub.start()
    assert hub.state()["hub"]["certificates"]["hub"]["serial"] == serial
    wait_for("refused", lambda: "it was revoked" in agent.state()["meta"]["error"])
    agent.stop()
    agent.start()
    wait_for("refused after a restart as well", lambda: "it was revoked" in agent.state()["meta"]["error"])
    assert not agent.state()["meta"]["connected"] and agent.state()["meta"]["revoked_hubs"] == 1
    assert "certificates of hubs are refused" in agent.node.run(lab.program("edgewayctl"), "--socket", agent.socket, "status", check=False).stdout
    with open(os.path.join(agent.data, "edgeway.db"), "r+b") as f:  # nor is it forgotten with the database
        f.truncate()
    wait_for("another database", lambda: agent.state()["meta"]["database"]["moved_aside"] == 1)
    agent.stop()
    agent.start(ready=False)
    wait_for("refused with another database", lambda: "it was revoked" in agent.state()["meta"]["error"])
    assert not agent.state()["meta"]["connected"]
    # The good one does not start with it again.
    hub.process.stop()
    os.rename(os.path.join(data, "kept"), os.path.join(data, "revoked.json"))
    hub.start()
    wait_for("the good one", lambda: agent.state()["meta"]["synced"])
    assert resumed_after_kill() == 0


def test_secrets(lab):
    """Neither logs nor state show what lets somebody in; files are for their owner alone."""
    hub = Hub(lab, "--log.level", "debug")
    token = hub.token("--node", "edge-1")
    agent = Agent(Node(lab, "edge-1", "192.0.2.11"), hub, "--log.level", "debug", token=token)
    wait_for("synced", lambda: agent.state()["meta"]["synced"])
    hub_data = os.path.join(hub.machine.dir, "data")
    secrets = [token.split(".", 1)[1]]
    for path in (os.path.join(agent.data, "node.key"), os.path.join(hub_data, "ca.key"), os.path.join(hub_data, "hub.key")):
        with open(path) as f:
            secrets += [line for line in f.read().split("\n") if len(line) > 40 and "-----" not in line]
    assert len(secrets) >= 7
    places = {"hub's log": hub.process.log(), "agent's log": agent.process.log()}
    for daemon in (hub, agent):
        for path in ("/debug/state", "/metrics", "/nodes", "/tokens", "/debug/services"):
            places[f"{daemon.socket} {path}"] = daemon.ask(path)[1]
    with open(os.path.join(hub_data, "tokens.json")) as f:
        places["tokens.json"] = f.read()
    for name, text in places.items():
        for secret in secrets:
            assert secret not in text, f"{name} shows a secret"
    assert mode(hub_data) == 0o700 and mode(agent.data) == 0o700
    for folder in (hub_data, agent.data):
        for name in os.listdir(folder):
            path = os.path.join(folder, name)
            if os.path.isfile(path) and (name.endswith(".key") or name.endswith(".json") or ".db" in name):
                assert mode(path) == 0o600, path
    for socket in (hub.socket, agent.socket):
        assert mode(socket) & 0o007 == 0


class LateAgent(Agent):
    """On a machine whose clock starts in 1970 with every boot."""

    def argv(self, *options):
        return [*faketime(FAKETIME="@1970-01-01 00:10:00", FAKETIME_DONT_FAKE_MONOTONIC=1), *super().argv(*options)]


def test_clock_of_1970(lab):
    hub = Hub(lab)
    agent = LateAgent(Node(lab, "edge-1", "192.0.2.11"), hub)
    wait_for("joined and synced", lambda: agent.state()["meta"]["synced"])
    assert agent.process.log().startswith("1970-01-01T"), agent.process.log()[:80]
    agent.stop()
    agent.token = ""
    # The hub's certificate is newer than all that the node knows.
    hub.process.stop()
    for name in ("hub.pem", "hub.key", "hub.names"):
        os.unlink(os.path.join(hub.machine.dir, "data", name))
    hub.start()
    agent.start()
    wait_for("connected again", lambda: agent.state()["meta"]["synced"])


def make_ca(folder, name):
    """(certificate, path of its key)"""
    key, cert = (os.path.join(folder, f"{name}.{end}") for end in ("key", "pem"))
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-keyout", key, "-out", cert, "-days", "30", "-subj", f"/CN={name}",
                    "-addext", "keyUsage=critical,keyCertSign,cRLSign"], check=True, stderr=subprocess.DEVNULL)
    with open(cert) as f:
        return f.read(), key


def test_rotation_of_the_ca(lab):
    """Both are trusted for a while: no node is ever turned away, none needs a token."""
    old, old_key = make_ca(lab.dir, "old")
    new, new_key = make_ca(lab.dir, "new")
    bundle = os.path.join(lab.dir, "bundle.pem")

    def rotate(text, key):
        with open(bundle, "w") as f:
            f.write(text)
        hub.process.stop()
        hub.options = ("--tls.ca", bundle, "--tls.caKey", key)
        hub.start()

    with open(bundle, "w") as f:
        f.write(old)
    hub = Hub(lab, "--tls.ca", bundle, "--tls.caKey", old_key)
    agent = Agent(Node(lab, "edge-1", "192.0.2.11"), hub)
    wait_for("synced", lambda: agent.state()["meta"]["synced"])
    # A step that cuts nodes off is not taken: the hub says whom.
    hub.process.stop()
    with open(bundle, "w") as f:
        f.write(new + old)
    refused = hub.machine.run(lab.program("edgeway-hub"), "--listen", f"{hub.address}:10000", "--source.manifests", hub.manifests,
                              "--dataDir", os.path.join(hub.machine.dir, "data"), "--admin.listen", "", "--admin.socket", hub.socket,
                              "--tls.ca", bundle, "--tls.caKey", new_key, check=False)
    assert refused.returncode != 0 and "it would cut off 1 nodes" in refused.stdout + refused.stderr
    assert "edge-1" in refused.stdout + refused.stderr and "tls.caForce" in refused.stdout + refused.stderr
    rotate(old + new, old_key)
    wait_for("both are known", lambda: read(agent, "ca.pem") == old + new)
    certificate = read(agent, "node.crt")
    rotate(new + old, new_key)
    wait_for("a certificate of the new one", lambda: read(agent, "node.crt") != certificate)
    wait_for("the order as well", lambda: read(agent, "ca.pem") == new + old)
    rotate(new, new_key)
    wait_for("the old one is forgotten", lambda: read(agent, "ca.pem") == new)
    agent.stop()
    agent.token = ""
    agent.start()
    wait_for("in step", lambda: agent.state()["meta"]["synced"])
    assert "certificate is refused" not in agent.process.log() and "HTTP status" not in agent.process.log()


def test_the_hubs_certificate_follows_its_addresses(lab):
    hub = Hub(lab)
    path = os.path.join(hub.machine.dir, "data", "hub.pem")
    hub.machine.run("ip", "addr", "add", "192.0.2.99/24", "dev", "eth0")

    def names():
        return subprocess.run(["openssl", "x509", "-noout", "-ext", "subjectAltName", "-in", path], text=True,
                              stdout=subprocess.PIPE).stdout

    assert "192.0.2.1" in names() and "192.0.2.99" not in names()
    wait_for("the new address", lambda: "192.0.2.99" in names(), 90, 1)


def test_the_tokens_file_is_read_at_each_attempt(lab):
    """A token that comes later, or in place of a wrong one, needs no restart; in a folder the file of the node's name goes first."""
    hub = Hub(lab)
    folder = os.path.join(lab.dir, "join")
    agent = Agent(Node(lab, "edge-1", "192.0.2.11"), None, "--hub.tokenFile", folder, token="", start=False)
    os.mkdir(folder)
    agent.start(ready=False)

    def put(name, token):
        with open(os.path.join(folder, name + ".new"), "w") as f:
            f.write(token + "\n")
        os.rename(f.name, os.path.join(folder, name))

    def error():
        return agent.process.alive() and os.path.exists(agent.socket) and agent.state()["meta"]["error"]

    wait_for("it waits", lambda: f"cannot read {folder}/token: No such file" in (error() or ""))
    put("token", hub.token("--node", "edge-2"))
    wait_for("refused", lambda: "refused the token" in error(), 60)
    put("edge-1", hub.token("--node", "edge-1"))
    wait_for("joined", lambda: agent.state()["meta"]["synced"], 120)
    ctl(hub, "node", "revoke", "edge-1")
    wait_for("revoked", lambda: "revoked" in error(), 60)
    put("edge-1", hub.token("--node", "edge-1"))
    wait_for("back", lambda: agent.state()["meta"]["synced"], 120)

"""Several hubs on one Kubernetes API server: one CA, one list of tokens, of nodes and of those revoked, whoever was away, and with
no more rights than deploy/kubernetes/rbac.yaml gives."""
import base64
import json
import os
import shutil
import zlib

import pytest

from kube import ACCOUNT, NAMESPACE, READS, RIGHTS, ApiServer, KubeHub
from lab import HUB_PORT, PYTHON, Agent, Lab, Machine, Node, service, wait_for

ADDRESSES = ("192.0.2.1", "192.0.2.3")


@pytest.fixture
def lab():
    with Lab() as made:
        yield made
        for p in made.processes:
            print(f"--- {p.name}\n{p.log()[-3000:]}")


@pytest.fixture
def api(lab):
    return ApiServer(lab)


def hub(lab, api, i, *options):
    """There are no Nodes: tokens may give away any name that is free."""
    return KubeHub(lab, api, "--join.nodes", "", *options, name=f"cloud-{i}", address=ADDRESSES[i], kubeconfig=api.kubeconfig(f"hub-{i}.conf"), wait=False)


def both(lab, api, *options):
    """Started at the same moment."""
    made = [hub(lab, api, i, *options) for i in (0, 1)]
    for h in made:
        wait_for("ready", h.ready)
    return made


def agent(lab, name, number, to, token, *options):
    node = Node(lab, name, f"192.0.2.{number}")
    made = Agent(node, None, "--hub.url", f"wss://{to.address}:{HUB_PORT}", *options, token=token, start=False)
    made.start(ready=False)
    return made


def connected(made):
    return lambda: made.process.alive() and made.state()["meta"]["synced"]


def secret(api, name):
    found = api.read("secrets", name, NAMESPACE)
    return {k: base64.b64decode(v).decode() for k, v in found["data"].items()}, found


def tokens(h):
    return {t["id"] for t in json.loads(h.ask("/tokens")[1])["tokens"]}


def nodes(h):
    return {n["node"]: n for n in json.loads(h.ask("/nodes")[1])["nodes"]}


def revoke(h, name):
    h.machine.run(h.lab.program("edgewayctl"), "--socket", h.socket, "node", "revoke", name)


def test_one_ca(lab, api):
    """The first start of two replicas at the same moment ends with one CA, and each serves with a certificate of it."""
    one, two = both(lab, api)
    assert one.state()["hub"]["ca"] == two.state()["hub"]["ca"]
    data, whole = secret(api, "edgeway-hub-ca")
    assert whole["type"] == "Opaque" and whole["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "edgeway-hub"
    for h in (one, two):
        with open(os.path.join(h.machine.dir, "data", "ca.pem")) as f:
            assert f.read() == data["ca.pem"]
        with open(os.path.join(h.machine.dir, "data", "ca.key")) as f:
            assert f.read() == data["ca.key"]
        assert verify(one, os.path.join(h.machine.dir, "data", "ca.pem"), h) == "ok"
        assert h.metrics()['edgeway_hub_secret_trouble{secret="edgeway-hub-ca"}'] == 0
    assert sum(h.metrics()['edgeway_hub_secret_writes_total{secret="edgeway-hub-ca"}'] for h in (one, two)) == 1
    # A replica that comes later, with nothing, has it too; at the same moment again, with an empty cluster.
    for again in (False, True):
        for h in (one, two):
            h.process.stop()
            h.machine.run("rm", "-r", os.path.join(h.machine.dir, "data"))
        if again:
            api.kubectl("delete", "secret", "-n", NAMESPACE, "--all")
        for h in (one, two):
            h.start()
        for h in (one, two):
            wait_for("ready", h.ready)
        assert one.state()["hub"]["ca"] == two.state()["hub"]["ca"]
        assert (secret(api, "edgeway-hub-ca")[0] == data) is not again


def verify(from_hub, ca, to):
    return from_hub.machine.python(VERIFY, ca, to.address, str(HUB_PORT)).stdout.strip()


VERIFY = """
import socket, ssl, sys
context = ssl.create_default_context(cafile=sys.argv[1])
with socket.create_connection((sys.argv[2], int(sys.argv[3])), 60) as s:
    with context.wrap_socket(s, server_hostname=sys.argv[2]):
        print("ok")
"""


def test_what_one_does_the_other_knows(lab, api):
    one, two = both(lab, api)
    token = one.token()
    secret_part = token.split(".")[1]
    wait_for("token known at the other", lambda: secret_part[:8] in tokens(two))
    first = agent(lab, "edge-1", 11, two, token)
    wait_for("joined at the other", connected(first))
    wait_for("the node known at the first", lambda: nodes(one)["edge-1"]["serial"] == nodes(two)["edge-1"]["serial"])
    # The name is taken at every replica, for a token for any name.
    thief = agent(lab, "thief", 12, one, one.token(), "--node", "edge-1")
    wait_for("refused", lambda: "the name edge-1 holds a certificate already" in thief.process.log())
    thief.stop()
    # Revoked at one: cut at the other, and refused there.
    assert first.state()["meta"]["connected"]
    revoke(one, "edge-1")
    wait_for("cut", lambda: "the certificate of this node was revoked" in first.process.log())
    wait_for("refused by the other", lambda: "this node's certificate was revoked" in first.process.log())
    assert nodes(two)["edge-1"]["revoked"]
    # A token of the one for that very node serves at the other, and what is signed there counts here.
    again = one.token("--node", "edge-1")
    wait_for("token known", lambda: again.split(".")[1][:8] in tokens(two))
    first.stop()
    first.token = again
    first.start(ready=False)
    wait_for("joined again", connected(first))
    wait_for("good at both", lambda: not nodes(one)["edge-1"]["revoked"] and not nodes(two)["edge-1"]["revoked"])
    first.stop()
    first.token = ""
    first.options = ("--hub.url", f"wss://{one.address}:{HUB_PORT}")
    first.start(ready=False)
    wait_for("good at the first", connected(first))
    # Revoked tokens are gone everywhere, and no replica brings them back.
    one.machine.run(lab.program("edgewayctl"), "--socket", one.socket, "token", "revoke", secret_part[:8])
    wait_for("revoked token", lambda: secret_part[:8] not in tokens(two))
    two.token()
    wait_for("a token of the other", lambda: len(tokens(one)) == len(tokens(two)))
    assert secret_part[:8] not in tokens(one) | tokens(two)
    shown = json.dumps([h.state() for h in (one, two)]) + one.process.log() + two.process.log()
    key = [line for line in secret(api, "edgeway-hub-ca")[0]["ca.key"].split("\n") if len(line) > 40]
    for text in (secret_part, again.split(".")[1], *key):
        assert text not in shown and text not in json.dumps(secret(api, "edgeway-hub-tokens")[0])


# Opens a join with the node's certificate, and sends the request once the file is there.
JOIN_LATER = """
import asyncio, json, os, ssl, subprocess, sys
import websockets
hub, node, data, go = sys.argv[1:]
context = ssl.create_default_context(cafile=f"{data}/ca.pem")
context.check_hostname = False
context.load_cert_chain(f"{data}/node.crt", f"{data}/node.key")
csr = subprocess.run(["openssl", "req", "-new", "-key", f"{data}/node.key", "-subj", f"/CN={node}"], stdout=subprocess.PIPE, check=True).stdout.decode()
async def main():
    async with websockets.connect(f"wss://{hub}/e632aba927ea4ac2b575ec1603d56f10/{node}/join", ssl=context) as ws:
        print("open", flush=True)
        while not os.path.exists(go):
            await asyncio.sleep(0.01)
        try:
            await ws.send(json.dumps({"header": {"msg_id": "1"}, "route": {"source": "x", "group": "resource",
                "operation": "insert", "resource": f"certificate/{node}"}, "content": {"csr": csr}}))
            print("answer", await ws.recv(), flush=True)
        except websockets.ConnectionClosed as e:
            print("closed", e, flush=True)
asyncio.run(main())
"""


def test_revoked_while_it_renews_elsewhere(lab, api):
    """Who has opened a join with a certificate, and waits, gets no other one once that was revoked at another replica."""
    one, two = both(lab, api)
    made = agent(lab, "edge-1", 11, one, one.token())
    wait_for("joined", connected(made))
    made.stop()
    thief = Machine(lab, "thief", address="192.0.2.50")
    go = os.path.join(thief.dir, "go")
    wait_for("known at the other", lambda: "edge-1" in nodes(two))
    asked = thief.start("join", PYTHON, "-c", JOIN_LATER, f"{two.address}:{HUB_PORT}", "edge-1", made.data, go)
    assert asked.logged("open")
    revoke(one, "edge-1")
    wait_for("revoked at the other", lambda: nodes(two)["edge-1"]["revoked"])
    with open(go, "w"):
        pass
    asked.wait()
    assert "the certificate of this node was revoked" in asked.log() and "BEGIN CERTIFICATE" not in asked.log()
    assert all(nodes(h)["edge-1"]["revoked"] for h in (one, two))


def test_a_token_is_used_once_wherever_it_is(lab, api):
    """Used at one replica, it serves nobody at the other one, but the key that used it."""
    one, two = both(lab, api)
    token = one.token()
    wait_for("known", lambda: tokens(one) == tokens(two))
    first = agent(lab, "edge-1", 11, two, token)
    wait_for("joined", connected(first))
    used = lambda h: [t["used"] for t in json.loads(h.ask("/tokens")[1])["tokens"]]
    wait_for("told", lambda: used(one) == used(two) == [1])
    second = agent(lab, "edge-2", 12, one, token)
    wait_for("refused", lambda: "is used up" in second.state()["meta"]["error"])
    assert "edge-2" not in nodes(one)
    # Its certificate is lost on the way, that is: never written. The same key gets another, at the other replica, too.
    first.stop()
    os.unlink(os.path.join(first.data, "node.crt"))
    first.options = ("--hub.url", f"wss://{one.address}:{HUB_PORT}")
    first.start(ready=False)
    wait_for("again", connected(first))
    # One that has expired has ended for all, whatever the clock of another says.
    short = one.token("--ttl", "1s").split(".")[1][:8]
    ended = lambda: [t["id"] for t in json.loads(secret(api, "edgeway-hub-tokens")[0]["tokens.json"])["tokens"] if t.get("revoked")]
    wait_for("ended", lambda: ended() == [short])
    # A restart without the API server knows it, too.
    api.ctl("down")
    one.process.stop()
    one.start()
    wait_for("ready to serve", lambda: one.state()["hub"]["waits"] == "")
    assert used(one) == [1]
    api.ctl("up")


def test_server_away(lab, api):
    """What one did while the server was away is told when it is back; nothing that the other did meanwhile is lost."""
    one, two = both(lab, api)
    a, b = agent(lab, "edge-1", 11, one, one.token()), agent(lab, "edge-2", 12, two, two.token())
    for x in (a, b):
        wait_for("joined", connected(x))
    wait_for("both know both", lambda: set(nodes(one)) == set(nodes(two)) == {"edge-1", "edge-2"})
    any_name, its_own = one.token(), one.token("--node", "edge-4")
    wait_for("tokens known", lambda: len(tokens(two)) == 4)
    api.ctl("down")
    revoke(one, "edge-2")
    revoke(two, "edge-1")
    p = two.machine.run(lab.program("edgewayctl"), "--socket", two.socket, "token", "create")
    local = p.stdout.strip()
    assert "the other replicas of the hub do not know it yet: the API server does not answer" in p.stderr
    assert "the API server does not answer" in two.machine.run(lab.program("edgewayctl"), "--socket", two.socket, "status").stdout
    wait_for("cut at once where it was said", lambda: nodes(one)["edge-2"]["revoked"] and nodes(two)["edge-1"]["revoked"])
    assert not nodes(one)["edge-1"]["revoked"]
    # Neither a name nor the use of a token is given twice: without the server nobody can know.
    late = [agent(lab, "edge-3", 13, two, any_name), agent(lab, "edge-4", 14, two, its_own)]
    for name in ("edge-3", "edge-4"):
        wait_for("not given", lambda name=name: f"join refused node={name}" in two.process.log() and "the name cannot be given" in two.process.log())
    # A restart meanwhile: with what it knew.
    one.process.stop()
    one.start()
    wait_for("ready to serve", lambda: one.state()["hub"]["waits"] == "")
    assert one.metrics()["edgeway_hub_nodes_revoked"] == 1
    api.ctl("up")
    wait_for("all is known to all", lambda: all(
        nodes(h)[n]["revoked"] for h in (one, two) for n in ("edge-1", "edge-2")))
    wait_for("cut", lambda: "was revoked" in a.process.log() and "was revoked" in b.process.log())
    wait_for("its token", lambda: local.split(".")[1][:8] in tokens(one))
    for made in late:
        wait_for("and they in the end", connected(made))


def test_secrets_are_forbidden(lab, api):
    """A new replica does not begin with a CA of its own; it says what is missing, and goes on once it has it."""
    api.ctl("grant", user=ACCOUNT, rights=READS)
    one = hub(lab, api, 0)
    want = "give the hub's Role the verbs list, watch and patch on the Secret edgeway/edgeway-hub-ca"
    wait_for("said", lambda: want in one.process.log() and one.ask("/readyz")[0] == 503)
    assert want in one.ask("/readyz")[1] and not os.path.exists(os.path.join(one.machine.dir, "data", "ca.pem"))
    p = one.machine.run(lab.program("edgewayctl"), "--socket", one.socket, "token", "create", check=False)
    assert p.returncode == 1 and "not ready" in p.stdout + p.stderr
    api.ctl("grant", user=ACCOUNT, rights=RIGHTS)
    wait_for("ready", one.ready)


def test_a_secret_is_deleted_or_replaced(lab, api):
    one, two = both(lab, api)
    made = agent(lab, "edge-1", 11, one, one.token())
    wait_for("joined", connected(made))
    before = secret(api, "edgeway-hub-ca")[0]
    api.kubectl("delete", "secret", "-n", NAMESPACE, "--all")
    wait_for("written anew", lambda: len(api.read_all("secrets", NAMESPACE)) == 3)
    assert secret(api, "edgeway-hub-ca")[0] == before
    wait_for("with the node", lambda: "edge-1" in secret(api, "edgeway-hub-nodes")[0]["nodes.json"])
    # A list that is not understood is left alone, and told.
    api.kubectl("patch", "secret", "-n", NAMESPACE, "edgeway-hub-tokens", "--type", "merge", "-p",
                json.dumps({"data": {"tokens.json": base64.b64encode(b'{"tokens":[{"id":1}]}').decode()}}))
    wait_for("told", lambda: all(
        h.metrics()['edgeway_hub_secret_trouble{secret="edgeway-hub-tokens"}'] == 1 for h in (one, two)))
    for h in (one, two):
        doctor = h.machine.run(lab.program("edgewayctl"), "--socket", h.socket, "doctor", check=False).stdout
        assert "edgeway-hub-tokens: tokens.json:1: a token needs id, sha256 and expires" in doctor
    one.token()
    assert secret(api, "edgeway-hub-tokens")[0]["tokens.json"] == '{"tokens":[{"id":1}]}'
    api.kubectl("delete", "secret", "-n", NAMESPACE, "edgeway-hub-tokens")
    wait_for("well again", lambda: tokens(one) == tokens(two) and len(tokens(one)) == 2)
    # Another CA: what is new is learnt by agents that come, the hub's certificate is of it at once.
    for h in (one, two):
        h.process.stop()
        with open(os.path.join(h.machine.dir, "data", "ca.pem")) as f:
            assert f.read() == before["ca.pem"]
        h.start()
    wait_for("there again", connected(made))


@pytest.mark.plain_build  # how large it grows
def test_thousands_of_nodes(lab, api):
    """Beyond what one Secret may hold there are more; a name that is there alone is taken, at a replica that never saw it elsewhere."""
    one = hub(lab, api, 0)
    wait_for("written", lambda: api.read("secrets", "edgeway-hub-nodes", NAMESPACE))
    names = [f"edge-{i}" for i in range(4100)]
    roll = {"nodes": [{"node": n, "serial": f"{i + 1:040x}", "signed": 1700000000, "expires": 4000000000, "key": ""}
                      for i, n in enumerate(names)]}

    def put(text):
        found = api.read("secrets", "edgeway-hub-nodes", NAMESPACE)
        found["data"]["nodes.json"] = base64.b64encode(text.encode()).decode()
        api.ctl("put", group="", resource="secrets", obj=found)
    put(json.dumps(roll))

    def archived():
        there = [f"edgeway-hub-nodes-{i}" for i in range(1, 17) if api.read("secrets", f"edgeway-hub-nodes-{i}", NAMESPACE)]
        return [n["node"] for name in there for n in json.loads(secret(api, name)[0]["nodes.json"])["nodes"]]
    wait_for("all are in the archives", lambda: sorted(archived()) == sorted(names))
    one.process.stop()
    # As it is minutes later: they have left the first one.
    put('{"archives":16,"nodes":[],"joins":[]}')
    two = hub(lab, api, 1)
    made, taken = agent(lab, "fresh-1", 11, two, two.token()), agent(lab, "edge-77", 12, two, two.token())
    wait_for("a new name is given", connected(made))
    wait_for("a taken one is not", lambda: "join refused node=edge-77" in two.process.log())
    wait_for("only the new one is in the first", lambda: [n["node"] for n in json.loads(
        secret(api, "edgeway-hub-nodes")[0]["nodes.json"])["nodes"]] == ["fresh-1"])
    assert taken.process.alive() and "edge-77" in nodes(two) and "fresh-1" in nodes(two)
    # There are archives, and the other part of the same Secret is not understood: it goes on with what it knew.
    made.stop()
    taken.stop()
    two.process.stop()
    found = api.read("secrets", "edgeway-hub-nodes", NAMESPACE)
    found["data"]["revoked.json"] = base64.b64encode(b'{"revoked":[{"node":1}]}').decode()
    api.ctl("put", group="", resource="secrets", obj=found)
    two.start()
    wait_for("ready", two.ready)
    assert two.metrics()['edgeway_hub_secret_trouble{secret="edgeway-hub-nodes"}'] == 1 and "fresh-1" in nodes(two)


FLEET = 50000


def seeded(api):
    """{name: serial} of a fleet of which names are in the archives, each in any of them, and in a Secret as a hub wrote it that had no archives
    of joins and revocations."""
    names = {f"edge-{i:05d}.site-{i % 300}.example.org": f"{i * 2654435761 % (1 << 160):040x}" for i in range(FLEET)}
    entries = [{"node": n, "serial": s, "signed": 1700000000, "expires": 4000000000, "key": s[:32]} for n, s in names.items()]
    texts = {"edgeway-hub-nodes": {"nodes.json": '{"archives":16,"nodes":[],"joins":[]}', "revoked.json": '{"revoked":[]}'}}
    for i in range(16):
        texts[f"edgeway-hub-nodes-{i + 1}"] = {"nodes.json": json.dumps({"nodes": entries[i::16]}, separators=(",", ":"))}
    for name, data in texts.items():
        api.ctl("put", group="", resource="secrets", obj={
            "metadata": {"name": name, "namespace": NAMESPACE}, "type": "Opaque",
            "data": {k: base64.b64encode(v.encode()).decode() for k, v in data.items()}})
    return names


def in_archives(api):
    """Names, those that used a token, those revoked; and the bytes of the largest Secret."""
    names, joins, revoked, most = [], [], [], 0
    for i in range(1, 17):
        data = secret(api, f"edgeway-hub-nodes-{i}")[0]
        most = max(most, sum(map(len, data.values())))
        names += [n["node"] for n in json.loads(data["nodes.json"])["nodes"]]
        lists = json.loads(zlib.decompress(base64.b64decode(data["lists"]))) if "lists" in data else {"joins": [], "revoked": []}
        joins += [j["node"] for j in lists["joins"]]
        revoked += [n["node"] for n in lists["revoked"]]
    return names, joins, revoked, most


@pytest.mark.plain_build  # how large it grows
def test_a_fleet_of_50_000(lab, api):
    """Each has a name and has used a token, and every tenth is revoked: the API server, which refuses more than 1 MiB, takes all of it, and a replica
    that begins with nothing knows it."""
    one = hub(lab, api, 0)
    wait_for("ready", one.ready)
    one.process.stop()
    names = seeded(api)
    data = os.path.join(one.machine.dir, "data")
    with open(os.path.join(data, "joins.json"), "w") as f:
        json.dump({"joins": [{"token": "01234567", "node": n, "key": s[:32], "until": 4000000000} for n, s in names.items()]}, f)
    with open(os.path.join(data, "revoked.json"), "w") as f:
        json.dump({"revoked": [{"node": n, "at": 1700000001, "good": [s], "signed": 1} for n, s in list(names.items())[::10]], "hubs": []}, f)
    one.start()

    def all_there():
        there = in_archives(api)
        return [sorted(set(there[i])) == sorted(names)[::step] and len(there[i]) == FLEET // step for i, step in enumerate((1, 1, 10))]
    wait_for("all are in the archives", lambda: all(all_there()), 120, pause=1)
    most = in_archives(api)[3]
    print("the largest Secret:", most)
    assert most < 900_000
    assert "what this replica knows is not told to the others" not in one.process.log()
    wait_for("no trouble", lambda: all(v == 0 for k, v in one.metrics().items() if k.startswith("edgeway_hub_secret_trouble")))
    two = hub(lab, api, 1)
    wait_for("ready", two.ready, 60)
    assert two.metrics()["edgeway_hub_nodes_revoked"] == FLEET // 10
    taken = agent(lab, sorted(names)[77], 12, two, two.token())
    wait_for("a taken name is not given", lambda: f"join refused node={sorted(names)[77]}" in two.process.log())
    made = agent(lab, "fresh-1", 11, two, two.token())
    wait_for("a new name is", connected(made))
    assert taken.process.alive()


@pytest.mark.plain_build  # how large it grows
def test_more_join_at_once_than_a_secret_holds(lab, api):
    one = hub(lab, api, 0)
    wait_for("ready", one.ready)
    text, size = '{"archives":16,"archivedLists":true,"cas":"","nodes":[', (1 << 20) - 300
    for i in range(20000):
        entry = f'\n{{"node":"new-{i}","serial":"{i + 1:040x}","signed":1700000000,"expires":4000000000,"key":""}},'
        if len(text) + len(entry) > size:
            break
        text += entry
    found = api.read("secrets", "edgeway-hub-nodes", NAMESPACE)
    found["data"]["nodes.json"] = base64.b64encode((text[:-1] + '],"joins":[]}').encode()).decode()
    api.ctl("put", group="", resource="secrets", obj=found)
    wait_for("read", lambda: "new-77" in nodes(one))
    made = agent(lab, "one-more.example.org", 11, one, one.token("--uses", 10))
    made2 = agent(lab, "and-another.example.org", 12, one, one.token("--uses", 10))
    why = "more nodes join at once than the Secret edgeway-hub-nodes has room for"
    wait_for("refused", lambda: why in one.process.log())
    assert one.metrics()['edgeway_hub_secret_trouble{secret="edgeway-hub-nodes"}'] == 1
    assert why in one.machine.run(lab.program("edgewayctl"), "--socket", one.socket, "doctor", check=False).stdout
    # As it is minutes later.
    archived = lambda: sum(len(json.loads(secret(api, f"edgeway-hub-nodes-{i}")[0]["nodes.json"])["nodes"]) for i in range(1, 17))
    wait_for("they are in the archives", lambda: archived() >= i, pause=0.5)
    found = api.read("secrets", "edgeway-hub-nodes", NAMESPACE)
    found["data"]["nodes.json"] = base64.b64encode(b'{"archives":16,"archivedLists":true,"nodes":[],"joins":[]}').decode()
    api.ctl("put", group="", resource="secrets", obj=found)
    for a in (made, made2):
        wait_for("let in", connected(a), 60)


def test_rotation_of_the_shared_ca(lab, api):
    """By kubectl alone: the new CA behind the old one, then in front of it, then alone; no hub is restarted."""
    one, two = both(lab, api)
    made = agent(lab, "edge-1", 11, one, one.token())
    wait_for("joined", connected(made))
    old = secret(api, "edgeway-hub-ca")[0]
    folder = os.path.join(one.machine.dir, "new-ca")
    os.makedirs(folder)
    one.machine.run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout",
                    f"{folder}/ca.key", "-out", f"{folder}/ca.pem", "-days", "30", "-subj", "/CN=new",
                    "-addext", "keyUsage=critical,keyCertSign,cRLSign")
    new = {name: open(os.path.join(folder, name)).read() for name in ("ca.pem", "ca.key")}

    def put(pem, key):
        data = {"ca.pem": base64.b64encode(pem.encode()).decode(), "ca.key": base64.b64encode(key.encode()).decode()}
        api.kubectl("patch", "secret", "-n", NAMESPACE, "edgeway-hub-ca", "--type", "merge", "-p", json.dumps({"data": data}))

    def trusts():
        with open(os.path.join(made.data, "ca.pem")) as f:
            return f.read()

    away = agent(lab, "edge-2", 12, two, two.token())
    wait_for("joined", connected(away))
    away.stop()

    def lacking(h):
        return {n["node"] for n in json.loads(h.ask("/ca")[1])["lacking"]}

    def ctl(h, *words):
        return h.machine.run(lab.program("edgewayctl"), "--socket", h.socket, *words, check=False)

    # What cannot be written is not used, is told, and is tried again.
    kept = os.path.join(one.machine.dir, "data", "ca.key")
    os.rename(kept, kept + ".away")
    os.mkdir(kept)
    put(old["ca.pem"] + new["ca.pem"], old["ca.key"])
    wait_for("told", lambda: one.metrics()['edgeway_hub_secret_trouble{secret="edgeway-hub-ca"}'] == 1)
    tried = ctl(one, "ca", "use")
    assert tried.returncode != 0 and "cannot write" in tried.stderr and "ca.key" in ctl(one, "status").stdout
    os.rmdir(kept)
    wait_for("the agent trusts", lambda: trusts() == old["ca.pem"] + new["ca.pem"])
    for h in (one, two):
        wait_for("who has them is known", lambda h=h: lacking(h) == {"edge-2"})
        assert h.metrics()['edgeway_hub_ca_nodes{has="no"}'] == 1
    # The next step would cut off the one that is away: it is told by name, and waits for it.
    put(new["ca.pem"] + old["ca.pem"], new["ca.key"])
    for h in (one, two):
        wait_for("refused", lambda h=h: h.metrics()["edgeway_hub_ca_refused"] == 1)
        assert "would cut off 1 nodes" in ctl(h, "status").stdout and "edge-2" in ctl(h, "ca", "list").stdout
        assert "edge-2" in ctl(h, "doctor").stdout and "edge-1" not in ctl(h, "ca", "use").stderr
        assert verify(one, os.path.join(one.machine.dir, "data", "ca.pem"), h) == "ok"
    assert trusts() == old["ca.pem"] + new["ca.pem"]
    away.start(ready=False)
    for pem, key in ((new["ca.pem"] + old["ca.pem"], new["ca.key"]), (new["ca.pem"], new["ca.key"])):
        put(pem, key)
        wait_for("the agent trusts", lambda pem=pem: trusts() == pem, 120)
        wait_for("in step", connected(made))
        wait_for("the other as well", connected(away))
        for h in (one, two):
            wait_for("all have them", lambda h=h: lacking(h) == set(), 120)
    for h in (one, two):
        assert verify(one, os.path.join(folder, "ca.pem"), h) == "ok"
        assert h.metrics()["edgeway_hub_ca_refused"] == 0
    assert "HTTP status" not in made.process.log()
    # One that was broken off between the two files: the Secret has both.
    one.process.stop()
    with open(kept, "w") as f:
        f.write(old["ca.key"])
    one.start()
    wait_for("ready", one.ready)
    assert verify(one, os.path.join(folder, "ca.pem"), one) == "ok"
    # An exchange that loses all is one for who says so, also at a replica that begins with nothing.
    two.process.stop()
    two.machine.run("rm", "-r", os.path.join(two.machine.dir, "data"))
    put(old["ca.pem"], old["ca.key"])
    two.start()
    for h in (one, two):
        wait_for("refused", lambda h=h: h.metrics()["edgeway_hub_ca_refused"] == 1)
    assert not two.ready() and one.ready()
    for told in (ctl(two, "status").stdout, ctl(two, "doctor").stdout, ctl(two, "ca", "use").stderr, two.ask("/readyz")[1], two.process.log()):
        assert "its CA is not used: it would cut off 2 nodes" in told and "edge-1" in told
    two.process.stop()
    two.start()
    wait_for("refused", lambda: two.metrics()["edgeway_hub_ca_refused"] == 1)
    assert not two.ready() and ctl(two, "ca", "use", "--force").returncode == 0
    wait_for("ready", two.ready)
    assert two.metrics()["edgeway_hub_ca_refused"] == 0 and verify(one, os.path.join(two.machine.dir, "data", "ca.pem"), two) == "ok"
    wait_for("the others know", lambda: '"inUse"' in secret(api, "edgeway-hub-nodes")[0]["nodes.json"])
    # What was lost is lost: the next one that begins with nothing does not ask again.
    two.process.stop()
    two.machine.run("rm", "-r", os.path.join(two.machine.dir, "data"))
    two.start()
    wait_for("ready", two.ready)
    p = ctl(one, "ca", "use")
    assert p.returncode != 0 and "would cut off 2 nodes" in p.stderr
    assert one.state()["hub"]["ca"] != two.state()["hub"]["ca"]
    assert ctl(one, "ca", "use", "--force").returncode == 0
    assert one.state()["hub"]["ca"] == two.state()["hub"]["ca"]


def test_the_hubs_certificate_follows_its_service(lab, api):
    """Another address of the Service is in the certificate within seconds; nodes that are connected stay so."""
    def names():
        return one.machine.run("openssl", "x509", "-noout", "-ext", "subjectAltName", "-in",
                               os.path.join(one.machine.dir, "data", "hub.pem")).stdout

    one = hub(lab, api, 0, "--tls.service", "edgeway/hub")
    wait_for("ready", one.ready)
    assert "DNS:hub.edgeway.svc.cluster.local" in names()
    wait_for("missing is told", lambda: one.state()["hub"]["service"]["problem"] == "there is no Service edgeway/hub")
    made = agent(lab, "edge-1", 11, one, one.token())
    wait_for("joined", connected(made))
    obj = service("hub", ("agents", 10000, 10000), selector="hub", namespace="edgeway", type="LoadBalancer",
                  externalIPs=["198.51.100.9"])
    api.apply(obj)
    wait_for("externalIPs", lambda: "198.51.100.9" in names())
    cluster_ip = api.kubectl("get", "service", "-n", "edgeway", "hub", "-o", "jsonpath={.spec.clusterIP}")
    assert f"IP Address:{cluster_ip}" in names()
    found = json.loads(api.kubectl("get", "service", "-n", "edgeway", "hub", "-o", "json"))
    found["status"] = {"loadBalancer": {"ingress": [{"ip": "198.51.100.10"}, {"hostname": "hub.example.test"}]}}
    api.ctl("put", group="", resource="services", obj={k: v for k, v in found.items() if k not in ("kind", "apiVersion")})
    wait_for("status", lambda: "198.51.100.10" in names() and "DNS:hub.example.test" in names())
    state = one.state()["hub"]["service"]
    assert state["problem"] == "" and "hub.example.test" in state["names"]
    served = one.machine.python(SERVED, os.path.join(one.machine.dir, "data", "ca.pem"), one.address, str(HUB_PORT)).stdout
    assert "198.51.100.10" in served
    assert "lost the connection" not in made.process.log() and made.state()["meta"]["connected"]


SERVED = """
import socket, ssl, sys
context = ssl.create_default_context(cafile=sys.argv[1])
with socket.create_connection((sys.argv[2], int(sys.argv[3])), 60) as s:
    with context.wrap_socket(s, server_hostname=sys.argv[2]) as t:
        print(t.getpeercert()["subjectAltName"])
"""


def test_a_forgotten_name_is_free_at_all(lab, api):
    """Forgotten at one: what was signed counts no more at any, and a token for any name gives the name at the other, also where both are connected."""
    one, two = both(lab, api, "--peers", ",".join(ADDRESSES))
    wait_for("they know each other", lambda: all("open" in {p["state"] for p in json.loads(h.ask("/peers")[1])["peers"]} for h in (one, two)))
    made = agent(lab, "edge-1", 11, one, one.token())
    wait_for("joined", connected(made))
    wait_for("told", lambda: nodes(two).get("edge-1", {}).get("connected"))
    made.stop()
    wait_for("known", lambda: "edge-1" in nodes(two))
    said = one.machine.run(lab.program("edgewayctl"), "--socket", one.socket, "node", "forget", "edge-1").stdout
    assert said == "forgotten edge-1\n"
    for h in (one, two):
        wait_for("forgotten", lambda h=h: "edge-1" not in nodes(h))
        assert os.listdir(os.path.join(h.machine.dir, "data", "nodes")) == []
    # The same at a replica that starts with what it had, and with a file of before.
    two.process.stop()
    shutil.copy(os.path.join(made.data, "node.crt"), os.path.join(two.machine.dir, "data", "nodes", "edge-1"))
    two.start()
    wait_for("ready", two.ready)
    assert nodes(two) == {}
    former = os.path.join(made.node.dir, "former")
    shutil.copytree(made.data, former)
    shutil.rmtree(made.data)
    again = Agent(made.node, None, "--hub.url", f"wss://{two.address}:{HUB_PORT}", token=two.token(), start=False)
    again.start(ready=False)
    wait_for("joined at the other", connected(again))
    again.stop()
    shutil.rmtree(again.data)
    shutil.copytree(former, again.data)
    again.token = ""
    again.start(ready=False)
    wait_for("the former certificate is refused", lambda: "this node's certificate was revoked" in again.process.log())
    p = one.machine.run(lab.program("edgewayctl"), "--socket", one.socket, "node", "forget", "nobody", check=False)
    assert p.returncode != 0 and "no node named" in p.stderr

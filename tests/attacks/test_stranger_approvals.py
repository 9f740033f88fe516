"""Strangers ask for certificates by approval (join.approval), from as many addresses as they have: a real node still gets its place."""
import base64
import json

import pytest

from kube import ACCOUNT, RIGHTS, ApiServer, KubeHub, optional_rights
from lab import HUB_PORT, PYTHON, Agent, Lab, Node, wait_for

ADDRESSES, EACH = 17, 16

ASK = """
import asyncio, json, os, ssl, subprocess, sys, uuid
import websockets
hub, addresses, each = sys.argv[1], sys.argv[2].split(","), int(sys.argv[3])
context = ssl.create_default_context()
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
def csr(name):
    return subprocess.run(["openssl", "req", "-new", "-key", "stranger.key", "-subj", f"/CN={name}"], check=True,
                          stdout=subprocess.PIPE).stdout.decode()
async def ask(address, name):
    url = f"wss://{hub}/e632aba927ea4ac2b575ec1603d56f10/{name}/join"
    async with websockets.connect(url, ssl=context, extra_headers={"authorization": "Bearer approval"}, local_addr=(address, 0)) as ws:
        await ws.send(json.dumps({"header": {"msg_id": str(uuid.uuid4())}, "route": {"source": "x", "group": "resource",
            "operation": "insert", "resource": f"certificate/{name}"}, "content": {"csr": csr(name)}}))
        return json.loads(await ws.recv())["content"]
async def main():
    subprocess.run(["openssl", "ecparam", "-genkey", "-name", "prime256v1", "-noout", "-out", "stranger.key"], check=True)
    for i, address in enumerate(addresses):
        print(json.dumps([await ask(address, f"x{i}-{k}") for k in range(each)]))
os.chdir(sys.argv[4])
asyncio.run(main())
"""


@pytest.fixture
def lab():
    with Lab() as made:
        yield made
        for p in made.processes:
            print(f"--- {p.name}\n{p.log()[-3000:]}")


def test_a_real_node_gets_its_place(lab):
    api = ApiServer(lab)
    api.ctl("grant", user=ACCOUNT, rights=RIGHTS + optional_rights("rbac-approval.yaml"))
    hub = KubeHub(lab, api, "--join.approval", "true")
    wait_for("ready", hub.ready)
    stranger = Node(lab, "stranger", "192.0.2.66", bridge=False)
    addresses = [f"192.0.2.{100 + i}" for i in range(ADDRESSES)]
    for address in addresses:
        stranger.run("ip", "address", "add", f"{address}/24", "dev", "eth0")
    lines = stranger.run(PYTHON, "-c", ASK, f"{hub.address}:{HUB_PORT}", ",".join(addresses), str(EACH), stranger.dir, seconds=240).stdout.splitlines()
    answers = [json.loads(line) for line in lines]
    assert all(isinstance(a, dict) for a in answers[0])  # each address has its share
    pending = hub.state()["hub"]["approvals"]["pending"]
    assert pending == 256  # they have all the places that there are
    made = Agent(Node(lab, "edge-1", "192.0.2.11"), None, token=f"{hub.state()['hub']['ca']}.approval", start=False)
    made.start(ready=False)

    def request():
        found = api.read_all("certificatesigningrequests", group="certificates.k8s.io")
        return next((o["metadata"]["name"] for o in found if o["metadata"]["name"].startswith("edgeway-edge-1-")), None)

    name = wait_for("asked", request, 120, pause=0.5)
    api.kubectl("certificate", "approve", name)
    wait_for("joined", lambda: made.process.alive() and made.state()["meta"]["synced"], 120)
    assert hub.process.logged("gives way to others")
    assert hub.metrics()['edgeway_hub_approvals_total{result="expired"}'] >= 1

    def given_up():
        found = api.read_all("certificatesigningrequests", group="certificates.k8s.io")
        return [c["message"] for o in found for c in o["status"].get("conditions", []) if c["type"] == "Failed"]

    wait_for("told", lambda: any("too many others wait" in m for m in given_up()), pause=0.5)


CSR = """
import subprocess, sys
print(subprocess.run(["openssl", "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", "/dev/null",
                      "-subj", "/CN=" + sys.argv[1]], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout.decode())
"""


def test_who_approves_without_looking_gives_no_name_away(lab):
    """A program approves all that asks, with the right to approve for edgeway.io/agent. A stranger asks for a node's name while the node is
    away: at the hub, and, since his cluster's account may, by a CertificateSigningRequest of his own."""
    api = ApiServer(lab)
    api.ctl("grant", user=ACCOUNT, rights=RIGHTS + optional_rights("rbac-approval.yaml"))
    hub = KubeHub(lab, api, "--join.approval", "true")
    wait_for("ready", hub.ready)
    api.ctl("token", token="approver-token", user="approver")
    api.ctl("grant", user="approver", rights=[["get", "certificatesigningrequests"], ["update", "certificatesigningrequests/approval"],
                                              ["approve", "signers", "edgeway.io/agent"]])
    approver = api.kubeconfig("approver.conf", token="approver-token")
    node = Agent(Node(lab, "edge-1", "192.0.2.11"), hub, start=False)

    def requests():
        return {o["metadata"]["name"]: o for o in api.read_all("certificatesigningrequests", group="certificates.k8s.io")}

    def approve(name):
        return api.kubectl("--kubeconfig", approver, "certificate", "approve", name, check=False)

    def put(name, signer):
        pem = stranger.python(CSR, "edge-1", seconds=60).stdout
        api.apply({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name},
                   "spec": {"request": base64.b64encode(pem.encode()).decode(), "signerName": signer, "usages": ["client auth"]}})

    stranger = Node(lab, "stranger", "192.0.2.66", bridge=False)
    put("early", "edgeway.io/agent")  # while the name is nobody's: approved when it is the node's
    node.start(ready=False)
    wait_for("joined", lambda: node.process.alive() and node.state()["meta"]["synced"])
    node.stop()
    wait_for("away", lambda: not any(n["connected"] for n in json.loads(hub.ask("/nodes")[1])["nodes"]))
    thief = Agent(stranger, None, "--node", "edge-1", token=f"{hub.state()['hub']['ca']}.approval", start=False)
    thief.start(ready=False)
    asked = wait_for("asked", lambda: next((n for n in requests() if n.startswith("edgeway-edge-1-")), None), 120)
    assert asked.endswith("-replacement") and requests()[asked]["spec"]["signerName"] == "edgeway.io/agent-replacement"
    put("own", "edgeway.io/agent")
    put("own-replacement", "edgeway.io/agent-replacement")
    for name in ("early", "own", asked, "own-replacement"):
        approve(name)

    def failed(name):
        return [c["message"] for c in requests()[name]["status"].get("conditions", []) if c["type"] == "Failed"]

    for name in ("early", "own"):
        wait_for(f"{name} is not signed", lambda name=name: failed(name))
        assert "the name holds a certificate of another key" in failed(name)[0]
    for name in (asked, "own-replacement"):  # the API server let nobody approve these but who may for their signer
        assert requests()[name]["status"] == {}
    assert not any("certificate" in o["status"] for o in requests().values())
    thief.stop()
    node.start(ready=False)
    wait_for("the node is who it was", lambda: node.process.alive() and node.state()["meta"]["synced"])

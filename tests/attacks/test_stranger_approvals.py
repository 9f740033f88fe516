"""Strangers ask for certificates by approval (join.approval), from as many addresses as they have: a real node still gets its place."""
import json

import pytest

from kube import ACCOUNT, RIGHTS, ApiServer, KubeHub, optional_rights
from lab import HUB_PORT, Agent, Lab, Node, wait_for

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
    lines = stranger.python(ASK, f"{hub.address}:{HUB_PORT}", ",".join(addresses), str(EACH), stranger.dir, seconds=240).stdout.splitlines()
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
    assert "gives way to others" in hub.process.log()
    assert hub.metrics()['edgeway_hub_approvals_total{result="expired"}'] >= 1

    def given_up():
        found = api.read_all("certificatesigningrequests", group="certificates.k8s.io")
        return [c["message"] for o in found for c in o["status"].get("conditions", []) if c["type"] == "Failed"]

    wait_for("told", lambda: any("too many others wait" in m for m in given_up()), pause=0.5)

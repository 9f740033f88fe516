"""Joining without a token: the node asks, an operator approves with kubectl, the hub signs (certificates.k8s.io, signer
edgeway.io/agent), with no more rights than deploy/kubernetes/rbac.yaml and rbac-approval.yaml give."""
import base64
import json
import os
import shutil
import subprocess

import pytest

from kube import ACCOUNT, RIGHTS, ApiServer, KubeHub, optional_rights
from lab import HUB_PORT, PYTHON, Agent, Lab, Node, service, wait_for
from pki import Authority

SIGNER = "edgeway.io/agent"
ADDRESSES = ("192.0.2.1", "192.0.2.3")


@pytest.fixture
def lab():
    with Lab() as made:
        yield made
        for p in made.processes:
            print(f"--- {p.name}\n{p.log()[-3000:]}")


@pytest.fixture
def api(lab):
    made = ApiServer(lab)
    made.ctl("grant", user=ACCOUNT, rights=RIGHTS + optional_rights("rbac-approval.yaml"))
    return made


def hub(lab, api, i=0, *options):
    made = KubeHub(lab, api, "--join.approval", "true", *options, name=f"cloud-{i}", address=ADDRESSES[i],
                   kubeconfig=api.kubeconfig(f"hub-{i}.conf"))
    wait_for("ready", made.ready)
    return made


def agent(lab, name, number, to, token=None):
    made = Agent(Node(lab, name, f"192.0.2.{number}"), None, "--hub.url", f"wss://{to.address}:{HUB_PORT}",
                 token=token or f"{to.state()['hub']['ca']}.approval", start=False)
    made.start(ready=False)
    wait_for("the agent speaks", lambda: made.process.alive() and os.path.exists(made.socket) and made.state())
    return made


def requests(api):
    return {o["metadata"]["name"]: o for o in api.read_all("certificatesigningrequests", group="certificates.k8s.io")}


def the_request(api, node):
    """Its name, once it is there."""
    def find():
        return [n for n in requests(api) if n.startswith(f"edgeway-{node}-")]
    wait_for(f"request of {node}", lambda: len(find()) == 1)
    return find()[0]


def error(made):
    return made.state()["meta"]["error"]


def in_step(made):
    return lambda: made.state()["meta"]["synced"]


def approvals(h):
    return h.state()["hub"]["approvals"]


def total(h, result):
    return h.metrics()[f'edgeway_hub_approvals_total{{result="{result}"}}']


def test_approved(lab, api):
    cloud = hub(lab, api)
    made = agent(lab, "edge-1", 11, cloud)
    name = the_request(api, "edge-1")
    wait_for("told", lambda: f"kubectl certificate approve {name}" in error(made))
    assert made.process.logged(f"this node waits for approval in the cluster: kubectl certificate approve {name}")
    assert cloud.process.logged(f"kubectl certificate approve {name}")
    shown = cloud.machine.run(lab.program("edgewayctl"), "--socket", cloud.socket, "status", check=False).stdout
    assert "1 wait for kubectl certificate approve" in shown
    assert approvals(cloud)["pending"] == 1 and cloud.metrics()["edgeway_hub_approvals_pending"] == 1
    spec = requests(api)[name]["spec"]
    assert (spec["signerName"], spec["username"]) == (SIGNER, ACCOUNT)
    assert sorted(spec["usages"]) == ["client auth", "digital signature"]
    key = os.path.join(made.data, "node.key")
    with open(key) as f:
        before = f.read()
    assert os.stat(key).st_mode & 0o777 == 0o600
    # A restart of both changes nothing: the same key, the same request.
    made.stop()
    cloud.process.stop()
    cloud.start()
    wait_for("ready", cloud.ready)
    made.start(ready=False)
    wait_for("told again", lambda: made.process.alive() and os.path.exists(made.socket) and name in error(made))
    assert list(requests(api)) == [name]
    assert "approved" in api.kubectl("certificate", "approve", name)
    wait_for("joined", in_step(made))
    with open(key) as f:
        assert f.read() == before
    pem = base64.b64decode(requests(api)[name]["status"]["certificate"])
    text = subprocess.run(["openssl", "x509", "-noout", "-subject", "-issuer", "-ext", "extendedKeyUsage"], input=pem,
                          stdout=subprocess.PIPE, check=True).stdout.decode()
    assert "CN = edge-1" in text and "edgeway hub CA" in text
    assert "Client Authentication" in text and "Server" not in text
    with open(os.path.join(made.data, "node.crt"), "rb") as f:
        assert f.read() == pem
    wait_for("counted", lambda: total(cloud, "issued") == 1)
    assert approvals(cloud)["pending"] == 0 and total(cloud, "failed") == 0
    api.apply(service("web", ("http", 80, 8080)))
    wait_for("it is a node like any other", lambda: made.state()["services"] == 1)
    assert {n["node"]: n["connected"] for n in json.loads(cloud.ask("/nodes")[1])["nodes"]} == {"edge-1": True}


def test_denied_and_taken(lab, api):
    cloud = hub(lab, api)
    made = agent(lab, "edge-1", 11, cloud)
    name = the_request(api, "edge-1")
    assert "denied" in api.kubectl("certificate", "deny", name)
    wait_for("told", lambda: "an operator denied the request" in made.process.log())
    wait_for("shown", lambda: "an operator denied the request" in error(made))
    assert cloud.process.logged("a request for a certificate was denied")
    assert total(cloud, "denied") == 1 and approvals(cloud)["requests"][0]["state"] == "denied"
    assert not os.path.exists(os.path.join(made.data, "node.crt"))
    made.stop()
    # Nobody is asked for the name of a node that is connected.
    holder = agent(lab, "edge-2", 12, cloud, token=cloud.token("--node", "edge-2"))
    wait_for("joined by a token", in_step(holder))
    thief = Agent(Node(lab, "thief", "192.0.2.13"), None, "--node", "edge-2",
                  token=f"{cloud.state()['hub']['ca']}.approval", start=False)
    thief.start(ready=False)
    wait_for("refused", lambda: "a node named edge-2 is connected" in thief.process.log())
    assert list(requests(api)) == [name]


def replacement(api, node):
    """The request for a name that holds a certificate, once it is there."""
    def find():
        return [n for n in requests(api) if n.startswith(f"edgeway-{node}-") and n.endswith("-replacement")]
    wait_for(f"request of {node}", lambda: len(find()) == 1)
    return find()[0]


def test_installed_anew_or_revoked(lab, api):
    """The operator is asked for a name that holds a certificate, and sees so: a signer of its own, a warning, a line in log and status."""
    cloud = hub(lab, api)
    made = agent(lab, "edge-1", 11, cloud)
    api.kubectl("certificate", "approve", the_request(api, "edge-1"))
    wait_for("joined", in_step(made))
    made.stop()
    shutil.rmtree(made.data)
    made.start(ready=False)
    name = replacement(api, "edge-1")
    asked = requests(api)[name]
    assert asked["spec"]["signerName"] == f"{SIGNER}-replacement"
    warning = asked["metadata"]["annotations"]["edgeway.io/warning"]
    assert "edge-1 holds a certificate of another key (serial number" in warning and "edgewayctl node revoke edge-1" in warning
    assert cloud.process.logged("a name that another key holds a certificate for: approve it only if this node was installed anew or "
                                f"revoked, and its own log names this request={name} node=edge-1")
    shown = cloud.machine.run(lab.program("edgewayctl"), "--socket", cloud.socket, "status", check=False).stdout
    assert "1 wait for kubectl certificate approve, 1 of them for names that hold a certificate" in shown
    assert cloud.metrics()["edgeway_hub_approvals_replacements_pending"] == 1
    wait_for("told", lambda: f"kubectl certificate approve {name}" in error(made))
    api.kubectl("certificate", "approve", name)
    wait_for("joined again", in_step(made))
    # A revoked one asks by itself, with another key.
    cloud.machine.run(lab.program("edgewayctl"), "--socket", cloud.socket, "node", "revoke", "edge-1")
    wait_for("asked", lambda: len([n for n in requests(api) if n.endswith("-replacement")]) == 2)
    again = next(n for n in requests(api) if n.endswith("-replacement") and n != name)
    assert ", revoked): approve only if" in requests(api)[again]["metadata"]["annotations"]["edgeway.io/warning"]
    wait_for("told", lambda: again in error(made))
    api.kubectl("certificate", "approve", again)
    wait_for("back", in_step(made), 120)


def test_cloud_nodes_are_not_asked_for(lab, api):
    """Nobody is asked to approve a Node that join.nodes does not select; that there is no Node of a name at all is said with the request."""
    cloud = hub(lab, api)
    api.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "cloud-1"}},
              {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "edge-2", "labels": {"node-role.kubernetes.io/edge": ""}}})
    wait_for("Nodes", lambda: cloud.metric("objects", "nodes") == 2)
    thief = agent(lab, "cloud-1", 14, cloud)
    wait_for("refused", lambda: "is not one of the edge, by join.nodes" in error(thief))
    warnings = {}
    for i, name in enumerate(("edge-1", "edge-2")):
        agent(lab, name, 11 + i, cloud)
        request = the_request(api, name)
        warnings[name] = requests(api)[request]["metadata"]["annotations"].get("edgeway.io/warning", "")
    assert warnings["edge-1"].startswith("there is no Node edge-1 in the cluster") and warnings["edge-2"] == ""
    assert len(requests(api)) == 2


def test_a_cloud_nodes_name_that_another_replica_knows(lab, api):
    """Without a list in common: that a replica knows the name is for the operator to decide, that join.nodes does not select it is not."""
    ca = Authority(lab.dir)
    hubs = [hub(lab, api, i, "--source.kubernetes.share", "false", "--tls.ca", ca.cert, "--tls.caKey", ca.key, "--peers", ",".join(ADDRESSES))
            for i in (0, 1)]
    made = agent(lab, "core-7", 14, hubs[0], hubs[0].token("--node", "core-7"))
    wait_for("joined", in_step(made))
    made.stop()
    made.options = ("--hub.url", f"wss://{hubs[1].address}:{HUB_PORT}")
    made.start(ready=False)
    wait_for("at the other", in_step(made))
    made.stop()
    api.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "core-7"}})
    wait_for("the Node", lambda: hubs[0].metric("objects", "nodes") == 1)
    wait_for("it has gone", lambda: not any(n["connected"] for n in json.loads(hubs[0].ask("/nodes")[1])["nodes"]))
    thief = agent(lab, "thief", 15, hubs[0])
    thief.stop()
    thief.options = (*thief.options, "--node", "core-7")
    thief.start(ready=False)
    wait_for("refused", lambda: "is not one of the edge, by join.nodes" in error(thief))
    assert not [n for n in requests(api) if "core-7" in n]


def test_revoked_is_not_given_again(lab, api):
    cloud = hub(lab, api)
    made = agent(lab, "edge-1", 11, cloud)
    name = the_request(api, "edge-1")
    api.kubectl("certificate", "approve", name)
    wait_for("joined", in_step(made))
    cloud.machine.run(lab.program("edgewayctl"), "--socket", cloud.socket, "node", "revoke", "edge-1")
    made.stop()
    os.unlink(os.path.join(made.data, "node.crt"))
    made.start(ready=False)
    wait_for("refused", lambda: "was revoked: make a token" in made.process.log())
    assert not os.path.exists(os.path.join(made.data, "node.crt"))


def test_off(lab, api):
    cloud = KubeHub(lab, api)
    wait_for("ready", cloud.ready)
    made = agent(lab, "edge-1", 11, cloud)
    wait_for("refused", lambda: "set join.approval on the hub" in error(made))
    assert requests(api) == {} and "approvals" not in cloud.state()["hub"]


def csr_object(folder, name, subject, usages, signer=SIGNER):
    subprocess.run(["openssl", "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout",
                    os.path.join(folder, name + ".key"), "-out", os.path.join(folder, name + ".csr"), "-subj", subject],
                   check=True, stderr=subprocess.DEVNULL)
    with open(os.path.join(folder, name + ".csr"), "rb") as f:
        request = base64.b64encode(f.read()).decode()
    return {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name},
            "spec": {"request": request, "signerName": signer, "usages": usages}}


def test_requests_of_others(lab, api):
    """The signer's rules hold for whoever made the request; nothing of another signer is touched."""
    cloud = hub(lab, api)
    api.apply(csr_object(lab.dir, "good", "/CN=edge-7", ["client auth"]),
              csr_object(lab.dir, "group", "/O=system:masters/CN=edge-8", ["client auth"]),
              csr_object(lab.dir, "server", "/CN=edge-9", ["client auth", "server auth"]),
              csr_object(lab.dir, "no-name", "/CN=Not A Node", ["client auth"]),
              csr_object(lab.dir, "other", "/CN=edge-6", ["client auth"], "kubernetes.io/kube-apiserver-client"))
    wait_for("seen", lambda: len(approvals(cloud)["requests"]) == 4)
    assert approvals(cloud)["pending"] == 0  # none is of a node that asked the hub
    api.kubectl("certificate", "approve", "good", "group", "server", "no-name", "other")

    def status(name):
        return requests(api)[name]["status"]

    def failed(name):
        return [c["message"] for c in status(name)["conditions"] if c["type"] == "Failed"]

    wait_for("signed", lambda: "certificate" in status("good") and "certificate" in status("group"))
    wait_for("failed", lambda: failed("server") and failed("no-name"))
    assert "usages" in failed("server")[0] and "name of a node" in failed("no-name")[0]
    assert [c["type"] for c in status("server")["conditions"]] == ["Approved", "Failed"]
    assert "certificate" not in status("server") and "certificate" not in status("other")
    subject = subprocess.run(["openssl", "x509", "-noout", "-subject"], input=base64.b64decode(status("group")["certificate"]),
                             stdout=subprocess.PIPE, check=True).stdout.decode()
    assert "system:masters" not in subject and "edge-8" in subject
    wait_for("counted", lambda: (total(cloud, "failed"), total(cloud, "issued")) == (2, 2))


ASK = """
import asyncio, json, ssl, subprocess, sys, uuid
import websockets
hub, first, n = sys.argv[1], sys.argv[2], int(sys.argv[3])
context = ssl.create_default_context()
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
async def ask(i):
    csr = subprocess.run(["openssl", "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                          "-keyout", "/dev/stderr", "-subj", f"/CN={first}-{i}"], stdout=subprocess.PIPE,
                         stderr=subprocess.DEVNULL).stdout.decode()
    url = f"wss://{hub}/e632aba927ea4ac2b575ec1603d56f10/{first}-{i}/join"
    async with websockets.connect(url, ssl=context, extra_headers={"authorization": "Bearer approval"}) as ws:
        await ws.send(json.dumps({"header": {"msg_id": str(uuid.uuid4())}, "route": {"source": "x", "group": "resource",
            "operation": "insert", "resource": f"certificate/{first}-{i}"}, "content": {"csr": csr}}))
        return json.loads(await ws.recv())["content"]
async def main():
    for i in range(n):
        print(json.dumps(await ask(i)))
asyncio.run(main())
"""


def test_strangers_are_bounded(lab, api):
    """Who asks for many names from one address gets so many requests and no more; others still can."""
    cloud = hub(lab, api)
    stranger = Node(lab, "stranger", "192.0.2.66", bridge=False)
    lines = stranger.run(PYTHON, "-c", ASK, f"{cloud.address}:{HUB_PORT}", "x", "18", seconds=60).stdout.splitlines()
    answers = [json.loads(line) for line in lines]
    assert [isinstance(a, dict) for a in answers] == [True] * 16 + [False] * 2
    assert "too many requests from this address" in answers[-1]
    wait_for("all are there", lambda: len(requests(api)) == 16)
    made = agent(lab, "edge-1", 11, cloud)
    api.kubectl("certificate", "approve", the_request(api, "edge-1"))
    wait_for("joined", in_step(made))
    assert approvals(cloud)["pending"] == 16


def test_without_rights(lab, api):
    api.ctl("grant", user=ACCOUNT, rights=RIGHTS)
    cloud = hub(lab, api)
    made = agent(lab, "edge-1", 11, cloud)
    wait_for("told here", lambda: "rbac-approval.yaml" in approvals(cloud)["problem"])
    wait_for("and there", lambda: "rbac-approval.yaml" in made.process.log())
    assert cloud.state()["hub"]["approvals"]["problem"] != ""
    api.ctl("grant", user=ACCOUNT, rights=RIGHTS + optional_rights("rbac-approval.yaml"))
    name = the_request(api, "edge-1") if wait_for("asked", lambda: requests(api), 120) is None else the_request(api, "edge-1")
    # May it write the status and not sign, the reason is told as well.
    api.ctl("grant", user=ACCOUNT, rights=RIGHTS + [r for r in optional_rights("rbac-approval.yaml") if r[0] != "sign"])
    api.kubectl("certificate", "approve", name)
    wait_for("told", lambda: "sign on the signer" in approvals(cloud)["problem"])
    api.ctl("grant", user=ACCOUNT, rights=RIGHTS + optional_rights("rbac-approval.yaml"))
    wait_for("joined", in_step(made), 120)


def test_replicas_and_rights(lab, api):
    """Asked at one, approved, fetched at the other; each right of rbac-approval.yaml is used."""
    one, two = hub(lab, api, 0), hub(lab, api, 1)
    made = agent(lab, "edge-1", 11, one)
    name = the_request(api, "edge-1")
    made.stop()
    api.kubectl("certificate", "approve", name)
    wait_for("signed", lambda: "certificate" in requests(api)[name]["status"])
    other = Agent(made.node, None, "--hub.url", f"wss://{two.address}:{HUB_PORT}", token=made.token, start=False)
    other.start(ready=False)
    wait_for("joined at the other", lambda: other.process.alive() and os.path.exists(other.socket) and in_step(other)())
    wait_for("counted", lambda: total(one, "issued") + total(two, "issued") == 1)
    used = {(verb, resource) for verb, _, resource, _, _, _ in api.ctl("used", user=ACCOUNT)}
    assert {(r[0], r[1]) for r in optional_rights("rbac-approval.yaml")} <= used
    assert {u for u in used if "certificatesigning" in u[1] or u[1] == "signers"} == {(r[0], r[1]) for r in optional_rights("rbac-approval.yaml")}


def test_goes_on_after_a_refusal(lab, api):
    """What the API server refused and nobody wants any more holds nothing up."""
    api.ctl("grant", user=ACCOUNT, rights=RIGHTS + [r for r in optional_rights("rbac-approval.yaml") if r[0] != "create"])
    cloud = hub(lab, api)
    made = agent(lab, "edge-1", 11, cloud)
    wait_for("told", lambda: "rbac-approval.yaml" in made.process.log())
    made.stop()
    wait_for("nothing to do", lambda: approvals(cloud)["problem"] == "")
    api.apply(csr_object(lab.dir, "good", "/CN=edge-7", ["client auth"]))
    api.kubectl("certificate", "approve", "good")
    wait_for("signed", lambda: "certificate" in requests(api)["good"]["status"])


def test_server_that_fails_while_it_is_written_to(lab, api):
    """A write that is answered by nothing, an error or a conflict is tried again; one certificate comes of it, and one record."""
    cloud = hub(lab, api)
    made = agent(lab, "edge-1", 11, cloud)
    name = the_request(api, "edge-1")
    for fault in ({"do": "reset"}, {"do": "status", "status": 500}, {"do": "status", "status": 429}):
        api.ctl("fault", match=f"{name}/status", **fault)
    api.kubectl("certificate", "approve", name)
    # Somebody changes the object meanwhile: what is written builds upon another version.
    api.kubectl("label", "csr", name, "seen=yes")
    wait_for("joined", in_step(made), 120)
    assert api.ctl("no_faults") >= 3
    with open(os.path.join(made.data, "node.crt"), "rb") as f:
        assert f.read() == base64.b64decode(requests(api)[name]["status"]["certificate"])
    # The API server restarts, and its watches with it; the next node is served as well.
    api.ctl("down")
    api.ctl("up")
    other = agent(lab, "edge-2", 12, cloud)
    api.kubectl("certificate", "approve", the_request(api, "edge-2"))
    wait_for("joined", in_step(other), 120)


ODD = """
import asyncio, json, ssl, subprocess, sys, uuid
import websockets
hub, node, curve, subject = sys.argv[1:5]
context = ssl.create_default_context()
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
csr = subprocess.run(["openssl", "req", "-new", "-newkey", "ec", "-pkeyopt", f"ec_paramgen_curve:{curve}", "-nodes",
                      "-keyout", "/dev/stderr", "-subj", subject], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout.decode()
async def ask():
    url = f"wss://{hub}/e632aba927ea4ac2b575ec1603d56f10/{node}/join"
    async with websockets.connect(url, ssl=context, extra_headers={"authorization": "Bearer approval"}) as ws:
        await ws.send(json.dumps({"header": {"msg_id": str(uuid.uuid4())}, "route": {"source": "x", "group": "resource",
            "operation": "insert", "resource": f"certificate/{node}"}, "content": {"csr": "words\\n" + csr + csr}}))
        return json.loads(await ws.recv())["content"]
async def main():
    first = await ask()
    for i in range(400):
        again = await ask()
        if again != first or isinstance(first, str):  # refused: that is all
            break
        await asyncio.sleep(0.2)
    print(json.dumps([first, again]))
asyncio.run(main())
"""


def test_a_strangers_odd_request_is_its_own_trouble(lab, api):
    cloud = hub(lab, api)
    stranger = Node(lab, "stranger", "192.0.2.66", bridge=False)

    def ask(node, curve="prime256v1", subject=None):
        lines = stranger.run(PYTHON, "-c", ODD, f"{cloud.address}:{HUB_PORT}", node, curve, subject or f"/CN={node}", seconds=60).stdout
        return json.loads(lines.splitlines()[-1])

    assert "another kind" in ask("edge-3", curve="secp256k1")[0]
    assert isinstance(ask("edge-4", subject="/CN=edge-4/CN=edge-5")[0], str)
    assert requests(api) == {}
    # What the API server finds wrong all the same is told to whoever asked, and to nobody else.
    api.ctl("fault", match="certificatesigningrequests", do="status", status=422, watch=False)
    first, again = ask("edge-6")
    assert isinstance(first, dict) and "the API server refuses" in again
    assert approvals(cloud)["problem"] == "" and cloud.process.logged("a node's request is not passed on")
    made = agent(lab, "edge-1", 11, cloud)
    name = the_request(api, "edge-1")
    assert list(requests(api)) == [name]
    api.kubectl("certificate", "approve", name)
    wait_for("joined", in_step(made))


def test_one_that_cannot_be_written_holds_up_no_other(lab, api):
    cloud = hub(lab, api)
    api.ctl("fault", match="/bad/status", do="status", status=500, count=10000)
    api.apply(csr_object(lab.dir, "good", "/CN=edge-7", ["client auth"]), csr_object(lab.dir, "bad", "/CN=edge-8", ["client auth"]))
    wait_for("seen", lambda: len(approvals(cloud)["requests"]) == 2)
    api.kubectl("certificate", "approve", "bad", "good")
    wait_for("signed", lambda: "certificate" in requests(api)["good"]["status"])
    api.ctl("no_faults")
    wait_for("and the other", lambda: "certificate" in requests(api)["bad"]["status"], 120)


def test_signed_and_its_request_gone(lab, api):
    """The node comes for its certificate after the cluster forgot the request; a rival for its name is told of."""
    cloud = hub(lab, api)
    made = agent(lab, "edge-1", 11, cloud)
    name = the_request(api, "edge-1")
    made.stop()
    api.apply(csr_object(lab.dir, "rival", "/CN=edge-1", ["client auth"]))
    wait_for("warned", lambda: "another request is for the same node" in cloud.process.log())
    api.kubectl("certificate", "approve", name)
    wait_for("signed", lambda: "certificate" in requests(api)[name]["status"])
    api.kubectl("delete", "csr", name)
    wait_for("forgotten", lambda: len(approvals(cloud)["requests"]) == 1)
    made.start(ready=False)
    wait_for("joined", lambda: made.process.alive() and os.path.exists(made.socket) and in_step(made)())
    assert list(requests(api)) == ["rival"]


def test_a_name_that_another_replica_gave(lab, api):
    """What is approved for a free name fails where another replica has given the name to another key, also when that is not known here yet."""
    one = KubeHub(lab, api, "--join.nodes", "", name="cloud-0", address=ADDRESSES[0], kubeconfig=api.kubeconfig("hub-0.conf"))
    wait_for("ready", one.ready)
    made = agent(lab, "edge-2", 12, one, one.token())
    wait_for("its Secret is written and followed", in_step(made))
    api.ctl("fault", match="edgeway-hub-nodes", watch=True, do="silence")
    two = hub(lab, api, 1, "--join.nodes", "")
    wait_for("the other hears nothing more", lambda: api.ctl("met") == 1)
    made = agent(lab, "edge-1", 11, one, one.token())
    wait_for("joined", in_step(made))
    made.stop()
    thief = Agent(Node(lab, "thief", "192.0.2.50"), None, "--hub.url", f"wss://{two.address}:{HUB_PORT}", "--node", "edge-1",
                  token=f"{two.state()['hub']['ca']}.approval", start=False)
    thief.start(ready=False)
    name = the_request(api, "edge-1")
    assert requests(api)[name]["spec"]["signerName"] == SIGNER and "edge-1" not in two.ask("/nodes")[1]
    api.kubectl("certificate", "approve", name)
    wait_for("decided", lambda: len(requests(api)[name]["status"]["conditions"]) == 2 or "certificate" in requests(api)[name]["status"])
    status = requests(api)[name]["status"]
    assert "certificate" not in status and "holds a certificate of another key" in status["conditions"][1]["message"]
    serial = {h.machine.name: [n["serial"] for n in json.loads(h.ask("/nodes")[1])["nodes"] if n["node"] == "edge-1"] for h in (one, two)}
    assert serial["cloud-0"] == serial["cloud-1"] != []
    made.start(ready=False)
    wait_for("the node is who it was", lambda: made.process.alive() and os.path.exists(made.socket) and in_step(made)())

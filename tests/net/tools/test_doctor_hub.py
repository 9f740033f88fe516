"""edgewayctl doctor at a hub: certificates that end, and the disk under dataDir."""
import json
import os
import re

import pytest

from lab import HUB_ADDRESS, Hub, Lab, Node, faketime, pod, service, wait_for
from pki import Authority

pytestmark = pytest.mark.plain_build  # what edgewayctl reads; test_ctl and test_ctl_hostile have it

DAY = 86400


@pytest.fixture
def lab():
    with Lab() as lab:
        yield lab


def doctor(hub, later_s=0):
    """{check: (verdict, finding, remedy)}, as a doctor sees it later."""
    fake = faketime(FAKETIME_DONT_FAKE_MONOTONIC=1, FAKETIME=f"{later_s:+d}") if later_s else []
    p = hub.machine.run(*fake, hub.lab.program("edgewayctl"), "--socket", hub.socket, "-o", "json", "doctor", check=False)
    return {f["check"]: (f["verdict"], f["found"], f["remedy"]) for f in json.loads(p.stdout)}


def test_the_end_of_certificates(lab):
    ca = Authority(lab.dir)  # 30 days
    cert, key = ca.issue("hub", f"subjectAltName=IP:{HUB_ADDRESS}", "extendedKeyUsage=serverAuth", days=10)
    hub = Hub(lab, "--tls.ca", ca.cert, "--tls.caKey", ca.key, "--tls.cert", cert, "--tls.key", key)
    for later, of_ca, of_hub in ((0, "ok", "ok"), (8 * DAY, "ok", "note"), (9.5 * DAY, "ok", "BAD"), (25.5 * DAY, "note", "BAD"), (28 * DAY, "BAD", "BAD"),
                                 (31 * DAY, "BAD", "BAD")):
        found = doctor(hub, int(later))
        assert (found["CA"][0], found["certificate"][0]) == (of_ca, of_hub), (later / DAY, found)
    assert found["CA"][1].startswith("tls.ca, until 20") and "append the next one" in found["CA"][2]
    assert found["certificate"][1].startswith("tls.cert, until 20") and "tls.key" in found["certificate"][2]
    ends = hub.state()["hub"]["certificates"]
    assert ends["ca"]["notAfter"] - ends["hub"]["notAfter"] == pytest.approx(20 * DAY, abs=60)
    metrics = hub.metrics()
    assert metrics["edgeway_hub_ca_expiry_timestamp_seconds"] == ends["ca"]["notAfter"]
    assert metrics["edgeway_hub_certificate_expiry_timestamp_seconds"] == ends["hub"]["notAfter"]


def test_the_folder_of_manifests_is_gone(lab):
    hub = Hub(lab)
    hub.write("web.yaml", service("web", ("http", 80, 8080)))
    assert doctor(hub)["source"][0] == "ok"
    os.rename(hub.manifests, hub.manifests + ".away")
    wait_for("told", lambda: doctor(hub)["source"][0] == "BAD")
    assert "the folder cannot be read: No such file or directory; what was read before goes on to count" in doctor(hub)["source"][1]
    assert "the folder cannot be read" in hub.machine.run(hub.lab.program("edgewayctl"), "--socket", hub.socket, "status", check=False).stdout
    assert hub.metrics()["edgeway_hub_manifest_files_bad"] == 1
    os.rename(hub.manifests + ".away", hub.manifests)
    wait_for("over", lambda: doctor(hub)["source"][0] == "ok")
    assert hub.metrics()["edgeway_hub_manifest_files_bad"] == 0
    hub.write("web2.yaml", service("web2", ("http", 80, 8080)))
    wait_for("both", lambda: len(hub.state()["hub"]["services"]) == 2)
    for name in ("web.yaml", "web2.yaml"):
        os.unlink(os.path.join(hub.manifests, name))
    wait_for("emptied", lambda: doctor(hub)["source"][0] == "BAD")
    assert "all manifests have vanished from the folder; their 2 Services go on to count" in doctor(hub)["source"][1]
    assert "all manifests have vanished" in hub.machine.run(hub.lab.program("edgewayctl"), "--socket", hub.socket, "status", check=False).stdout
    assert hub.metrics()["edgeway_hub_manifest_files_bad"] == 1 and hub.process.logged("remedy=\"mount or restore the folder")
    assert [s["name"] for s in hub.state()["hub"]["services"]] == ["web", "web2"]
    hub.write("none.yaml", {"kind": "List"})  # as the remedy says
    wait_for("meant", lambda: not hub.state()["hub"]["services"])
    assert doctor(hub)["source"][0] == "ok" and hub.metrics()["edgeway_hub_manifest_files_bad"] == 0


def test_its_own_ones_and_its_disk(lab):
    hub = Hub(lab)
    found = doctor(hub)
    assert found["CA"][:2] == ("ok", f"the hub's own, until {hub.state()['hub']['certificates']['ca']['expires']}")
    assert found["certificate"][1].startswith("made by the hub, until ")
    data = hub.state()["hub"]["dataDir"]
    assert found["disk"][0] == "ok" and found["disk"][1].startswith(f"{data}: ")
    hub.machine.run("mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", data)
    assert doctor(hub)["disk"] == ("BAD", f"{data}: 1 MB left of 1", "make room: changes could not be kept")
    # The volume of the official Deployment is small, and not full.
    hub.machine.run("mount", "-o", "remount,size=16m", data)
    assert doctor(hub)["disk"][:2] == ("ok", f"{data}: 16 MB left of 16")
    hub.machine.run("dd", "if=/dev/zero", f"of={data}/ballast", "bs=1M", "count=15")
    assert doctor(hub)["disk"][:2] == ("BAD", f"{data}: 1 MB left of 16")
    hub.machine.run("rm", f"{data}/ballast")
    hub.machine.run("mount", "-o", "remount,size=200m,nr_inodes=50", data)
    assert doctor(hub)["disk"][0] == "BAD" and "files left" in doctor(hub)["disk"][1]
    hub.machine.run("mount", "-o", "remount,ro", data)
    hub.write("web.yaml", service("web", ("http", 80, 8080)))  # its copy is what cannot be written
    said = f"{data} cannot be written: Read-only file system"
    wait_for("told", lambda: hub.state()["hub"]["disk"]["problem"] == said)
    assert doctor(hub)["disk"][:2] == ("BAD", said) and "make room" in doctor(hub)["disk"][2]
    assert doctor(hub)["copies"][0] == "note" and hub.metrics()["edgeway_hub_disk_trouble"] == 1
    assert hub.process.logged("dataDir cannot be written folder=")
    assert said in hub.machine.run(lab.program("edgewayctl"), "--socket", hub.socket, "status").stdout
    hub.machine.run("mount", "-o", "remount,rw,size=16m,nr_inodes=500", data)
    wait_for("over", lambda: hub.metrics()["edgeway_hub_disk_trouble"] == 0 and doctor(hub)["disk"][0] == "ok")
    assert hub.process.logged("dataDir can be written again")
    status = hub.machine.run(lab.program("edgewayctl"), "--socket", hub.socket, "status").stdout
    assert "; the hub's certificate until 20" in status


def test_no_endpoint_is_ready(lab):
    hub, node = Hub(lab), Node(lab, "edge-1", "192.0.2.11")
    hub.write("web.yaml", service("web", ("http", 80, 8080)), pod("web", node, "172.17.0.2", ("http", 8080, 30080), ready=False))
    wait_for("told", lambda: doctor(hub)["services"][:2] == ("note", "default/web: none of its endpoints is ready"))
    assert "until one is ready" in doctor(hub)["services"][2]
    assert "none of its endpoints is ready" in hub.machine.run(lab.program("edgewayctl"), "--socket", hub.socket, "status").stdout
    wait_for("counted", lambda: hub.metrics()['edgeway_hub_service_findings{class="warning",problem="not_ready"}'] == 1)
    hub.write("web.yaml", service("web", ("http", 80, 8080)), pod("web", node, "172.17.0.2", ("http", 8080, 30080)))
    wait_for("over", lambda: doctor(hub)["services"][0] == "ok")


def test_slips_in_manifests(lab):
    """File, line, cause and remedy, in status, doctor and log."""
    hub = Hub(lab)
    hub.write("web.yaml", service("web", ("http", 80, 8080)))
    for name, text, told in (("tab.yaml", "apiVersion: v1\nkind: Service\nmetadata:\n\tname: y\n", "tab.yaml:4: a tab indents the line: YAML wants spaces"),
                             ("kind.yaml", "apiVersion: v1\nkind: Servce\nmetadata: {name: y}\n", "kind.yaml:2: kind 'Servce' is not known: is Service meant?")):
        with open(os.path.join(hub.manifests, name), "w") as f:
            f.write(text)
        wait_for("told", lambda told=told: told in doctor(hub).get("manifest", ("", ""))[1])
        assert "mend the file at that line" in doctor(hub)["manifest"][2] and hub.process.logged(told)
        assert told in hub.machine.run(lab.program("edgewayctl"), "--socket", hub.socket, "status", check=False).stdout
        hub.delete(name)
        wait_for("over", lambda: "manifest" not in doctor(hub))
    hub.write("web2.yaml", service("web", ("http", 80, 9999)))
    told = "web2.yaml:1: Service default/web is defined in web.yaml:1, too: that one counts, as the first by name"
    wait_for("told", lambda: doctor(hub).get("manifest", ("",))[0] == "note")
    assert told in doctor(hub)["manifest"][1] and "leave the object in one place" in doctor(hub)["manifest"][2]
    assert told in hub.machine.run(lab.program("edgewayctl"), "--socket", hub.socket, "status").stdout
    assert hub.process.logged("files=web2.yaml:1,web.yaml:1 counts=web.yaml")


def test_what_is_alike_is_bounded(lab):
    """Of files with errors, and Services without endpoints, some are named and the rest is counted: one of another kind is not buried."""
    hub = Hub(lab)
    for i in range(9):
        hub.write(f"broken-{i}.yaml", {"apiVersion": "v1", "kind": "Service", "metadata": {"name": f"Broken {i}"}})
    hub.write("many.yaml", *[service(f"many-{i}", ("http", 80, 80), selector="nobody") for i in range(40)],
              service("wrong", ("http", 80, 80), annotations={"edgeway.io/nodes": "tier in ("}))
    status = wait_for("read", lambda: next((s for s in [hub.machine.run(lab.program("edgewayctl"), "--socket", hub.socket, "status").stdout] if "40 have no" in s), None))
    assert "files: and 4 more like these" in status and status.count("Broken ") == 5, status
    assert re.search(r"services: 40 have no endpoints: (default/many-\d+, ){4}default/many-\d+ and 35 more; the first: port 80: ", status), status
    assert "services: default/wrong: " in status and status.index("default/wrong") < status.index("40 have no endpoints"), status
    assert len(status) < 4000, status
    found = doctor(hub)
    assert found["manifest"][:2] == ("BAD", "4 more files have errors: edgewayctl state names them")
    assert found["services"][0] == "note" and "40 have no endpoints" in found["services"][1] and "spec.selector" in found["services"][2]

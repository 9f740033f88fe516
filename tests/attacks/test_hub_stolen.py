"""Somebody with a hub's certificate and key, but not the CA's key: a stolen disk, a backup. Once it is revoked it is no replica of any hub, and has no
say about others. (That nodes refuse it is tests/net/identity/test_identity.py::test_a_hub_is_revoked_alone.)"""
import json
import os
import shutil

from lab import HUB_ADDRESS, HUB_PORT, Hub, wait_for

THIEF = "192.0.2.3"


def peer(hub, address):
    """The state of the replica at this address, as the hub sees it."""
    return {p["address"]: p["state"] for p in json.loads(hub.ask("/peers")[1])["peers"]}.get(f"{address}:{HUB_PORT}")


def ctl(hub, *words):
    return hub.machine.run(hub.lab.program("edgewayctl"), "--socket", hub.socket, *words, check=False)


def test_no_replica_any_more(lab):
    good = Hub(lab, "--peers", THIEF)
    data, stolen = os.path.join(good.machine.dir, "data"), os.path.join(lab.dir, "stolen")
    os.mkdir(stolen)
    for name in ("hub.pem", "hub.key", "ca.pem"):
        shutil.copy(os.path.join(data, name), stolen)
    thief = Hub(lab, "--peers", HUB_ADDRESS, "--tls.cert", f"{stolen}/hub.pem", "--tls.key", f"{stolen}/hub.key", "--tls.ca", f"{stolen}/ca.pem",
                name="thief", address=THIEF)
    for h, other in ((good, THIEF), (thief, HUB_ADDRESS)):
        wait_for("a replica as any other", lambda h=h, other=other: peer(h, other) == "open")
    serial = good.state()["hub"]["certificates"]["hub"]["serial"]
    assert thief.state()["hub"]["certificates"]["hub"]["serial"] == serial
    assert ctl(good, "hub", "revoke", serial).stdout == f"revoked {serial}\n"
    wait_for("cut, and refused", lambda: peer(good, THIEF) != "open" and peer(thief, HUB_ADDRESS) != "open")
    wait_for("told", lambda: "its certificate was revoked" in good.process.log() and good.metrics()["edgeway_hub_peer_refused_total"] >= 1)
    own = good.state()["hub"]["certificates"]["hub"]["serial"]
    assert own != serial
    p = ctl(thief, "hub", "revoke", own)
    assert p.returncode == 1 and "no key of its CA" in p.stderr
    # A restart forgets nothing.
    good.process.kill()
    good.start()
    wait_for("refused again", lambda: good.metrics()["edgeway_hub_peer_refused_total"] >= 1)
    assert peer(good, THIEF) != "open" and good.state()["hub"]["certificates"]["hub"]["serial"] == own

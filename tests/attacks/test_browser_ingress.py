"""A page of somebody else's in an operator's browser asks the hub's ingress on loopback, by a name that leads there (DNS rebinding). As a program of
the hub's host it would be let through to every node; but what a page cannot choose is Host.
"""
import os

import pytest

from lab import HERE, BARE_PYTHON, Hub, Machine, wait_for

NODE = "192.0.2.31"


@pytest.fixture(scope="module")
def hub(lab):
    node = Machine(lab, "cloud-1", address=NODE)
    backend = node.start("backend", *BARE_PYTHON, os.path.join(HERE, "backend.py"), "--name", "cloud-1", "--http", "9100")
    made = Hub(lab, "--ingress.http", "127.0.0.1:10080", "--tls.names", "hub.example")
    made.write("node.yaml", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "cloud-1"},
                             "status": {"addresses": [{"type": "InternalIP", "address": NODE}]}})
    wait_for("backend", lambda: "serving" in backend.log())
    wait_for("a way", lambda: ask(made, "127.0.0.1:10080")[0] == 200)
    return made


def ask(hub, host, *fields):
    return hub.machine.get("http://127.0.0.1:10080/", "-H", f"Host: {host}", "-H", f"X-Tunnel-Proxy-Host: {NODE}:9100", *fields)


def test_a_name_of_somebody_else(hub):
    for fields in ((), ("-H", "Origin: http://rebind.example:10080"), ("-H", "X-Tunnel-Proxy-Dest: 127.0.0.1:22")):
        status, body = ask(hub, "rebind.example:10080", *fields)
        assert (status, "Host must be" in body) == (421, True)


def test_who_means_the_hub(hub):
    for host in ("127.0.0.1:10080", "localhost:10080", "[::1]:10080", "hub.example:10080", NODE):
        assert ask(hub, host) == (200, "cloud-1\n")
    proxied = hub.machine.get("http://any.example/", "-x", "http://127.0.0.1:10080", "-H", f"X-Tunnel-Proxy-Host: {NODE}:9100")
    assert proxied == (200, "cloud-1\n")

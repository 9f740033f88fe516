"""The mesh of conftest with the hub's page, at an address that others reach, and a desk from which somebody looks."""
import hashlib
import os
import signal

from conftest import Mesh
from lab import Machine, wait_for
from looker import ADDRESS, HOST, SECRET
from pki import Authority

RULES = ("[{from: local, to: ['*', 'hub:web']}, {from: 'token:ann', tokenSHA256: %s, to: ['hub:web']}, "
         "{from: 'token:bob', tokenSHA256: %s, to: ['*']}]" % tuple(hashlib.sha256(s.encode()).hexdigest() for s in (SECRET, "bobs")))
VIEWERS = 6


def site(name, where):
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"edgeway.io/site": where}}}


class World(Mesh):
    def __init__(self, lab):
        self.ca = Authority(lab.dir, "page")
        cert, key = self.ca.issue("web", f"subjectAltName=IP:{ADDRESS}")
        self.config = os.path.join(lab.dir, "hub.yaml")
        self.write_rules(RULES)
        super().__init__(lab, "--config", self.config, "--web.listen", HOST, "--web.cert", cert, "--web.key", key, "--web.names", "hub.test",
                         "--web.viewers", str(VIEWERS), "--ingress.http", "127.0.0.1:10080")
        self.hub.write("nodes.yaml", site("edge-1", "harbour"), site("edge-2", "mill"))
        self.desk = Machine(lab, "desk", address="192.0.2.21")

    def write_rules(self, rules):
        with open(self.config, "w") as f:
            f.write(f"access: {rules}\n")

    def reread(self):
        count = lambda: self.hub.metrics()['edgeway_hub_reloads_total{result="adopted"}']  # noqa
        before = count()
        self.hub.process.popen.send_signal(signal.SIGHUP)
        wait_for("read again", lambda: count() == before + 1)

    def carry(self):
        """An answer of a pod on edge-2, through its tunnel."""
        return self.hub.machine.get("http://web.shop:8000/", "-x", "http://127.0.0.1:10080")

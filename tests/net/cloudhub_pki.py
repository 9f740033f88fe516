"""A CA with a hub's and a node's certificate, as keadm leaves them on a machine."""
from pki import Authority


def make(machine, address):
    """Names of files: ca, ca.key, hub.crt, hub.key, node.crt, node.key."""
    ca = Authority(machine.dir, "KubeEdge")
    hub = ca.issue("hub", f"subjectAltName=IP:{address}", subject="/CN=KubeEdge")
    node = ca.issue("node", "extendedKeyUsage=clientAuth", subject="/O=system:nodes/CN=system:node:edge-1")
    return {"ca": ca.cert, "ca.key": ca.key, "hub.crt": hub[0], "hub.key": hub[1], "node.crt": node[0], "node.key": node[1]}

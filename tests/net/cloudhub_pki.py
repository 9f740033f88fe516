"""A CA with a hub's and a node's certificate, by the openssl program, as keadm leaves them on a machine."""
import os
import subprocess


def make(machine, address):
    """Names of files: ca, hub.crt, hub.key, node.crt, node.key."""
    at = {n: os.path.join(machine.dir, n) for n in ("ca", "ca.key", "hub.crt", "hub.key", "node.crt", "node.key")}

    def openssl(*argv):
        subprocess.run(["openssl", *argv], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def new_key():
        return ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30"]

    openssl("req", "-x509", *new_key(), "-subj", "/CN=KubeEdge", "-keyout", at["ca.key"], "-out", at["ca"],
            "-addext", "keyUsage=critical,keyCertSign")
    for who, subject, extension in (("hub", "/CN=KubeEdge", f"subjectAltName=IP:{address}"),
                                    ("node", "/O=system:nodes/CN=system:node:edge-1", "extendedKeyUsage=clientAuth")):
        csr = os.path.join(machine.dir, who + ".csr")
        more = csr + ".ext"
        with open(more, "w") as f:
            f.write(extension + "\n")
        openssl("req", "-new", *[a for a in new_key() if a not in ("-days", "30")], "-subj", subject,
                "-keyout", at[who + ".key"], "-out", csr)
        openssl("x509", "-req", "-in", csr, "-CA", at["ca"], "-CAkey", at["ca.key"], "-CAcreateserial", "-days", "30",
                "-extfile", more, "-out", at[who + ".crt"])
    return at

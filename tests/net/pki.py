"""A certificate authority by the openssl program: what the tests' own TLS servers and clients prove themselves with."""
import os
import subprocess

KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


def openssl(*argv):
    subprocess.run(["openssl", *argv], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class Authority:
    """cert and key are files, as is what issue() gives."""

    def __init__(self, folder, name="ca"):
        self.folder, self.cert, self.key = folder, os.path.join(folder, name + ".crt"), os.path.join(folder, name + ".key")
        openssl("req", "-x509", *KEY, "-days", "30", "-subj", "/CN=" + name, "-keyout", self.key, "-out", self.cert,
                "-addext", "keyUsage=critical,keyCertSign")

    @classmethod
    def of_hub(cls, hub):
        """The hub's own one, whose key lies in its dataDir."""
        ca, data = cls.__new__(cls), os.path.join(hub.machine.dir, "data")
        ca.folder, ca.cert, ca.key = hub.machine.dir, os.path.join(data, "ca.pem"), os.path.join(data, "ca.key")
        return ca

    def issue(self, name, *extensions, subject=None, days=30):
        """(certificate, key); extensions: "subjectAltName=IP:192.0.2.1", "extendedKeyUsage=clientAuth"."""
        at = os.path.join(self.folder, name)
        with open(at + ".ext", "w") as f:
            f.write("\n".join(extensions) + "\n")
        openssl("req", "-new", *KEY, "-subj", subject or "/CN=" + name, "-keyout", at + ".key", "-out", at + ".csr")
        openssl("x509", "-req", "-in", at + ".csr", "-CA", self.cert, "-CAkey", self.key, "-CAcreateserial", "-days", str(days),
                "-extfile", at + ".ext", "-out", at + ".crt")
        return at + ".crt", at + ".key"

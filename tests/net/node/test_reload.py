"""SIGHUP at the hub: rules of access and the certificates of listeners are read again, all or nothing; a stream that the new rules
would not open is cut.
"""
import hashlib
import os
import shutil
import signal
import ssl

import pytest

import lab as labs
from ingress_town import FRIEND, HUB, SERVER, STRANGER, WEB, Refused, Town, client_context, http_connect, socket_to
from lab import Lab
from pki import Authority

EGRESS = 8131
FRIENDLY = f"access:\n- {{from: 192.0.2.1, to: ['*']}}\n- {{from: {FRIEND}, to: ['default/*', 'cloud/{SERVER}:*']}}\n"
STRANGE = FRIENDLY.replace(FRIEND, STRANGER)


class Rules(Town):
    def __init__(self, lab):
        self.folder = os.path.join(lab.dir, "reload")
        os.makedirs(self.folder)
        self.config = os.path.join(self.folder, "hub.yaml")
        self.ca = Authority(self.folder)
        self.pair = [os.path.join(self.folder, name) for name in ("tls.crt", "tls.key")]
        self.certify("first")
        self.write(FRIENDLY)
        self.client = client_context(self.ca.cert, self.ca.issue("kube-apiserver", "extendedKeyUsage=clientAuth"))
        super().__init__(lab, "--config", self.config, "--ingress.egress",
                         f"{{listen: '{HUB}:{EGRESS}', cert: {self.pair[0]}, key: {self.pair[1]}, clientCA: {self.ca.cert}}}", access=None)

    def certify(self, name):
        for made, at in zip(self.ca.issue(name, f"subjectAltName=IP:{HUB}"), self.pair):
            shutil.copy(made, at)

    def write(self, text):
        with open(self.config, "w") as f:
            f.write(text)

    def count(self, result):
        return self.hub.metrics()[f'edgeway_hub_reloads_total{{result="{result}"}}']

    def reload(self, result="adopted"):
        before, at = self.count(result), len(self.hub.process.log())
        self.hub.process.popen.send_signal(signal.SIGHUP)
        labs.wait_for("read again", lambda: self.count(result) == before + 1)
        return self.log_since(at)

    def status(self, machine):
        return self.get(WEB + "/", machine=machine)[0]

    def subject(self):
        with self.client.wrap_socket(socket_to(self, (HUB, EGRESS)), server_hostname=HUB) as s:
            return s.getpeercert()["subject"][0][0][1]


@pytest.fixture(scope="module")
def town():
    with Lab() as lab:
        yield Rules(lab)


@pytest.fixture(autouse=True)
def as_at_first(town):
    town.write(FRIENDLY)
    town.certify("first")
    town.reload()
    yield from town.as_before()


def test_other_rules(town):
    assert (town.status(town.friend), town.status(town.stranger)) == (200, 403)
    town.write(STRANGE)
    log = town.reload()
    assert (town.status(town.friend), town.status(town.stranger)) == (403, 200)
    assert "reloaded key=access" in log and "rules of access adopted rules=2" in log


@pytest.mark.parametrize("text,why", [
    (STRANGE + "- {from: 10.0.0.0/99, to: ['*']}\n", "10.0.0.0/99"), (STRANGE + "- {to: ['*']}\n", "from is missing"),
    (STRANGE + "nonsense: 1\n", "nonsense"), (STRANGE + "}{", ""), ("access: []\n", "can be reached by others"), ("", "can be reached")])
def test_a_bad_file_keeps_the_old_rules_and_is_said(town, text, why):
    town.write(text)
    log = town.reload("refused")
    assert "what was in force stays so" in log and why in log
    assert (town.status(town.friend), town.status(town.stranger)) == (200, 403)


def test_streams_that_the_new_rules_would_not_open_are_cut(town):
    at = len(town.hub.process.log())
    with socket_to(town, (HUB, 10080), town.friend) as cut, socket_to(town, (HUB, 10080)) as stays:
        for s in (cut, stays):
            s.sendall(f"CONNECT {SERVER}:9090 HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            got = b""
            while not got.endswith(b"server\n"):
                got += s.recv(1) or pytest.fail(str(got))
            assert got.startswith(b"HTTP/1.1 200 ")
        town.write(STRANGE)
        assert "cut=1" in town.reload()
        with pytest.raises(ConnectionError):
            assert cut.recv(100) != b""
        stays.sendall(b"still")
        assert stays.recv(100) == b"still"
    labs.wait_for("audit", lambda: 'end="the rules of access have changed"' in town.log_since(at))


def token_rule(secret):
    return f"- {{from: 'token:ann', tokenSHA256: {hashlib.sha256(secret).hexdigest()}, to: ['cloud/{SERVER}:*']}}\n"


@pytest.mark.parametrize("kept", [False, True], ids=["changed", "added"])
def test_another_secret_of_a_token(town, kept):
    """What came with the former secret is cut, though the token's name still is in the rules; while both are in them both count."""
    former = token_rule(b"former")
    town.write(FRIENDLY + former)
    town.reload()
    at = len(town.hub.process.log())
    with socket_to(town, (HUB, 10080), town.stranger) as s:
        s.sendall(f"CONNECT {SERVER}:9090 HTTP/1.1\r\nHost: x\r\nProxy-Authorization: Bearer former\r\n\r\n".encode())
        got = b""
        while not got.endswith(b"server\n"):
            got += s.recv(1) or pytest.fail(str(got))
        town.write(FRIENDLY + former * kept + token_rule(b"latter"))
        if kept:
            assert "cut=0" in town.reload()
            s.sendall(b"still")
            assert s.recv(100) == b"still"
        else:
            assert "cut=1" in town.reload()
            with pytest.raises(ConnectionError):
                assert s.recv(100) != b""
    labs.wait_for("audit", lambda: "caller=token:ann" in town.log_since(at))
    for secret, status in (("former", 502 if kept else 403), ("latter", 502)):  # nobody listens there
        assert town.get(f"http://{SERVER}:1/", "-H", f"Proxy-Authorization: Bearer {secret}", machine=town.stranger)[0] == status


def test_a_waiting_connection_is_asked_again(town):
    """Kept alive between two requests: the second one meets the new rules."""
    ask = b"GET http://web.default/ HTTP/1.1\r\nHost: web.default\r\n\r\n"
    with socket_to(town, (HUB, 10080), town.friend) as s:
        s.sendall(ask)
        got = b""
        while not got.endswith(b"server\n"):  # head and body may come apart
            got += s.recv(4096) or pytest.fail(str(got))
        assert got.startswith(b"HTTP/1.1 200 ")
        town.write(STRANGE)
        assert "cut=0" in town.reload()
        s.sendall(ask)
        assert s.recv(4096).startswith(b"HTTP/1.1 403 ")


def test_certificates_of_a_listener(town):
    assert town.subject() == "first"
    town.certify("second")
    town.reload()
    assert town.subject() == "second"
    with open(town.pair[0], "w") as f:
        f.write("not a certificate")
    town.write(STRANGE)
    assert "ingress.egress" in town.reload("refused")
    assert town.subject() == "second" and town.status(town.stranger) == 403


def test_open_connections_keep_their_certificate(town):
    with town.client.wrap_socket(socket_to(town, (HUB, EGRESS)), server_hostname=HUB) as s:
        town.certify("third")
        town.reload()
        try:
            http_connect(s, "10.96.0.7:80")
        except (Refused, ssl.SSLError) as e:
            raise AssertionError(e) from e
        s.sendall(b"GET / HTTP/1.1\r\nHost: web\r\nConnection: close\r\n\r\n")
        assert s.recv(4096).startswith(b"HTTP/1.1 200 ")
    assert town.subject() == "third"


def test_the_longest_wait_at_the_end(lab):
    config = os.path.join(lab.dir, "hub.yaml")
    with open(config, "w") as f:
        f.write("drainTimeout: 1h\n")
    hub = labs.Hub(lab, "--config", config)
    with open(config, "w") as f:
        f.write("drainTimeout: 7s\n")
    hub.process.popen.send_signal(signal.SIGHUP)
    labs.wait_for("read again", lambda: hub.process.logged("reloaded key=drainTimeout"))
    assert hub.process.stop() == 0
    assert "drain_ms=7000" in hub.process.log()

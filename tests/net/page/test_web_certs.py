"""web.clientCA: the page is for those with a certificate that this CA has signed, and a rule may name them; why somebody else is refused the
hub's log says."""
import os
import signal

import pytest

from lab import Hub, Machine, wait_for
from looker import ADDRESS, HOST, Looker
from pki import Authority

pytestmark = pytest.mark.plain_build  # test_web_rules and test_identity have the parts

URL = f"https://{HOST}/"
NAMED = "access: [{from: 'cert:ann', to: ['hub:web']}]\n"


class Desk:
    def __init__(self, lab):
        self.own, self.callers, self.other = (Authority(lab.dir, name) for name in ("page", "callers", "strangers"))
        cert, key = self.own.issue("web", f"subjectAltName=IP:{ADDRESS}")
        self.config = os.path.join(lab.dir, "hub.yaml")
        self.write("")
        self.hub = Hub(lab, "--config", self.config, "--web.listen", HOST, "--web.cert", cert, "--web.key", key, "--web.clientCA", self.callers.cert)
        self.machine = Machine(lab, "desk", address="192.0.2.21")
        client = "extendedKeyUsage=clientAuth"
        self.pairs = {
            "ann": self.callers.issue("ann", client), "bob": self.callers.issue("bob", client), "old": self.callers.issue("old", client, days=-1),
            "a server": self.callers.issue("server", "extendedKeyUsage=serverAuth", f"subjectAltName=IP:{ADDRESS}"),
            "another CA": self.other.issue("stranger", client, subject="/CN=ann")}

    def write(self, text):
        with open(self.config, "w") as f:
            f.write(text)

    def reread(self, text):
        count = lambda: self.hub.metrics()['edgeway_hub_reloads_total{result="adopted"}']  # noqa
        before = count()
        self.write(text)
        self.hub.process.popen.send_signal(signal.SIGHUP)
        wait_for("read again", lambda: count() == before + 1)

    def get(self, who=None, *options):
        """(status, body) of curl's, which trusts the page's CA alone."""
        pair = ("--cert", self.pairs[who][0], "--key", self.pairs[who][1]) if who else ()
        return self.machine.get(URL, "--cacert", self.own.cert, *pair, *options)


@pytest.fixture(scope="module")
def desk(lab):
    made = Desk(lab)
    yield made
    print(f"--- log of the hub\n{made.hub.process.log()[-4000:]}")


def test_with_a_certificate(desk):
    """Of the CA, whatever its name, while no rule names anybody; by TLS 1.2 as well."""
    for who, options in (("ann", ()), ("bob", ()), ("ann", ("--tls-max", "1.2"))):
        status, body = desk.get(who, *options)
        assert status == 200 and body.startswith("<!DOCTYPE html>"), body
    with Looker(desk.machine, credentials=None, pair=desk.pairs["ann"]) as one:
        assert one.status == 101 and one.next("top")["viewers"] == 1


# Who comes with what, and what the hub's log says then: of the first six in a while, so that nobody fills it.
REFUSED = {None: "did not return a certificate", "another CA": "not signed by the CA that we trust", "old": "it has expired",
           "a server": "not made for this side of a connection"}


@pytest.mark.parametrize("who", REFUSED)
def test_refused_with_the_reason(desk, who):
    at, before = len(desk.hub.process.log()), desk.hub.metrics()['edgeway_web_refused_total{why="who"}']
    assert desk.get(who)[0] == 0
    wait_for("counted", lambda: desk.hub.metrics()['edgeway_web_refused_total{why="who"}'] == before + 1)
    line = desk.hub.process.log()[at:]
    assert "a TLS handshake failed" in line and "192.0.2.21" in line and REFUSED[who] in line, line


def test_a_rule_names_one(desk):
    """Then others of the CA are known and not let in; whose rule is taken away, that is how a certificate is revoked here, is cut off at once."""
    desk.reread(NAMED)
    assert desk.get("ann")[0] == 200
    status, body = desk.get("bob")
    assert status == 403 and "bob" not in body
    assert desk.get()[0] == 0
    with Looker(desk.machine, credentials=None, pair=desk.pairs["ann"]) as one:
        assert one.next("top")
        desk.reread(NAMED.replace("ann", "carl"))
        assert one.closed() == 1008
    assert desk.get("ann")[0] == 403
    with Looker(desk.machine, credentials=None, pair=desk.pairs["ann"]) as one:
        assert one.status == 403

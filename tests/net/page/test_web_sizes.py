"""The hub's page without a node, with three and with three hundred, at the width of a desk and of a phone: what needs attention comes first and
leads where it is, states differ by their shapes, and nothing that says how it is falls off the edge. Screenshots go to $top_builddir/tests/web."""
import datetime
import os
import shutil

import pytest

from browser import Browser
from fleet import Fleet
from lab import Agent, Hub, Node, pod, service, wait_for
from page import site
from pki import KEY, Authority, openssl

pytestmark = pytest.mark.plain_build  # the page, in a browser

DESK, PHONE = (1280, 900), (390, 844)
LISTEN = "127.0.0.1:10014"


def old_certificate(ca):
    """(certificate, key) of a hub that was good for 65 days, of which five are left: `openssl ca` alone can say when it began."""
    at = os.path.join(ca.folder, "old-hub")
    with open(at + ".cnf", "w") as f:
        f.write(f"[ca]\ndefault_ca=d\n[d]\ndatabase={at}.db\nnew_certs_dir={ca.folder}\nserial={at}.serial\ndefault_md=sha256\npolicy=p\n"
                "x509_extensions=e\n[p]\ncommonName=supplied\n[e]\nsubjectAltName=IP:192.0.2.1\nextendedKeyUsage=serverAuth\n")
    open(at + ".db", "w").close()
    with open(at + ".serial", "w") as f:
        f.write("77\n")
    openssl("req", "-new", *KEY, "-subj", "/CN=hub", "-keyout", at + ".key", "-out", at + ".csr")
    openssl("ca", "-batch", "-config", at + ".cnf", "-cert", ca.cert, "-keyfile", ca.key, "-in", at + ".csr", "-out", at + ".crt", "-notext",
            "-startdate", day(-60), "-enddate", day(5))
    return at + ".crt", at + ".key"


def day(n):
    return (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=n)).strftime("%Y%m%d%H%M%SZ")


class World:
    def __init__(self, lab):
        self.lab, self.ca = lab, Authority(lab.dir, "ca")
        self.options = ("--web.listen", LISTEN, "--tls.ca", self.ca.cert, "--tls.caKey", self.ca.key, "--ingress.http", "127.0.0.1:10080")
        self.hub = Hub(lab, *self.options)
        data = os.path.join(self.hub.machine.dir, "data")  # where the fleet looks for the CA
        shutil.copy(self.ca.cert, os.path.join(data, "ca.pem"))
        shutil.copy(self.ca.key, os.path.join(data, "ca.key"))


@pytest.fixture(scope="module")
def world(lab):
    made = World(lab)
    yield made
    print(f"--- log of the hub\n{made.hub.process.log()[-4000:]}")


@pytest.fixture(scope="module")
def page(world):
    with Browser(world.hub.machine) as b:
        b.go(f"http://{LISTEN}/")
        b.wait_text("live", "#link")
        yield b


def shots(world, page, name, where="#/", text=""):
    """At both widths; nothing is wider than the window."""
    folder = os.path.join(world.lab.build, "tests", "web")
    os.makedirs(folder, exist_ok=True)
    page.run("location.hash = arguments[0]", where)
    for what, (width, height) in (("desk", DESK), ("phone", PHONE)):
        page.size(width, height)
        page.wait_text(text, "main")
        assert page.run("return document.documentElement.scrollWidth <= innerWidth"), what
        page.size(width, min(max(height, page.run("return document.documentElement.scrollHeight")), 4 * height))
        page.shot(os.path.join(folder, f"{name}-{what}.png"))
    page.size(*DESK)


def needs(page):
    """{what needs attention: [(link, text)]}"""
    return dict(page.run("return [...document.querySelectorAll('.attention > li')].filter((li) => li.offsetParent).map((li) => [li.querySelector('.what').innerText, "
                         "[...li.querySelectorAll(':scope > ul a, :scope > ul b')].map((a) => [a.getAttribute('href'), a.parentNode.innerText])])"))


def states(page):
    return page.run("return Object.fromEntries([...document.querySelectorAll('.chip')].map((e) => [e.querySelector('b').textContent, e.querySelector('i').className]))")


def test_no_node_says_what_to_do_next(world, page):
    page.wait_text("Join the first node")
    said = page.text(".start pre")
    assert "token create --node edge-1" in said and "--hub.url wss://HUB:10000" in said and "--hub.tokenFile" in said
    assert needs(page) == {} and "no node has joined yet" in page.text(".well")
    shots(world, page, "0-nodes", text="Join the first node")


def test_a_tunnel_that_is_switched_off_is_well(world, page):
    """The node says so; of one that has no tunnel and does not say so the page does."""
    hub, nodes = world.hub, [Node(world.lab, f"edge-{i}", f"192.0.2.1{i}") for i in (1, 2)]
    hub.write("nodes.yaml", site("edge-1", "harbour"), site("edge-2", "mill"), site("node-0", "mill"))
    hub.write("services.yaml", service("web", ("http", 80, 8080), selector="web"), pod("web-1", nodes[0], "172.17.0.2", ("http", 8080, 30080), app="web"))
    agents = [Agent(n, hub, "--tunnel.enabled", enabled) for n, enabled in zip(nodes, ("false", "true"))]
    older = Fleet(hub, "plain", address="192.0.2.4")
    older.ask("connect", 1)
    wait_for("all three", lambda: states(page) == {"edge-1": "dot good", "edge-2": "dot good", "node-0": "dot bare"})
    assert page.run("return document.querySelector('.start').hidden")
    shots(world, page, "3-nodes", text="of 3 connected")
    shots(world, page, "3-nodes-list", "#/nodes", "its tunnel is switched off")
    page.run("location.hash = '#/node/edge-1'")
    page.wait_text("switched off", "dd")
    page.run("location.hash = '#/'")
    wait_for("its tunnel is missed", lambda: [r[0] for r in needs(page).get("1 node without a tunnel: the cloud does not reach it", [])] == ["#/node/node-0"])
    older.close()
    for a in agents:
        a.stop()
    wait_for("all are away", lambda: [r[0] for r in needs(page).get("3 nodes away", [])] == ["#/node/edge-1", "#/node/edge-2", "#/node/node-0"])


def test_requests_and_refusals(world, page):
    def curve(name):
        return page.run("return [...document.querySelectorAll('.traffic > div')].find((e) => e.querySelector('.label').innerText === arguments[0]).querySelector('.value').innerText", name)

    def seen():
        world.hub.machine.get("http://nobody.at.all/", "-x", "http://127.0.0.1:10080")
        return [curve(n) for n in ("Requests", "Refused or failed")]
    wait_for("both are counted", lambda: "0 /s" not in seen() and seen()[0].endswith("/s"))


@pytest.fixture(scope="module")
def many(world, page):
    """Three hundred nodes at 25 sites, twenty of them away; services without endpoints, or with some that do not serve; a broken file."""
    hub = world.hub
    hub.process.kill()
    cert, key = old_certificate(world.ca)
    hub.options = (*hub.options, "--tls.cert", cert, "--tls.key", key)
    hub.start()
    hub.write("nodes.yaml", *[site(f"node-{i}", f"shop-{i % 25:02d}" if i < 275 else "far-away") for i in range(300)])
    objects = []
    for i in range(40):
        objects += [service(f"app-{i:02d}", ("http", 80, 8080), selector=f"app-{i}")]
        objects += [pod(f"app-{i}-{k}", (f"node-{i + k}", "192.168.7.2"), f"172.17.0.{k + 2}", ("http", 8080, 30080), app=f"app-{i}", ready=i != 7 or k == 0)
                    for k in range(0 if i < 3 else 2)]
    objects += [service("typo", ("http", 80, "htpp"), selector="app-5")]
    hub.write("services.yaml", *objects)
    hub.write("broken.yaml", "kind: [\n")
    fleet = Fleet(hub)
    fleet.ask("connect", 300)
    fleet.ask("drop")
    fleet.ask("connect", 280)
    page.run("location.hash = '#/'")
    known = int(hub.metrics()["edgeway_hub_nodes_known"])  # with those of the test before, where that was run
    page.wait_text(f"280 of {known} connected", ".tile", seconds=60)
    yield known - 280
    fleet.close()


def test_what_needs_attention_comes_first_and_leads_there(world, page, many):
    said = needs(page)
    assert list(said) == ["A certificate of the hub ends soon", f"{many} nodes away", "1 service with a fault in its definition",
                          "3 services without an endpoint that serves", "1 manifest file cannot be read; what was said before counts on", "1 service with endpoints that do not serve"]
    assert said["A certificate of the hub ends soon"][0][1].startswith("hub ends in 5 d")
    assert said["3 services without an endpoint that serves"][0][0] == "#/service/default/app-00"
    assert said["1 service with a fault in its definition"][0][0] == "#/service/default/typo" and "htpp" in said["1 service with a fault in its definition"][0][1]
    assert said[f"{many} nodes away"][-1] == ["#/nodes?troubled=1", f"and {many - 6} more"] and len(said[f"{many} nodes away"]) == 7
    assert "broken.yaml:2:" in said["1 manifest file cannot be read; what was said before counts on"][0][1]
    assert said["1 service with endpoints that do not serve"][0][1] == "default/app-07 1 of 2 endpoints do not serve"
    assert page.run("return document.querySelector('.attention').getBoundingClientRect().top < document.querySelector('.tiles').getBoundingClientRect().top")
    shots(world, page, "300-nodes", text="nodes away")


def test_many_nodes_are_grouped_and_sorted_by_trouble(world, page, many):
    page.run("location.hash = '#/'")
    page.wait_text("Sites with trouble", "main")
    groups = page.run("return [...document.querySelectorAll('.group')].map((g) => [g.querySelector('h3').innerText, g.querySelectorAll('.site').length])")
    assert groups[0][0].startswith("Sites with trouble") and groups[1] == ["Sites where all is well: 25", 25]
    assert page.run("return [...document.querySelector('.site').querySelectorAll('.dots > *')].slice(0, 8).every((e) => e.className == 'chip' && e.querySelector('.dot.down'))")
    assert page.run("return document.querySelectorAll('.map > svg path').length") == 0  # in several rows of cards they would be behind them
    page.run("location.hash = '#/nodes'")
    page.wait_text("away", "tr.group")
    rows = page.run("return [...document.querySelectorAll('tbody tr')].map((r) => r.className || r.querySelector('.badge').className)")
    assert rows[:many + 3] == ["group"] + ["badge down"] * many + ["group", "badge good"]
    assert page.run("return [...document.querySelector('tr.group th').children].map((e) => e.innerText)") == ["away", str(many)]
    shots(world, page, "300-nodes-list", "#/nodes", "away")


def test_states_differ_by_shape(world, page, many):
    """Whatever the colours are: without them no two look alike, on the map and in lists."""
    page.run("location.hash = '#/'")
    page.wait_text("280 of", ".tile")
    for kind, pseudo in (("dot", None), ("badge", "::before")):
        shapes = page.run("""return ["good", "lags", "bare", "down", "elsewhere", "revoked"].map((state) => {
            const e = document.createElement("i");
            e.className = `${arguments[0]} ${state}`;
            document.querySelector("main").append(e);
            const s = getComputedStyle(e, arguments[1]), shape = [s.clipPath, s.borderTopWidth, s.borderRadius].join();
            e.remove();
            return shape;
        })""", kind, pseudo)
        assert len(set(shapes)) == 6, shapes


@pytest.mark.parametrize("where, name, why", [("#/services?troubled=1", "default/app-00", ""), ("#/nodes", "node-285", "away for")])
def test_state_and_why_are_seen_on_a_phone(world, page, many, where, name, why):
    page.run("location.hash = arguments[0]", where)
    page.size(*PHONE)
    page.wait_text(name, "tbody")
    for column in ("state", "why"):
        text, seen = page.run("""const row = [...document.querySelectorAll("tbody tr")].find((r) => r.querySelector(".name")?.innerText === arguments[0]);
            const cell = row.querySelector(`.${arguments[1]}`), box = cell.getBoundingClientRect();
            return [cell.innerText, box.width > 20 && box.height > 10 && box.left >= 0 && box.right <= innerWidth];""", name, column)
        assert seen and text and (column == "state" or why in text), (column, text)
    page.size(*DESK)
    shots(world, page, "300-" + where.strip("#/").partition("?")[0] + "-troubled", where, name)

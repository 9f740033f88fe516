"""The hub's page: in a browser it shows what there is, live, at any width, whatever names say; without one, who is let in and
how much anybody may ask for. Screenshots go to $top_builddir/tests/web."""
import contextlib
import hashlib
import json
import os
import signal
import socket
import threading

import pytest

from browser import Browser
from conftest import Mesh
from lab import PYTHON, Agent, Machine, Node, pod, service, wait_for
from looker import ADDRESS, BASIC, HOST, PORT, SECRET, Looker, ask, connect
from pki import Authority

PAGE = f"https://anybody:{SECRET}@{HOST}/"
OWNED = "<img src=x onerror=\"window.owned=1\"><script>window.owned=2</script>"
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


@pytest.fixture(scope="module")
def world(lab):
    made = World(lab)
    yield made
    print(f"--- log of the hub\n{made.hub.process.log()[-6000:]}")


@pytest.fixture(scope="module")
def silent(world):
    """One who never says anything, not even pongs."""
    with Looker(world.desk) as one:
        yield one


@pytest.fixture(scope="module")
def browser(world):
    with Browser(world.desk) as b:
        b.go(PAGE)
        b.wait_text("live", "#link")
        yield b


@pytest.fixture
def page(browser):
    browser.run("location.hash = '#/'; window.unchanged = 1")
    browser.complaints()
    yield browser
    assert browser.complaints() == [] and browser.run("return window.unchanged") == 1  # neither faults nor a load of the page


def shot(world, page, name):
    folder = os.path.join(world.lab.build, "tests", "web")
    os.makedirs(folder, exist_ok=True)
    page.shot(os.path.join(folder, name + ".png"))


def show(page, where, text, selector="main"):
    page.run("location.hash = arguments[0]", where)
    page.wait_text(text, selector)


def chips(page):
    return page.run("return Object.fromEntries([...document.querySelectorAll('.chip')].map((e) => "
                    "[e.querySelector('b').textContent, e.querySelector('i').className]))")


# --- in the browser ------------------------------------------------------------------------------


def test_hub_restarts(world, page):
    page.wait_text("of 2 connected")
    world.hub.process.kill()
    page.wait_text("The link to the hub is lost", "#banner")
    assert page.text("#link") == "lost" and "What you see is of" in page.text("#banner")
    shot(world, page, "lost")
    world.hub.start()
    page.wait_text("live", "#link", seconds=40)
    wait_for("all are back", lambda: page.run("return document.getElementById('banner').hidden") and
             chips(page) == {"edge-1": "dot good", "edge-2": "dot good"}, 40)


def test_silence(silent):
    """Begins here, ends at the end."""
    assert silent.status == 101


def test_overview(world, page):
    page.wait_text("2 of 2 connected", ".tile")
    wait_for("both are well", lambda: chips(page) == {"edge-1": "dot good", "edge-2": "dot good"})
    assert set(page.text(".site header a").split("\n")) == {"harbour", "mill"}
    assert "1 without an endpoint" in page.text(".tile")
    shot(world, page, "overview")


def test_services_and_endpoints(world, page):
    show(page, "#/services", "default/edge-nginx")
    assert "no endpoint serves" in page.run("return [...document.querySelectorAll('tr')].find((r) => r.innerText.includes('default/empty')).innerText")
    page.type("input[type=search]", "shop/")
    page.wait("one is left", "return document.querySelectorAll('tbody tr').length == 1 && document.querySelector('tbody').innerText.includes('shop/web')")
    shot(world, page, "services")
    page.click("tbody a")
    page.wait_text("As every node sees it")
    shot(world, page, "service")


def dialled(page):
    """{node: [(address, node that has the endpoint)]} as the page shows them."""
    rows = page.run("return [...[...document.querySelectorAll('table')].at(-1).querySelectorAll('tbody tr')].map((r) => "
                    "[r.querySelector('a').textContent, [...r.querySelectorAll('.way')].map((w) => [...w.children].map((e) => e.textContent))])")
    return {name: sorted((address, how.rpartition(", ")[2]) for address, how in ways) for name, ways in rows}


def test_every_node_sees_what_the_page_says(world, page):
    """What the hub works out for each node is what that node dials."""
    show(page, "#/service/shop/web", "172.17.0.2:8080")

    def own(agent):
        services = json.loads(agent.ask("/debug/services")[1])["services"]
        found = [s for s in services if (s["namespace"], s["name"]) == ("shop", "web")]
        return sorted((e["address"], e["node"]) for p in found[0]["ports"] for e in p["endpoints"])

    wait_for("the same", lambda: dialled(page) == {a.node.name: own(a) for a in world.agents} and len(own(world.agent1)) == 4)


def test_changes_come_by_themselves(world, page):
    show(page, "#/service/shop/late", "no such service")
    world.hub.write("late.yaml", service("late", ("http", 80, 8080), selector="late", namespace="shop"),
                    pod("late-1", world.node1, "172.17.0.77", ("http", 8080, 0), app="late", namespace="shop"))
    page.wait_text("late-1")
    world.hub.delete("late.yaml")
    page.wait_text("no such service")


def test_node_dies_and_comes_back(world, page):
    world.agent2.process.popen.send_signal(signal.SIGKILL)
    wait_for("edge-2 is away", lambda: chips(page) == {"edge-1": "dot good", "edge-2": "dot down"}, 20)
    assert "1 away" in page.text(".tile")
    shot(world, page, "away")
    show(page, "#/nodes?troubled=1", "edge-2")
    assert "edge-1" not in page.text("tbody")
    world.agent2.process.wait()
    world.agent2.start()
    page.run("location.hash = '#/'")
    wait_for("edge-2 is back", lambda: chips(page).get("edge-2") == "dot good", 20)


def test_traffic(world, page):
    show(page, "#/nodes?sort=in&desc=1", "edge-2")
    for _ in range(5):
        assert world.carry()[0] == 200
    page.wait("traffic", "return [...document.querySelectorAll('tbody tr')].some((r) => /[1-9]/.test(r.children[4].textContent))")
    name = page.run("return document.querySelector('tbody a').textContent")  # the busiest stands first
    show(page, f"#/node/{name}", "Carried")
    page.wait("carried", "return / [1-9]|^[1-9]/.test([...document.querySelectorAll('dd')].at(-1).textContent)")
    shot(world, page, "node")


def test_hostile_names(world, page):
    """Whatever the cluster, a file's name or a peer says is text: nothing of it becomes part of the page."""
    world.hub.write("hostile.yaml", site("edge-1", "harbour"), site("edge-2", "mill"),
                    {**site("edge-2", OWNED), "metadata": {"name": "edge-2", "labels": {"edgeway.io/site": OWNED}}})
    with open(os.path.join(world.hub.manifests, "<img src=x onerror=window.owned=3>.yaml"), "w") as f:
        f.write("kind: [")
    show(page, "#/events", "<img src=x onerror=window.owned=3>")
    page.run("location.hash = '#/' + arguments[0]", f"service/{OWNED}/x")
    page.wait_text("no such service")
    for where in ("#/", "#/nodes", "#/services", f"#/nodes?q={OWNED}"):
        page.run("location.hash = arguments[0]", where)
        page.wait("drawn", "return document.querySelector('main h1, .tile') !== null")
    assert page.run("return [window.owned, document.querySelectorAll('main img, main script').length]") == [None, 0]
    world.hub.delete("<img src=x onerror=window.owned=3>.yaml")
    world.hub.delete("hostile.yaml")


def test_events_filter(world, page):
    show(page, "#/events", "tunnel open")
    page.type("input[type=search]", "node connected")
    page.wait("fewer", "return [...document.querySelectorAll('tbody tr')].every((r) => r.innerText.includes('node connected'))")
    shot(world, page, "events")


@pytest.mark.parametrize("width, scheme", [(400, "light"), (1280, "dark")])
def test_widths_and_schemes(world, page, width, scheme):
    page.size(width, 860)
    page.scheme(scheme)
    for where, text in (("#/", "of 2 connected"), ("#/nodes", "edge-1"), ("#/service/shop/web", "172.17.0.3:8080")):
        show(page, where, text)
        assert page.run("return document.documentElement.scrollWidth <= innerWidth"), where
        shot(world, page, f"{scheme}-{width}-{where.strip('#/').replace('/', '-') or 'overview'}")
    ink, paper = page.run("const s = getComputedStyle(document.body); return [s.color, s.backgroundColor].map((c) => c.match(/\\d+/g)[0] * 1)")
    assert (ink > 200 and paper < 60) if scheme == "dark" else (ink < 60 and paper > 200)
    page.scheme("light")
    page.size(1280, 860)


def test_keyboard(world, page):
    """Every link and button is reached by Tab, and a column is sorted without a mouse."""
    show(page, "#/nodes", "edge-1")
    page.run("document.querySelector('th button').focus()")
    page.key("\ue004", "\ue007")  # Tab, Enter
    page.wait("sorted by health", "return document.querySelectorAll('th')[1].getAttribute('aria-sort') == 'descending' || "
              "document.querySelectorAll('th')[1].getAttribute('aria-sort') == 'ascending'")
    assert page.run("return document.activeElement.innerText") == "Health"  # and stays there while rows change


def row_of(page, node):
    return page.run("const r = [...[...document.querySelectorAll('table')].at(-1).querySelectorAll('tbody tr')].find((r) => "
                    "r.querySelector('a').textContent == arguments[0]); return r ? r.lastChild.textContent : ''", node)


def test_what_nodes_say_themselves(world, page):
    """With the rights of him who looks, and where the node allows it: how its endpoints do."""
    show(page, "#/service/shop/web", "edge-2")
    wait_for("no rule", lambda: row_of(page, "edge-2").startswith("not told: 403: no rule"))
    world.write_rules(RULES.replace("to: ['hub:web']}, {from: 'token:bob'", "to: ['hub:web', '*:40002']}, {from: 'token:bob'"))
    world.reread()
    wait_for("the node's own no", lambda: row_of(page, "edge-1").startswith("not told: 403") and "no rule" not in row_of(page, "edge-1"))
    world.agent2.stop()
    world.agent2.start("--tunnel.allow", "node,node:40002,pods,services")
    wait_for("nothing was asked for yet", lambda: row_of(page, "edge-2") == "4 not used lately", 20)

    def call():
        return world.client2.get("http://web.shop.svc.cluster.local:8000/")
    wait_for("used", lambda: call()[0] == 200 and row_of(page, "edge-2") == "4 up", 20)
    next(p for p in world.lab.processes if p.name == "edge-2.web-0/backend").kill()
    wait_for("ejected", lambda: call()[0] == 200 and row_of(page, "edge-2") == "3 up, 1 ejected" and
             page.text(".way.ejected").startswith("172.17.0.2:8080"), 20)
    shot(world, page, "ejected")
    world.write_rules(RULES)
    world.reread()
    wait_for("forgotten", lambda: row_of(page, "edge-2").startswith("not told: 403: no rule"))


# --- without one ------------------------------------------------------------------------------------


def test_what_a_head_says(world):
    """Fields that keep the page from being framed, guessed at, kept by caches, or fetched by others."""
    status, fields, body = ask(world.desk, BASIC)
    assert status == 200 and body.startswith("<!DOCTYPE html>")
    assert fields["content-security-policy"].startswith("default-src 'self';") and "frame-ancestors 'none'" in fields["content-security-policy"]
    assert fields["x-content-type-options"] == "nosniff" and fields["cross-origin-resource-policy"] == "same-origin"
    again = ask(world.desk, BASIC, f"If-None-Match: {fields['etag']}")
    assert again[0] == 304 and again[2] == ""
    assert ask(world.desk, BASIC, 'If-None-Match: "0000000000000000"')[0] == 200
    status, fields, body = ask(world.desk, BASIC, method="HEAD", path="/app.js")
    assert (status, body) == (200, "") and int(fields["content-length"]) > 1000
    assert ask(world.desk, f"Authorization: Bearer {SECRET}")[0] == 200
    assert ask(world.desk, BASIC, host="hub.test")[0] == 200


REFUSED = {
    "nobody": ((), {}, 401), "a wrong token": (("Authorization: Bearer x",), {}, 401), "half a secret": (("Authorization: Basic !",), {}, 401),
    "a token for other things": (("Authorization: Bearer bobs",), {}, 403),
    **{m: ((BASIC,), {"method": m}, 405) for m in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS")},
    "a body": ((BASIC, "Content-Length: 1"), {"body": "x"}, 400), "chunks": ((BASIC, "Transfer-Encoding: chunked"), {"body": "0\r\n\r\n"}, 400),
    "another's name": ((BASIC,), {"host": "evil.example"}, 421), "another's name as target": ((BASIC,), {"path": "http://evil.example/"}, 421),
    "a name like an address": ((BASIC,), {"host": "192.0.2.1.evil.example"}, 421),
    "another's page": ((BASIC, "Origin: https://evil.example"), {}, 403), "a page of nowhere": ((BASIC, "Origin: null"), {}, 403),
    "another scheme": ((BASIC, f"Origin: http://{HOST}"), {}, 403), "another port": ((BASIC, f"Origin: https://{ADDRESS}"), {}, 403),
    "no such page": ((BASIC,), {"path": "/x"}, 404), "a way out": ((BASIC,), {"path": "/../hub.sock"}, 404),
    "no websocket": ((BASIC,), {"path": "/live"}, 426), "a large head": ((BASIC, "X: " + "x" * 9000), {}, 431),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused(world, what):
    lines, options, status = REFUSED[what]
    before = world.hub.metrics()
    got, fields, body = ask(world.desk, *lines, **options)
    assert got == status and body.strip() and "<" not in body
    assert ("www-authenticate" in fields) == (status == 401) and ("allow" in fields) == (status == 405)
    counted = sum(v - before[k] for k, v in world.hub.metrics().items() if k.startswith("edgeway_web_refused"))
    assert counted == (0 if what == "nobody" else 1)


@pytest.mark.parametrize("line", ["GET / HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\nHost: a\n\n", "\x16\x03\x01", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
                                  "GET / HTTP/9.9\r\nHost: a\r\n\r\n"])
def test_no_request(world, line):
    with connect(world.desk) as s:
        s.sendall(line.encode() + b"\r\n\r\n")
        assert s.recv(100).startswith((b"HTTP/1.1 400", b"HTTP/1.1 505"))


def test_plain_text_is_not_spoken(world):
    with connect(world.desk, tls=False) as s:
        s.sendall(f"GET / HTTP/1.1\r\nHost: {HOST}\r\n{BASIC}\r\n\r\n".encode())
        try:
            assert not s.recv(1000).startswith(b"HTTP")
        except ConnectionError:
            pass


@pytest.mark.parametrize("more, status", [({"credentials": None}, 401), ({"origin": "https://evil.example"}, 403), ({"origin": f"http://{HOST}"}, 403)])
def test_websocket_refused(world, more, status):
    with Looker(world.desk, **more) as one:
        assert one.status == status


def test_lines(world):
    """A viewer gets what he wants, and what makes no sense ends it."""
    with Looker(world.desk) as one:
        assert one.status == 101
        assert one.next("top")["nodes"] == 2
        one.want("view=services&q=shop")
        assert [r["name"] for r in one.next("services")["rows"]] == ["shop/web"]
        one.want("view=node&name=edge-1")
        assert one.next("node")["site"] == "harbour"
        one.want("view=services&sort=ready&desc&from=50000")
        assert one.next("services", lambda m: m["total"] == 3)["from"] == 0
        one.want("view=everything")
        assert one.closed() == 1008
    for line in ("x" * 2000, "view=%00", "view=nodes&from=-1", "view=nodes&q=" + "x" * 500):
        with Looker(world.desk) as one:
            one.want(line)
            assert one.closed() == 1008, line
    with Looker(world.desk) as one:
        one.frame(1, b"view=nodes\n")  # a text
        assert one.closed() == 1003


def test_who_asks_without_end(world):
    before = world.hub.metrics()["edgeway_web_dropped_total"]
    with Looker(world.desk) as one:
        frame = bytes([0x82, 0x80 | 125, 0, 0, 0, 0]) + b"view=services&q=".ljust(124, b"x") + b"\n"
        with contextlib.suppress(OSError):
            one.s.sendall(frame * 2000)
        wait_for("he is dropped", lambda: world.hub.metrics()["edgeway_web_dropped_total"] == before + 1)


def test_who_asks_often(world):
    """He holds up nobody: others hear of what is new within the second, or so, as ever."""
    with Looker(world.desk) as other, contextlib.ExitStack() as stack:
        other.want("view=services&q=fresh")
        assert other.next("services")["total"] == 0
        eager = [stack.enter_context(Looker(world.desk)) for _ in range(2)]
        done = threading.Event()

        def ask_on():
            while not done.wait(0.003):
                for one in eager:
                    one.want("view=nodes")
        thread = threading.Thread(target=ask_on)
        thread.start()
        other.s.settimeout(5)
        try:
            world.hub.write("fresh.yaml", service("fresh", ("http", 80, 8080)))
            assert other.next("services")["total"] == 1
        finally:
            done.set()
            thread.join()
            world.hub.delete("fresh.yaml")


def test_too_many(world, browser):
    """The page's own browser and the silent one are among them."""
    def only_those():
        return world.hub.metrics()["edgeway_web_viewers"] <= 2
    kept = []
    wait_for("those of other tests are gone", only_those)
    try:
        wait_for("all places are taken", lambda: kept.append(Looker(world.desk)) or kept[-1].status == 503)
        assert kept[-1].fields["retry-after"] and world.hub.metrics()["edgeway_web_viewers"] == VIEWERS
        assert ask(world.desk, BASIC)[0] == 200
    finally:
        for one in kept:
            one.s.close()
    wait_for("their places are free", only_those)


def test_slow_reader(world):
    """Nothing queues up for who does not read, and others are told as before."""
    world.hub.write("many.yaml", *[service(f"many-{i}", ("http", 80, 8080), namespace="many") for i in range(60)])
    before = world.hub.metrics()["edgeway_web_skipped_total"]
    with Looker(world.desk, small=True) as slow, Looker(world.desk) as other:
        def passed_over():
            slow.want("view=services")
            return world.hub.metrics()["edgeway_web_skipped_total"] > before
        assert slow.status == other.status == 101
        wait_for("passed over", passed_over, 30)
        other.want("view=node&name=edge-2")
        assert other.next("node")["name"] == "edge-2"
    world.hub.delete("many.yaml")


def test_silent_viewer_is_dropped(world, silent):
    """Half a minute after he began, most of which other tests have had."""
    silent.s.settimeout(45)
    with contextlib.suppress(ConnectionError):
        while silent.s.recv(65536):
            pass
    assert world.hub.metrics()["edgeway_web_dropped_total"] > 0


def test_rules_change(world):
    """SIGHUP ends what the new rules do not let in."""
    with Looker(world.desk) as one:
        assert one.next("top")
        world.reread()
        one.want("view=nodes")
        assert one.next("nodes")["total"] == 2  # the same rules
        world.write_rules("[{from: local, to: ['*', 'hub:web']}]")
        world.reread()
        assert one.closed() == 1008
    assert ask(world.desk, BASIC)[0] == 401
    world.write_rules(RULES)
    world.reread()
    assert ask(world.desk, BASIC)[0] == 200


def test_status_line(world):
    p = world.hub.machine.run(world.lab.program("edgewayctl"), "--socket", world.hub.socket, "status", check=False)
    assert f"{HOST}, " in p.stdout and f"of {VIEWERS} look" in p.stdout, p.stdout

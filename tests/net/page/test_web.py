"""The hub's page in a browser: it shows what there is, live, at any width, whatever names say. Screenshots go to
$top_builddir/tests/web. Without a browser: test_web_rules.py, test_web_nodes.py."""
import json
import os
import signal

import pytest

from browser import Browser
from lab import pod, service, wait_for
from looker import HOST, SECRET
from page import World, site

pytestmark = pytest.mark.plain_build  # the page, in a browser; test_web_rules asks for the same

PAGE = f"https://anybody:{SECRET}@{HOST}/"
OWNED = "<img src=x onerror=\"window.owned=1\"><script>window.owned=2</script>"


@pytest.fixture(scope="module")
def world(lab):
    made = World(lab)
    yield made
    print(f"--- log of the hub\n{made.hub.process.log()[-6000:]}")


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
             chips(page) == {"edge-1": "dot good", "edge-2": "dot good"})


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
    wait_for("edge-2 is away", lambda: chips(page) == {"edge-1": "dot good", "edge-2": "dot down"})
    assert "1 away" in page.text(".tile")
    shot(world, page, "away")
    show(page, "#/nodes?troubled=1", "edge-2")
    assert "edge-1" not in page.text("tbody")
    world.agent2.process.wait()
    world.agent2.start()
    page.run("location.hash = '#/'")
    wait_for("edge-2 is back", lambda: chips(page).get("edge-2") == "dot good")


def test_traffic(world, page):
    show(page, "#/nodes?sort=in&desc=1", "edge-2")
    for _ in range(5):
        assert world.carry()[0] == 200
    page.wait("traffic", "return [...document.querySelectorAll('tbody tr')].some((r) => /[1-9]/.test(r.querySelectorAll('td')[5]?.textContent))")
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
        if "service" in where:
            wait_for("what nodes say is seen at every width", lambda: page.text("main").count("4 not used lately") == len(world.agents))
            page.run("scrollTo(0, document.body.scrollHeight)")
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
    page.wait("the other way round", "return document.querySelectorAll('th')[1].getAttribute('aria-sort') == 'descending'")
    assert page.run("return document.activeElement.innerText") == "State"  # and stays there while rows change


def row_of(page, node):
    return page.run("const r = [...[...document.querySelectorAll('table')].at(-1).querySelectorAll('tbody tr')].find((r) => "
                    "r.querySelector('a').textContent == arguments[0]); return r ? r.lastChild.textContent : ''", node)


def test_what_nodes_say_themselves(world, page):
    """How its endpoints do, without any right on the node; test_web_nodes.py has the rest."""
    show(page, "#/service/shop/web", "edge-2")
    wait_for("nothing was asked for yet", lambda: row_of(page, "edge-2") == "4 not used lately")

    def call():
        return world.client2.get("http://web.shop.svc.cluster.local:8000/")
    wait_for("used", lambda: call()[0] == 200 and row_of(page, "edge-2") == "4 up")
    next(p for p in world.lab.processes if p.name == "edge-2.web-0/backend").kill()
    wait_for("ejected", lambda: call()[0] == 200 and row_of(page, "edge-2") == "3 up, 1 ejected" and
             page.text(".way.ejected").startswith("172.17.0.2:8080"))
    shot(world, page, "ejected")
    page.run("location.hash = '#/'")
    page.wait("what is dead", "return [...document.querySelectorAll('.attention > li')].some((li) => li.querySelector('.what').textContent == "
              "'1 service with endpoints that nodes find dead' && li.querySelector(':scope > ul a').getAttribute('href') == '#/service/shop/web' && "
              "li.querySelector(':scope > ul li').textContent == 'shop/web 1 endpoint, says edge-2')", seconds=90)
    shot(world, page, "dead")
    show(page, "#/service/shop/web", "edge-2")
    world.agent1.stop()
    wait_for("away", lambda: row_of(page, "edge-1") == "not told: it is connected to no hub")
    shot(world, page, "not-told")
    world.agent1.start()
    wait_for("again", lambda: row_of(page, "edge-1").startswith("4 "))

"""The hub's page without a browser: who is let in, what a request must be, and how much anybody may ask for."""
import contextlib
import hashlib
import threading

import pytest

from lab import PATIENCE_S, Machine, service, wait_for
from looker import ADDRESS, BASIC, HOST, SECRET, Looker, ask, connect
from page import RULES, VIEWERS, World


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


def test_silence(silent):
    """Begins here, ends at the end."""
    assert silent.status == 101


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


def test_who_does_not_read_the_answers_to_his_pings(world):
    """They do not pile up, however slowly he sends."""
    def counted(what):
        return world.hub.metrics()[f"edgeway_web_{what}_total"]

    def ping(one, n):
        with contextlib.suppress(OSError):
            one.s.sendall((bytes([0x89, 0x80 | 125, 0, 0, 0, 0]) + b"x" * 125) * n)
            one.want("view=overview")  # has a turn soon

    skipped, dropped = counted("skipped"), counted("dropped")
    with Looker(world.desk, small=True) as one:
        wait_for("passed over", lambda: ping(one, 20) or counted("skipped") > skipped)
        for _ in range(5):
            skipped = counted("skipped")
            ping(one, 60)
            wait_for("passed over, or dropped", lambda: ping(one, 20) or counted("skipped") > skipped or counted("dropped") > dropped)
        assert counted("dropped") == dropped + 1


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
        try:
            world.hub.write("fresh.yaml", service("fresh", ("http", 80, 8080)))
            assert other.next("services")["total"] == 1
        finally:
            done.set()
            thread.join()
            world.hub.delete("fresh.yaml")


def test_too_many(world, silent):
    """The silent one is among them."""
    def only_those():
        return world.hub.metrics()["edgeway_web_viewers"] <= 1
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


def test_silent_connections_of_somebody_else(world):
    """They keep nobody out, and nobody's viewer has to go for them."""
    def full():
        return world.hub.metrics()['edgeway_web_refused_total{why="full"}']

    def open_many():
        kept.extend(connect(stranger, tls=False) for _ in range(70))

    stranger, kept, before = Machine(world.lab, "stranger", address="192.0.2.22"), [], full()
    try:
        wait_for("all places are taken", lambda: open_many() or full() > before)
        with Looker(world.desk) as one:
            assert one.status == 101
            before = full()
            wait_for("all are taken again", lambda: open_many() or full() > before)
            one.want("view=nodes")
            assert one.next("nodes")["total"] == 2
            assert ask(world.desk, BASIC)[0] == 200
    finally:
        for s in kept:
            s.close()


def test_slow_reader(world):
    """Nothing queues up for who does not read, and others are told as before."""
    world.hub.write("many.yaml", *[service(f"many-{i}", ("http", 80, 8080), namespace="many") for i in range(60)])
    before = world.hub.metrics()["edgeway_web_skipped_total"]
    with Looker(world.desk, small=True) as slow, Looker(world.desk) as other:
        def passed_over():
            slow.want("view=services")
            return world.hub.metrics()["edgeway_web_skipped_total"] > before
        assert slow.status == other.status == 101
        wait_for("passed over", passed_over)
        other.want("view=node&name=edge-2")
        assert other.next("node")["name"] == "edge-2"
    world.hub.delete("many.yaml")


def test_silent_viewer_is_dropped(world, silent):
    """Half a minute after he began, most of which other tests have had."""
    silent.s.settimeout(PATIENCE_S)
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


def test_another_secret(world):
    """The remedy for a token that somebody else has: what it opened ends, though the name of the token still is in the rules."""
    with Looker(world.desk) as thief:
        assert thief.next("top")
        world.write_rules(RULES.replace(hashlib.sha256(SECRET.encode()).hexdigest(), hashlib.sha256(b"another").hexdigest()))
        world.reread()
        assert thief.closed() == 1008
    assert ask(world.desk, BASIC)[0] == 401
    world.write_rules(RULES)
    world.reread()
    assert ask(world.desk, BASIC)[0] == 200


def test_status_line(world):
    p = world.hub.machine.run(world.lab.program("edgewayctl"), "--socket", world.hub.socket, "status", check=False)
    assert f"{HOST}, " in p.stdout and f"of {VIEWERS} look" in p.stdout, p.stdout

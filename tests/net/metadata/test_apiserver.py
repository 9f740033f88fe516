"""Does the test API server (tests/apiserver) behave as the recordings of a real one say? Each recorded request is sent to it, in
the state in which the real one was, and the answers are compared: status, heads in their order, members, messages."""
import base64
import json
import os
import re
import socket
import ssl
import sys
import threading

import pytest

from lab import TOP

pytestmark = pytest.mark.plain_build  # the test server, which is no program of ours

sys.path.insert(0, os.path.join(TOP, "tests", "apiserver"))
import server as apiserver  # noqa: E402
from store import LISTED  # noqa: E402

DATA = os.path.join(TOP, "tests", "data", "kubernetes")
SERVICES, SLICES, PODS, NODES = ("", "services"), ("discovery.k8s.io", "endpointslices"), ("", "pods"), ("", "nodes")


def split_answer(raw):
    """(status line, [(name, value)], body) with the chunks put together."""
    head, _, body = raw.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    headers = [tuple(line.split(": ", 1)) for line in lines[1:]]
    if dict(headers).get("Transfer-Encoding") == "chunked":
        whole = b""
        while body:
            size, _, body = body.partition(b"\r\n")
            if int(size, 16) == 0:
                break
            whole, body = whole + body[:int(size, 16)], body[int(size, 16) + 2:]
        body = whole
    return lines[0], headers, body


def recorded(name):
    with open(os.path.join(DATA, name + ".resp"), "rb") as f:
        return split_answer(f.read())


class Real:
    """The test server on 127.0.0.1, in this process."""

    def __init__(self, folder):
        apiserver.certificates(folder, ["127.0.0.1"])
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(os.path.join(folder, "server.crt"), os.path.join(folder, "server.key"))
        self.server = apiserver.Server(("127.0.0.1", 0), context)
        self.server.tokens = {"all": "admin", "none": "system:serviceaccount:edge-system:nobody"}
        self.server.rights["admin"] = None
        self.store = self.server.store
        self.store.hooks.clear()  # no controllers: the recordings have what they did
        threading.Thread(target=apiserver.accept_all, args=(self.server,), daemon=True).start()
        self.client = ssl.create_default_context(cafile=os.path.join(folder, "ca.crt"))

    def put(self, resource, obj, rev):
        """With the revision that it had."""
        self.store.rev = rev - 1
        kept = json.loads(json.dumps(obj))
        assert self.store.put(resource, kept).rev == rev

    def fill(self, resource, name):
        items = json.loads(recorded(name)[2])["items"]
        for obj in sorted(items, key=lambda o: int(o["metadata"]["resourceVersion"])):
            self.put(resource, obj, int(obj["metadata"]["resourceVersion"]))
        return items

    def begin(self, rev):
        """Nothing is there, and the history begins at this revision."""
        with self.store.lock:
            for objects in self.store.objects.values():
                objects.clear()
            self.store.rev = rev
            self.store.compact()

    def ask(self, name, token="all", **replace):
        with open(os.path.join(DATA, name + ".req"), "rb") as f:
            request = f.read().replace(b"<token>", token.encode())
        for old, new in replace.items():
            request = re.sub(rb"%s=[^& ]*" % old.encode(), b"%s=%s" % (old.encode(), str(new).encode()), request)
        plain = socket.create_connection(self.server.server_address, timeout=20)
        with self.client.wrap_socket(plain, server_hostname="127.0.0.1") as s:
            s.sendall(request)
            raw = b""
            while not self.is_whole(raw):
                more = s.recv(65536)
                if not more:
                    break
                raw += more
        return split_answer(raw)

    @staticmethod
    def is_whole(raw):
        head, _, body = raw.partition(b"\r\n\r\n")
        length = re.search(rb"Content-Length: (\d+)", head)
        return len(body) >= int(length.group(1)) if length else b"chunked" in head and body.endswith(b"0\r\n\r\n")


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    return Real(str(tmp_path_factory.mktemp("apiserver")))


def same_head(mine, theirs):
    assert mine[0] == theirs[0]
    framing = {"Content-Length", "Transfer-Encoding"}
    assert [n for n, _ in mine[1] if n not in framing] == [n for n, _ in theirs[1] if n not in framing]
    for name in ("Content-Type", "Cache-Control", "Retry-After", "Warning", "X-Content-Type-Options"):
        assert dict(mine[1]).get(name) == dict(theirs[1]).get(name)
    assert mine[1][-1][0] in framing


# --- lists -----------------------------------------------------------------------------


@pytest.mark.parametrize("name, resource", [("11-list-services-rv0", SERVICES), ("11-list-endpointslices-rv0", SLICES),
                                            ("11-list-pods-rv0", PODS), ("11-list-nodes-rv0", NODES)])
def test_whole_list(real, name, resource):
    theirs = recorded(name)
    real.begin(1)
    real.fill(resource, name)
    real.store.rev = int(json.loads(theirs[2])["metadata"]["resourceVersion"])
    mine = real.ask(name)
    same_head(mine, theirs)
    assert mine[2] == theirs[2]
    assert mine[1][-1] == theirs[1][-1]


def test_pages(real):
    """limit, continue and remainingItemCount, token by token."""
    real.begin(1)
    real.fill(SERVICES, "11-list-services-rv0")
    real.store.rev = 358
    for page in range(1, 8):
        theirs, mine = recorded(f"10-list-services-page{page}"), real.ask(f"10-list-services-page{page}")
        same_head(mine, theirs)
        want, got = json.loads(theirs[2]), json.loads(mine[2])
        assert got["metadata"] == want["metadata"]
        assert [o["metadata"]["name"] for o in got["items"]] == [o["metadata"]["name"] for o in want["items"]]
        assert list(got) == list(want) and got["kind"] == want["kind"]
    endpoints = recorded("10-list-endpoints-page1")
    same_head(real.ask("10-list-endpoints-page1"), endpoints)


def test_empty_list_and_one_object(real):
    real.begin(1)
    items = real.fill(SERVICES, "11-list-services-rv0")
    real.store.rev = 358
    for name in ("13-list-empty", "13-get-service"):
        theirs, mine = recorded(name), real.ask(name)
        same_head(mine, theirs)
        assert json.loads(mine[2]) == json.loads(theirs[2]) and mine[2][-2:] == theirs[2][-2:] == b"}\n"
    assert len(items) == 13


# --- watches -----------------------------------------------------------------------------


def events_of(body):
    assert body == b"" or body.endswith(b"\n")
    return [json.loads(line) for line in body.splitlines()]


@pytest.mark.parametrize("name, resource", [
    ("20-watch-services", SERVICES), ("20-watch-burst", SERVICES), ("20-watch-selector-leaves", SERVICES),
    ("25-life-slices", SLICES), ("26-many-slices-watch", SLICES), ("25-life-endpoints", ("", "endpoints"))])
def test_watch_replays(real, name, resource):
    """The same changes give the same events, line by line, with the revision of deletions and what a selector hides."""
    theirs = recorded(name)
    want = events_of(theirs[2])
    with open(os.path.join(DATA, name + ".req")) as f:
        since = int(re.search(r"resourceVersion=(\d+)", f.read()).group(1))
    real.begin(since)
    there = set()
    for event in want:
        meta = event["object"]["metadata"]
        rev = int(meta["resourceVersion"])
        if event["type"] == "BOOKMARK":
            real.store.rev = rev
            continue
        if event["type"] != "ADDED" and meta["name"] not in there:  # it was there before the watch
            before = {k: v for k, v in event["object"].items() if k not in ("kind", "apiVersion")}
            before["metadata"] = dict(meta, generation=-1)
            at = max(since, 1)
            real.put(resource, before, at)
            real.store.compact()
            real.store.window = since
        there.add(meta["name"])
        if event["type"] == "DELETED" and "selector" not in name:
            real.store.rev = rev - 1
            real.store.remove(resource, meta["namespace"], meta["name"])
        else:
            obj = {k: v for k, v in event["object"].items() if k not in ("kind", "apiVersion")}
            if event["type"] == "DELETED":
                obj["metadata"] = dict(meta, labels={"show": "no"})
            real.put(resource, obj, rev)
    mine = real.ask(name, timeoutSeconds=1)
    same_head(mine, theirs)
    got = events_of(mine[2])
    assert [(e["type"], e["object"]["metadata"]["resourceVersion"]) for e in got] == [
        (e["type"], e["object"]["metadata"]["resourceVersion"]) for e in want]
    for mine_event, their_event in zip(got, want):
        assert list(mine_event["object"]) == list(their_event["object"])
        if mine_event["type"] != "DELETED" or "selector" not in name:
            assert mine_event == their_event


@pytest.mark.parametrize("name", ["20-watch-rv0", "22-watchlist-services"])
def test_initial_events(real, name):
    """Synthetic ADDED first; the end of a streaming list is a bookmark with its annotation."""
    theirs = recorded(name)
    want = events_of(theirs[2])
    resource = NODES if "rv0" in name else SERVICES
    real.begin(1)
    for event in sorted(want, key=lambda e: int(e["object"]["metadata"]["resourceVersion"])):
        if event["type"] == "ADDED":
            obj = {k: v for k, v in event["object"].items() if k not in ("kind", "apiVersion")}
            real.put(resource, obj, int(obj["metadata"]["resourceVersion"]))
    real.store.rev = int(want[-1]["object"]["metadata"]["resourceVersion"])
    mine = real.ask(name, timeoutSeconds=1)
    same_head(mine, theirs)
    got = events_of(mine[2])
    added = [e for e in want if e["type"] == "ADDED"]
    assert [e for e in got if e["type"] == "ADDED"] == added
    if "watchlist" in name:
        assert got[len(added)] == want[-1]


def test_bookmarks_have_nulls(real):
    real.begin(1)
    theirs = events_of(recorded("21-bookmark-pods")[2])
    real.store.rev = 1734
    real.server.bookmark_s = 0.2
    threading.Timer(0.5, lambda: real.put(NODES, {"metadata": {"name": "n"}}, 1735)).start()
    try:
        got = events_of(real.ask("21-bookmark-pods", timeoutSeconds=1)[2])
    finally:
        real.server.bookmark_s = apiserver.BOOKMARK_S
    assert {e["type"] for e in got} == {"BOOKMARK"}
    assert got[-1]["object"] == dict(theirs[0]["object"], metadata={"resourceVersion": "1735"})


# --- refusals ----------------------------------------------------------------------------

STATUS = ["30-400-limit", "30-400-continue", "30-400-rv", "30-401-bad-token", "30-403-nobody", "30-403-nobody-watch",
          "30-404-object", "30-404-path-admin", "22-watch-match-without-initial", "31-429-list", "41-cm-put-stale",
          "40-lease-create-again"]


@pytest.mark.parametrize("name", STATUS)
def test_refusal(real, name):
    theirs = recorded(name)
    real.begin(358)
    real.put(("", "configmaps"), {"metadata": {"name": "hub-config", "namespace": "edge-system"}, "data": {}}, 400)
    real.put(("coordination.k8s.io", "leases"), {"metadata": {"name": "hub-leader", "namespace": "edge-system"}}, 401)
    if "429" in name:
        real.server.faults.rules.append({"do": "status", "status": 429})
    mine = real.ask(name, {"401": "bad", "403": "none"}.get(name[3:6], "all"))
    same_head(mine, theirs)
    if theirs[2][:1] != b"{":
        assert mine[2] == theirs[2]
        return
    want, got = json.loads(theirs[2]), json.loads(mine[2])
    assert got == want and list(got) == list(want)


def test_from_the_future(real):
    real.begin(358)
    theirs, mine = recorded("30-504-rv-too-large"), real.ask("30-504-rv-too-large")
    same_head(mine, theirs)
    assert json.loads(mine[2]) == json.loads(theirs[2])


@pytest.mark.parametrize("name", ["32-410-watch", "32-410-watch-bookmarks", "32-410-list-exact", "32-410-continue"])
def test_history_is_over(real, name):
    """Both forms of 410: an ERROR event under 200, and a Status with, for pages, another token."""
    real.begin(689)
    theirs, mine = recorded(name), real.ask(name)
    same_head(mine, theirs)
    assert mine[2] == theirs[2]


# --- discovery ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["00-get-api", "00-get-apis-discovery.k8s.io-v1"])
def test_discovery(real, name):
    theirs, mine = recorded(name), real.ask(name)
    same_head(mine, theirs)
    want, got = json.loads(theirs[2]), json.loads(mine[2])
    assert set(want) - {"apiVersion"} <= set(got) and got["kind"] == want["kind"]
    for resource in want.get("resources", []):
        mine_resource = next(r for r in got["resources"] if r["name"] == resource["name"])
        assert {k: mine_resource[k] for k in ("kind", "namespaced", "singularName")} == {
            k: resource[k] for k in ("kind", "namespaced", "singularName")}
        assert set(mine_resource["verbs"]) <= set(resource["verbs"])


def test_every_resource_that_the_hub_reads_is_known():
    assert {SERVICES, SLICES, PODS, NODES, ("", "endpoints"), ("", "events")} <= set(LISTED)
    assert base64.urlsafe_b64decode(apiserver.Store.token(358, "/db\0") + "==") == (
        b'{"v":"meta.k8s.io/v1","rv":358,"start":"/db\\u0000"}')

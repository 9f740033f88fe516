"""nghttp2's own programs: nghttp and h2load call nghttpd through the agent; also while an endpoint dies."""
import collections
import os
import re

import pytest

from h2bed import PEER, Bed, annotated
from lab import service, wait_for

ours = pytest.mark.skipif(PEER is not None, reason="what the agent alone does")
FILES = {"small": 100, "page": 20000, "large": 3 << 20}


class Nghttpd:
    def __init__(self, pod, port):
        self.pod, self.port = pod, port
        for name, size in FILES.items():
            with open(os.path.join(pod.dir, name), "wb") as f:
                f.write(os.urandom(size))
        with open(os.path.join(pod.dir, "who"), "w") as f:
            f.write(pod.name)
        self.start()

    def start(self):
        self.process = self.pod.start("nghttpd", "nghttpd", "--no-tls", "--echo-upload", "-d", self.pod.dir, "-a", "0.0.0.0", self.port)
        wait_for("nghttpd", lambda: f":{self.port} " in self.pod.run("ss", "-tlnH").stdout)


@pytest.fixture(scope="module")
def bed(lab):
    http = ("http", 80, 8080)
    bed = Bed(lab, Nghttpd, objects=[annotated(service("hashed", http, selector="two"), hash_on="header:x-user"),
                                     service("sticky", http, selector="two", sessionAffinity="ClientIP")])
    yield bed
    if bed.agent:
        print(f"--- log of the agent\n{bed.agent.process.log()[-6000:]}")


def h2load(bed, *options, name="two", path="/small"):
    """What it counted: {"total": n, "succeeded": n, ..., "2xx": n}"""
    p = bed.client_pod.run("h2load", *options, bed.url(name, path), seconds=120)
    found = re.search(r"requests: (.*)\nstatus codes: (.*)", p.stdout)
    return {word: int(n) for n, word in re.findall(r"(\d+) (\w+)", found.group(0))}


@pytest.mark.parametrize("clients,streams", [(1, 1), (1, 100), (8, 10), (32, 1)])
def test_h2load(bed, clients, streams):
    got = h2load(bed, "-n", "2000", "-c", clients, "-m", streams)
    assert (got["2xx"], got["failed"], got["errored"], got["timeout"]) == (2000, 0, 0, 0), got


@pytest.mark.parametrize("path,n", [("/page", 500), ("/large", 12)])
def test_h2load_of_large_answers(bed, path, n):
    """Also through windows as small as they may be."""
    for window in ("16", "30"):
        got = h2load(bed, "-n", n, "-c", "2", "-m", "3", "-w", window, path=path, name="one")
        assert got["2xx"] == n and got["failed"] == 0, got


def test_h2load_of_uploads(bed):
    got = h2load(bed, "-n", "300", "-c", "4", "-m", "4", "-d", os.path.join(bed.pods[0].dir, "page"))
    assert got["2xx"] == 300 and got["failed"] == 0, got


def test_nghttp(bed):
    """Its bytes are the file's; trailers, padding, priorities and an early GOAWAY as it sends them."""
    for path in FILES:
        with open(os.path.join(bed.pods[0].dir, path), "rb") as f:
            p = bed.client_pod.run("sh", "-c", f"nghttp {bed.url('one', '/' + path)} | sha256sum; sha256sum < {f.name}")
        [got, there] = p.stdout.splitlines()
        assert got == there
    shown = bed.client_pod.run("nghttp", "-nv", "--no-dep", "-b", "100", "--trailer", "x-sum: 1", "-d", os.path.join(bed.pods[0].dir, "page"),
                               bed.url("one", "/echo")).stdout
    assert ":status: 200" in shown and not re.search(r"error_code=(?!NO_ERROR)", shown)
    shown = bed.client_pod.run("nghttp", "-nv", "--max-concurrent-streams=100", "-m", "20", bed.url("one", "/small")).stdout
    assert shown.count(":status: 200") == 20


@ours
def test_nghttp_sees_no_push(bed):
    shown = bed.client_pod.run("nghttp", "-nv", bed.url("one", "/small")).stdout
    sent = shown[shown.index("recv SETTINGS"):]
    assert "SETTINGS_MAX_CONCURRENT_STREAMS" in sent and "SETTINGS_ENABLE_CONNECT_PROTOCOL(0x08):1" in sent and "PUSH_PROMISE" not in shown


def test_curl(bed):
    """One request a connection: with the second one Debian's curl 7.88 fails at nghttpd, too."""
    got = bed.client_pod.run("curl", "-sS", "--http2-prior-knowledge", "-w", " %{http_version}", bed.url("one", "/who")).stdout
    assert got == f"{bed.pods[0].name} 2"


def answerers(bed, name, *options, n=100):
    """Who answered n requests at once of one connection: {name: how many}."""
    got = bed.client_pod.run("nghttp", "-m", n, *options, bed.url(name, "/who")).stdout
    return collections.Counter(re.findall(r"edge-1\.web-\d", got))


@pytest.mark.skipif(PEER == "nghttpx", reason="one service alone")
def test_each_stream_is_balanced(bed):
    got = answerers(bed, "two")
    assert sum(got.values()) == 100 and len(got) == 2 and min(got.values()) >= 45, got


@ours
def test_what_else_chooses(bed):
    """A field's hash, stream by stream, and session affinity."""
    chosen = {user: answerers(bed, "hashed", "-H", f"x-user: {user}", n=20) for user in "abcdefgh"}
    assert all(len(who) == 1 for who in chosen.values()) and len(set().union(*chosen.values())) == 2, chosen
    assert len(answerers(bed, "sticky", n=20)) == 1


@ours
def test_an_endpoint_is_killed(bed):
    """GETs are sent elsewhere: none is lost."""
    before = bed.metric('requests_total{class="2xx"}')
    p = bed.client_pod.start("load", "h2load", "-D", "5", "-c", "4", "-m", "8", bed.url("two", "/small"))
    wait_for("under way", lambda: bed.metric('requests_total{class="2xx"}') > before + 500)
    bed.ends[1].process.kill()
    p.wait()
    bed.ends[1].start()
    found = re.search(r"requests: (\d+) total, .* (\d+) done, (\d+) succeeded, (\d+) failed, (\d+) errored", p.log())
    assert found and found.group(4) == found.group(5) == "0" and "0 4xx, 0 5xx" in p.log(), p.log()
    assert bed.metric('requests_total{class="5xx"}') == 0


@ours
def test_an_endpoint_restarts(bed):
    """SIGTERM: its connections are closed. The next calls use the other one, then both."""
    p = bed.client_pod.start("load2", "h2load", "-D", "6", "-c", "2", "-m", "4", bed.url("two", "/small"))
    before = bed.metric('requests_total{class="2xx"}')
    wait_for("under way", lambda: bed.metric('requests_total{class="2xx"}') > before + 200)
    for end in bed.ends:
        end.process.stop()
        end.start()
        seen = bed.metric('requests_total{class="2xx"}')
        wait_for("it goes on", lambda: bed.metric('requests_total{class="2xx"}') > seen + 200 or not p.alive())
    p.wait()
    assert "0 4xx, 0 5xx" in p.log() and " 0 failed, 0 errored" in p.log(), p.log()

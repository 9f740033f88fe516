"""Who calls a node through the hub while its agent is restarted waits for it, and is not refused."""
import collections
import threading

import pytest

import tunnelkit
from lab import wait_for

as_before = tunnelkit.as_before


class Site(tunnelkit.Site):
    def __init__(self, lab):
        super().__init__(lab, *tunnelkit.INGRESS_OPTIONS)
        self.backend(self.nodes[0], "server", "--http", "7001")


@pytest.fixture(scope="module")
def site(lab):
    made = Site(lab)
    yield made
    made.logs()


class Calls:
    """One after the other, until the end of the block."""

    def __init__(self, site):
        self.site, self.answers, self.last, self.over = site, collections.Counter(), 0, threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self):
        while not self.over.is_set():
            self.answers[self.site.hub.machine.get("http://edge-1:7001/", "-x", "http://192.0.2.1:10080", seconds=30)] += 1
            self.last += 1

    def __enter__(self):
        self.thread.start()
        self.more()
        return self

    def more(self):
        before = self.last
        wait_for("two more calls", lambda: self.last >= before + 2)

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_callers_wait_for_an_agent_that_is_restarted(site, end):
    agent = site.agents[0]
    with Calls(site) as calls:
        for _ in range(5):
            if end == "stop":
                agent.stop()
            else:
                agent.process.kill()
            agent.start()
            calls.more()
    assert set(calls.answers) == {(200, "edge-1.server\n")}, calls.answers

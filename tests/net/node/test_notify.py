"""What the daemons tell a service manager, sd_notify(3); the manager is a socket of the test's own."""
import os
import socket

import pytest

import lab as labs
from lab import Agent, Hub, Node, service, wait_for

pytestmark = pytest.mark.plain_build  # a few lines to a service manager


class Manager:
    """Keeps what it is told: `lines` in order."""

    def __init__(self, lab, name):
        self.path = os.path.join(lab.dir, f"{name}.notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        self.socket.setblocking(False)
        self.lines = []

    def hear(self):
        while True:
            try:
                self.lines += self.socket.recv(4096).decode().split("\n")
            except BlockingIOError:
                return self.lines

    def wait(self, line, count=1):
        wait_for(line, lambda: self.hear().count(line) >= count, seconds=30)

    def start(self, machine, name, argv, watchdog_us=0):
        watchdog = [f"WATCHDOG_USEC={watchdog_us}"] if watchdog_us else []
        return machine.start(name, "env", f"NOTIFY_SOCKET={self.path}", *watchdog, *argv)


@pytest.fixture(scope="module")
def hub(lab):
    labs.upstream(lab)
    hub = Hub(lab)
    hub.write("services.yaml", service("one", ("http", 80, "http"), selector="web"),
              service("two", ("http", 80, "http"), selector="web"))
    return hub


def test_agent_before_docker(lab, hub):
    """docker is ordered after the agent and makes docker0: neither waits for the other. Then it serves, and says so."""
    node = Node(lab, "edge-1", "192.0.2.11", bridge=False)
    agent, manager = Agent(node, hub, start=False), Manager(lab, "edge-1")
    agent.process = manager.start(node, "agent", agent.argv(), watchdog_us=400000)
    manager.wait("READY=1")
    assert not agent.ready()
    node.add_bridge()
    agent.wait_ready(30)
    manager.wait("STATUS=serves 2 services")
    manager.wait("WATCHDOG=1", count=5)
    assert manager.lines.count("READY=1") == 1
    assert agent.stop() == 0
    manager.wait("STOPPING=1")
    assert "without us" not in agent.process.log()


def test_agent_waits_until_it_serves(lab, hub):
    """With docker0 there, READY=1 comes once /readyz says 200; the watchdog is told nothing that it did not ask for."""
    node = Node(lab, "edge-2", "192.0.2.12")
    agent, manager = Agent(node, hub, start=False), Manager(lab, "edge-2")
    agent.process = manager.start(node, "agent", agent.argv())
    manager.wait("READY=1")
    assert agent.ready() or "without us" in agent.process.log()
    agent.wait_ready(30)
    manager.wait("STATUS=serves 2 services")
    assert "WATCHDOG=1" not in manager.lines
    assert agent.stop() == 0
    assert manager.hear().index("STOPPING=1") > manager.lines.index("READY=1")


START = """
import fcntl, os, sys
given = [int(fd) for fd in sys.argv[1].split(",")]
fds = [fcntl.fcntl(fd, fcntl.F_DUPFD, 500) for fd in given]
for fd in given:
    os.close(fd)
for to, fd in enumerate(fds, 3):
    os.dup2(fd, to)
    os.close(fd)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(len(fds)), LISTEN_FDNAMES=":".join(["edgeway"] * len(fds)))
os.execv(sys.argv[2], sys.argv[2:])
"""
CALL = "import socket, sys; s = socket.create_connection((sys.argv[1], 80), 60); print('connected', flush=True); " \
       "s.sendall(b'GET / HTTP/1.0\\r\\nHost: a\\r\\n\\r\\n'); print(s.recv(99), flush=True)"


class Keeper(Manager):
    """Keeps sockets as well (the file descriptor store of systemd), and gives them to the next."""
    kept = ()

    def hear(self):
        while True:
            try:
                text, fds, _, _ = socket.recv_fds(self.socket, 4096, 253)
            except BlockingIOError:
                return self.lines
            self.lines += text.decode().split("\n")
            if "FDSTOREREMOVE=1" in text.decode():
                self.forget()
            self.kept = [*self.kept, *fds]

    def forget(self):
        for fd in self.kept:
            os.close(fd)
        self.kept = ()

    def start_next(self, machine, argv):
        p = labs.Process("next", machine.argv(*labs.BARE_PYTHON, "-c", START, ",".join(map(str, self.kept)), *argv),
                         os.path.join(machine.dir, "next.log"), pass_fds=self.kept, env={**os.environ, "NOTIFY_SOCKET": self.path})
        machine.lab.processes.append(p)
        return p


@pytest.mark.parametrize("number, options, sockets", [(3, (), 6), (4, ("--mesh.subnet6", "fd09:251::/64"), 12)], ids=["ipv4", "both"])
def test_sockets_outlive_a_killed_agent(lab, hub, number, options, sockets):
    """Calls and questions wait for the next agent; nobody else can take the ports meanwhile."""
    node = Node(lab, f"edge-{number}", f"192.0.2.1{number}")
    server, client = node.pod("web"), node.pod("client")
    server.serve("--http", "8080")
    hub.write("web.yaml", service("web", ("http", 80, 8080)), labs.pod("web", node, server.address, ("http", 8080, 0)))
    agent, manager = Agent(node, hub, "--mesh.workers", "2", *options, start=False), Keeper(lab, f"edge-{number}")
    agent.process = manager.start(node, "agent", agent.argv())
    agent.wait_ready(30)
    wait_for("the service", lambda: client.address_of("web.default.svc.cluster.local", f"@{node.gateway}"))
    address = client.address_of("web.default.svc.cluster.local", f"@{node.gateway}")
    wait_for("a call", lambda: client.get(f"http://{address}/")[0] == 200)
    wait_for("the sockets", lambda: manager.hear() and len(manager.kept) == sockets)
    agent.process.kill()
    calls = [client.start(f"call-{i}", *labs.BARE_PYTHON, "-c", CALL, address) for i in range(3)]
    wait_for("calls wait", lambda: all(c.log() == "connected\n" for c in calls))
    asks = client.start("dig", "dig", f"@{node.gateway}", "+tries=1", "+time=60", "+short", "web.default.svc.cluster.local")
    for port in (40001, 53):
        p = node.run(*labs.BARE_PYTHON, "-c", f"import socket; socket.socket().bind(('172.17.0.1', {port}))", check=False)
        assert "Address already in use" in p.stderr
    agent.process = manager.start_next(node, agent.argv("--mesh.workers", "2"))
    agent.wait_ready(30)
    wait_for("answers", lambda: all("200 OK" in c.log() for c in calls) and asks.log().strip() == address)
    assert agent.process.logged(f"goes on with the sockets of the agent before, which the service manager kept sockets={sockets}")
    assert len(manager.hear()) and len(manager.kept) == sockets  # they are the same, and told once
    # A socket that nobody reads would lose what it gets: as many workers until it is stopped, which ends the keeping.
    agent.process.kill()
    agent.process = manager.start_next(node, agent.argv("--mesh.workers", "1"))
    agent.wait_ready(30)
    assert agent.process.logged("workers=2 wanted=1")
    assert {client.get(f"http://{address}/")[0] for _ in range(8)} == {200}
    assert agent.stop() == 0
    manager.hear()
    assert not manager.kept and node.clean()
    hub.delete("web.yaml")


def test_hub(lab, hub):
    assert hub.process.stop() == 0
    manager = Manager(lab, "hub")
    hub.process = manager.start(hub.machine, "hub", hub.process.popen.args[hub.process.popen.args.index("--") + 1:])
    manager.wait("READY=1")
    assert hub.ready()
    manager.wait("STATUS=serves")
    assert hub.process.stop() == 0
    manager.wait("STOPPING=1")

"""One agent hands over to the next: under requests, connections and questions, nothing is lost and nothing on the host changes; a next one
that does not come up, or is none, leaves the first as it was."""
import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import time

import pytest

from lab import HERE, PATIENCE_S, BARE_PYTHON, Agent, Dialogue, service, wait_for
from test_node_peers import paths, shake

SECONDS = 6
QUESTIONS = """
import socket, struct, sys, time
server, seconds = sys.argv[1], float(sys.argv[2])
name = b"".join(bytes([len(p)]) + p.encode() for p in "edge-nginx.default.svc.cluster.local".split(".")) + b"\\0"
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(30)
end, asked, lost = time.monotonic() + seconds, 0, 0
while time.monotonic() < end or asked <= 100:
    asked += 1
    s.sendto(struct.pack(">6H", asked & 65535, 0x100, 1, 0, 0, 0) + name + b"\\0\\1\\0\\1", (server, 53))
    try:
        m = s.recv(512)
        lost += m[:2] != struct.pack(">H", asked & 65535) or struct.unpack(">H", m[6:8])[0] != 1
    except socket.timeout:
        lost += 1
    time.sleep(0.002)
print(asked, lost)
"""
TALK = """
import socket, sys
s = socket.create_connection((sys.argv[1], 7000), 60)
f = s.makefile("rwb")
who = f.readline()
for line in sys.stdin:
    f.write(line.encode()); f.flush()
    print(who.decode().strip(), f.readline().decode().strip(), flush=True)
"""


class Next(Agent):
    """Another agent of the same node that takes over."""

    def argv(self, *options):
        return super().argv("--takeover", "true", *options)


def the_next(mesh, *options, start=True):
    before = mesh.agent1
    taken = Said(before, "has taken over")
    made = Next(mesh.node1, None, *before.options, *options, token=before.token, start=start)
    made.taken = taken
    mesh.agents[0] = mesh.agent1 = made
    return before, made


def others_of(mesh):
    """What must not change on the node: rules by nft's own words, the route, resolv.conf, fake IPs."""
    return (mesh.node1.table(), mesh.node1.route(), mesh.node1.resolv(), os.stat(mesh.node1.resolv_conf).st_ino,
            mesh.client1.address_of("edge-nginx.default.svc.cluster.local"))


def has_taken_over(agent):
    return lambda: agent.process.alive() and agent.ready() and agent.taken()


class Said:
    """How often a line came since: all agents of a node write one log."""

    def __init__(self, agent, text):
        self.log, self.text = lambda: agent.process.log(), text
        self.before = agent.process.log().count(text)

    def __call__(self):
        return self.log().count(self.text) > self.before


def load(mesh, *options):
    target = mesh.client1.getent("edge-nginx")
    return mesh.client1.start("-".join(["load", *options]), *BARE_PYTHON, os.path.join(HERE, "load.py"), target, 80, SECONDS, 4, 5, "least=101", *options)


def agents_of(mesh):
    return mesh.node1.run("pgrep", "-f", f"dataDir {mesh.first.data}", check=False).stdout.split()


@pytest.fixture(autouse=True)
def an_agent_that_serves(mesh):
    """A test that fails leaves no agent, or a wrong one: the next test gets one as the first was."""
    mesh.first = getattr(mesh, "first", mesh.agent1)
    try:
        well = mesh.agent1.process.alive() and mesh.agent1.ready()
    except OSError:
        well = False
    if not well:
        for pid in agents_of(mesh):
            os.kill(int(pid), signal.SIGKILL)
        wait_for("their ends", lambda: not agents_of(mesh))
        mesh.agents[0] = mesh.agent1 = Agent(mesh.node1, None, *mesh.first.options, token=mesh.first.token)
    yield


def test_under_load(mesh):
    unchanged = others_of(mesh)
    one = mesh.agent1
    loads = [load(mesh), load(mesh, "close")]
    asks = subprocess.Popen(mesh.client1.argv(*BARE_PYTHON, "-c", QUESTIONS, mesh.node1.gateway, SECONDS), stdout=subprocess.PIPE, text=True)
    with Dialogue(mesh.client1, TALK, mesh.client1.getent("edge-nginx")) as talk:
        assert talk.ask("before").endswith(" before")
        wait_for("load", lambda: all(p.log().count("\n") > 20 for p in loads))
        _, two = the_next(mesh)
        wait_for("taken over", has_taken_over(two))
        assert talk.ask("while").endswith(" while")
        assert one.process.logged("finishing what is in progress")
        one.process.popen.send_signal(signal.SIGHUP)
        wait_for("reloaded", lambda: "reloaded" in one.process.log())
        assert talk.ask("reloaded").endswith(" reloaded")
    for p in loads:
        assert p.wait() == 0, p.log()[-2000:]
        results = [json.loads(line) for line in p.log().splitlines()]
        failed = [r for r in results if r[2] != 200]
        assert len(results) > 100 and failed == []
    asked, lost = map(int, asks.communicate(timeout=PATIENCE_S)[0].split())
    assert asked > 100 and lost == 0
    assert others_of(mesh) == unchanged
    # Who started both stops the first: until then it waits, and would not be started again.
    wait_for("all handed over", lambda: "waiting to be stopped" in one.process.log())
    # The next one has its locks too: were that killed, whoever started it can start it again.
    two.process.kill()
    two.start()
    assert mesh.client1.get("http://edge-nginx/")[0] == 200
    unchanged = others_of(mesh)  # resolv.conf may be another file, written anew
    assert one.process.alive()
    assert one.process.stop() == 0
    assert others_of(mesh) == unchanged and two.ready()


def test_it_is_the_agent_now(mesh):
    """Changes come from the hub, rules are looked after, the cloud's tunnel is its own, a second one is refused by its name."""
    wait_for("connected", lambda: mesh.agent1.state()["meta"]["connected"])
    mesh.hub.write("later.yaml", service("later", ("http", 80, "http"), selector="web"))
    wait_for("a new service", lambda: mesh.client1.get("http://later/")[0] == 200)
    mesh.node1.run("nft", "flush", "ruleset")
    wait_for("rules again", lambda: mesh.node1.table() != "")
    mesh.hub.delete("later.yaml")
    p = mesh.node1.run(*Agent.argv(mesh.agent1), check=False)
    inside = mesh.node1.run("pgrep", "-f", f"dataDir {mesh.agent1.data}").stdout.split()
    assert p.returncode == 1 and any(f"process {pid}" in p.stderr for pid in inside), p.stderr


# --- what does not come up ------------------------------------------------------------------------------------------


def ask_for_it(agent):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(PATIENCE_S)
    s.connect(agent.socket)
    s.sendall(b"POST /takeover HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
    text, fds, _, _ = socket.recv_fds(s, 256, 253)
    for fd in fds:
        os.close(fd)
    return s, text.decode(), len(fds)


def serves(mesh, name):
    """All of it: a change of the hub's, a flush of the rules."""
    mesh.hub.write(f"{name}.yaml", service(name, ("http", 80, "http"), selector="web"))
    wait_for("a new service", lambda: mesh.client1.get(f"http://{name}/")[0] == 200)
    mesh.node1.run("nft", "flush", "ruleset")
    wait_for("rules again", lambda: mesh.node1.table() != "")
    mesh.hub.delete(f"{name}.yaml")
    return mesh.agent1.ready() and mesh.client1.get("http://edge-nginx/")[0] == 200


def test_one_that_dies(mesh):
    unchanged = others_of(mesh)
    s, text, n = ask_for_it(mesh.agent1)
    workers = int(re.match(r"edgeway-takeover 1 lock=1 workers=(\d+)\nport=40001 hairpin=\n$", text).group(1))
    assert n == 2 + 3 * workers
    assert mesh.client1.get("http://edge-nginx/")[0] == 200  # meanwhile
    assert mesh.agent1.ask("/readyz")[0] == 503
    # who asks now does not end it, though half of it is laid down
    assert [mesh.agent1.ask(p)[0] for p in ("/healthz", "/metrics", "/debug/state", "/debug/services", "/debug/events", "/debug/streams")] == [200] * 6
    for words in (["status"], ["doctor"], ["services"], ["health"], ["upstreams"], ["streams"], ["resolve", "edge-nginx"]):
        ctl = mesh.node1.run(mesh.lab.program("edgewayctl"), "--socket", mesh.agent1.socket, *words, check=False)
        assert ctl.returncode in (0, 1) and mesh.agent1.process.alive(), (words, ctl.stderr)
    s.close()
    wait_for("goes on", mesh.agent1.ready)
    assert mesh.agent1.process.logged("did not take over, this one goes on: it has ended")
    assert others_of(mesh) == unchanged and serves(mesh, "after-death")


def test_no_descriptor_is_left_to_go_on(mesh):
    """The first ends in order, with a status that has it restarted; what is on the host stays for the one that comes."""
    pid, limit = mesh.agent1.process.pid, resource.getrlimit(resource.RLIMIT_NOFILE)
    s, _, _ = ask_for_it(mesh.agent1)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, limit[1]))
    s.close()
    assert mesh.agent1.process.wait(40) == 1
    assert mesh.agent1.process.logged("cannot go on: ") and mesh.agent1.process.logged("stopped node=edge-1")
    assert mesh.node1.table() != "" and reserved(mesh.node1) == "40001"
    mesh.node1.run("sysctl", "-qw", "net.ipv4.ip_local_reserved_ports=")  # for the tests that follow
    mesh.agent1.start()
    assert serves(mesh, "after-restart")


def test_one_that_hangs(mesh):
    s, _, _ = ask_for_it(mesh.agent1)
    try:
        assert another_is_refused(mesh)
        assert s.recv(64) == b"mine\n"  # after its time
    finally:
        s.close()
    wait_for("goes on", mesh.agent1.ready)
    assert mesh.agent1.process.logged("it did not serve in time") and serves(mesh, "after-hang")


def nat_of(agent):
    return json.loads(agent.ask("/peers")[1])["nat"]


def lets_in(mesh, pair):
    """Whether the first node's door has HTTP/2 with who shows this certificate."""
    alpn, data = shake(mesh.node2, mesh.node1.address, *pair)
    return alpn == "edgeway-peer/1" and len(data) > 9 and data[3] == 4  # SETTINGS


def revoked(mesh, agent):
    """A copy of the certificate that this agent had before it joined anew."""
    copy = [os.path.join(mesh.lab.dir, f"revoked.{x}") for x in ("crt", "key")]
    for mine, to in zip(paths(agent), copy):
        shutil.copyfile(mine, to)
    mesh.hub.ask(f"/nodes/revoke?name={agent.node.name}", "POST")
    agent.stop()
    agent.token = mesh.hub.token("--node", agent.node.name)
    agent.start()
    return copy


def test_what_others_ask_meanwhile(mesh):
    """With mesh.direct: nat, while the agent has no metadata: operators are answered, other nodes let in, except with a revoked certificate."""
    before = mesh.agent1
    before.process.stop()
    mesh.agents[0] = mesh.agent1 = one = Agent(mesh.node1, None, *before.options, "--mesh.direct", "nat", token=before.token)
    wait_for("nodes can meet", lambda: nat_of(one) == "ready")
    old, new = revoked(mesh, mesh.agent2), paths(mesh.agent2)
    wait_for("it is known", lambda: lets_in(mesh, new) and not lets_in(mesh, old))
    s, _, _ = ask_for_it(one)
    with s:
        assert lets_in(mesh, new) and not lets_in(mesh, old)
        assert nat_of(one) == "no hub is reached that could introduce it" and one.ask("/debug/state")[0] == 200
    wait_for("goes on", lambda: one.ready() and nat_of(one) == "ready")
    assert lets_in(mesh, new) and not lets_in(mesh, old) and serves(mesh, "after-questions")
    assert one.process.stop() == 0
    mesh.agents[0] = mesh.agent1 = before
    before.start()


def another_is_refused(mesh):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(PATIENCE_S)
    s.connect(mesh.agent1.socket)
    s.sendall(b"POST /takeover HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
    with s:
        return s.recv(64) == b""


def test_one_with_a_wrong_configuration(mesh):
    """It ends before it asks."""
    p = mesh.node1.run(*Next.argv(mesh.agent1), "--dns.port", "x", check=False)
    assert p.returncode == 2 and mesh.agent1.ready() and serves(mesh, "after-config")


@pytest.mark.parametrize("more", [(), ("--dns.manageResolvConf", "false"), ("--dns.host", "resolved")])
def test_one_that_cannot_serve(mesh, more):
    """It touches nothing while it waits for its interface, and leaves all of it when it is stopped."""
    unchanged = others_of(mesh)
    waits = Said(mesh.agent1, "interface nope0 is down or has no IPv4 address")
    before, two = the_next(mesh, "--mesh.interface", "nope0", *more, start=False)
    mesh.agents[0] = mesh.agent1 = before
    two.start(ready=False)
    wait_for("it waits", waits)
    assert others_of(mesh) == unchanged and mesh.client1.get("http://edge-nginx/")[0] == 200
    assert two.process.stop() == 0
    wait_for("goes on", before.ready)
    assert others_of(mesh) == unchanged and serves(mesh, "after-waiting")


def reserved(node):
    return node.run("sysctl", "-n", "net.ipv4.ip_local_reserved_ports").stdout.strip()


def test_one_that_is_killed(mesh):
    """What it found on the host is the first one's to put back, as before."""
    waits = Said(mesh.agent1, "interface nope0 is down or has no IPv4 address")
    before, two = the_next(mesh, "--mesh.interface", "nope0", start=False)
    mesh.agents[0] = mesh.agent1 = before
    two.start(ready=False)
    wait_for("it waits", waits)
    assert reserved(mesh.node1) == "40001"
    two.process.kill()
    wait_for("goes on", before.ready)
    assert reserved(mesh.node1) == "40001" and before.process.stop() == 0
    assert mesh.node1.clean() and reserved(mesh.node1) == ""
    before.start()


def test_one_that_leaves_resolv_conf_alone(mesh):
    """What the first had written goes once it has let go, and comes with the next that writes it."""
    node = mesh.node1
    ours, options = node.resolv(), mesh.agent1.options
    assert ours != node.original
    for more, want in ((("--dns.manageResolvConf", "false"), node.original), ((), ours)):
        before, two = the_next(mesh, *more)
        two.options = options
        wait_for("taken over", has_taken_over(two))
        wait_for("resolv.conf", lambda w=want: node.resolv() == w)
        assert before.process.stop() == 0


def test_other_workers(mesh):
    """As many as the first one has, whose sockets they get: that is said; until a restart."""
    unchanged, number = others_of(mesh), mesh.agent1.state()["lb"]["workers"]
    for wanted in (number + 1, 1):
        before, two = the_next(mesh, "--mesh.workers", wanted)
        wait_for("taken over", has_taken_over(two))
        assert before.process.stop() == 0
        two.options = before.options
        assert two.state()["lb"]["workers"] == number and others_of(mesh) == unchanged
        assert two.process.logged(f"workers={number} wanted={wanted}")
        assert {mesh.client1.get("http://edge-nginx/")[0] for _ in range(8)} == {200}
    assert mesh.agent1.process.stop() == 0
    assert mesh.node1.clean() and reserved(mesh.node1) == ""
    mesh.agent1.start("--mesh.workers", number + 1)
    assert mesh.agent1.state()["lb"]["workers"] == number + 1 and serves(mesh, "after-workers")


def test_neither_serves(mesh):
    """Without docker0 there is nothing to wait for: the next one has it at once, and serves when there is one."""
    before = mesh.agent1
    before.process.stop()
    one = Agent(mesh.node1, None, "--mesh.interface", "late0", token=before.token, start=False)
    waits = Said(before, "interface late0 is down or has no IPv4 address")
    one.start(ready=False)
    wait_for("it waits", waits)
    mesh.agent1 = one
    _, two = the_next(mesh, start=False)
    two.start(ready=False)
    wait_for("taken over", two.taken)
    one.process.kill()  # has nothing left to do
    mesh.node1.run("ip", "link", "add", "late0", "type", "bridge")
    mesh.node1.run("ip", "address", "add", "172.29.0.1/24", "dev", "late0")
    mesh.node1.run("ip", "link", "set", "late0", "up")
    wait_for("serves", lambda: two.state()["address"] == "172.29.0.1")
    assert two.process.stop() == 0 and mesh.node1.clean()
    mesh.node1.run("ip", "link", "delete", "late0")
    mesh.agents[0] = mesh.agent1 = before
    before.start()


def test_one_with_another_folder(mesh):
    """Its fake IPs would be others: it is told, and ends."""
    other = [a if a != mesh.agent1.data else a + "-other" for a in Next.argv(mesh.agent1)]
    os.makedirs(mesh.agent1.data + "-other")
    p = mesh.node1.run(*other, check=False)
    assert p.returncode == 1 and "has another dataDir than" in p.stderr
    wait_for("goes on", mesh.agent1.ready)
    assert serves(mesh, "after-folder")


def test_term_while_it_hands_over(mesh):
    """SIGTERM waits for what becomes of it; when nothing does, the agent stops in good order."""
    s, _, _ = ask_for_it(mesh.agent1)
    mesh.agent1.process.popen.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    assert mesh.client1.get("http://edge-nginx/")[0] == 200
    s.close()
    assert mesh.agent1.process.wait() == 0
    assert mesh.node1.clean()
    mesh.agent1.start()
    wait_for("ready", mesh.agent1.ready)


def test_the_first_dies_before_it_answers(mesh):
    before = mesh.agent1
    before.process.popen.send_signal(signal.SIGSTOP)
    _, two = the_next(mesh, start=False)
    asked = before.process.log().count("asks the agent that runs")
    two.start(ready=False)
    wait_for("asked", lambda: two.process.log().count("asks the agent that runs") > asked)
    before.process.kill()
    # Nobody knows what it had begun: the next one says so and ends, and whoever started it starts it again.
    assert two.process.wait() == 1 and two.process.logged("hung up")
    two.start()
    assert serves(mesh, "after-kill")


def test_the_first_dies_once_it_has_given(mesh):
    """Its sockets are there, its last word is missing: the next one goes on, alone."""
    before = mesh.agent1
    between = os.path.join(mesh.node1.dir, "between.sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(between)
        listener.listen()
        _, two = the_next(mesh, "--admin.socket", between, "--admin.listen", "127.0.0.1:40003", start=False)
        two.start(ready=False)
        new, _ = listener.accept()
        new.recv(4096)
        s = socket.socket(socket.AF_UNIX)
        s.connect(before.socket)
        s.sendall(b"POST /takeover HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
        text, fds, _, _ = socket.recv_fds(s, 256, 253)
        before.process.kill()
        socket.send_fds(new, [text], fds)
        for fd in fds:
            os.close(fd)
        assert new.recv(64) == b"serving\n"
        os.unlink(between)
    new.close()
    s.close()
    two.socket = between
    wait_for("taken over", has_taken_over(two))
    assert two.process.logged("has died while it handed over") and serves(mesh, "alone")
    assert two.process.stop() == 0 and mesh.node1.clean()
    mesh.agents[0] = mesh.agent1 = before
    before.start()


# --- by itself --------------------------------------------------------------------------------------------------------


def test_upgrade(mesh):
    """edgewayctl upgrade: the program is started again, the service manager told, and the old one ends."""
    path = os.path.join(mesh.node1.dir, "notify")
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    manager.bind(path)
    manager.settimeout(PATIENCE_S)
    mesh.agent1.process.stop()
    managed = Agent(mesh.node1, None, *mesh.agent1.options, token=mesh.agent1.token, start=False)
    mesh.agents[0] = mesh.agent1 = managed
    managed.process = mesh.node1.start("agent", *managed.argv(), env={**os.environ, "NOTIFY_SOCKET": path})
    wait_for("ready", managed.ready)
    unchanged = others_of(mesh)
    p = mesh.node1.run(mesh.lab.program("edgewayctl"), "--socket", managed.socket, "upgrade")
    pid = int(re.search(r"as process (\d+)", p.stdout).group(1))
    said = ""
    while f"MAINPID={pid}\n" not in said:
        said += manager.recv(4096).decode() + "\n"
    assert managed.process.wait(40) == 0
    assert mesh.client1.get("http://edge-nginx/")[0] == 200 and others_of(mesh) == unchanged
    wait_for("ready", managed.ready)
    os.kill(pid, signal.SIGTERM)
    wait_for("its end", lambda: not os.path.exists(f"/proc/{pid}") or "State:\tZ" in open(f"/proc/{pid}/status").read())
    assert mesh.node1.clean()
    manager.close()
    managed.start()
    wait_for("ready", managed.ready)


def test_upgrade_in_a_container(mesh):
    """The agent is process 1 there, whose end would be the end of the new one too: it says so, and serves on."""
    before = mesh.agent1
    before.process.stop()
    mesh.agents[0] = mesh.agent1 = one = Agent(mesh.node1, None, *before.options, token=before.token, start=False)
    one.process = mesh.node1.start("agent", "unshare", "--pid", "--fork", "--mount-proc", *one.argv())
    wait_for("ready", one.ready)
    p = mesh.node1.run(mesh.lab.program("edgewayctl"), "--socket", one.socket, "upgrade", check=False)
    assert p.returncode == 1 and "process 1 of a container" in p.stderr, p.stderr
    assert one.ask("/upgrade", "POST")[0] == 409 and serves(mesh, "after-refusal")
    (inside,) = open(f"/proc/{one.process.pid}/task/{one.process.pid}/children").read().split()
    os.kill(int(inside), signal.SIGTERM)
    assert one.process.wait() == 0 and mesh.node1.clean()
    mesh.agents[0] = mesh.agent1 = before
    before.start()


def test_upgrade_that_failed_and_then_another(mesh):
    """Whoever takes over after an upgrade of ours has failed is not the process that we started: the old one waits to be stopped."""
    mesh.agent1.process.stop()
    config = os.path.join(mesh.node1.dir, "agent.yaml")
    with open(config, "w") as f:
        f.write("drainTimeout: 1s\n")
    old = Agent(mesh.node1, None, *mesh.agent1.options, "--config", config, token=mesh.agent1.token)
    mesh.agents[0] = mesh.agent1 = old
    with open(config, "w") as f:
        f.write("drainTimeout: never\n")
    mesh.node1.run(mesh.lab.program("edgewayctl"), "--socket", old.socket, "upgrade")
    wait_for("it has ended", lambda: "drainTimeout" in old.process.log())
    lines = old.process.log().count("waiting to be stopped")
    s, _, _ = ask_for_it(old)
    s.sendall(b"serving\n")
    assert s.recv(64) == b"yours\n"
    s.close()
    wait_for("it waits", lambda: old.process.log().count("waiting to be stopped") > lines)
    assert old.process.stop() == 0
    with open(config, "w") as f:
        f.write("drainTimeout: 1s\n")
    old.start()


def test_upgrade_whose_starter_is_stopped(mesh):
    """The agent serves meanwhile and says why nothing is started; nor is anything later on."""
    agent = mesh.agent1
    children = open(f"/proc/{agent.process.pid}/task/{agent.process.pid}/children").read().split()
    starter = next(int(c) for c in children if open(f"/proc/{c}/comm").read() == "edgeway-starter\n")
    upgrade = mesh.node1.argv(mesh.lab.program("edgewayctl"), "--socket", agent.socket, "upgrade")
    started = Said(agent, "hands over to a new agent")
    os.kill(starter, signal.SIGSTOP)
    try:
        p = subprocess.Popen(upgrade, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert agent.ready()
        second = mesh.node1.run(*upgrade[len(mesh.node1.argv()):], check=False)
        # On a busy machine the first may be over by then.
        assert second.returncode == 1 and ("another one is being started" in second.stderr or p.poll() is not None), second.stderr
        while p.poll() is None:
            assert agent.ready()
        assert p.returncode == 1
        said = p.stderr.read() + second.stderr  # on a busy machine the second may have been the first to ask
        assert f"edgeway-starter (pid {starter}) does not answer, and will start nothing; is it stopped (kill -CONT {starter})?" in said
    finally:
        os.kill(starter, signal.SIGCONT)
    wait_for("it listens", lambda: open(f"/proc/{starter}/wchan").read() != "" and "State:\tS" in open(f"/proc/{starter}/status").read())
    assert not started() and agent.ready(), agent.process.log()[-2500:]
    p = mesh.node1.run(*upgrade[len(mesh.node1.argv()):])  # the answer to the wish before is not taken for this one's
    pid = int(re.search(r"as process (\d+)", p.stdout).group(1))
    assert agent.process.wait(40) == 0
    wait_for("ready", agent.ready)
    assert agent.process.log().count("started a new agent to hand over to") >= 1 and open(f"/proc/{pid}/comm").read() == "edgeway-agent\n"
    os.kill(pid, signal.SIGTERM)
    wait_for("its end", lambda: not os.path.exists(f"/proc/{pid}") or "State:\tZ" in open(f"/proc/{pid}/status").read())
    assert mesh.node1.clean()
    agent.start()
    wait_for("ready", agent.ready)

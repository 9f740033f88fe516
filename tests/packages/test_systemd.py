"""The packages on a machine with systemd (booted.py): how the units start, hang, crash, reload, stop, and that an upgrade loses
nothing. One machine is cloud and edge node at once, with a container's network behind its docker0. Root; top_builddir names the
configured build. The tests follow each other on that one machine.
"""
import glob
import json
import os
import re
import shutil
import subprocess
import tempfile

import pytest

from booted import HERE, Process, wait_for
from edge import AGENT, FORMER, HUB, Node, Pod, repack
from tree import run

NET = os.path.join(os.path.dirname(HERE), "net")
PYTHON = "/usr/bin/python3"
WEB = """
apiVersion: v1
kind: Service
metadata: {name: web, namespace: default}
spec:
  selector: {app: web}
  ports: [{name: http, port: 80, targetPort: 8080}, {name: tcp, port: 7000, targetPort: 9090}]
---
apiVersion: v1
kind: Pod
metadata: {name: web-1, namespace: default, labels: {app: web}}
spec: {nodeName: edge-1, containers: [{name: main, image: test, ports: [{containerPort: 8080}, {containerPort: 9090}]}]}
status: {phase: Running, hostIP: 127.0.0.1, podIP: 172.17.0.3, podIPs: [{ip: 172.17.0.3}], conditions: [{type: Ready, status: "True"}]}
"""
DOCKER0 = "ip link show docker0 || (ip link add docker0 type bridge && ip addr add 172.17.0.1/16 dev docker0 && ip link set docker0 up)"
# What is ordered after the agent. The bridge is made by docker, as on a node.
OTHERS = {"docker": DOCKER0, "kubelet": "true", "edgecore": "true"}
OTHER = "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/sh -c '%s'\nExecStop=/bin/true\n[Install]\nWantedBy=multi-user.target\n"
TALK = """
import socket, sys
f = socket.create_connection((sys.argv[1], 7000), 10).makefile("rwb")
print(f.readline().decode().strip(), flush=True)
for line in sys.stdin:
    f.write(line.encode()); f.flush()
    print(f.readline().decode().strip(), flush=True)
"""


@pytest.fixture(scope="module")
def tree(folder, clean):
    """With systemd and what our packages depend on, but for those."""
    tree = clean.result()
    if os.path.lexists(tree.path("/etc/resolv.conf")):
        os.unlink(tree.path("/etc/resolv.conf"))
    shutil.copy("/etc/resolv.conf", tree.path("/etc"))  # other tests have written their own
    depends = [run(["dpkg-deb", "-f", p, "Depends"], 20)[1].strip() for p in glob.glob(f"{folder}/edgeway*.deb")]
    tree.run("apt-get", "update", "-q", seconds=120)
    tree.run("apt-get", "satisfy", "-q", "-y", "--no-install-recommends", "systemd, iproute2", *depends, seconds=300)
    with open(tree.path("/etc/resolv.conf"), "wb") as f:
        f.write(FORMER)
    return tree


@pytest.fixture(scope="module")
def node(tree):
    node = Node(tree.root, "edge-1")
    try:
        yield node
    finally:
        node.close()


@pytest.fixture(scope="module")
def pods(node):
    """(client, web), once the node serves."""
    pods = [Pod(node, 2), Pod(node, 3)]
    served = [Process("web", pods[1].words(PYTHON, f"{NET}/backend.py", "--name", "web-1", "--http", "8080", "--tcp", "9090"), pods[1].log)]
    wait_for("the service", lambda: pods[0].get() == "web-1", 20)
    yield pods
    for p in [*served, *[pod.holder for pod in pods]]:
        p.kill()


def test_not_started_before_it_is_configured(node, folder):
    node.install(folder)
    for unit in (AGENT, HUB):
        assert node.show(unit, "ActiveState", "UnitFileState") == ["inactive", "disabled"]


def test_a_hub_that_is_not_set(node):
    """The agent as it is installed says which line lacks it, and is not tried again and again."""
    assert node.run("systemctl", "start", AGENT, check=False)[0] != 0
    assert node.show(AGENT, "ActiveState", "ExecMainStatus", "NRestarts") == ["failed", "2", "0"]
    assert node.said("SYSLOG_IDENTIFIER=edgeway-agent", "/etc/edgeway/agent.yaml:4: hub.url: is not set: ")
    node.run("systemctl", "reset-failed", AGENT)


def test_from_installed_to_enabled(node):
    """The hub, a token of it, the agent's configuration: started by hand, and enabled."""
    with open(node.path("/etc/edgeway/manifests/web.yaml"), "w") as f:
        f.write(WEB)
    set_key(node, "hub", "names", "[127.0.0.1]")
    node.run("systemctl", "enable", "--now", HUB)
    assert node.show(HUB, "ActiveState", "StatusText") == ["active", "serves"]
    token = node.run("edgewayctl", "--socket", "/run/edgeway/hub.sock", "token", "create", "--node", "edge-1")[1].split()[-1]
    set_key(node, "agent", "url", '"wss://127.0.0.1:10000"')
    with open(node.path("/etc/edgeway/token"), "w") as f:  # where the configuration that is installed looks for it
        f.write(token + "\n")
    for name, command in OTHERS.items():
        with open(node.path(f"/etc/systemd/system/{name}.service"), "w") as f:
            f.write(OTHER % command)
    node.run("systemctl", "enable", AGENT, *OTHERS)


def set_key(node, program, key, value, indent="  "):
    path = node.path(f"/etc/edgeway/{program}.yaml")
    with open(path) as f:
        text, n = re.subn(rf"^({indent}{key}: ).*$", lambda m: m.group(1) + value, f.read(), flags=re.M)
    assert n == 1
    with open(path, "w") as f:
        f.write(text)


def test_boot(node):
    """The agent is ready before docker starts, though docker makes its bridge; what systemd reads of them has no fault."""
    node.off()
    node.start()
    assert node.show(AGENT, "ActiveState", "Type", "NRestarts") == ["active", "notify", "0"]
    wait_for("it serves", node.serves, 30)
    wait_for("its status", lambda: node.show(AGENT, "StatusText") == ["serves 1 services"], 30)
    [ready] = node.show(AGENT, "ActiveEnterTimestampMonotonic")
    for other in OTHERS:
        state, began = node.show(other, "ActiveState", "ExecMainStartTimestampMonotonic")
        assert state == "active" and int(began) >= int(ready) > 0
    assert re.search(r'Status: "serves 1 services"', node.run("systemctl", "status", "--no-pager", AGENT)[1])
    assert node.show(HUB, "ActiveState", "StatusText", "User") == ["active", "serves", "edgeway-hub"]
    out = node.run("systemd-analyze", "verify", "--man=no", AGENT, HUB, *[f"{o}.service" for o in OTHERS])[1]
    assert not re.search("edgeway|cycle", out), out
    listed = node.run("systemctl", "list-dependencies", "--plain", "--before", AGENT)[1].split()
    assert {f"{o}.service" for o in OTHERS} <= set(listed)


def test_hardening(node):
    """What systemd thinks of the units as they run, and what a process in the agent's place may not do."""
    for unit, most in ((AGENT, 3.5), (HUB, 2.0)):
        out = node.run("systemd-analyze", "security", "--no-pager", unit)[1]
        exposure = re.search(r"exposure level.*: ([\d.]+)", out).group(1)
        print(f"{unit}: exposure {exposure}")
        assert float(exposure) <= most
        status = node.run("cat", f"/proc/{node.main(unit)}/status")[1]
        assert re.search(r"^NoNewPrivs:\s+1$", status, re.M) and re.search(r"^Seccomp:\s+2$", status, re.M)
    assert re.search(r"^CapEff:\s+0*1400$", node.run("cat", f"/proc/{node.main()}/status")[1], re.M)
    for path in ("/usr/x", "/var/x", "/root/x"):
        status, out = node.run("nsenter", "-t", node.main(), "-m", "touch", path, check=False)
        assert status != 0 and ("Read-only" in out or "Permission denied" in out), out


def test_reload(node):
    with open(node.path("/etc/edgeway/agent.yaml"), "a") as f:
        f.write("drainTimeout: 9s\n")
    before = node.main()
    node.run("systemctl", "reload", AGENT, HUB)
    wait_for("both have read it", lambda: node.said(f"_PID={before}", "reloaded key=drainTimeout") and node.said(f"_PID={node.main(HUB)}", "reloaded"))
    assert node.main() == before


def test_stop(node):
    """What was changed on the host is as it was."""
    node.run("systemctl", "stop", AGENT)
    assert node.show(AGENT, "ActiveState", "Result") == ["inactive", "success"]
    assert node.resolv() == FORMER and node.table() is None
    assert node.run("cat", "/proc/sys/net/ipv4/ip_local_reserved_ports")[1].strip() == ""
    assert not os.path.lexists(f"/proc/{node.first()}/root/run/edgeway/agent.sock")
    assert not re.search(r":53\b|:40001\b", run(node.net("ss", "-Hlntu"), 20)[1])
    node.run("systemctl", "start", AGENT)
    wait_for("it serves", node.serves, 30)


def restarted(node, count):
    return node.show(AGENT, "NRestarts", "ActiveState") == [str(count), "active"] and node.serves()


CALL = "import socket, sys; s = socket.create_connection((sys.argv[1], 80), 60); print('connected', flush=True); " \
       "s.sendall(b'GET / HTTP/1.0\\r\\nHost: a\\r\\n\\r\\n'); print(s.recv(99), flush=True)"


def test_crash(node, pods):
    """Killed, it starts again, and what is on the host stays as it is meanwhile: the sockets as well, so that calls wait, and nobody else has the
    ports."""
    table, resolv, address = node.table(), node.resolv(), pods[0].resolve()
    node.drop_in(AGENT, "[Service]\nRestartSec=3\n")
    [count] = node.show(AGENT, "NRestarts")
    node.run("systemctl", "kill", "--kill-whom=main", "--signal=KILL", AGENT)
    wait_for("systemd has seen it", lambda: node.show(AGENT, "SubState") == ["auto-restart"])
    assert (node.table() is None, node.resolv()) == (table is None, resolv) and table is not None
    listening = run(node.net("ss", "-Hlntu"), 20)[1]
    assert re.search(r"172\.17\.0\.1:40001\b", listening) and re.search(r"^udp.*172\.17\.0\.1:53\b", listening, re.M)
    call = subprocess.Popen(pods[0].words(PYTHON, "-c", CALL, address), stdout=subprocess.PIPE, text=True)
    assert call.stdout.readline() == "connected\n"
    assert node.show(AGENT, "SubState") == ["auto-restart"]
    wait_for("it serves again", lambda: restarted(node, int(count) + 1), 30)
    assert "200 OK" in call.communicate(timeout=60)[0]
    assert (node.resolv(), pods[0].resolve(), pods[0].get()) == (resolv, address, "web-1")


def test_crashes_again_and_again(node):
    """It is never given up: six in ten seconds are systemd's usual limit."""
    node.drop_in(AGENT, "[Service]\nRestartSec=100ms\n")
    [count] = node.show(AGENT, "NRestarts")
    for n in range(1, 9):
        node.run("systemctl", "kill", "--kill-whom=main", "--signal=KILL", AGENT)
        wait_for("the next one", lambda: node.show(AGENT, "NRestarts", "SubState") == [str(int(count) + n), "running"], 20)
    wait_for("it serves", node.serves, 30)


def test_wrong_configuration(node):
    """Is told, and not tried again and again."""
    set_key(node, "agent", "drainTimeout", "soon", "")
    assert node.run("systemctl", "restart", AGENT, check=False)[0] != 0
    assert node.show(AGENT, "ActiveState", "ExecMainStatus", "NRestarts") == ["failed", "2", "0"]
    set_key(node, "agent", "drainTimeout", "9s", "")
    node.run("systemctl", "start", AGENT)
    wait_for("it serves", node.serves, 30)


def test_watchdog(node, pods):
    node.drop_in(AGENT, "[Service]\nWatchdogSec=2\n")
    node.run("systemctl", "restart", AGENT)
    wait_for("it serves", node.serves, 30)
    [count] = node.show(AGENT, "NRestarts")
    node.run("systemctl", "kill", "--kill-whom=main", "--signal=STOP", AGENT)
    wait_for("it serves again", lambda: restarted(node, int(count) + 1), 40)
    assert node.said(f"UNIT={AGENT}", "Watchdog timeout") and pods[0].get() == "web-1"


class Talk:
    """A line there and back, on one connection."""

    def __init__(self, pod):
        self.popen = subprocess.Popen(pod.words(PYTHON, "-c", TALK, pod.resolve()), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.popen.stdout.readline() == "web-1\n"

    def ask(self, text):
        self.popen.stdin.write(text + "\n")
        self.popen.stdin.flush()
        return self.popen.stdout.readline()

    def close(self):
        self.popen.kill()
        self.popen.communicate()


def load(pod, *options):
    """It says each answer into `answers`, a file."""
    answers = tempfile.TemporaryFile("w+")
    p = subprocess.Popen(pod.words(PYTHON, f"{NET}/load.py", pod.resolve(), "80", "12", "4", "5", "least=101", *options), stdout=answers, text=True)
    p.answers = answers
    return p


def results_of(p):
    assert p.wait(timeout=90) == 0
    p.answers.seek(0)
    return [json.loads(line) for line in p.answers]


def processes(node):
    """Of the agent's unit, by their programs' names as the kernel has them."""
    return sorted(node.run("sh", "-c", "cat /sys/fs/cgroup/system.slice/edgeway-agent.service/cgroup.procs | "
                           "while read p; do readlink /proc/$p/exe; done")[1].split("\n")[:-1])


def test_upgrade(node, pods, folder):
    """All three packages at once, under requests: none is lost, a connection goes on, systemd has a new main process."""
    node.drop_in(AGENT, "[Service]\nWatchdogSec=4\n")
    node.run("systemctl", "restart", AGENT)
    wait_for("it serves", node.serves, 30)
    former, hub, resolv = node.main(), node.main(HUB), node.resolv()
    unchanged = node.show(AGENT, "NRestarts", "ActiveEnterTimestampMonotonic", "InvocationID")
    newer = repack(folder, 2)
    talk, loads = Talk(pods[0]), [load(pods[0]), load(pods[0], "close")]
    try:
        assert talk.ask("before") == "before\n"
        out = node.install(newer)[1]
        assert "did not take over" not in out
        assert node.main() not in (former, "0") and node.main(HUB) not in (hub, "0")
        assert talk.ask("after") == "after\n"
        results = [results_of(p) for p in loads]
    finally:
        talk.close()
        shutil.rmtree(newer)
        for p in loads:
            p.kill()
            p.wait()
            p.answers.close()
    print(f"{sum(map(len, results))} requests")
    assert [r for some in results for r in some if r[2] != 200] == [] and min(map(len, results)) > 100
    assert node.show(AGENT, "NRestarts", "ActiveEnterTimestampMonotonic", "InvocationID") == unchanged and node.resolv() == resolv
    assert re.fullmatch(r"\S+-2\n", node.run("dpkg-query", "-W", "-f", "${Version}\n", "edgeway-agent")[1])
    wait_for("the former has ended", lambda: processes(node) == ["/usr/sbin/edgeway-agent"] * 2, 40)


def test_the_new_one_is_watched(node, pods):
    """Its words count, its watchdog is fed, SIGHUP and the end of it reach systemd as those of the first."""
    [fed] = node.show(AGENT, "WatchdogTimestampMonotonic")
    wait_for("a word of it", lambda: int(node.show(AGENT, "WatchdogTimestampMonotonic")[0]) > int(fed) + 5_000_000, 20)
    with open(node.path("/etc/edgeway/manifests/more.yaml"), "w") as f:
        f.write(WEB.split("---")[0].replace("name: web,", "name: more,"))
    wait_for("its status", lambda: node.show(AGENT, "StatusText") == ["serves 2 services"], 20)
    set_key(node, "agent", "drainTimeout", "8s", "")
    node.run("systemctl", "reload", AGENT)
    wait_for("reloaded", lambda: node.said(f"_PID={node.main()}", "reloaded key=drainTimeout"))
    [count] = node.show(AGENT, "NRestarts")
    node.run("systemctl", "kill", "--kill-whom=main", "--signal=KILL", AGENT)
    wait_for("it serves again", lambda: restarted(node, int(count) + 1), 30)
    assert pods[0].get() == "web-1"


def test_upgrade_to_one_that_does_not_run(node, pods, folder):
    """dpkg says so, the former one goes on, and a good one takes over after that."""
    former = node.main()
    broken = repack(folder, 3, "#!/bin/sh\nexit 1\n")
    try:
        assert "did not take over" in node.install(broken)[1]
    finally:
        shutil.rmtree(broken)
    assert node.main() == former and node.serves() and pods[0].get() == "web-1"
    good = repack(folder, 4)
    try:
        assert "did not take over" not in node.install(good)[1]
    finally:
        shutil.rmtree(good)
    assert node.main() not in (former, "0") and node.serves() and pods[0].get() == "web-1"


def test_removed_while_it_runs(node):
    node.run("systemctl", "start", AGENT)
    wait_for("it serves", node.serves, 30)
    node.run("dpkg", "-r", "edgeway-agent", "edgeway-hub", "edgeway-ctl")
    assert node.resolv() == FORMER and node.table() is None
    assert node.show(AGENT, "ActiveState") == ["inactive"] and node.show(HUB, "ActiveState") == ["inactive"]
    assert os.path.exists(node.path("/etc/edgeway/agent.yaml")) and os.path.isdir(node.path("/var/lib/edgeway"))


def test_removed_after_it_was_killed(node, folder):
    """What it changed is put back by the settings that the unit gave it, those of its environment as well."""
    other, settings = node.path("/etc/resolv.other"), "/etc/default/edgeway-agent"
    shutil.copy(node.path("/etc/resolv.conf"), other)
    node.install(folder)
    node.write(settings, "# of the operator\nEDGEWAY_DNS_RESOLV_CONF='/etc/resolv.other'\n")
    node.drop_in(AGENT, "[Service]\nRestart=no\n")
    node.run("systemctl", "restart", AGENT)  # which is enabled: it was started as it was installed

    def resolv():
        with open(other, "rb") as f:
            return f.read()
    wait_for("it serves", lambda: resolv() != FORMER and node.table() is not None, 30)
    node.run("systemctl", "kill", "-s", "KILL", AGENT)
    wait_for("its end", lambda: node.show(AGENT, "ActiveState") == ["failed"])
    assert resolv() != FORMER
    node.run("dpkg", "-r", "edgeway-agent", "edgeway-hub", "edgeway-ctl")
    assert resolv() == FORMER and node.table() is None
    for path in (other, node.path(settings)):
        os.unlink(path)


def test_purged(node, clean):
    """Nothing is left but the hub's user, as Debian has it."""
    shutil.rmtree(node.path("/etc/systemd/system/edgeway-agent.service.d"))
    for path in glob.glob(node.path("/etc/edgeway/manifests/*")) + glob.glob(node.path("/root/*.deb")):
        os.unlink(path)
    node.run("dpkg", "-P", "edgeway-agent", "edgeway-hub", "edgeway-ctl")
    assert {p for p in clean.result().files() if "edgeway" in p} == set()
    assert "edgeway" not in node.run("systemctl", "list-unit-files", "--no-pager")[1]
    assert node.run("ls", "/run")[1].count("edgeway") == 0
    assert "edgeway-hub:" in node.run("cat", "/etc/passwd")[1]


def test_it_ends_in_order(node):
    node.off()
    assert not os.path.exists(node.group)

"""edgewayctl as operators and their programs use it: one screen, tables, JSON and YAML, top, completion in a shell."""
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios

import pytest
import yaml

from lab import PATIENCE_S, wait_for

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
COMPLETION = os.path.join(HERE, "..", "..", "deploy", "completion", "edgewayctl")
EMPTY = {"namespace": "default", "name": "empty"}


class Ctl:
    def __init__(self, mesh, daemon, machine):
        self.program, self.socket, self.machine = mesh.lab.program("edgewayctl"), daemon.socket, machine

    def run(self, *words, check=True):
        return self.machine.run(self.program, "--socket", self.socket, *words, check=check)

    def __call__(self, *words):
        return self.run(*words).stdout


@pytest.fixture(scope="module")
def agent(mesh):
    return Ctl(mesh, mesh.agent1, mesh.node1)


@pytest.fixture(scope="module")
def hub(mesh):
    return Ctl(mesh, mesh.hub, mesh.hub.machine)


def rows(table):
    return [line.split() for line in table.splitlines()[1:]]


def test_status_is_one_screen(mesh, agent, hub):
    said = agent("status")
    assert said.startswith("edge-1: ready, edgeway-agent ") and len(said.splitlines()) < 24
    for line in ("connected to wss://192.0.2.1:10000", "table ip edgeway installed", "192.0.2.53:53 (alive)"):
        assert line in said
    assert re.search(r"^  resolv.conf  ours$", said, re.M) and re.search(r"^  warnings     services: no endpoint is ready of default/empty$", said, re.M)
    said = hub("status")
    assert "2 connected, 2 synced" in said and "default/empty: port 80: no pod with an address" in said


def test_status_says_what_is_wrong(mesh, agent, hub):
    """The hub is stopped: the agent serves on, so that it is ready, and the reason stands among the faults."""
    mesh.hub.process.stop(signal.SIGKILL)
    try:
        wait_for("fault", lambda: re.search(r"faults +hub: .*192\.0\.2\.1:10000: Connection refused\n +-> nothing listens there", agent("status")))
        assert agent("status").startswith("edge-1: ready, 1 FAULT, ")
        assert "NOT CONNECTED to wss://192.0.2.1:10000" in agent("status")
    finally:
        mesh.hub.start()
    wait_for("no fault", lambda: "faults" not in agent("status"))
    wait_for("both are back", lambda: "2 connected, 2 synced" in hub("status"))


def examined(ctl):
    """Exit status, and the verdict and finding of each check; a check may have several."""
    p = ctl.run("-o", "json", "doctor", check=False)
    found = {}
    for f in json.loads(p.stdout):
        assert bool(f["remedy"]) == (f["verdict"] != "ok")
        found.setdefault(f["check"], []).append((f["verdict"], f["found"]))
    return p.returncode, found


def test_doctor_of_healthy_ones(mesh, agent, hub):
    status, found = examined(agent)
    assert status == 0 and not [f for fs in found.values() for f in fs if f[0] == "BAD"]
    assert found["port"] == [("ok", f"{p}: edgeway-agent (pid {mesh.agent1.process.pid})") for p in ("udp 53", "tcp 53", "tcp 40001")]
    assert found["kernel"] == [("ok", "nf_tables with nat: there")] and re.fullmatch("2.*Z, as the hub's", found["clock"][0][1])
    assert found["interface"] == [("ok", "docker0 is up, 172.17.0.1")]
    assert found["upstreams"] == [("ok", "192.0.2.53:53: alive")]
    assert "certificate" in found and "conntrack" in found and found["resolv.conf"] == [("ok", "ours")]
    wait_for("both nodes", lambda: examined(hub)[1]["nodes"] == [("ok", "2 connected")])
    status, found = examined(hub)
    assert status == 0
    named = ("note", "default/empty: port 80: no pod with an address; no pod has the label app=nobody of its selector; "
             "the nearest, edge-1-web-0, has app=web")
    wait_for("the nearest label", lambda: examined(hub)[1]["services"] == [named])


def test_doctor_of_another_user(mesh, agent):
    """Who does not see the agent's processes does not take it for somebody who has its ports."""
    ctl = (mesh.lab.program("edgewayctl"), "--socket", agent.socket, "-o", "json", "doctor")
    p = mesh.node1.run("setpriv", "--reuid", "12345", "--regid", "12345", "--clear-groups", *ctl, check=False)
    ports = [(f["verdict"], f["remedy"]) for f in json.loads(p.stdout) if f["check"] == "port"]
    assert ports == [("note", "it may be the agent: run the doctor as root, where its processes are seen")] * 2
    daemon = next(f for f in json.loads(p.stdout) if f["check"] == "daemon")
    assert daemon["verdict"] == "note" and "permission denied" in daemon["found"] and daemon["remedy"].startswith("run the doctor as root")


def test_doctor_of_one_that_hangs(mesh, agent):
    mesh.agent1.process.popen.send_signal(signal.SIGSTOP)
    try:
        daemon = examined(agent)[1]["daemon"]
    finally:
        mesh.agent1.process.popen.send_signal(signal.SIGCONT)
    assert daemon == [("BAD", "no whole answer from the daemon: it is silent")]
    wait_for("all is well again", lambda: examined(agent)[0] == 0)


def test_doctor_and_who_may_take_the_lock(mesh, agent):
    """UDP port 251 of 127.9.251.1 is the agents' lock: who may take it, and who has."""
    node = mesh.node2
    ctl = Ctl(mesh, mesh.agent2, node)
    assert "lock" not in examined(ctl)[1]
    node.run("sysctl", "-qw", "net.ipv4.ip_unprivileged_port_start=251")
    mesh.agent2.stop()
    taker = node.start("taker", "setpriv", "--reuid", "12345", "--regid", "12345", "--clear-groups", "/usr/bin/python3", "-c",
                       "import socket, time; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('127.9.251.1', 251)); time.sleep(600)")
    try:
        wait_for("taken", lambda: len(examined(ctl)[1].get("lock", [])) == 2)
        assert examined(ctl)[1]["lock"] == [("BAD", f"the agents' lock is held by python3 (pid {taker.pid}, user 12345)"),
                                            ("note", "net.ipv4.ip_unprivileged_port_start is 251")]
        p = node.run(*mesh.agent2.argv(), check=False)
        assert p.returncode == 1 and f"is in use: by python3 (pid {taker.pid}, user 12345)" in p.stderr
        p = node.run("unshare", "--pid", "--fork", "--mount-proc", *mesh.agent2.argv(), check=False)
        assert p.returncode == 1 and "is in use: by a process of user 12345 that cannot be seen from here" in p.stderr
    finally:
        taker.stop()
        node.run("sysctl", "-qw", "net.ipv4.ip_unprivileged_port_start=1024")
        mesh.agent2.start()
    wait_for("all is well again", lambda: "lock" not in examined(ctl)[1])


def test_doctor_finds_what_is_wrong_with_the_machine(mesh, agent):
    node = mesh.node1
    node.run("sysctl", "-qw", "net.ipv4.ip_forward=0")
    node.run("ip", "link", "set", node.bridge, "mtu", "1600")
    try:
        status, found = examined(agent)
        assert status == 1 and found["forwarding"] == [("BAD", "net.ipv4.ip_forward is 0")]
        assert found["MTU"][0][0] == "note" and "docker0 1600, " in found["MTU"][0][1]
        said = agent.run("doctor", check=False).stdout
        assert re.search(r"^BAD +forwarding .*\n +-> sysctl -w net.ipv4.ip_forward=1", said, re.M)
    finally:
        node.run("sysctl", "-qw", "net.ipv4.ip_forward=1")
        node.run("ip", "link", "set", node.bridge, "mtu", "1500")
    assert examined(agent)[0] == 0


def test_doctor_without_the_agent(mesh, agent):
    """The agent is down, and what keeps it down is found: somebody else has its port."""
    node = mesh.node1
    mesh.agent1.stop()
    squatter = node.start("squatter", "dnsmasq", "-k", "-C", "/dev/null", "--no-resolv", "--bind-interfaces", "-a", node.gateway)
    try:
        wait_for("taken", lambda: any("dnsmasq" in f for _, f in examined(agent)[1]["port"]))
        status, found = examined(agent)
        assert status == 1 and found["daemon"][0][0] == "BAD" and agent.socket in found["daemon"][0][1]
        assert found["port"] == [("BAD", f"{p} 53: dnsmasq (pid {squatter.pid})") for p in ("udp", "tcp")]
    finally:
        squatter.stop()
        mesh.agent1.start()
    wait_for("all is well again", lambda: examined(agent)[0] == 0)


def test_doctor_without_the_hub(mesh, agent):
    mesh.hub.process.stop(signal.SIGKILL)
    try:
        wait_for("found", lambda: examined(agent)[1]["hub"][0][0] == "BAD" and "192.0.2.1:10000" in examined(agent)[1]["hub"][0][1])
    finally:
        mesh.hub.start()
    wait_for("all is well again", lambda: examined(agent)[0] == 0)


def test_tables(mesh, agent, hub):
    names = [r[0] for r in rows(agent("services"))]
    assert names == ["default/edge-nginx", "default/empty", "shop/web"]
    assert rows(agent("endpoints", "default/empty")) == [
        ["default/empty", port, "none", "(no", "pod,", "or", "none", "with", "an", "address)", "-", "-"] for port in ("80/http", "7000/tcp")]
    assert {r[2] for r in rows(agent("endpoints", "shop/web"))} >= {"172.17.0.2:8080", "192.0.2.12:30080"}
    assert [r[0] for r in rows(hub("node", "list"))] == ["edge-1", "edge-2"]
    wait_for("both are back", lambda: "2 connected, 2 synced" in hub("status"))
    heading, *lines = hub("node", "list").splitlines()
    column = heading.index("ADDRESS")
    assert all(line[column:].startswith("192.0.2.1") and line[column - 1] == " " for line in lines)
    p = agent.run("services", "default/nobody", check=False)
    assert p.returncode == 1 and "no service default/nobody on this node" in p.stderr


def test_for_programs(mesh, agent, hub):
    for read, form in ((json.loads, "json"), (yaml.safe_load, "yaml")):
        one, = read(agent("-o", form, "services", "default/empty"))
        assert EMPTY.items() <= one.items() and one["headless"] is False
        assert [p["port"] for p in one["ports"]] == [80, 7000]
        assert {n["node"] for n in read(hub("--output", form, "node", "list"))} == {"edge-1", "edge-2"}
        assert read(agent("-o", form, "status"))["meta"]["connected"] is True
        assert read(agent("-o", form, "state"))["version"] == read(agent("-o", form, "status"))["version"]
        wait_for("tunnels", lambda r=read, f=form: {t["node"] for t in r(hub("-o", f, "tunnels"))} == {"edge-1", "edge-2"})


def test_top(mesh, agent):
    """Only what happens between two looks is counted."""
    url = "http://edge-nginx.default/"
    assert mesh.client1.get(url)[0] == 200
    many = mesh.client1.start("many", "sh", "-c", f"while curl -s -o /dev/null {url}; do :; done")
    wait_for("requests by second", lambda: any(
        r[0] == "default/edge-nginx" and float(r[1]) > 0 and float(r[2]) == 0 for r in rows(agent("top"))[2:]))
    many.stop()
    wait_for("nothing more", lambda: [r[1] for r in rows(agent("top"))[2:] if r[0] == "default/edge-nginx"] == ["0"])
    assert any(s["service"] == "edge-nginx" and s["requests"]["2xx"] > 0 for s in json.loads(agent("-o", "json", "top")))


def test_top_tells_of_now(mesh, agent):
    """Percentiles are of what came between two looks: a slow hour before does not stay in them."""
    url = "http://edge-nginx.default/"
    mesh.client1.run("sh", "-c", f"for i in 1 2 3 4 5 6 7 8; do curl -s -o /dev/null {url}slow & done; wait")
    one, = [s for s in json.loads(agent("-o", "json", "top")) if s["service"] == "edge-nginx"]
    assert one["p99_us"] > 400_000 and sum(one["took"]) == one["requests"]["2xx"] and one["first_bucket_us"] == 128
    many = mesh.client1.start("quick", "sh", "-c", f"while curl -s -o /dev/null {url}; do :; done")
    wait_for("only quick ones", lambda: [r for r in rows(agent("top"))[2:] if r[0] == "default/edge-nginx" and float(r[1]) > 0 and
                                         0 < float(r[7]) <= float(r[8]) < 300])
    many.stop()
    row = wait_for("none", lambda: [r for r in rows(agent("top"))[2:] if r[0] == "default/edge-nginx" and r[1] == "0"])[0]
    assert row[7:9] == ["-", "-"]


class Terminal:
    """edgewayctl on a terminal of its own."""

    def __init__(self, ctl, *words, size=(24, 80), env=(), argv=None):
        self.master, slave = pty.openpty()
        self.resize(*size)
        self.popen = subprocess.Popen(ctl.machine.argv("env", "TERM=xterm", *env, *(argv or (ctl.program, "--socket", ctl.socket, *words))),
                                      stdin=slave, stdout=slave, stderr=slave, start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(slave)
        self.text = ""

    def resize(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self):
        try:
            while select.select([self.master], [], [], 0)[0]:
                self.text += os.read(self.master, 65536).decode()
        except OSError:  # all have closed it
            pass
        return self.text

    def look(self, seen):
        """A whole screen that came after `seen` bytes, its lines."""
        home = "\x1b[H"
        whole = [t for t in self.read()[seen:].split(home)[1:] if t.endswith("\x1b[J")]
        return whole and [re.sub(r"\x1b\[[0-9;]*[a-zA-Z]", "", line) for line in whole[-1].split("\r\n")]

    def end(self):
        self.popen.send_signal(signal.SIGINT)
        status = self.popen.wait(PATIENCE_S)
        self.read()
        os.close(self.master)
        return status


def test_screen(mesh, agent):
    """What does not fit is left out, also after the terminal has got another size; a message is on the screen, too."""
    t = Terminal(agent, "--watch=60", "status", size=(6, 40))
    first = wait_for("a look", lambda: t.look(0))
    assert first[0].startswith("edge-1: ready, ") and len(first) == 6 and first[5] == "" and max(map(len, first)) == 40
    seen = len(t.text)
    t.resize(50, 200)
    wide = wait_for("another look, long before its time", lambda: t.look(seen))
    assert any(line.startswith("  warnings     services: ") for line in wide) and max(map(len, wide)) > 80
    assert "\x1b[32mready\x1b[0m" in t.text
    assert t.end() == -signal.SIGINT
    t = Terminal(agent, "--socket", "/nowhere", "--watch=60", "status")
    assert "cannot reach the daemon at /nowhere" in wait_for("said", lambda: t.look(0))[0]
    t.end()


@pytest.mark.parametrize("env", [("NO_COLOR=1",), ("TERM=dumb",), ("TERM=",)])
def test_without_colours(agent, env):
    """TERM=dumb neither moves the cursor."""
    t = Terminal(agent, "--watch=1", "status", env=env)
    wait_for("two looks", lambda: t.read().count("services: no endpoint is ready of") >= 2)
    t.end()
    assert "edge-1: ready, " in t.text and not re.search(r"\x1b\[[0-9;]*m", t.text.replace("\x1b[0m", "?"))
    assert ("\x1b" in t.text) == (env == ("NO_COLOR=1",))


def test_watch_of_anything(agent):
    """No colours where nobody sees them; a look follows another."""
    all_words = [("status",), ("doctor",), ("services",), ("endpoints",), ("health",), ("upstreams",), ("events",), ("streams",), ("top",),
                 ("log", "list"), ("resolve", "web.shop"), ("-o", "json", "services"), ("metrics",)]
    watches = [agent.machine.start("watch-" + words[-1], agent.program, "--socket", agent.socket, "--watch=1", *words) for words in all_words]
    for words, p in zip(all_words, watches):
        head = wait_for("a look", lambda p=p: p.log().strip().splitlines())[0].split()[0]
        wait_for("two looks", lambda p=p, h=head: p.log().count(h) >= 2)
        p.stop()
        assert "\x1b" not in p.log()


def test_documents_of_yaml_are_parted(agent):
    p = agent.machine.start("yaml", agent.program, "--socket", agent.socket, "-w1", "-o", "yaml", "services")
    wait_for("three", lambda: p.log().count("---") >= 2)
    p.stop()
    looks = list(yaml.safe_load_all(p.log().rpartition("---")[0]))
    assert len(looks) >= 2 and all(look == looks[0] and len(look) == 3 for look in looks)


def test_nobody_reads(agent):
    """A full disk is an error that is told; a reader that has gone is none to tell of."""
    program = f"{agent.program} --socket {agent.socket}"
    p = agent.machine.run("bash", "-c", f"{program} state > /dev/full", check=False)
    assert p.returncode == 1 and p.stderr == "edgewayctl: cannot write: No space left on device\n"
    p = agent.machine.run("bash", "-c", f"{program} -w1 services | head -1; echo ${{PIPESTATUS[0]}}")
    assert p.stdout.splitlines()[-1] == "1" and p.stderr == ""


def test_watch_goes_on_without_the_daemon(mesh, agent):
    watch = mesh.node1.start("watch", agent.program, "--socket", agent.socket, "--watch=1", "services")
    wait_for("two looks", lambda: watch.log().count("default/empty") >= 2)
    mesh.agent1.stop()
    try:
        wait_for("said", lambda: "it does not run" in watch.log())
    finally:
        mesh.agent1.start()
    seen = watch.log().count("default/empty")
    wait_for("back", lambda: watch.log().count("default/empty") > seen)
    watch.stop()


def test_log_levels(mesh, agent, hub):
    """Of one part while it runs; SIGHUP brings the configuration's back."""
    assert ["dns", "info"] in rows(agent("log", "list"))
    assert agent("log", "level", "debug", "--part", "meta") == "meta: debug\n"
    assert [r for r in rows(agent("log", "list")) if r[1] != "info"] == [["meta", "debug"]]
    assert hub("log", "level", "warn") == "all parts: warn\n"
    assert {r[1] for r in rows(hub("log", "list"))} == {"warn"}
    for daemon, ctl in ((mesh.agent1, agent), (mesh.hub, hub)):
        daemon.process.popen.send_signal(signal.SIGHUP)
        wait_for("as configured", lambda c=ctl: {r[1] for r in rows(c("log", "list"))} == {"info"})
    for words, why in ((("log", "level", "loud"), "level: error, warn, info or debug expected"),
                       (("log", "level", "debug", "--part", "nobody"), "no part of the log has this name"),
                       (("log", "access", "some"), "mode: off, errors or all expected")):
        p = agent.run(*words, check=False)
        assert p.returncode == 1 and why in p.stderr


def test_access_log_while_it_runs(mesh, agent):
    url = "http://edge-nginx.default/seen-"
    mesh.client1.get(url + "before")
    assert agent("log", "access", "all") == "access log: all\n"
    wait_for("a line", lambda: mesh.client1.get(url + "then") and "/seen-then" in mesh.agent1.process.log())
    agent("log", "access", "off")
    wait_for("quiet", lambda: "access log changed mode=off" in mesh.agent1.process.log())
    mesh.client1.get(url + "after")
    agent("log", "access", "all")
    wait_for("a line again", lambda: mesh.client1.get(url + "last") and "/seen-last" in mesh.agent1.process.log())
    agent("log", "access", "off")
    log = mesh.agent1.process.log()
    assert "/seen-before" not in log and "/seen-after" not in log


@pytest.mark.parametrize("words,why", [
    (("-o", "xml", "status"), "-o: table, json or yaml expected, not xml"),
    (("-o", "json", "metrics"), "-o: there is but one form of metrics"),
    (("--watch=0", "status"), "--watch: a time from 1s to 1d expected, such as 90s, 30m, 1h or 7d, not 0"),
    (("--watch=-1", "status"), "--watch: a time from 1s to 1d expected, such as 90s, 30m, 1h or 7d, not -1"),
    (("--watch=1x", "status"), "--watch: a time from 1s to 1d expected, such as 90s, 30m, 1h or 7d, not 1x"),
    (("--watch=25h", "status"), "--watch: a time from 1s to 1d expected, such as 90s, 30m, 1h or 7d, not 25h"),
    (("token", "create", "--ttl", "0s"), "--ttl: a time from 1s to 365d expected, such as 90s, 30m, 1h or 7d, not 0s"),
    (("token", "create", "--ttl", "9000h"), "--ttl: a time from 1s to 365d expected, such as 90s, 30m, 1h or 7d, not 9000h"),
    (("token", "create", "--ttl", "1w"), "--ttl: a time from 1s to 365d expected, such as 90s, 30m, 1h or 7d, not 1w"),
    (("--watch", "token", "create"), "--watch: would do it again and again: token create"),
    (("log", "level"), "log level needs a level"),
    (("log", "access"), "log access needs a mode"),
    (("--part", "dns", "status"), "--part belongs to log level"),
    (("status", "now"), "too many arguments at now"),
    (("--ttl", "5", "status"), "--uses and --ttl belong to token create"),
    (("-o", "yaml", "tap"), "it goes on by itself, as a table or as lines of JSON: tap"),
    (("--watch", "tap"), "it goes on by itself, as a table or as lines of JSON: tap"),
    (("--node", "edge-1", "doctor"), "--node: run it on the node itself: doctor"),
    (("--node", "edge-1", "log", "level", "debug"), "--node: run it on the node itself: log level"),
    (("--node", "edge-1", "trace", "web.shop"), "--node: run it on the node itself: trace")])
def test_wrong_usage(agent, words, why):
    p = agent.run(*words, check=False)
    assert p.returncode == 2 and why in p.stderr and p.stdout == ""


OFFERS = [
    ("edgewayctl to", {"top", "token"}),
    ("edgewayctl access ", {"check"}),
    ("edgewayctl --socket SOCKET tap default/", {"default/edge-nginx", "default/empty"}),
    ("edgewayctl -o ", {"table", "json", "yaml"}),
    ("edgewayctl --socket SOCKET endpoints default/", {"default/edge-nginx", "default/empty"}),
    ("edgewayctl --socket SOCKET log level debug --part dn", {"dns"}),
    ("edgewayctl token ", {"create", "list", "revoke"}),
    ("edgewayctl log access ", {"off", "errors", "all"}),
    ("edgewayctl -o json node re", {"revoke"}),
    ("edgewayctl node ", {"list", "revoke", "forget"}),
    ("edgewayctl --w", {"--watch"}),
    ("edgewayctl services --w", {"--watch"}),
    ("edgewayctl status -o y", {"yaml"}),
    ("edgewayctl status ", set())]


@pytest.mark.parametrize("line,offered", OFFERS)
def test_completion_of_bash(agent, line, offered):
    words = line.replace("SOCKET", agent.socket).split(" ")
    script = (f"PATH={os.path.dirname(agent.program)}:$PATH; . {COMPLETION}; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); "
              "_edgewayctl; printf '%s\\n' \"${COMPREPLY[@]}\"")
    p = agent.machine.run("bash", "-c", script, "bash", *words)
    assert set(p.stdout.split()) == offered


ZSHRC = """
setopt no_prompt_sp; PROMPT='ready> '; PATH={path}:$PATH; fpath=({completion} $fpath)
autoload -Uz compinit; compinit -u -D
compadd() {{    # as zsh's own, and notes what it would offer
	local -a hits
	builtin compadd -A hits "$@"
	(( $#hits )) && print -l -- $hits >> $OFFERS
	builtin compadd "$@"
}}
"""


def test_completion_of_zsh(agent):
    """Keys typed at an interactive shell, the completion found through fpath as the package installs it."""
    offers = os.path.join(agent.machine.dir, "offers")
    with open(os.path.join(agent.machine.dir, ".zshrc"), "w") as f:
        f.write(ZSHRC.format(path=os.path.dirname(agent.program), completion=os.path.dirname(os.path.abspath(COMPLETION))))
    shell = Terminal(agent, size=(50, 400), argv=("env", f"ZDOTDIR={agent.machine.dir}", f"OFFERS={offers}", "zsh", "-d", "-i"))
    wait_for("a prompt", lambda: "ready> " in shell.read())
    for line, offered in OFFERS:
        open(offers, "w").close()
        seen = len(shell.text)
        os.write(shell.master, (line.replace("SOCKET", agent.socket) + "\t").encode())
        # What is typed behind it is taken up when the completion is through: the line is thrown away.
        os.write(shell.master, b"\x15print do''ne\r")
        wait_for("completed", lambda s=seen: re.search(r"done\r\n.*ready> ", shell.read()[s:], re.S))
        with open(offers) as f:
            assert set(f.read().split()) == offered, line
    os.write(shell.master, b"exit\r")
    shell.popen.wait(PATIENCE_S)


def test_resolve(mesh, agent):
    """The agent's own answer, by the host's search list, and what it means."""
    said = agent("resolve", "edge-nginx")
    address = mesh.client1.address_of("edge-nginx.default.svc.cluster.local")
    assert said.startswith("edge-nginx.default.svc.cluster.local: NOERROR from 172.17.0.1:53 in ")
    assert "fake IP of the service default/edge-nginx" in said and re.search(rf"^A +30 +{re.escape(address)}$", said, re.M)
    said = agent("resolve", "www.example.test")
    assert "no service of the mesh" in said and "203.0.113.7" in said
    p = agent.run("resolve", "edge-nginx.nowhere.svc.cluster.local", check=False)
    assert p.returncode == 1 and "NXDOMAIN" in p.stdout and "did you mean edge-nginx.default" in p.stdout
    data = json.loads(agent("-o", "json", "resolve", "web.shop"))
    assert data["asked"] == "web.shop.svc.cluster.local" and data["records"][0]["type"] == "A" and "shop/web" in data["meaning"]
    assert agent.run("resolve", check=False).returncode == 2


def test_trace(mesh, agent):
    """A real request, with the address, the rule and the endpoints that it met."""
    said = agent("trace", "http://web.shop:8000/")
    assert re.search(r"^service +shop/web$", said, re.M) and "to the proxy at 172.17.0.1:40001, an endpoint for each request" in said
    assert re.search(r"^request +status 200, connected after [\d.]+ ms, first byte [\d.]+ ms, all of \d+ bytes [\d.]+ ms$", said, re.M)
    data = json.loads(agent("-o", "json", "trace", "edge-nginx/headers"))
    assert data["status"] == 200 and data["port"] == 80 and data["error"] == "" and 0 < data["connect_ms"] < data["total_ms"]
    assert len(data["endpoints"]) == 4 and {e["tier"] for e in data["endpoints"]} <= {"node", "zone", "rest"}
    assert any("up" in e["health"] for e in data["endpoints"])
    p = agent.run("trace", "http://empty/", check=False)
    assert p.returncode == 1 and "status 503" in p.stdout
    p = agent.run("trace", "http://edge-nginx:81/", check=False)
    assert p.returncode == 1 and "the service has no TCP port 81" in p.stdout and "failed: " in p.stdout
    p = agent.run("trace", "http://nobody.nowhere/", check=False)
    assert p.returncode == 1 and "the name has no address" in p.stdout
    for bad in ("https://edge-nginx/", "tcp://edge-nginx", "tcp://edge-nginx:7000/x", "http://edge-nginx:99999/", "http://edge-nginx:x/", "http:///x", "http://edge-nginx/a b"):
        p = agent.run("trace", bad, check=False)
        assert p.returncode == 1 and len(p.stderr.splitlines()) == 1 and p.stderr.startswith("edgewayctl: "), bad

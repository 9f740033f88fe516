"""System calls: agent and hub bind themselves, do their whole job so (lab.py looks for refusals in every test), and what they do not
need is refused to whoever runs code in them. deploy/seccomp says the same to container runtimes and systemd."""
import json
import os
import re
import signal
import subprocess

import pytest

from lab import HERE, PYTHON, TOP, Agent, Hub, Lab, Node, built_with_seccomp, pod, service, wait_for

pytestmark = pytest.mark.plain_build  # the filter, which the sanitizers do without

NAME = "edge-nginx.default.svc.cluster.local"
ENOSYS = 38
PROBED = {"clone3", "io_uring_setup"}  # libraries ask for them: refused without a word
BUILD = os.environ.get("top_builddir") or os.path.join(TOP, "build", "gcc")
PROFILE = os.path.join(TOP, "deploy", "seccomp", "edgeway.json")


filtered = pytest.mark.skipif(not built_with_seccomp(), reason="built with sanitizers, or without libseccomp")


def threads(pid):
    """{thread's name: its lines of /proc}"""
    found = {}
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/status") as f:
            lines = dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)
        found[f"{lines['Name']} {task}"] = lines
    return found


def works(node):
    wait_for("name", lambda: node.address_of(NAME, f"@{node.gateway}"))
    wait_for("call", lambda: node.get(f"http://{node.address_of(NAME, f'@{node.gateway}')}/")[0] == 200)


@filtered
def test_every_thread_is_bound(mesh):
    works(mesh.node1)
    for daemon, least in ((mesh.agent1, 4), (mesh.hub, 2)):
        found = threads(daemon.process.pid)
        assert len(found) >= least
        # the thread that counts has a filter of its own, and no capability
        assert {(t["Seccomp"], t.get("Seccomp_filters", "1"), t["NoNewPrivs"]) for t in found.values()} == {("2", "1", "1")}, found
        counting = [t for name, t in found.items() if name.startswith("seccomp ")]
        assert [int(t["CapPrm"], 16) for t in counting] == [0]
        state = daemon.state()["seccomp"]
        assert state["mode"] == "enforce" and state["counted"] and state["refused"] == 0 and state["error"] == ""
        assert state["calls"] < 250
        assert daemon.metrics()["edgeway_seccomp_enforced"] == 1
        said = daemon_status(mesh, daemon)
        assert re.search(rf"^  seccomp +enforced, {state['calls']} calls allowed, none refused$", said, re.M), said


def daemon_status(mesh, daemon, *command):
    machine = mesh.hub.machine if daemon is mesh.hub else daemon.node
    return machine.run(mesh.lab.program("edgewayctl"), "--socket", daemon.socket, *(command or ("status",)), check=False).stdout


@filtered
def test_upgrade_leaves_the_filter_behind(mesh):
    """A newer program has the filter of its own table alone, not also that of the one before it."""
    agent = mesh.agent1
    old = agent.process
    p = mesh.node1.run(mesh.lab.program("edgewayctl"), "--socket", agent.socket, "upgrade")
    pid = int(re.search(r"as process (\d+)", p.stdout).group(1))
    assert old.wait(40) == 0
    wait_for("ready", agent.ready)
    assert {t.get("Seccomp_filters", "1") for t in threads(pid).values()} == {"1"}
    works(mesh.node1)
    os.kill(pid, signal.SIGTERM)
    wait_for("its end", lambda: not os.path.exists(f"/proc/{pid}") or "State:\tZ" in open(f"/proc/{pid}/status").read())
    agent.start()


def starter_of(pid):
    """The agent's other process, None: it is not there."""
    for other in (int(name) for name in os.listdir("/proc") if name.isdigit()):
        try:
            with open(f"/proc/{other}/stat") as f:
                name, state, parent = re.match(r"\d+ \((.*)\) (\w) (\d+)", f.read()).groups()
        except OSError:
            continue
        if name == "edgeway-starter" and state != "Z" and int(parent) == pid:
            return other
    return None


def test_closed_standard_descriptors(mesh):
    """No lock or connection has their numbers, where edgeway-starter would keep it open: it ends with an agent that is killed."""
    agent, node = mesh.agent1, mesh.node1
    agent.process.stop()
    agent.process = node.start("agent", "sh", "-c", 'exec "$0" "$@" <&- >&- 2>&-', *agent.argv())
    agent.wait_ready()
    pid = agent.process.pid
    starter = starter_of(pid)
    for process in (pid, starter):
        assert [os.readlink(f"/proc/{process}/fd/{fd}") for fd in range(3)] == ["/dev/null"] * 3
    agent.process.popen.kill()
    agent.process.popen.wait()
    wait_for("the starter's end", lambda: not os.path.exists(f"/proc/{starter}"))
    agent.start()


def test_upgrade_without_a_starter(mesh):
    agent, node = mesh.agent1, mesh.node1
    os.kill(starter_of(agent.process.pid), signal.SIGKILL)
    p = node.run(mesh.lab.program("edgewayctl"), "--socket", agent.socket, "upgrade", check=False)
    assert p.returncode == 1 and "edgeway-starter has ended; start a new agent with --takeover" in p.stderr
    assert agent.process.logged("cannot start a new agent: its process edgeway-starter has ended")
    agent.process.stop()
    agent.start()


@pytest.fixture(scope="module")
def intruder(lab):
    """Environment of a daemon that can be asked to try what it must not, and the file that tells of it."""
    library = os.path.join(lab.dir, "intruder.so")
    subprocess.run(["cc", "-shared", "-fPIC", "-D_GNU_SOURCE", "-o", library, os.path.join(HERE, "intruder.c")], check=True)
    said = os.path.join(lab.dir, "intruder.out")
    yield {**os.environ, "LD_PRELOAD": library, "INTRUDER": said}, said


def intrude(process, said):
    if os.path.exists(said):
        os.unlink(said)
    os.kill(process.pid, signal.SIGUSR1)
    wait_for("the attempts", lambda: os.path.exists(said) and open(said).read().endswith("end 0\n"))
    with open(said) as f:
        return dict((name, int(rc)) for name, rc in (line.split() for line in f))


@filtered
def test_agent_that_is_taken_over_by_somebody(mesh, intruder):
    env, said = intruder
    agent, node = mesh.agent1, mesh.node1
    agent.process.stop()
    agent.process = node.start("agent", *agent.argv("--drainTimeout", "100ms"), env=env)
    agent.wait_ready()
    tried = intrude(agent.process, said)
    mesh.lab.tried |= set(tried)
    assert set(tried.values()) == {ENOSYS, 0} and [n for n, rc in tried.items() if rc == 0] == ["end"]
    told = set(tried) - PROBED - {"end"}
    wait_for("the lines", lambda: len(re.findall(r"refused a system call .*call=\w+", agent.process.log())) == len(told))
    assert set(re.findall(r"call=(\w+)", agent.process.log())) == told
    assert agent.metrics()["edgeway_seccomp_refused_total"] == len(told) == agent.state()["seccomp"]["refused"]
    assert f"{len(told)} refused, at last ioctl" in daemon_status(mesh, agent)
    assert re.search(r"seccomp.*refused", daemon_status(mesh, agent, "doctor"))
    works(node)
    intrude(agent.process, said)  # counted again, told once
    wait_for("count", lambda: agent.metrics()["edgeway_seccomp_refused_total"] == 2 * len(told))
    assert len(re.findall(r"refused a system call", agent.process.log())) == len(told)
    agent.process.stop()
    agent.start()


@filtered
def test_mode_log_tells_and_allows(mesh, intruder):
    env, said = intruder
    agent, node = mesh.agent1, mesh.node1
    agent.process.stop()
    agent.process = node.start("agent", *agent.argv("--seccomp", "log"), env={**env, "ATTEMPT": "kill"})
    agent.wait_ready()
    assert intrude(agent.process, said) == {"kill": 0, "end": 0}
    wait_for("the line", lambda: re.search(r"would have refused a system call .*call=kill ", agent.process.log()))
    assert agent.state()["seccomp"]["mode"] == "log" and agent.metrics()["edgeway_seccomp_enforced"] == 0
    assert "seccomp      ONLY TOLD, " in daemon_status(mesh, agent)
    agent.process.stop()
    agent.process = node.start("agent", *agent.argv("--seccomp", "off"))
    agent.wait_ready()
    assert {t["Seccomp"] for t in threads(agent.process.pid).values()} == {"0"}
    agent.process.stop()
    agent.start()


# --- for container runtimes and systemd --------------------------------------------------------------------------------


def printed(kind):
    program = os.path.join(BUILD, "deploy", "seccomp", "profile")
    if not os.path.exists(program):
        subprocess.run(["make", "-s", "-C", BUILD, "deploy/seccomp/profile"], check=True)
    return subprocess.run([program, kind], check=True, text=True, stdout=subprocess.PIPE).stdout


@pytest.mark.parametrize("kind, path", [("json", PROFILE), ("systemd", os.path.join(TOP, "deploy", "seccomp", "calls"))])
def test_files_are_those_of_the_table(kind, path):
    with open(path) as f:
        assert f.read() == printed(kind), f"make deploy/seccomp/profile && deploy/seccomp/profile {kind} > {path}"


def test_profile_for_runtimes_is_whole():
    """Docker's and the OCI's words; nothing twice; ENOSYS also from engines that know errnoRet alone; nothing that gives the node away."""
    with open(PROFILE) as f:
        profile = json.load(f)
    assert profile["defaultAction"] == "SCMP_ACT_ERRNO" and profile["defaultErrnoRet"] == ENOSYS
    assert profile["architectures"] == ["SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64", "SCMP_ARCH_ARM"]
    plain = [n for r in profile["syscalls"] if "args" not in r for n in r["names"]]
    bounded = {n for r in profile["syscalls"] if "args" in r for n in r["names"]}
    assert len(plain) == len(set(plain)) and not bounded & set(plain)
    allowed = {n for r in profile["syscalls"] if r["action"] == "SCMP_ACT_ALLOW" for n in r["names"]}
    assert {"execve", "clone", "accept4", "epoll_pwait", "openat", "futex_time64", "mmap2"} <= allowed
    assert not allowed & set("""ptrace mount umount2 pivot_root bpf keyctl add_key request_key kexec_load kexec_file_load init_module
        finit_module delete_module unshare setns perf_event_open process_vm_readv process_vm_writev userfaultfd reboot swapon acct
        open_by_handle_at name_to_handle_at io_uring_setup clone3 personality iopl ioperm settimeofday clock_settime sethostname chroot
        mknod mknodat quotactl syslog vhangup move_mount fsopen open_tree pidfd_getfd""".split())


def under(*options):
    return (PYTHON, os.path.join(HERE, "profiled.py"), PROFILE, *options)


@filtered
def test_daemons_live_under_the_profile():
    """What the profile refuses kills here: start, joining, names, calls, reload, upgrade, edgewayctl and the end come without."""
    with Lab() as lab:
        hub = Hub(lab, "--seccomp", "off", before=under("--kill"))
        node = Node(lab, "edge-1", "192.0.2.11")
        web = node.pod("web")
        web.serve("--http", "8080")
        hub.write("web.yaml", service("edge-nginx", ("http", 80, 8080), selector="web"), pod("web", node, web.address, ("http", 8080, 0)))
        agent = Agent(node, hub, "--seccomp", "off", start=False)
        agent.process = node.start("agent", *under("--kill"), *agent.argv())
        agent.wait_ready()
        works(node)
        assert {t["Seccomp"] for d in (hub, agent) for t in threads(d.process.pid).values()} == {"2"}
        ctl = (*under("--kill"), lab.program("edgewayctl"), "--socket", agent.socket)
        assert node.run(*ctl, "status").returncode == 0
        for daemon in (agent, hub):
            daemon.process.popen.send_signal(signal.SIGHUP)
        pid = int(re.search(r"as process (\d+)", node.run(*ctl, "upgrade").stdout).group(1))
        assert agent.process.wait(40) == 0
        wait_for("ready", agent.ready)
        works(node)
        os.kill(pid, signal.SIGTERM)
        wait_for("its end", node.clean)
        assert hub.process.stop() == 0
        assert node.run(*under("--kill"), "unshare", "--mount", "true", check=False).returncode == -signal.SIGSYS
        assert "Function not implemented" in node.run(*under(), "unshare", "--mount", "true", check=False).stderr

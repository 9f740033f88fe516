"""mesh.io: the workers send through io_uring where the kernel allows it, and without it as well; status, metric and log say which."""
import re

import pytest

from lab import PYTHON, wait_for

NAME = "edge-nginx.default.svc.cluster.local"
# As Docker's default profile does: io_uring_setup fails with EPERM. A filter of seccomp(2) in the kernel's own terms.
FORBIDDEN = """
import ctypes, os, struct, sys
def op(code, jt, jf, k):
    return struct.pack("HBBI", code, jt, jf, k)
program = op(0x20, 0, 0, 0) + op(0x15, 0, 1, 425) + op(0x06, 0, 0, 0x50001) + op(0x06, 0, 0, 0x7fff0000)
held = ctypes.create_string_buffer(program)
rules = struct.pack("HxxxxxxP", 4, ctypes.addressof(held))
libc = ctypes.CDLL(None, use_errno=True)
if libc.prctl(22, 2, rules, 0, 0) != 0:
    sys.exit(os.strerror(ctypes.get_errno()))
os.execv(sys.argv[1], sys.argv[1:])
"""
WHY = "io_uring is forbidden here, by the container's seccomp profile or by the sysctl kernel.io_uring_disabled"


@pytest.fixture
def agent(mesh):
    """The first node's agent, stopped; as it was afterwards."""
    mesh.agent1.stop()
    yield mesh.agent1
    if mesh.agent1.process.alive():
        mesh.agent1.stop()
    mesh.agent1.start()


def serves(agent):
    node = agent.node
    wait_for("name", lambda: node.address_of(NAME, f"@{node.gateway}"))
    wait_for("call", lambda: node.get(f"http://{node.address_of(NAME, f'@{node.gateway}')}/")[0] == 200)


def told(mesh, agent):
    """(kind, reason) by the state, which status and metric repeat."""
    io = agent.state()["io"]
    said = agent.node.run(mesh.lab.program("edgewayctl"), "--socket", agent.socket, "status", check=False).stdout
    line = re.search(r"^  i/o +(.*)$", said, re.M).group(1)
    assert ("io_uring" in line.split(":")[0]) == (io["kind"] == "uring"), said
    assert line.endswith(io["why"]), said
    assert agent.metrics()["edgeway_mesh_io_uring"] == (io["kind"] == "uring")
    return io["kind"], io["why"]


def start_forbidden(agent, *options):
    argv = agent.argv(*options)
    agent.process = agent.node.start("agent", PYTHON, "-c", FORBIDDEN, *argv)


def test_auto_uses_what_there_is(mesh, agent):
    agent.start()
    kind, why = told(mesh, agent)
    assert (kind == "uring") == (why == "")
    serves(agent)


def test_epoll_makes_no_ring(mesh, agent):
    agent.start("--mesh.io", "epoll")
    assert told(mesh, agent) == ("epoll", "")
    held = agent.node.run("ls", "-l", f"/proc/{agent.process.pid}/fd", check=False).stdout  # one of them may go meanwhile
    assert "eventpoll" in held and "io_uring" not in held
    serves(agent)


def test_auto_goes_on_where_it_is_forbidden(mesh, agent):
    start_forbidden(agent)
    agent.wait_ready()
    assert told(mesh, agent) == ("epoll", WHY)
    assert f"workers send without io_uring, which costs more CPU: {WHY} (mesh.io)" in agent.process.log()
    serves(agent)


def test_uring_is_refused_where_it_is_forbidden(agent):
    start_forbidden(agent, "--mesh.io", "uring")
    assert agent.process.wait(20) != 0
    assert f"mesh.io: uring: {WHY}; allow it, or set mesh.io: auto" in agent.process.log()

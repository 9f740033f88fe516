"""What strangers have put into names, errors and logs comes to no terminal as something that it obeys."""
import http.server
import json
import os
import re
import shutil
import socketserver
import threading

import pytest

from lab import Agent, Hub, Lab, Node, wait_for
from test_ctl import Ctl, Terminal

ATTACK = "a\x1b]0;owned\x07\x1b[2J\x9b31m\x7f\r\u0085b\x08\nforged row"
CONTROLS = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]")
OURS = re.compile(rb"\x1b\[(0|31|32|33)m|\x1b\[[HJK]|\x1b\[2J")
WORDS = [("status",), ("doctor",), ("services",), ("endpoints",), ("health",), ("top",), ("upstreams",), ("state",), ("metrics",), ("tunnels",), ("flows",),
         ("peers",), ("streams",), ("events",), ("log", "list"), ("node", "list"), ("token", "list"), ("resolve", "web"), ("-o", "json", "state"),
         ("-o", "yaml", "state"), ("-o", "json", "doctor"), ("token", "create")]


def spoil(value):
    if isinstance(value, dict):
        return {k: v if k in ("kind", "mode") else spoil(v) for k, v in value.items()}
    if isinstance(value, list):
        return [spoil(v) for v in value]
    return value + ATTACK if isinstance(value, str) else value


class Liar:
    """A daemon whose answers are those of a real one, with an attack in every text; "/refused" of anything it refuses aloud."""

    def __init__(self, path, answers):
        class Handler(http.server.BaseHTTPRequestHandler):
            def answer(self):
                found = answers.get(self.path.partition("?")[0])
                body = (found if isinstance(found, str) else json.dumps(spoil(found), ensure_ascii=False)).encode("utf-8", "surrogateescape") \
                    if found is not None else f"no {ATTACK}\n".encode()
                self.wfile.write(f"HTTP/1.1 {200 if found is not None else 404} X\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)

            do_GET = do_POST = answer

            def log_message(self, *args):
                pass

        class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
            daemon_threads = True

        self.server, self.socket = Server(path, Handler), path
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


PATHS = ("/debug/state", "/debug/services", "/debug/events", "/debug/streams", "/log", "/nodes", "/tunnels", "/peers", "/tokens")


@pytest.fixture(scope="module")
def liars(mesh):
    made = []
    for n, daemon in enumerate((mesh.agent1, mesh.hub)):
        answers = {}
        for path in PATHS:
            status, body = daemon.ask(path)
            if status == 200:
                answers[path] = json.loads(body)
        answers["/metrics"] = answers["/tokens/create"] = f"x{ATTACK}\udcff\udc80\n"
        answers.setdefault("/debug/events", {"events": [{"time": "t", "level": "warn", "part": "p", "event": "e"}]})
        made.append(Liar(os.path.join(mesh.lab.dir, f"liar{n}.sock"), answers))
    yield made
    for liar in made:
        liar.server.shutdown()


@pytest.mark.parametrize("which", [0, 1])
def test_no_control_comes_through(mesh, liars, which):
    shown = 0
    for words in WORDS:
        p = mesh.node1.run("sh", "-c", 'exec "$@" 2>&1 | od -An -v -tx1', "sh", mesh.lab.program("edgewayctl"), "--socket", liars[which].socket, *words,
                           check=False)
        said = bytes.fromhex("".join(p.stdout.split()))
        assert said and not CONTROLS.search(said), (words, CONTROLS.search(said), said[:3000])
        said.decode()  # it is UTF-8
        shown += b"a\\u001b]0;owned\\u0007" in said or b"a\\e]0;owned\\a" in said
        if words[:2] in (("-o", "json"),):
            assert ATTACK.replace("\n", "") in json.dumps(json.loads(said), ensure_ascii=False).replace("\\n", "").encode().decode("unicode_escape", "ignore") \
                or "owned" in said.decode()
        if words[0] in ("status", "services", "events", "doctor"):
            assert b"\nforged row" not in said, words
    assert shown > len(WORDS) // 2


@pytest.mark.parametrize("words", [("--watch=60", "status"), ("--watch=60", "events"), ("status",), ("top",)])
def test_on_a_terminal(mesh, liars, words):
    """Inks, and how a look is put over the last one, are all."""
    ctl = Ctl(mesh, mesh.agent1, mesh.node1)
    ctl.socket = liars[0].socket
    t = Terminal(ctl, *words, size=(60, 3000))
    wait_for("shown", lambda: "owned" in t.read())
    t.end()
    said = OURS.sub(b"", t.text.encode()).replace(b"\r\n", b"\n")
    assert not CONTROLS.search(said), CONTROLS.search(said)


def test_a_container_that_calls_itself_an_escape(tmp_path):
    """The doctor names processes of containers as they call themselves."""
    program = tmp_path / "a\x1b[31mz\x9b"
    shutil.copy("/bin/sleep", program)
    with Lab() as lab:
        hub = Hub(lab)
        agent = Agent(Node(lab, "edge-1", "192.0.2.11"), hub)
        pod = agent.node.pod("escape")
        p = pod.start("escape", str(program), "600")
        wait_for("it runs", lambda: p.alive() and b"\x1b" in open(f"/proc/{p.pid}/comm", "rb").read())
        pod.holder.kill()  # what is left in its network is the one with the name
        pod.holder.wait()
        said = agent.node.run(lab.program("edgewayctl"), "--socket", agent.socket, "doctor", check=False).stdout
        assert f"a\\u001b[31mz\\u009b (pid {p.pid}): DNS" in said and not CONTROLS.search(said.encode())

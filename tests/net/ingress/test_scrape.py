"""A real Prometheus that scrapes the agents of all nodes through the hub, by the hub's own list of them; what the daemons tell of themselves
(loops, memory, descriptors, what happened lately)."""
import json
import os

import pytest
import yaml

import tunnelkit
from lab import HUB_ADDRESS, wait_for

pytestmark = pytest.mark.plain_build  # a real Prometheus; test_cloud_to_edge has the ways

METRICS = f"{HUB_ADDRESS}:9900"
PROXY = f"http://{HUB_ADDRESS}:10080"


class Site(tunnelkit.Site):
    def __init__(self, lab):
        super().__init__(lab, *tunnelkit.INGRESS_OPTIONS, "--metrics.listen", METRICS)


@pytest.fixture(scope="module")
def site(lab):
    made = Site(lab)
    for a in made.agents:
        a.stop()
        a.options = [*a.options, "--tunnel.allow", tunnelkit.ALLOW + ",node:40002", "--metrics.listen", "127.0.0.1:40004"]
        a.start()
    wait_for("tunnels", lambda: sum(t["state"] == "open" for t in json.loads(made.hub.ask("/tunnels")[1])["tunnels"]) == 2)
    yield made
    made.logs()


class Prometheus:
    def __init__(self, machine):
        self.machine, folder = machine, os.path.join(machine.dir, "prometheus")
        os.makedirs(folder)
        config = os.path.join(folder, "prometheus.yml")
        with open(config, "w") as f:
            yaml.safe_dump({"global": {"scrape_interval": "1s", "scrape_timeout": "1s"}, "scrape_configs": [
                {"job_name": "hub", "static_configs": [{"targets": [METRICS]}]},
                {"job_name": "agents", "proxy_url": PROXY, "http_sd_configs": [{"url": f"http://{METRICS}/targets", "refresh_interval": "1s"}]},
            ]}, f)
        self.process = machine.start("prometheus", "prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder}/data",
                                     "--web.listen-address=127.0.0.1:9090")

    def ask(self, query):
        """{(job, node): value}"""
        status, body = self.machine.get(f"http://127.0.0.1:9090/api/v1/query?query={query}")
        assert status == 200, body
        return {(r["metric"]["job"], r["metric"].get("node")): float(r["value"][1]) for r in json.loads(body)["data"]["result"]}


def test_one_list_for_all_nodes(site):
    machine = site.hub.machine
    got = json.loads(machine.get(f"http://{METRICS}/targets")[1])
    assert sorted(got, key=str) == [{"targets": [f"edge-{i}:40002"], "labels": {"node": f"edge-{i}"}} for i in (1, 2)]
    assert json.loads(machine.get(f"http://{METRICS}/targets?port=9100")[1])[0]["targets"][0].endswith(":9100")
    for bad in ("0", "65536", "x", "-1", ""):
        assert machine.get(f"http://{METRICS}/targets?port={bad}")[0] == 400
    prometheus = Prometheus(machine)
    every = {("hub", None): 1, ("agents", "edge-1"): 1, ("agents", "edge-2"): 1}
    wait_for("all are scraped", lambda: prometheus.ask("up") == every)
    assert prometheus.ask("edgeway_agent_ready") == {k: 1 for k in every if k[1]}
    assert all(v > 0 for v in prometheus.ask("process_resident_memory_bytes").values())
    site.agents[1].process.kill()
    wait_for("seen", lambda: prometheus.ask("up")[("agents", "edge-2")] == 0)
    site.agents[1].start()
    wait_for("and again", lambda: prometheus.ask("up") == every)
    prometheus.process.stop()


def test_metrics_alone(site):
    """metrics.listen tells metrics and readiness, and nothing else."""
    for machine, address in ((site.hub.machine, METRICS), (site.nodes[0], "127.0.0.1:40004")):
        assert machine.get(f"http://{address}/readyz")[0] == 200 and machine.get(f"http://{address}/healthz")[0] == 200
        assert "process_open_fds " in machine.get(f"http://{address}/metrics")[1]
        for page in ("/debug/state", "/debug/events", "/nodes", "/tokens", "/log"):
            assert machine.get(f"http://{address}{page}")[0] == 404


def test_the_process_itself(site):
    workers = ([f"{kind}-{i}" for kind in ("tls", "tunnels") for i in (1, 2)], ["worker-1", "worker-2"])
    for daemon, loops in ((site.hub, ["main", *workers[0]]), (site.agents[0], ["main", *workers[1]])):
        m, pid = daemon.metrics(), daemon.process.pid
        assert [k for k in m if k.startswith("edgeway_loop_lag_seconds")] == [f'edgeway_loop_lag_seconds{{loop="{n}"}}' for n in loops]
        assert all(m[f'edgeway_loop_slow_turns_total{{loop="{n}",over="1"}}'] == 0 for n in loops)
        assert abs(m["process_open_fds"] - len(os.listdir(f"/proc/{pid}/fd"))) <= 4
        with open(f"/proc/{pid}/status") as f:
            rss = next(int(line.split()[1]) * 1024 for line in f if line.startswith("VmRSS"))
        assert 0.5 < m["process_resident_memory_bytes"] / rss < 2
        with open(f"/proc/{pid}/stat") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        hertz = os.sysconf("SC_CLK_TCK")
        assert abs(m["process_cpu_seconds_total"] - (int(fields[11]) + int(fields[12])) / hertz) < 1
        with open("/proc/stat") as f:
            boot = next(int(line.split()[1]) for line in f if line.startswith("btime"))
        assert abs(m["process_start_time_seconds"] - boot - int(fields[19]) / hertz) < 3


def test_what_happened_lately(site):
    """In the order of the log, also of one part; a line of the audit or of debug is none of it."""
    program = site.hub.lab.program("edgewayctl")
    for daemon, machine, line in ((site.hub, site.hub.machine, "serving"), (site.agents[0], site.nodes[0], "tunnel open")):
        events = json.loads(daemon.ask("/debug/events")[1])["events"]
        log = daemon.process.log()
        assert [e["time"] for e in events] == sorted(e["time"] for e in events) and any(line in e["event"] for e in events)
        assert all(f'{e["time"]} {e["level"]:5} {e["part"]}: {e["event"]}' in log for e in events)
        assert "audit" not in {e["part"] for e in events}
        said = machine.run(program, "--socket", daemon.socket, "events").stdout
        assert line in said and said.splitlines()[0].split() == ["TIME", "LEVEL", "PART", "EVENT"]
    part = json.loads(machine.run(program, "--socket", daemon.socket, "-o", "json", "events", "tunnel").stdout)
    assert part and {e["part"] for e in part} == {"tunnel"}
    assert {e["level"] for e in json.loads(daemon.ask("/debug/events?level=error")[1])["events"]} <= {"error"}


def test_streams(site):
    """Every stream at both ends, with its target, bytes and windows, for as long as it is open."""
    site.backend(site.nodes[0], "kubelet", "--http", "10250", "--bind", "127.0.0.1")
    machine, program = site.hub.machine, site.hub.lab.program("edgewayctl")

    def streams(daemon):
        return json.loads(daemon.ask("/debug/streams")[1])["streams"]

    both = site.hub, site.agents[0]
    assert all(streams(d) == [] for d in both)
    with tunnelkit.connect(machine, "edge-1:10250") as s:
        request = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n" + bytes(100000)
        s.sendall(request)
        got = b""
        while len(got) < 100000:
            got += s.recv(65536)
        for daemon in both:
            (one,) = streams(daemon)
            assert (one["node"], one["target"], one["protocol"], one["state"]) == ("edge-1", "edge-1:10250", "tcp", "open")
            out, back = (one["bytes_out"], one["bytes_in"]) if daemon is site.hub else (one["bytes_in"], one["bytes_out"])
            assert out == len(request) and back == len(got)
            assert one["window_in"] >= 65536 and one["window_out"] > 0 and one["waiting_in"] == one["waiting_out"] == 0
        said = machine.run(program, "--socket", site.hub.socket, "streams").stdout.splitlines()
        assert len(said) == 2 and said[1].split()[:4] == ["edge-1", str(one["stream"]), "edge-1:10250", "tcp"]
    wait_for("it is gone", lambda: all(streams(d) == [] for d in both))


def test_a_revoked_node_is_not_on_the_list(site):
    site.hub.machine.run(site.hub.lab.program("edgewayctl"), "--socket", site.hub.socket, "node", "revoke", "edge-2")
    wait_for("one is left", lambda: [t["targets"] for t in json.loads(site.hub.ask("/targets")[1])] == [["edge-1:40002"]])

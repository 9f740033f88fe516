#!/usr/bin/python3
"""HTTP between two nodes, encrypted: a pod of one calls a pod of the other through the two agents (mesh.encrypt: site), and through two HAProxys with
TLS between them whose connections are kept. 1 KB answers on kept connections; CPU is that of both processes of a pair, all threads. Then bulk:
one stream through the two agents, and one through the hub and the tunnel of the node.

    bench/bench_peers.py [--smoke] [--rounds N] [--seconds S]

Prints a table for bench/RESULTS.md. Root; everything lives in namespaces of the bench's own.
"""
import argparse
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "tests", "net")]
import frame  # noqa: E402
import lab as labs  # noqa: E402
from bench_http import BACKEND_CONF, config, load_of  # noqa: E402
from pki import Authority  # noqa: E402

HOST = "web.default.svc.cluster.local"
BAR, BULK_BAR = 0.75, 1.2
BULK_HOST, BULK_MB, BULK = "bulk.default.svc.cluster.local", 512, "192.0.2.1:10090"
HAPROXY_CONF = """
global
    nbthread WORKERS
    maxconn 4096
defaults
    mode http
    timeout connect 1s
    timeout client 60s
    timeout server 60s
    http-reuse always
frontend in
    bind LISTEN
    default_backend out
backend out
    server a SERVER
"""
NAT = """table ip bench {
    chain pre { type nat hook prerouting priority -105; ip daddr 9.252.0.1 tcp dport 80 dnat to 172.17.0.1:40011; }
}
"""


def start_haproxy(node, listen, server):
    text = HAPROXY_CONF.replace("LISTEN", listen).replace("SERVER", server)
    return node.start("haproxy", "haproxy", "-db", "-f", config(node, "haproxy.cfg", text))


def start(lab, seconds):
    hub = labs.Hub(lab, "--ingress.tcp", f"[{{listen: '{BULK}', service: 'bulk.default:9000'}}]", "--access", "[{from: 192.0.2.1, to: ['*']}]")
    nodes = [labs.Node(lab, f"edge-{i}", f"192.0.2.1{i}") for i in (1, 2)]
    web, client = nodes[1].pod("web"), nodes[0].pod("client")
    web.start("nginx", "nginx", "-c", config(web, "backend.conf", BACKEND_CONF))
    pump = os.path.join(os.environ["top_builddir"], "bench", "pump")
    web.start("pump", pump, "target", f"{web.address}:9000")
    hub.write("bulk.yaml", labs.pod("bulk", nodes[1], web.address, ("tcp", 9000, 30090)), labs.service("bulk", ("tcp", 9000, 9000)))
    hub.write("web.yaml", labs.pod("web", nodes[1], web.address, ("http", 8080, 30080)), labs.service("web", ("http", 80, 8080)))
    agents = [labs.Agent(n, hub, "--mesh.encrypt", "site") for n in nodes]
    for a in agents:
        labs.wait_for("the service", lambda a=a: a.state()["services"] == 2)
    ca = Authority(lab.dir)
    for name in ("edge-1", "edge-2"):
        cert, key = ca.issue(name)
        with open(os.path.join(lab.dir, f"{name}.pem"), "w") as f:
            f.write(open(cert).read() + open(key).read())
    tls = f"ca-file {ca.cert} ssl-min-ver TLSv1.3"
    haproxys = [start_haproxy(nodes[0], "172.17.0.1:40011", f"192.0.2.12:40443 ssl verify required crt {lab.dir}/edge-1.pem {tls}"),
                start_haproxy(nodes[1], f"192.0.2.12:40443 ssl verify required crt {lab.dir}/edge-2.pem {tls}", f"{web.address}:8080")]
    nodes[0].run("nft", "-f", "-", input=NAT)
    fake = labs.wait_for("the service's address", lambda: client.dns(HOST, server="172.17.0.1")[1][0][4])
    made = []
    for name, address, processes in (("haproxys", "9.252.0.1", haproxys), ("agents", fake, [a.process for a in agents])):
        url = f"http://{address}:80/"
        labs.wait_for(f"{name} answer", lambda u=url: client.get(u, "-H", f"Host: {HOST}")[0] == 200)
        pids = [pid for p in processes for pid in frame.children_of(p.pid)]
        made.append(frame.Contender(name, pids, load_of(client, url, HOST, 32, [], seconds)))
    fake = labs.wait_for("the bulk's address", lambda: client.dns(BULK_HOST, server="172.17.0.1")[1][0][4])
    return made, bulk_of(pump, {"peers": (client, f"{fake}:9000", agents), "tunnel": (hub.machine, BULK, [hub, agents[1]])}), agents


def bulk_of(pump, ways):
    def load(machine, to):
        machine.run(pump, "down", to, BULK_MB << 20, 1)
        return BULK_MB

    return [frame.Contender(name, [pid for p in programs for pid in frame.children_of(p.process.pid)], lambda m=machine, t=to: load(m, t))
            for name, (machine, to, programs) in ways.items()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="one short round, to see that it runs")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=int, default=2)
    args = parser.parse_args()
    if args.smoke:
        args.rounds = args.seconds = 1
    os.environ.setdefault("top_builddir", os.getcwd())
    print(f"`bench/bench_peers.py --rounds {args.rounds} --seconds {args.seconds}` on {frame.machine()}\n", flush=True)
    with labs.Lab() as lab:
        made, bulk, agents = start(lab, args.seconds)
        frame.run(made, args.rounds, report=lambda line: print(line, flush=True))
        print("\n" + frame.table("1 KB between two nodes with TLS, keep-alive, 32 connections", made, "haproxys"))
        ratio = frame.medians(made[1])[0] / frame.medians(made[0])[0]
        print(f"\nCPU per request: the agents are {ratio:.2f} of the HAProxys ({frame.bar('peers: CPU of the HAProxys', ratio, BAR)}); "
              f"{agents[0].metrics()['edgeway_tunnel_outward_direct_total']:.0f} connections by the peer.\n", flush=True)
        frame.run(bulk, args.rounds, report=lambda line: print(line, flush=True))
        print("\n" + frame.table("Bulk, one stream", bulk, "tunnel", unit="MB", units="MB"))
        ratio = frame.medians(bulk[0])[0] / frame.medians(bulk[1])[0]
        print(f"\nCPU s per GB: {frame.medians(bulk[0])[0] / 1000:.2f} between nodes, {frame.medians(bulk[1])[0] / 1000:.2f} through the tunnel: {ratio:.2f} "
              f"({frame.bar('peers: bulk, CPU of the tunnel', ratio, BULK_BAR)}).\n", flush=True)


if __name__ == "__main__":
    main()

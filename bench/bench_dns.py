#!/usr/bin/python3
"""DNS side by side: a pod asks for the mesh's names at dnsmasq, unbound, knot, and Edgeway's agent, all on the node's
docker0, and at a recvmmsg echo that answers nothing (the floor).

    bench/bench_dns.py [--smoke] [--rounds N] [--seconds S] [--names N ...]

Everybody holds the same names in memory. Mixes: addresses (A), AAAA of the same names (NODATA), names under the domain
that do not exist (NXDOMAIN), and what ndots:5 and a search list make of `svc.ns` and of an outside name: A and AAAA
along the search list, without the last step, which leaves the domain. dnsperf puts the load; CPU is that of the
server's processes alone. Prints sections for bench/RESULTS.md. Root; everything lives in namespaces of the bench's own.
"""
import argparse
import os
import random
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "tests", "net")]
import frame  # noqa: E402
import lab as labs  # noqa: E402

SERVER, DOMAIN, NAMESPACES, QUERIES = "172.17.0.1", "cluster.local", 10, 20000
PORTS = {"edgeway": 53, "dnsmasq": 5301, "unbound": 5302, "knot": 5303, "echo": 5304}
BARS = {"knot": 0.8, "echo": 1.25}
WORKERS = min(4, os.cpu_count() or 1)
UNBOUND_CONF = """
server:
    interface: 172.17.0.1@5302
    num-threads: WORKERS
    so-reuseport: yes
    do-daemonize: no
    do-ip6: no
    username: ""
    chroot: ""
    directory: "DIR"
    pidfile: ""
    use-syslog: no
    module-config: "iterator"
    minimal-responses: yes
    access-control: 0.0.0.0/0 allow
    local-zone: "cluster.local." static
    local-data: "cluster.local. 5 SOA ns.dns.cluster.local. hostmaster.cluster.local. 1 7200 1800 86400 5"
LOCALremote-control:
    control-enable: no
"""
KNOT_CONF = """
server:
    rundir: DIR
    identity: bench
    listen: 172.17.0.1@5303
    udp-workers: WORKERS
    tcp-workers: 1
    background-workers: 1
database:
    storage: DIR/knot
template:
  - id: default
    storage: DIR
    zonefile-sync: -1
    journal-content: none
zone:
  - domain: cluster.local
    file: cluster.zone
"""
ZONE = """$ORIGIN cluster.local.
@ 5 IN SOA ns.dns hostmaster 1 7200 1800 86400 5
@ 30 IN NS ns.dns
ns.dns 30 IN A 172.17.0.1
"""


def services(n):
    return [(f"svc-{i}", f"ns-{i % NAMESPACES}", f"10.{i >> 16 & 255}.{i >> 8 & 255}.{i & 255}") for i in range(n)]


def mixes(names, seed=7):
    """{mix: ([(name, type)], the rcode of the first)}; the order is the same in every run."""
    dice = random.Random(seed)
    full = [f"{s}.{ns}.svc.{DOMAIN}" for s, ns, _ in names]
    search = [f"ns-0.svc.{DOMAIN}", f"svc.{DOMAIN}", DOMAIN]
    ndots = []
    for i in range(QUERIES // 8):
        s, ns, _ = dice.choice(names)
        tried = [f"{s}.{ns}.{search[0]}", f"{s}.{ns}.{search[1]}"]
        if i % 3 == 0:
            tried = [f"www{i}.example.com.{suffix}" for suffix in search]
        ndots += [(name, t) for name in tried for t in ("A", "AAAA")]
    some = [dice.choice(full) for _ in range(QUERIES)]
    return {"A": ([(n, "A") for n in some], "NOERROR"), "NODATA": ([(n, "AAAA") for n in some], "NOERROR"),
            "NXDOMAIN": ([("no-" + n, "A") for n in some], "NXDOMAIN"), "ndots": (ndots, "NXDOMAIN")}


def write(machine, name, text):
    path = os.path.join(machine.dir, name)
    with open(path, "w") as f:
        f.write(text.replace("DIR", machine.dir).replace("WORKERS", str(WORKERS)))
    return path


def start_peers(lab, node, names):
    hosts = "".join(f"{ip} {s}.{ns}.svc.{DOMAIN}\n" for s, ns, ip in names)
    local = "".join(f'    local-data: "{s}.{ns}.svc.{DOMAIN}. 30 A {ip}"\n' for s, ns, ip in names)
    zone = ZONE + "".join(f"{s}.{ns}.svc 30 IN A {ip}\n" for s, ns, ip in names)
    write(node, "cluster.zone", zone)
    os.makedirs(os.path.join(node.dir, "knot"))
    return {
        "dnsmasq": node.start(
            "dnsmasq", "dnsmasq", "--keep-in-foreground", "--no-hosts", "--no-resolv", "--user=root", "--pid-file=",
            "--conf-file=/dev/null", "--bind-interfaces", f"--listen-address={SERVER}", f"--port={PORTS['dnsmasq']}",
            "--local-ttl=30", f"--local=/{DOMAIN}/", "--addn-hosts=" + write(node, "hosts.names", hosts)),
        "unbound": node.start("unbound", "unbound", "-d", "-c",
                              write(node, "unbound.conf", UNBOUND_CONF.replace("LOCAL", local))),
        "knot": node.start("knot", "knotd", "-c", write(node, "knot.conf", KNOT_CONF)),
        "echo": node.start("echo", lab.program("bench/echo"), f"{SERVER}:{PORTS['echo']}", WORKERS)}


def check(client, server, mix, queries, rcode):
    """All answer alike before anybody is measured: the first query of the mix, to the rcode and the number of records."""
    name, rtype = queries[0]
    answer = client.dns(name, rtype, "-p", PORTS[server], server=SERVER)
    return server == "echo" or (answer is not None and answer[0] == rcode and len(answer[1]) == (mix == "A"))


def load_of(client, server, path, seconds):
    def load():
        p = client.run("dnsperf", "-s", SERVER, "-p", PORTS[server], "-d", path, "-l", seconds, "-c", "8", "-q", "128",
                       "-t", "2", seconds=seconds + 30)
        sent, done = [int(re.search(rf"Queries {what}: +(\d+)", p.stdout).group(1)) for what in ("sent", "completed")]
        if done < sent * 0.999:
            raise RuntimeError(f"{server}: {sent - done} of {sent} queries got no answer\n{p.stdout}")
        return done
    return load


def build(lab, names):
    hub = labs.Hub(lab)
    for ns in range(NAMESPACES):
        hub.write(f"ns-{ns}.yaml", *[labs.service(s, ("http", 80, 8080), namespace=of)
                                     for s, of, _ in names if of == f"ns-{ns}"])
    node = labs.Node(lab, "edge-1", "192.0.2.11")
    agent = labs.Agent(node, hub)
    labs.wait_for("all services at the agent", lambda: agent.state()["services"] == len(names), 60)
    pids = {name: frame.children_of(p.pid) for name, p in start_peers(lab, node, names).items()}
    pids["edgeway"] = frame.children_of(agent.process.pid)
    return node.pod("client"), pids, agent


def verdict(cpu, title):
    parts = [f"{cpu['edgeway'] / cpu[peer]:.2f} of {peer} ({frame.bar(f'dns: CPU of {peer}, {title}', cpu['edgeway'] / cpu[peer], bar)})"
             for peer, bar in BARS.items()]
    return (f"\nCPU per query: edgeway is {', '.join(parts)}, {cpu['edgeway'] / cpu['unbound']:.2f} of unbound, "
            f"{cpu['edgeway'] / cpu['dnsmasq']:.2f} of dnsmasq.\n")


def bench(n_names, args):
    names = services(n_names)
    with labs.Lab() as lab:
        client, pids, agent = build(lab, names)
        for mix, (queries, rcode) in mixes(names).items():
            path = write(client, f"{mix}.queries", "".join(f"{n} {t}\n" for n, t in queries))
            contenders = []
            for server in ("edgeway", "knot", "echo", "unbound", "dnsmasq"):
                labs.wait_for(f"{server} answers {mix} right",
                              lambda s=server: check(client, s, mix, queries, rcode), 20)
                live = pids[server] if server != "echo" else frame.children_of(pids[server][0])
                contenders.append(frame.Contender(server, live, load_of(client, server, path, args.seconds)))
            frame.run(contenders, args.rounds, report=lambda line: print(line, flush=True))
            print("\n" + frame.table(f"{mix}, {n_names} names", contenders, "knot", "query", "queries"))
            print(verdict({c.name: frame.medians(c)[0] for c in contenders}, f"{mix}, {n_names} names"), flush=True)
        print(f"Anonymous memory of the whole agent with {n_names} services: "
              f"{frame.memory_kb([agent.process.pid])[2] / 1024:.1f} MB.\n", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="one short round with 1 000 names, to see that it runs")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--names", type=int, nargs="+", default=[1000, 10000])
    args = parser.parse_args()
    if args.smoke:
        args.rounds, args.seconds, args.names = 1, 1, [1000]
    os.environ.setdefault("top_builddir", os.getcwd())
    print(f"`bench/bench_dns.py --rounds {args.rounds} --seconds {args.seconds}` on {frame.machine()}\n", flush=True)
    for n_names in args.names:
        bench(n_names, args)


if __name__ == "__main__":
    main()

#!/usr/bin/python3
"""HTTP side by side: a pod calls a service of two backends directly, through bare copy relays (the floor: one process; floors: as many as the
others have workers), HAProxy,
nginx, and Edgeway's agent. All proxies stand on the node's docker0 behind the same kind of DNAT and know the same
services, the peers by the Host of each request.

    bench/bench_http.py [--smoke] [--rounds N] [--seconds S] [--services N...] [--only SCENARIO...]

With each number of services: idle clients and such that do not read a long answer (memory for each), 1 KB and 1 MB answers on kept connections, and a connection
for each request (over an http and over a tcp port, the latter without nginx), and 1 KB from backends that speak TLS alone (the client speaks plain HTTP; direct: without TLS); with more than the first
number the 1 KB answers alone. CPU is that of the proxy's processes alone,
all threads. Prints tables for bench/RESULTS.md. Root; everything lives in namespaces of the bench's own.
"""
import argparse
import os
import re
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "tests", "net")]
import frame  # noqa: E402
import lab as labs  # noqa: E402
from pki import Authority  # noqa: E402

BACKENDS = ["192.0.2.31", "192.0.2.32"]
DOMAIN = "default.svc.cluster.local"
WORKERS = min(4, os.cpu_count() or 1)
# name: (title, path, connections, more of wrk)
LOADS = {
    "1k": ("1 KB, keep-alive, 32 connections", "/", 32, []),
    "1m": ("1 MB, keep-alive, 8 connections", "/m", 8, []),
    "close": ("1 KB, a connection per request, 32 at a time", "/", 32, ["-H", "Connection: close"]),
    "tcp": ("1 KB, a connection per request over a TCP port, 32 at a time", "/", 32, ["-H", "Connection: close"]),
    "tls": ("1 KB, keep-alive, 32 connections, TLS to the backends", "/", 32, []),
}
TLS_NAME = "secure.bench"
BARS = {"cpu": 0.75, "close": 0.85, "tcp": 0.9, "rate": 0.52, "idle": 450, "slow": 48 * 1024, "memory": 5.0}
BACKEND_CONF = """
daemon off; master_process off; pid DIR/backend.pid; error_log stderr crit;
events { worker_connections 8192; }
http { access_log off; keepalive_requests 1000000000; keepalive_timeout 600s; sendfile on; tcp_nopush on;
    client_body_temp_path DIR/t1; proxy_temp_path DIR/t2; fastcgi_temp_path DIR/t3; uwsgi_temp_path DIR/t4; scgi_temp_path DIR/t5;
    server { listen 8080 reuseport; default_type text/plain; location / { return 200 "BODY"; } location = /m { root DIR; } location = /long { root DIR; } } SERVICES }
"""
BACKEND_TLS = """ server { listen 8443 ssl reuseport; ssl_certificate CERT; ssl_certificate_key KEY; ssl_protocols TLSv1.2 TLSv1.3;
        default_type text/plain; location / { return 200 "BODY"; } location = /m { root DIR; } }"""
NGINX_CONF = """
user root; daemon off; worker_processes WORKERS; pid DIR/nginx.pid; error_log stderr crit; worker_rlimit_nofile 30000;
events { worker_connections 8192; }
http { access_log off; keepalive_requests 1000000000; keepalive_timeout 600s; proxy_max_temp_file_size 0;
    server_names_hash_max_size 65536;
    server_names_hash_bucket_size 128; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $host;
    proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
    client_body_temp_path DIR/p1; proxy_temp_path DIR/p2; fastcgi_temp_path DIR/p3; uwsgi_temp_path DIR/p4; scgi_temp_path DIR/p5;
SERVICES}
"""
NGINX_SERVICE = """
    upstream NAME { server 192.0.2.31:8080; server 192.0.2.32:8080; keepalive 32; keepalive_requests 1000000000; }
    server { listen 172.17.0.1:40012REUSE; server_name NAME.DOMAIN; location / { proxy_pass http://NAME; } }
"""
NGINX_TLS = """
    upstream secure { server 192.0.2.31:8443; server 192.0.2.32:8443; keepalive 32; keepalive_requests 1000000000; }
    server { listen 172.17.0.1:40012; server_name secure.DOMAIN; location / { proxy_pass https://secure; proxy_ssl_server_name on;
        proxy_ssl_name TLSNAME; proxy_ssl_verify on; proxy_ssl_trusted_certificate CA; proxy_ssl_protocols TLSv1.2 TLSv1.3; } }
"""
HAPROXY_CONF = """
global
    nbthread WORKERS
    maxconn 4096
defaults
    mode http
    timeout connect 1s
    timeout client 60s
    timeout server 60s
    option forwardfor
    option splice-auto
    http-reuse always
frontend in
    bind 172.17.0.1:40011
    use_backend %[req.hdr(host),lower,map(DIR/haproxy.map)]
listen tcp
    mode tcp
    bind 172.17.0.1:40014
    balance roundrobin
    server a 192.0.2.31:8080
    server b 192.0.2.32:8080
SERVICES
"""
HAPROXY_SERVICE = """
backend NAME
    balance roundrobin
    server a 192.0.2.31:8080
    server b 192.0.2.32:8080
"""
HAPROXY_TLS = """
backend secure
    balance roundrobin
    server a 192.0.2.31:8443 ssl verify required ca-file CA sni str(TLSNAME) verifyhost TLSNAME
    server b 192.0.2.32:8443 ssl verify required ca-file CA sni str(TLSNAME) verifyhost TLSNAME
"""
DNAT = """
table ip bench {
    chain pre { type nat hook prerouting priority -105;
        ip daddr 9.252.0.1 tcp dport 80 dnat to 172.17.0.1:40011
        ip daddr 9.252.0.1 tcp dport 81 dnat to 172.17.0.1:40014
        ip daddr 9.252.0.2 tcp dport 80 dnat to 172.17.0.1:40012
        ip daddr 9.252.0.3 tcp dport 80 dnat to 172.17.0.1:40013
        ip daddr 9.252.0.4 tcp dport 80 dnat to 172.17.0.1:40015
    }
}
"""
# Opens connections, one request on each, and leaves them open until it is killed; with a path other than / none reads its answer.
IDLE = """
import resource, socket, sys, time
host, port, name, n, path = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4]), sys.argv[5]
resource.setrlimit(resource.RLIMIT_NOFILE, (n + 100, n + 100))
request = f"GET {path} HTTP/1.1\\r\\nHost: {name}\\r\\nUser-Agent: idle\\r\\n\\r\\n".encode()
held = []
for i in range(n):
    s = socket.create_connection((host, port), 10)
    if path != "/":
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    s.sendall(request)
    got = b""
    while path == "/" and got.count(b"x") < 1024:
        more = s.recv(65536)
        if not more:
            sys.exit(f"connection {i} was closed")
        got += more
    held.append(s)
print("idle", flush=True)
time.sleep(3600)
"""


def service_names(n):
    return ["web"] + [f"web-{i}" for i in range(1, n)]


def config(machine, name, text, services="", one="", more="", files=()):
    """files: what the words CA, CERT and KEY stand for."""
    listed = "".join(one.replace("NAME", s).replace("REUSE", " reuseport" if s == "web" else "") for s in services)
    text = text.replace("SERVICES", listed + more).replace("TLSNAME", TLS_NAME)
    for word, path in zip(("CERT", "KEY", "CA"), files):
        text = re.sub(rf"\b{word}\b", path, text)
    text = text.replace("DOMAIN", DOMAIN).replace("DIR", machine.dir)
    path = os.path.join(machine.dir, name)
    with open(path, "w") as f:
        f.write(text.replace("BODY", "x" * 1024).replace("WORKERS", str(WORKERS)))
    return path


def load_of(client, url, name, connections, options, seconds):
    def load():
        p = client.run("wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "5s", "-H", f"Host: {name}", *options, url,
                       seconds=seconds + 30)
        bad = re.search(r"Non-2xx.*|Socket errors:.*", p.stdout)
        if bad:
            raise RuntimeError(f"{url}: {bad.group(0)}")
        return int(re.search(r"(\d+) requests in", p.stdout).group(1))
    return load


class Bench:
    """The machines, with each contender's processes and address. The floor keeps no connections to backends, and would
    run out of ports with one for each request."""

    def __init__(self, lab, n_services, seconds):
        self.lab, self.n, self.seconds = lab, n_services, seconds
        self.host, self.secure = f"web.{DOMAIN}", f"secure.{DOMAIN}"
        ca = Authority(lab.dir)
        files = *ca.issue("secure", f"subjectAltName=DNS:{TLS_NAME}"), ca.cert
        names = service_names(n_services)
        for address in BACKENDS:
            m = labs.Machine(lab, f"backend-{address[-1]}", address=address)
            m.run("sysctl", "-qw", "net.ipv4.tcp_max_tw_buckets=1024")  # or connections over a TCP port find no free port
            with open(os.path.join(m.dir, "m"), "w") as f:
                f.write("x" * (1 << 20))
            with open(os.path.join(m.dir, "long"), "w") as f:
                f.write("x" * 10_000_000)
            m.start("nginx", "nginx", "-c", config(m, "backend.conf", BACKEND_CONF, more=BACKEND_TLS, files=files))
        hub = labs.Hub(lab)
        hub.write("web.yaml", *[document for s in names for document in (
            {"apiVersion": "v1", "kind": "Service", "metadata": {"name": s, "namespace": "default"},
             "spec": {"ports": [{"name": "http", "port": 80, "targetPort": 8080}, {"name": "tcp", "port": 81, "targetPort": 8080}][:1 + (s == "web")]}},
            labs.endpoint_slice(f"{s}-1", s, 8080, *BACKENDS, port_name="http"))],
            labs.endpoint_slice("web-tcp", "web", 8080, *BACKENDS, port_name="tcp"), *self.secured(ca))
        node = labs.Node(lab, "edge-1", "192.0.2.11")
        node.run("nft", "-f", "-", input=DNAT)
        # Connections that are over would fill the table of connections within seconds of a load.
        node.run("sysctl", "-qw", *(f"net.netfilter.nf_conntrack_tcp_timeout_{s}=1" for s in ("time_wait", "close", "last_ack")))
        agent = labs.Agent(node, hub, "--lb.policy", "round-robin")
        labs.wait_for("all services at the agent", lambda: agent.state()["services"] == n_services + 1, 60)
        # A port of its own for each service would be needed, or a pod: behind the agent's one listener a connection to
        # another port, from a source port that is still in TIME_WAIT there, is refused by its timestamps and comes a second later.
        self.client, self.tcp_client = node.pod("client"), node.pod("tcp-client")
        with open(os.path.join(node.dir, "haproxy.map"), "w") as f:
            f.writelines(f"{s}.{DOMAIN} {s}\n" for s in [*names, "secure"])
        haproxy = node.start("haproxy", "haproxy", "-db", "-f",
                             config(node, "haproxy.cfg", HAPROXY_CONF, names, HAPROXY_SERVICE, HAPROXY_TLS, files))
        nginx = node.start("nginx", "nginx", "-c", config(node, "nginx.conf", NGINX_CONF, names, NGINX_SERVICE, NGINX_TLS, files))
        floor = os.path.join(lab.build, "bench", "floor")
        floors = {"floor": node.start("floor", floor, "172.17.0.1:40013", BACKENDS[0] + ":8080"),
                  "floors": node.start("floors", floor, "172.17.0.1:40015", BACKENDS[0] + ":8080", WORKERS)}
        fake, self.fake_secure = (labs.wait_for("the service's address", lambda h=h: self.client.dns(h, server="172.17.0.1")[1][0][4])
                                  for h in (self.host, self.secure))
        self.places = {"direct": (BACKENDS[0], 8080), "floor": ("9.252.0.3", 80), "floors": ("9.252.0.4", 80), "haproxy": ("9.252.0.1", 80),
                       "nginx": ("9.252.0.2", 80), "edgeway": (fake, 80)}
        processes = {**floors, "haproxy": haproxy, "nginx": nginx, "edgeway": agent.process}
        self.pids = {"direct": []}
        for name in self.places:
            labs.wait_for(f"{name} answers", lambda n=name: self.get(n)[0] == 200, 60)
        for name, process in processes.items():
            self.pids[name] = frame.children_of(process.pid)

    @staticmethod
    def secured(ca):
        with open(ca.cert, encoding="ascii") as f:
            text = f.read()
        meta = {"name": "secure", "namespace": "default"}
        return ({"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": {"ports": [{"name": "http", "port": 80, "targetPort": 8443}]}},
                labs.endpoint_slice("secure-1", "secure", 8443, *BACKENDS, port_name="http"),
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"ca.crt": text}},
                {"apiVersion": "gateway.networking.k8s.io/v1", "kind": "BackendTLSPolicy", "metadata": meta,
                 "spec": {"targetRefs": [{"group": "", "kind": "Service", "name": "secure"}],
                          "validation": {"hostname": TLS_NAME, "caCertificateRefs": [{"group": "", "kind": "ConfigMap", "name": "secure"}]}}})

    def url(self, name, path="/", load="1k"):
        host, port = self.places[name]
        if load == "tls" and name == "edgeway":
            host = self.fake_secure
        return f"http://{host}:{81 if load == 'tcp' and name != 'direct' else port}{path}"

    def get(self, name):
        return self.client.get(self.url(name), "-H", f"Host: {self.host}")

    def contenders(self, load):
        _, path, connections, options = LOADS[load]
        host = self.secure if load == "tls" else self.host
        without = {"1k": [], "1m": ["floors"], "tcp": ["floor", "floors", "nginx"]}.get(load, ["floor", "floors"])
        return [frame.Contender(name, self.pids[name],
                                load_of(self.tcp_client if load == "tcp" else self.client, self.url(name, path, load), host, connections,
                                        options, self.seconds))
                for name in self.places if name not in without]

    def idle(self, n_clients, path="/"):
        """{name: (bytes of anonymous memory, of PSS) for each of so many idle clients, or of those that do not read}."""
        grown = {}
        for name in self.places:
            if not self.pids[name]:
                continue
            before = frame.memory_kb(self.pids[name])
            host, port = self.places[name]
            p = self.client.start(f"idle-{name}", "/usr/bin/python3", "-c", IDLE, host, port, self.host, n_clients, path)
            labs.wait_for(f"idle clients of {name}", lambda q=p: "idle" in q.log() or not q.alive(), 60)
            if "idle" not in p.log():
                raise RuntimeError(f"idle clients of {name}: {p.log()}")
            time.sleep(3)  # idle for a while, as most are
            after = frame.memory_kb(self.pids[name])
            grown[name] = tuple((after[i] - before[i]) * 1024 / n_clients for i in (2, 1))
            p.kill()
        return grown


def tell_idle(grown, n_clients, what, bar):
    print(f"\n### {n_clients} clients: {what}\n\n| contender | anonymous bytes each | PSS bytes each |\n|---|---|---|")
    for name, (anonymous, pss) in grown.items():
        print(f"| {name} | {anonymous:.0f} | {pss:.0f} |")
    print(f"\nOne client costs {grown['edgeway'][1]:.0f} bytes "
          f"({frame.bar(f'http: bytes of PSS for a client, {what}', grown['edgeway'][1], bar)}).\n", flush=True)


def tell(contenders, title, main):
    print("\n" + frame.table(title, contenders, "direct"))
    cpu, rate = ({c.name: frame.medians(c)[i] for c in contenders} for i in (0, 1))
    peers = [name for name in ("haproxy", "nginx") if name in cpu]
    best, of_direct = min(cpu[name] for name in peers), rate["edgeway"] / rate["direct"]
    bar = ([f" ({frame.bar(f'http: CPU of the better peer, {title}', cpu['edgeway'] / best, BARS['cpu'])})",
            f" Requests/s are {of_direct:.2f} of direct ({frame.bar(f'http: requests/s of direct, {title}', of_direct, BARS['rate'], least=True)})."]
           if main else ["", ""])
    for load, peer in (("close", "nginx"), ("tcp", "haproxy")):
        if title.startswith(LOADS[load][0] + ","):
            ratio = cpu["edgeway"] / cpu[peer]
            bar[0] = f" ({frame.bar(f'http: CPU of {peer}, {title}', ratio, BARS[load])})"
    floor = "".join(f", {cpu['edgeway'] / cpu[name]:.2f} of the {name}" for name in ("floor", "floors") if name in cpu)
    ratios = "".join(f"{cpu['edgeway'] / cpu[name]:.2f} of {name}, " for name in peers)
    print(f"\nCPU per request: edgeway is {ratios}{cpu['edgeway'] / best:.2f} of the better{bar[0]}{floor}.{bar[1]}\n", flush=True)


def bench(n_services, args, first):
    with labs.Lab() as lab:
        b = Bench(lab, n_services, args.seconds)
        wanted = [s for s in (args.only or ["idle", "slow", *LOADS]) if first or s == "1k"]
        if "idle" in wanted:
            tell_idle(b.idle(args.idle), args.idle, "idle after a request", BARS["idle"])
        if "slow" in wanted:
            tell_idle(b.idle(args.idle // 2, "/long"), args.idle // 2, "not reading 10 MB", BARS["slow"])
        for name, (title, *_) in LOADS.items():
            if name not in wanted:
                continue
            contenders = b.contenders(name)
            frame.run(contenders, args.rounds, report=lambda line: print(line, flush=True))
            tell(contenders, f"{title}, {n_services} services", name == "1k")
            if name == "1k" and first:
                used = frame.memory_kb(b.pids["edgeway"])[2] / 1024
                print(f"Anonymous memory of the whole agent with {n_services} services: {used:.1f} MB "
                      f"({frame.bar('http: anonymous MB of the agent', used, BARS['memory'])}).\n", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="one short round with few services, to see that it runs")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=int, default=1)
    parser.add_argument("--idle", type=int, default=2000, help="idle clients")
    parser.add_argument("--services", type=int, nargs="+", default=[100, 10000])
    parser.add_argument("--only", nargs="+", choices=["idle", "slow", *LOADS])
    args = parser.parse_args()
    if args.smoke:
        args.rounds, args.seconds, args.idle, args.services = 1, 1, 200, [20]
    os.environ.setdefault("top_builddir", os.getcwd())
    print(f"`bench/bench_http.py --rounds {args.rounds} --seconds {args.seconds}` on {frame.machine()}\n", flush=True)
    for i, n in enumerate(args.services):
        bench(n, args, i == 0)


if __name__ == "__main__":
    main()

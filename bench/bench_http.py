#!/usr/bin/python3
"""HTTP side by side: a pod calls a service of two backends directly, through a bare copy relay (the floor), HAProxy,
nginx, and Edgeway's agent. All proxies stand on the node's docker0 behind the same kind of DNAT.

    bench/bench_http.py [--smoke] [--rounds N] [--seconds S]

1 KB answers, keep-alive, 32 connections of wrk. CPU is that of the proxy's processes alone. Prints a table for
bench/RESULTS.md. Root; everything lives in namespaces of the bench's own.
"""
import argparse
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "tests", "net")]
import frame  # noqa: E402
import lab as labs  # noqa: E402

BACKENDS = ["192.0.2.31", "192.0.2.32"]
BACKEND_CONF = """
daemon off; master_process off; pid DIR/backend.pid; error_log stderr crit;
events { worker_connections 4096; }
http { access_log off; keepalive_requests 1000000000; keepalive_timeout 600s;
    client_body_temp_path DIR/t1; proxy_temp_path DIR/t2; fastcgi_temp_path DIR/t3; uwsgi_temp_path DIR/t4; scgi_temp_path DIR/t5;
    server { listen 8080 reuseport; location / { default_type text/plain; return 200 "BODY"; } } }
"""
NGINX_CONF = """
daemon off; worker_processes WORKERS; pid DIR/nginx.pid; error_log stderr crit;
events { worker_connections 8192; }
http { access_log off; keepalive_requests 1000000000; keepalive_timeout 600s;
    client_body_temp_path DIR/p1; proxy_temp_path DIR/p2; fastcgi_temp_path DIR/p3; uwsgi_temp_path DIR/p4; scgi_temp_path DIR/p5;
    upstream web { server 192.0.2.31:8080; server 192.0.2.32:8080; keepalive 256; keepalive_requests 1000000000; }
    server { listen 172.17.0.1:40012 reuseport; location / {
        proxy_pass http://web; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $host;
        proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; } } }
"""
HAPROXY_CONF = """
global
    nbthread WORKERS
    maxconn 8192
defaults
    mode http
    timeout connect 1s
    timeout client 60s
    timeout server 60s
    option forwardfor
frontend in
    bind 172.17.0.1:40011
    default_backend web
backend web
    balance roundrobin
    server a 192.0.2.31:8080
    server b 192.0.2.32:8080
"""
DNAT = """
table ip bench {
    chain pre { type nat hook prerouting priority -105;
        ip daddr 9.252.0.1 tcp dport 80 dnat to 172.17.0.1:40011
        ip daddr 9.252.0.2 tcp dport 80 dnat to 172.17.0.1:40012
        ip daddr 9.252.0.3 tcp dport 80 dnat to 172.17.0.1:40013
    }
}
"""


def config(machine, name, text):
    workers = str(min(4, os.cpu_count() or 1))
    path = os.path.join(machine.dir, name)
    with open(path, "w") as f:
        f.write(text.replace("DIR", machine.dir).replace("BODY", "x" * 1024).replace("WORKERS", workers))
    return path


def load_of(client, url, seconds):
    def load():
        p = client.run("wrk", "-t1", "-c32", f"-d{seconds}s", "--timeout", "5s", url, seconds=seconds + 30)
        bad = re.search(r"Non-2xx.*|Socket errors:.*", p.stdout)
        if bad:
            raise RuntimeError(f"{url}: {bad.group(0)}")
        return int(re.search(r"(\d+) requests in", p.stdout).group(1))
    return load


def build(lab, seconds):
    for address in BACKENDS:
        m = labs.Machine(lab, f"backend-{address[-1]}", address=address)
        m.start("nginx", "nginx", "-c", config(m, "backend.conf", BACKEND_CONF))
    hub = labs.Hub(lab)
    hub.write("web.yaml", {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "default"},
                           "spec": {"ports": [{"name": "http", "port": 80, "targetPort": 8080}]}},
              labs.endpoint_slice("web-1", "web", 8080, *BACKENDS, port_name="http"))
    node = labs.Node(lab, "edge-1", "192.0.2.11")
    node.run("nft", "-f", "-", input=DNAT)
    agent = labs.Agent(node, hub, "--lb.policy", "round-robin")
    client = node.pod("client")
    haproxy = node.start("haproxy", "haproxy", "-db", "-f", config(node, "haproxy.cfg", HAPROXY_CONF))
    nginx = node.start("nginx", "nginx", "-c", config(node, "nginx.conf", NGINX_CONF))
    floor = node.start("floor", os.path.join(lab.build, "bench", "floor"), "172.17.0.1:40013", BACKENDS[0] + ":8080")
    fake = labs.wait_for("the service's address",
                         lambda: client.dns("web.default.svc.cluster.local", server="172.17.0.1")[1][0][4])
    urls = {"direct": ([], f"http://{BACKENDS[0]}:8080/"),
            "floor": ([floor.pid], "http://9.252.0.3/"),
            "haproxy": (haproxy.pid, "http://9.252.0.1/"),
            "nginx": (nginx.pid, "http://9.252.0.2/"),
            "edgeway": (agent.process.pid, f"http://{fake}/")}
    contenders = []
    for name, (pids, url) in urls.items():
        labs.wait_for(f"{name} at {url}", lambda u=url: client.get(u)[0] == 200)
        pids = pids if isinstance(pids, list) else frame.children_of(pids)
        contenders.append(frame.Contender(name, pids, load_of(client, url, seconds)))
    return contenders


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="one short round, to see that it runs")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=4)
    args = parser.parse_args()
    if args.smoke:
        args.rounds, args.seconds = 1, 1
    os.environ.setdefault("top_builddir", os.getcwd())
    with labs.Lab() as lab:
        contenders = build(lab, args.seconds)
        frame.run(contenders, args.rounds)
        print(f"\n`bench/bench_http.py --rounds {args.rounds} --seconds {args.seconds}` on {frame.machine()}\n")
        print(frame.table("1 KB, keep-alive, 32 connections", contenders, "direct"))
        cpu = {c.name: frame.medians(c)[0] for c in contenders}
        best = min(cpu["haproxy"], cpu["nginx"])
        print(f"\nCPU per request: edgeway is {cpu['edgeway'] / cpu['haproxy']:.2f} of haproxy, "
              f"{cpu['edgeway'] / cpu['nginx']:.2f} of nginx, {cpu['edgeway'] / best:.2f} of the better, "
              f"{cpu['edgeway'] / cpu['floor']:.2f} of the floor.")


if __name__ == "__main__":
    main()

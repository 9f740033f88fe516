#!/usr/bin/python3
"""What routes of the Gateway API cost a request: 1 KB answers on kept connections to one backend pair through agents that differ in their
routes alone, each on a node of its own: none, but a thousand other Services; 1 000 HTTPRoutes of 16 rules on these; the same and one route on the
Service itself, whose 16th rule the request matches, by its path or by a header field; 1 000 such routes on the one Service.

    bench/bench_routes.py [--smoke] [--rounds N] [--seconds S]

CPU is that of the agents' processes, all threads. Prints a table for bench/RESULTS.md. Root; everything lives in namespaces of the bench's own.
"""
import argparse
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "tests", "net")]
import bench_http  # noqa: E402
import frame  # noqa: E402
import lab as labs  # noqa: E402

BAR, RULES = 1.05, 16


def service(name):
    return [{"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "default"},
             "spec": {"ports": [{"name": "http", "port": 80, "targetPort": 8080}]}},
            labs.endpoint_slice(f"{name}-1", name, 8080, *bench_http.BACKENDS, port_name="http")]


def by_path(i, j):
    return {"path": {"type": "PathPrefix", "value": f"/r{i}/{j}"}}


def by_header(_, j):
    return {"headers": [{"name": "x-version", "value": str(j)}]}


def route(parent, i, match=by_path):
    return {"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
            "metadata": {"name": f"r{i}", "namespace": "default", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"parentRefs": [{"group": "", "kind": "Service", "name": parent}],
                     "rules": [{"matches": [match(i, j)], "backendRefs": [{"name": "web", "port": 80}]} for j in range(RULES)]}}


def contenders(n):
    """{name: (objects beside the Service, path, more of wrk)}; the path leads to nginx's 1 KB whatever it is."""
    plain = [o for i in range(n) for o in service(f"other-{i}")]
    others = [*plain, *(route(f"other-{i}", i) for i in range(n))]
    return {"none": (plain, "/r0/15", []), f"{n} elsewhere": (others, "/r0/15", []), "16th, by path": ([*others, route("web", n)], f"/r{n}/15", []),
            "16th, by header": ([*others, route("web", n, by_header)], "/r0/15", ["-H", "x-version: 15"]),
            f"{n} on it": ([*plain, *(route("web", i) for i in range(n))], f"/r{n - 1}/15", [])}


def made(lab, i, objects, n_services):
    hub = labs.Hub(lab, name=f"cloud-{i}", address=f"192.0.2.{50 + i}")
    hub.write("web.yaml", *service("web"))
    for at in range(0, len(objects), 300):
        hub.write(f"more-{at}.yaml", *objects[at:at + 300])
    node = labs.Node(lab, f"edge-{i}", f"192.0.2.{10 + i}")
    agent = labs.Agent(node, hub, "--lb.policy", "round-robin", "--hub.url", f"wss://{hub.address}:{labs.HUB_PORT}")
    labs.wait_for("all services", lambda: agent.state()["services"] == n_services, 120)
    client = node.pod("client")
    host = f"web.{bench_http.DOMAIN}"
    fake = labs.wait_for("the service's address", lambda: client.dns(host, server="172.17.0.1")[1][0][4])
    return agent, client, fake, host


def bench(args):
    with labs.Lab() as lab:
        for address in bench_http.BACKENDS:
            m = labs.Machine(lab, f"backend-{address[-1]}", address=address)
            m.start("nginx", "nginx", "-c", bench_http.config(m, "backend.conf", bench_http.BACKEND_CONF))
        loads = []
        for i, (name, (objects, path, more)) in enumerate(contenders(args.routes).items(), 1):
            n_services = 1 + sum(o["kind"] == "Service" for o in objects)
            agent, client, fake, host = made(lab, i, objects, n_services)
            loads.append(frame.Contender(name, [agent.process.pid],
                                         bench_http.load_of(client, f"http://{fake}{path}", host, 32, more, args.seconds)))
            labs.wait_for("200", lambda c=client, u=f"http://{fake}{path}", m=more, h=host: c.get(u, "-H", f"Host: {h}", *m)[0] == 200, 60)
            if "on it" in name or "16th" in name:
                labs.wait_for("routes", lambda c=client, u=f"http://{fake}/none", h=host: c.get(u, "-H", f"Host: {h}")[0] == 404, 60)
        frame.run(loads, args.rounds, report=lambda line: print(line, flush=True))
        print("\n" + frame.table("1 KB, keep-alive, 32 connections, routes", loads, "none"))
        none = frame.medians(loads[0])[0]
        ratios = {c.name: frame.medians(c)[0] / none for c in loads[1:]}
        print("\nCPU per request against none: " + ", ".join(f"{name} {ratio:.3f} ({frame.bar(f'routes: CPU against none, {name}', ratio, BAR)})" for name, ratio in ratios.items()) + ".")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="one short round with few routes, to see that it runs")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=int, default=1)
    parser.add_argument("--routes", type=int, default=1000)
    args = parser.parse_args()
    if args.smoke:
        args.rounds, args.routes = 1, 10
    os.environ.setdefault("top_builddir", os.getcwd())
    print(f"`bench/bench_routes.py --rounds {args.rounds} --seconds {args.seconds}` on {frame.machine()}\n", flush=True)
    bench(args)


if __name__ == "__main__":
    main()

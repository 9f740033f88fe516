#!/usr/bin/python3
"""What recording requests as spans costs: 1 KB answers on kept connections through agents that differ in nothing but tracing.*,
each on a node of its own: off, on for nobody, for one request in a hundred, for all. The collector is an nginx that says 200.

    bench/bench_tracing.py [--smoke] [--rounds N] [--seconds S] [--before AGENT] [--only NAME...]

--before: another build of edgeway-agent beside them. CPU is that of the agents' processes, all threads, with what encodes and sends
the spans. Prints a table for bench/RESULTS.md. Root; everything lives in namespaces of the bench's own.
"""
import argparse
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "tests", "net")]
import bench_http  # noqa: E402
import frame  # noqa: E402
import lab as labs  # noqa: E402

COLLECTOR = "192.0.2.33"
SINK_CONF = """
daemon off; master_process off; pid DIR/sink.pid; error_log stderr crit;
events { worker_connections 1024; }
http { access_log off; client_max_body_size 100m; client_body_buffer_size 10m; server { listen 4318; location / { return 200 "{}"; } } }
"""


def made(lab, hub, name, i, options, program=None):
    node = labs.Node(lab, f"edge-{i}", f"192.0.2.{10 + i}")
    agent = labs.Agent(node, hub, "--lb.policy", "round-robin", *options, start=program is None)
    if program is not None:
        ours, lab.program = lab.program, lambda _: program
        agent.start()
        lab.program = ours
    client = node.pod("client")
    host = f"web.{bench_http.DOMAIN}"
    fake = labs.wait_for("the service's address", lambda: client.dns(host, server="172.17.0.1")[1][0][4])
    return agent, client, f"http://{fake}/", host


def bench(args):
    endpoint = ("--tracing.endpoint", f"http://{COLLECTOR}:4318", "--tracing.limit", "1000000", "--tracing.sample")
    wanted = {"off": (), "0": (*endpoint, "0"), "1 in 100": (*endpoint, "0.01"), "all": (*endpoint, "1"),
              "all, limit 100": ("--tracing.endpoint", f"http://{COLLECTOR}:4318", "--tracing.sample", "1")}
    wanted = {name: options for name, options in wanted.items() if name in ["off", *(wanted if args.only is None else args.only)]}
    with labs.Lab() as lab:
        for address in bench_http.BACKENDS:
            m = labs.Machine(lab, f"backend-{address[-1]}", address=address)
            m.start("nginx", "nginx", "-c", bench_http.config(m, "backend.conf", bench_http.BACKEND_CONF))
        m = labs.Machine(lab, "collector", address=COLLECTOR)
        m.start("nginx", "nginx", "-c", bench_http.config(m, "sink.conf", SINK_CONF))
        hub = labs.Hub(lab)
        hub.write("web.yaml", {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "default"},
                               "spec": {"ports": [{"name": "http", "port": 80, "targetPort": 8080}]}},
                  labs.endpoint_slice("web-1", "web", 8080, *bench_http.BACKENDS, port_name="http"))
        agents = {name: made(lab, hub, name, i, options) for i, (name, options) in enumerate(wanted.items(), 1)}
        if args.before:
            agents["before"] = made(lab, hub, "before", len(agents) + 1, (), args.before)
        contenders = [frame.Contender(name, [agent.process.pid],
                                      bench_http.load_of(client, url, host, 32, [], args.seconds))
                      for name, (agent, client, url, host) in agents.items()]
        frame.run(contenders, args.rounds, report=lambda line: print(line, flush=True))
        print("\n" + frame.table("1 KB, keep-alive, 32 connections, tracing", contenders, "off"))
        off = frame.medians(contenders[0])[0]
        print("\nCPU per request against off: " + ", ".join(f"{c.name} {frame.medians(c)[0] / off:.2f}" for c in contenders[1:]) + ".")
        for name, (agent, *_) in agents.items():
            state = agent.state().get("tracing")
            if state:
                print(f"{name}: {state['exported']} spans exported, {state['dropped']} dropped, {state['failed']} failed.")
                assert state["error"] == "" and state["failed"] == 0, state


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="one short round, to see that it runs")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=int, default=1)
    parser.add_argument("--before")
    parser.add_argument("--only", nargs="*", help="these and `off`; nobody: two builds of the agent")
    args = parser.parse_args()
    if args.smoke:
        args.rounds = 1
    os.environ.setdefault("top_builddir", os.getcwd())
    print(f"`bench/bench_tracing.py --rounds {args.rounds} --seconds {args.seconds}` on {frame.machine()}\n", flush=True)
    bench(args)


if __name__ == "__main__":
    main()

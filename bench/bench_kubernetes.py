#!/usr/bin/python3
"""What a cluster costs the hub: memory and CPU after everything was listed from the API server for tests, and after all of
it was listed anew because the history had ended; and how soon it knows of a Service that was made while the server was away.

    bench/bench_kubernetes.py [--smoke] [--return | --changes [SERVICES,PODS,NODES,SECONDS ...]]

--changes: only 1 000 changes a second of 10 000 Services with 100 000 endpoints (objects.Churn in tests/apiserver) go to many nodes, one of
which reads nothing meanwhile; at the end the hub is started anew, and what it lists must be what all nodes hold.
CPU and memory are the hub's alone; wall time is told of the server's return only, from the first 200 that another client gets (one asks every
50 ms), since the API server here is Python. Prints a section for
bench/RESULTS.md. Root; everything lives in namespaces of the bench's own.
"""
import argparse
import json
import os
import re
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "tests", "net")]
from fleet import Fleet  # noqa: E402
from frame import bar, cpu_ns, machine  # noqa: E402
from kube import ACCOUNT, EVENTS, RIGHTS, SECRETS, ApiServer, KubeHub  # noqa: E402
from lab import Lab, wait_for  # noqa: E402

BAR_MB = 200
FOLLOWED = "services", "endpointslices", "pods", "nodes"
SIZES = [(100, 10, 1000), (1000, 10, 10000), (10000, 10, 10000), (10000, 10, 100000)]  # services, endpoints each, pods


def memory_mb(pid, what):
    with open(f"/proc/{pid}/status") as f:
        return int(re.search(rf"{what}:\s+(\d+) kB", f.read()).group(1)) / 1024


def cpu_s(pid):
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(services, endpoints, pods):
    with Lab() as lab:
        api = ApiServer(lab)
        api.ctl("slices", on=False)
        api.ctl("bulk", services=services, endpoints=endpoints, pods=pods)
        hub = KubeHub(lab, api)
        wait_for("everything is read", lambda: hub.ready() and hub.metrics()["edgeway_hub_services"] >= services, 300, pause=0.5)
        pid = hub.process.pid
        first = memory_mb(pid, "VmHWM"), memory_mb(pid, "VmRSS"), cpu_s(pid)
        for resource in FOLLOWED:
            api.ctl("fault", match=f"/{resource}?", watch=True, do="error-event", code=410)
        api.ctl("cut_all")
        wait_for("listed anew", lambda: all(hub.source()[r]["lists"] >= 2 for r in FOLLOWED), 300, pause=0.5)
        return (*first, memory_mb(pid, "VmHWM"), cpu_s(pid) - first[2])


AWAY = [("does not listen", 5), ("does not listen", 30), ("refuses: 403", 30), ("refuses: 429 and Retry-After: 1", 30)]
RETURN_BAR_S = 1.5


def go_away(api, how):
    if "403" in how:
        api.ctl("grant", user=ACCOUNT, rights=EVENTS + SECRETS)
        api.ctl("cut_all")
    elif "429" in how:
        api.ctl("fault", match="/services?", do="status", status=429, count=100000, retry_after=1)
        api.ctl("cut_all")
    else:
        api.ctl("down")


def come_back(api, how):
    if "403" in how:
        api.ctl("grant", user=ACCOUNT, rights=RIGHTS)
    elif "429" in how:
        api.ctl("no_faults")
    else:
        api.ctl("up")


def first_answer(api):
    """When a client that asks as the hub does is answered 200."""
    while True:
        p = api.machine.run("curl", "-sk", "-o", "/dev/null", "-w", "%{http_code}", "-H", "Authorization: Bearer hub-token",
                            f"{api.url}/api/v1/services?limit=1", check=False)
        if p.stdout == "200":
            return time.monotonic()
        time.sleep(0.05)


def measure_return(hub, api, how, away_s, name):
    go_away(api, how)
    time.sleep(away_s)
    api.ctl("put", group="", resource="services", obj={"metadata": {"name": name, "namespace": "default"}, "spec": {
        "ports": [{"name": "p", "port": 80, "protocol": "TCP"}], "clusterIP": "None"}})
    come_back(api, how)
    began = first_answer(api)
    wait_for("known", lambda: ("default", name) in hub.services(), pause=0.02)
    return time.monotonic() - began


def tell_returns():
    print("## The API server comes back\n\nbench/bench_kubernetes.py --return: seconds from the first 200 that any client gets until the hub "
          f"knows a Service made meanwhile, three times each; the bar: {RETURN_BAR_S} s.\n")
    print("| the server | away s | known after s |")
    print("|---|---|---|")
    with Lab() as lab:
        api = ApiServer(lab)
        hub = KubeHub(lab, api)
        wait_for("ready", hub.ready)
        for i, (how, away_s) in enumerate(AWAY):
            times = [measure_return(hub, api, how, away_s, f"new-{i}-{k}") for k in range(3)]
            print(f"| {how} | {away_s} | {', '.join(f'{t:.1f}' for t in times)} |", flush=True)


CHANGES_MB, CHANGES_CORES, RATE = 150, 1.0, 1000
CHANGES = [(10000, 10000, 50, 40), (10000, 100000, 50, 40)]  # services, pods, nodes, seconds
LAG_KB = 1280  # what the hub may hold for a node that reads nothing: hub/sync/inflight.h's MiB and the socket's buffer


def measure_changes(services, pods, nodes, seconds):
    with Lab() as lab:
        api = ApiServer(lab)
        api.ctl("slices", on=False)
        api.ctl("bookmarks", seconds=2)
        api.ctl("bulk", services=services, endpoints=10, pods=pods)
        hub = KubeHub(lab, api)
        wait_for("everything is read", lambda: hub.ready() and hub.metrics()["edgeway_hub_services"] >= services, 300, pause=0.5)
        fleet = Fleet(hub)
        wait_for("all connected", lambda: fleet.ask("connect", nodes)["connected"] == nodes, 60, pause=0.5)  # a busy hub turns some away
        if nodes > 1:
            fleet.ask("stall", 0)
        fleet.ask("mark")
        cpu, queued, lag, waiting = cpu_ns([hub.process.pid]), 0, 0, 0
        began = time.monotonic()
        api.ctl("churn", rate=RATE, seconds=seconds)
        while not api.ctl("churned")[1]:
            fleet.ask("changes", 1 << 30, 1)  # its nodes read while it is asked something
            m = hub.metrics()
            queued = max(queued, m["edgeway_hub_nodes_queued_bytes"])
            lag = max(lag, *(n["queuedBytes"] for n in json.loads(hub.ask("/nodes")[1])["nodes"] if n["node"] == "node-0" and n["connected"]), 0)
            waiting = max(waiting, m["edgeway_hub_changes_waiting"])
        done, took = api.ctl("churned")
        rev, ended = api.ctl("rev"), time.monotonic()
        cores = (cpu_ns([hub.process.pid]) - cpu) / 1e9 / (ended - began)
        reading = nodes - 1 if nodes > 1 else 1
        wait_for("all is read", lambda: all(int(hub.source()[r]["version"]) >= rev for r in FOLLOWED), 120, pause=0.1)
        wait_for("nothing waits", lambda: fleet.ask("check")["in_step"] >= reading, 60, pause=0.1)
        after = time.monotonic() - ended
        if nodes > 1:
            fleet.ask("read", 0)
        # One that acknowledges nothing for long is cut, and comes back.
        wait_for("all in step", lambda: fleet.ask("connect", nodes) and fleet.ask("check")["in_step"] == nodes, 60, pause=0.1)
        peak, merged = memory_mb(hub.process.pid, "VmHWM"), hub.metrics()["edgeway_hub_changes_merged_total"]
        fleet.ask("drop")
        hub.process.stop()
        hub.start()
        wait_for("listed anew", lambda: hub.ready() and hub.metrics()["edgeway_hub_services"] >= services, 300, pause=0.5)
        fleet.ask("mark")
        fleet.ask("connect", nodes)
        lost = fleet.ask("changes", 1, 1)["reached"]
        return done / took, cores, peak, lag / 1024, queued / 1024, waiting, merged, after, lost


def tell_changes(sizes):
    print(f"### {RATE} changes a second\n\n`bench/bench_kubernetes.py --changes`, {machine()}; bars: {CHANGES_MB} MB, {CHANGES_CORES:.0f} core, none lost, "
          f"{LAG_KB} kB for a node that lags.\n")
    print("| services | endpoints | pods | nodes | s | changes/s | hub's cores | hub's peak MB | kB queued for the node that does not read, at most | for all | most waiting | merged "
          "| s until all have all | nodes that a hub listed anew had to tell something |")
    print("|" + "---|" * 14)
    for services, pods, nodes, seconds in sizes:
        rate, cores, peak, lag, queued, waiting, merged, after, lost = measure_changes(services, pods, nodes, seconds)
        print(f"| {services} | {services * 10} | {pods} | {nodes} | {seconds} | {rate:.0f} | {cores:.2f} | {peak:.0f} | {lag:.0f} | {queued:.0f} | {waiting:.0f} "
              f"| {merged:.0f} | {after:.1f} | {lost} |", flush=True)
        for name, value, limit in (("MB", peak, CHANGES_MB), ("cores", cores, CHANGES_CORES), ("kB queued", lag, LAG_KB), ("lost", lost, 0)):
            print(f"{name}: {bar(f'kubernetes changes, {nodes} nodes, {pods} pods: {name}', value, limit)}", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--return", action="store_true", dest="returns")
    parser.add_argument("--changes", nargs="*", metavar="SERVICES,PODS,NODES,SECONDS")
    args = parser.parse_args()
    sizes = [tuple(map(int, s.split(","))) for s in args.changes or ()] or ([(1000, 1000, 5, 5)] if args.smoke else CHANGES)
    if args.changes is not None:
        tell_changes(sizes)
        return
    if args.returns:
        tell_returns()
        return
    print("## The hub on a Kubernetes API server\n\nbench/bench_kubernetes.py; the bar: 10000 services with 100000 endpoints within "
          f"{BAR_MB} MB.\n")
    print("| services | endpoints | pods | peak MB | resident MB | CPU s | peak MB, listed anew | CPU s for that |")
    print("|---|---|---|---|---|---|---|---|")
    for services, endpoints, pods in SIZES[:1] if args.smoke else SIZES:
        peak, now, cpu, again, more = measure(services, endpoints, pods)
        print(f"| {services} | {services * endpoints} | {pods} | {peak:.0f} | {now:.0f} | {cpu:.1f} | {again:.0f} | {more:.1f} |",
              flush=True)
    print()
    tell_changes(sizes)


if __name__ == "__main__":
    main()

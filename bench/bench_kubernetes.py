#!/usr/bin/python3
"""What a cluster costs the hub: memory and CPU after everything was listed from the API server for tests, and after all of
it was listed anew because the history had ended; and how soon it knows of a Service that was made while the server was away.

    bench/bench_kubernetes.py [--smoke | --return]

CPU and memory are the hub's alone; wall time is told of the server's return only, from the first 200 that another client gets (one asks every
50 ms), since the API server here is Python. Prints a section for
bench/RESULTS.md. Root; everything lives in namespaces of the bench's own.
"""
import argparse
import os
import re
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "tests", "net")]
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


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--return", action="store_true", dest="returns")
    args = parser.parse_args()
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


if __name__ == "__main__":
    main()

#!/usr/bin/python3
"""What a cluster costs the hub: memory and CPU after everything was listed from the API server for tests, and after all of
it was listed anew because the history had ended.

    bench/bench_kubernetes.py [--smoke]

CPU and memory are the hub's alone; wall time is not told, since the API server here is Python. Prints a section for
bench/RESULTS.md. Root; everything lives in namespaces of the bench's own.
"""
import argparse
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "tests", "net")]
from kube import ApiServer, KubeHub  # noqa: E402
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
        wait_for("listed anew", lambda: all(hub.metric("lists_total", r) >= 2 for r in FOLLOWED), 300, pause=0.5)
        return (*first, memory_mb(pid, "VmHWM"), cpu_s(pid) - first[2])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--smoke", action="store_true")
    args = parser.parse_args()
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

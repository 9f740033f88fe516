"""What the API server does to objects on the way in (defaults, patches), and the controllers that a cluster has beside it:
addresses of Services, a kubelet that makes pods run, EndpointSlices that follow the pods.
"""
import base64
import copy
import random
import re
import threading
import time

from store import GATEWAY, LISTED, Refused, Store, now

POD_IP = "lab.edgeway.io/pod-ip"  # annotation: the address that the kubelet reports
MERGE_KEYS = {"containers": "name", "initContainers": "name", "conditions": "type", "addresses": "type", "env": "name",
              "podIPs": "ip", "hostIPs": "ip", "volumes": "name"}


def merge(base, patch):
    """RFC 7396."""
    if not isinstance(patch, dict):
        return patch
    base = dict(base) if isinstance(base, dict) else {}
    for key, value in patch.items():
        if value is None:
            base.pop(key, None)
        else:
            base[key] = merge(base.get(key), value)
    return base


def _key_of(name, items):
    if name == "ports":
        return "containerPort" if any("containerPort" in i for i in items) else "port"
    return MERGE_KEYS.get(name)


def strategic(base, patch):
    """Kubernetes' strategic merge, as far as kubectl apply uses it on the kinds here."""
    if patch.get("$patch") == "replace":
        return {k: v for k, v in patch.items() if k != "$patch"}
    base = dict(base or {})
    for key, value in patch.items():
        if key.startswith("$"):
            continue
        if value is None:
            base.pop(key, None)
        elif isinstance(value, dict):
            base[key] = strategic(base.get(key), value)
        elif isinstance(value, list) and all(isinstance(i, dict) for i in value) and _key_of(key, value):
            base[key] = _merge_list(_key_of(key, value), base.get(key) or [], value)
        else:
            base[key] = value
    return base


def _merge_list(by, base, patch):
    found = [dict(i) for i in base]
    for item in patch:
        at = next((i for i, old in enumerate(found) if old.get(by) == item.get(by)), None)
        if item.get("$patch") == "delete":
            found = [i for i in found if i.get(by) != item.get(by)]
        elif at is None:
            found.append(item)
        else:
            found[at] = strategic(found[at], item)
    return found


def prepare(store, resource, obj, before=None):
    """Defaults, and what only the server says."""
    kind = LISTED[resource][0]
    meta = obj["metadata"]
    if before is not None:
        for key in ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"):
            if key in before["metadata"]:
                meta[key] = before["metadata"][key]
    if kind == "Service":
        _service(store, obj)
    elif kind == "Pod":
        spec = obj.setdefault("spec", {})
        for c in spec.get("containers") or []:
            for p in c.get("ports") or []:
                p.setdefault("protocol", "TCP")
                if spec.get("hostNetwork"):
                    p.setdefault("hostPort", p["containerPort"])
        obj["status"] = before["status"] if before else {"phase": "Pending", "qosClass": "BestEffort"}
    elif kind == "Secret":
        _secret(obj)
    elif kind == "ConfigMap":
        _config_map(obj, before)
    elif resource[0] == GATEWAY:
        _route(obj, before)
    elif before is not None and kind == "Node" and "status" in before:
        obj["status"] = before["status"]
    return obj


def _route(obj, before):
    """A custom resource with a status of its own: its generation counts the changes of spec, and only /status writes status."""
    same = before is not None and before.get("spec") == obj.get("spec")
    obj["metadata"]["generation"] = before["metadata"].get("generation", 1) + (not same) if before else 1
    obj.pop("status", None)
    if before and "status" in before:
        obj["status"] = before["status"]


SECRET_MOST = CONFIG_MAP_MOST = 1 << 20
CONFIG_KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}")


def _config_map(obj, before):
    """Of all values together; an immutable one keeps what it has."""
    def wrong(what):
        raise Refused(422, "Invalid", f'ConfigMap "{obj["metadata"]["name"]}" is invalid: {what}')

    data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
    for key in [*data, *binary]:
        if not CONFIG_KEY.fullmatch(key):
            wrong(f'data[{key}]: Invalid value: "{key}": a valid config key must consist of alphanumeric characters')
    if sum(len(v.encode()) for v in data.values()) + sum(len(base64.b64decode(v)) for v in binary.values()) > CONFIG_MAP_MOST:
        wrong(f'[]: Too long: may not be more than {CONFIG_MAP_MOST} bytes')
    if before and before.get("immutable") and (data != before.get("data", {}) or binary != before.get("binaryData", {})):
        wrong("data: Forbidden: field is immutable when `immutable` is set")


def _secret(obj):
    for key, value in (obj.pop("stringData", None) or {}).items():
        obj.setdefault("data", {})[key] = base64.b64encode(value.encode()).decode()
    obj.setdefault("type", "Opaque")
    try:
        size = sum(len(base64.b64decode(v, validate=True)) for v in (obj.get("data") or {}).values())
    except ValueError as e:
        raise Refused(400, "BadRequest", f"Secret in version \"v1\" cannot be handled as a Secret: {e}") from None
    if size > SECRET_MOST:
        raise Refused(422, "Invalid", f'Secret "{obj["metadata"]["name"]}" is invalid: data: Too long: must have at most '
                      f"{SECRET_MOST} bytes")


def _service(store, obj):
    spec = obj.setdefault("spec", {})
    if spec.setdefault("type", "ClusterIP") != "ExternalName" and not spec.get("clusterIP"):
        store.next_ip += 1
        spec["clusterIP"] = f"10.96.{store.next_ip // 250}.{store.next_ip % 250 + 1}"
    if spec.get("clusterIP"):
        spec["clusterIPs"] = [spec["clusterIP"]]
        spec.setdefault("ipFamilies", ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "SingleStack")
        spec.setdefault("internalTrafficPolicy", "Cluster")
    spec.setdefault("sessionAffinity", "None")
    for port in spec.get("ports") or []:
        port.setdefault("protocol", "TCP")
        port.setdefault("targetPort", port["port"])
    if len({(p["protocol"], p["port"]) for p in spec.get("ports") or []}) != len(spec.get("ports") or []):
        raise Refused(422, "Invalid", f'Service "{obj["metadata"]["name"]}" is invalid: spec.ports: Duplicate value')
    obj.setdefault("status", {"loadBalancer": {}})


class Controllers(threading.Thread):
    """The kubelets of all nodes and the controller of EndpointSlices, some ms behind, as in a cluster."""
    PODS, SERVICES = ("", "pods"), ("", "services")
    SLICES = ("discovery.k8s.io", "endpointslices")

    def __init__(self, store: Store):
        super().__init__(daemon=True)
        self.store, self.todo, self.wake = store, set(), threading.Event()
        self.slices = True
        store.hooks.append(self.on_change)

    def on_change(self, kind, record):
        if record.resource == self.SERVICES:
            self.todo.add(("service", record.ns, record.name))
        elif record.resource == self.PODS:
            self.todo.add(("pod", record.ns, record.name))
            self.todo.add(("all", record.ns, ""))
        self.wake.set()

    def run(self):
        while True:
            self.wake.wait()
            self.wake.clear()
            with self.store.lock:
                todo, self.todo = sorted(self.todo), set()
            names = {t[1:] for t in todo if t[0] == "service"}
            for what, ns, name in todo:
                if what == "pod":
                    self.kubelet(ns, name)
                elif what == "all":
                    with self.store.lock:
                        names |= {k for k in self.store.objects[self.SERVICES] if k[0] == ns}
            for ns, name in sorted(names) if self.slices else ():
                self.endpoints(ns, name)

    def kubelet(self, ns, name):
        with self.store.lock:
            record = self.store.objects[self.PODS].get((ns, name))
            if record is None or not record.obj["spec"].get("nodeName"):
                return
            pod = copy.deepcopy(record.obj)
            if "deletionTimestamp" in pod["metadata"]:
                self.store.remove(self.PODS, ns, name)
                return
            address = (pod["metadata"].get("annotations") or {}).get(POD_IP)
            if pod["status"]["phase"] != "Pending" or not address:
                return
            node = self.store.objects["", "nodes"].get(("", pod["spec"]["nodeName"]))
            host = next((a["address"] for a in node.obj["status"]["addresses"] if a["type"] == "InternalIP"), "") if node else ""
            pod["status"].update(phase="Running", hostIP=host, hostIPs=[{"ip": host}], podIP=address,
                                 podIPs=[{"ip": address}], startTime=now(),
                                 conditions=[{"type": "Ready", "status": "True", "lastTransitionTime": now()}])
            self.store.put(self.PODS, pod)

    def endpoints(self, ns, name):
        """One slice for each set of resolved ports; one without endpoints when no pod is there."""
        with self.store.lock:
            service = self.store.objects[self.SERVICES].get((ns, name))
            old = {k[1]: r for k, r in self.store.objects[self.SLICES].items() if k[0] == ns and r.obj["metadata"].get(
                "labels", {}).get("endpointslice.kubernetes.io/managed-by") == "endpointslice-controller.k8s.io" and
                r.obj["metadata"]["labels"]["kubernetes.io/service-name"] == name}
            wanted = self.slices_of(service.obj) if service else []
            for i, (ports, endpoints) in enumerate(wanted):
                labels = dict(service.obj["metadata"].get("labels") or {})
                labels.update({"kubernetes.io/service-name": name,
                               "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"})
                meta = {"name": f"{name}-{i}", "namespace": ns, "labels": labels}
                if f"{name}-{i}" in old:
                    kept = old.pop(f"{name}-{i}").obj["metadata"]
                    meta.update({k: kept[k] for k in ("uid", "creationTimestamp")})
                self.store.put(self.SLICES, {"metadata": meta, "addressType": "IPv4", "endpoints": endpoints, "ports": ports})
            for gone in old:
                self.store.remove(self.SLICES, ns, gone)

    def slices_of(self, service):
        spec = service["spec"]
        if not spec.get("selector"):
            return []
        groups = {}
        for record in self.store.objects[self.PODS].values():
            labels = record.obj["metadata"].get("labels") or {}
            if record.ns != service["metadata"]["namespace"] or not record.obj["status"].get("podIP") or \
                    record.obj["status"]["phase"] in ("Succeeded", "Failed") or \
                    any(labels.get(k) != v for k, v in spec["selector"].items()):
                continue
            ports = [{"name": p.get("name", ""), "protocol": p["protocol"], "port": n}
                     for p in spec.get("ports") or [] if (n := self.port_of(record.obj, p))]
            ends = "deletionTimestamp" in record.obj["metadata"]
            groups.setdefault(tuple((p["name"], p["protocol"], p["port"]) for p in ports), (ports, []))[1].append(
                {"addresses": [record.obj["status"]["podIP"]],
                 "conditions": {"ready": not ends, "serving": True, "terminating": ends},
                 "targetRef": {"kind": "Pod", "namespace": record.ns, "name": record.name,
                               "uid": record.obj["metadata"]["uid"]},
                 "nodeName": record.obj["spec"].get("nodeName")})
        return [groups[k] for k in sorted(groups)] or [(None, None)]

    @staticmethod
    def port_of(pod, port):
        if isinstance(port["targetPort"], int):
            return port["targetPort"]
        return next((p["containerPort"] for c in pod["spec"]["containers"] for p in c.get("ports") or []
                     if p.get("name") == port["targetPort"] and p["protocol"] == port["protocol"]), None)


def bulk(store, services, endpoints, pods, prefix="bulk"):
    """So many Services with so many endpoints each over so many pods, without controllers."""
    with store.lock:
        hooks, store.hooks = store.hooks, []
        for i in range(pods):
            node, name = f"node-{i % 100}", f"{prefix}-pod-{i}"
            store.put(("", "pods"), {
                "metadata": {"name": name, "namespace": "default", "labels": {"app": f"{prefix}-{i}", "pod-template-hash": "5d59d67564"},
                             "managedFields": [{"manager": "kubelet", "operation": "Update", "apiVersion": "v1", "time": now(),
                                                "fieldsType": "FieldsV1", "fieldsV1": {"f:status": {f"f:{n}": {} for n in range(60)}}}]},
                "spec": {"nodeName": node, "containers": [{"name": "main", "image": "registry.example/app:1", "ports": [
                    {"name": "http", "containerPort": 8080, "hostPort": 20000 + i % 30000, "protocol": "TCP"}]}],
                    "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}]},
                "status": {"phase": "Running", "hostIP": f"192.0.2.{i % 100 + 100}", "podIP": f"10.{i >> 16}.{i >> 8 & 255}.{i & 255}",
                           "conditions": [{"type": "Ready", "status": "True"}]}})
        for i in range(services):
            name = f"{prefix}-{i}"
            store.put(("", "services"), prepare(store, ("", "services"), {
                "metadata": {"name": name, "namespace": "default"}, "spec": {"selector": {"app": name}, "ports": [
                    {"name": "http", "port": 80, "targetPort": 8080}]}}))
            members = [(i * endpoints + e) % max(pods, 1) for e in range(endpoints)]
            store.put(("discovery.k8s.io", "endpointslices"), {
                "metadata": {"name": f"{name}-x", "namespace": "default", "labels": {"kubernetes.io/service-name": name}},
                "addressType": "IPv4", "ports": [{"name": "http", "protocol": "TCP", "port": 8080}],
                "endpoints": [{"addresses": [f"10.{p >> 16}.{p >> 8 & 255}.{p & 255}"], "nodeName": f"node-{p % 100}",
                               "conditions": {"ready": True, "serving": True, "terminating": False},
                               "targetRef": {"kind": "Pod", "namespace": "default", "name": f"{prefix}-pod-{p}"}} for p in members]})
        store.hooks = hooks


class Churn(threading.Thread):
    """Changes a second to what `bulk` made, in steps of 10 ms: mostly an endpoint that becomes ready or no longer is, in its slice and its
    Pod; every 10th a Service's port, every 50th a Service that is removed with its slice or comes back."""
    STEP_S = 0.01
    PODS, SERVICES, SLICES = ("", "pods"), ("", "services"), ("discovery.k8s.io", "endpointslices")

    def __init__(self, store, rate, seconds, seed=1, prefix="bulk"):
        super().__init__(daemon=True)
        self.store, self.rate, self.seconds, self.random = store, rate, seconds, random.Random(seed)
        self.prefix, self.done, self.took, self.gone = prefix, 0, 0.0, []
        with store.lock:
            self.names = sorted(name for _, name in store.objects[self.SERVICES] if name.startswith(prefix + "-"))

    def run(self):
        began, total = time.monotonic(), int(self.rate * self.seconds)
        while self.done < total:
            due = min(total, int((time.monotonic() - began) * self.rate) + 1)
            with self.store.lock:
                hooks, self.store.hooks = self.store.hooks, []  # no controller changes it back
                while self.done < due:
                    self.done += 1
                    self.change(self.done)
                self.store.hooks = hooks
            time.sleep(self.STEP_S)
        with self.store.lock:
            hooks, self.store.hooks = self.store.hooks, []
            while self.gone:
                self.back()
            self.store.hooks = hooks
        self.took = time.monotonic() - began

    def change(self, n):
        name = self.random.choice(self.names)
        service = self.store.objects[self.SERVICES].get(("default", name))
        if service is None:
            return self.back()
        if n % 50 == 0:
            self.gone.append([self.store.remove(r, "default", k).obj for r, k in ((self.SERVICES, name), (self.SLICES, name + "-x"))])
        elif n % 10 == 0:
            spec, (port, *more) = service.obj["spec"], service.obj["spec"]["ports"]
            self.put(self.SERVICES, service.obj, spec=dict(spec, ports=[dict(port, port=80 + (port["port"] - 79) % 10), *more]))
        else:
            self.flip(self.store.objects[self.SLICES]["default", name + "-x"].obj)
        return None

    def flip(self, obj):
        at = self.random.randrange(len(obj["endpoints"]))
        endpoint = obj["endpoints"][at]
        ready = not endpoint["conditions"]["ready"]
        changed = dict(endpoint, conditions={"ready": ready, "serving": ready, "terminating": False})
        self.put(self.SLICES, obj, endpoints=[*obj["endpoints"][:at], changed, *obj["endpoints"][at + 1:]])
        pod = self.store.objects[self.PODS].get(("default", endpoint["targetRef"]["name"]))
        if pod:
            self.put(self.PODS, pod.obj, status=dict(pod.obj["status"], conditions=[{"type": "Ready", "status": str(ready)}]))

    def back(self):
        if self.gone:
            for resource, obj in zip((self.SERVICES, self.SLICES), self.gone.pop(0)):
                self.put(resource, obj)

    def put(self, resource, obj, **parts):
        self.store.put(resource, dict(obj, metadata=dict(obj["metadata"]), **parts))

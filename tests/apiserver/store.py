"""Objects over revisions, as etcd and the API server's watch cache keep them: one counter for all kinds, a log of changes
that watches are served from, snapshots that pages of a list are served from, and compaction, which ends both.

Threads: every function locks; watchers wait on `changed`.
"""
import base64
import bisect
import copy
import itertools
import json
import threading
import time
import uuid

LISTED = {  # (group, resource): (kind, namespaced)
    ("", "services"): ("Service", True), ("", "pods"): ("Pod", True), ("", "endpoints"): ("Endpoints", True),
    ("", "nodes"): ("Node", False), ("", "namespaces"): ("Namespace", False), ("", "events"): ("Event", True),
    ("", "configmaps"): ("ConfigMap", True), ("", "secrets"): ("Secret", True),
    ("discovery.k8s.io", "endpointslices"): ("EndpointSlice", True),
    ("certificates.k8s.io", "certificatesigningrequests"): ("CertificateSigningRequest", False),
    ("events.k8s.io", "events"): ("Event", True), ("coordination.k8s.io", "leases"): ("Lease", True),
    ("", "serviceaccounts"): ("ServiceAccount", True), ("apps", "deployments"): ("Deployment", True),
    ("apps", "daemonsets"): ("DaemonSet", True), ("policy", "poddisruptionbudgets"): ("PodDisruptionBudget", True),
    ("networking.k8s.io", "networkpolicies"): ("NetworkPolicy", True),
    ("rbac.authorization.k8s.io", "roles"): ("Role", True), ("rbac.authorization.k8s.io", "rolebindings"): ("RoleBinding", True),
    ("rbac.authorization.k8s.io", "clusterroles"): ("ClusterRole", False),
    ("rbac.authorization.k8s.io", "clusterrolebindings"): ("ClusterRoleBinding", False),
    ("networking.istio.io", "destinationrules"): ("DestinationRule", True),
    ("gateway.networking.k8s.io", "httproutes"): ("HTTPRoute", True), ("gateway.networking.k8s.io", "grpcroutes"): ("GRPCRoute", True),
    ("gateway.networking.k8s.io", "referencegrants"): ("ReferenceGrant", True),
    ("gateway.networking.k8s.io", "backendtlspolicies"): ("BackendTLSPolicy", True),
}
GATEWAY = "gateway.networking.k8s.io"
CUSTOM = {("networking.istio.io", "destinationrules"), *(r for r in LISTED if r[0] == GATEWAY)}  # only where their CRD is: absent at first
VERSIONS = {"networking.istio.io": "v1alpha3"}  # of groups that are not v1


def version(group):
    return VERSIONS.get(group, "v1")


def api_version(group):
    return f"{group}/{version(group)}" if group else "v1"


def compact_json(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def now():
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


class Refused(Exception):
    """A Status with this code."""

    def __init__(self, code, reason, message, **more):
        super().__init__(message)
        self.code, self.reason, self.message, self.more = code, reason, message, more


def qualified(resource):
    return f"{resource[1]}.{resource[0]}" if resource[0] else resource[1]


def details(resource, name):
    return {"name": name, **({"group": resource[0]} if resource[0] else {}), "kind": resource[1]}


class Record:
    """One state of one object; never changed, so that snapshots and watches share it."""

    def __init__(self, resource, obj):
        self.resource, self.obj = resource, obj
        meta = obj["metadata"]
        self.ns, self.name, self.rev = meta.get("namespace", ""), meta["name"], int(meta["resourceVersion"])
        self.key = f"/{self.ns}/{self.name}" if LISTED[resource][1] else f"/{self.name}"
        self._item = None

    @property
    def item(self):
        """As in a list: without kind and apiVersion."""
        if self._item is None:
            self._item = compact_json({k: v for k, v in self.obj.items() if k not in ("kind", "apiVersion")})
        return self._item

    @property
    def whole(self):
        kind, version = LISTED[self.resource][0], api_version(self.resource[0])
        return b'{"kind":"%s","apiVersion":"%s",' % (kind.encode(), version.encode()) + self.item[1:]


class Selector:
    """labelSelector and fieldSelector of a query."""
    FIELDS = {"metadata.name", "metadata.namespace", "spec.nodeName", "status.phase", "involvedObject.name",
              "involvedObject.namespace", "involvedObject.kind", "involvedObject.uid", "spec.signerName"}

    def __init__(self, labels="", fields=""):
        self.given = bool(labels or fields)
        self.labels = [self._label(p.strip()) for p in self._split(labels) if p.strip()]
        self.fields = [self._field(p) for p in fields.split(",") if p]

    @staticmethod
    def _split(text):
        parts, depth = [""], 0
        for c in text:
            depth += (c == "(") - (c == ")")
            if c == "," and depth == 0:
                parts.append("")
            else:
                parts[-1] += c
        return parts

    @staticmethod
    def _label(part):
        words = part.replace("(", " ( ").split()
        if len(words) > 2 and words[1] in ("in", "notin"):
            values = {v.strip() for v in part[part.index("(") + 1:part.rindex(")")].split(",")}
            return words[0], words[1], values
        for sign in ("!=", "==", "="):
            if sign in part:
                key, value = part.split(sign, 1)
                return key.strip(), "notin" if sign == "!=" else "in", {value.strip()}
        return (part[1:].strip(), "absent", None) if part.startswith("!") else (part, "there", None)

    def _field(self, part):
        for sign in ("!=", "==", "="):
            if sign in part:
                key, value = part.split(sign, 1)
                if key not in self.FIELDS:
                    raise Refused(400, "BadRequest", f'Unable to find "{key}" that match label selector "", field selector '
                                  f'"{part}": field label not supported: {key}')
                return key, sign == "!=", value
        raise Refused(400, "BadRequest", f"invalid selector: '{part}'; can't understand '{part}'")

    def takes(self, record):
        labels = record.obj["metadata"].get("labels") or {}
        for key, how, values in self.labels:
            value = labels.get(key)
            if how == "in" and value not in values or how == "notin" and value in values or \
                    how == "there" and value is None or how == "absent" and value is not None:
                return False
        for key, unequal, want in self.fields:
            value = record.obj
            for word in key.split("."):
                value = (value or {}).get(word)
            if ((value or "") == want) == unequal:
                return False
        return True


class Store:
    def __init__(self):
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.rev = 100
        self.objects = {r: {} for r in LISTED}
        self.log = []  # (rev, type, new or last record, record before or None)
        self.window = self.rev  # watches from before are 410
        self.compacted = 0  # pages of lists from before are 410
        self.snapshots = {}
        self.next_ip = 1
        self.hooks = []  # called with (type, record) after a change, locked

    # --- changes ------------------------------------------------------------------

    def _log(self, kind, record, before):
        self.log.append((self.rev, kind, record, before))
        for hook in self.hooks:
            hook(kind, record)
        self.changed.notify_all()

    def put(self, resource, obj, create=False):
        """Creates or replaces; returns the record. The caller has merged and checked."""
        with self.lock:
            meta = obj["metadata"]
            key = (meta.get("namespace", ""), meta["name"])
            before = self.objects[resource].get(key)
            if create and before is not None:
                raise Refused(409, "AlreadyExists", f'{qualified(resource)} "{key[1]}" already exists',
                              **details(resource, key[1]))
            if before is not None:
                same = dict(obj, metadata=dict(meta, resourceVersion=before.obj["metadata"]["resourceVersion"]))
                if same == before.obj:
                    return before
            self.rev += 1
            meta.setdefault("uid", str(uuid.uuid4()))
            meta.setdefault("creationTimestamp", now())
            meta["resourceVersion"] = str(self.rev)
            record = Record(resource, obj)
            self.objects[resource][key] = record
            self._log("ADDED" if before is None else "MODIFIED", record, before)
            return record

    def remove(self, resource, ns, name):
        """The last state, with the revision of the deletion."""
        with self.lock:
            before = self.objects[resource].pop((ns, name), None)
            if before is None:
                raise Refused(404, "NotFound", f'{qualified(resource)} "{name}" not found', **details(resource, name))
            self.rev += 1
            obj = dict(before.obj, metadata=dict(before.obj["metadata"], resourceVersion=str(self.rev)))
            record = Record(resource, obj)
            self._log("DELETED", record, before)
            return record

    def get(self, resource, ns, name):
        with self.lock:
            record = self.objects[resource].get((ns, name))
            if record is None:
                raise Refused(404, "NotFound", f'{qualified(resource)} "{name}" not found', **details(resource, name))
            return record

    def copy(self, resource, ns, name):
        return copy.deepcopy(self.get(resource, ns, name).obj)

    def compact(self):
        """As after a compaction of etcd and a restart of the API server: history begins now."""
        with self.lock:
            self.window = self.compacted = self.rev
            self.log.clear()
            self.snapshots.clear()

    def put_back(self, revisions):
        """A backup from so many revisions ago was put back (objects stay: only the counter matters to a client)."""
        with self.lock:
            self.rev -= revisions
            self.window = self.compacted = self.rev
            self.log.clear()
            self.snapshots.clear()

    # --- lists ----------------------------------------------------------------------

    @staticmethod
    def token(rev, start):
        text = '{"v":"meta.k8s.io/v1","rv":%d,"start":%s}' % (rev, json.dumps(start))
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")

    @staticmethod
    def read_token(token):
        try:
            value = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
            return value["rv"], value["start"]
        except ValueError:
            raise Refused(400, "BadRequest", "invalid continue token: continue key is not valid: invalid character "
                          "'\u00cf' looking for beginning of value") from None

    def _records(self, resource, ns, rev):
        """All of the resource at a revision, sorted by key; the newest are kept for pages."""
        if (resource, rev) not in self.snapshots:
            rev = self.rev
            if len(self.snapshots) > 64:
                self.snapshots.clear()
            self.snapshots[resource, rev] = sorted(self.objects[resource].values(), key=lambda r: r.key)
        return [r for r in self.snapshots[resource, rev] if r.ns == ns] if ns else self.snapshots[resource, rev]

    def list(self, resource, ns, selector, limit=0, token="", version="", match=""):
        """(revision, records, continue, remaining)"""
        with self.lock:
            start, rev = "", self.rev
            if version not in ("", "0") and int(version) > self.rev:
                raise Refused(504, "Timeout", f"Timeout: Too large resource version: {version}, current: {self.rev}",
                              causes=[{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
                              retryAfterSeconds=1)
            if match == "Exact" and int(version) < self.compacted:
                raise Refused(410, "Expired", "The resourceVersion for the provided list is too old.")
            if token:
                rev, start = self.read_token(token)
                if rev == -1:
                    rev = self.rev
                elif rev < self.compacted or (rev != self.rev and (resource, rev) not in self.snapshots):
                    raise Refused(410, "Expired", "The provided continue parameter is too old to display a consistent list "
                                  "result. You can start a new list without the continue parameter, or use the continue "
                                  "token in this response to retrieve the remainder of the results. Continuing with the "
                                  "provided token results in an inconsistent list - objects that were created, modified, "
                                  "or deleted between the time the first chunk was returned and now may show up in the "
                                  "list.", again=self.token(-1, start.lstrip("/")))
            records = self._records(resource, ns, rev)
            cut = len(f"/{ns}") if ns and LISTED[resource][1] else 0
            at = bisect.bisect_left(records, start, key=lambda r: r.key[cut:]) if start else 0
            if not limit or version == "0":
                return rev, [r for r in records[at:] if selector.takes(r)], "", 0
            found = list(itertools.islice(filter(selector.takes, itertools.islice(records, at, None)), limit + 1))
            if len(found) <= limit:
                return rev, found, "", 0
            return rev, found[:limit], self.token(rev, found[limit - 1].key[cut:] + "\0"), len(records) - at - limit

    # --- watches --------------------------------------------------------------------

    def first_events(self, resource, ns, selector):
        with self.lock:
            return self.rev, [r for r in self._records(resource, ns, self.rev) if selector.takes(r)]

    def place(self, version):
        """Index into the log of what came after the version; None: too old."""
        with self.lock:
            if version < self.window:
                return None
            low, high = 0, len(self.log)
            while low < high:
                middle = (low + high) // 2
                if self.log[middle][0] <= version:
                    low = middle + 1
                else:
                    high = middle
            return low

    @staticmethod
    def seen_as(event, resource, ns, selector):
        """(type, record) as a watch with a selector sees it; None: not at all."""
        _, kind, record, before = event
        if record.resource != resource or ns and record.ns != ns:
            return None
        is_in = kind != "DELETED" and selector.takes(record)
        was_in = before is not None and selector.takes(before)
        if is_in:
            return ("MODIFIED" if was_in else "ADDED"), record
        if not was_in:
            return None
        if kind == "DELETED":
            return "DELETED", record
        left = dict(before.obj, metadata=dict(before.obj["metadata"], resourceVersion=str(record.rev)))
        return "DELETED", Record(resource, left)

"""What kubectl makes of deploy/kubernetes, and its pods run here: the container's mounts, user, capabilities, environment and
command as the manifest has them, in the image's root (deploy/image-root) with what a kubelet adds, which is read-only.

    objects = render()
    pod = Container(machine, find(objects, "Deployment", "edgeway-hub"), objects, api)
    pod.probe("readinessProbe")
"""
import atexit
import base64
import functools
import json
import os
import re
import shutil
import subprocess
import tempfile

import yaml

from lab import TOP, AdminSocket

FOLDER = os.path.join(TOP, "deploy", "kubernetes")
HUB_NAME = "hub.example.org"
PROGRAMS = {"edgeway-agent": "usr/sbin", "edgeway-hub": "usr/sbin", "edgewayctl": "usr/bin"}
ACCOUNT_FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount"
ROOT = """
set -e
mount -t tmpfs none {root}
cp -a {image}/. {root}
for d in proc sys dev; do mkdir {root}/$d; mount --rbind /$d {root}/$d; done
cp /etc/hosts {root}/etc
echo nameserver 192.0.2.53 > {root}/etc/resolv.conf
{mounts}
mount -o remount,ro,bind {root}
mount --bind /proc/sys {root}/proc/sys
mount -o remount,ro,bind {root}/proc/sys
exec capsh --chroot={root} {privileges} --shell={program} -- {options}
"""


def kubectl(*argv, **more):
    return subprocess.run([shutil.which("kubectl"), *argv], check=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=60, **more).stdout


@functools.lru_cache()
def image_root(build):
    """A folder that holds what the image does, with the programs of this build."""
    folder = tempfile.mkdtemp(prefix="edgeway-image-")
    atexit.register(shutil.rmtree, folder)
    installed, root = os.path.join(folder, "installed"), os.path.join(folder, "root")
    for program, where in PROGRAMS.items():
        os.makedirs(os.path.join(installed, where), exist_ok=True)
        shutil.copy(os.path.join(build, program), os.path.join(installed, where))
    subprocess.run([os.path.join(TOP, "deploy", "image-root"), installed, root], check=True, timeout=600)
    return root


@functools.lru_cache()
def all_capabilities():
    with open("/proc/sys/kernel/cap_last_cap") as f:
        every = (2 << int(f.read())) - 1
    return subprocess.run(["capsh", f"--decode={every:x}"], check=True, text=True, stdout=subprocess.PIPE).stdout.strip().partition("=")[2].split(",")


def render(folder=FOLDER, hub=HUB_NAME):
    """hub: what is filled in as the name by which nodes find the hub."""
    objects = list(yaml.safe_load_all(kubectl("kustomize", folder)))
    for data in (o["data"] for o in objects if o["kind"] == "ConfigMap"):
        for key, sample, value in (("agent.yaml", '  url: ""', f'  url: "wss://{hub}:10000"'), ("hub.yaml", "  names: []", f"  names: [{hub}]")):
            if key in data:
                assert f"{sample} # to be filled in: " in data[key]
                data[key] = data[key].replace(sample, value)
    return objects


def on_control_plane_hosts(folder):
    """The lines for redirect.yaml in a copy of FOLDER, a Path, as their comment says."""
    path = folder / "kustomization.yaml"
    text, n = re.subn(r"^# (?=patches:|  - \{)", "", path.read_text(), flags=re.M)
    assert n == 3, "the lines for redirect.yaml"
    path.write_text(text)


def find(objects, kind, name):
    found = [o for o in objects if o["kind"] == kind and o["metadata"]["name"] == name]
    assert len(found) == 1, (kind, name)
    return found[0]


def pod_of(workload):
    return workload["spec"]["template"]["spec"]


class Container(AdminSocket):
    def __init__(self, machine, workload, objects, api, host="", env=None):
        """host: folder that stands for what the node has at hostPath, but for /etc, which is the machine's."""
        self.machine, self.objects, self.api, self.host = machine, objects, api, host
        self.name = workload["metadata"]["name"]
        self.pod = pod_of(workload)
        self.spec = self.pod["containers"][0]
        self.dir = os.path.join(machine.dir, self.name)
        self.root = os.path.join(self.dir, "root")
        os.makedirs(self.root)
        self.env = {"PATH": "/usr/sbin:/usr/bin", **(env or {})}
        self.socket = os.path.join(self.source_of("run"), "agent.sock" if "agent" in self.name else "hub.sock")

    def volume(self, name):
        return next(v for v in self.pod["volumes"] if v["name"] == name)

    def source_of(self, name):
        """The folder on this side that is mounted for a volume."""
        volume = self.volume(name)
        if "hostPath" in volume:
            path = volume["hostPath"]["path"]
            folder = os.path.join(self.machine.dir, "etc") if path == "/etc" else self.host + path
            assert volume["hostPath"]["type"] == "DirectoryOrCreate" or os.path.isdir(folder)
        else:
            folder = os.path.join(self.dir, name)
        os.makedirs(folder, exist_ok=True)
        if "configMap" in volume:
            for key, text in find(self.objects, "ConfigMap", volume["configMap"]["name"])["data"].items():
                with open(os.path.join(folder, key), "w") as f:
                    f.write(text)
        elif "secret" in volume:
            self.write_secret(folder, volume["secret"])
        elif "emptyDir" in volume:
            os.chown(folder, 0, self.pod["securityContext"]["fsGroup"])
            os.chmod(folder, 0o2777)
        return folder

    def account(self, token, namespace):
        """The service account's folder, unless the pod wants none."""
        assert self.pod.get("automountServiceAccountToken", True)
        folder = os.path.join(self.dir, "account")
        os.makedirs(folder)
        shutil.copy(os.path.join(self.api.dir, "ca.crt"), folder)
        for name, text in (("token", token), ("namespace", namespace)):
            with open(os.path.join(folder, name), "w") as f:
                f.write(text)
        self.accounts = folder

    accounts = None

    def mounts(self):
        wanted = [(self.source_of(m["name"]), m["mountPath"], m.get("readOnly", False)) for m in self.spec["volumeMounts"]]
        if self.accounts:
            wanted.append((self.accounts, ACCOUNT_FOLDER, True))
        lines = []
        for source, path, read_only in wanted:
            lines.append(f"mkdir -p {self.root}{path} && mount --bind {source} {self.root}{path}")
            if read_only:
                lines.append(f"mount -o remount,ro,bind {self.root}{path}")
        return "\n".join(lines)

    def privileges(self):
        own, pod = self.spec["securityContext"], self.pod.get("securityContext", {})
        assert own["capabilities"]["drop"] == ["ALL"] and own["readOnlyRootFilesystem"] and not own["allowPrivilegeEscalation"]
        kept = {"cap_" + c.lower() for c in own["capabilities"].get("add", [])}
        user = own.get("runAsUser", pod.get("runAsUser"))
        group = own.get("runAsGroup", pod.get("runAsGroup"))
        groups = pod.get("fsGroup", "")
        return (f"--no-new-privs --drop={','.join(c for c in all_capabilities() if c not in kept)} --inh= --gid={group} --groups={groups} "
                f"--uid={user}")

    def variables(self):
        assert self.pod["enableServiceLinks"] is False
        made = dict(self.env)
        for e in self.spec.get("env", []):
            assert "value" in e or e["valueFrom"]["fieldRef"]["fieldPath"] == "spec.nodeName"
            made[e["name"]] = e.get("value", self.machine.name)
        return made

    def write_secret(self, folder, volume):
        """As the kubelet does; defaultMode is for its owner."""
        data = json.loads(self.api.kubectl("get", "secret", "-n", "edgeway", volume["secretName"], "-o", "json"))["data"]
        for key, text in data.items():
            path = os.path.join(folder, key)
            with open(path, "wb") as f:
                f.write(base64.b64decode(text))
            os.chmod(path, volume["defaultMode"])

    def start(self):
        program, *options = self.spec["command"]
        script = ROOT.format(root=self.root, image=image_root(self.machine.lab.build), mounts=self.mounts(), privileges=self.privileges(),
                             program=f"/{PROGRAMS[program]}/{program}", options=" ".join(options))
        self.process = self.machine.start(self.name, "unshare", "--mount", "--propagation", "private", "sh", "-c", script,
                                          env=self.variables())

    def probe(self, name):
        """Does the kubelet see 200, or the command succeed? From the node for its host network, else at the pod's address."""
        if "exec" in self.spec[name]:
            command = self.spec[name]["exec"]["command"]
            program = self.machine.lab.program(command[0])
            return self.machine.run(program, "--socket", self.socket, *command[1:], check=False).returncode == 0
        get = self.spec[name]["httpGet"]
        port = get["port"] if isinstance(get["port"], int) else next(
            p["containerPort"] for p in self.spec["ports"] if p["name"] == get["port"])
        return self.machine.get(f"http://{get.get('host', self.machine.address)}:{port}{get['path']}")[0] == 200

    def alive(self):
        return self.process.alive()

    def token(self, *options):
        p = self.machine.run(self.machine.lab.program("edgewayctl"), "--socket", self.socket, "token", "create", *options)
        return p.stdout.strip().splitlines()[-1]


def rules(objects):
    """{(verb, group, resource, name or "", namespace or "")} that all roles give together."""
    return {(verb, group, resource, name, o["metadata"].get("namespace", "")) for o in objects if o["kind"] in ("Role", "ClusterRole")
            for rule in o["rules"] for verb in rule["verbs"] for group in rule["apiGroups"] for resource in rule["resources"]
            for name in rule.get("resourceNames", [""])}



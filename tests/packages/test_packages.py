"""Debian packages of this source: built, without complaint of lintian, installed in a clean Debian where the agent and the
hub do their job, and removed again without a trace. Root; top_builddir names the configured build.
"""
import glob
import gzip
import hashlib
import json
import os
import re
import shutil
import subprocess
import time

import pytest

from tree import INSIDE, QUICKLY, run

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PACKAGES = ["edgeway-agent", "edgeway-ctl", "edgeway-hub"]
# A network of the command's own, with docker0 as Docker makes it, and nobody to serve there but us.
APART_NETWORK = ["unshare", "--net", "--mount", "--propagation", "private", "sh", "-c", "ip link set lo up && ip link add docker0 type bridge && "
                 'ip addr add 172.17.0.1/16 dev docker0 && ip link set docker0 up && exec "$0" "$@"']


@pytest.fixture(scope="module")
def installed(folder, clean):
    """The tree with all three packages, and what was in it before, their dependencies counted in."""
    tree = clean.result()
    os.mkdir(tree.path("/packages"))
    for p in debs(folder):
        shutil.copy(p, tree.path("/packages"))
    tree.run("apt-get", "update", "-q", seconds=120)
    tree.run("sh", "-c", "apt-get install -q -y --no-install-recommends /packages/*.deb", seconds=240)
    shutil.rmtree(tree.path("/packages"))
    return tree


def debs(folder):
    return sorted(glob.glob(os.path.join(folder, "edgeway*.deb")))


def test_packages_are_complete(folder):
    names = [os.path.basename(p).split("_")[0] for p in debs(folder)]
    assert names == PACKAGES


def test_tarball_has_all_sources(folder):
    """What is not in it is in no package: a maintainer's script, once. (The chart's link is a folder there.)"""
    if not os.path.exists(os.path.join(TOP, ".git")):
        pytest.skip("no repository here")
    [tarball] = glob.glob(f"{folder}/*.orig.tar.xz")
    there = {line.partition("/")[2] for line in run(["tar", "-tf", tarball], 60)[1].splitlines()}
    ours = run(["git", "-c", "safe.directory=*", "-C", TOP, "ls-files"], 60)[1].splitlines()
    missing = [p for p in ours if p not in there and not p.startswith((".", "deploy/helm/edgeway/kubernetes"))]
    assert len(ours) > 100 and missing == []


def test_the_same_tarball_gives_the_same_packages(folder, tmp_path):
    """Compiled anew in another folder, at another hour, in another zone, language and umask."""
    [tarball] = glob.glob(os.path.join(folder, "edgeway_*.orig.tar.xz"))
    version = re.search(r"_(.*)[.]orig", tarball).group(1)
    shutil.copy(tarball, tmp_path / f"edgeway-{version}.tar.xz")
    env = {**os.environ, **QUICKLY, "TZ": "Pacific/Kiritimati", "LC_ALL": "C", "HOME": "/nonexistent", "USER": "nobody"}
    run(["sh", "-c", 'umask 027; exec "$@"', "sh", os.path.join(TOP, "deploy", "make-packages"), str(tmp_path / f"edgeway-{version}.tar.xz"),
         str(tmp_path / "elsewhere" / "packages")], 600, env=env)

    def digests(where):
        return {os.path.basename(p): hashlib.sha256(open(p, "rb").read()).hexdigest() for p in debs(where)}
    assert len(digests(folder)) == len(PACKAGES) and digests(tmp_path / "elsewhere" / "packages") == digests(folder)


def test_lintian_has_nothing_to_say(folder):
    """Errors and warnings, each override with its reason beside it."""
    status, out = run(["lintian", "--allow-root", "--fail-on", "error,warning", *glob.glob(f"{folder}/*.changes")],
                      120, check=False)
    assert status == 0 and not re.search(r"^[EW]: ", out, re.M), out
    for path in glob.glob(os.path.join(TOP, "deploy/debian/*.lintian-overrides")):
        with open(path) as f:
            lines = f.read().splitlines()
        for reason, override in zip(["", *lines], lines):
            assert override.startswith("#") or reason.startswith("# "), f"{path}: no reason for {override}"


def test_programs_manuals_and_completion(installed):
    for program in ("edgeway-agent", "edgeway-hub", "edgewayctl"):
        assert re.search(r"\d+\.\d+\.\d+", installed.run(program, "--version")[1])
    for path in ("/usr/share/man/man8/edgeway-agent.8.gz", "/usr/share/man/man8/edgeway-hub.8.gz",
                 "/usr/share/man/man8/edgewayctl.8.gz", "/usr/share/man/man7/edgeway-metrics.7.gz",
                 "/usr/share/man/man7/edgeway-protocol.7.gz", "/usr/share/bash-completion/completions/edgewayctl",
                 "/usr/share/zsh/vendor-completions/_edgewayctl", "/etc/edgeway/agent.yaml", "/etc/edgeway/hub.yaml"):
        assert os.path.getsize(installed.path(path)) > 0
    assert os.stat(installed.path("/etc/edgeway/agent.yaml")).st_mode & 0o777 == 0o640
    assert re.search(r"^edgeway-hub:", open(installed.path("/etc/passwd")).read(), re.M)


@pytest.mark.parametrize("place", ["/etc/edgeway", "/usr/share/doc/edgeway-hub/examples/kubernetes/config"])
@pytest.mark.parametrize("program,key,value", [("agent", "url", "wss://hub:10000"), ("hub", "names", "[hub]")])
def test_samples_need_one_value(installed, place, program, key, value):
    """It is named at its place, and what is not set is told with that place: no sample leads to a hub that is not the reader's."""
    path = f"{place}/{program}.yaml"
    with open(installed.path(path)) as f:
        text = f.read()
    assert "example" not in text.replace("nodes.example\n", "")
    [line] = [n for n, content in enumerate(text.splitlines(), 1) if "# to be filled in: " in content]
    assert re.match(rf"  {key}: (\"\"|\[\]) #", text.splitlines()[line - 1])
    status, out = installed.run(f"edgeway-{program}", "--config", path, "--check", check=False)
    if program == "agent":  # a hub without a name is one by its addresses
        assert status == 2 and f"{path}:{line}: hub.url: is not set: " in out and "wss://HOST:10000" in out
        status, out = installed.run("edgeway-agent", "--config", path, check=False)
        assert status == 2 and f"{path}:{line}: hub.url: is not set: " in out
    filled = re.sub(rf"^(  {key}: )\S+", lambda m: m.group(1) + value, text, flags=re.M)
    with open(installed.path("/root/filled.yaml"), "w") as f:
        f.write(filled)
    assert "the configuration is fine" in installed.run(f"edgeway-{program}", "--config", "/root/filled.yaml", "--check")[1]


def references(path, text):
    """What an installed text names of ours, as paths of the machine."""
    documents = "/usr/share/doc/edgeway-ctl"
    text = text.replace("\\-", "-")
    for name, section in re.findall(r"\b(edgeway[a-z.-]*) ?\(([578])\)", text):
        yield f"/usr/share/man/man{section}/{name}.{section}.gz"
    if path.startswith(documents):
        for link in re.findall(r"\]\(([^)#:]+)[)#]", text):
            yield os.path.normpath(os.path.join(os.path.dirname(path), link))
    for name in re.findall(r"\b(?:doc|bench)/\w[\w-]*\.(?:md|svg)|\b(?:SECURITY|HACKING|CONTRIBUTING|README)\.md", text):
        yield f"{documents}/{name}"
    for name in re.findall(r"\bdeploy/((?:kubernetes|helm)[\w/.*-]*\w)", text):
        yield f"/usr/share/doc/edgeway-hub/examples/{name}"
    yield from re.findall(r"/usr/share/doc/edgeway[\w./-]*\w", text)


def test_all_forms_of_a_reference_are_found():
    """As manual pages, documents and messages write them."""
    def named(text, path="/usr/share/man/man8/edgeway-agent.8.gz"):
        return list(references(path, text))
    at = "/usr/share/doc/edgeway-agent/operations.md"
    assert named(".IR /usr/share/doc/edgeway\\-agent/operations.md .\n") == [at] == named(f"({at}, DNS on the node)") == named(f"{at}.")
    assert named("edgeway\\-hub(8)") == ["/usr/share/man/man8/edgeway-hub.8.gz"]
    assert named("see doc/security.md.") == ["/usr/share/doc/edgeway-ctl/doc/security.md"]
    assert named("deploy/kubernetes/agent.yaml") == ["/usr/share/doc/edgeway-hub/examples/kubernetes/agent.yaml"]
    assert named("[x](operations.md#start)", "/usr/share/doc/edgeway-ctl/doc/x.md") == ["/usr/share/doc/edgeway-ctl/doc/operations.md"]
    assert named("[x](operations.md)") == []


def test_what_is_named_is_installed(installed):
    """Manual pages, documents, manifests: in units, configurations, manuals, documents, the programs' messages."""
    listed = installed.run("dpkg-query", "-L", *PACKAGES)[1].split("\n")
    missing, found = set(), 0
    for path in {p for p in listed if os.path.isfile(installed.path(p)) and "changelog" not in p and not p.endswith(".json")}:
        with (gzip.open if path.endswith(".gz") else open)(installed.path(path), "rb") as f:
            for named in references(path, f.read().decode(errors="replace")):
                found += 1
                if not glob.glob(installed.path(named)):
                    missing.add((path, named))
    assert found > 100 and missing == set()


@pytest.mark.parametrize("package,program,licence", [("edgeway-agent", "/usr/sbin/edgeway-agent", "GPL-3.0-or-later"),
                                                     ("edgeway-hub", "/usr/sbin/edgeway-hub", "GPL-3.0-or-later"),
                                                     ("edgeway-ctl", "/usr/bin/edgewayctl", "Apache-2.0")])
def test_sbom(installed, package, program, licence):
    """Of the file that is installed, and its libraries are the packages that were installed with it."""
    with open(installed.path(f"/usr/share/doc/{package}/{package}.spdx.json")) as f:
        said = {p["name"]: p for p in json.load(f)["packages"]}
    with open(installed.path(program), "rb") as f:
        digest = hashlib.sha256(f.read()).hexdigest()
    ours = said[os.path.basename(program)]
    assert (ours["checksums"][0]["checksumValue"], ours["licenseDeclared"]) == (digest, licence)
    there = dict(line.split() for line in installed.run("dpkg-query", "-W", "-f", "${Package} ${Version}\n")[1].splitlines())
    libraries = [n for n, p in said.items() if p.get("sourceInfo", "").startswith("built from")]
    assert len(libraries) > 2 and "libcjson1" in libraries and [n for n in libraries if n not in there] == []


@pytest.mark.parametrize("name,exposure", [("edgeway-agent", 3.5), ("edgeway-hub", 2.0)])
def test_units(installed, name, exposure):
    """systemd's own opinion of them. What they may do at most is written here, so that nobody widens it by accident."""
    [unit] = [p for p in (installed.path(f"{d}/systemd/system/{name}.service") for d in ("/lib", "/usr/lib"))
              if os.path.exists(p)][:1]
    root = f"--root={installed.root}"
    status, out = run(["systemd-analyze", "verify", "--man=no", root, f"{name}.service"], 60, check=False)
    assert not re.search(rf"{name}|Unknown|fail|not executable", out), out
    out = run(["systemd-analyze", "security", "--offline=true", "--no-pager", unit], 60)[1]
    assert float(re.search(r"exposure level.*: ([\d.]+)", out).group(1)) <= exposure, out
    text = open(unit).read()
    assert "Type=notify" in text and "WatchdogSec=" in text
    if name == "edgeway-agent":
        assert "Before=docker.service kubelet.service edgecore.service" in text
    assert not glob.glob(installed.path("/etc/systemd/system/*/edgeway*")), "started before it is configured"


def answers(tree, pid):
    """Does edgewayctl of the tree, in the network and the tree of that process, get an answer of a daemon that serves?"""
    status, out = run(["nsenter", "-t", str(pid), "--net", "--mount", "chroot", tree.root, "edgewayctl", "-o", "json", "status"], 20, check=False)
    return status == 0 and '"program"' in out


def test_agent_that_was_killed_is_undone_when_removed(installed):
    """It runs in the tree with its sample configuration and a hub that is away, changes resolv.conf, is killed; apt-get remove undoes that."""
    resolv = installed.path("/etc/resolv.conf")
    if os.path.islink(resolv):
        os.unlink(resolv)
    with open(resolv, "wb") as f:
        f.write(b"# of the machine\nnameserver 192.0.2.53\n")
    os.makedirs(installed.path("/run/edgeway"), exist_ok=True)
    agent = subprocess.Popen([*APART_NETWORK, "sh", "-c", INSIDE, installed.root, "edgeway-agent", "--config",
                              "/etc/edgeway/agent.yaml", "--hub.url", "wss://192.0.2.1:10000"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 60
        while not (answers(installed, agent.pid) and b"172.17.0.1" in open(resolv, "rb").read()):
            assert agent.poll() is None and time.monotonic() < end, "the agent does not serve"
            time.sleep(0.05)
    finally:
        agent.kill()
        agent.wait()
    assert b"172.17.0.1" in open(resolv, "rb").read()
    installed.run("apt-get", "remove", "-q", "-y", "edgeway-agent", seconds=120, before=APART_NETWORK)
    assert open(resolv, "rb").read() == b"# of the machine\nnameserver 192.0.2.53\n"
    assert os.path.exists(installed.path("/etc/edgeway/agent.yaml"))  # until it is purged
    assert os.path.isdir(installed.path("/var/lib/edgeway"))


def test_purge_leaves_nothing(installed):
    """Of all that a package brought or a daemon made; libraries stay, and as Debian has it, the hub's user."""
    installed.run("sh", "-c", "mkdir -p /var/lib/edgeway-hub && touch /var/lib/edgeway-hub/ca.pem")
    installed.run("sh", "-c", "rm -rf /run/edgeway; apt-get purge -q -y 'edgeway-*'", seconds=120, before=APART_NETWORK)
    left = {p for p in installed.files() if "edgeway" in p}
    assert not left, sorted(left)
    assert "edgeway" not in installed.run("dpkg-query", "-W", "-f", "${Package} ${Status}\n")[1]

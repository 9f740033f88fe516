"""deploy/release: made twice of one commit with the same bytes, verified, and used by the commands of doc/releases.md: packages are installed by apt in a
clean Debian, image and chart go through a registry. For this machine's architecture; tests/run cross builds the packages of others, and
`make release` by hand makes all of them. Root; top_builddir names the configured build.
"""
import concurrent.futures
import fnmatch
import glob
import hashlib
import http.server
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

import pytest

from tree import QUICKLY, run

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("top_builddir") or os.path.join(TOP, "build", "gcc"))
sys.path.insert(0, os.path.join(TOP, "tests", "net"))

import helm  # noqa: E402

pytestmark = pytest.mark.skipif(not os.path.exists(os.path.join(TOP, ".git")), reason="a release is made of a commit, and there is no repository here")
ARCH = run(["dpkg", "--print-architecture"], 20)[1].strip()
AUTHOR = {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in
          {"NAME": "a", "EMAIL": "a@edgeway.invalid", "DATE": "2026-11-20T12:00:00Z"}.items()}
SIGNATURES = ("*.asc", "*/InRelease", "*.gpg")


def release(clone, *argv, seconds=1800, check=True, before=(), **env):
    return run([*before, os.path.join(clone, "deploy", "release"), *argv], seconds, check, env={**os.environ, **AUTHOR, **QUICKLY, **env})


def commit(clone):
    run(["sh", "-ec", 'cd "$0"; git init -q; git add -A; git commit -q --allow-empty -m release', clone], 60, env={**os.environ, **AUTHOR})


def edit(path, pattern, by):
    with open(path) as f:
        text, n = re.subn(pattern, by, f.read(), count=1)
    assert n == 1, f"{path}: no {pattern}"
    with open(path, "w") as f:
        f.write(text)


def clone_to(folder, is_final=True):
    """What is here, committed or not, as a commit of a repository of its own; is_final: to be released."""
    names = run(["git", "-c", "safe.directory=*", "-C", TOP, "ls-files", "-co", "--exclude-standard"], 60)[1].splitlines()
    os.makedirs(folder)
    there = "\n".join(n for n in names if os.path.lexists(os.path.join(TOP, n)))
    subprocess.run(["sh", "-ec", 'tar -C "$0" -T - -c | tar -C "$1" -x', TOP, folder], input=there, text=True, check=True, timeout=60)
    if is_final:
        edit(f"{folder}/deploy/debian/changelog", "UNRELEASED", "bookworm")
        edit(f"{folder}/NEWS", r"\(not released\)", "(2026-11-20)")
    commit(folder)
    return folder


@pytest.fixture(scope="module")
def place():
    """On the disk: a release builds in Debians of its own."""
    with tempfile.TemporaryDirectory(dir=BUILD, prefix="release-", ignore_cleanup_errors=True) as folder:
        yield folder


@pytest.fixture(scope="module")
def keys(place):
    """A folder of gpg's with a secret key, its fingerprint, and a file that has it."""
    with tempfile.TemporaryDirectory(prefix="gpg-", ignore_cleanup_errors=True) as home:  # its path is short, for gpg-agent's sockets
        gpg = ["gpg", "--homedir", home, "--batch", "--quiet"]
        run([*gpg, "--passphrase", "", "--quick-generate-key", "releases@edgeway.invalid", "ed25519", "sign", "never"], 60)
        fingerprint = re.search(r"^fpr:+(\w+):", run([*gpg, "--list-keys", "--with-colons"], 20)[1], re.M)[1]
        run([*gpg, "--armor", "--output", f"{place}/key", "--export-secret-keys"], 20)
        yield home, fingerprint, f"{place}/key"
        run(["gpgconf", "--homedir", home, "--kill", "all"], 20)


@pytest.fixture(scope="module")
def made(place, keys):
    """(folder, what was printed) of both: one with a key file and a changed file; the other at another day, elsewhere, with gpg's own key."""
    home, fingerprint, key = keys
    first, second = (clone_to(os.path.join(place, n)) for n in ("first", "in/another/folder"))
    edit(os.path.join(first, "README.md"), "# Edgeway", "# Changed")
    os.mkdir(os.path.join(second, "to"))
    others = {"GNUPGHOME": home, "TZ": "Pacific/Kiritimati", "LC_ALL": "C", "USER": "nobody"}
    with concurrent.futures.ThreadPoolExecutor() as both:
        runs = [both.submit(release, first, "--to", f"{place}/release", ARCH, RELEASE_KEY=key),
                both.submit(release, second, "--to", f"{second}/to", ARCH, before=["faketime", "-f", "+9d", "sh", "-c", 'umask 077; exec "$@"', "sh"],
                            RELEASE_KEY=fingerprint, **others)]
    return [(folder, r.result()[1]) for folder, r in zip((f"{place}/release", f"{second}/to"), runs)]


@pytest.fixture(scope="module")
def folder(made):
    return made[0][0]


def files(folder):
    return sorted(os.path.relpath(os.path.join(at, n), folder) for at, _, names in os.walk(folder) for n in names)


def digests(folder):
    return {n: hashlib.sha256(open(os.path.join(folder, n), "rb").read()).hexdigest()
            for n in files(folder) if not any(fnmatch.fnmatch(n, p) for p in SIGNATURES)}


def version():
    with open(os.path.join(TOP, "configure.ac")) as f:
        return re.search(r"^AC_INIT\(\[edgeway\], \[([^]]+)\]", f.read(), re.M)[1]


@pytest.mark.parametrize("key,change,said", [
    (None, None, "RELEASE_KEY is not set: the key to sign with.*make release RELEASE_KEY=FINGERPRINT.*none"),
    ("nobody@edgeway.invalid", None, "gpg.*nobody@edgeway.invalid.*No secret key"),
    ("file", None, r"not ready:\n *deploy/debian/changelog: says 'UNRELEASED'.*\n *NEWS: says '\(not released\)'"),
    ("none", ("deploy/helm/edgeway/Chart.yaml", "appVersion: .*", "appVersion: 9.9.9"), r"Chart.yaml: version .*9\.9\.9.*configure.ac says"),
    ("none", ("NEWS", r"Edgeway \S+", "Edgeway 0.0.1"), "NEWS: version 0.0.1, and configure.ac says")])
def test_what_is_not_ready_is_refused_at_once(place, keys, key, change, said):
    clone = clone_to(os.path.join(tempfile.mkdtemp(dir=place), "a-folder-whose-path-is-longer-than-that-of-a-socket-may-be", "clone"), is_final=False)
    if change:
        edit(os.path.join(clone, change[0]), *change[1:])
        commit(clone)
    env = {"RELEASE_KEY": keys[2] if key == "file" else key} if key else {}
    status, out = release(clone, "--to", f"{clone}/made", seconds=60, check=False, GNUPGHOME=keys[0], **env)
    assert status == 1 and re.search(f"(?s)^release: .*{said}", out, re.M) and not os.path.exists(f"{clone}/made"), out


def test_the_same_commit_gives_the_same_bytes(made):
    (first, said), (second, _) = made
    assert "not committed, and so not in it: README.md" in said
    assert digests(first) == digests(second) and files(first) == files(second)
    assert [n for n in files(first) if fnmatch.fnmatch(n, "apt/dists/bookworm/*")] and len(glob.glob(f"{first}/apt/pool/main/e/edgeway/*_{ARCH}.deb")) == 3
    assert os.stat(f"{second}/apt/dists").st_mode & 0o777 == 0o755  # for a web server, whatever the umask was


def test_signatures_and_checksums(folder, keys, tmp_path):
    """By the last command but one of the document; all files are covered, and a changed one is told."""
    home = tmp_path / "home"
    home.mkdir(0o700)
    [line] = re.findall(r"^    (gpg --import .*)$", document(), re.M)
    env = {**os.environ, "GNUPGHOME": str(home), "LC_ALL": "C"}
    said = run(["sh", "-ec", f"cd {folder}; {line}"], 60, env=env)[1]
    assert "Good signature" in said and keys[1] in said.replace(" ", "")
    listed = re.findall(r"^(.*): OK$", said, re.M)
    assert listed == sorted(digests(folder).keys() - {"SHA256SUMS"})
    for signed in (f"edgeway-{version()}.tar.xz.asc", "apt/dists/bookworm/InRelease"):
        run(["gpg", "--verify", os.path.join(folder, signed)], 20, env=env)
    run(["gpg", "--verify", *(f"{folder}/apt/dists/bookworm/Release{s}" for s in (".gpg", ""))], 20, env=env)
    assert set(files(folder)) - digests(folder).keys() == {"edgeway.asc", "SHA256SUMS.asc", f"edgeway-{version()}.tar.xz.asc",
                                                           "apt/dists/bookworm/InRelease", "apt/dists/bookworm/Release.gpg"}
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    with open(glob.glob(f"{copy}/*.spdx.json")[0], "a") as f:
        f.write(" ")
    assert run(["sh", "-ec", f"cd {copy}; {line}"], 60, check=False, env=env)[0] != 0
    with open(copy / "SHA256SUMS", "a") as f:
        f.write(" ")
    assert "BAD signature" in run(["sh", "-ec", f"cd {copy}; {line}"], 60, check=False, env=env)[1]
    run(["gpgconf", "--kill", "all"], 20, env=env)


def document():
    with open(os.path.join(TOP, "doc", "releases.md")) as f:
        return f.read()


@pytest.fixture
def url(folder):
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args):
            super().__init__(*args, directory=folder)

        def log_message(self, *_):
            pass
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_installed_by_apt(folder, clean, url):
    """By the commands of the document, from a web server. Another key, and an index that is not what was signed, are refused."""
    tree = clean.result().copy()
    shutil.copy("/etc/resolv.conf", tree.path("/etc/resolv.conf"))
    try:
        with open(tree.path("/etc/apt/apt.conf.d/99here"), "w") as f:
            f.write('Acquire::http::Proxy::127.0.0.1 "DIRECT";\nAPT::Get::Assume-Yes "true";\nAPT::Install-Recommends "false";\nAPT::Update::Error-Mode "any";\n')
        block = re.search(r"^    URL=.*\n(?:    .*\n)+", document(), re.M)[0]
        lines = re.sub("^ {4}", "", re.sub(r"URL=\S+", f"URL={url}", block), flags=re.M)
        tree.run("sh", "-ec", f"export no_proxy=127.0.0.1\n{lines}", seconds=300)
        said = tree.run("dpkg-query", "-W", "-f", "${db:Status-Status} ${Package} ${Version}\n", "edgeway-*")[1]
        assert re.findall("^installed (.*)", said, re.M) == [f"edgeway-agent {version()}-1", f"edgeway-ctl {version()}-1"]
        assert tree.run("edgeway-agent", "--version")[1] == f"edgeway-agent {version()}\n"
        source = tree.path("/etc/apt/sources.list.d/edgeway.list")
        edit(source, "deb ", "deb-src ")
        tree.run("sh", "-ec", "cd /root; apt-get update -q; apt-get source --download-only edgeway", seconds=120)
        assert sorted(n for n in os.listdir(tree.path("/root")) if n.endswith((".dsc", ".xz"))) == sorted(
            os.path.basename(p) for p in glob.glob(f"{folder}/apt/pool/main/e/edgeway/*") if not p.endswith(".deb"))
        sources = os.path.join(folder, "apt/dists/bookworm/main/source/Sources.xz")
        with open(sources, "rb") as f:
            kept = f.read()
        try:
            with open(sources, "wb") as f:
                f.write(kept[:-1] + b"x")
            status, out = tree.run("sh", "-ec", "rm -rf /var/lib/apt/lists/*; apt-get update -q", seconds=120, check=False)
            assert status != 0 and "Hash Sum mismatch" in out, out
        finally:
            with open(sources, "wb") as f:
                f.write(kept)
        shutil.copy("/usr/share/keyrings/debian-archive-keyring.gpg", tree.path("/etc/apt/keyrings/edgeway.gpg"))
        edit(source, "edgeway.asc", "edgeway.gpg")
        status, out = tree.run("sh", "-ec", "rm -rf /var/lib/apt/lists/*; apt-get update -q", seconds=120, check=False)
        assert status != 0 and "NO_PUBKEY" in out, out
    finally:
        tree.close()


@pytest.fixture(scope="module")
def registry(place):
    """The address of a registry that is empty."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    config = os.path.join(place, "registry.yml")
    with open(config, "w") as f:
        json.dump({"version": 0.1, "storage": {"filesystem": {"rootdirectory": f"{place}/registry"}}, "http": {"addr": address}, "log": {"level": "error"}}, f)
    with open(f"{place}/registry.log", "w") as log:
        process = subprocess.Popen(["docker-registry", "serve", config], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        end = time.monotonic() + 60
        while socket.socket().connect_ex((address.split(":")[0], int(address.split(":")[1]))) != 0:
            assert process.poll() is None and time.monotonic() < end, open(f"{place}/registry.log").read()
            time.sleep(0.05)
        yield address
    finally:
        process.kill()
        process.wait()


def skopeo_lines(registry):
    """The commands with which the document has image and chart pushed, to this registry."""
    lines = re.findall(r"`(skopeo copy [^`]+)`", document())
    assert len(lines) == 2
    return [f"{line.replace('VERSION', version()).replace('REGISTRY', registry)} --dest-tls-verify=false" for line in lines]


def test_image(folder, registry, tmp_path):
    """Its programs are those of the packages, and run in it; the SBOM is beside it and in it. podman reads the archive, skopeo the registry."""
    run(["sh", "-ec", f"cd {folder}; {skopeo_lines(registry)[0]}"], 120)
    index = json.loads(run(["skopeo", "inspect", "--raw", "--tls-verify=false", f"docker://{registry}/edgeway:{version()}"], 60)[1])
    assert [m["platform"] for m in index["manifests"]] == [{"architecture": ARCH, "os": "linux"}]
    archive = f"oci-archive:{folder}/edgeway-image-{version()}.oci.tar"
    said = json.loads(run(["skopeo", "inspect", "--config", archive], 60)[1])
    with open(os.path.join(TOP, "deploy", "Dockerfile")) as f:
        dockerfile = f.read()
    assert (said["config"]["User"], said["config"]["Cmd"], said["config"]["Env"]) == ("65532:65532", ["edgeway-agent", "--help"], ["PATH=/usr/sbin:/usr/bin"])
    assert set(re.findall(r"(org\.opencontainers\.\S+)=", dockerfile)) == said["config"]["Labels"].keys() and said["created"] == "2026-11-20T12:00:00Z"
    assert re.fullmatch("[0-9a-f]{40}", said["config"]["Labels"]["org.opencontainers.image.revision"])
    short = tempfile.mkdtemp(prefix="podman-", dir="/tmp")  # a runroot has at most 50 characters
    podman = ["podman", "--root", f"{tmp_path}/storage", "--runroot", short, "--storage-driver", "vfs"]
    name = run([*podman, "pull", "--quiet", archive], 120)[1].split()[-1]
    root = run([*podman, "image", "mount", name], 60)[1].split()[-1]
    try:
        for program, package in (("sbin/edgeway-agent", "agent"), ("sbin/edgeway-hub", "hub"), ("bin/edgewayctl", "ctl")):
            [deb] = glob.glob(f"{folder}/apt/pool/main/e/edgeway/edgeway-{package}_*_{ARCH}.deb")
            run(["dpkg", "-x", deb, str(tmp_path / package)], 60)
            with open(tmp_path / package / "usr" / program, "rb") as ours, open(f"{root}/usr/{program}", "rb") as theirs:
                assert ours.read() == theirs.read()
            assert run(["chroot", root, f"/usr/{program}", "--version"], 20)[1].split()[1] == version()
        with open(f"{folder}/edgeway-{version()}-{ARCH}.spdx.json", "rb") as beside, open(f"{root}/usr/share/doc/edgeway/edgeway-{version()}.spdx.json", "rb") as inside:
            assert beside.read() == inside.read()
    finally:
        run([*podman, "image", "unmount", name], 60)
        shutil.rmtree(short, ignore_errors=True)


def test_chart(folder, registry, tmp_path):
    """Helm installs it from a registry like the one of the sources, and has put nothing else into its own archive."""
    run(["sh", "-ec", f"cd {folder}; {skopeo_lines(registry)[1]}"], 120)
    at = [f"oci://{registry}/charts/edgeway", "--version", version()]

    def says(*argv):
        out = run([helm.program(), *argv], 60, env={**os.environ, "HOME": str(tmp_path), "no_proxy": "127.0.0.1"})[1]
        return re.sub(r"^walk\.go:.*\n", "", out)  # of the link to the manifests
    assert f"version: {version()}\n" in says("show", "chart", *at)
    rendered = ["template", "edgeway", "--set", "host=hub.example", "--set", f"image.repository={registry}/edgeway"]
    assert says(*rendered, *at) == says(*rendered, helm.CHART)
    says("pull", *at, "--destination", str(tmp_path))
    os.mkdir(tmp_path / "own")
    says("package", helm.CHART, "--destination", str(tmp_path / "own"))
    ours, theirs = (sorted(run(["tar", "-tf", str(p / f"edgeway-{version()}.tgz")], 20)[1].split()) for p in (tmp_path, tmp_path / "own"))
    assert ours == theirs

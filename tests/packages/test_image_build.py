"""deploy/Dockerfile, built and run by a real Docker Engine from the files of `make dist`, on a Debian of the test's own (registries are not
asked). Root; top_builddir names the configured build. The engine makes no bridge and no rules: what it runs has the network of
this machine while it builds, and none afterwards.
"""
import email.utils
import functools
import glob
import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import time

import pytest

from tree import run

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("top_builddir") or os.path.join(TOP, "build", "gcc"))
PROGRAMS = {"edgeway-agent": "usr/sbin", "edgeway-hub": "usr/sbin", "edgewayctl": "usr/bin"}
ENGINE = ('mount -t cgroup2 none /sys/fs/cgroup; mkdir -p /etc/docker; mount -t tmpfs none /etc/docker; exec dockerd --data-root "$0/data" --exec-root "$0/run" --pidfile "$0/pid" '
          '-H "unix://$0/docker.sock" --bridge none --iptables=false --ip-forward=false --ip-masq=false')


class Engine:
    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="edgeway-engine-")
        self.address = f"unix://{self.dir}/docker.sock"
        self.log = open(os.path.join(self.dir, "log"), "w+")
        self.process = subprocess.Popen(["unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc",
                                         "sh", "-c", ENGINE, self.dir], stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        end = time.monotonic() + 60
        while self.docker("version", check=False)[0] != 0:
            if self.process.poll() is not None or time.monotonic() > end:
                self.log.seek(0)
                said = self.log.read()[-3000:]
                self.close()
                raise AssertionError(f"dockerd does not serve: {said}")
            time.sleep(0.1)

    def docker(self, *argv, seconds=60, check=True, **more):
        """(status, output)"""
        return run(["docker", "-H", self.address, *argv], seconds, check, **more)

    def piped(self, producer, *argv, seconds):
        """What docker says that reads the output of another command."""
        words = " ".join(argv)
        return run(["bash", "-o", "pipefail", "-c", f"{producer} | docker -H {self.address} {words}"], seconds, env={**os.environ, "DOCKER_BUILDKIT": "0"})[1]

    def close(self):
        self.process.kill()
        self.process.wait()
        self.log.close()
        shutil.rmtree(self.dir)


@pytest.fixture(scope="module")
def engine(clean):
    run(["make", "-C", BUILD, "distdir"], 120)
    [folder] = [p for p in glob.glob(f"{BUILD}/edgeway-[0-9]*") if os.path.isdir(p)]
    engine = Engine()
    try:
        engine.piped(f"tar -C {clean.result().root} -c .", "import", "-", "debian:12-slim", seconds=120)
        began = time.monotonic()
        engine.build = functools.partial(engine.piped, f"tar -C {folder} -c .", "build", "--network", "host", "--build-arg", "CFLAGS=-O0",
                                         "-f", "deploy/Dockerfile", seconds=900)
        engine.build("-t", "edgeway", "-")
        size = int(engine.docker("inspect", "-f", "{{.Size}}", "edgeway")[1])
        print(f"image built in {time.monotonic() - began:.0f} s, {size / 1e6:.1f} MB")
        yield engine
    finally:
        engine.close()
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def root(engine):
    """All files of the image."""
    with tempfile.TemporaryDirectory(prefix="edgeway-image-") as folder:
        engine.docker("create", "--name", "files", "edgeway")
        run(["bash", "-o", "pipefail", "-c", f"docker -H {engine.address} export files | tar -C {folder} -x"], 60)
        engine.docker("rm", "files")
        yield folder


def test_what_the_image_says_of_itself(engine):
    inspected = json.loads(engine.docker("inspect", "edgeway")[1])[0]
    config = inspected["Config"]
    assert config["User"] == "65532:65532" and config["Cmd"] == ["edgeway-agent", "--help"] and not config.get("Entrypoint")
    with open(os.path.join(TOP, "configure.ac")) as f:
        version = re.search(r"^AC_INIT\(\[edgeway\], \[([^]]+)\]", f.read(), re.M).group(1)
    assert config["Labels"]["org.opencontainers.image.version"] == version
    assert inspected["Size"] < 40_000_000 and len(inspected["RootFS"]["Layers"]) == 1
    for program in PROGRAMS:
        assert engine.docker("run", "--rm", "--network", "none", "edgeway", program, "--version")[1] == f"{program} {version}\n"


def test_the_same_sources_give_the_same_image(engine):
    """The last steps again, without what the engine remembers of them: the time that they take from the changelog is given, and a revision.
    That programs are compiled alike the packages show (test_packages.py)."""
    def layers(name):
        inspected = json.loads(engine.docker("inspect", name)[1])[0]
        return inspected["RootFS"]["Layers"], inspected["Id"]
    with open(os.path.join(TOP, "deploy", "debian", "changelog")) as f:
        stamp = email.utils.parsedate_to_datetime(re.search(r"^ -- .*>  (.*)$", f.read(), re.M).group(1)).timestamp()
    engine.build("-t", "again", "--build-arg", f"SOURCE_DATE_EPOCH={stamp:.0f}", "--build-arg", "REVISION=again", "-")
    engine.build("-t", "earlier", "--build-arg", "SOURCE_DATE_EPOCH=86400", "-")
    made, again, earlier = (layers(name) for name in ("edgeway", "again", "earlier"))
    assert made[1] != again[1] and made[0] == again[0]
    assert earlier[0] != made[0]


def test_a_hub_serves_in_it(engine, tmp_path):
    tmp_path.chmod(0o755)
    engine.docker("run", "-d", "--name", "hub", "--network", "none", "--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges",
                  "--tmpfs", "/run/edgeway:uid=65532", "--tmpfs", "/var/lib/edgeway-hub:uid=65532", "-v", f"{tmp_path}:/manifests:ro",
                  "edgeway", "edgeway-hub", "--source.manifests", "/manifests")
    try:
        end = time.monotonic() + 30
        while engine.docker("exec", "hub", "edgewayctl", "--socket", "/run/edgeway/hub.sock", "status", check=False)[0] != 0:
            assert time.monotonic() < end, engine.docker("logs", "hub")[1]
            time.sleep(0.1)
        assert re.fullmatch(r"[0-9a-f]{64}\.\S+", engine.docker("exec", "hub", "edgewayctl", "--socket", "/run/edgeway/hub.sock", "token", "create")[1].split()[-1])
        status, said = engine.docker("exec", "hub", "sh", "-c", "true", check=False)
        assert status != 0 and '"sh": executable file not found' in said
        engine.docker("stop", "hub")
        assert engine.docker("inspect", "-f", "{{.State.ExitCode}}", "hub")[1] == "0\n"
    finally:
        engine.docker("rm", "-f", "hub")


def test_licences_and_sbom(root):
    """Of the very programs and libraries that are there."""
    [document] = glob.glob(f"{root}/usr/share/doc/edgeway/edgeway-*.spdx.json")
    with open(document) as f:
        packages = {p["name"]: p for p in json.load(f)["packages"]}
    for program, folder in PROGRAMS.items():
        with open(os.path.join(root, folder, program), "rb") as f:
            assert hashlib.sha256(f.read()).hexdigest() == packages[program]["checksums"][0]["checksumValue"]
    assert os.path.getsize(f"{root}/usr/share/doc/edgeway/LICENSE") > 10000
    licensed = {os.path.basename(os.path.dirname(p)) for p in glob.glob(f"{root}/usr/share/doc/*/copyright")}
    named = {n for n, p in packages.items() if p.get("sourceInfo", "").startswith("built from")}
    assert len(named) > 20 and licensed == named

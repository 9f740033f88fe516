"""deploy/Dockerfile: the second stage has exactly the libraries that the programs name, the first one what deploy/packages calls
build, and every file that it takes is there."""
import glob
import os
import re
import subprocess

import pytest

from lab import TOP

PROGRAMS = ("edgeway-agent", "edgeway-hub", "edgewayctl")
ALWAYS = {"libc6", "libgcc-s1"}  # of debian:12-slim
DLOPENED = {"libwebsockets-evlib-uv"}
BUILD = os.environ.get("top_builddir") or os.path.join(TOP, "build", "gcc")
SANITIZERS = re.compile(r"lib(a|ub|t)san")


def text():
    with open(os.path.join(TOP, "deploy", "Dockerfile")) as f:
        return f.read()


def output(*argv):
    return subprocess.run(argv, check=True, text=True, stdout=subprocess.PIPE, timeout=60).stdout


def package_of(library):
    """Debian's package of a library that the linker finds."""
    path = next(line.split()[-1] for line in output("/sbin/ldconfig", "-p").splitlines() if line.split()[:1] == [library])
    for name in (path, "/usr" + path, os.path.realpath(path)):
        p = subprocess.run(["dpkg", "-S", name], text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        if p.returncode == 0:
            return p.stdout.split(":")[0]
    raise AssertionError(f"no package has {path}")


def release():
    with open("/etc/os-release") as f:
        return re.search(r'^VERSION_ID="?([^"\n]*)', f.read(), re.M).group(1)


@pytest.mark.skipif(release() != "12", reason="names of Debian 12's packages")
def test_second_stage_has_the_libraries():
    last = text().split("\nFROM ")[-1]
    listed = set(re.search(r"--no-install-recommends((?:[ \\\n]+[a-z0-9.+-]+)+)", last).group(1).replace("\\", " ").split())
    needed = {word for p in PROGRAMS for word in re.findall(r"NEEDED +(\S+)", output("objdump", "-p", os.path.join(BUILD, p)))}
    wanted = {package_of(n) for n in needed if not SANITIZERS.match(n)} - ALWAYS | DLOPENED
    if any(SANITIZERS.match(n) for n in needed):  # linked without --as-needed, so that some are named in vain
        assert listed <= wanted
    else:
        assert listed == wanted


def test_first_stage_takes_its_packages_from_the_list():
    command = re.search(r"\$\((awk .*?deploy/packages)\)", text()).group(1)
    packages = subprocess.run(["sh", "-c", command], cwd=TOP, check=True, text=True, stdout=subprocess.PIPE).stdout.split()
    assert {"gcc", "make", "autoconf", "automake", "libuv1-dev", "libnftnl-dev"} <= set(packages)


def test_what_is_copied_is_there():
    stages = re.findall(r"^FROM (\S+)(?: AS (\S+))?", text(), re.M)
    assert [image for image, _ in stages] == ["debian:12-slim"] * 2
    for options, words in re.findall(r"^COPY ((?:--\S+ )*)(.+)$", text(), re.M):
        if "--from=" in options:
            assert re.search(r"--from=(\S+)", options).group(1) in [name for _, name in stages]
        else:
            assert all(glob.glob(os.path.join(TOP, w)) for w in words.split()[:-1]), words
    for program in PROGRAMS:
        assert re.search(rf"/out/usr/s?bin/{program} ", text())

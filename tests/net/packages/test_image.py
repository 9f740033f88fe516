"""deploy/Dockerfile and what it makes the image of (deploy/image-root): our programs with all that they need, and nothing else. That pods do
their job in it is in test_deploy.py, and the image is built for real in tests/packages."""
import glob
import hashlib
import os
import re
import subprocess

import pytest

from cluster import PROGRAMS, image_root
from lab import TOP

pytestmark = pytest.mark.plain_build  # files of an image

BUILD = os.path.abspath(os.environ.get("top_builddir") or os.path.join(TOP, "build", "gcc"))


def text():
    with open(os.path.join(TOP, "deploy", "Dockerfile")) as f:
        return f.read()


@pytest.fixture(scope="module")
def root():
    return image_root(BUILD)


def files(root):
    return {os.path.relpath(os.path.join(folder, n), root) for folder, folders, names in os.walk(root) for n in names}


def needed(path):
    out = subprocess.run(["objdump", "-p", path], check=True, text=True, stdout=subprocess.PIPE).stdout
    return set(re.findall(r"NEEDED +(\S+)", out))


def test_programs_run_there(root, tmp_path):
    """With /proc, as in a container."""
    commands = " && ".join(f"chroot {tmp_path} /{folder}/{program} --version" for program, folder in PROGRAMS.items())
    p = subprocess.run(["unshare", "--mount", "--propagation", "private", "sh", "-c", f"mount -t tmpfs none {tmp_path} && cp -a {root}/. {tmp_path} && "
                        f"mkdir {tmp_path}/proc && mount --rbind /proc {tmp_path}/proc && {commands}"],
                       text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
    assert p.returncode == 0 and [line.split()[0] for line in p.stdout.splitlines()] == list(PROGRAMS), p.stdout


def test_nothing_else_is_there(root):
    there, ours = files(root), {f"{folder}/{program}" for program, folder in PROGRAMS.items()}
    assert {p for p in there if re.match(r"usr/s?bin/", p)} == ours
    libraries = {os.path.basename(p): p for p in there if re.match(r"(usr/)?lib", p) and ".so" in p}
    plugin = "libwebsockets-evlib_uv.so"
    named, new = {plugin}, {plugin, *(n for p in ours for n in needed(os.path.join(root, p)))}
    while new:
        named |= new
        new = {n for library in new for n in needed(os.path.join(root, libraries[library]))} - named
    assert libraries.keys() == named
    licences = {p for p in there if p.startswith("usr/share/doc/")}
    assert all(os.path.basename(p) == "copyright" for p in licences) and "usr/share/doc/libuv1/copyright" in licences
    rest = there - {*libraries.values()} - licences - ours
    assert rest == {"etc/passwd", "etc/group", "etc/nsswitch.conf", "etc/ssl/certs/ca-certificates.crt", "usr/lib/ssl/cert.pem"}
    assert os.path.getsize(os.path.join(root, "etc/ssl/certs/ca-certificates.crt")) > 0


def test_the_same_files_give_the_same_bytes(root, tmp_path):
    again = tmp_path / "root"
    installed = os.path.join(os.path.dirname(root), "installed")
    subprocess.run([os.path.join(TOP, "deploy", "image-root"), installed, str(again)], check=True, timeout=120)

    def digest(folder):
        return hashlib.sha256(subprocess.run(["tar", "-C", folder, "--sort=name", "-c", "."], check=True, stdout=subprocess.PIPE).stdout).hexdigest()
    assert digest(root) == digest(str(again))
    os.utime(again / "etc" / "passwd")
    assert digest(root) != digest(str(again))


def test_first_stage_takes_its_packages_from_the_list():
    command = re.search(r"\$\((awk .*?deploy/packages)\)", text()).group(1)
    packages = subprocess.run(["sh", "-c", command], cwd=TOP, check=True, text=True, stdout=subprocess.PIPE).stdout.split()
    assert {"gcc", "make", "autoconf", "automake", "ca-certificates", "libuv1-dev", "libnftnl-dev", "libwebsockets-evlib-uv"} <= set(packages)


def test_what_is_copied_is_there():
    stages = re.findall(r"^FROM (\S+)(?: AS (\S+))?", text(), re.M)
    assert stages == [("debian:12-slim", "build"), ("scratch", "")]
    for options, words in re.findall(r"^COPY ((?:--\S+ )*)(.+)$", text(), re.M):
        if "--from=" in options:
            assert re.search(r"--from=(\S+)", options).group(1) in [name for _, name in stages]
        else:
            assert all(glob.glob(os.path.join(TOP, w)) for w in words.split()[:-1]), words

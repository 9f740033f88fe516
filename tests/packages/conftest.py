"""What the modules share, each made once, by whichever worker of pytest-xdist is first: clean Debians, of which everybody changes a copy of
his own, the tarball and its packages. All of that lies in $DEBIANS, which ends with the run. Modules that take long begin first.
"""
import concurrent.futures
import glob
import os
import shutil
import signal
import sys
import tempfile

import pytest

from tree import QUICKLY, Tree, once, os_release, run

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("top_builddir") or os.path.join(TOP, "build", "gcc"))
LONGEST = ("test_commands", "test_release", "test_readme", "test_packages", "test_resolvers")


def pytest_configure(config):
    # A terminated run takes its trees and its machines down like an interrupted one.
    signal.signal(signal.SIGTERM, lambda *a: sys.exit(1))
    if not hasattr(config, "workerinput"):
        os.environ["DEBIANS"] = folder = tempfile.mkdtemp(prefix="edgeway-debians-")
        os.chmod(folder, 0o755)
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


def pytest_collection_modifyitems(items):
    """pytest-xdist hands modules out in this order."""
    order = {name: n for n, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(item.module.__name__, len(order)))


@pytest.fixture(scope="session")
def clean():
    """A future of it, with the mirror's indexes: others work while it is fetched."""
    def make(path):
        tree = Tree(folder=os.path.dirname(path))
        tree.run("apt-get", "update", "-q", seconds=120)
        os.rename(tree.root, path)
    with concurrent.futures.ThreadPoolExecutor() as beside:
        yield beside.submit(lambda: Tree.at(once(os_release("VERSION_CODENAME"), make)))


@pytest.fixture(scope="session")
def bootable(clean):
    """The same with systemd."""
    def make(path):
        tree = clean.result().copy()
        tree.install("systemd")
        os.rename(tree.root, path)
    return Tree.at(once("bootable", make))


@pytest.fixture(scope="session")
def tarball(clean):
    """Of the sources, made while the clean Debian is fetched."""
    def make(path):
        os.mkdir(path)
        run(["make", "-C", BUILD, "dist"], 300, env={**os.environ, **QUICKLY})
        [made] = glob.glob(f"{BUILD}/edgeway-[0-9]*.tar.xz")
        shutil.move(made, path)
    [made] = glob.glob(once("tarball", make) + "/*")
    return made


@pytest.fixture(scope="session")
def folder(tarball):
    """Of the packages."""
    return once("packages", lambda path: run([os.path.join(TOP, "deploy", "make-packages"), tarball, path], 900, env={**os.environ, **QUICKLY}))

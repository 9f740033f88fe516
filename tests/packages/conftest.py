"""One clean Debian for all: the image's base is taken from it before packages are installed there (files are run by name)."""
import concurrent.futures
import os
import signal
import sys

import pytest

from tree import QUICKLY, Tree, run

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("top_builddir") or os.path.join(TOP, "build", "gcc"))


def pytest_configure(config):
    # A terminated run takes its tree and its machine down like an interrupted one.
    signal.signal(signal.SIGTERM, lambda *a: sys.exit(1))


@pytest.fixture(scope="session")
def clean():
    """A future of it: others work while it is fetched."""
    with concurrent.futures.ThreadPoolExecutor() as beside:
        tree = beside.submit(Tree)
        yield tree
        if tree.exception() is None:
            tree.result().close()


@pytest.fixture(scope="session")
def folder(clean):
    """Of the packages, which are compiled while the clean Debian is fetched."""
    run(["make", "-C", BUILD, "packages"], 600, env={**os.environ, **QUICKLY})
    return os.path.join(BUILD, "packages")

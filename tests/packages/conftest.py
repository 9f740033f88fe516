"""One clean Debian for all: the image's base is taken from it before packages are installed there (files are run by name)."""
import concurrent.futures

import pytest

from tree import Tree


@pytest.fixture(scope="session")
def clean():
    """A future of it: others work while it is fetched."""
    with concurrent.futures.ThreadPoolExecutor() as beside:
        tree = beside.submit(Tree)
        yield tree
        if tree.exception() is None:
            tree.result().close()

"""README.md as test_commands.py has the other documents, on a machine that has the sources and nothing else: a module of its own, since it has
nothing to do with their machines and may run beside them. Root; top_builddir names the configured build.
"""
import pytest

from test_commands import Places, carry_out_all, unpack


@pytest.fixture(scope="module")
def places(bootable, tarball):
    made = Places()
    try:
        tree = made.tree(bootable)
        unpack(tarball, tree)
        made.bare = made.machine(tree, "bare")
        yield made
    finally:
        made.close()


def test_document(places):
    carry_out_all(places, "README.md")

"""A stranger who begins thousands of handshakes and goes no further: they hold no more than half of the memory that the hub may use."""
import pytest

from ingress_town import HUB, WEB, Town
from lab import BARE_PYTHON, wait_for
from test_stranger_descriptors import MUTE, hello

LIMIT, EACH, CONNECTIONS = 64 << 20, 40 * 1024, 1200
PLACES = LIMIT // 2 // EACH
# As a container's runtime shows it, by cgroups version 2 and 1.
LIMITED = f"""mount -t tmpfs none /sys/fs/cgroup && mkdir /sys/fs/cgroup/memory &&
echo {LIMIT} | tee /sys/fs/cgroup/memory.max > /sys/fs/cgroup/memory/memory.limit_in_bytes && exec "$@" """


@pytest.fixture(scope="module")
def town(lab):
    made = Town(lab, before=("unshare", "-m", "sh", "-c", LIMITED, "sh"))
    yield made
    print(f"--- log of the hub\n{made.hub.process.log()[-4000:]}")


def test_half_handshakes(town):
    mute = town.stranger.start("mute", *BARE_PYTHON, "-c", MUTE, HUB, 10000, CONNECTIONS, hello("edgeway-tunnel-reverse/1"))
    try:
        wait_for("connections of the stranger", lambda: "opened" in mute.log(), 60)
        assert town.hub.metrics()["edgeway_hub_unauthenticated_connections"] <= PLACES
        assert town.get(WEB + "/", machine=town.friend) == (200, "server\n")
    finally:
        mute.kill()
    assert town.hub.state()["hub"]["unauthenticated"]["places"] == PLACES

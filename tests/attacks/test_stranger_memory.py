"""A stranger who begins thousands of handshakes and goes no further: they hold no more than half of the memory that the hub may use."""
import contextlib

import pytest

from ingress_town import HUB, WEB, Town, socket_to
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


def test_answers_that_nobody_reads(town):
    """Requests without end, whose refusals are not read: the hub does not read on, or ends the connection."""
    sent, most = 0, 32 << 20
    with socket_to(town, (HUB, 10080), town.stranger) as s:
        s.settimeout(3)
        with contextlib.suppress(TimeoutError, ConnectionResetError):
            while sent < most:
                sent += s.send(b"GET http://x:1/ HTTP/1.1\r\nHost: x\r\n\r\n" * 1000)
        assert sent < most
        assert town.get(WEB + "/", machine=town.friend) == (200, "server\n")

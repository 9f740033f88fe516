"""A stranger who has found a token that was used: in a file, a shell's history, a backup."""
import json
import os

import pytest

from lab import Agent, Hub, Node, wait_for


@pytest.fixture(scope="module")
def hub(lab):
    made = Hub(lab)
    yield made
    print(f"--- log of the hub\n{made.process.log()[-4000:]}")


def used(hub):
    return [t["used"] for t in json.loads(hub.ask("/tokens")[1])["tokens"]]


def test_replay(lab, hub):
    """It gives nothing, for no name, before and after a restart of the hub; to its own node, whose answer was lost, it gives the same again."""
    node = Node(lab, "edge-1", "192.0.2.11")
    token = hub.token()
    agent = Agent(node, hub, token=token)
    wait_for("joined", lambda: agent.state()["meta"]["synced"])
    certificate = os.path.join(agent.data, "node.crt")
    with open(certificate) as f:
        before = f.read()
    stranger = Node(lab, "stranger", "192.0.2.66")
    for restarted in (False, True):
        if restarted:
            hub.process.kill()
            hub.start()
        for name in ("edge-1", "edge-2"):
            evil = Agent(stranger, hub, "--node", name, token=token, start=False)
            stranger.run("rm", "-rf", evil.data)
            evil.process = stranger.start("agent", *evil.argv())
            try:
                wait_for("refused", lambda: f'node={name}' in hub.process.log() and "is used up" in evil.process.log().rsplit("starting", 1)[-1])
                assert not os.path.exists(os.path.join(evil.data, "node.crt"))
            finally:
                evil.stop()
    assert used(hub) == [1] and {n["node"] for n in json.loads(hub.ask("/nodes")[1])["nodes"]} == {"edge-1"}
    agent.stop()
    os.unlink(certificate)  # as if the answer had been lost on the way: the key is there
    agent.start()
    wait_for("joined again", lambda: agent.state()["meta"]["synced"])
    with open(certificate) as f:
        assert f.read() == before
    assert used(hub) == [1]

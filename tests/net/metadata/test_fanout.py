"""Delivery to many nodes: one that does not read holds up nobody, a node may come back to any replica at the cost of what
differs, and what went wrong in a node's database heals."""
import json
import os
import sqlite3

import pytest

from fleet import Fleet, write_typical
from lab import HUB_ADDRESS, Agent, Hub, Lab, Node, wait_for
from test_hub_links import SECOND, Replica

WINDOW = 256  # hub/sync/node_session.h


@pytest.fixture
def lab():
    with Lab() as made:
        yield made
        for p in made.processes:
            print(f"--- {p.name}\n{p.log()[-3000:]}")


def read_all(hub, services):
    wait_for("everything is read", lambda: hub.metrics()["edgeway_hub_services"] == services)


def node_of(hub, name):
    return next(n for n in json.loads(hub.ask("/nodes")[1])["nodes"] if n["node"] == name)


# Unbundled 48 000 messages are more than 40 nodes of one sanitized program take in time: they give no sign of life for 9 s.
@pytest.mark.parametrize("options", [pytest.param((), id="bundles"), pytest.param(("plain",), id="plain", marks=pytest.mark.plain_build)])
def test_a_node_that_does_not_read_holds_up_nobody(lab, options):
    nodes, services, rounds = 40, 300, 4
    hub = Hub(lab)
    write_typical(hub, range(services))
    read_all(hub, services)
    fleet = Fleet(hub, *options)
    assert fleet.ask("connect", nodes)["connected"] == nodes
    fleet.ask("mark")
    assert fleet.ask("stall", 0)["connected"]
    for r in range(rounds):
        write_typical(hub, range(services), r + 1)
        done = fleet.ask("changes", services * (r + 1), 120)
        assert (done["reached"], done["waiting"]) == (nodes - 1, 0)
    assert fleet.ask("check")["in_step"] == nodes - 1
    # What waits for it is a number for each service, whatever has changed how often; no more than the window is on its way.
    slow = node_of(hub, "node-0")
    assert slow["unacked"] == WINDOW and slow["pending"] <= services
    assert hub.metrics()["edgeway_hub_sessions_stalled_total"] == 0
    # It reads again: on the same connection it gets what is new, once.
    assert fleet.ask("read", 0)["connected"]
    wait_for("all is acknowledged", lambda: fleet.ask("check") and node_of(hub, "node-0")["unacked"] == 0)
    assert fleet.ask("check")["in_step"] == nodes
    assert node_of(hub, "node-0")["acks"] < services * (rounds + 1)
    assert "disconnected" not in hub.process.log()


def test_a_full_hub_serves_the_nodes_that_it_has(lab):
    """Three eighths of the descriptors are for nodes. Those that find no room are told to come later; the tunnels of the others, which
    come by the same port, get in."""
    room = 96
    hub = Hub(lab, before=("prlimit", f"--nofile={room * 8 // 3}"))
    write_typical(hub, range(2))
    read_all(hub, 2)
    fleet = Fleet(hub, "tunnels")
    came = fleet.ask("storm", room + 10, 15)
    assert (came["connected"], came["tunnels"]) == (room, room)
    assert hub.metrics()["edgeway_hub_nodes_full_total"] > 0
    told = hub.machine.run(lab.program("edgewayctl"), "--socket", hub.socket, "doctor", check=False).stdout
    assert "as many as it takes" in told and "LimitNOFILE" in told


def test_a_node_comes_back_to_another_replica(lab):
    """Both read the same manifests and share a CA: what the node holds from one counts with the other."""
    services, differ = 1000, 5
    first = Hub(lab)
    second = Replica(lab, first, SECOND)
    for hub in (first, second):
        write_typical(hub, range(services))
        read_all(hub, services)
    fleet = Fleet(first)

    def connect():
        fleet.ask("mark")
        assert fleet.ask("connect", 1)["connected"] == 1
        b = fleet.ask("bytes")
        assert fleet.ask("check")["in_step"] == 1
        fleet.ask("drop")
        return b["received"] + b["sent"]

    everything = connect()
    fleet.ask("hub", SECOND)
    nothing = connect()
    # One of them goes on: changes, a new service, and one that is gone.
    for hub in (first, second):
        write_typical(hub, range(differ - 2), 1, per_file=1, prefix="changed")
        write_typical(hub, [services], per_file=1)
        write_typical(hub, range(500, services - 1))
        wait_for("changed", lambda: hub.metrics()["edgeway_hub_service_changes_total"] >= services + differ)
        read_all(hub, services)
    some = connect()
    print(f"bytes: everything {everything}, nothing differs {nothing}, {differ} differ {some}")
    assert nothing * 8 < everything and some * 4 < everything
    fleet.ask("hub", HUB_ADDRESS)
    assert connect() < 2 * nothing


def test_what_is_wrong_in_the_database_heals(lab):
    """A view that says something else under its own digest, one that is damaged, one that is lost, one that never was."""
    hub = Hub(lab)
    write_typical(hub, range(50))
    agent = Agent(Node(lab, "edge-1", "192.0.2.11"), hub)
    wait_for("synced", lambda: agent.state()["meta"]["synced"])
    agent.stop()
    path = os.path.join(agent.data, "edgeway.db")
    db = sqlite3.connect(path)
    rows = db.execute("SELECT key, digest, view FROM service ORDER BY key").fetchall()
    assert len(rows) == 50
    keys = [r[0] for r in rows]
    db.execute("UPDATE service SET view = ? WHERE key = ?", (rows[3][2], keys[0]))
    db.execute("UPDATE service SET view = x'00ff', digest = 1 WHERE key = ?", (keys[1],))
    db.execute("DELETE FROM service WHERE key = ?", (keys[2],))
    db.execute("UPDATE service SET key = 'nowhere/never' WHERE key = ?", (keys[4],))
    db.commit()
    db.close()
    agent.start()
    wait_for("healed", lambda: agent.state()["meta"]["synced"] and agent.state()["services"] == 50)
    agent.stop()
    db = sqlite3.connect(path)
    assert db.execute("SELECT key, digest, view FROM service ORDER BY key").fetchall() == rows
    db.close()

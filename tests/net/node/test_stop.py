"""What can be asked while the agent finishes what is in progress."""
import threading

from lab import wait_for


def test_questions_while_draining(mesh):
    """A probe or a scrape during the drain must not cost the connections that it is for."""
    agent, client = mesh.agent1, mesh.client1
    results = []
    calls = [threading.Thread(target=lambda: results.append(
        client.get("http://edge-nginx.default.svc.cluster.local/slow"))) for _ in range(4)]
    for call in calls:
        call.start()
    wait_for("requests in progress", lambda: agent.state()["lb"]["active"] >= 4)
    agent.process.popen.terminate()
    wait_for("draining", lambda: agent.ask("/readyz") == (503, "stopping\n"))
    assert agent.ask("/healthz")[0] == 200
    assert "edgeway_agent_ready" in agent.metrics()
    assert agent.state()["ready"] is False
    for call in calls:
        call.join()
    assert [status for status, _ in results] == [200] * 4, results
    assert agent.process.wait() == 0
    assert mesh.node1.clean()
    agent.start()

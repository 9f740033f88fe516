"""A stranger who asks the hub for one name after the other, to learn what the cluster has."""
import pytest

from ingress_town import SERVER, Town, node


@pytest.fixture(scope="module")
def town(lab):
    made = Town(lab)
    made.hub.write("nodes.yaml", node("cloud-1", "192.0.2.41"), node("cloud-2", "192.0.2.41"))
    yield made
    print(f"--- log of the hub\n{made.hub.process.log()[-4000:]}")


def test_names_are_not_told(town):
    """Who may reach nothing gets one answer for all names: of Services and nodes that there are, that there are not, that two have."""
    there = [f"{SERVER}:8080", "web.default:80", "echo.default:7000", "cloud-1:8080", "192.0.2.41:8080", "10.96.0.7:80"]
    missing = ["nothing.default:80", "web.nowhere:80", "web.default:81", "edge-9:10250", "10.96.0.99:80"]
    friend = {name: town.get(f"http://{name}/", machine=town.friend) for name in (there[1], missing[0])}
    assert friend[there[1]] == (200, "server\n") and friend[missing[0]][0] == 404
    answers = {name: town.get(f"http://{name}/", machine=town.stranger) for name in there + missing}
    assert set(answers.values()) == {(403, "no rule of access opens anything to this caller\n")}, answers

"""pytest's part of the runner: tells the length of each test ($TOLD) and, while the others go on, why one failed ($TOLD.failures).

With several workers only the one who leads them tells. Works without the runner too: then it tells nothing.
"""
import os

TOLD = os.environ.get("TOLD")
MOST_LINES = 40


class Teller:
    def __init__(self):
        self.seconds = {}

    def pytest_runtest_logreport(self, report):
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0) + report.duration
        if report.failed:
            with open(TOLD + ".failures", "a", encoding="utf-8") as f:
                lines = report.longreprtext.splitlines()
                f.write(f"FAILED: {report.nodeid} ({report.when})\n")
                f.writelines(f"    | {line[:200]}\n" for line in lines[-MOST_LINES:])

    def pytest_sessionfinish(self):
        with open(TOLD, "w", encoding="utf-8") as f:
            f.writelines(f"{seconds:.2f} {name}\n" for name, seconds in self.seconds.items())


def pytest_configure(config):
    if TOLD and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Teller(), "edgeway-teller")

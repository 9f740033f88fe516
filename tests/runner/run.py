"""What tests/run does once the packages are there: carries the stages out, several at once, and says how they went. See tests/run --help."""
import argparse
import glob
import os
import signal
import shutil
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import changed
import results
import stages
from process import TOOK_TOO_LONG, Process

AGAIN_MOST = 12  # when more fail, it is no busy moment
PAUSE_S = 0.2
SAID_MOST = 400  # lines that explain failures, of one stage


def say(text=""):
    print(text, flush=True)


class Tail:
    """The lines that a file gets."""

    def __init__(self, path):
        self.path, self.at, self.rest = path, 0, ""

    def lines(self):
        try:
            with open(self.path, encoding="utf-8", errors="replace") as f:
                f.seek(self.at)
                text = self.rest + f.read()
                self.at = f.tell()
        except FileNotFoundError:
            return []
        *whole, self.rest = text.split("\n")
        return whole


def read(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as f:
            return f.read()
    except FileNotFoundError:
        return ""


class Running:
    """A stage under way: says what fails as soon as it does."""

    def __init__(self, stage, argv=None, log=None):
        self.stage, self.log = stage, log or stage.log
        for path in (self.log, stage.told, stage.told + ".failures"):
            if os.path.exists(path):
                os.unlink(path)
        self.complaints, self.failures = Tail(self.log), Tail(stage.told + ".failures")
        self.said, self.explained_logs = 0, set()
        self.process = Process(argv or stage.argv, self.log, stage.limit_s, stage.env)

    def tell_failures(self):
        found = self.failures.lines()
        if self.stage.kind != "pytest":
            for line in results.complaints(self.complaints.lines()):
                found += [line] + self.explained(line)
        for line in found:
            if self.said < SAID_MOST:
                say(line if line.startswith(" ") else f"{self.stage.name}: {line}")
            self.said += 1

    def explained(self, line):
        """The log of the unit test that the line names."""
        words = line.split()
        if self.stage.kind != "automake" or len(words) < 2 or words[1] in self.explained_logs:
            return []
        self.explained_logs.add(words[1])
        return [f"    | {why}" for why in results.explain_unit(read(os.path.join(self.stage.build, words[1] + ".log")))]

    def finished(self):
        over = self.process.finished()
        self.tell_failures()
        return over

    def count(self):
        return results.settle(self.stage.kind, read(self.log), self.process.status)


class Report:
    """What is said of each stage, and in the end of all."""

    def __init__(self):
        self.started = time.monotonic()
        self.rows, self.slow, self.again = [], [], []
        self.passed = self.failed = 0
        self.reasons = []

    def stage_over(self, running, count, first=None):
        """first: the Count of before these tests were asked again; only its failures are settled anew."""
        p, name = running.process, running.stage.name + (" again" if first else "")
        if first:
            passed = [n for n in first.names if n not in count.names]
            self.again += [f"{running.stage.name}: {n}" for n in passed]
            self.failed -= first.failed - count.failed
            self.passed += first.failed - count.failed
        else:
            self.passed += count.passed
            self.failed += count.failed
            self.slow += self.durations(running.stage)
        self.rows.append((name, p.wall_s, p.cpu_s, count))
        verdict = "FAILED" if count.failed else "ok"
        late = " (took too long)" if p.status == TOOK_TOO_LONG else ""
        say(f"{verdict:7} {name:18} {p.wall_s:5.0f} s, {p.cpu_s:5.0f} s CPU, {count.passed} passed, {count.failed} failed{late}")
        if count.failed:
            lines = read(running.log).splitlines()[-12:]
            self.reasons += [f"{name}: {line[:200]}" for line in [x for x in lines if x and not x.startswith("make")][-3:]]
            for line in lines:
                say(f"    > {line[:200]}")
            say(f"    the whole log: {os.path.relpath(running.log, stages.TOP)}")

    @staticmethod
    def durations(stage):
        told = read(stage.told).splitlines()
        if stage.kind == "automake":
            for path in glob.glob(f"{stage.build}/tests/**/*.seconds", recursive=True):
                told.append(f"{read(path).strip()} {os.path.relpath(path, stage.build)[:-len('.seconds')]}")
        return [f"{line} ({stage.name})" for line in told]

    def not_run(self, stage, why):
        self.failed += 1
        say(f"FAILED  {stage.name:18} not run: {why} failed")

    def end(self):
        """The tables and the last lines; the exit status."""
        minutes, seconds = divmod(int(time.monotonic() - self.started), 60)
        say()
        say(f"{'stage':18} {'wall s':>7} {'CPU s':>7} {'tests':>6}")
        for name, wall_s, cpu_s, count in self.rows:
            say(f"{name:18} {wall_s:7.0f} {cpu_s:7.0f} {count.passed + count.failed:6}")
        say(f"{'together':18} {minutes * 60 + seconds:7} {sum(r[2] for r in self.rows):7.0f}")
        slow = results.slowest(self.slow)
        if slow:
            say("\nthe slowest tests:")
        for seconds_of, name in slow:
            say(f"{seconds_of:7.1f} s  {name}")
        with open(os.path.join(stages.LOG, "again"), "w", encoding="utf-8") as f:
            f.writelines(f"{line}\n" for line in self.again)
        say()
        say(f"{minutes} min {seconds} s")
        for line in self.again:
            say(f"passed only when asked again: {line}")
        for line in self.reasons:
            say(f"failed: {line}")
        say(f"{self.passed} passed, {self.failed} failed")
        return 0 if self.failed == 0 and self.passed > 0 else 1


class Scheduler:
    """Stages in the order of the table, each as soon as what it needs is there and its lane is free."""

    def __init__(self, chosen, report):
        self.waiting, self.report = list(chosen), report
        self.running, self.over, self.broken, self.ask_again = [], set(), set(), []

    def due(self, stage):
        return all(n in self.over for n in stage.needs) and not (stage.lane and any(r.stage.lane == stage.lane for r in self.running))

    def start_due(self):
        for stage in list(self.waiting):
            broken = [n for n in stage.needs if n in self.broken]
            if broken:
                self.waiting.remove(stage)
                self.broken.add(stage.name)
                self.over.add(stage.name)
                self.report.not_run(stage, broken[0])
            elif self.due(stage):
                self.waiting.remove(stage)
                self.running.append(Running(stage))

    def take_finished(self):
        for running in list(self.running):
            if not running.finished():
                continue
            self.running.remove(running)
            count = running.count()
            stage = running.stage
            self.report.stage_over(running, count)
            self.over.add(stage.name)
            if stage.kind == "one" and count.failed:
                self.broken.add(stage.name)
            if stage.again and 0 < count.failed <= AGAIN_MOST and running.process.status != TOOK_TOO_LONG:
                self.ask_again.append((stage, count))

    def run(self):
        while self.waiting or self.running:
            self.start_due()
            time.sleep(PAUSE_S)
            self.take_finished()
        for stage, first in self.ask_again:  # what failed in a busy moment may pass alone: told, and no secret
            again = Running(stage, stage.again, stage.log + ".again")
            self.running = [again]
            while not again.finished():
                time.sleep(PAUSE_S)
            self.report.stage_over(again, again.count(), first)

    def end(self):
        for r in self.running:
            r.process.end()
        while any(not r.process.finished() for r in self.running):
            time.sleep(PAUSE_S)


def choose(names, every):
    """The named stages and what they need, in the table's order."""
    wanted = set()
    todo = [s for n in names for s in stages.GROUPS.get(n, [n])]
    while todo:
        name = todo.pop()
        if name not in every:
            raise SystemExit(f"tests/run: no stage {name}; there are: {' '.join([*every, *stages.GROUPS])}")
        if name not in wanted:
            wanted.add(name)
            todo += every[name].needs
    if "autoreconf" in wanted and "autoreconf" not in names and os.path.exists(os.path.join(stages.TOP, "configure")):
        wanted.discard("autoreconf")  # make does it when it is due
    chosen = [s for s in every.values() if s.name in wanted]
    for s in chosen:
        s.needs = [n for n in s.needs if n in wanted]
    return chosen


def parse(argv):
    parser = argparse.ArgumentParser(prog="tests/run", add_help=False)
    parser.add_argument("stages", nargs="*")
    parser.add_argument("-k", metavar="NAME")
    parser.add_argument("--since", metavar="COMMIT")
    parser.add_argument("--list", action="store_true")
    return parser.parse_args(argv)


def main(argv):
    options = parse(argv)
    words = ["-k", options.k] if options.k else []
    names = options.stages
    if options.k and names == ["net"]:
        names = ["net-gcc"]
    if names == ["changed"]:
        choice = changed.choose(stages.TOP, options.since)
        say("\n".join(choice.said))
        names, words = stages.QUICK + choice.stages, choice.words + words
    elif names == ["quick"]:
        names = stages.QUICK
    every = stages.table(words)
    if options.list:
        say(" ".join(every))
        say("groups: " + " ".join([*stages.GROUPS, "quick", "changed"]))
        return 0
    names = names or [n for n in every if n not in stages.ON_REQUEST]
    os.chdir(stages.TOP)
    os.makedirs(stages.LOG, exist_ok=True)
    report = Report()
    scheduler = Scheduler(choose(names, every), report)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))
    own = tempfile.mkdtemp(prefix="ew", dir=stages.scratch())
    os.chmod(own, 0o755)  # some programs under test are not root
    for stage in scheduler.waiting:
        stage.env["TMPDIR"] = own
    try:
        scheduler.run()
    except (KeyboardInterrupt, SystemExit):
        scheduler.end()
        report.end()
        return 130
    finally:
        shutil.rmtree(own, ignore_errors=True)
    return report.end()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

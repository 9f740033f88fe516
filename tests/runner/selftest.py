#!/usr/bin/python3
"""The runner's own tests (TAP): that what fails is counted, named and explained, that nothing runs on, and what a change leads to."""
import os
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import changed
import process
import results
import run
import stages

AUTOMAKE = """PASS: tests/unit/a_test 1 - fine
FAIL: tests/unit/a_test 2 - by_udp
ERROR: tests/unit/b_test - exited with status 139 (terminated by signal 11?)
# TOTAL: 3
# PASS:  1
# FAIL:  1
# ERROR: 1
"""
PYTEST = """tests/net/test_a.py::test_x[1] PASSED
FAILED tests/net/test_a.py::test_y[a - b] - AssertionError: assert 84 == 85
ERROR tests/net/test_b.py::test_z - lab.Timeout: 20000 failed
===== 1 failed, 7 passed, 1 error in 3.21s =====
"""


def told(kind, text, status):
    c = results.settle(kind, text, status)
    return c.passed, c.failed, c.names


def counts_automake():
    names = ["tests/unit/a_test 2 - by_udp", "tests/unit/b_test - exited with status 139 (terminated by signal 11?)"]
    assert told("automake", AUTOMAKE, 2) == (1, 2, names), told("automake", AUTOMAKE, 2)


def counts_pytest():
    assert told("pytest", PYTEST, 1) == (7, 2, ["tests/net/test_a.py::test_y[a - b]", "tests/net/test_b.py::test_z"]), told("pytest", PYTEST, 1)


def counts_tap():
    assert told("tap", "1..3\nok 1 - a\nnot ok 2 - b\n# why\nok 3 - c\n", 1) == (2, 1, ["b"])


def counts_what_breaks_without_a_test():
    assert told("pytest", "===== 5 passed in 1s =====\n", 124) == (5, 1, ["status 124"])
    assert told("one", "fatal error: no", 2) == (0, 1, ["status 2"])
    assert told("one", "", 0) == (1, 0, [])


def explains():
    assert results.complaints(["PASS: a", "FAIL: b 1 - c", "x.c:3:1: error: no", "not ok 3"]) == ["FAIL: b 1 - c", "x.c:3:1: error: no", "not ok 3"]
    assert results.explain_unit("ok 1\nnot ok 2 - b\n# 1 != 2\n# remark: long\n") == ["not ok 2 - b", "# 1 != 2"]


def slowest_first():
    assert results.slowest(["1.5 a", "12.25 b c", "3 d"], 2) == [(12.25, "b c"), (3.0, "d")]


def carry_out(argv, limit_s=60):
    with tempfile.TemporaryDirectory() as at:
        p = process.Process(argv, os.path.join(at, "log"), limit_s)
        while not p.finished():
            time.sleep(0.01)
        with open(os.path.join(at, "log"), encoding="utf-8") as f:
            return p, f.read()


def a_stage_tells_status_and_output():
    p, said = carry_out(["sh", "-c", "echo out; echo err >&2; exit 3"])
    assert (p.status, said) == (3, "out\nerr\n")


def a_stage_that_hangs_is_ended():
    p, said = carry_out(["sh", "-c", "trap 'echo interrupted; exit 1' INT; while :; do sleep 0.1; done"], limit_s=1)
    assert (p.status, said) == (process.TOOK_TOO_LONG, "interrupted\n"), (p.status, said)


def orphans_are_counted_and_ended():
    work = "import os; n = 0\nwhile os.times().user < 0.3: n += 1"
    # setsid forks where it leads a group: what it starts is nobody's child in the end
    p, said = carry_out(["sh", "-c", f"(setsid setsid {sys.executable} -c '{work}' | cat) & wait; (setsid sleep 100 & echo $!)"])
    assert p.cpu_s >= 0.3, p.cpu_s
    assert not os.path.exists(f"/proc/{said.strip()}"), "an orphan outlived its stage"


class FakeStage:
    def __init__(self, name, **more):
        self.name, self.told, self.kind = name, "/nowhere", "pytest"
        self.__dict__.update(more)


class FakeRunning:
    def __init__(self, stage):
        self.stage, self.log = stage, "/nowhere"
        self.process = FakeStage("p", wall_s=1, cpu_s=1, status=0)


def asked_again_is_told():
    report, running, said = run.Report(), FakeRunning(FakeStage("net-gcc")), []
    run.say, saved = said.append, run.say
    try:
        first = results.Count(10, 2, ["a::x", "a::y"])
        report.stage_over(running, first)
        report.stage_over(running, results.Count(1, 1, ["a::y"]), first)
    finally:
        run.say = saved
    assert (report.passed, report.failed, report.again) == (11, 1, ["net-gcc: a::x"]), (report.passed, report.failed, report.again)


def the_end_repeats_why():
    report, said = run.Report(), []
    os.makedirs(stages.LOG, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", suffix=".log") as log:
        log.write("round 1\n\nTraceback\n  File x\nRuntimeError: read 3\nmake: *** [bench] Error 1\n")
        log.flush()
        running = FakeRunning(FakeStage("bench"))
        running.log = log.name
        run.say, saved = lambda line="": said.append(line), run.say
        try:
            report.stage_over(running, results.Count(0, 1, ["status 2"]))
            del said[:]
            report.end()
        finally:
            run.say = saved
    assert said[-4:] == ["failed: bench: Traceback", "failed: bench:   File x", "failed: bench: RuntimeError: read 3", "0 passed, 1 failed"], said


def a_broken_build_fails_what_needs_it():
    report = run.Report()
    needs = stages.Stage("net", "pytest", 1, ["false"], ["gcc"])
    scheduler = run.Scheduler([needs], report)
    scheduler.broken, scheduler.over = {"gcc"}, {"gcc"}
    run.say, saved = lambda *_: None, run.say
    try:
        scheduler.start_due()
    finally:
        run.say = saved
    assert (report.failed, scheduler.waiting, scheduler.running) == (1, [], [])


def one_stage_at_a_time_in_a_lane():
    same, other, free = (stages.Stage("b", "one", 1, [], lane=lane) for lane in ("work", "net", None))
    scheduler = run.Scheduler([], run.Report())
    scheduler.running = [FakeRunning(stages.Stage("a", "one", 1, []))]
    assert not scheduler.due(same) and scheduler.due(other) and scheduler.due(free)


def the_longest_beginning_counts():
    rows = changed.parse_map("# what\ndns/  fuzz net:dns_*\ndns/udp.c net:path\n")
    assert changed.row_of("dns/udp.c", rows) == ("dns/udp.c", ["net:path"])
    assert changed.row_of("dns/tcp.c", rows) == ("dns/", ["fuzz", "net:dns_*"])
    assert changed.row_of("new/a.c", rows) is None
    assert changed.modules(["dns_*"], {"test_dns_table.py", "test_path.py"}) == {"test_dns_table.py"}


def helpers_lead_to_their_tests():
    sources = {"kit.py": "", "town.py": "from kit import x", "test_a.py": "import town", "test_b.py": "run('kit.py')", "test_c.py": "import kits"}
    assert changed.importers(sources, "kit.py") == {"test_a.py", "test_b.py"}
    assert changed.importers(sources, "test_c.py") == {"test_c.py"}


def new_files_are_changes():
    with tempfile.TemporaryDirectory() as top:
        def git(*argv):
            subprocess.run(["git", "-C", top, "-c", "user.name=a", "-c", "user.email=a@example.test", *argv], check=True, stdout=subprocess.DEVNULL)

        def write(name):
            with open(os.path.join(top, name), "w", encoding="utf-8") as f:
                f.write(name)
        git("init", "-q")
        for name in ("old", "edited", "committed"):
            write(name)
            git("add", name)
            if name != "committed":
                git("commit", "-q", "-m", name)
        git("tag", "since")
        git("commit", "-q", "-m", "committed")
        with open(os.path.join(top, "edited"), "a", encoding="utf-8") as f:
            f.write("more")
        write("new")
        assert changed.changed_files(top, "since")[1] == ["committed", "edited", "new"]


def fuzz_seconds_go_where_code_is_new():
    import importlib.util
    spec = importlib.util.spec_from_file_location("fuzz_run", os.path.join(stages.TOP, "tests", "fuzz", "run.py"))
    fuzz = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fuzz)
    assert fuzz.share_out(24, {"a": 30, "b": 10, "c": 0}) == {"a": 16, "b": 6, "c": 2}  # 18 to share
    assert fuzz.share_out(12, {"a": 0, "b": 0}) == {"a": 6, "b": 6}
    assert fuzz.changed_lines("3\t1\tdns/a.c\n-\t-\tx.png\n2\t0\tdns/a.c\n") == {"dns/a.c": 6}


TESTS = [counts_automake, counts_pytest, counts_tap, counts_what_breaks_without_a_test, explains, slowest_first, a_stage_tells_status_and_output,
         a_stage_that_hangs_is_ended, orphans_are_counted_and_ended, asked_again_is_told, the_end_repeats_why, a_broken_build_fails_what_needs_it,
         one_stage_at_a_time_in_a_lane, the_longest_beginning_counts, helpers_lead_to_their_tests, new_files_are_changes,
         fuzz_seconds_go_where_code_is_new]


def main():
    failed = 0
    print(f"1..{len(TESTS)}")
    for i, test in enumerate(TESTS, 1):
        try:
            test()
            print(f"ok {i} - {test.__name__}")
        except Exception as e:  # noqa: whatever it is, the test failed
            failed += 1
            print(f"not ok {i} - {test.__name__}\n# {type(e).__name__}: {e}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

"""The stages of tests/run as a table: what each needs, how long it may take, which of its tests are asked again. run.py carries them out.

Three lanes run beside each other: `work` keeps the processors busy, `net` waits more than it works, `serial` keeps one processor half busy. In
a lane one stage runs at a time.
"""
import os
import re
import shlex
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(TOP, "build")
LOG = os.path.join(BUILD, "log")
PYTHON = "/usr/bin/python3"
JOBS = os.cpu_count() or 1
WAITERS = 4 * JOBS  # tests at once, of those that mostly wait
FUZZ_TOTAL_S = int(os.environ.get("FUZZ_SECONDS") or 40)
CROSS = os.environ.get("CROSS", "armhf arm64")
# What crosses loops.
IN_TARBALL = "tests/lint/lint.py tests/fuzz/replay.sh tests/unit/model/kube_test tests/unit/hub/kube/reflector_test"
TSAN_TESTS = ("base/core/liveness base/core/loop base/core/log_queue base/tls/tls_handshake hub/ingress/bridge_worker hub/replicas/tunnel_session hub/replicas/tunnel_session_limits hub/replicas/tunnel_session_forward lb/proxy/lb lb/proxy/lb_relay lb/proxy/lb_dial lb/proxy/lb_turn lb/balance/balance dns/front/dns_server dns/dns_threads meta/state/store meta/client/hub_client").split()
# All that run code of others quickly link with it: the programs of distcheck and of the packages have the usual linker.
MOLD = "LDFLAGS=-fuse-ld=mold"
BUILDS = {
    "gcc": ["--enable-werror", MOLD],
    "clang": ["--enable-werror", "CC=clang", "CFLAGS=-O0 -g0 -U_FORTIFY_SOURCE", MOLD],  # for what it says alone
    "no-hub": ["--enable-werror", "--disable-hub", "CC=clang", "CFLAGS=-O0 -g0 -U_FORTIFY_SOURCE", MOLD],
    # with characters as they are on ARM
    "asan": ["--enable-werror", "--enable-sanitizers", "CFLAGS=-g1 -O1 -funsigned-char", MOLD],
    "tsan": ["CC=clang", "--enable-sanitizers=thread", "CFLAGS=-g1 -O1", MOLD],
    "fuzz": ["CC=clang", "--enable-fuzzing", "--enable-sanitizers", "CFLAGS=-g1 -O1", MOLD],
}
SANITIZED = ["-m", "not plain_build"]  # see tests/net/fixtures.py
ASAN_ENV = {"ASAN_OPTIONS": "detect_stack_use_after_return=1", "UBSAN_OPTIONS": "print_stacktrace=1"}


def scratch():
    """Where tests make their folders: memory, where there is enough of it, and programs and devices may lie there. None: as usual."""
    at, least_bytes = "/dev/shm", 8 << 30
    room = os.statvfs(at) if os.access(at, os.W_OK) else None
    fit = room and room.f_bavail * room.f_frsize >= least_bytes and not room.f_flag & (os.ST_NOEXEC | os.ST_NODEV)
    return at if fit else None


def folder(build):
    return os.path.join(BUILD, build)


def shell(*lines):
    return ["bash", "-c", "set -e\n" + "\n".join(lines)]


def build(kind, *goals):
    """Configures, where that was not done or with other options, and makes one goal after the other: `all` is a make of its own, which another
    goal beside it would race."""
    at, options = folder(kind), shlex.join(BUILDS[kind])
    said = shlex.quote(os.path.join(at, "options"))
    return shell(f"mkdir -p {at} && cd {at}",
                 f"if [ ! -f Makefile ] || [ \"$(cat {said} 2>/dev/null)\" != {shlex.quote(options)} ]; then",
                 f"    {TOP}/configure {options} >configure.out 2>&1 || {{ tail -n 15 configure.out; exit 1; }}",
                 f"    printf %s {shlex.quote(options)} >{said}",
                 "fi", *(f"make -j{JOBS} {goal}" for goal in goals))


def without_hub(kind):
    """That it installs agent and edgewayctl, that they run, and what they load: not what is the hub's alone."""
    programs = "edgeway-agent edgewayctl"
    return shell(build(kind, "all")[-1], "rm -rf root && make install DESTDIR=$PWD/root >install.out",
                 f"test \"$(ls root/usr/local/bin root/usr/local/sbin | grep edgeway | sort | xargs)\" = '{programs}'",
                 f"for program in {programs}; do ./$program --version; done",
                 f"readelf -d {programs} | grep NEEDED >needed", "grep -q libuv needed", "! grep libcurl needed")


def make(kind, *words, jobs=JOBS):
    return ["make", "-C", folder(kind), f"-j{jobs}", *words]


def check(kind):
    """Tests whose program is not older than their last result, and passed, are not run again. Programs first: tests wait more than they work."""
    return shell(f"cd {folder(kind)}",
                 "grep -lE '^:test-global-result: (FAIL|ERROR)' $(find tests -name '*.trs') /dev/null | sed 's/trs$/log/' | xargs -r rm -f",
                 f"make -j{JOBS} -k tests",
                 f"exec make -j{WAITERS} -k check RECHECK_LOGS=")


def pytest(kind, *words):
    """The plugin tells the runner how each test went."""
    return [PYTHON, "-m", "pytest", "-v", "-rfE", "--tb=short", "-p", "tests.runner.plugin", "-o", f"cache_dir={BUILD}/net-{kind}", *words]


def net(kind, *words, at_once=WAITERS):
    """words: modules (without any: all of them) and options of pytest."""
    folders = ["tests/net", "tests/attacks"] if kind == "asan" else ["tests/net"]
    modules = [] if any(w.endswith(".py") for w in words) else folders
    return pytest(kind, "-n", str(at_once), *modules, *words)


class Stage:
    def __init__(self, name, kind, limit_s, argv, needs=(), lane="work", again=None, build=None, env=None):
        """kind: how results.py counts; lane: where one stage runs at a time, None: at any time; again: the command for those that failed;
        build: top_builddir of the tests, and their results."""
        self.name, self.kind, self.limit_s, self.argv = name, kind, limit_s, argv
        self.needs, self.lane, self.again = list(needs), lane, again
        self.build = build and folder(build)
        self.env = {**os.environ, **(env or {}), "top_srcdir": TOP, "TOLD": os.path.join(LOG, f"{name}.told"),
                    # compiled once, and not beside the sources
                    "PYTHONPYCACHEPREFIX": os.path.join(BUILD, "pycache"), "PYTHONDONTWRITEBYTECODE": ""}
        if self.build:
            self.env["top_builddir"] = self.build

    @property
    def log(self):
        return os.path.join(LOG, f"{self.name}.log")

    @property
    def told(self):
        """Lines `SECONDS NAME` of its tests."""
        return self.env["TOLD"]


def table(words=()):
    """words: for pytest of tests/net."""
    formatted = "find base model dns lb iptables meta tracing tunnel hub src tests bench -name '*.[ch]' | xargs clang-format --dry-run -Werror"
    tsan = " ".join(f"tests/unit/{t}_test" for t in TSAN_TESTS)
    fuzzers = "fuzz FUZZ_TOTAL=" + str(FUZZ_TOTAL_S)
    stages = [
        Stage("autoreconf", "one", 180, ["autoreconf", "-fi"]),
        Stage("format", "one", 120, ["sh", "-c", formatted], lane=None),
        Stage("lint", "tap", 120, [PYTHON, "tests/lint/lint.py"], lane=None),
        Stage("runner", "tap", 120, [PYTHON, "tests/runner/selftest.py"], lane=None),
        Stage("collect", "one", 120, shell(*(f"{PYTHON} -m pytest -q --collect-only -p no:cacheprovider tests/{d}" for d in ("net", "attacks"))), lane=None),
        Stage("gcc", "one", 900, build("gcc", "all", "bench/agents"), ["autoreconf"]),
        Stage("units", "automake", 900, check("gcc"), ["gcc"], again=make("gcc", "recheck"), build="gcc"),
        Stage("asan", "one", 900, build("asan", "all", "bench/agents"), ["autoreconf"]),
        Stage("net-gcc", "pytest", 2400, net("gcc", *words), ["gcc", "collect"], lane="net", again=net("gcc", "--last-failed", at_once=0), build="gcc"),
        Stage("net-asan", "pytest", 2400, net("asan", *SANITIZED, *words), ["asan", "collect"], lane="net",
              again=net("asan", *SANITIZED, "--last-failed", at_once=0),
              build="asan", env=ASAN_ENV),
        Stage("attacks", "pytest", 2400, pytest("attacks", "-n", str(WAITERS), "tests/attacks"), ["asan", "collect"], lane="net", build="asan", env=ASAN_ENV),
        Stage("debian", "pytest", 3600, pytest("debian", "tests/packages"), ["gcc"], lane="serial", again=pytest("debian", "tests/packages", "--last-failed"),
              build="gcc"),
        Stage("asan-units", "automake", 1200, check("asan"), ["asan"], again=make("asan", "recheck"), build="asan", env=ASAN_ENV),
        Stage("clang", "one", 900, build("clang", "all", "tests"), ["autoreconf"]),
        Stage("no-hub", "one", 600, without_hub("no-hub"), ["autoreconf"]),
        # Address randomisation off: clang 14's runtime does not know this kernel's layout.
        Stage("tsan", "automake", 900, build("tsan", f"-k check TESTS='{tsan}' LOG_COMPILER='setarch -R'"), ["autoreconf"], build="tsan",
              env={"TSAN_OPTIONS": "halt_on_error=1"}),
        Stage("fuzz", "tap", 1200, build("fuzz", fuzzers), ["autoreconf"]),
        # That the tarball is whole: it is built, installed, removed, and the tests are run that read other files than their own.
        Stage("distcheck", "one", 1200, make("gcc", "distcheck", f"TESTS={IN_TARBALL}", "AM_DISTCHECK_CONFIGURE_FLAGS=CFLAGS='-O0 -U_FORTIFY_SOURCE'"), ["gcc"],
              env={"XZ_OPT": "-1"}),
        Stage("bench", "one", 900, make("gcc", "bench", "BENCH=smoke"), ["gcc"], again=make("gcc", "bench", "BENCH=smoke")),
        Stage("quickstart", "one", 900, ["deploy/quickstart", "--build", folder("gcc")], ["gcc"], lane="serial"),
        Stage("quickstart-plain", "one", 600, ["deploy/quickstart", "--plain", "--build", folder("gcc")], ["gcc"], lane="serial"),
        Stage("cross-arm", "automake", 3600, ["deploy/build-for", "--check", "--cflags", "-O1 -g0", *CROSS.split()]),
        Stage("cross-trixie", "automake", 3600, ["deploy/build-for", "--check", "--cflags", "-O1 -g0", "--release", "trixie", "amd64"]),
    ]
    return {s.name: s for s in stages}


GROUPS = {"cross": ["cross-arm", "cross-trixie"], "net": ["net-gcc", "net-asan"], "quickstarts": ["quickstart", "quickstart-plain"]}
ON_REQUEST = ["attacks", *GROUPS["cross"]]  # only when named; net-asan has the attacks in it
QUICK = ["format", "lint", "runner", "gcc", "units"]

"""One stage's command: in a session of its own, with a time limit, and with everything that it starts accounted for and ended.

    p = Process(["make", "check"], "units.log", limit_s=900)
    while not p.finished():
        ...
    p.status, p.wall_s, p.cpu_s

A keeper process stands between: orphans become its children (PR_SET_CHILD_SUBREAPER), so that their CPU time is counted and none outlives the stage.
"""
import ctypes
import json
import os
import signal
import subprocess
import time

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
TOOK_TOO_LONG = 124  # the status that timeout(1) gives
GRACE_S = 30  # between the request to end and SIGKILL
_libc = ctypes.CDLL(None)


class Process:
    def __init__(self, argv, log, limit_s, env=None):
        self.started = time.monotonic()
        self.status = self.wall_s = self.cpu_s = None
        self.result, w = os.pipe()
        self.keeper = os.fork()
        if self.keeper == 0:
            try:
                os.close(self.result)
                _keep(argv, log, limit_s, env, w)
            finally:
                os._exit(1)
        os.close(w)

    def finished(self):
        if self.status is None and os.waitpid(self.keeper, os.WNOHANG)[0] == self.keeper:
            told = os.read(self.result, 4096)
            os.close(self.result)
            self.status, self.cpu_s = json.loads(told) if told else (-1, 0.0)
            self.wall_s = time.monotonic() - self.started
        return self.status is not None

    def end(self):
        """The keeper ends the stage and what it started; returns at once."""
        if self.status is None:
            os.kill(self.keeper, signal.SIGTERM)


class _Late(Exception):
    pass


class _Ended(Exception):
    pass


def _raise(what):
    def handler(*_):
        raise what
    return handler


def _children():
    found = []
    for task in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{task}/children") as f:
            found += map(int, f.read().split())
    return found


def _end_children():
    """SIGKILL, again and again: the children of the dead become ours."""
    while True:
        for pid in _children():
            os.kill(pid, signal.SIGKILL)
        try:
            os.wait()
        except ChildProcessError:
            return


def _wait_for(child):
    while True:
        pid, status = os.wait()
        if pid == child:
            return os.waitstatus_to_exitcode(status)


def _keep(argv, log, limit_s, env, w):
    os.setsid()
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    _libc.prctl(PR_SET_CHILD_SUBREAPER, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with open(log, "ab") as out:
        p = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=env,
                             preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    signal.signal(signal.SIGTERM, _raise(_Ended))
    signal.signal(signal.SIGALRM, _raise(_Late))
    signal.alarm(int(limit_s))
    try:
        status = _wait_for(p.pid)
    except (_Late, _Ended) as why:
        late = isinstance(why, _Late)
        try:  # pytest tells what it has when it is interrupted
            signal.alarm(GRACE_S if late else 5)
            p.send_signal(signal.SIGINT)
            _wait_for(p.pid)
        except (_Late, _Ended):
            pass
        status = TOOK_TOO_LONG if late else -signal.SIGTERM
    signal.alarm(0)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _end_children()
    used = os.times()
    os.write(w, json.dumps([status, used.children_user + used.children_system]).encode())
    os._exit(0)

"""Python scripts in a machine without another start of Python: a fork of this process, which has most of what they import. A start
takes 70 ms of processor, a fork 5, and a run of the tests has two thousand of them.
"""
import ctypes
import functools
import gc
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
import types
# For the scripts: imported once.
import argparse, hashlib, http.server, selectors, socketserver, ssl  # noqa: F401,E401

_libc = ctypes.CDLL(None, use_errno=True)


@functools.lru_cache(maxsize=None)
def _code(path):
    with open(path, encoding="utf-8") as f:
        return compile(f.read(), path, "exec")


def _become(pid, argv, out):
    """In the child: the namespaces of `pid`, no descriptor but `out`, and the signals as a new program has them."""
    gc.freeze()  # what the parent has left unused would close descriptors by their numbers, which are others' here
    for namespace in ("mnt", "net"):
        fd = os.open(f"/proc/{pid}/ns/{namespace}", os.O_RDONLY)
        if _libc.setns(fd, 0) != 0:
            raise OSError(ctypes.get_errno(), f"setns: {namespace}")
        os.close(fd)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(out.fileno(), 1)
    os.dup2(1, 2)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w", buffering=1)
    for s in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCHLD):
        signal.signal(s, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = argv
    sys.path.insert(0, os.path.dirname(argv[0]))


def _run(code, path):
    """The exit status."""
    main = types.ModuleType("__main__")
    main.__file__ = path
    sys.modules["__main__"] = main
    try:
        exec(code, main.__dict__)
    except SystemExit as e:
        if e.code is None or isinstance(e.code, int):
            return e.code or 0
        print(e.code, file=sys.stderr)
        return 1
    return 0


class Forked:
    """As subprocess.Popen. argv: a script and its words, in the namespaces of the process `pid`; standard input is empty."""

    def __init__(self, pid, argv, stdin, stdout, stderr, preexec_fn):
        self.args, self.returncode, self.lock = argv, None, threading.Lock()
        code = _code(argv[0])
        self.pid = os.fork()
        if self.pid != 0:
            return
        status = 1
        try:
            preexec_fn()
            _become(pid, argv, stdout)
            status = _run(code, argv[0])
            for thread in threading.enumerate():
                if thread is not threading.current_thread() and not thread.daemon:
                    thread.join()
            sys.stdout.flush()
        except BaseException:
            traceback.print_exc(file=sys.stderr)
        finally:
            os._exit(status)

    def poll(self):
        with self.lock:
            if self.returncode is None:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                if pid != 0:
                    self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout=None):
        end, pause = time.monotonic() + (timeout or float("inf")), 0.001
        while self.poll() is None:
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired(self.args, timeout)
            time.sleep(pause)
            pause = min(2 * pause, 0.05)
        return self.returncode

    def send_signal(self, sig):
        if self.poll() is None:
            os.kill(self.pid, sig)

    def kill(self):
        self.send_signal(signal.SIGKILL)

    def terminate(self):
        self.send_signal(signal.SIGTERM)

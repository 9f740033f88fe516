#!/usr/bin/python3
"""Executes a command under a profile of deploy/seccomp, as a container runtime does: profiled.py PROFILE [--kill] COMMAND...

--kill: what the profile refuses ends the process with SIGSYS, so that no refusal can pass unseen."""
import ctypes
import json
import os
import sys

KILL_PROCESS, ALLOW, ERRNO = 0x80000000, 0x7FFF0000, 0x00050000
MASKED_EQ = 7


class Compare(ctypes.Structure):
    _fields_ = [("arg", ctypes.c_uint), ("op", ctypes.c_int), ("a", ctypes.c_uint64), ("b", ctypes.c_uint64)]


def must(rc):
    if rc < 0:
        sys.exit(f"profiled: libseccomp: {os.strerror(-rc)}")
    return rc


def install(profile, kill):
    lib = ctypes.CDLL("libseccomp.so.2")
    lib.seccomp_init.restype = ctypes.c_void_p
    lib.seccomp_init.argtypes = [ctypes.c_uint32]
    lib.seccomp_rule_add_array.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int, ctypes.c_uint, ctypes.POINTER(Compare)]
    lib.seccomp_load.argtypes = [ctypes.c_void_p]
    assert profile["defaultAction"] == "SCMP_ACT_ERRNO"
    ctx = lib.seccomp_init(KILL_PROCESS if kill else ERRNO | profile["defaultErrnoRet"])
    for rule in profile["syscalls"]:
        action = ALLOW if rule["action"] == "SCMP_ACT_ALLOW" else ERRNO | rule["errnoRet"]
        args = [Compare(a["index"], {"SCMP_CMP_MASKED_EQ": MASKED_EQ}[a["op"]], a["value"], a["valueTwo"]) for a in rule.get("args", [])]
        if action == ERRNO | profile["defaultErrnoRet"] and not kill:
            continue  # as runc and crun do
        for name in rule["names"]:
            nr = lib.seccomp_syscall_resolve_name(name.encode())
            if nr >= 0:  # else of another architecture
                must(lib.seccomp_rule_add_array(ctx, action, nr, len(args), (Compare * len(args))(*args)))
    must(lib.seccomp_load(ctx))


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as f:
        read = json.load(f)
    kill = sys.argv[2] == "--kill"
    install(read, kill)
    command = sys.argv[2 + kill:]
    os.execvp(command[0], command)

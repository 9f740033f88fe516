"""OpenTelemetry's own message types, as its exporter for Node.js carries them (protobuf.js, generated from opentelemetry-proto), out
of the npm registry, fetched once for a build. No collector is in Debian: they are what reads our spans beside collector.py.

    reader = otlp.reader()              # None: otlp.installed() tells why
    assert reader.complaint(body) == ""
"""
import base64
import functools
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import threading

from lab import TOP

BUILD = os.path.abspath(os.environ.get("top_builddir") or os.path.join(TOP, "build", "gcc"))
SCRIPT = os.path.join(TOP, "tests", "net", "otlp_reader.js")
PACKAGES = {  # and the SHA-512 of each archive
    "@opentelemetry/otlp-transformer@0.208.0": "DCFPY8C6lAQHUNkzcNT9R+qYExvsk6C5Bto2pbNxgicpcSWbe2WHShLxkOxIdNcBiYPdVHv/e7vH7K6TI+C+fQ==",
    "protobufjs@7.5.4": "CvexbZtbov6jW2eXAvLukXjXUW1TzFaivC46BpWc/3BpcCysb5Vffu+B3XHMm8lVEuy2Mm4XGex8hBSg1yapPg==",
    "long@5.3.2": "mNAgZ1GmyNhD7AuqnTG3/VQ26o760+ZYBPKjPvugO8+nLbYfX6TVpJPseBvopbdY+qpZ/lKUnmEc1LeZYS3QAA==",
    "@protobufjs/aspromise@1.1.2": "j+gKExEuLmKwvz3OgROXtrJ2UG2x8Ch2YZUxahh+s1F2HZ+wAceUNLkvy6zKCPVRkU++ZWQrdxsUeQXmcg4uoQ==",
    "@protobufjs/base64@1.1.2": "AZkcAA5vnN/v4PDqKyMR5lx7hZttPDgClv83E//FMNhR2TMcLUhfRUBHCmSl0oi9zMgDDqRUJkSxO3wm85+XLg==",
    "@protobufjs/eventemitter@1.1.1": "vW1GmwMZNnL+gMRaovlh9yZX74kc+TTU3FObkkurpMaRtBfLP3ldjS9KQWlwZgraRE0+dheEEoAxdzcJQ8eXZg==",
    "@protobufjs/float@1.0.2": "Ddb+kVXlXst9d+R9PfTIxh1EdNkgoRe5tOX6t01f1lYWOvJnSPDBlG241QLzcyPdoNTsblLUdujGSE4RzrTZGQ==",
    "@protobufjs/inquire@1.1.2": "pa0vFRuws4wkvaXKK1uXZMAwAX4/t8ANaJo45iw/oQHNQ9q5xUzwgFmVJGXiga2BeN+zpX7Vf9vmsiIa2J+MUw==",
    "@protobufjs/pool@1.1.0": "0kELaGSIDBKvcgS4zkjz1PeddatrjYcmMWOlAuAPwAeccUrPHdUqo/J6LiymHHEiJT5NrF1UVwxY14f+fy4WQw==",
    "@protobufjs/utf8@1.1.2": "b1UQwcEZ4yCnMCD8DAL1VlbvBJE9/IX4FTIp7BG1xYpf29SLazLSrqUkj4w7Y5y7cCVP6E5tcqqcI0xemPkHug==",
}
PATH = os.path.join(BUILD, "otlp-0.208.0", "node_modules")


class Absent(Exception):
    """The registry is out of reach."""


def unpack(folder, package, archive):
    with open(os.path.join(folder, archive), "rb") as f:
        digest = base64.b64encode(hashlib.sha512(f.read()).digest()).decode()
    assert digest == PACKAGES[package], f"{package} is another one than it was"
    to = os.path.join(folder, "made", "node_modules", package.rpartition("@")[0])
    os.makedirs(to)
    subprocess.run(["tar", "-xf", os.path.join(folder, archive), "--strip-components=1", "-C", to], check=True)


def fetch():
    folder = tempfile.mkdtemp(dir=BUILD, prefix="otlp-")
    try:
        for package in PACKAGES:
            try:
                p = subprocess.run(["npm", "pack", "--silent", package], cwd=folder, text=True, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, timeout=120)
            except (OSError, subprocess.TimeoutExpired) as e:
                raise Absent(f"npm: {e}") from e
            if p.returncode != 0:
                raise Absent(f"npm does not give {package}: {p.stdout[-300:]}")
            unpack(folder, package, p.stdout.split()[-1])
        try:
            os.rename(os.path.join(folder, "made"), os.path.dirname(PATH))
        except OSError:
            assert os.path.isdir(PATH)  # another test was faster
    finally:
        shutil.rmtree(folder)


class Reader:
    """One node for the whole run, which ends with it: its types take a while to load."""

    def __init__(self):
        self.lock = threading.Lock()
        self.node = subprocess.Popen(["node", SCRIPT, PATH], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def complaint(self, body):
        with self.lock:
            self.node.stdin.write(json.dumps(json.loads(body)) + "\n")
            self.node.stdin.flush()
            answer = self.node.stdout.readline()
        assert answer.endswith("\n"), "the reader is gone"
        return answer.strip()


@functools.lru_cache()
def installed():
    """"" or why not."""
    try:
        if not os.path.isdir(PATH):
            fetch()
    except Absent as e:
        return str(e)
    return "" if shutil.which("node") else "there is no node"


@functools.lru_cache()
def reader():
    return None if installed() else Reader()

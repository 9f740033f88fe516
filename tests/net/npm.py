"""Packages of the npm registry that tests need, fetched once for a build; each is the very archive that was looked at (its hash).

    folder = unpacked("@scope/name@1.2.3", SHA512, "package/lib/*.d.ts")     # .../package is in it, what the patterns name alone
"""
import base64
import hashlib
import os
import re
import subprocess
import tempfile

from lab import TOP

BUILD = os.path.abspath(os.environ.get("top_builddir") or os.path.join(TOP, "build", "gcc"))


def unpacked(package, sha512, *patterns):
    path = os.path.join(BUILD, "npm-" + re.sub(r"\W+", "-", package).strip("-"))
    if not os.path.exists(path):
        fetch(package, sha512, patterns, path)
    return path


def fetch(package, sha512, patterns, path):
    """The folder appears as a whole: several tests may want it at a time."""
    with tempfile.TemporaryDirectory(dir=BUILD, prefix="npm-fetch-") as folder:
        p = subprocess.run(["npm", "pack", "--silent", package], cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           stdin=subprocess.DEVNULL, timeout=300)
        assert p.returncode == 0, f"npm does not give {package}: {p.stderr}"
        archive = os.path.join(folder, p.stdout.split()[-1])
        with open(archive, "rb") as f:
            assert base64.b64encode(hashlib.sha512(f.read()).digest()).decode() == sha512, f"{package} is another one than it was"
        made = os.path.join(folder, "made")
        os.mkdir(made)
        subprocess.run(["tar", "-xf", archive, "-C", made, "--wildcards", *patterns], check=True, timeout=120)
        try:
            os.rename(made, path)
        except OSError:  # somebody was quicker
            assert os.path.isdir(path)

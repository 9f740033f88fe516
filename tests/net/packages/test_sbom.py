"""deploy/sbom: an SPDX 2.3 document that has what the specification asks for, every library of the programs, their licences; the same
bytes each time."""
import collections
import hashlib
import json
import os
import re
import runpy
import subprocess

import pytest

from lab import PATIENCE_S, TOP

pytestmark = pytest.mark.plain_build  # a document

BUILD = os.path.abspath(os.environ.get("top_builddir") or os.path.join(TOP, "build", "gcc"))
PROGRAMS = ("edgeway-agent", "edgeway-hub", "edgewayctl")
SCRIPT = os.path.join(TOP, "deploy", "sbom")
EPOCH = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000", "LC_ALL": "C"}


def run(*argv, **more):
    return subprocess.run(argv, text=True, capture_output=True, timeout=PATIENCE_S * 4, **more)


@pytest.fixture(scope="module")
def document():
    p = run("make", "-s", "-C", BUILD, "sbom", env=EPOCH)
    assert p.returncode == 0, p.stderr
    [version] = re.findall(r"^AC_INIT\(\[edgeway\], \[(.*?)\]", open(os.path.join(TOP, "configure.ac")).read(), re.M)
    with open(os.path.join(BUILD, f"edgeway-{version}.spdx.json")) as f:
        return json.load(f)


@pytest.fixture(scope="module")
def named(document):
    return {p["name"]: p for p in document["packages"]}


def needed(program):
    return set(re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-dW", os.path.join(BUILD, program)).stdout))


def test_required_fields(document):
    """SPDX 2.3, clauses 6, 7, 10 and 11."""
    assert (document["spdxVersion"], document["dataLicense"], document["SPDXID"]) == ("SPDX-2.3", "CC0-1.0", "SPDXRef-DOCUMENT")
    assert document["name"] and re.fullmatch(r"https://[^#\s]+", document["documentNamespace"])
    assert document["creationInfo"]["created"] == "2023-11-14T22:13:20Z"
    assert all(re.match(r"(Person|Organization|Tool): \S", c) for c in document["creationInfo"]["creators"])
    ids = [p["SPDXID"] for p in document["packages"]]
    assert len(ids) == len(set(ids)) and all(re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", i) for i in ids)
    own = {x["licenseId"] for x in document.get("hasExtractedLicensingInfos", ())}
    assert all(x["extractedText"].strip() for x in document.get("hasExtractedLicensingInfos", ()))
    for p in document["packages"]:
        assert p["name"] and p["downloadLocation"] == "NOASSERTION" and p["filesAnalyzed"] is False and p["copyrightText"]
        for licence in (p["licenseDeclared"], p["licenseConcluded"]):
            words = set(re.split(r" (?:AND|OR) ", licence))
            assert all(re.fullmatch(r"[A-Za-z0-9.-]+", w) and (w in own or not w.startswith("LicenseRef-")) for w in words), p
    for r in document["relationships"]:
        assert {r["spdxElementId"], r["relatedSpdxElement"]} <= {"SPDXRef-DOCUMENT", *ids}
        assert r["relationshipType"] in ("DESCRIBES", "GENERATED_FROM", "DYNAMIC_LINK", "STATIC_LINK", "RUNTIME_DEPENDENCY_OF")


def test_every_library(document, named):
    """All that an ELF file names is there, with the version that dpkg has; so is what these libraries name in turn."""
    links = collections.defaultdict(set)
    by_id = {p["SPDXID"]: p for p in document["packages"]}
    for r in document["relationships"]:
        if r["relationshipType"] == "DYNAMIC_LINK":
            links[r["spdxElementId"]].add((r["comment"], r["relatedSpdxElement"]))
    for program in PROGRAMS:
        found = links[named[program]["SPDXID"]]
        assert {comment for comment, _ in found} == {f"NEEDED {n}" for n in needed(program)} and len(found) > 3
        assert all(by_id[other]["versionInfo"] for _, other in found)
    libraries = [p for p in document["packages"] if p.get("sourceInfo", "").startswith("built from")]
    lines = run("dpkg-query", "-W", "-f", "${Package} ${Version} ${source:Package} ${source:Version}\n").stdout.splitlines()
    installed = {tuple(line.split()) for line in lines}
    for p in libraries:
        assert (p["name"], p["versionInfo"], *p["sourceInfo"].split()[-2:]) in installed
        assert p["externalRefs"][0]["referenceLocator"].startswith(f"pkg:deb/debian/{p['name'].replace('+', '%2B')}@")
    assert {"libc6", "libcjson1", "libbrotli1", "libwebsockets-evlib-uv"} <= {p["name"] for p in libraries}


def test_licences(named):
    for program in PROGRAMS:
        licence = "GPL-3.0-or-later" if "libnftnl.so.11" in needed(program) else "Apache-2.0"
        with open(os.path.join(BUILD, program), "rb") as f:
            digest = hashlib.sha256(f.read()).hexdigest()
        assert (named[program]["licenseDeclared"], named[program]["checksums"][0]["checksumValue"]) == (licence, digest)
    assert [named[n]["licenseDeclared"] for n in ("edgeway", *PROGRAMS)] == ["Apache-2.0", "GPL-3.0-or-later", "GPL-3.0-or-later", "Apache-2.0"]
    assert (named["libnftnl11"]["licenseDeclared"], named["libcjson1"]["licenseDeclared"]) == ("GPL-2.0-or-later", "MIT")
    with open(os.path.join(TOP, "README.md")) as f:
        assert "the binaries of agent and hub, which link it, are under GPL-3 terms" in f.read()


def test_compiled_in(document, named):
    with open(os.path.join(BUILD, "Makefile")) as f:
        source = re.search(r"^LLHTTP_SOURCE = (.*)$", f.read(), re.M).group(1)
    inside = {r["spdxElementId"] for r in document["relationships"] if r["relationshipType"] == "STATIC_LINK"}
    assert inside == ({f"SPDXRef-Program-{p}" for p in PROGRAMS} if source else set())
    assert not source or (named["llhttp"]["licenseDeclared"] == "MIT" and "node-llhttp" in named["llhttp"]["sourceInfo"])


def test_same_bytes():
    program = os.path.join(BUILD, "edgewayctl")
    texts = [run(SCRIPT, "--version", "1", program, env={**EPOCH, "SOURCE_DATE_EPOCH": t}) for t in ("5", "5", "6")]
    assert all(p.returncode == 0 and p.stdout for p in texts)
    assert texts[0].stdout == texts[1].stdout
    first, last = json.loads(texts[0].stdout), json.loads(texts[2].stdout)
    assert (first["creationInfo"]["created"], last["creationInfo"]["created"]) == ("1970-01-01T00:00:05Z", "1970-01-01T00:00:06Z")
    assert first["documentNamespace"] != last["documentNamespace"] and first["packages"] == last["packages"]


def test_no_program():
    p = run(SCRIPT, "--version", "1", SCRIPT)
    assert p.returncode == 1 and "sbom: readelf" in p.stderr and p.stdout == ""


@pytest.mark.parametrize("debian,spdx", [
    ("Expat", "MIT"), ("GPL-2+", "GPL-2.0-or-later"), ("LGPL-2.1", "LGPL-2.1-only"), ("BSD-3-clause or GPL-2", "BSD-3-Clause OR GPL-2.0-only"),
    ("ISC and Zlib", "ISC AND Zlib"), ("GPL-2 and/or MIT", "GPL-2.0-only OR MIT"), ("MIT or ISC, and Zlib", "NOASSERTION"),
    ("", "NOASSERTION"), ("GPL-2+ with X exception", "LicenseRef-src-GPL-2-with-X-exception")])
def test_expression(debian, spdx):
    module = runpy.run_path(SCRIPT)
    reader = module["Copyright"](module["Package"]("nobody-has-this", "1", "src", "1", "all", ""))
    assert reader.expression(debian) == spdx
    assert [x for x in re.findall(r"LicenseRef\S+", spdx) if x not in reader.texts] == []

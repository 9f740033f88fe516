"""What the agent's DNS says, row by row: name, type and flags to rcode, flags, sections and TTLs.

Rows are asked with dnspython by UDP from a pod (TCP and dig where the id says so) at a real agent with a real upstream.
Answers are told as text: rcode and flags, then the records of each section; <web> stands for the service's fake address.
"""
import re
import socket
import struct
import threading

import dns.edns
import dns.flags
import dns.message
import dns.opcode
import dns.rcode
import dns.rdataclass
import dns.rdatatype
import pytest

import lab as labs
from dnskit import D, SERVER, framed, read_framed, socket_in

BIG_PORTS = 240
WEB, DB, OUT, IN = (f"{n}.svc.{D}" for n in ("web.default", "db.shop", "out.default", "in.default"))
BIG = f"big.default.svc.{D}"
SET, IDLE = f"set.shop.svc.{D}", f"idle.shop.svc.{D}"
FIRST, OVER, LOST = (f"{n}.shop.svc.{D}" for n in ("first", "over", "lost"))
SET_0, SET_1, SET_2 = (f"set-{i}.{SET}" for i in range(3))  # set-1 is not ready
SOA = f"ns: {D}. 5 SOA"
AA = "NOERROR aa rd ra"
NODATA, NX = f"{AA}; {SOA}", f"NXDOMAIN aa rd ra; {SOA}"
OPT = "opt: 1232"


def refused(rcode):
    return f"{rcode} rd ra"


def a_of(service, name):
    return f"{AA}; an: {name}. 30 A <{service}>"


def srv_of(owner, port, target=WEB, service="web"):
    return f"{AA}; an: {owner}. 30 SRV 0 100 {port} {target}.; ar: {target}. 30 A <{service}>"


def srv_of_pods(owner, *ports):
    """SRV of a headless service: each pod that serves, under its own name."""
    pods = ((SET_0, "set-0"), (SET_2, "set-2"))
    return (f"{AA}; an: " + " / ".join(f"{owner}. 30 SRV 0 100 {p} {n}." for p in ports for n, _ in pods)
            + "; ar: " + " / ".join(f"{n}. 30 A <{key}>" for n, key in pods))


RANGE_SOA = "ns: 251.9.in-addr.arpa. 5 SOA"
RANGE_NX, RANGE_NODATA = f"NXDOMAIN aa rd ra; {RANGE_SOA}", f"{AA}; {RANGE_SOA}"


# --- questions -----------------------------------------------------------------------


def query(name, rtype="A", flags="RD", rdclass="IN", opcode=0, **edns):
    m = dns.message.make_query(name, rtype, rdclass, **edns)
    m.flags = dns.flags.from_text(flags)
    m.set_opcode(opcode)
    return m.to_wire()


def header(id=1, flags=0x0100, counts=(1, 0, 0, 0)):
    return struct.pack("!6H", id, flags, *counts)


def question(name=WEB, rtype=1):
    labels = b"".join(bytes([len(x)]) + x.encode() for x in name.split("."))
    return labels + b"\0" + struct.pack("!HH", rtype, 1)


def opt(owner=b"\0", size=1232, version=0, data=b""):
    return owner + struct.pack("!HHBBHH", 41, size, 0, version, 0, len(data)) + data


def raw(behind=b"", counts=(1, 0, 0, 0), at=None, flags=0x0100):
    return header(counts=counts, flags=flags) + (question() if at is None else at) + behind


UNKNOWN = dns.edns.GenericOption(65001, b"whatever")
LONG = "a" * 63
NONAME = "FORMERR rd ra; no question"

# --- rows: (id, query, wanted) ----------------------------------------------------------

NAMES = [
    # services
    (WEB, "A", a_of("web", WEB)),
    (WEB, "AAAA", NODATA),
    (WEB, "MX", NODATA),
    (WEB, "TXT", NODATA),
    (WEB, "CNAME", NODATA),
    (WEB, "HTTPS", NODATA),
    (WEB, "NS", NODATA),
    (WEB, "SOA", NODATA),
    (WEB, "PTR", NODATA),
    (WEB, "TYPE65280", NODATA),
    (WEB, "ANY", a_of("web", WEB)),
    (WEB.upper(), "A", a_of("web", WEB.upper())),
    ("wEb.DeFaUlT.sVc.cLuStEr.LoCaL", "A", a_of("web", "wEb.DeFaUlT.sVc.cLuStEr.LoCaL")),
    ("wEb.DeFaUlT.sVc.cLuStEr.LoCaL", "AAAA", NODATA.replace(D, "cLuStEr.LoCaL")),
    (DB, "A", a_of("db", DB)),
    (DB, "AAAA", NODATA),
    (f"www.google.svc.{D}", "A", a_of("google", f"www.google.svc.{D}")),
    # what does not exist
    (f"gone.default.svc.{D}", "A", NX),
    (f"gone.default.svc.{D}", "AAAA", NX),
    (f"gone.default.svc.{D}", "SRV", NX),
    (f"gone.default.svc.{D}", "ANY", NX),
    (f"web.shop.svc.{D}", "A", NX),
    (f"we.default.svc.{D}", "A", NX),
    (f"web.defaul.svc.{D}", "A", NX),
    (f"web.default.sv.{D}", "A", NX),
    (f"web.{D}", "A", NX),
    (f"web.default.{D}", "A", NX),
    (f"x.{WEB}", "A", NX),
    (f"pod.{D}", "A", NODATA),
    (f"1-2-3-4.default.pod.{D}", "A", NX),
    (f"www.google.com.default.svc.{D}", "A", NX),
    (f"www.google.com.svc.{D}", "AAAA", NX),
    (f"www.google.com.{D}", "A", NX),
    (f"*.default.svc.{D}", "A", NX),
    # empty non-terminals
    (f"svc.{D}", "A", NODATA),
    (f"svc.{D}", "SRV", NODATA),
    (f"svc.{D}", "ANY", NODATA),
    (f"default.svc.{D}", "A", NODATA),
    (f"DEFAULT.svc.{D}", "AAAA", NODATA),
    (f"shop.svc.{D}", "A", NODATA),
    (f"nowhere.svc.{D}", "A", NX),
    (f"_tcp.{WEB}", "A", NODATA),
    (f"_udp.{WEB}", "SRV", NODATA),
    (f"_sctp.{WEB}", "A", NX),
    (f"_tcp.{DB}", "A", NX),
    # apex, its server, the version of the specification
    (D, "SOA", f"{AA}; an: {D}. 5 SOA"),
    (D, "ANY", f"{AA}; an: {D}. 5 SOA"),
    (D, "NS", f"{AA}; an: {D}. 30 NS ns.dns.{D}."),
    (D, "A", NODATA),
    (D, "AAAA", NODATA),
    (D, "TXT", NODATA),
    (f"ns.dns.{D}", "A", f"{AA}; an: ns.dns.{D}. 30 A {SERVER}"),
    (f"ns.dns.{D}", "AAAA", NODATA),
    (f"dns.{D}", "A", NODATA),
    (f"x.dns.{D}", "A", NX),
    (f"x.ns.dns.{D}", "A", NX),
    (f"dns-version.{D}", "TXT", f'{AA}; an: dns-version.{D}. 30 TXT "1.1.0"'),
    (f"dns-version.{D}", "A", NODATA),
    (f"x.dns-version.{D}", "TXT", NX),
    # SRV
    (f"_http._tcp.{WEB}", "SRV", srv_of(f"_http._tcp.{WEB}", 80)),
    (f"_dns._udp.{WEB}", "SRV", srv_of(f"_dns._udp.{WEB}", 53)),
    (f"_HTTP._TCP.{WEB}", "SRV", srv_of(f"_HTTP._TCP.{WEB}", 80)),
    (f"_http._tcp.{WEB}", "A", NODATA),
    (f"_http._tcp.{WEB}", "AAAA", NODATA),
    (f"_dns._tcp.{WEB}", "SRV", NX),
    (f"_http._udp.{WEB}", "SRV", NX),
    (f"_gone._tcp.{WEB}", "SRV", NX),
    (f"http._tcp.{WEB}", "SRV", NX),
    (f"a._http._tcp.{WEB}", "SRV", NX),
    (WEB, "SRV", f"{AA}; an: {WEB}. 30 SRV 0 100 53 {WEB}. / {WEB}. 30 SRV 0 100 80 {WEB}.; ar: {WEB}. 30 A <web>"),
    (DB, "SRV", srv_of(DB, 5432, DB, "db")),
    # headless services: names of single pods, ready or not
    (SET, "A", a_of("set", SET)),
    (SET, "AAAA", NODATA),
    (SET_0, "A", a_of("set-0", SET_0)),
    (SET_1, "A", a_of("set-1", SET_1)),
    (SET_0, "AAAA", NODATA),
    (SET_0, "TXT", NODATA),
    (SET_0, "MX", NODATA),
    (SET_0, "HTTPS", NODATA),
    (SET_0, "ANY", a_of("set-0", SET_0)),
    (SET_0.upper(), "A", a_of("set-0", SET_0.upper())),
    ("sEt-0.SeT.sHoP.sVc.cLuStEr.LoCaL", "A", a_of("set-0", "sEt-0.SeT.sHoP.sVc.cLuStEr.LoCaL")),
    ("sEt-0.SeT.sHoP.sVc.cLuStEr.LoCaL", "AAAA", NODATA.replace(D, "cLuStEr.LoCaL")),
    (f"set-9.{SET}", "A", NX),
    (f"set-9.{SET}", "AAAA", NX),
    (f"set-9.{SET}", "SRV", NX),
    (f"set-0.{DB}", "A", NX),
    (f"set-0.{WEB}", "A", NX),
    (f"set-0.shop.svc.{D}", "A", NX),
    (f"set-0.set.default.svc.{D}", "A", NX),
    (f"x.{SET_0}", "A", NX),
    (f"set-0\\.set.shop.svc.{D}", "A", NX),
    (f"_tcp.{SET}", "A", NODATA),
    (f"_sql._tcp.{SET}", "SRV", srv_of_pods(f"_sql._tcp.{SET}", 5432)),
    (f"_SQL._TCP.{SET}", "SRV", srv_of_pods(f"_SQL._TCP.{SET}", 5432)),
    (f"_sql._tcp.{SET}", "A", NODATA),
    (f"_sql._udp.{SET}", "SRV", NX),
    (f"_gone._tcp.{SET}", "SRV", NX),
    (SET, "SRV", srv_of_pods(SET, 80, 5432)),
    (SET_0, "SRV", f"{AA}; an: {SET_0}. 30 SRV 0 100 80 {SET_0}. / {SET_0}. 30 SRV 0 100 5432 {SET_0}.; "
                   f"ar: {SET_0}. 30 A <set-0>"),
    (f"_sql._tcp.{SET_0}", "SRV", srv_of(f"_sql._tcp.{SET_0}", 5432, SET_0, "set-0")),
    (f"_sql._tcp.{SET_1}", "SRV", srv_of(f"_sql._tcp.{SET_1}", 5432, SET_1, "set-1")),
    (f"_sql._tcp.{SET_0}", "AAAA", NODATA),
    (f"_tcp.{SET_0}", "SRV", NODATA),
    (f"_udp.{SET_0}", "SRV", NX),
    (f"_sql._tcp.set-9.{SET}", "SRV", NX),
    (f"a._sql._tcp.{SET_0}", "SRV", NX),
    (IDLE, "A", a_of("idle", IDLE)),
    (IDLE, "SRV", NODATA),  # its only pod is not ready
    (f"_sql._tcp.{IDLE}", "SRV", NODATA),
    (f"i.{IDLE}", "A", a_of("i", f"i.{IDLE}")),
    # PTR
    ("<set-0-reversed>.in-addr.arpa", "PTR", f"{AA}; an: <set-0-reversed>.in-addr.arpa. 30 PTR {SET_0}."),
    ("<set-1-reversed>.in-addr.arpa", "PTR", f"{AA}; an: <set-1-reversed>.in-addr.arpa. 30 PTR {SET_1}."),
    ("<web-reversed>.IN-ADDR.ARPA", "PTR", f"{AA}; an: <web-reversed>.IN-ADDR.ARPA. 30 PTR {WEB}."),
    ("<web-reversed>.in-addr.arpa", "ANY", f"{AA}; an: <web-reversed>.in-addr.arpa. 30 PTR {WEB}."),
    ("<web-reversed>.in-addr.arpa", "A", RANGE_NODATA),
    ("<free-reversed>.in-addr.arpa", "PTR", RANGE_NX),
    ("<free-reversed>.in-addr.arpa", "A", RANGE_NX),
    ("0.0.251.9.in-addr.arpa", "PTR", RANGE_NX),
    ("300.0.251.9.in-addr.arpa", "PTR", RANGE_NX),
    ("07.0.251.9.in-addr.arpa", "PTR", RANGE_NX),
    ("x.251.9.in-addr.arpa", "PTR", RANGE_NX),
    ("1.2.3.251.9.in-addr.arpa", "PTR", RANGE_NX),
    ("3.251.9.in-addr.arpa", "PTR", RANGE_NODATA),
    ("251.9.in-addr.arpa", "PTR", RANGE_NODATA),
    ("251.9.in-addr.arpa", "SOA", f"{AA}; an: 251.9.in-addr.arpa. 5 SOA"),
    ("251.9.in-addr.arpa", "NS", f"{AA}; an: 251.9.in-addr.arpa. 30 NS ns.dns.{D}."),
    ("251.9.in-addr.arpa", "AXFR", refused("REFUSED")),
    ("1.0.252.9.in-addr.arpa", "PTR", "SERVFAIL rd ra"),  # not ours: the only upstream refuses it
    ("9.in-addr.arpa", "PTR", "SERVFAIL rd ra"),
    ("11.0.96.10.in-addr.arpa", "PTR", "SERVFAIL rd ra"),  # a ClusterIP that nobody has
    ("10.0.96.10.in-addr.arpa", "PTR", f"{AA}; an: 10.0.96.10.in-addr.arpa. 30 PTR {WEB}."),
    ("10.0.96.10.IN-ADDR.ARPA", "PTR", f"{AA}; an: 10.0.96.10.IN-ADDR.ARPA. 30 PTR {WEB}."),
    ("10.0.96.10.in-addr.arpa", "A", AA),
    ("<web-reversed>.in-addr.arpa", "PTR", f"{AA}; an: <web-reversed>.in-addr.arpa. 30 PTR {WEB}."),
    ("<db-reversed>.in-addr.arpa", "PTR", f"{AA}; an: <db-reversed>.in-addr.arpa. 30 PTR {DB}."),
    ("7.113.0.203.in-addr.arpa", "PTR", "SERVFAIL rd ra"),  # the only upstream refuses it
    # ExternalName
    (OUT, "CNAME", f"{AA}; an: {OUT}. 30 CNAME www.example.test."),
    (OUT, "A", f"NOERROR rd ra; an: {OUT}. 30 CNAME www.example.test. / www.example.test. 0 A 203.0.113.7"),
    (OUT, "AAAA", f"NXDOMAIN rd ra; an: {OUT}. 30 CNAME www.example.test."),  # as this upstream says
    (OUT, "ANY", f"{AA}; an: {OUT}. 30 CNAME www.example.test."),
    (IN, "A", f"{AA}; an: {IN}. 30 CNAME {WEB}. / {WEB}. 30 A <web>"),
    (IN, "AAAA", f"{AA}; an: {IN}. 30 CNAME {WEB}.; {SOA}"),
    (OVER, "A", f"NOERROR rd ra; an: {OVER}. 30 CNAME www.example.test. / www.example.test. 0 A 203.0.113.7"),
    (OVER, "CNAME", f"{AA}; an: {OVER}. 30 CNAME {OUT}."),
    (LOST, "A", f"NXDOMAIN aa rd ra; an: {LOST}. 30 CNAME gone.shop.svc.{D}.; {SOA}"),
    (LOST, "CNAME", f"{AA}; an: {LOST}. 30 CNAME gone.shop.svc.{D}."),
    (f"_http._tcp.{OUT}", "SRV", NX),
    (f"x.{OUT}", "A", NX),
    (FIRST, "A", f"{AA}; an: {FIRST}. 30 CNAME {SET_0}. / {SET_0}. 30 A <set-0>"),
    (FIRST, "AAAA", f"{AA}; an: {FIRST}. 30 CNAME {SET_0}.; {SOA}"),
    # outside: never taken from the mesh
    ("www.example.test", "A", "NOERROR aa rd ra; an: www.example.test. 0 A 203.0.113.7"),
    ("WwW.eXaMpLe.TeSt", "A", "NOERROR aa rd ra; an: WwW.eXaMpLe.TeSt. 0 A 203.0.113.7"),
    ("gone.example.test", "A", "NXDOMAIN rd ra"),
    ("web.default.svc.cluster.local.test", "A", "NXDOMAIN rd ra"),
    # nobody may ask
    (D, "AXFR", refused("REFUSED")),
    (D, "IXFR", refused("REFUSED")),
    ("www.example.test", "AXFR", refused("REFUSED")),
    (WEB, "OPT", refused("FORMERR")),
    (WEB, "TYPE0", refused("FORMERR")),
    (WEB, "TKEY", refused("NOTIMP")),
    (WEB, "TSIG", refused("NOTIMP")),
]
WIRE = [
    # flags
    ("without-rd", query(WEB, flags=""), a_of("web", WEB).replace("rd ", "")),
    ("cd-comes-back", query(WEB, flags="RD CD"), a_of("web", WEB).replace("ra;", "ra cd;")),
    ("ad-is-not-claimed", query(WEB, flags="RD AD"), a_of("web", WEB)),
    ("aa-tc-ra-of-a-query-mean-nothing", query(WEB, flags="AA TC RD RA"), a_of("web", WEB)),
    # classes
    *[(f"class-{c}", query(WEB, rdclass=c), refused("REFUSED")) for c in ("CH", "HS", "ANY", "CLASS65280")],
    ("class-CH-outside", query("version.bind", "TXT", rdclass="CH"), refused("REFUSED")),
    # opcodes: nothing but QUERY
    *[(f"opcode-{n}", raw(flags=n << 11 | 0x0100), "NOTIMP rd ra; no question") for n in (1, 2, 3, 4, 5, 6, 15)],
    # EDNS
    ("edns", query(WEB, use_edns=0, payload=1232), f"{a_of('web', WEB)}; {OPT}"),
    ("edns-do", query(WEB, use_edns=0, payload=1232, want_dnssec=True), f"{a_of('web', WEB)}; {OPT} do"),
    ("edns-nxdomain", query(f"gone.{D}", use_edns=0), f"{NX}; {OPT}"),
    ("edns-refused", query(WEB, rdclass="CH", use_edns=0), f"REFUSED rd ra; {OPT}"),
    ("edns-outside", query("www.example.test", use_edns=0),
     f"NOERROR aa rd ra; an: www.example.test. 0 A 203.0.113.7; {OPT}"),
    *[(f"edns-version-{v}", raw(opt(version=v), (1, 0, 0, 1)), f"BADVERS rd ra; {OPT}") for v in (1, 2, 255)],
    ("edns-version-1-outside", raw(opt(version=1), (1, 0, 0, 1), question("www.example.test")),
     f"BADVERS rd ra; {OPT}"),
    ("edns-unknown-option", query(WEB, use_edns=0, options=[UNKNOWN]), f"{a_of('web', WEB)}; {OPT}"),
    ("edns-three-unknown-options", query(WEB, use_edns=0, options=[UNKNOWN] * 3), f"{a_of('web', WEB)}; {OPT}"),
    ("edns-empty-option", raw(opt(data=b"\xfd\xe9\0\0"), (1, 0, 0, 1)), f"{a_of('web', WEB)}; {OPT}"),
    *[(f"edns-size-{n}", query(WEB, use_edns=0, payload=n), f"{a_of('web', WEB)}; {OPT}") for n in (0, 511, 512, 65535)],
    ("edns-two-opt", raw(opt() + opt(), (1, 0, 0, 2)), f"FORMERR rd ra; {OPT}"),
    ("edns-opt-of-a-name", raw(opt(owner=b"\1a\0"), (1, 0, 0, 1)), refused("FORMERR")),
    ("edns-opt-as-answer", raw(opt(), (1, 1, 0, 0)), refused("FORMERR")),
    ("edns-opt-as-authority", raw(opt(), (1, 0, 1, 0)), refused("FORMERR")),
    ("edns-option-cut-short", raw(opt(data=b"\xfd\xe9\0\5ab"), (1, 0, 0, 1)), refused("FORMERR")),
    ("edns-option-without-length", raw(opt(data=b"\xfd\xe9"), (1, 0, 0, 1)), refused("FORMERR")),
    ("edns-opt-missing", raw(b"", (1, 0, 0, 1)), refused("FORMERR")),
    # shapes
    ("no-question", header(counts=(0, 0, 0, 0)), NONAME),
    ("question-is-not-counted", raw(counts=(0, 0, 0, 0)), NONAME),
    ("two-questions", raw(question(DB), (2, 0, 0, 0)), NONAME),
    ("65535-questions", raw(counts=(65535, 0, 0, 0)), NONAME),
    ("question-missing", header(), NONAME),
    ("question-without-class", raw(at=question()[:-2]), NONAME),
    ("name-cut-short", raw(at=b"\3we"), NONAME),
    ("name-of-a-pointer-to-itself", raw(at=b"\xc0\x0c\0\1\0\1"), NONAME),
    ("name-with-a-pointer-to-the-header", raw(at=b"\3web\xc0\0\0\1\0\1"), NONAME),
    ("name-with-a-pointer-behind", raw(at=b"\3web\xc0\x20\0\1\0\1" + question()), NONAME),
    ("label-type-01", raw(at=b"\x41a\0\0\1\0\1"), NONAME),
    ("label-type-10", raw(at=b"\x81a\0\0\1\0\1"), NONAME),
    ("name-of-256-octets", raw(at=question(".".join([LONG, LONG, LONG, LONG]))), NONAME),
    ("longest-label", query(f"{LONG}.default.svc.{D}"), NX),
    ("rubbish-behind", raw(b"\0\0\0"), refused("FORMERR")),
    ("65535-answers-missing", raw(counts=(1, 65535, 0, 0)), refused("FORMERR")),
    ("other-records-are-walked-over",
     raw(b"\xc0\x0c" + struct.pack("!HHIH4s", 1, 1, 9, 4, b"abcd"), (1, 0, 0, 1)), a_of("web", WEB)),
]
ROWS = [pytest.param(query(n, t) if "<" not in n else (n, t), want, id=f"{n}-{t}") for n, t, want in NAMES]
ROWS += [pytest.param(wire, want, id=name) for name, wire, want in WIRE]


# --- the lab ----------------------------------------------------------------------------


def by_udp(pod, *queries):
    """The first answer that comes after all of them."""
    with socket_in(pod, socket.SOCK_DGRAM) as s:
        for q in queries:
            s.send(q)
        return s.recv(65535)


def by_tcp(pod, wire):
    with socket_in(pod, socket.SOCK_STREAM) as s:
        s.sendall(framed(wire))
        return read_framed(s)


def tell_record(name, ttl, rdata):
    kind = dns.rdatatype.to_text(rdata.rdtype)
    return f"{name} {ttl} {kind}" + ("" if kind == "SOA" else f" {rdata}")


def tell(wire):
    plain = wire[:2] + bytes([wire[2] & 0x87]) + wire[3:]  # dnspython reads no unknown opcodes
    m = dns.message.from_wire(plain, one_rr_per_rrset=True)
    parts = [f"{dns.rcode.to_text(m.rcode())} "
             + " ".join(f for f in ("aa", "tc", "rd", "ra", "ad", "cd") if m.flags & dns.flags.from_text(f))]
    if not m.question:
        parts.append("no question")
    for title, section in (("an", m.answer), ("ns", m.authority), ("ar", m.additional)):
        if section:
            parts.append(f"{title}: " + " / ".join(tell_record(r.name, r.ttl, r[0]) for r in section))
    if m.edns >= 0:
        assert m.edns == 0 and not m.options
        parts.append(f"opt: {m.payload}" + (" do" if m.ednsflags & dns.flags.DO else ""))
    return "; ".join(parts)


def udp_service(made, name, port):
    made["spec"]["ports"].append({"name": name, "port": port, "targetPort": port, "protocol": "UDP"})
    return made


def named_pod(name, service_name, address, ready):
    """A pod of a StatefulSet on the node where the questions are asked."""
    made = labs.pod(name, ("edge-1", "192.0.2.11"), address, ("ui", 8080, 0), app=service_name, namespace="shop",
                    ready=ready)
    made["spec"].update(hostname=name, subdomain=service_name)
    return made


class Table:
    def __init__(self, lab):
        labs.upstream(lab, "www.example.test/203.0.113.7")
        hub = self.hub = labs.Hub(lab)
        hub.write("services.yaml",
                  udp_service(labs.service("web", ("http", 80, 8080), clusterIP="10.96.0.10"), "dns", 53),
                  labs.service("db", ("", 5432, 5432), namespace="shop", clusterIP="None"),
                  labs.service("www", ("http", 80, 8080), namespace="google"),
                  labs.service("big", *[(f"p-{i}", 1000 + i, 80) for i in range(BIG_PORTS)]),
                  labs.service("out", type="ExternalName", externalName="www.example.test"),
                  labs.service("in", type="ExternalName", externalName=WEB),
                  labs.service("set", ("sql", 5432, 5432), ("ui", 80, 8080), namespace="shop", clusterIP="None"),
                  labs.service("idle", ("sql", 5432, 5432), namespace="shop", clusterIP="None"),
                  labs.service("first", type="ExternalName", externalName=SET_0, namespace="shop"),
                  labs.service("over", type="ExternalName", externalName=OUT, namespace="shop"),
                  labs.service("lost", type="ExternalName", externalName=f"gone.shop.svc.{D}", namespace="shop"),
                  *[named_pod(f"set-{i}", "set", f"172.17.0.{100 + i}", i != 1) for i in range(3)],
                  named_pod("i", "idle", "172.17.0.110", False))
        self.node = labs.Node(lab, "edge-1", "192.0.2.11")
        self.agent = labs.Agent(self.node, hub)
        self.pod = self.node.pod("client")
        labs.wait_for("services at the agent", lambda: self.agent.state()["services"] == 15)
        self.addresses = {}
        for key, name in (("web", WEB), ("db", DB), ("google", f"www.google.svc.{D}"), ("big", BIG),
                          ("set", SET), ("set-0", SET_0), ("set-1", SET_1), ("set-2", SET_2), ("idle", IDLE),
                          ("i", f"i.{IDLE}")):
            self.addresses[key] = self.pod.dns(name, server=SERVER)[1][0][4]
        taken = set(self.addresses.values())
        assert len(taken) == len(self.addresses)
        self.addresses["free"] = next(a for a in (f"9.251.7.{i}" for i in range(1, 255)) if a not in taken)

    def fill(self, text):
        """<web> and <web-reversed> of a row."""
        def value(m):
            parts = self.addresses[m.group(1)].split(".")
            return ".".join(reversed(parts) if m.group(2) else parts)
        return re.sub(r"<([\w-]+?)(-reversed)?>", value, text)


@pytest.fixture(scope="module")
def table(lab):
    made = Table(lab)
    yield made
    print(f"--- log of the agent\n{made.agent.process.log()[-4000:]}")


# --- tests ------------------------------------------------------------------------------


def asked(table, wire):
    return wire if isinstance(wire, bytes) else query(table.fill(wire[0]), wire[1])


@pytest.mark.parametrize("wire, want", ROWS)
def test_udp(table, wire, want):
    wire = asked(table, wire)
    answer = by_udp(table.pod, wire)
    assert tell(answer) == table.fill(want)
    assert answer[:2] == wire[:2] and answer[2] & 0xf8 == 0x80 | wire[2] & 0x78  # id, QR, opcode
    if "no question" not in want:  # byte for byte, also its case
        end = wire.index(b"\0", 12) + 5
        assert answer[12:end] == wire[12:end]


@pytest.mark.parametrize("wire, want", ROWS)
def test_tcp_says_the_same(table, wire, want):
    assert tell(by_tcp(table.pod, asked(table, wire))) == table.fill(want)


def test_addresses_are_of_the_mesh(table):
    assert len(set(table.addresses.values())) == len(table.addresses)
    assert all(labs.FAKE.match(a) for a in table.addresses.values())


@pytest.mark.parametrize("bytes_", [
    raw(flags=0x8180), raw(flags=0x8000, at=b""), b"", b"\0", raw()[:11], bytes(11)],
    ids=["answer", "answer-without-question", "empty", "one-byte", "half-a-header", "eleven-zeros"])
def test_never_answered(table, bytes_):
    """The answer is to the query behind it."""
    behind = query(WEB)
    assert by_udp(table.pod, bytes_, behind)[:2] == behind[:2]


@pytest.mark.parametrize("edns, limit", [({}, 512), ({"use_edns": 0, "payload": 100}, 512),
                                         ({"use_edns": 0, "payload": 600}, 600),
                                         ({"use_edns": 0, "payload": 1232}, 1232),
                                         ({"use_edns": 0, "payload": 65535}, 1232)],
                         ids=["plain", "100", "600", "1232", "65535"])
def test_too_big_for_udp(table, edns, limit):
    wire = query(BIG, "SRV", **edns)
    answer = by_udp(table.pod, wire)
    m = dns.message.from_wire(answer)
    assert m.flags & dns.flags.TC and limit - 80 < len(answer) <= limit
    whole = dns.message.from_wire(by_tcp(table.pod, wire))
    assert not whole.flags & dns.flags.TC and len(whole.answer[0]) == BIG_PORTS
    assert (m.edns, whole.edns) == ((0, 0) if edns else (-1, -1))


@pytest.fixture(scope="module")
def fresh(lab, table):
    """A pod of a node whose agent has never reached a hub."""
    node = labs.Node(lab, "edge-9", "192.0.2.19")
    agent = labs.Agent(node, table.hub, "--hub.url", "wss://192.0.2.99:10000", start=False).start(ready=False)
    pod = node.pod("client")
    labs.wait_for("forwarding", lambda: pod.dns("www.example.test", server=SERVER)[1])
    assert agent.ask("/readyz")[0] == 503
    return pod


@pytest.mark.parametrize("name, rtype", [
    (WEB, "A"), (WEB, "AAAA"), (SET_0, "A"), (f"_http._tcp.{WEB}", "SRV"), (f"gone.{D}", "A"), (D, "SOA"), (f"svc.{D}", "A"),
    (f"dns-version.{D}", "TXT"), ("7.0.251.9.in-addr.arpa", "PTR"), ("251.9.in-addr.arpa", "SOA")])
def test_nothing_is_denied_before_the_first_metadata(fresh, name, rtype):
    assert tell(by_udp(fresh, query(name, rtype))) == "SERVFAIL rd ra"


def test_tcp_pipelined(table):
    names = [WEB, DB, f"gone.{D}", "www.example.test", OUT] * 10
    wires = {}
    for i, name in enumerate(names):
        wire = query(name)
        wires[struct.pack("!H", i)] = struct.pack("!H", i) + wire[2:]
    with socket_in(table.pod, socket.SOCK_STREAM) as s:
        s.sendall(b"".join(framed(w) for w in wires.values()))
        answers = [read_framed(s) for _ in wires]
    assert {a[:2] for a in answers} == set(wires)
    for a in answers:
        assert tell(a) == tell(by_udp(table.pod, wires[a[:2]]))


def test_tcp_pipelined_and_read_late(table):
    """Answers of many times what is kept for a client that does not read yet: its questions wait, none is lost."""
    n, wire = 3000, framed(query(BIG, "SRV"))
    with socket_in(table.pod, socket.SOCK_STREAM) as s:
        sender = threading.Thread(target=s.sendall, args=(wire * n,), daemon=True)
        sender.start()
        sender.join(0.5)
        answers = [read_framed(s) for _ in range(n)]
        sender.join()
    assert len(set(answers)) == 1 and len(answers[0]) * n > 2 ** 21, len(answers[0])


def test_tcp_byte_by_byte(table):
    wire = query(WEB)
    with socket_in(table.pod, socket.SOCK_STREAM) as s:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for i in range(len(framed(wire))):
            s.sendall(framed(wire)[i:i + 1])
        assert tell(read_framed(s)) == table.fill(a_of("web", WEB))


@pytest.mark.parametrize("name, rtype, options, want", [
    (WEB, "A", (), ("NOERROR", 1, 0)), (WEB, "AAAA", (), ("NOERROR", 0, 1)),
    (WEB, "A", ("+tcp",), ("NOERROR", 1, 0)), (WEB, "ANY", ("+notcp",), ("NOERROR", 1, 0)),
    (f"gone.{D}", "A", (), ("NXDOMAIN", 0, 1)), (f"gone.{D}", "A", ("+noedns",), ("NXDOMAIN", 0, 1)),
    (WEB, "A", ("+edns=1", "+noednsneg"), ("BADVERS", 0, 0)), (WEB, "A", ("+ednsopt=65001:00",), ("NOERROR", 1, 0)),
    (WEB, "A", ("+header-only",), ("FORMERR", 0, 0)), (WEB, "A", ("+opcode=NOTIFY",), ("NOTIMP", 0, 0)),
    (WEB, "A", ("+nocookie", "+norecurse"), ("NOERROR", 1, 0)), (WEB, "A", ("-c", "CH"), ("REFUSED", 0, 0)),
    (BIG, "SRV", (), ("NOERROR", BIG_PORTS, 0)), (BIG, "SRV", ("+tcp", "+noedns"), ("NOERROR", BIG_PORTS, 0)),
    ("www.example.test", "A", (), ("NOERROR", 1, 0)), (OUT, "A", (), ("NOERROR", 2, 0))])
def test_dig(table, name, rtype, options, want):
    """dig sees TC and asks again by TCP by itself."""
    status, answers, authority = table.pod.dns(name, rtype, *options, server=SERVER)
    assert (status, len(answers), len(authority)) == want

"""CertificateSigningRequests (certificates.k8s.io/v1), as Kubernetes documents them: who asked is the server's word, spec never
changes, Approved and Denied are written through /approval by who may approve for the signer, the certificate and Failed through
/status by who may sign, and a certificate that is there stays. Nothing of it was recorded: the messages are near, not exact.
"""
import base64
import time

from store import Refused, now, qualified

RESOURCE = ("certificates.k8s.io", "certificatesigningrequests")
DECISIONS = ("Approved", "Denied")


def _invalid(name, field, why):
    return Refused(422, "Invalid", f'CertificateSigningRequest.certificates.k8s.io "{name}" is invalid: {field}: {why}',
                   name=name, group=RESOURCE[0], kind="CertificateSigningRequest")


def _pem(text, kind):
    try:
        plain = base64.b64decode(text or "", validate=True).decode()
    except ValueError:
        return False
    return plain.lstrip().startswith(f"-----BEGIN {kind}-----") and plain.rstrip().endswith(f"-----END {kind}-----")


def prepare(obj, before, user):
    """A new one, or a change of metadata alone."""
    if before is not None:
        obj["spec"], obj["status"] = before["spec"], before.get("status", {})
        return
    name, spec = obj["metadata"]["name"], obj.setdefault("spec", {})
    if not _pem(spec.get("request"), "CERTIFICATE REQUEST"):
        raise _invalid(name, "spec.request", "Invalid value: PEM block type must be CERTIFICATE REQUEST")
    if not spec.get("signerName"):
        raise _invalid(name, "spec.signerName", "Required value")
    if not spec.get("usages"):
        raise _invalid(name, "spec.usages", "Required value: usages are required")
    spec.update(username=user, groups=["system:authenticated"])
    obj["status"] = {}


def _decisions(conditions):
    return sorted(c["type"] for c in conditions if c["type"] in DECISIONS)


def write(before, sent, sub, may):
    """What /approval or /status leaves; may(verb, signer): has the user this right?"""
    name, signer = before["metadata"]["name"], before["spec"]["signerName"]
    old, new = before.get("status") or {}, sent.get("status") or {}
    conditions = [dict(c) for c in new.get("conditions") or []]
    verb = "approve" if sub == "approval" else "sign"
    if not may(verb, signer):
        raise Refused(403, "Forbidden", f'{qualified(RESOURCE)} "{name}" is forbidden: user not permitted to {verb} requests '
                      f'with signerName "{signer}"', name=name, group=RESOURCE[0], kind=RESOURCE[1])
    for c in conditions:
        c.setdefault("lastUpdateTime", now())
        c.setdefault("lastTransitionTime", now())
        if c.get("status") != "True" and c["type"] in (*DECISIONS, "Failed"):
            raise _invalid(name, "status.conditions[0].status", 'Unsupported value: supported values: "True"')
    if sub == "approval":
        if len(_decisions(conditions)) > 1:
            raise _invalid(name, "status.conditions", "Invalid value: Approved and Denied conditions are mutually exclusive")
        if set(_decisions(old.get("conditions") or [])) - set(_decisions(conditions)):
            raise _invalid(name, "status.conditions", "Forbidden: updates may not remove a condition of type Approved or Denied")
        return dict(before, status={**old, "conditions": conditions})
    kept = [c for c in old.get("conditions") or [] if c["type"] in DECISIONS]
    conditions = kept + [c for c in conditions if c["type"] not in DECISIONS]
    status = {k: v for k, v in (("conditions", conditions), ("certificate", new.get("certificate"))) if v}
    if old.get("certificate") and status.get("certificate") != old["certificate"]:
        raise _invalid(name, "status.certificate", "Forbidden: updates may not set certificate content once set")
    if status.get("certificate") and not _pem(status["certificate"], "CERTIFICATE"):
        raise _invalid(name, "status.certificate", "Invalid value: must contain one or more PEM blocks of CERTIFICATE")
    return dict(before, status=status)


def json_patch(obj, operations):
    """RFC 6902: test, and add to the end of a list or as a member."""
    for op in operations:
        words = op["path"].strip("/").split("/")
        at = obj
        for word in words[:-1]:
            at = at.setdefault(word, {}) if isinstance(at, dict) else at[int(word)]
        if op["op"] == "test":
            if at.get(words[-1]) != op["value"]:
                raise Refused(422, "Invalid", "the server rejected our request due to an error in our request")
        elif op["op"] == "add" and isinstance(at, list) and words[-1] == "-":
            at.append(op["value"])
        elif op["op"] == "add" and isinstance(at, dict):
            at[words[-1]] = op["value"]
        else:
            raise Refused(415, "UnsupportedMediaType", f'no {op["op"]} here')
    return obj


# --- kubectl's approve and deny speak protobuf, and take JSON for an answer ---------------------------


def _fields(data):
    """Number -> values of a protobuf message: varints and byte strings, which are all that is here."""
    found, at = {}, 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte, at = data[at], at + 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = varint()
        value = varint()
        if key & 7 == 2:
            value, at = data[at:at + value], at + value
        found.setdefault(key >> 3, []).append(value)
    return found


def _text(fields, number):
    return fields.get(number, [b""])[0].decode()


def _time(fields, number):
    seconds = _fields(fields.get(number, [b""])[0]).get(1, [0])[0]
    return {"": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))} if 0 < seconds < 1 << 40 else {}


def from_protobuf(body):
    """Name, version and status of the request that it holds (k8s.io/api/certificates/v1, generated.proto)."""
    assert body[:4] == b"k8s\0"
    whole = _fields(_fields(body[4:])[2][0])
    meta, status, conditions = _fields(whole[1][0]), _fields(whole.get(3, [b""])[0]), []
    for raw in status.get(1, []):
        c = _fields(raw)
        condition = {"type": _text(c, 1), "status": _text(c, 6), "reason": _text(c, 2), "message": _text(c, 3)}
        for key, number in (("lastUpdateTime", 4), ("lastTransitionTime", 5)):
            condition.update({key: v for v in _time(c, number).values()})
        conditions.append(condition)
    return {"metadata": {"name": _text(meta, 1), "resourceVersion": _text(meta, 6)}, "status": {"conditions": conditions}}

"""OpenTelemetry's own message types (otlp.py) refuse what a collector that is built on them would not understand: so that what
they take of ours (test_tracing.py) means something."""
import json

import pytest

import otlp

pytestmark = pytest.mark.plain_build  # the reader of the tests

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.fixture(scope="module")
def reader():
    if otlp.installed():
        pytest.skip(f"OpenTelemetry's types are not to be had: {otlp.installed()}")
    return otlp.reader()


def request(**changes):
    span = {"traceId": TRACE, "spanId": SPAN, "flags": 259, "name": "GET", "kind": 3, "startTimeUnixNano": "1800000000000000001",
            "endTimeUnixNano": "1800000000001500001", "attributes": [{"key": "k", "value": {"intValue": str(2**63 - 1)}}],
            "events": [], "droppedEventsCount": 3, "status": {}}
    return json.dumps({"resourceSpans": [{"resource": {"attributes": []}, "scopeSpans": [
        {"scope": {"name": "n", "version": "1"}, "spans": [{**span, **changes}], "schemaUrl": "s"}]}]})


def test_what_is_right_is_taken(reader):
    assert reader.complaint(request()) == ""


@pytest.mark.parametrize("changes", [
    {"kind": 9}, {"kind": "SPAN_KIND_CLIENT"}, {"status": {"code": 3}}, {"colour": "red"}, {"traceId": "0" * 32}, {"spanId": SPAN.upper()},
    {"spanId": SPAN[1:]}, {"parentSpanId": ""}, {"flags": "259"}, {"startTimeUnixNano": "-1"}, {"startTimeUnixNano": 1},
    {"attributes": [{"key": "k", "value": {"intValue": str(2**63)}}]}, {"attributes": [{"key": "k", "value": {"intValue": 80}}]},
    {"attributes": [{"key": "k", "value": {"text": "x"}}]}, {"attributes": [{"name": "k", "value": {"stringValue": "x"}}]},
    {"events": [{"time": "1", "name": "x"}]}], ids=json.dumps)
def test_what_is_wrong_is_not(reader, changes):
    assert reader.complaint(request(**changes)) != ""

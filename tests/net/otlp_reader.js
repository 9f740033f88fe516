// Reads ExportTraceServiceRequests as JSON, one a line, by the message types that OpenTelemetry's own exporter was generated with
// (argv: where its packages lie), and answers each by a line: empty, or what is wrong. OTLP's JSON mapping differs from protobuf's
// in its ids, which are hex. What the types do not know is lost on the way through the binary form, and so it is found.
"use strict";
const path = require("path");
const readline = require("readline");
const at = process.argv[2];
const root = require(path.join(at, "@opentelemetry/otlp-transformer/build/src/generated/root.js")).default ||
	require(path.join(at, "@opentelemetry/otlp-transformer/build/src/generated/root.js"));
const Request = root.opentelemetry.proto.collector.trace.v1.ExportTraceServiceRequest;
const IDS = {traceId: 32, spanId: 16, parentSpanId: 16};

function readIds(thing) {
	if (Array.isArray(thing))
		return thing.map(readIds);
	if (thing === null || typeof thing !== "object")
		return thing;
	const made = {};
	for (const [key, value] of Object.entries(thing)) {
		if (!(key in IDS)) {
			made[key] = readIds(value);
			continue;
		}
		if (typeof value !== "string" || value.length !== IDS[key] || !/^[0-9a-f]*[1-9a-f][0-9a-f]*$/.test(value))
			throw new Error(`${key}: ${value}`);
		made[key] = Buffer.from(value, "hex");
	}
	return made;
}

// Without what says nothing, bytes as hex, keys in order.
function plain(thing) {
	if (Buffer.isBuffer(thing) || thing instanceof Uint8Array)
		return Buffer.from(thing).toString("hex");
	if (Array.isArray(thing))
		return thing.map(plain);
	if (thing === null || typeof thing !== "object")
		return thing;
	const made = {};
	for (const key of Object.keys(thing).sort())
		if (!Array.isArray(thing[key]) || thing[key].length > 0)
			made[key] = plain(thing[key]);
	return made;
}

function complaint(line) {
	const given = JSON.parse(line);
	const message = Request.fromObject(readIds(given));
	const wrong = Request.verify(message);
	if (wrong)
		return wrong;
	const back = Request.toObject(Request.decode(Request.encode(message).finish()), {longs: String, enums: Number, bytes: Buffer, oneofs: false});
	const want = JSON.stringify(plain(given)), got = JSON.stringify(plain(back));
	if (want === got)
		return "";
	let i = 0;
	while (want[i] === got[i])
		i++;
	return `the types do not know it, or not so: ${want.slice(Math.max(0, i - 60), i + 60)}`;
}

readline.createInterface({input: process.stdin}).on("line", line => {
	let answer;
	try {
		answer = complaint(line);
	} catch (e) {
		answer = String(e.message || e);
	}
	process.stdout.write(answer.replace(/\s+/g, " ") + "\n");
});

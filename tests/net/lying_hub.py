"""A hub of our own kind (doc/protocol.md, Metadata) that says to every node what the files of a folder say: lying_hub.py ADDRESS PORT CA CERT KEY FOLDER.
Each file is a service view; all are sent once the node has greeted. To questions for pods by their address it says what pods.json says in
turn, if there is such a file: ["a content", "ranges: what it says of ranges", ...]. With a file `busy` it asks to come again after so many
seconds."""
import asyncio
import hashlib
import http
import json
import os
import ssl
import sys
import time
import uuid

import websockets

address, port, ca, cert, key, folder = sys.argv[1:]


def envelope(operation, resource, content, parent=""):
    return json.dumps({"header": {"msg_id": str(uuid.uuid4()), "parent_msg_id": parent, "timestamp": 0, "resourceversion": "", "sync": False},
                       "route": {"source": "edgeway-hub", "group": "resource", "operation": operation, "resource": resource}, "content": content})


def pods():
    path = os.path.join(folder, "pods.json")
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as f:
        return json.load(f)


async def answer_pod(ws, turn, parent):
    said = pods()
    content = said[turn % len(said)]
    if content.startswith("ranges: "):
        await ws.send(envelope("update", "node/ranges", "@").replace('"@"', content[8:]))
        content = '{"found":"none","ns":"","name":""}'
    await ws.send(envelope("response", "node/pod", "@", parent).replace('"@"', content))


async def serve(ws, *path):
    asked = 0
    node = (path or (ws.path,))[0].split("/")[2]
    with open(ca, "rb") as f:
        digest = hashlib.sha256(f.read()).hexdigest()
    await ws.send(envelope("insert", "node/hello", {"hub": "0.1.0", "protocol": 1, "node": node, "site": "", "zone": "", "ca": digest,
                                                    "clusterDomain": "cluster.local", "addresses": [], "pods": bool(pods())}))
    async for text in ws:
        message = json.loads(text)
        if message["route"]["resource"] == "node/pod":
            await answer_pod(ws, asked, message["header"]["msg_id"])
            asked += 1
        if message["route"]["resource"] != "digest/buckets":
            continue
        await ws.send(envelope("response", "digest/buckets", {"buckets": []}, message["header"]["msg_id"]))
        for name in sorted(set(os.listdir(folder)) - {"pods.json"}):
            with open(os.path.join(folder, name), encoding="utf-8") as f:
                view = json.load(f)
            await ws.send(envelope("update", f"{view['ns']}/service/{view['name']}", view))
        print("told", node, flush=True)


async def be_busy(*_):
    path = os.path.join(folder, "busy")
    if not os.path.exists(path):
        return None
    print("busy metadata", time.monotonic(), flush=True)
    with open(path, encoding="utf-8") as f:
        return http.HTTPStatus.SERVICE_UNAVAILABLE, {"Retry-After": f.read()}, b""


async def main():
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=ca)
    context.load_cert_chain(cert, key)
    context.verify_mode = ssl.CERT_REQUIRED
    async with websockets.serve(serve, address, int(port), ssl=context, extra_headers={"edgeway-version": "1"}, max_size=None,
                                process_request=be_busy):
        print("serving", flush=True)
        await asyncio.Future()


asyncio.run(main())

"""A server that behaves like KubeEdge's CloudHub: cloudhub.py ADDRESS PORT CA CERT KEY SOCKET [MUTE...]

One connection a node id (a newer one cuts the older off), client certificates, text frames with whole v1 objects that do not name
their kind, one message at a time until its acknowledgement (said again after a second, five times), lists without
tombstones, and whoever sends no "ping" for 30 s is cut off. The test steers it with lines of JSON on the Unix socket SOCKET.
"""
import asyncio
import json
import ssl
import sys
import time
import uuid

import websockets

PROJECT = "e632aba927ea4ac2b575ec1603d56f10"
ACK_S, TRIES, SILENCE_S = 1.0, 5, 30
TYPES = {"Service": "service", "Endpoints": "endpoints", "Pod": "pod"}


def bare(o):
    return {k: v for k, v in o.items() if k not in ("kind", "apiVersion")}


class CloudHub:
    def __init__(self):
        self.objects = {}  # (kind, namespace, name)
        self.version = 100
        self.nodes = {}  # node id: connection
        self.mute = []  # types of queries that are not answered
        self.stat = {"connects": 0, "replaced": 0, "queries": 0, "acks": 0, "unacknowledged": 0, "pings": 0, "errors": [],
                     "headers": {}}
        self.acks = {}

    # --- messages -----------------------------------------------------------------

    @staticmethod
    def frame(operation, resource, content, parent="", msg_id=None):
        return json.dumps({"header": {"msg_id": msg_id or str(uuid.uuid4()), "parent_msg_id": parent,
                                      "timestamp": int(time.time() * 1000), "sync": False},
                           "route": {"source": "edgecontroller", "group": "resource", "operation": operation,
                                     "resource": resource}, "content": content})

    async def deliver(self, node, queue):
        """CloudHub's loop for one node."""
        while True:
            operation, resource, content = await queue.get()
            msg_id = str(uuid.uuid4())
            for _ in range(TRIES):
                acked = self.acks[msg_id] = asyncio.Event()
                await node.send(self.frame(operation, resource, content, msg_id=msg_id))
                try:
                    await asyncio.wait_for(acked.wait(), ACK_S)
                    break
                except asyncio.TimeoutError:
                    self.stat["unacknowledged"] += 1

    def tell(self, operation, resource, content):
        for node in self.nodes.values():
            node.queue.put_nowait((operation, resource, content))

    def all(self, kind, namespace=None):
        return [bare(o) for (k, ns, _), o in sorted(self.objects.items()) if k == kind and namespace in (None, ns)]

    def pods_of(self, namespace, name):
        service = self.objects.get(("Service", namespace, name))
        want = ((service or {}).get("spec") or {}).get("selector") or {}
        return [p for p in self.all("Pod", namespace)
                if want and want.items() <= p["metadata"].get("labels", {}).items()]

    async def answer(self, node, message):
        resource = message["route"]["resource"]
        namespace, kind, name = resource.split("/")
        self.stat["queries"] += 1
        if kind in self.mute:
            return
        content = "not found"
        if kind == "servicelist":
            content = self.all("Service")
        elif kind == "podlist":
            content = {"metadata": {"resourceVersion": str(self.version)}, "items": self.pods_of(namespace, name) or None}
        elif kind == "endpoints" and ("Endpoints", namespace, name) in self.objects:
            content = bare(self.objects["Endpoints", namespace, name])
        await node.send(self.frame("response", resource, content, message["header"]["msg_id"]))

    # --- connections -----------------------------------------------------------------

    async def serve(self, node):
        h = node.request_headers
        node_id = h.get("node_id", "")
        self.stat["headers"] = {k: h.get(k) for k in ("node_id", "project_id", "connectionuse")}
        if h.get("project_id") != PROJECT or node.path != f"/{PROJECT}/{node_id}/events":
            await node.close(1008, "no")
            return
        self.stat["connects"] += 1
        node.queue = asyncio.Queue()
        older, self.nodes[node_id] = self.nodes.get(node_id), node  # at once: the older one is back before close() has ended
        if older is not None:
            self.stat["replaced"] += 1
            await older.close()
        task = asyncio.create_task(self.deliver(node, node.queue))
        try:
            while True:
                self.take(node, json.loads(await asyncio.wait_for(node.recv(), SILENCE_S)))
        except (websockets.ConnectionClosed, asyncio.TimeoutError):
            pass
        task.cancel()
        if self.nodes.get(node_id) is node:
            del self.nodes[node_id]
        await node.close()

    def take(self, node, message):
        operation, parent = message["route"]["operation"], message["header"]["parent_msg_id"]
        if operation == "query":
            asyncio.create_task(self.answer(node, message))
        elif operation == "keepalive":
            self.stat["pings"] += message["content"] == "ping"
        elif operation in ("response", "error"):
            if operation == "error":
                self.stat["errors"].append([message["route"]["resource"], message["content"]])
            else:
                self.stat["acks"] += 1
            if parent in self.acks:
                self.acks.pop(parent).set()

    # --- the test ----------------------------------------------------------------------

    def put(self, o, silent=False):
        meta = o["metadata"]
        key = (o["kind"], meta.get("namespace", "default"), meta["name"])
        self.version += 1
        meta["resourceVersion"] = str(self.version)
        operation = "update" if key in self.objects else "insert"
        self.objects[key] = o
        if silent:
            return
        if o["kind"] != "Pod":
            self.tell(operation, f"{key[1]}/{TYPES[key[0]]}/{key[2]}", bare(o))
        else:
            self.tell_pods(key[1])

    def tell_pods(self, namespace):
        for kind, ns, name in sorted(self.objects):
            if kind == "Service" and ns == namespace:
                self.tell("update", f"{ns}/podlist/{name}", self.pods_of(ns, name))

    def delete(self, kind, namespace, name, silent=False):
        o = self.objects.pop((kind, namespace, name))
        if silent:
            return
        if kind != "Pod":
            self.tell("delete", f"{namespace}/{TYPES[kind]}/{name}", bare(o))
        else:
            self.tell_pods(namespace)

    async def steer(self, reader, writer):
        command = json.loads(await reader.readline())
        what = command.pop("do")
        if what == "put":
            self.put(**command)
        elif what == "delete":
            self.delete(**command)
        elif what == "raw":
            for node in self.nodes.values():
                await node.send(command["text"])
        elif what == "tell":
            self.tell(**command)
        elif what == "mute":
            self.mute = command["types"]
        elif what == "drop":
            for node in list(self.nodes.values()):
                await node.close()
        writer.write(json.dumps({**self.stat, "nodes": sorted(self.nodes)}).encode() + b"\n")
        await writer.drain()
        writer.close()


async def main(address, port, ca, cert, key, control, *mute):
    hub = CloudHub()
    hub.mute = list(mute)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(cert, key)
    tls.load_verify_locations(ca)
    tls.verify_mode = ssl.CERT_REQUIRED
    await asyncio.start_unix_server(hub.steer, control, limit=64 << 20)
    async with websockets.serve(hub.serve, address, int(port), ssl=tls, max_size=64 << 20, ping_interval=None,
                                compression=None):
        print("serving", flush=True)
        await asyncio.Future()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

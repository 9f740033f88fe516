"""A false replica: it has a hub's certificate and claims what it does not have. It listens at --listen and dials each --hub, says who it is, and
asks for no list. To whoever asks for its list it tells --claim NODE; a stream that is passed on to it it passes on once more, to --pass-on.
Each thing that happens is a line on standard output. --ask HUB NODE HOP: asks for one stream and tells the answer instead.
"""
import argparse
import socket
import ssl
import threading

import h2.config
import h2.connection
import h2.events

ALPN = "edgeway-peer/1"
CONFIG = dict(validate_inbound_headers=False, validate_outbound_headers=False, normalize_outbound_headers=False)


def say(*words):
    print(" ".join(map(str, words)) + "\n", end="", flush=True)  # in one piece: threads tell at the same time


def context(server):
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname = False
    made.verify_mode = ssl.CERT_REQUIRED
    made.load_verify_locations(options.ca)
    made.load_cert_chain(options.cert, options.key)
    made.set_alpn_protocols([ALPN])
    return made


def dial(hub, fields):
    """A stream at the hub: (socket, connection)."""
    s = context(False).wrap_socket(socket.create_connection((hub, 10000), 20))
    c = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, **CONFIG))
    c.initiate_connection()
    c.send_headers(1, [(":method", "CONNECT"), *fields])
    s.sendall(c.data_to_send())
    return s, c


def answer_of(s, c):
    while data := s.recv(65536):
        for e in c.receive_data(data):
            if isinstance(e, h2.events.ResponseReceived):
                return {k.decode() if isinstance(k, bytes) else k: v.decode() if isinstance(v, bytes) else v for k, v in e.headers}
        s.sendall(c.data_to_send())
    return {":status": "none"}


def forwarded(node, hop, target="7000"):
    return [(":authority", f"{node}:{target}"), ("edgeway-caller", "a liar"), ("edgeway-node", node), ("edgeway-hop", hop)]


def keep(s, c):
    """A connection that only lives."""
    try:
        while data := s.recv(65536):
            c.receive_data(data)
            s.sendall(c.data_to_send())
    except OSError:
        pass


def on_request(c, e):
    fields = {k.decode(): v.decode() for k, v in e.headers}
    if fields[":authority"] == "nodes":
        c.send_headers(e.stream_id, [(":status", "200")])
        lines = [f"hub {'f' * 32} liar"] + [f"holds {1 << 61} {n}" for n in options.claim] + ["whole", ""]
        c.send_data(e.stream_id, "\n".join(lines).encode())
        return
    say("asked", fields["edgeway-node"], "hop", fields.get("edgeway-hop"))
    status = answer_of(*dial(options.pass_on, forwarded(fields["edgeway-node"], "1")))[":status"]
    say("passed on", status)
    c.send_headers(e.stream_id, [(":status", status)], end_stream=True)


def serve(s):
    c = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, **CONFIG))
    c.initiate_connection()
    try:
        s = context(True).wrap_socket(s, server_side=True)
        s.sendall(c.data_to_send())
        while data := s.recv(65536):
            for e in c.receive_data(data):
                if isinstance(e, h2.events.RequestReceived):
                    on_request(c, e)
            s.sendall(c.data_to_send())
    except OSError as e:
        say("lost", e)


parser = argparse.ArgumentParser()
for name in ("--ca", "--cert", "--key", "--listen", "--pass-on"):
    parser.add_argument(name)
parser.add_argument("--hub", action="append", default=[])
parser.add_argument("--claim", action="append", default=[])
parser.add_argument("--ask", nargs=3)
options = parser.parse_args()

if options.ask:
    hub, node, hop = options.ask
    told = answer_of(*dial(hub, forwarded(node, hop)))
    say(told[":status"], told.get("edgeway-reason", ""))
else:
    listener = socket.create_server((options.listen, 10000))
    for hub in options.hub:
        who = [(":authority", "nodes"), ("edgeway-hub", "f" * 32), ("edgeway-name", "liar"), ("edgeway-port", "10000")]
        threading.Thread(target=keep, args=dial(hub, who), daemon=True).start()
    say("serving")
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

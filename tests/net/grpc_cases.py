"""Calls of every kind by a real gRPC client to a real server (Debian's python3-grpcio), bytes instead of protobuf.

    grpc_cases.py server NAME PORT          says what was cancelled
    grpc_cases.py CASE TARGET [ARGUMENT]    prints what came of it; "ok": all was as it should be

A case asserts what a client can see by itself.
"""
import collections
import queue
import random
import signal
import sys
import threading
import time
from concurrent import futures

import grpc

LARGE = 4 << 20
PATIENCE_S = 60
UNLIMITED = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]


# --- the server --------------------------------------------------------------------------------------


def hang(request, context):
    over = threading.Event()
    print("called hang", flush=True)
    if context.add_callback(over.set):  # else it is over already
        over.wait()
    print(f"cancelled {request.decode()}", flush=True)
    return b""


def hang_after_one(request, context):
    """The client may have gone before it is asked for the second."""
    context.add_callback(lambda: print(f"cancelled {request.decode()}", flush=True))
    yield b"one"
    yield hang(request, context)


def tell(request, context):
    """Gives the metadata back, its own before the answer and after it."""
    got = {k: v for k, v in context.invocation_metadata() if k.startswith("lab-")}
    context.send_initial_metadata([("lab-first", "initial"), ("lab-bin", got.get("lab-bin", b""))])
    context.set_trailing_metadata([("lab-last", got.get("lab-text", "")), ("lab-last-bin", b"\0\1\xff")])
    return request


def fail(request, context):
    context.abort(next(c for c in grpc.StatusCode if c.value[0] == int(request)), f"code {request.decode()}: 100 % wrong, Grüße\n")


class Handler(grpc.GenericRpcHandler):
    def __init__(self, name):
        one, many = grpc.unary_unary_rpc_method_handler, grpc.unary_stream_rpc_method_handler
        self.methods = {
            "Who": one(lambda request, context: name.encode()), "Echo": one(lambda request, context: request), "Hang": one(hang), "Tell": one(tell),
            "Fail": one(fail), "Count": many(lambda request, context: (str(i).encode() for i in range(int(request)))), "HangAfterOne": many(hang_after_one),
            "Sum": grpc.stream_unary_rpc_method_handler(lambda requests, context: str(sum(map(int, requests))).encode()),
            "Talk": grpc.stream_stream_rpc_method_handler(lambda requests, context: (r[::-1] for r in requests)),
            # grpc.health.v1: field 1 of the request is the service, that of the answer SERVING (1) or NOT_SERVING (2)
            "Check": one(lambda request, context: b"\x08\x02" if request == b"\n" + bytes([len(name)]) + name.encode() else b"\x08\x01")}

    def service(self, details):
        return self.methods.get(details.method.rpartition("/")[2])


def serve(name, port):
    server = grpc.server(futures.ThreadPoolExecutor(64), handlers=[Handler(name)], options=UNLIMITED)
    server.add_insecure_port(f"0.0.0.0:{port}")
    server.start()
    signal.signal(signal.SIGTERM, lambda *_: server.stop(5))  # GOAWAY; what is under way is finished
    print("serving", flush=True)
    server.wait_for_termination()


# --- the cases -----------------------------------------------------------------------------------------


def method(channel, name, kind="unary_unary"):
    return getattr(channel, kind)(f"/lab.Lab/{name}")


def error_of(fn, *args, **more):
    try:
        fn(*args, **more)
    except grpc.RpcError as e:
        return e
    raise AssertionError("it went well")


def unary(channel):
    assert method(channel, "Echo")(b"hello", timeout=PATIENCE_S) == b"hello"
    assert method(channel, "Echo")(b"", timeout=PATIENCE_S) == b""


def client_stream(channel):
    assert method(channel, "Sum", "stream_unary")((str(i).encode() for i in range(1000)), timeout=PATIENCE_S) == b"499500"


def server_stream(channel):
    assert [int(x) for x in method(channel, "Count", "unary_stream")(b"1000", timeout=PATIENCE_S)] == list(range(1000))


def bidirectional(channel):
    """In step: each message waits for the answer to the one before it, so that nothing may be held back."""
    to_say = queue.Queue()
    answers = method(channel, "Talk", "stream_stream")(iter(to_say.get, None), timeout=PATIENCE_S)
    for i in range(100):
        to_say.put(b"message %d" % i)
        assert next(answers) == (b"message %d" % i)[::-1]
    to_say.put(None)
    assert list(answers) == []


def large(channel):
    body = bytes(range(256)) * (LARGE // 256)
    assert method(channel, "Echo")(body, timeout=PATIENCE_S) == body
    assert [x[::-1] for x in method(channel, "Talk", "stream_stream")(iter([body] * 3), timeout=PATIENCE_S)] == [body] * 3


def in_parallel(channel):
    calls = [method(channel, "Echo").future(b"%d" % i * 1000, timeout=PATIENCE_S) for i in range(200)]
    assert [c.result() for c in calls] == [b"%d" % i * 1000 for i in range(200)]


def deadline(channel):
    e = error_of(method(channel, "Hang"), b"by its deadline", timeout=0.5)
    assert e.code() == grpc.StatusCode.DEADLINE_EXCEEDED, e


def cancellation(channel):
    call = method(channel, "HangAfterOne", "unary_stream")(b"by its client")
    assert next(call) == b"one"
    call.cancel()
    assert error_of(next, call).code() == grpc.StatusCode.CANCELLED


def wait_for_ready(channel):
    print("waits", flush=True)
    assert method(channel, "Echo")(b"x", timeout=PATIENCE_S, wait_for_ready=True) == b"x"


def metadata(channel):
    sent = [("lab-text", "a b, c"), ("lab-bin", bytes(range(256))), ("lab-long", "x" * 4000)]
    answer, call = method(channel, "Tell").with_call(b"x", metadata=sent, timeout=PATIENCE_S)
    first, last = dict(call.initial_metadata()), dict(call.trailing_metadata())
    assert (first["lab-first"], first["lab-bin"], last["lab-last"], last["lab-last-bin"]) == ("initial", bytes(range(256)), "a b, c", b"\0\1\xff")


def codes(channel):
    """Of all codes but OK, with a message that needs to be encoded."""
    for code in list(grpc.StatusCode)[1:]:
        e = error_of(method(channel, "Fail"), str(code.value[0]).encode(), timeout=PATIENCE_S)
        assert (e.code(), e.details()) == (code, f"code {code.value[0]}: 100 % wrong, Grüße\n"), e


def unknown_method(channel):
    assert error_of(method(channel, "Nobody"), b"", timeout=PATIENCE_S).code() == grpc.StatusCode.UNIMPLEMENTED


def compressed(channel):
    assert method(channel, "Echo")(b"x" * 100000, compression=grpc.Compression.Gzip, timeout=PATIENCE_S) == b"x" * 100000


def spread(channel, calls="200"):
    counts = collections.Counter(method(channel, "Who")(b"", timeout=PATIENCE_S).decode() for _ in range(int(calls)))
    print(*(f"{name}={n}" for name, n in sorted(counts.items())))


def refused(channel):
    e = error_of(method(channel, "Who"), b"", timeout=PATIENCE_S)
    print(e.code().name, e.details().strip())


def load(channel, seconds="5"):
    """Calls without a pause: how many there were, and what went wrong."""
    end, good, bad = time.monotonic() + float(seconds), 0, collections.Counter()
    while time.monotonic() < end:
        try:
            method(channel, "Who")(b"", timeout=PATIENCE_S)
            good += 1
            if good == 20:
                print("under way", flush=True)
        except grpc.RpcError as e:
            bad[f"{e.code().name}: {e.details()}"] += 1
    print(f"good={good} bad={sum(bad.values())} {dict(bad)}")


def one_of_a_crowd(channel, chance):
    """A call of any kind, some of which end early by their client's will."""
    kind = chance.randrange(6)
    if kind < 2:
        body = bytes([kind]) * chance.choice([0, 100, 70000, 300000])
        assert method(channel, "Echo")(body, timeout=PATIENCE_S) == body
    elif kind == 2:
        assert list(method(channel, "Talk", "stream_stream")(iter([b"ab", b"cd"] * 5), timeout=PATIENCE_S)) == [b"ba", b"dc"] * 5
    elif kind == 3:
        assert len(list(method(channel, "Count", "unary_stream")(b"50", timeout=PATIENCE_S))) == 50
    elif kind == 4:
        call = method(channel, "HangAfterOne", "unary_stream")(b"by its client", timeout=PATIENCE_S)
        assert next(call) == b"one"
        call.cancel()
    else:
        e = error_of(method(channel, "Hang"), b"by its deadline", timeout=chance.uniform(0.01, 0.1))
        if e.code() != grpc.StatusCode.DEADLINE_EXCEEDED:
            raise e


def crowd(_, seconds="5"):
    """16 threads, each with a connection of its own: what went wrong of their calls."""
    end, good, bad = time.monotonic() + float(seconds), collections.Counter(), collections.Counter()

    def member(i):
        chance = random.Random(i)
        with grpc.insecure_channel(sys.argv[2], [*UNLIMITED, ("grpc.use_local_subchannel_pool", 1)]) as channel:
            while time.monotonic() < end:
                try:
                    one_of_a_crowd(channel, chance)
                    good[i] += 1
                except grpc.RpcError as e:
                    bad[f"{e.code().name}: {e.details()}"] += 1
                except AssertionError as e:
                    bad[repr(e)] += 1
    threads = [threading.Thread(target=member, args=(i,)) for i in range(16)]
    for t in threads:
        t.start()
    print("under way", flush=True)
    for t in threads:
        t.join()
    print(f"good={sum(good.values())} bad={sum(bad.values())} {dict(bad)}")


CASES = [unary, client_stream, server_stream, bidirectional, large, in_parallel, deadline, cancellation, wait_for_ready, metadata, codes, unknown_method,
         compressed, spread, refused, load, crowd]

if __name__ == "__main__":
    if sys.argv[1] == "server":
        serve(*sys.argv[2:])
    else:
        with grpc.insecure_channel(sys.argv[2], UNLIMITED) as made:
            next(c for c in CASES if c.__name__ == sys.argv[1])(made, *sys.argv[3:])
        print("ok")

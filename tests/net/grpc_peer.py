"""A real gRPC server and client (Debian's python3-grpcio) that speak bytes, no protobuf.

    grpc_peer.py server NAME PORT [CERT KEY]
    grpc_peer.py client TARGET AUTHORITY [CA]     prints NAME, or CODE and the message of what went wrong
"""
import sys
from concurrent import futures

import grpc

COUNT, LARGE = 500, 3000000


class Handler(grpc.GenericRpcHandler):
    def service(self, details):
        return {"/lab.Lab/Who": grpc.unary_unary_rpc_method_handler(lambda request, context: sys.argv[2].encode()),
                "/lab.Lab/Echo": grpc.unary_unary_rpc_method_handler(lambda request, context: request),
                "/lab.Lab/Count": grpc.unary_stream_rpc_method_handler(
                    lambda request, context: (str(i).encode() for i in range(int(request)))),
                "/grpc.health.v1.Health/Check": grpc.unary_unary_rpc_method_handler(lambda request, context: b"\x08\x01"),
                "/lab.Lab/Talk": grpc.stream_stream_rpc_method_handler(lambda requests, context: (r[::-1] for r in requests)),
                }.get(details.method)


def serve(name, port, cert=None, key=None):
    server = grpc.server(futures.ThreadPoolExecutor(8), handlers=[Handler()])
    if cert:
        with open(key, "rb") as k, open(cert, "rb") as c:
            server.add_secure_port(f"0.0.0.0:{port}", grpc.ssl_server_credentials([(k.read(), c.read())]))
    else:
        server.add_insecure_port(f"0.0.0.0:{port}")
    server.start()
    print("serving", flush=True)
    server.wait_for_termination()


def talk(channel):
    name = channel.unary_unary("/lab.Lab/Who")(b"", timeout=30)
    large = bytes(range(256)) * (LARGE // 256)
    assert channel.unary_unary("/lab.Lab/Echo")(large, timeout=60) == large
    assert [int(x) for x in channel.unary_stream("/lab.Lab/Count")(str(COUNT).encode(), timeout=60)] == list(range(COUNT))
    said = [f"message {i}".encode() for i in range(100)]
    assert list(channel.stream_stream("/lab.Lab/Talk")(iter(said), timeout=60)) == [x[::-1] for x in said]
    return name.decode()


def main(mode, *args):
    if mode == "server":
        return serve(*args)
    target, authority, ca = (*args, None)[:3]
    options = [("grpc.default_authority", authority), ("grpc.ssl_target_name_override", authority.split(":")[0])][:2 if ca else 1]
    if ca:
        with open(ca, "rb") as f:
            channel = grpc.secure_channel(target, grpc.ssl_channel_credentials(f.read()), options[1:])
    else:
        channel = grpc.insecure_channel(target, options)
    try:
        print(talk(channel))
    except grpc.RpcError as e:
        print(e.code().name, e.details())


main(*sys.argv[1:])

"""Other people's HTTP/2 proxies in place of the agent: each service has a port of its own at the node's bridge, HTTP/2 on both sides."""
import os

from lab import wait_for

FIRST_PORT = 40100
HAPROXY = """
global
    nbthread {workers}
defaults
    mode http
    timeout connect 5s
    timeout client 60s
    timeout server 60s
    timeout http-request 60s
"""
HAPROXY_SERVICE = """
frontend f-{name}
    bind 172.17.0.1:{port}
    default_backend {name}
backend {name}
    balance roundrobin
{servers}
"""
NGINX = """
user root; daemon off; worker_processes {workers}; pid {dir}/nginx.pid; error_log stderr; worker_rlimit_nofile 30000;
events {{ worker_connections 8192; }}
http {{ access_log off; keepalive_requests 1000000000; client_max_body_size 0; grpc_buffer_size 64k; http2_max_concurrent_streams 1000;
    client_body_temp_path {dir}/p1; proxy_temp_path {dir}/p2; fastcgi_temp_path {dir}/p3; uwsgi_temp_path {dir}/p4; scgi_temp_path {dir}/p5;
{services}}}
"""
NGINX_SERVICE = """
    upstream {name} {{ {servers} keepalive 64; keepalive_requests 1000000000; }}
    server {{ listen 172.17.0.1:{port} http2; location / {{ grpc_pass grpc://{name}; }} }}
"""


def ports_of(services, first=FIRST_PORT):
    return {name: first + i for i, name in enumerate(services)}


def haproxy_argv(folder, services, first=FIRST_PORT, workers=1):
    ports, path = ports_of(services, first), os.path.join(folder, "haproxy.cfg")
    with open(path, "w") as f:
        f.write(HAPROXY.format(workers=workers) + "".join(HAPROXY_SERVICE.format(name=name, port=ports[name], servers="".join(
            f"    server s{i} {a}:8080 proto h2\n" for i, a in enumerate(addresses))) for name, addresses in services.items()))
    return "haproxy", "-db", "-f", path


def nginx_argv(folder, services, first=FIRST_PORT, workers=1):
    ports, path = ports_of(services, first), os.path.join(folder, "nginx.conf")
    with open(path, "w") as f:
        f.write(NGINX.format(dir=folder, workers=workers, services="".join(NGINX_SERVICE.format(name=name, port=ports[name], servers="".join(
            f"server {a}:8080; " for a in addresses)) for name, addresses in services.items())))
    return "nginx", "-c", path


def nghttpx_argv(folder, services):
    """It tells services apart by the port of their frontend only through :authority: one service a program."""
    [(name, addresses)] = list(services.items())
    return "nghttpx", "--conf=/dev/null", f"--frontend=172.17.0.1,{FIRST_PORT};no-tls", *[f"--backend={a},8080;;proto=h2" for a in addresses], "-n1"


ARGV = {"haproxy": haproxy_argv, "nginx": nginx_argv, "nghttpx": nghttpx_argv}


def start_peer(kind, node, services):
    """{service: (address, port)}"""
    if kind == "nghttpx":
        services = {"one": services["one"]}
    node.start(kind, *ARGV[kind](node.dir, services))
    for port in ports_of(services).values():
        wait_for(kind, lambda port=port: f":{port} " in node.run("ss", "-tlnH").stdout)
    return {name: ("172.17.0.1", port) for name, port in ports_of(services).items()}

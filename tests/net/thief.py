"""An account without rights (lab.NOBODY) that is after a port of ours, TCP: THIEF ADDRESS PORT."""
# Tries for the port from before the kill on, and says each byte that it gets.
THIEF = """
import socket, sys, time
where, port = sys.argv[1], int(sys.argv[2])
while True:
    s = socket.socket(socket.AF_INET6 if ":" in where else socket.AF_INET)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        s.bind((where, port))
        s.listen(100)
        break
    except OSError:
        s.close()
        time.sleep(0.001)
print("bound", flush=True)
while True:
    c, who = s.accept()
    print("got", who, flush=True)
    c.settimeout(5)
    print("read", c.recv(4096), flush=True)
    c.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 6\\r\\nConnection: close\\r\\n\\r\\nthief\\n")
    c.close()
"""

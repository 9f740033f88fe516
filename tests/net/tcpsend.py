"""tcpsend.py HOST PORT DATA SECONDS: sends, closes its half, prints what comes until the end. 3: refused, 4: reset."""
import socket
import sys

host, port, data, seconds = sys.argv[1], int(sys.argv[2]), sys.argv[3], float(sys.argv[4])
try:
    s = socket.create_connection((host, port), seconds)
except OSError as e:
    print(e, file=sys.stderr)
    sys.exit(3)
try:
    s.sendall(data.encode("latin-1"))
    s.shutdown(socket.SHUT_WR)
    while True:
        got = s.recv(65536)
        if not got:
            break
        sys.stdout.write(got.decode("latin-1"))
except OSError as e:
    print(e, file=sys.stderr)
    sys.exit(4)

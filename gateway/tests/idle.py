"""Opens WebSockets over TLS, uses each once and leaves it idle: so many at first, and so many more at each line of standard input."""
import socket
import ssl
import struct
import sys

address, first, more = sys.argv[1].split(":"), int(sys.argv[2]), int(sys.argv[3])
context = ssl.create_default_context(cafile=sys.argv[4])
HEAD = (
    "GET /ws?id=idle-{} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: dormouse.v1\r\n\r\n"
)
PING = b'{"t":"ping","id":1}'
kept = []


def exactly(connection, count):
    read = b""
    while len(read) < count:
        part = connection.recv(count - len(read))
        assert part, read
        read += part
    return read


def open_one():
    raw = socket.create_connection((address[0], int(address[1])))
    raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection = context.wrap_socket(raw, server_hostname="localhost")
    connection.sendall(HEAD.format(len(kept)).encode())
    answer = b""
    while not answer.endswith(b"\r\n\r\n"):
        answer += exactly(connection, 1)
    assert answer.startswith(b"HTTP/1.1 101 "), answer
    connection.sendall(struct.pack("!BBI", 0x81, 0x80 | len(PING), 0) + PING)
    _, length = exactly(connection, 2)
    assert exactly(connection, length).startswith(b"{")
    kept.append(connection)


for count in (first, more):
    for _ in range(count):
        open_one()
    print("open", flush=True)
    sys.stdin.readline()

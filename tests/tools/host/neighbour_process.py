"""The process of `netns.neighbour`: `neighbour_process.py TCP_PORTS UDP_PORTS`, each joined by commas.

It says `namespace`, waits for a line that says that its link `far` is there, and says `ready`. After that it answers each line,
the number of a UDP port, with the number of packets that have arrived there.
"""

from __future__ import annotations

import socket
import subprocess
import sys


def main() -> None:
    print("namespace", flush=True)
    sys.stdin.readline()
    for words in ("addr add 10.77.0.2/24 dev far", "addr add 10.77.0.3/24 dev far", "link set far up"):
        subprocess.run(["ip", *words.split()], check=True)
    listeners = [socket.create_server(("0.0.0.0", port)) for port in _ports(sys.argv[1])]
    counters = {port: _bound(port) for port in _ports(sys.argv[2])}
    print("ready", flush=True)
    for line in sys.stdin:
        print(_waiting(counters[int(line)]), flush=True)
    for listener in listeners:
        listener.close()


def _ports(joined: str) -> list[int]:
    return [int(port) for port in joined.split(",") if port]


def _bound(port: int) -> socket.socket:
    counter = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    counter.bind(("0.0.0.0", port))
    counter.setblocking(False)
    return counter


def _waiting(counter: socket.socket) -> int:
    count = 0
    try:
        while counter.recv(2048):
            count += 1
    except BlockingIOError:
        return count
    return count


main()

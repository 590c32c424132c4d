"""A reader of server-sent events: it takes bytes as they arrive and returns the data of complete events."""

from __future__ import annotations


class EventReader:
    """Assembles events from pieces that may be cut anywhere.

    `feed` returns the data of the events that are complete. `rest`, at the end of the stream, returns the data of a last event
    without its closing blank line. Lines may end in LF, CR or CRLF. Comments and fields other than `data` are ignored. Several
    data lines are joined by newlines. `total` is the number of all bytes, `pending` that of an incomplete event.
    """

    def __init__(self) -> None:
        self.total = 0
        self._buffer = bytearray()
        self._scanned = 0
        """Number of bytes at the beginning of the buffer in which no event ends."""

    @property
    def pending(self) -> int:
        return len(self._buffer)

    def feed(self, data: bytes) -> list[bytes]:
        self.total += len(data)
        self._append(data)
        end = self._buffer.rfind(b"\n\n", max(0, self._scanned - 1))
        if end < 0:
            self._scanned = len(self._buffer)
            return []
        blocks = bytes(self._buffer[:end]).split(b"\n\n")
        del self._buffer[: end + 2]
        self._scanned = 0
        return [event for block in blocks if (event := _data_of(block)) is not None]

    def rest(self) -> list[bytes]:
        """Returns a list with the data of an incomplete last event; it is empty if there is none."""
        block = bytes(self._buffer)
        self._buffer.clear()
        event = _data_of(block)
        return [] if event is None else [event]

    def _append(self, data: bytes) -> None:
        """Appends the bytes with every line end as LF. A CR at the end waits, because an LF may follow."""
        buffer = self._buffer
        if buffer[-1:] == b"\r":
            del buffer[-1]
            data = b"\r" + data
            self._scanned = min(self._scanned, len(buffer))
        if b"\r" not in data:
            buffer += data
            return
        waiting = b"\r" if data.endswith(b"\r") else b""
        buffer += data[: len(data) - len(waiting)].replace(b"\r\n", b"\n").replace(b"\r", b"\n") + waiting


def _data_of(block: bytes) -> bytes | None:
    """Returns the data of one event; None: it has none."""
    if block.startswith(b"data: ") and b"\n" not in block:  # nearly every event has this form
        return block[6:]
    lines = [
        value.removeprefix(b" ")
        for line in block.removeprefix(b"\xef\xbb\xbf").split(b"\n")
        for field, _, value in (line.partition(b":"),)
        if field == b"data"
    ]
    return b"\n".join(lines) if lines else None

"""Server-sent events, read as they come: bytes in, the data of whole events out. What the data means is not known here."""

from __future__ import annotations


class EventReader:
    """Puts events together from pieces cut anywhere.

    `feed` gives the data of every event that is complete now; `rest`, at the end of the stream, that of a last event whose
    closing blank line never came. Lines may end in LF, CR or CRLF; comments and fields other than `data` are passed over;
    several data lines are joined by newlines. `total` counts the bytes fed, `pending` those that wait for their event's end.
    """

    def __init__(self) -> None:
        self.total = 0
        self._buffer = bytearray()
        self._seen = 0
        """Bytes of the buffer in which no event ends."""

    @property
    def pending(self) -> int:
        return len(self._buffer)

    def feed(self, data: bytes) -> list[bytes]:
        self.total += len(data)
        self._append(data)
        end = self._buffer.rfind(b"\n\n", max(0, self._seen - 1))
        if end < 0:
            self._seen = len(self._buffer)
            return []
        blocks = bytes(self._buffer[:end]).split(b"\n\n")
        del self._buffer[: end + 2]
        self._seen = 0
        return [event for block in blocks if (event := _data_of(block)) is not None]

    def rest(self) -> list[bytes]:
        """The data of an unfinished last event, as a list of one or none."""
        block = bytes(self._buffer)
        self._buffer.clear()
        event = _data_of(block)
        return [] if event is None else [event]

    def _append(self, data: bytes) -> None:
        """Take the bytes in with every line end as LF; a CR at the very end waits to see whether an LF follows."""
        buffer = self._buffer
        if buffer[-1:] == b"\r":
            del buffer[-1]
            data = b"\r" + data
            self._seen = min(self._seen, len(buffer))
        if b"\r" not in data:
            buffer += data
            return
        held = b"\r" if data.endswith(b"\r") else b""
        buffer += data[: len(data) - len(held)].replace(b"\r\n", b"\n").replace(b"\r", b"\n") + held


def _data_of(block: bytes) -> bytes | None:
    """The data of one event; None: it has none."""
    if block.startswith(b"data: ") and b"\n" not in block:  # nearly every event there is
        return block[6:]
    found = [
        value.removeprefix(b" ")
        for line in block.removeprefix(b"\xef\xbb\xbf").split(b"\n")
        for field, _, value in (line.partition(b":"),)
        if field == b"data"
    ]
    return b"\n".join(found) if found else None

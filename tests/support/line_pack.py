"""Lines as SQLite's rows have them, read from the description in proto/line_pack.h."""

NAMES = ("token thinking tool_call tool_result progress task.created task.started task.resumed child message custom file "
         "input_required input_received final_answer task.completed task.failed").split()
WHOLE, HAS_TS, AGAIN, LONG = 0x3F, 0x40, 0x80, 256


class Reader:
    """Bytes, taken from the front."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, n):
        assert self.at + n <= len(self.data)
        self.at += n
        return self.data[self.at - n:self.at]

    def number(self):
        n = shift = 0
        while True:
            byte, = self.take(1)
            n |= (byte & 0x7F) << shift
            if byte < 0x80:
                return n
            shift += 7

    def is_left(self):
        return self.at < len(self.data)


def _data(reader, op, last):
    size = reader.number()
    if not op & AGAIN:
        return reader.take(size)
    place, count, there = reader.number(), reader.number(), reader.number()
    before = reader.take(place)
    return before + last[there:there + count] + reader.take(size - place - count)


def unpacked(data):
    """The lines; those that are not packed are as they are."""
    data = bytes(data)
    if data[:1] != b"\x01":
        return data
    reader = Reader(data[1:])
    size, task_id, seq, ts = reader.number(), reader.take(26), reader.number(), reader.number()
    lines, last = [], b""
    while reader.is_left():
        op, = reader.take(1)
        if op == WHOLE:
            line = reader.take(reader.number())
        else:
            if op & HAS_TS:
                change = reader.number()
                ts += -(change >> 1) - 1 if change & 1 else change >> 1
            before, behind = (b'{"text":"', b'"}') if op & 1 else (b"", b"")
            line = b"".join((b'{"type":"event","task_id":"', task_id, b'","seq":%d,"ts":%d,"event":"' % (seq, ts),
                             NAMES[(op & WHOLE) >> 1].encode(), b'","data":', before, _data(reader, op, last), behind, b"}\n"))
        seq += 1
        lines.append(line)
        last = line if len(line) >= LONG else last
    assert sum(map(len, lines)) == size
    return b"".join(lines)


def size_of(data):
    """The size of lines that are packed, which a block has above its checksum."""
    return Reader(bytes(data[1:])).number() if data[:1] == b"\x01" else 0


def varint(n):
    """The other way: a number's bytes."""
    return bytes([n & 0x7F | 0x80]) + varint(n >> 7) if n >= 0x80 else bytes([n])


def raw_row(data):
    """A row of the journal whose lines are as they are."""
    reader, row = Reader(bytes(data)), b""
    while reader.is_left():
        head = [reader.number() for _ in range(3)]
        lines = unpacked(reader.take(reader.number()))
        row += b"".join(map(varint, [*head, len(lines)])) + lines
    return row

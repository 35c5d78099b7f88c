"""The database of a gateway that is not running, for states that only its files can show or create."""

import contextlib
import sqlite3
import struct

import pytest

import line_pack
from gateway import on_server

UNSEALED = """SELECT 1 FROM tasks t WHERE head >= first
              AND head > coalesce((SELECT max(last) FROM blocks WHERE task_key = t.task_key), 0)"""


# The columns that the checksum of each table's rows covers; a task has three of its own, and its input's.
SUMMED = {
    "marks": "next_key, newest_id",
    "conversations": "owner, conversation_id, title, agent, updated_at, notices, unlisted, tip, tip_task, flags",
    "messages": "owner, conversation_id, message_id, task_id, role, partial, created_at, content, parent_id, behind",
    "request_keys": "owner, key, conversation_id, task_id, created_at",
    "journal": "row, bytes",
    "blocks": "task_key, first, last, bytes",
    "inbox": "task_key, position, line",
    "notices": "key, silent, owner, conversation_id, agent, text, source",
    "garbage": "task_key, owner, keeps_record",
    "usage": "owner, bytes",
    "revocations": "owner, until",
    "outbox": "key, hook, id, at, body",
    "contexts": "task_key, context",
    "files": "owner, conversation_id, file_id, name, media_type, sha256, blob, upload, size, created_at, state",
    "file_uses": "owner, conversation_id, task_id, file_id",
}
TASK_SUMS = {
    "fixed_crc": "task_key, type, notify_on_complete, waits, created_at, owner, conversation_id, task_id, agent, name, "
                 "description, parent_task_id, parent_run_id, parent_call_id, parent_agent_id, ancestors, question_id",
    "state_crc": "task_key, status, error, progress, first, head, cancel_requested_at, started_at, completed_at, "
                 "output_truncated, acked, error_message, waiting_for",
    "long_crc": "task_key, output, result, undelivered, answers, retracted",
}


def _table():
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        yield byte


CRC_TABLE = list(_table())


def crc32c(data):
    """RFC 3720, 12.1."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = CRC_TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def row_crc(*cells):
    """Like gateway/store/store_sqlite_crc.c: each cell is its type, a number, and its bytes."""
    parts = []
    for cell in cells:
        if isinstance(cell, int):
            parts.append(struct.pack("<Bq", 1, cell))
        elif isinstance(cell, float):
            parts.append(struct.pack("<Bd", 2, cell))
        else:
            kind = 5 if cell is None else 3 if isinstance(cell, str) else 4
            raw = cell.encode() if isinstance(cell, str) else cell or b""
            parts.append(struct.pack("<BQ", kind, len(raw)) + raw)
    return crc32c(b"".join(parts))


def block_crc(*cells):
    """The checksum of the cells, and above its bits the size of lines that are packed."""
    return row_crc(*cells) | line_pack.size_of(cells[-1] or b"") << 32


def sum_what_changes(database):
    """Rows that this connection writes get the checksum that the gateway would have given them, so that they do not count as
    damaged."""
    database.create_function("row_crc", -1, row_crc, deterministic=True)
    database.create_function("block_crc", -1, block_crc, deterministic=True)
    for table, columns in SUMMED.items():
        key = columns if table in ("marks", "conversations", "request_keys", "inbox", "usage", "revocations", "files",
                                     "file_uses") else "rowid"
        crc = "block_crc" if table == "blocks" else "row_crc"
        same = " AND ".join(f"{column} IS new.{column}" for column in key.split(", "))
        for event in ("INSERT", "UPDATE"):
            database.execute(f"CREATE TEMP TRIGGER {table}_{event} AFTER {event} ON main.{table} BEGIN "
                             f"UPDATE {table} SET crc = {crc}({columns}) WHERE {same}; END")
    sums = ", ".join(f"{crc} = row_crc({columns})" for crc, columns in TASK_SUMS.items())
    database.execute("CREATE TEMP TRIGGER tasks_update AFTER UPDATE ON main.tasks BEGIN "
                     f"UPDATE tasks SET {sums} WHERE task_key = new.task_key; END")


def unpack_in(database):
    """SQL may call unpacked(bytes) of a block, and raw_row(bytes) of the journal: what older gateways wrote."""
    database.create_function("unpacked", 1, line_pack.unpacked, deterministic=True)
    database.create_function("raw_row", 1, line_pack.raw_row, deterministic=True)


@contextlib.contextmanager
def opened(gateway, raw=False):
    """A connection to it; changes are committed at the end.  raw: changes it as a disk would, without updating
    checksums."""
    if gateway.schema:
        pytest.skip("it looks at SQLite's rows, and the store is on PostgreSQL")
    assert gateway.process is None, "it is running"
    database = sqlite3.connect(gateway.data / "holdfast.db")
    unpack_in(database)
    try:
        with database:
            if not raw:
                sum_what_changes(database)
            yield database
    finally:
        database.close()


def rows_in(gateway, table):
    """How many it has, on either store; it may run."""
    if gateway.schema:
        return int(on_server(gateway.server_url(), f"SELECT count(*) FROM {gateway.schema}.{table}"))
    with contextlib.closing(sqlite3.connect(f"file:{gateway.data}/holdfast.db?mode=ro", uri=True)) as database:
        return database.execute(f"SELECT count(*) FROM {table}").fetchone()[0]


def key_of(database, task):
    """The store's own number of a task."""
    return database.execute("SELECT task_key FROM tasks WHERE task_id = ?", (task["task_id"],)).fetchone()[0]


def blocks_of(database, task):
    """(first, last) of each block of a task, in order."""
    return database.execute("SELECT first, last FROM blocks WHERE task_key = ? ORDER BY first",
                            (key_of(database, task),)).fetchall()


def seal(gateway):
    """Stops the gateway with all lines of ended tasks in blocks: a start seals what a stop left, given the time."""
    for _ in range(20):
        gateway.stop()
        with opened(gateway) as database:
            if not database.execute(UNSEALED).fetchone():
                return
        gateway.start()
    raise AssertionError("a start does not seal")


def prune(gateway, task, keep_from):
    """Removes the blocks before that seq as retention does; gives the oldest seq that is kept."""
    with opened(gateway) as database:
        key = key_of(database, task)
        first = next((first for first, last in blocks_of(database, task) if last >= keep_from), None)
        if first is None:
            first = database.execute("SELECT head FROM tasks WHERE task_key = ?", (key,)).fetchone()[0] + 1
        database.execute("DELETE FROM blocks WHERE task_key = ? AND first < ?", (key, first))
        database.execute("UPDATE tasks SET first = ? WHERE task_key = ?", (first, key))
    return first

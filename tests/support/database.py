"""The database of a gateway that is not running, for what only its files can show or bring about."""

import contextlib
import sqlite3

UNSEALED = """SELECT 1 FROM tasks t WHERE head >= first
              AND head > coalesce((SELECT max(last) FROM blocks WHERE task_key = t.task_key), 0)"""


@contextlib.contextmanager
def opened(gateway):
    """A connection to it; what was changed is committed in the end."""
    assert gateway.process is None, "it is running"
    database = sqlite3.connect(gateway.data / "holdfast.db")
    try:
        with database:
            yield database
    finally:
        database.close()


def key_of(database, task):
    """The store's own number of a task."""
    return database.execute("SELECT task_key FROM tasks WHERE task_id = ?", (task["task_id"],)).fetchone()[0]


def blocks_of(database, task):
    """(first, last) of each block of a task, in order."""
    return database.execute("SELECT first, last FROM blocks WHERE task_key = ? ORDER BY first",
                            (key_of(database, task),)).fetchall()


def seal(gateway):
    """Stops the gateway with all lines of ended tasks in blocks: a start seals what a stop left, if it has the time."""
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

/* disk_kit -- a disk beneath SQLite whose methods a test replaces, to count or to fail.
 *
 * Shape:    between disk_begin and disk_end all files of one kind that SQLite opens (a flag of
 *           SQLITE_OPEN_…) have the methods of the system's VFS, but for those that were replaced;
 *           these hand on to disk_real.
 * Thread:   begin and end: one, while no file is open; the methods: SQLite's.
 */
#ifndef TESTS_DISK_KIT_H
#define TESTS_DISK_KIT_H

#include <sqlite3.h>
#include <stddef.h>

static const sqlite3_io_methods *disk_real; /* NULL until the first file; all are of one kind */

static struct {
    sqlite3_vfs *real_vfs, vfs;
    sqlite3_io_methods methods;
    int kind;
    void (*replace)(sqlite3_io_methods *methods);
} disk_kit;

static inline int disk_kit_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags,
                                int *ret)
{
    (void)vfs;
    int rc = disk_kit.real_vfs->xOpen(disk_kit.real_vfs, name, file, flags, ret);
    if (rc != SQLITE_OK || !(flags & disk_kit.kind))
        return rc;
    if (!disk_real) {
        disk_real = file->pMethods;
        disk_kit.methods = *disk_real;
        disk_kit.replace(&disk_kit.methods);
    }
    file->pMethods = &disk_kit.methods;
    return rc;
}

static inline void disk_begin(int kind, void (*replace)(sqlite3_io_methods *methods))
{
    disk_kit.kind = kind;
    disk_kit.replace = replace;
    disk_kit.real_vfs = sqlite3_vfs_find(NULL);
    disk_kit.vfs = *disk_kit.real_vfs;
    disk_kit.vfs.zName = "tests";
    disk_kit.vfs.xOpen = disk_kit_open;
    sqlite3_vfs_register(&disk_kit.vfs, 1);
}

static inline void disk_end(void)
{
    sqlite3_vfs_unregister(&disk_kit.vfs);
    sqlite3_vfs_register(disk_kit.real_vfs, 1);
}

#endif

/* Any text as a configuration: faults with a key each, or one that works and can be printed. */
#include "gateway/config/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    struct config config;
    struct buf faults = {0}, printed = {0};
    int fd = memfd_create("config", 0);
    ASSERT(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int n = config_load(path, NULL, &config, &faults);
    ASSERT((n == 0) == (faults.len == 0));
    if (n == 0) {
        config_print(&config, &printed);
        ASSERT(printed.len > 0 && config.n_agents > 0);
    }
    config_done(&config);
    close(fd);
    buf_done(&faults);
    buf_done(&printed);
    return 0;
}

#include "gateway/base/privilege.h"

#include <stdio.h>
#include <stdlib.h>

/* Whether our user 0 is the machine's: the first line of uid_map maps 0 to 0. */
static bool maps_root_to_itself(void)
{
    char line[64] = "", *end;
    FILE *map = fopen("/proc/self/uid_map", "re");
    if (!map)
        return true;
    bool is_mapped = fgets(line, sizeof line, map) != NULL;
    fclose(map);
    unsigned long inside = strtoul(line, &end, 10), outside = strtoul(end, NULL, 10);
    return !is_mapped || (inside == 0 && outside == 0);
}

bool privilege_is_root(uid_t user)
{
    return user == 0 && maps_root_to_itself();
}

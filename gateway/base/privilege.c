#include "gateway/base/privilege.h"

#include <stdio.h>

/* Whether our user 0 is the machine's: the first line of uid_map maps 0 to 0. */
static bool maps_root_to_itself(void)
{
    unsigned inside = 0, outside = 0;
    FILE *map = fopen("/proc/self/uid_map", "re");
    if (!map)
        return true;
    int n = fscanf(map, "%u %u", &inside, &outside);
    fclose(map);
    return n != 2 || (inside == 0 && outside == 0);
}

bool privilege_is_root(uid_t user)
{
    return user == 0 && maps_root_to_itself();
}

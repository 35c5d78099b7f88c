#include "core/resume.h"

enum resume_plan resume_decide(uint64_t after, struct stream_bounds have)
{
    if (after > have.head)
        return RESUME_AHEAD;
    if (after == have.head)
        return have.ended ? RESUME_DONE : RESUME_LIVE;
    /* after < head here, so after + 1 cannot overflow. */
    return after + 1 < have.first ? RESUME_GAP : RESUME_REPLAY;
}

/* Any bytes as a line of a worker: what comes out is within its bounds, and what is told of a run
 * is what a second reading tells. */
#include "proto/worker_frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct worker_decoder decoder, other;

static void check_text(struct str text, size_t max)
{
    ASSERT(text.n > 0 && text.n <= max && !memchr(text.p, 0, text.n));
}

static void check_hello(const struct worker_frame *f)
{
    size_t names = 0;
    uint64_t n;
    check_text(f->worker, MAX_NAME);
    check_text(f->secret, WORKER_MAX_SECRET);
    check_text(f->instance, WORKER_MAX_INSTANCE);
    ASSERT(f->agents.n > 0 && f->agents.p[f->agents.n - 1] == 0);
    for (size_t at = 0; at < f->agents.n; names++) {
        size_t len = strlen(f->agents.p + at);
        ASSERT(len > 0 && len <= MAX_NAME);
        at += len + 1;
    }
    ASSERT(names > 0 && f->runs >= 1 && f->runs <= WORKER_MAX_RUNS);
    if (worker_frame_opens(&decoder, f, "r", &n))
        ASSERT(n <= MAX_SAFE_INTEGER);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str line = {(const char *)data, size};
    struct worker_frame f, again;
    worker_frame_decode(&decoder, line, &f);
    worker_frame_decode(&other, line, &again);
    ASSERT(f.kind == again.kind && f.n == again.n && f.run.n == again.run.n);
    ASSERT((f.kind == WORKER_BAD) == (f.error != NULL));
    ASSERT(decoder.arena.cap < 1 << 18); /* whatever the line claims */
    if (f.kind == WORKER_LINE || f.kind == WORKER_END || f.kind == WORKER_ACK) {
        check_text(f.run, WORKER_MAX_RUN);
        ASSERT(f.n >= 1 && f.n <= MAX_SAFE_INTEGER);
    }
    if (f.kind == WORKER_HELLO)
        check_hello(&f);
    return 0;
}

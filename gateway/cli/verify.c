#include "gateway/cli/verify.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "gateway/base/chain_digest.h"
#include "proto/event.h"
#include "proto/js.h"
#include "proto/limits.h"

#define BEGINS "{\"type\":\"event\",\"task_id\":\""

/* One task's events stand together, in order: one at a time is looked at. */
struct verify {
    struct js_doc doc;
    struct chain *chain;           /* of task_id; NULL: none yet */
    char task_id[TASK_ID_LEN + 1]; /* "": the same */
    uint64_t broken_at;            /* 0: nothing is wrong */
    bool has_end, is_proved, begins_late;
    unsigned good, bad, without;
};

static void tell_task(struct verify *v)
{
    if (!v->chain)
        return;
    printf("%s: ", v->task_id);
    if (v->broken_at) {
        printf("BROKEN at event %" PRIu64 "\n", v->broken_at);
        v->bad++;
    } else if (v->is_proved) {
        printf("%" PRIu64 " events, proved\n", v->chain->seq + 1);
        v->good++;
    } else {
        printf("%s\n", v->begins_late ? "no proof: its first events were removed"
                       : v->has_end   ? "no proof: its end has none"
                                      : "no proof: it has no end");
        v->without++;
    }
}

static void next_task(struct verify *v, struct str task_id)
{
    tell_task(v);
    free(v->chain);
    v->chain = chain_new(chain_digest);
    memcpy(v->task_id, task_id.p, TASK_ID_LEN);
    v->broken_at = 0;
    v->has_end = v->is_proved = v->begins_late = false;
}

static void check_end(struct verify *v, const struct event_parts *event)
{
    char hex[CHAIN_HEX + 1];
    v->has_end = true;
    if (!js_parse(&v->doc, event->data.p, event->data.n, JS_AGENT) || v->begins_late)
        return;
    uint32_t told = js_get(&v->doc, 0, "chain");
    if (!told)
        return;
    v->is_proved = chain_hex(v->chain, hex) && js_type(&v->doc, told) == JS_STRING &&
                   js_is(&v->doc, told, hex);
    if (!v->is_proved)
        v->broken_at = event->seq;
}

static void verify_line(struct verify *v, struct str line)
{
    struct event_parts event;
    size_t n = sizeof BEGINS - 1;
    if (line.n < n + TASK_ID_LEN || memcmp(line.p, BEGINS, n) != 0)
        return;
    struct str task_id = {line.p + n, TASK_ID_LEN};
    if (!v->chain || memcmp(v->task_id, task_id.p, TASK_ID_LEN) != 0)
        next_task(v, task_id);
    if (v->broken_at)
        return;
    bool good = event_line_split(line, &event);
    if (good && v->chain->seq == 0 && event.seq > 1 && !v->begins_late) {
        v->begins_late = true;
        v->chain->seq = event.seq - 1;
    }
    if (!good || v->has_end || event.seq != v->chain->seq + 1)
        v->broken_at = v->chain->seq + 1;
    else if (event_is_terminal(event.event))
        check_end(v, &event);
    else
        chain_take(v->chain, line, event.seq, event.seq);
}

static int verify_file(struct verify *v, FILE *file)
{
    char *line = NULL;
    size_t cap = 0;
    ssize_t n;
    while ((n = getline(&line, &cap, file)) > 0)
        verify_line(v, (struct str){line, (size_t)n - (line[n - 1] == '\n')});
    bool failed = ferror(file);
    free(line);
    tell_task(v);
    if (failed) {
        fprintf(stderr, "holdfast: the file cannot be read: %s\n", strerror(errno));
        return 1;
    }
    printf("%u proved, %u broken, %u without a proof\n", v->good, v->bad, v->without);
    return v->bad || !v->good;
}

int verify_run(const char *path)
{
    struct verify v = {0};
    FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
    if (!file) {
        fprintf(stderr, "holdfast: %s: %s\n", path, strerror(errno));
        return 1;
    }
    int code = verify_file(&v, file);
    if (file != stdin)
        fclose(file);
    free(v.chain);
    js_done(&v.doc);
    return code;
}

#include "gateway/agents/teller.h"

#define PIECE_BYTES 65536 /* of one event's text */

void teller_begin(struct teller *t)
{
    buf_clear(&t->data);
    buf_putc(&t->data, '{');
}

void teller_say(struct teller *t, const struct agent_line *line)
{
    t->paused = true; /* first, so that an unpause from inside is not forgotten */
    if (t->events.on_event(t->task, line))
        t->paused = false;
}

void teller_tell(struct teller *t, enum event_type event, struct str text)
{
    buf_putc(&t->data, '}');
    teller_say(t, &(struct agent_line){.kind = LINE_EVENT,
                                       .event = event,
                                       .data = buf_str(&t->data),
                                       .text = text,
                                       .timeout_s = -1});
}

void teller_piece(struct teller *t, enum event_type event, struct str text)
{
    while (text.n) {
        size_t n = utf8_cut(text, PIECE_BYTES);
        struct str piece = {text.p, n ? n : text.n};
        teller_begin(t);
        js_put_field(&t->data, "text", piece);
        teller_tell(t, event, piece);
        text = (struct str){text.p + piece.n, text.n - piece.n};
    }
}

void teller_final_answer(struct teller *t, struct str text)
{
    teller_begin(t);
    struct str said = event_put_output(&t->data, text);
    teller_tell(t, EVENT_FINAL_ANSWER, said);
}

void teller_result(struct teller *t, struct str object)
{
    teller_say(t, &(struct agent_line){.kind = LINE_RESULT, .data = object, .timeout_s = -1});
}

void teller_done(struct teller *t)
{
    buf_done(&t->data);
}

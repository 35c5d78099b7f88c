#include "gateway/agents/react_files.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/store.h"
#include "gateway/models/model_parts.h"
#include "gateway/models/model_talk.h"
#include "proto/file_head.h"
#include "proto/parts.h"

#define SHA256_HEX 64
#define HEAD_BYTES 24  /* of an image: more than IMAGE_HEAD */
#define BASE64_HEAD 32 /* the same as text */

struct react_file {
    struct react_files *files;
    char sha256[SHA256_HEX + 1];
    uint32_t part; /* the last that names it: the others are told to look there */
    int64_t size;
    struct buf base64;
    bool is_read;
    bool is_linked;         /* the model is given its URL: base64 has its head alone */
    struct file_load *load; /* NULL: not under way */
};

/* --- parts ------------------------------------------------------------------------------------ */

static bool part_is_file(const struct js_doc *doc, uint32_t part)
{
    uint32_t type = js_type(doc, part) == JS_OBJECT ? js_get(doc, part, "type") : 0;
    return type && js_type(doc, type) == JS_STRING && js_is(doc, type, "file");
}

static void file_get_text(const struct js_doc *doc, uint32_t part, const char *name,
                          struct buf *out)
{
    uint32_t node = js_get(doc, part, name);
    buf_clear(out);
    if (node && js_type(doc, node) == JS_STRING)
        js_value(doc, node, out);
    buf_putc(out, 0);
    out->len--;
}

static int64_t size_of(const struct js_doc *doc, uint32_t part)
{
    uint32_t size = js_get(doc, part, "size"), data = js_get(doc, part, "data");
    int64_t n = 0;
    if (size && js_type(doc, size) == JS_NUMBER && js_int(doc, size, &n))
        return n;
    return data ? (int64_t)(js_raw(doc, data).n / 4 * 3) : 0;
}

static bool model_takes(const struct model *model, struct str media_type)
{
    unsigned kind = model_part_is_image(media_type) ? MODEL_TAKES_IMAGES : MODEL_TAKES_FILES;
    return (model->takes & kind) && (!model->takes_type || model->takes_type(media_type));
}

static bool part_is_linked(const struct model *model, const struct js_doc *doc, uint32_t part,
                           struct str media_type)
{
    return model->links_type && js_get(doc, part, "file_id") && model->links_type(media_type);
}

bool react_files_refuse(const struct model *model, struct str parts, char ret_why[256])
{
    struct js_doc doc = {0};
    struct buf type = {0}, name = {0};
    int64_t bytes = 0;
    bool refuses = false;
    bool good = parts_have_file(parts) && js_parse(&doc, parts.p, parts.n, JS_OURS);
    for (uint32_t i = good ? js_first(&doc, 0) : 0; good && !refuses && i < js_end(&doc, 0);
         i = js_next(&doc, i)) {
        if (!part_is_file(&doc, i))
            continue;
        file_get_text(&doc, i, "media_type", &type);
        file_get_text(&doc, i, "name", &name);
        bytes += size_of(&doc, i);
        refuses = !model_takes(model, buf_str(&type));
        bool knows_kind = model->takes & (model_part_is_image(buf_str(&type)) ? MODEL_TAKES_IMAGES
                                                                              : MODEL_TAKES_FILES);
        if (refuses)
            snprintf(ret_why, 256, "%s takes no %s%s, and the message has one%s%.100s", model->name,
                     model_part_is_image(buf_str(&type)) ? "images" : "files",
                     knows_kind ? " of this type" : "", name.len ? ": " : "",
                     name.len ? name.bytes : "");
    }
    if (!refuses && bytes > REACT_FILES_BYTES) {
        snprintf(ret_why, 256, "the files of the message exceed %d MiB", REACT_FILES_BYTES >> 20);
        refuses = true;
    }
    ret_why[utf8_whole(str_of(ret_why))] = 0;
    js_done(&doc);
    buf_done(&type);
    buf_done(&name);
    return refuses;
}

void react_files_put_image(const struct js_doc *doc, struct buf *out)
{
    struct buf type = {0};
    file_get_text(doc, 0, "media_type", &type);
    if (model_part_is_image(buf_str(&type)) && size_of(doc, 0) <= REACT_IMAGE_BYTES) {
        buf_puts(out, ",{\"type\":\"file\"");
        for (uint32_t i = js_first(doc, 0); i < js_end(doc, 0); i = js_next(doc, i + 1)) {
            if (js_is(doc, i, "call_id"))
                continue;
            buf_putc(out, ',');
            js_copy(doc, i, out);
            buf_putc(out, ':');
            js_copy(doc, i + 1, out);
        }
        buf_putc(out, '}');
    }
    buf_done(&type);
}

/* --- reading ---------------------------------------------------------------------------------- */

static struct react_file *find_file(const struct react_files *f, struct str sha256)
{
    for (size_t i = 0; i < f->n; i++)
        if (str_eq(str_of(f->list[i].sha256), sha256))
            return &f->list[i];
    return NULL;
}

static void on_file_loaded(void *user, int status, struct str base64)
{
    struct react_file *file = user;
    struct react_files *f = file->files;
    file->load = NULL;
    file->is_read = status == STORE_OK;
    if (file->is_read)
        buf_putstr(&file->base64, base64);
    else if (status != STORE_NOT_FOUND)
        f->fault = "a file of the messages cannot be read now";
    if (--f->n_open == 0)
        f->ready(f->user);
}

/* Each file once, in the order of the last parts that name them. */
static void want_file(struct react_files *f, const struct model *model, const struct js_doc *doc,
                      uint32_t part, struct buf *scratch)
{
    file_get_text(doc, part, "media_type", scratch);
    bool is_linked = part_is_linked(model, doc, part, buf_str(scratch));
    file_get_text(doc, part, "sha256", scratch);
    if (scratch->len != SHA256_HEX)
        return;
    struct react_file *file = find_file(f, buf_str(scratch));
    if (file) {
        size_t at = (size_t)(file - f->list);
        memmove(file, file + 1, (--f->n - at) * sizeof *file);
    } else {
        f->list = xrealloc(f->list, (f->n + 1) * sizeof *f->list);
    }
    file = &f->list[f->n++];
    *file = (struct react_file){
        .files = f, .part = part, .size = size_of(doc, part), .is_linked = is_linked};
    memcpy(file->sha256, scratch->bytes, SHA256_HEX);
}

static bool is_result(const struct js_doc *doc, uint32_t message)
{
    return model_talk_role(doc, message) == MODEL_TOOL;
}

static void want_all(struct react_files *f, const struct model *model, const struct js_doc *doc)
{
    struct buf scratch = {0};
    for (uint32_t i = js_first(doc, 0); i < js_end(doc, 0); i = js_next(doc, i)) {
        bool is_moot = is_result(doc, i) && !(model->takes & MODEL_TAKES_RESULTS);
        uint32_t parts = is_moot ? 0 : model_parts_of(doc, i);
        for (uint32_t p = parts ? js_first(doc, parts) : 0; parts && p < js_end(doc, parts);
             p = js_next(doc, p))
            if (part_is_file(doc, p))
                want_file(f, model, doc, p, &scratch);
    }
    buf_done(&scratch);
}

/* The newest that fit. */
static void load_files(struct react_files *f)
{
    const struct lender *l = f->lender;
    int64_t bytes = 0;
    for (size_t i = f->n; l && i-- > 0;) {
        struct react_file *file = &f->list[i];
        bytes += file->size;
        if (bytes > REACT_FILES_BYTES)
            break;
        int64_t n = file->is_linked && file->size > HEAD_BYTES ? HEAD_BYTES : file->size;
        file->load = l->load(l->arg, f->owner, str_of(file->sha256), n, on_file_loaded, file);
        f->n_open += file->load != NULL;
        if (!file->load)
            f->fault = "the gateway is stopping";
    }
}

bool react_files_open(struct react_files *f, const struct model *model, struct str messages)
{
    struct js_doc doc = {0};
    if (!parts_have_file(messages))
        return true;
    if (js_parse(&doc, messages.p, messages.n, JS_OURS) && js_type(&doc, 0) == JS_ARRAY)
        want_all(f, model, &doc);
    js_done(&doc);
    load_files(f);
    return f->n_open == 0;
}

void react_files_clear(struct react_files *f)
{
    for (size_t i = 0; i < f->n; i++) {
        if (f->list[i].load)
            f->lender->forget(f->list[i].load);
        buf_done(&f->list[i].base64);
    }
    free(f->list);
    f->list = NULL;
    f->n = f->n_open = 0;
    f->fault = NULL;
}

/* --- the request ------------------------------------------------------------------------------ */

static void put_left_out(const char *name, const char *why, struct buf *out)
{
    struct buf text = {0};
    buf_putf(&text, "[The file %s%sis left out: %s.]", name, *name ? " " : "", why);
    buf_puts(out, "{\"type\":\"text\"");
    js_put_field(out, "text", buf_str(&text));
    buf_putc(out, '}');
    buf_done(&text);
}

static void put_loaded(struct str type, struct str name, struct str base64, struct buf *out)
{
    buf_puts(out, "{\"type\":\"file\"");
    js_put_field(out, "media_type", type);
    js_put_field(out, "name", name);
    buf_puts(out, ",\"data\":\"");
    buf_putstr(out, base64);
    buf_puts(out, "\"}");
}

/* A file whose bytes were looked at, by its URL or with its data. */
static void put_read(const struct react_files *f, const struct js_doc *doc,
                     const struct react_file *file, struct str type, struct str name,
                     struct buf *out)
{
    struct buf id = {0}, url = {0};
    if (!file->is_linked) {
        put_loaded(type, name, buf_str(&file->base64), out);
        return;
    }
    file_get_text(doc, file->part, "file_id", &id);
    if (f->lender->link &&
        f->lender->link(f->lender->link_arg, f->owner, f->conversation_id, buf_str(&id), &url)) {
        buf_puts(out, "{\"type\":\"file\"");
        js_put_field(out, "media_type", type);
        js_put_field(out, "name", name);
        js_put_field(out, "url", buf_str(&url));
        buf_putc(out, '}');
    } else {
        put_left_out(name.p, "it has no URL now", out);
    }
    buf_done(&id);
    buf_done(&url);
}

static void put_file(const struct react_files *f, const struct model *model,
                     const struct js_doc *doc, uint32_t part, struct buf *out)
{
    struct buf type = {0}, name = {0}, sha256 = {0};
    uint32_t data = js_get(doc, part, "data");
    file_get_text(doc, part, "media_type", &type);
    file_get_text(doc, part, "name", &name);
    file_get_text(doc, part, "sha256", &sha256);
    const struct react_file *file = data ? NULL : find_file(f, buf_str(&sha256));
    if (!model_takes(model, buf_str(&type))) {
        put_left_out(name.bytes, "the model takes none of its kind", out);
    } else if (!data && (!file || !file->is_read)) {
        put_left_out(name.bytes, "it is not there any more, or too large", out);
    } else if (file && file->part != part) {
        put_left_out(name.bytes, "it is given again below", out);
    } else if (data) {
        put_loaded(buf_str(&type), buf_str(&name), js_raw(doc, data), out);
    } else {
        put_read(f, doc, file, buf_str(&type), buf_str(&name), out);
    }
    buf_done(&type);
    buf_done(&name);
    buf_done(&sha256);
}

/* The type of an image by its first bytes; "": it is none. */
static const char *image_of(const struct react_file *file)
{
    struct buf head = {0};
    const char *type = NULL;
    size_t n = file->base64.len < BASE64_HEAD ? file->base64.len : BASE64_HEAD;
    if (base64_read((struct str){file->base64.bytes, n}, &head))
        type = image_type(buf_str(&head));
    buf_done(&head);
    return type && model_part_is_image(str_of(type)) ? type : "";
}

/* Behind a comma, or nothing. */
static void put_image(const struct react_files *f, const struct model *model,
                      const struct js_doc *doc, uint32_t part, struct buf *out)
{
    struct buf name = {0}, sha256 = {0};
    file_get_text(doc, part, "name", &name);
    file_get_text(doc, part, "sha256", &sha256);
    const struct react_file *file = find_file(f, buf_str(&sha256));
    const char *type = file && file->is_read ? image_of(file) : "";
    if (*type && (model->takes & MODEL_TAKES_RESULTS)) {
        buf_putc(out, ',');
        if (file->part == part)
            put_read(f, doc, file, str_of(type), buf_str(&name), out);
        else
            put_left_out(name.bytes, "it is given again below", out);
    }
    buf_done(&name);
    buf_done(&sha256);
}

/* A text, when no image is left beside it. */
static void put_result_content(const struct react_files *f, const struct model *model,
                               const struct js_doc *doc, uint32_t parts, struct buf *out)
{
    struct buf images = {0};
    uint32_t first = js_first(doc, parts), text = js_get(doc, first, "text");
    for (uint32_t i = js_next(doc, first); i < js_end(doc, parts); i = js_next(doc, i))
        put_image(f, model, doc, i, &images);
    if (images.len) {
        buf_putc(out, '[');
        buf_putstr(out, js_raw(doc, first));
        buf_putstr(out, buf_str(&images));
        buf_putc(out, ']');
    } else {
        js_copy(doc, text, out);
    }
    buf_done(&images);
}

static void put_parts_content(const struct react_files *f, const struct model *model,
                              const struct js_doc *doc, uint32_t parts, struct buf *out)
{
    buf_putc(out, '[');
    for (uint32_t i = js_first(doc, parts); i < js_end(doc, parts); i = js_next(doc, i)) {
        if (i > js_first(doc, parts))
            buf_putc(out, ',');
        if (part_is_file(doc, i))
            put_file(f, model, doc, i, out);
        else
            buf_putstr(out, js_raw(doc, i));
    }
    buf_putc(out, ']');
}

static void put_with_files(const struct react_files *f, const struct model *model,
                           const struct js_doc *doc, uint32_t message, struct buf *out)
{
    uint32_t parts = model_parts_of(doc, message);
    if (!parts) {
        buf_putstr(out, js_raw(doc, message));
        return;
    }
    buf_putc(out, '{');
    for (uint32_t i = js_first(doc, message); i < js_end(doc, message); i = js_next(doc, i + 1)) {
        if (i > js_first(doc, message))
            buf_putc(out, ',');
        js_copy(doc, i, out);
        buf_putc(out, ':');
        if (i + 1 != parts)
            js_copy(doc, i + 1, out);
        else if (is_result(doc, message))
            put_result_content(f, model, doc, parts, out);
        else
            put_parts_content(f, model, doc, parts, out);
    }
    buf_putc(out, '}');
}

void react_files_put(const struct react_files *f, const struct model *model, struct str messages,
                     struct buf *out)
{
    struct js_doc doc = {0};
    if (!parts_have_file(messages) || !js_parse(&doc, messages.p, messages.n, JS_OURS)) {
        buf_putstr(out, messages);
        js_done(&doc);
        return;
    }
    buf_putc(out, '[');
    for (uint32_t i = js_first(&doc, 0); i < js_end(&doc, 0); i = js_next(&doc, i)) {
        if (i > js_first(&doc, 0))
            buf_putc(out, ',');
        put_with_files(f, model, &doc, i, out);
    }
    buf_putc(out, ']');
    js_done(&doc);
}

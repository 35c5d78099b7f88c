#include "gateway/agents/react_arguments.h"

#include "proto/limits.h"
#include "proto/str.h"

/* Removes the white space and control characters around it. */
static struct str strip(struct str text)
{
    while (text.n && (unsigned char)text.p[text.n - 1] <= ' ')
        text.n--;
    while (text.n && (unsigned char)text.p[0] <= ' ')
        text = str_from(text, 1);
    return text;
}

/* Some models write nothing, or null, for none, and some write the object as a string once more. */
const char *react_arguments_read(struct js_doc *doc, struct str text, struct buf *ret)
{
    struct buf inner = {0};
    const char *fault = NULL;
    text = text.p ? text : STR("");
    bool is_json = js_parse(doc, text.p, text.n, JS_AGENT);
    if (is_json && js_type(doc, 0) == JS_STRING) {
        js_value(doc, 0, &inner);
        text = buf_str(&inner);
        is_json = js_parse(doc, text.p, text.n, JS_AGENT);
    }
    if (strip(text).n == 0 || (is_json && js_type(doc, 0) == JS_NULL))
        buf_puts(ret, "{}");
    else if (!is_json)
        fault = "the arguments are not JSON";
    else if (js_type(doc, 0) != JS_OBJECT)
        fault = "the arguments are not a JSON object";
    else
        js_copy(doc, 0, ret);
    if (ret->len > MAX_OUTPUT)
        fault = "the arguments exceed 256 KiB";
    buf_done(&inner);
    return fault;
}

struct str react_plain_name(struct str name)
{
    const char *token = name.n ? memmem(name.p, name.n, "<|", 2) : NULL;
    if (token)
        name.n = (size_t)(token - name.p);
    name = strip(name);
    return str_begins(name, STR("functions.")) ? str_from(name, 10) : name;
}

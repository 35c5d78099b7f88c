/* The proof in a file's URL: any other text than ours is none, and ours is read as it was made. */
#include "gateway/auth/file_link.h"
#include "proto/str.h"

#define WALL_MS 1764280000000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const unsigned char key[FILE_LINK_KEY_BYTES] = "a key that has thirty-two bytes.";

static bool is_good(struct str conversation_id, struct str file_id, struct str proof,
                    struct buf *owner)
{
    const struct file_link link = {.conversation_id = conversation_id, .file_id = file_id};
    int64_t expires_at_ms;
    return file_link_read(key, &link, proof, WALL_MS, owner, &expires_at_ms);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = {(const char *)data, size};
    struct buf proof = {0}, owner = {0};
    ASSERT(!is_good(STR("c"), STR("f"), text, &owner) && owner.len == 0);
    if (size > 0 && size <= 255 && !memchr(data, 0, size)) {
        const struct file_link link = {text, STR("c"), STR("f")};
        ASSERT(file_link_put(key, &link, WALL_MS, &proof));
        ASSERT(is_good(STR("c"), STR("f"), buf_str(&proof), &owner));
        ASSERT(str_eq(buf_str(&owner), text));
        buf_clear(&owner);
        ASSERT(!is_good(STR("c2"), STR("f"), buf_str(&proof), &owner));
        ASSERT(!is_good(STR("c"), STR("f2"), buf_str(&proof), &owner));
    }
    buf_done(&proof);
    buf_done(&owner);
    return 0;
}

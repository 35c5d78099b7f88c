#include "gateway/auth/file_link.h"

#include <inttypes.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>

#include "proto/base64url.h"
#include "proto/str.h"

#define MAC_BYTES 32
#define EXPIRES_DIGITS 12 /* more than any time of this calendar */

static bool put_mac(const unsigned char *key, const struct file_link *link, int64_t expires_s,
                    struct buf *out)
{
    struct buf text = {0};
    unsigned char mac[MAC_BYTES];
    size_t n = 0;
    const struct str parts[] = {link->owner, link->conversation_id, link->file_id};
    for (size_t i = 0; i < countof(parts); i++) {
        buf_putstr(&text, parts[i]);
        buf_putc(&text, 0); /* so that no two links make one text */
    }
    buf_putf(&text, "%" PRId64, expires_s);
    bool good =
        EVP_Q_mac(NULL, "HMAC", NULL, "SHA256", NULL, key, FILE_LINK_KEY_BYTES,
                  (const unsigned char *)text.bytes, text.len, mac, sizeof mac, &n) != NULL &&
        n == sizeof mac;
    if (good)
        base64url_put(out, mac, sizeof mac);
    buf_done(&text);
    return good;
}

bool file_link_put(const unsigned char key[FILE_LINK_KEY_BYTES], const struct file_link *link,
                   int64_t wall_ms, struct buf *out)
{
    int64_t now = wall_ms / 1000, expires_s = now - now % FILE_LINK_STEP_S + FILE_LINK_S;
    base64url_put(out, link->owner.p, link->owner.n);
    buf_putf(out, ".%" PRId64 ".", expires_s);
    return put_mac(key, link, expires_s, out);
}

/* Up to the next point, which is passed over. */
static struct str next_field(struct str *rest)
{
    const char *point = rest->n ? memchr(rest->p, '.', rest->n) : NULL;
    struct str field = {rest->p, point ? (size_t)(point - rest->p) : rest->n};
    *rest = str_from(*rest, field.n + (point != NULL));
    return field;
}

/* As file_link_put writes it: no sign, no zero before. */
static bool read_expiry(struct str text, int64_t *ret)
{
    bool good = text.n > 0 && text.n <= EXPIRES_DIGITS && text.p[0] != '0';
    *ret = 0;
    for (size_t i = 0; good && i < text.n; i++) {
        good = is_digit(text.p[i]);
        *ret = *ret * 10 + (text.p[i] - '0');
    }
    return good;
}

bool file_link_read(const unsigned char key[FILE_LINK_KEY_BYTES], const struct file_link *link,
                    struct str proof, int64_t wall_ms, struct buf *owner,
                    int64_t *ret_expires_at_ms)
{
    struct buf name = {0}, mac = {0};
    struct str rest = proof, named = next_field(&rest), until = next_field(&rest);
    int64_t expires_s = 0;
    bool good = read_expiry(until, &expires_s) && base64url_read(named, &name) && name.len > 0;
    struct file_link found = {buf_str(&name), link->conversation_id, link->file_id};
    good = good && put_mac(key, &found, expires_s, &mac) && mac.len == rest.n &&
           CRYPTO_memcmp(mac.bytes, rest.p, mac.len) == 0 && wall_ms < expires_s * 1000;
    if (good) {
        buf_putstr(owner, buf_str(&name));
        *ret_expires_at_ms = expires_s * 1000;
    }
    buf_done(&name);
    buf_done(&mac);
    return good;
}

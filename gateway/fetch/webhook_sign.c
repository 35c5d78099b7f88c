#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>

#include "gateway/base/secret_line.h"
#include "gateway/fetch/webhook.h"
#include "proto/str.h"

#define SECRET_PREFIX "whsec_"
#define HOOK_SECRET_MIN 24
#define HOOK_SECRET_MAX 512
#define SECRET_LINE 1024 /* bytes of base64 */

void webhook_sign(struct str secret, struct str id, int64_t timestamp_s, struct str body,
                  struct buf *out)
{
    unsigned char mac[EVP_MAX_MD_SIZE];
    char text[64];
    unsigned n = 0;
    struct buf signed_text = {0};
    buf_putstr(&signed_text, id);
    buf_putf(&signed_text, ".%lld.", (long long)timestamp_s);
    buf_putstr(&signed_text, body);
    ASSERT(HMAC(EVP_sha256(), secret.p, (int)secret.n, (const unsigned char *)signed_text.bytes,
                signed_text.len, mac, &n) &&
           n == 32);
    EVP_EncodeBlock((unsigned char *)text, mac, (int)n);
    buf_putf(out, "v1,%s", text);
    buf_done(&signed_text);
}

/* For base64 with its padding; false for anything else. */
static bool decode(struct str text, struct buf *out)
{
    unsigned char bytes[1024];
    if (text.n == 0 || text.n % 4 || text.n > sizeof bytes)
        return false;
    int n = EVP_DecodeBlock(bytes, (const unsigned char *)text.p, (int)text.n);
    for (size_t i = 1; n > 0 && i <= 2 && text.p[text.n - i] == '='; i++)
        n--;
    if (n > 0)
        buf_put(out, (const char *)bytes, (size_t)n);
    OPENSSL_cleanse(bytes, sizeof bytes);
    return n > 0;
}

bool webhook_secret(const char *file, struct secrets *hidden, struct buf *ret_secret,
                    char *ret_error, size_t n)
{
    struct buf line = {0};
    size_t prefix = strlen(SECRET_PREFIX);
    const char *wrong = secret_line_read(file, SECRET_LINE, &line);
    if (wrong) {
        snprintf(ret_error, n, "the secret in %s cannot be used: %s", file, wrong);
        secret_line_done(&line);
        return false;
    }
    bool good = true;
    bool is_encoded = strncmp(line.bytes, SECRET_PREFIX, prefix) == 0;
    buf_clear(ret_secret);
    secrets_add(hidden, str_from(buf_str(&line), is_encoded ? prefix : 0));
    if (is_encoded)
        good = decode((struct str){line.bytes + prefix, line.len - prefix}, ret_secret);
    else
        buf_putstr(ret_secret, buf_str(&line));
    secret_line_done(&line);
    good = good && ret_secret->len >= HOOK_SECRET_MIN && ret_secret->len <= HOOK_SECRET_MAX;
    if (!good)
        snprintf(ret_error, n,
                 "the secret in %s must be %d to %d bytes, or base64 of them after %s", file,
                 HOOK_SECRET_MIN, HOOK_SECRET_MAX, SECRET_PREFIX);
    return good;
}

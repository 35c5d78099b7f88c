/* The proof that a node has the cluster's secret: HMAC-SHA256 (RFC 2104) of both hellos. */
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "gateway/links/links_private.h"

struct link_frame link_hello_of(const struct buf *bytes)
{
    struct link_frame f;
    struct str from = buf_str(bytes);
    ASSERT(link_read(&from, LINK_MOST_STRANGER, &f) == LINK_READ);
    return f;
}

static void make_proof(const struct link *k, bool dialler, unsigned char ret[LINK_MAC])
{
    const struct link_frame mine = link_hello_of(&k->mine), theirs = link_hello_of(&k->theirs);
    const struct buf *secret = &k->links->secret;
    struct buf proven = {0};
    unsigned char bound[LINK_MAC];
    unsigned n = LINK_MAC;
    if (k->tls)
        link_tls_bind(k, bound);
    link_put_proven(&proven, dialler, k->peer ? &mine : &theirs, k->peer ? &theirs : &mine,
                    k->tls ? (struct str){(const char *)bound, sizeof bound} : STR_NULL);
    ASSERT(HMAC(EVP_sha256(), secret->bytes, (int)secret->len, (const unsigned char *)proven.bytes,
                proven.len, ret, &n));
    buf_done(&proven);
}

void link_tls_key(const struct links *l, unsigned char ret[LINK_MAC])
{
    static const char purpose[] = "holdfast link: key of TLS";
    unsigned n = LINK_MAC;
    ASSERT(HMAC(EVP_sha256(), l->secret.bytes, (int)l->secret.len, (const unsigned char *)purpose,
                sizeof purpose - 1, ret, &n));
}

void link_prove(struct link *k)
{
    unsigned char mac[LINK_MAC];
    make_proof(k, k->peer != NULL, mac);
    link_say(k, &(struct link_frame){.kind = LINK_PROOF, .bytes = {(char *)mac, sizeof mac}});
}

bool link_is_proven(const struct link *k, const struct link_frame *f)
{
    unsigned char mac[LINK_MAC];
    make_proof(k, k->peer == NULL, mac);
    return f->kind == LINK_PROOF && f->bytes.n == LINK_MAC &&
           CRYPTO_memcmp(f->bytes.p, mac, LINK_MAC) == 0;
}

/* TLS 1.3 of a link, with a key that both ends derive from the cluster's secret (RFC 8446 section
 * 2.2): there is no certificate, and an end without the secret ends in the handshake.  Bytes go
 * through memory: the socket is link.c's. */
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>

#include "gateway/links/links_private.h"

#define IDENTITY "holdfast link"
#define BINDING "EXPORTER-holdfast-link"

struct link_tls {
    SSL *ssl;
    BIO *in, *out; /* the SSL's */
    bool is_open;  /* the handshake is over */
    bool is_over;  /* a record was none: OpenSSL writes nothing more but its alert */
};

static struct link *link_of(SSL *ssl)
{
    return SSL_get_app_data(ssl);
}

/* OpenSSL takes such a key in the form of a session that nobody had. */
static SSL_SESSION *session_of_key(SSL *ssl)
{
    static const unsigned char aes_128_gcm_sha256[] = {0x13, 0x01}; /* RFC 8446 B.4 */
    unsigned char key[LINK_MAC];
    SSL_SESSION *session = SSL_SESSION_new();
    link_tls_key(link_of(ssl)->links, key);
    ASSERT(session && SSL_SESSION_set1_master_key(session, key, sizeof key) &&
           SSL_SESSION_set_cipher(session, SSL_CIPHER_find(ssl, aes_128_gcm_sha256)) &&
           SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION));
    return session;
}

static int use_key(SSL *ssl, const EVP_MD *md, const unsigned char **ret_identity, size_t *ret_n,
                   SSL_SESSION **ret)
{
    (void)md; /* there is one cipher */
    *ret_identity = (const unsigned char *)IDENTITY;
    *ret_n = sizeof IDENTITY - 1;
    *ret = session_of_key(ssl);
    return 1;
}

static int find_key(SSL *ssl, const unsigned char *identity, size_t n, SSL_SESSION **ret)
{
    bool ours = str_eq((struct str){(const char *)identity, n}, STR(IDENTITY));
    *ret = ours ? session_of_key(ssl) : NULL;
    return 1;
}

void link_tls_begin(struct link *k)
{
    SSL_CTX *context = SSL_CTX_new(TLS_method());
    struct link_tls *t = k->tls = xcalloc(sizeof *t);
    ASSERT(context && SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) &&
           SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256"));
    SSL_CTX_set_num_tickets(context, 0);
    if (k->peer) /* a certificate is none of ours */
        SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    t->ssl = SSL_new(context);
    SSL_CTX_free(context); /* the connection has it */
    t->in = BIO_new(BIO_s_mem());
    t->out = BIO_new(BIO_s_mem());
    ASSERT(t->ssl && t->in && t->out);
    SSL_set_bio(t->ssl, t->in, t->out);
    SSL_set_app_data(t->ssl, k);
    if (k->peer) {
        SSL_set_psk_use_session_callback(t->ssl, use_key);
        SSL_set_connect_state(t->ssl);
    } else {
        SSL_set_psk_find_session_callback(t->ssl, find_key);
        SSL_set_accept_state(t->ssl);
    }
}

void link_tls_end(struct link *k)
{
    if (!k->tls)
        return;
    SSL_free(k->tls->ssl);
    free(k->tls);
    k->tls = NULL;
}

/* Moves the bytes for the other end. */
static void drain(struct link_tls *t, struct buf *out)
{
    for (size_t n; (n = BIO_ctrl_pending(t->out)) > 0;) {
        int got = BIO_read(t->out, buf_reserve(out, n), (int)n);
        ASSERT(got > 0);
        out->len += (size_t)got;
    }
}

/* False: it failed. */
static bool shake_hands(struct link_tls *t)
{
    ERR_clear_error();
    int done = t->is_open ? 1 : SSL_do_handshake(t->ssl);
    t->is_open = done == 1;
    return done == 1 ? SSL_session_reused(t->ssl) == 1
                     : SSL_get_error(t->ssl, done) == SSL_ERROR_WANT_READ;
}

void link_tls_seal(struct link *k, struct buf *plain, struct buf *out)
{
    struct link_tls *t = k->tls;
    if (!t->is_over && shake_hands(t) && t->is_open && plain->len > 0) {
        size_t n = 0;
        ASSERT(SSL_write_ex(t->ssl, plain->bytes, plain->len, &n) == 1 && n == plain->len);
        buf_clear(plain);
    }
    drain(t, out);
}

const char *link_tls_take(struct link *k, struct str bytes, struct buf *plain)
{
    struct link_tls *t = k->tls;
    size_t n = 0;
    int status = 1;
    ASSERT(BIO_write(t->in, bytes.p, (int)bytes.n) == (int)bytes.n);
    if (!shake_hands(t))
        return "TLS fails: the secrets differ, or the other end has no cluster.tls";
    while (t->is_open && status == 1) {
        status = SSL_read_ex(t->ssl, buf_reserve(plain, LINK_TLS_PIECE), LINK_TLS_PIECE, &n);
        plain->len += status == 1 ? n : 0;
    }
    int error = t->is_open ? SSL_get_error(t->ssl, status) : SSL_ERROR_WANT_READ;
    t->is_over = error != SSL_ERROR_WANT_READ;
    return t->is_over ? "TLS fails: a record that is none" : NULL;
}

void link_tls_bind(const struct link *k, unsigned char ret[LINK_MAC])
{
    ASSERT(SSL_export_keying_material(k->tls->ssl, ret, LINK_MAC, BINDING, sizeof BINDING - 1, NULL,
                                      0, 0) == 1);
}

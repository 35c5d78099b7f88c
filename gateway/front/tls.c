#include "gateway/front/tls.h"

#include <openssl/err.h>
#include <stdio.h>

void tls_begin(SSL_CTX *context)
{
    SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
    SSL_CTX_set_options(context, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
}

static const char *why(const char *path)
{
    static char text[512];
    unsigned long e = ERR_get_error();
    const char *reason = ERR_SYSTEM_ERROR(e) ? strerror(ERR_GET_REASON(e))
                         : e                 ? ERR_reason_error_string(e)
                                             : "the key does not belong to the certificate";
    snprintf(text, sizeof text, "%s: %s", path, reason ? reason : "cannot be read");
    ERR_clear_error();
    return text;
}

static const char *tls_load(SSL_CTX *context, const char *cert, const char *key)
{
    if (SSL_CTX_use_certificate_chain_file(context, cert) != 1)
        return why(cert);
    if (SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) != 1)
        return why(key);
    if (SSL_CTX_check_private_key(context) == 1)
        return NULL;
    ERR_clear_error(); /* "no certificate assigned" for a key of another kind */
    return why(key);
}

/* At each handshake, before a certificate is chosen: use the pair of `from` alone.  In the context
 * itself one pair of each kind of key would remain, and a client that prefers the old kind would
 * get it. */
static int take_pair(SSL *connection, void *from)
{
    STACK_OF(X509) *chain = NULL;
    SSL_certs_clear(connection);
    return SSL_CTX_get0_chain_certs(from, &chain) == 1 &&
           SSL_use_cert_and_key(connection, SSL_CTX_get0_certificate(from),
                                SSL_CTX_get0_privatekey(from), chain, 1) == 1;
}

static void drop_pair(void *parent, void *from, CRYPTO_EX_DATA *data, int index, long n, void *arg)
{
    (void)parent;
    (void)data;
    (void)index;
    (void)n;
    (void)arg;
    SSL_CTX_free(from);
}

/* NULL with why, which is what tls_check says. */
static SSL_CTX *read_pair(const struct config *config, const char **ret_wrong)
{
    SSL_CTX *pair = SSL_CTX_new(TLS_server_method());
    ERR_clear_error();
    *ret_wrong = pair ? tls_load(pair, config->tls.cert, config->tls.key) : why(config->tls.cert);
    if (*ret_wrong) {
        SSL_CTX_free(pair);
        return NULL;
    }
    return pair;
}

const char *tls_check(const struct config *config)
{
    const char *wrong;
    SSL_CTX_free(read_pair(config, &wrong));
    return wrong;
}

const char *tls_reload(SSL_CTX *context, const struct config *config)
{
    static int slot = -1; /* in the context: the source of its pair, freed with it */
    const char *wrong;
    if (slot < 0)
        slot = SSL_CTX_get_ex_new_index(0, NULL, NULL, NULL, drop_pair);
    if (slot < 0)
        return why(config->tls.cert);
    SSL_CTX *pair = read_pair(config, &wrong), *old;
    if (!pair)
        return wrong;
    old = SSL_CTX_get_ex_data(context, slot);
    SSL_CTX_set_ex_data(context, slot, pair);
    SSL_CTX_set_cert_cb(context, take_pair, pair);
    SSL_CTX_free(old);
    return NULL;
}

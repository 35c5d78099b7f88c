#include "gateway/tls.h"

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
    char reason[256] = "the key does not belong to the certificate";
    unsigned long e = ERR_get_error();
    if (e)
        ERR_error_string_n(e, reason, sizeof reason);
    snprintf(text, sizeof text, "%s: %s", path, reason);
    ERR_clear_error();
    return text;
}

static const char *load(SSL_CTX *context, const char *cert, const char *key)
{
    if (SSL_CTX_use_certificate_chain_file(context, cert) != 1)
        return why(cert);
    if (SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_check_private_key(context) != 1)
        return why(key);
    return NULL;
}

const char *tls_reload(SSL_CTX *context, const struct config *config)
{
    SSL_CTX *trial = SSL_CTX_new(TLS_server_method());
    if (!trial)
        return why(config->tls.cert);
    ERR_clear_error();
    const char *wrong = load(trial, config->tls.cert, config->tls.key);
    SSL_CTX_free(trial);
    return wrong ? wrong : load(context, config->tls.cert, config->tls.key);
}

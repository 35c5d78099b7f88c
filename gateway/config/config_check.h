/* config_check -- what the files of the check share: inside gateway/config only.
 *
 * Shape:    config_check (config.h) looks at what one gateway has once; config_check_agents at the
 *           lists of webhooks, models, agents and workers.
 * Thread:   any.
 */
#ifndef GATEWAY_CONFIG_CONFIG_CHECK_H
#define GATEWAY_CONFIG_CONFIG_CHECK_H

#include "gateway/config/config_keys.h"

/* Where a fault is: "agents[3].url". */
struct config_path {
    char text[96];
};

struct config_path config_path(const char *format, ...) __attribute__((format(printf, 1, 2)));
bool config_text_is(const char *text, const char *other); /* a NULL text is none */
void config_set_text(char **member, const char *text);
bool config_is_name(const char *text); /* it may appear in a log, a header and a list */
void config_check_url(const char *url, const char *path, struct faults *f); /* of http or https */

void config_check_agents(struct config *c, struct faults *f);
void config_check_workers(const struct config *c, struct faults *f); /* config_workers.c */
void config_check_mcp(const struct config *c, struct faults *f);     /* config_mcp.c */
void config_check_page(struct config *c, struct faults *f);          /* config_page.c */

#endif

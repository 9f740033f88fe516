/*
 * The key for consistent hashing of a request: the client's address, or the value of the header
 * field or cookie that the service names. A request without that field or cookie is hashed by its
 * client's address. Pure; the same on every worker and node.
 */
#ifndef EDGEWAY_LB_BALANCE_HASHKEY_H
#define EDGEWAY_LB_BALANCE_HASHKEY_H

#include "base/http/http1.h"
#include "model/service.h"

/* head: NULL for relayed connections. */
/* The value of the first field, or cookie, of this name. */
bool hashkey_find(
	const struct http1_head *h, const char *name, bool cookie, struct http1_str *value);
uint64_t hashkey_of(const struct service *s, const struct http1_head *head, uint32_t client_ip);

#endif

/*
 * Resolves the names of `peers` to the addresses of the other replicas, again and again, since
 * replicas come and go behind a name. The nameservers and the search list are those in
 * /etc/resolv.conf at that time. Addresses need no resolving and are reported once. A name that
 * cannot be resolved keeps its last addresses; the failure is logged. On the hub's loop.
 *
 *	peer_names_new(&(struct peer_names_config){.loop = loop, .names = names, .port = 10000,
 *		.found = on_found, .arg = me}, &peer_names, &err);
 *
 * `found` comes after each DNS response, never from within a call of this header, with the
 * addresses of the name with this index.
 */
#ifndef EDGEWAY_HUB_REPLICAS_PEER_NAMES_H
#define EDGEWAY_HUB_REPLICAS_PEER_NAMES_H

#include "base/core/loop.h"
#include "base/core/sock.h"

enum {
	PEER_NAMES_MAX = 64,
	PEER_NAMES_AGAIN_MS = 5000,
	PEER_NAMES_SOON_MS = 1000, /* while a name has no address */
};

struct peer_names;

struct peer_names_config {
	struct loop *loop;
	const char *const *names; /* HOST[:PORT], ended by NULL; copied */
	uint16_t port; /* for names without a port */
	const char *resolv_conf; /* NULL: /etc/resolv.conf */
	void (*found)(void *arg, size_t name, const struct addr *addrs, size_t n);
	void *arg;
};

/* -EINVAL: a name is not valid; err names it. */
int peer_names_new(
	const struct peer_names_config *config, struct peer_names **out, struct err *err);
void peer_names_free(struct peer_names **p);
/* Returns true once every name has had a response, good or bad. */
bool peer_names_asked(const struct peer_names *p);
/* Why the name has no address, "" if it has one; `name`: set to the name itself. */
const char *peer_names_problem(const struct peer_names *p, size_t i, const char **name);

#endif

#include "hub/port/caller.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/core/hops.h"
#include "hub/port/self_guard.h"
#include "model/check.h"

struct caller_kept {
	unsigned hops;
	uint8_t addr_len;
	bool local, own_dial, admitted;
	char bytes[]; /* of the address, then cert, token, its hash and node, each with its NUL */
};

static void
caller_set(struct caller *c, enum caller_way way, struct self_guard *guard)
{
	struct in6_addr ip;

	if (!addr_ip(&c->addr, &ip)) {
		c->local = c->addr.sa.sa_family == AF_UNIX;
		return;
	}
	/* Every dial of the hub carries a hop count. A program of this host that got the same
	 * source port towards this listener has none. */
	c->own_dial = guard != NULL && c->hops > 0 && self_guard_dialled(guard, &c->addr);
	c->local = !c->own_dial &&
		(ip_is_loopback(&ip) ||
			(way == CALLER_REDIRECT && guard != NULL &&
				self_guard_on_host(guard, &ip)));
}

int
caller_accept(struct caller *c, int fd, enum caller_way way, struct self_guard *guard)
{
	memset(c, 0, sizeof *c);
	c->addr.len = sizeof c->addr.un;
	if (getpeername(fd, &c->addr.sa, &c->addr.len) < 0)
		return -errno;
	c->hops = hops_of_socket(fd, c->addr.sa.sa_family);
	caller_set(c, way, guard);
	return 0;
}

void
caller_datagram(struct caller *c, const struct addr *peer, unsigned hops, struct self_guard *guard)
{
	memset(c, 0, sizeof *c);
	c->addr = *peer;
	c->hops = hops;
	caller_set(c, CALLER_LISTENER, guard);
}

void
caller_node(struct caller *c, const char *node)
{
	memset(c, 0, sizeof *c);
	snprintf(c->node, sizeof c->node, "%s", node);
}

struct caller_kept *
caller_keep(const struct caller *c)
{
	const char *const names[] = {c->cert, c->token, c->token_hash, c->node};
	size_t len = sizeof(struct caller_kept) + c->addr.len;
	struct caller_kept *k;
	char *at;

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		len += strlen(names[i]) + 1;
	k = xmalloc(len);
	*k = (struct caller_kept){.hops = c->hops,
		.addr_len = (uint8_t)c->addr.len,
		.local = c->local,
		.own_dial = c->own_dial,
		.admitted = c->admitted};
	memcpy(k->bytes, &c->addr.un, c->addr.len);
	at = k->bytes + c->addr.len;
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		at = stpcpy(at, names[i]) + 1;
	return k;
}

const struct caller *
caller_load(const struct caller_kept *k, struct caller *to)
{
	char *const names[] = {to->cert, to->token, to->token_hash, to->node};
	const char *at = k->bytes + k->addr_len;

	memset(&to->addr, 0, sizeof to->addr);
	to->addr.len = k->addr_len;
	memcpy(&to->addr.un, k->bytes, k->addr_len);
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		at += (size_t)(stpcpy(names[i], at) - names[i]) + 1;
	to->hops = k->hops;
	to->local = k->local;
	to->own_dial = k->own_dial;
	to->admitted = k->admitted;
	return to;
}

const char *
caller_text(const struct caller *c, char to[ACCESS_NAME_MAX + 8])
{
	char addr[ADDR_TEXT_MAX];

	if (c->node[0] != '\0')
		snprintf(to, ACCESS_NAME_MAX + 8, "node:%s", c->node);
	else if (c->token[0] != '\0')
		snprintf(to, ACCESS_NAME_MAX + 8, "token:%s", c->token);
	else if (c->cert[0] != '\0')
		snprintf(to, ACCESS_NAME_MAX + 8, "cert:%s", c->cert);
	else
		snprintf(to, ACCESS_NAME_MAX + 8, "%s", addr_text(&c->addr, addr));
	return to;
}

const char *
caller_name(const struct caller *c, char to[ACCESS_NAME_MAX + 8])
{
	struct in6_addr ip;

	if (c->node[0] != '\0' || c->token[0] != '\0' || c->cert[0] != '\0')
		return caller_text(c, to);
	if (!addr_ip(&c->addr, &ip))
		return strcpy(to, "unix");
	if (IN6_IS_ADDR_V4MAPPED(&ip))
		return inet_ntop(AF_INET, &ip.s6_addr[12], to, ACCESS_NAME_MAX + 8);
	memset(&ip.s6_addr[8], 0, 8);
	inet_ntop(AF_INET6, &ip, to, ACCESS_NAME_MAX);
	return strcat(to, "/64");
}

#include "hub/port/self_guard.h"

#include <stdio.h>
#include <string.h>

#include "base/core/log.h"
#include "base/core/special_addr.h"
#include "model/check.h"
#include "model/json.h"

struct self_guard {
	struct self_guard_config config;
	uint8_t ports[SELF_GUARD_PORTS / 8]; /* one bit per port at which the hub listens */
	LIST_HEAD(, self_dial) dials;
	uint64_t refused, came_back;
	char last[ADDR_TEXT_MAX]; /* the last refused target; "": none */
};

struct self_guard *
self_guard_new(const struct self_guard_config *config)
{
	struct self_guard *g = xcalloc(1, sizeof *g);

	g->config = *config;
	LIST_INIT(&g->dials);
	return g;
}

void
self_guard_free(struct self_guard **out)
{
	struct self_guard *g = take_ptr(out);
	struct self_dial *d;

	if (g == NULL)
		return;
	while ((d = LIST_FIRST(&g->dials)) != NULL)
		self_guard_ended(d);
	free(g);
}

void
self_guard_listens(struct self_guard *g, const struct addr *listen)
{
	uint16_t port = addr_port(listen);

	if (port != 0)
		g->ports[port / 8] |= (uint8_t)(1u << port % 8);
}

bool
self_guard_is_listener(const struct self_guard *g, uint16_t port)
{
	return (g->ports[port / 8] >> port % 8 & 1) != 0;
}

/* --- addresses ------------------------------------------------------------------------------ */

bool
self_guard_on_host(struct self_guard *g, const struct in6_addr *ip)
{
	return special_addr_class(ip) == SPECIAL_LOOPBACK || addresses_has(g->config.addresses, ip);
}

bool
self_guard_is_hub(struct self_guard *g, const struct in6_addr *ip)
{
	return self_guard_on_host(g, ip) || g->config.replica(g->config.arg, ip) ||
		g->config.named(g->config.arg, ip);
}

/* --- dials ---------------------------------------------------------------------------------- */

/* A replica's host may be a node that the hub dials, and tls.names often has its address as
 * well. */
static const char *
self_guard_judge(struct self_guard *g, const struct addr *to, const struct caller *caller)
{
	uint16_t port = addr_port(to);
	struct in6_addr ip;

	if (!addr_ip(to, &ip))
		return "this is no address";
	ip = special_addr_inner(&ip);
	if (special_addr_class(&ip) == SPECIAL_LOOPBACK)
		return "this is the hub itself";
	if (!self_guard_is_hub(g, &ip))
		return NULL;
	if (self_guard_is_listener(g, port))
		return "this is a listener of the hub or of a replica of it";
	if (!self_guard_on_host(g, &ip) && g->config.replica(g->config.arg, &ip))
		return NULL;
	return acl_names_address(g->config.access, caller, &ip, port)
		? NULL
		: "this is an address of the hub itself; only a rule to cloud/ADDRESS:PORT with "
		  "this very address opens it";
}

const char *
self_guard_refuses(struct self_guard *g, const struct addr *to, const struct caller *caller)
{
	const char *why = self_guard_judge(g, to, caller);
	char who[ACCESS_NAME_MAX + 8] = "-";

	if (why == NULL)
		return NULL;
	g->refused++;
	addr_text(to, g->last);
	log_limited(LOG_LEVEL_WARN, 6, "hub",
		"a dial that would end at the hub itself is refused target=%s caller=%s "
		"reason=\"%s\"",
		g->last, caller != NULL ? caller_text(caller, who) : who, why);
	return why;
}

void
self_guard_begun(struct self_guard *g, struct self_dial *dial, const struct addr *from)
{
	self_guard_ended(dial);
	dial->from = *from;
	dial->noted = true;
	LIST_INSERT_HEAD(&g->dials, dial, link);
}

void
self_guard_ended(struct self_dial *dial)
{
	if (dial->noted)
		LIST_REMOVE(dial, link);
	dial->noted = false;
}

bool
self_guard_dialled(struct self_guard *g, const struct addr *from)
{
	struct in6_addr ip, own;
	const struct self_dial *d;
	char text[ADDR_TEXT_MAX];

	/* If a NAT has changed the source address, the connection is a caller with that address. */
	if (!addr_ip(from, &ip) || !addresses_has(g->config.addresses, &ip))
		return false;
	LIST_FOREACH(d, &g->dials, link)
		if (addr_port(&d->from) == addr_port(from) && addr_ip(&d->from, &own) &&
			memcmp(&own, &ip, sizeof ip) == 0) {
			g->came_back++;
			log_limited(LOG_LEVEL_WARN, 6, "hub",
				"a connection that the hub has begun came back to it: a NAT or "
				"load balancer leads there; put its address into tls.names from=%s",
				addr_text(from, text));
			return true;
		}
	return false;
}

/* --- state and metrics ---------------------------------------------------------------------- */

void
self_guard_metrics(const struct self_guard *g, struct metrics *m)
{
	static const char help[] = "Dials that would have ended at the hub itself and were "
				   "refused, and those that came back to it.";

	metric_counter(m, "edgeway_hub_self_dials_total", help, "what=\"refused\"", g->refused);
	metric_counter(m, "edgeway_hub_self_dials_total", help, "what=\"came_back\"", g->came_back);
}

void
self_guard_state(const struct self_guard *g, struct buf *out)
{
	buf_printf(out,
		"{\"refused\":%llu,\"cameBack\":%llu,\"last\":", (unsigned long long)g->refused,
		(unsigned long long)g->came_back);
	json_add_text(out, g->last);
	buf_adds(out, "}");
}

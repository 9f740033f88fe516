/*
 * Evaluates the rules of this node for a hypothetical call (edgewayctl access check):
 * edgeway.io/allow-from and NetworkPolicies for pods and processes of the node, tunnel.allow for
 * calls through the hub. A real call is judged by the same functions.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/check.h"
#include "model/json.h"
#include "model/local_callers.h"
#include "src/agent/agent_private.h"

enum { ACCESS_TEXT_MAX = 512 };

struct access_call {
	const char *from;
	char ns[ACCESS_TEXT_MAX], name[ACCESS_TEXT_MAX]; /* of the service */
	unsigned port; /* 0: all */
	struct allow_caller who;
	struct in6_addr ip;
};

/* NAMESPACE/NAME[:PORT] or NAME.NAMESPACE[...][:PORT]. */
static bool
access_read_service(const char *to, struct access_call *c)
{
	const char *colon = strrchr(to, ':'), *slash = strchr(to, '/'), *dot = strchr(to, '.');
	const char *end = colon != NULL ? colon : to + strlen(to);
	int used = 0;

	if (colon != NULL &&
		(sscanf(colon, ":%5u%n", &c->port, &used) != 1 || colon[used] != '\0' ||
			c->port < 1 || c->port > UINT16_MAX))
		return false;
	if (slash != NULL && slash > to && slash + 1 < end) {
		snprintf(c->ns, sizeof c->ns, "%.*s", (int)(slash - to), to);
		snprintf(c->name, sizeof c->name, "%.*s", (int)(end - slash - 1), slash + 1);
		return true;
	}
	if (dot == NULL || dot == to || dot + 1 >= end)
		return false;
	snprintf(c->name, sizeof c->name, "%.*s", (int)(dot - to), to);
	snprintf(c->ns, sizeof c->ns, "%.*s",
		(int)MIN(strcspn(dot + 1, "."), (size_t)(end - dot - 1)), dot + 1);
	return true;
}

/* "node", or a pod of this node: NAMESPACE/POD or its address. */
static bool
access_read_caller(const struct local_callers *callers, struct access_call *c)
{
	bool by_ip = ip_parse(c->from, &c->ip);

	c->who = (struct allow_caller){.on_node = true, .node = local_callers_node(callers)};
	if (strcmp(c->from, "node") == 0)
		return true;
	for (size_t i = 0; i < local_callers_count(callers); i++) {
		const struct local_pod pod = local_callers_at(callers, i);
		auto_free char *name = xasprintf("%s/%s", pod.ns, pod.name);

		bool other = by_ip && strcmp(pod.other_ip, c->from) == 0;

		if (by_ip ? !other && strcmp(pod.ip, c->from) != 0 : strcmp(name, c->from) != 0)
			continue;
		ip_parse(other ? pod.other_ip : pod.ip, &c->ip);
		local_callers_find(callers, &c->ip, &c->who);
		return true;
	}
	return false;
}

static void
access_add_endpoints(
	struct buf *out, const struct service *s, const struct access_call *c, uint64_t closed)
{
	const char *comma = "";

	for (unsigned p = 0; p < s->n_ports; p++)
		for (unsigned i = 0; i < s->ports[p].n_endpoints; i++) {
			const struct endpoint *e = &s->ports[p].endpoints[i];
			bool shut = endpoint_is_closed(e, closed);
			char text[ADDR_TEXT_MAX];

			if (c->port != 0 && s->ports[p].port != c->port)
				continue;
			buf_printf(out, "%s{\"endpoint\":\"%s\",\"node\":", comma,
				endpoint_text(e, text));
			json_add_text(out, e->node);
			buf_printf(out, ",\"allowed\":%s,\"why\":\"%s\"}", shut ? "false" : "true",
				shut ? "a NetworkPolicy of its pod" : "");
			comma = ",";
		}
}

/* How many of the requested endpoints are open to the caller, and how many there are. */
static void
access_count(const struct service *s, const struct access_call *c, uint64_t closed, unsigned *open,
	unsigned *all)
{
	*open = *all = 0;
	for (unsigned p = 0; p < s->n_ports; p++)
		for (unsigned i = 0; i < s->ports[p].n_endpoints; i++) {
			if (c->port != 0 && s->ports[p].port != c->port)
				continue;
			*all += 1;
			*open += !endpoint_is_closed(&s->ports[p].endpoints[i], closed);
		}
}

static void
access_tell(struct buf *out, const struct service *s, const struct access_call *c, const char *to)
{
	uint64_t closed = 0;
	bool permitted = !s->restricted || service_permits(s, &c->who, &closed);
	unsigned open, all;
	auto_buf struct buf rule;

	buf_init(&rule, BUF_UNLIMITED);
	access_count(s, c, closed, &open, &all);
	if (!s->restricted)
		buf_adds(&rule,
			"none: it has neither edgeway.io/allow-from nor a NetworkPolicy, so "
			"everybody may");
	else if (s->allow_from != NULL)
		buf_printf(&rule, "edgeway.io/allow-from: %s", s->allow_text);
	if (permitted && s->n_gates > 0)
		buf_printf(&rule, "%sNetworkPolicies: %u of %u endpoints are open to this caller",
			buf_len(&rule) > 0 ? "; " : "", open, all);
	buf_adds(out, "{\"from\":");
	json_add_text(out, c->from);
	buf_adds(out, ",\"to\":");
	json_add_text(out, to);
	buf_printf(out, ",\"target\":\"service %s/%s\",\"allowed\":%s,\"rule\":", s->namespace,
		s->name, permitted && (open > 0 || all == 0) ? "true" : "false");
	json_add_text(out, buf_str(&rule));
	buf_printf(out, ",\"reason\":\"%s\",\"ways\":[",
		!permitted          ? "edgeway.io/allow-from does not name this caller"
			: all == 0  ? "no endpoint is there to be reached"
			: open == 0 ? "NetworkPolicies keep this caller from all endpoints"
				    : "");
	if (permitted)
		access_add_endpoints(out, s, c, closed);
	buf_adds(out, "]}\n");
}

static void
access_refuse(struct admin_reply *reply, const char *why, const char *what)
{
	reply->status = 400;
	buf_printf(&reply->body, "%s \"%.200s\"\n", why, what);
}

static void
access_to_service(
	const struct agent *a, struct access_call *c, const char *to, struct admin_reply *reply)
{
	const struct service *s;

	if (!access_read_service(to, c)) {
		access_refuse(reply,
			"TO: expected NAMESPACE/SERVICE[:PORT] or SERVICE.NAMESPACE[:PORT], not",
			to);
		return;
	}
	s = snapshot_find(a->snapshot, c->ns, strlen(c->ns), c->name, strlen(c->name));
	if (s == NULL) {
		access_refuse(reply, "this node knows no service", to);
		return;
	}
	/* The hub sends a node's pods only if some service is restricted. */
	if (!access_read_caller(snapshot_callers(a->snapshot), c) && s->restricted) {
		access_refuse(reply,
			"FROM: expected node, NAMESPACE/POD or the address of a pod of this node "
			"that the "
			"hub has told of, or hub, not",
			c->from);
		return;
	}
	reply->type = "application/json";
	access_tell(&reply->body, s, c, to);
}

void
agent_access_check(void *arg, const struct admin_request *req, struct admin_reply *reply)
{
	struct agent *a = arg;
	char from[ACCESS_TEXT_MAX] = "", to[ACCESS_TEXT_MAX] = "";
	struct access_call c = {.from = from};

	if (admin_query(req->query, "from", from, sizeof from) != 1 ||
		admin_query(req->query, "to", to, sizeof to) != 1)
		access_refuse(reply, "expected from and to: who calls, and whom, not", req->query);
	else if (strcmp(from, "hub") != 0)
		access_to_service(a, &c, to, reply);
	else if (a->tunnel == NULL)
		access_refuse(reply, "this agent has no tunnel: nobody comes by the hub to", to);
	else {
		reply->type = "application/json";
		agent_tunnel_judge(a, to, &reply->body);
	}
}

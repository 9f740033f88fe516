/*
 * Evaluates the rules for a connection that nobody makes: edgewayctl access check. It uses the same
 * functions as for a real one (hub/routing/connector.c), except for connecting.
 */
#include "hub/hub_private.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "hub/port/route.h"
#include "hub/routing/routes.h"
#include "model/json.h"

static int
access_name(const char *from, const char *prefix, char to[ACCESS_NAME_MAX + 1])
{
	size_t n = strlen(prefix), len = strlen(from);

	if (strncmp(from, prefix, n) != 0 || len == n || len - n > ACCESS_NAME_MAX)
		return -EINVAL;
	memcpy(to, from + n, len - n + 1);
	return 0;
}

static int
access_read_from(const struct acl *access, const char *from, struct caller *c, struct err *err)
{
	char token[ACCESS_NAME_MAX + 1];
	struct err unread;

	*c = (struct caller){0};
	if (strcmp(from, "local") == 0) {
		c->addr = addr_ipv4(0x7f000001, 0);
		c->local = true;
		return 0;
	}
	if (access_name(from, "cert:", c->cert) == 0) {
		c->admitted = true;
		return 0;
	}
	if (access_name(from, "token:", token) == 0) {
		acl_use_token_name(access, token, c); /* else nobody has such a token */
		return 0;
	}
	if (strncmp(from, "node:", 5) == 0 && node_name_ok(from + 5)) {
		caller_node(c, from + 5);
		return 0;
	}
	if (addr_parse(&c->addr, from, 1, &unread) == 0 && c->addr.sa.sa_family != AF_UNIX)
		return 0;
	return err_set(err, EINVAL,
		"FROM: expected an address, local, cert:NAME, token:NAME or node:NAME, not "
		"\"%.80s\"",
		from);
}

/* Converts NAMESPACE/SERVICE to SERVICE.NAMESPACE; removes the brackets of an IPv6 address.
 * wish->host: in `host`. */
static int
access_read_to(
	const char *to, char host[CALLER_HOST_MAX + 1], struct routes_wish *wish, struct err *err)
{
	const char *colon = strrchr(to, ':'), *slash = strchr(to, '/');
	unsigned n = 0;
	int used = 0, len = colon != NULL ? (int)(colon - to) : 0;

	if (colon == NULL || sscanf(colon, ":%5u%n", &n, &used) != 1 || colon[used] != '\0' ||
		n < 1 || n > UINT16_MAX || len == 0 || len > CALLER_HOST_MAX)
		return err_set(err, EINVAL,
			"TO: expected NODE:PORT, NAMESPACE/SERVICE:PORT, SERVICE.NAMESPACE:PORT, "
			"ADDRESS:PORT or hub:web, not \"%.80s\"",
			to);
	*wish = (struct routes_wish){.host = host, .port = (uint16_t)n};
	if (slash != NULL && slash < colon) {
		wish->names = ROUTES_SERVICES;
		snprintf(host, CALLER_HOST_MAX + 1, "%.*s.%.*s", (int)(colon - slash - 1),
			slash + 1, (int)(slash - to), to);
	} else if (to[0] == '[' && colon[-1] == ']') {
		snprintf(host, CALLER_HOST_MAX + 1, "%.*s", len - 2, to + 1);
	} else {
		snprintf(host, CALLER_HOST_MAX + 1, "%.*s", len, to);
	}
	return 0;
}

static void
access_add_target(struct buf *out, const struct acl_target *t)
{
	switch (t->kind) {
	case TARGET_NODE:
		buf_printf(out, "node %s port %u", t->node, t->port);
		break;
	case TARGET_POD:
		buf_printf(out, "pod %s/%s port %u", t->ns, t->name, t->port);
		break;
	case TARGET_SERVICE:
		buf_printf(out, "service %s/%s port %u", t->ns, t->name, t->port);
		break;
	case TARGET_CLOUD_SERVICE:
		buf_printf(out, "endpoints without a Pod of service %s/%s port %u", t->ns, t->name,
			t->port);
		break;
	case TARGET_CLOUD:
		buf_printf(out, "cloud/%s port %u", t->host, t->port);
		break;
	case TARGET_SITE:
		buf_printf(out, "%s of site %s, port %u", t->host, t->name, t->port);
		break;
	case TARGET_WEB:
		buf_adds(out, "the hub's page");
		break;
	}
}

static void
access_add_ways(struct buf *out, const struct routes *w)
{
	for (size_t i = 0; i < w->n; i++) {
		buf_printf(out, "%s{\"endpoint\":", i > 0 ? "," : "");
		json_add_text(out, w->list[i].authority);
		buf_adds(out, ",\"node\":");
		json_add_text(out, w->list[i].node);
		buf_printf(out, ",\"allowed\":true,\"why\":\"%s\"}",
			*w->list[i].node != '\0'
				? "through the node's tunnel; its tunnel.allow is asked there"
				: "dialled by the hub");
	}
}

struct access_answer {
	bool allowed;
	unsigned status;
	struct buf target, rule;
	const char *reason;
};

static void
access_judge(struct hub *hub, const struct caller *c, const struct routes_wish *wish,
	struct routes *w, struct access_answer *a)
{
	struct routes_caller who;

	routes_caller_of(&who, c, true);
	routes_for(hub->ways, &who);
	a->status = routes_find_as(hub->ways, wish, w);
	routes_for(hub->ways, NULL);
	if (w->target_text[0][0] != '\0') {
		access_add_target(&a->target, &w->target);
		acl_explain(hub->grants.access, c, &w->target, &a->rule);
	}
	if (a->status == 0)
		a->status = routes_judge(hub->ways, c, w);
	a->allowed = a->status == 0;
	a->reason = w->reason;
}

int
hub_access(struct hub *hub, const char *from, const char *to, struct buf *out, struct err *err)
{
	struct access_answer a = {.reason = ""};
	char host[CALLER_HOST_MAX + 1];
	struct routes_wish wish = {0};
	struct caller caller;
	struct routes ways;
	int rc = access_read_from(hub->grants.access, from, &caller, err);

	memset(&ways, 0, sizeof ways);
	if (rc == 0 && strcmp(to, "hub:web") != 0)
		rc = access_read_to(to, host, &wish, err);
	if (rc < 0)
		return rc;
	buf_init(&a.target, BUF_UNLIMITED);
	buf_init(&a.rule, BUF_UNLIMITED);
	if (wish.host != NULL) {
		access_judge(hub, &caller, &wish, &ways, &a);
	} else {
		ways.target.kind = TARGET_WEB;
		access_add_target(&a.target, &ways.target);
		a.allowed = acl_explain(hub->grants.access, &caller, &ways.target, &a.rule);
	}
	buf_adds(out, "{\"from\":");
	json_add_text(out, from);
	buf_adds(out, ",\"to\":");
	json_add_text(out, to);
	buf_adds(out, ",\"target\":");
	json_add_text(out, buf_str(&a.target));
	buf_printf(out, ",\"allowed\":%s,\"status\":%u,\"rule\":", a.allowed ? "true" : "false",
		a.status);
	json_add_text(out, buf_str(&a.rule));
	buf_adds(out, ",\"reason\":");
	json_add_text(out, a.reason);
	buf_adds(out, ",\"ways\":[");
	access_add_ways(out, &ways);
	buf_adds(out, "]}\n");
	buf_fini(&a.target);
	buf_fini(&a.rule);
	return 0;
}

/*
 * spec.healthCheckNodePort of Services with externalTrafficPolicy: Local: a load balancer asks each
 * node there whether it has endpoints of its own, as it asks kube-proxy. Answered where this node
 * serves NodePorts; the admin server (base/http/admin.h) bounds and answers the connections.
 */
#include <stdio.h>
#include <string.h>

#include "base/core/log.h"
#include "base/http/admin.h"
#include "src/agent/agent_private.h"

enum { HEALTH_PORTS_MOST = 64 };

struct health_port {
	LIST_ENTRY(health_port) link;
	const struct agent *agent;
	struct admin *server;
	char *ns, *name;
	uint16_t port;
	bool wanted;
};

/* As many as the port with the most has: a pod is counted once. */
static unsigned
health_port_endpoints(const struct service *s)
{
	unsigned most = 0;

	for (unsigned p = 0; s != NULL && p < s->n_ports; p++) {
		unsigned n = 0;

		for (unsigned i = 0; i < s->ports[p].n_endpoints; i++) {
			const unsigned flags = s->ports[p].endpoints[i].flags;

			n += (flags & ENDPOINT_LOCAL) != 0 && (flags & ENDPOINT_READY) != 0;
		}
		most = MAX(most, n);
	}
	return most;
}

static void
health_port_answer(void *arg, const struct admin_request *req, struct admin_reply *reply)
{
	const struct health_port *h = arg;
	const unsigned n = health_port_endpoints(
		snapshot_find(h->agent->snapshot, h->ns, strlen(h->ns), h->name, strlen(h->name)));

	(void)req;
	reply->status = n > 0 ? 200 : 503;
	reply->type = "application/json";
	buf_printf(&reply->body,
		"{\"service\":{\"namespace\":\"%s\",\"name\":\"%s\"},\"localEndpoints\":%u,"
		"\"serviceProxyHealthy\":true}\n",
		h->ns, h->name, n);
}

static void
health_port_free(struct health_port *h)
{
	LIST_REMOVE(h, link);
	admin_stop(&h->server);
	free(h->ns);
	free(h->name);
	free(h);
}

static void
health_port_start(struct agent *a, const struct service *s)
{
	static const struct admin_route routes[] = {
		{"GET", "/healthz", health_port_answer, false},
		{"GET", "/", health_port_answer, false},
		{NULL, NULL, NULL, false},
	};
	struct health_port *h = xcalloc(1, sizeof *h);
	char listen[32];
	struct err err = {0};

	snprintf(listen, sizeof listen, "0.0.0.0:%u", s->health_port);
	h->agent = a;
	h->ns = xstrdup(s->namespace);
	h->name = xstrdup(s->name);
	h->port = s->health_port;
	h->wanted = true;
	LIST_INSERT_HEAD(&a->health_ports, h, link);
	if (admin_start(&h->server, a->loop,
		    &(struct admin_config){.key = "healthCheckNodePort",
			    .listen = listen,
			    .socket_path = "",
			    .routes = routes,
			    .arg = h},
		    &err) < 0)
		log_warn("agent",
			"a healthCheckNodePort is not answered service=%s/%s error=\"%s\"",
			s->namespace, s->name, err.text);
}

static struct health_port *
health_port_find(const struct agent *a, uint16_t port)
{
	struct health_port *h;

	LIST_FOREACH(h, &a->health_ports, link)
		if (h->port == port)
			break;
	return h;
}

static bool
health_port_is_of(const struct health_port *h, const struct service *s)
{
	return strcmp(h->ns, s->namespace) == 0 && strcmp(h->name, s->name) == 0;
}

void
agent_health_ports_end(struct agent *a)
{
	while (!LIST_EMPTY(&a->health_ports))
		health_port_free(LIST_FIRST(&a->health_ports));
}

void
agent_health_ports_look(struct agent *a)
{
	const bool on = a->ipt != NULL && !a->stopping && iptables_serves_external(a->ipt);
	struct health_port *h, *next;
	unsigned n = 0;

	LIST_FOREACH(h, &a->health_ports, link)
		h->wanted = false;
	for (size_t i = 0; on && i < snapshot_count(a->snapshot) && n < HEALTH_PORTS_MOST; i++) {
		const struct service *s = snapshot_at(a->snapshot, i);

		if (s->health_port == 0)
			continue;
		n++;
		h = health_port_find(a, s->health_port);
		if (h != NULL && !h->wanted && !health_port_is_of(h, s)) {
			health_port_free(h);
			h = NULL;
		}
		if (h != NULL)
			h->wanted |= health_port_is_of(h, s);
		else
			health_port_start(a, s);
	}
	for (h = LIST_FIRST(&a->health_ports); h != NULL; h = next) {
		next = LIST_NEXT(h, link);
		if (!h->wanted)
			health_port_free(h);
	}
}

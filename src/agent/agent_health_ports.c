/*
 * spec.healthCheckNodePort of Services with externalTrafficPolicy: Local: a load balancer asks each
 * node there whether it has endpoints of its own, as it asks kube-proxy. Answered where this node
 * serves NodePorts, by the agent that serves them: one that stops, or has handed over, has closed
 * these ports. The admin server (base/http/admin.h) bounds and answers the connections.
 */
#include <stdio.h>
#include <string.h>

#include "base/core/log.h"
#include "base/http/admin.h"
#include "model/json.h"
#include "src/agent/agent_private.h"

enum { HEALTH_PORTS_MOST = 64 };

struct health_port {
	LIST_ENTRY(health_port) link;
	const struct agent *agent;
	struct admin *server; /* NULL: `problem` says why, and it is tried again at each look */
	char *ns, *name;
	char problem[200];
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

/* Also again, after an error. */
static void
health_port_start(struct agent *a, struct health_port *h)
{
	static const struct admin_route routes[] = {
		{"GET", "/healthz", health_port_answer, false},
		{"GET", "/", health_port_answer, false},
		{NULL, NULL, NULL, false},
	};
	char listen[32], problem[sizeof h->problem] = "";
	struct err err = {0};

	snprintf(listen, sizeof listen, "0.0.0.0:%u", h->port);
	if (admin_start(&h->server, a->loop,
		    &(struct admin_config){.key = "healthCheckNodePort",
			    .listen = listen,
			    .socket_path = "",
			    .routes = routes,
			    .arg = h},
		    &err) < 0)
		snprintf(problem, sizeof problem, "%.199s", err.text);
	if (problem[0] != '\0' && strcmp(problem, h->problem) != 0)
		log_warn("agent",
			"a healthCheckNodePort is not answered service=%s/%s error=\"%s\"", h->ns,
			h->name, problem);
	memcpy(h->problem, problem, sizeof problem);
}

static struct health_port *
health_port_new(struct agent *a, const struct service *s)
{
	struct health_port *h = xcalloc(1, sizeof *h);

	h->agent = a;
	h->ns = xstrdup(s->namespace);
	h->name = xstrdup(s->name);
	h->port = s->health_port;
	LIST_INSERT_HEAD(&a->health_ports, h, link);
	return h;
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
	const bool on = a->ipt != NULL && !a->stopping && a->takeover == NULL &&
		iptables_serves_external(a->ipt) && snapshot_counts(a->snapshot)->health_ports > 0;
	struct health_port *h, *next;
	size_t n = 0;

	LIST_FOREACH(h, &a->health_ports, link)
		h->wanted = false;
	a->health_ports_left = 0;
	for (size_t i = 0; on && i < snapshot_count(a->snapshot); i++) {
		const struct service *s = snapshot_at(a->snapshot, i);

		if (s->health_port == 0)
			continue;
		if (n == HEALTH_PORTS_MOST) {
			a->health_ports_left++;
			continue;
		}
		n++;
		h = health_port_find(a, s->health_port);
		if (h != NULL && !h->wanted && !health_port_is_of(h, s)) {
			health_port_free(h);
			h = NULL;
		}
		if (h == NULL)
			h = health_port_new(a, s);
		h->wanted |= health_port_is_of(h, s);
	}
	for (h = LIST_FIRST(&a->health_ports); h != NULL; h = next) {
		next = LIST_NEXT(h, link);
		if (!h->wanted)
			health_port_free(h);
		else if (h->server == NULL)
			health_port_start(a, h);
	}
}

/* Returns how many are not answered; problem: of one of these. */
static size_t
health_ports_troubled(const struct agent *a, struct buf *problem)
{
	const struct health_port *h;
	size_t n = a->health_ports_left;

	if (n > 0)
		buf_printf(problem, "more than %d on a node", HEALTH_PORTS_MOST);
	LIST_FOREACH(h, &a->health_ports, link) {
		auto_buf struct buf why;

		buf_init(&why, BUF_UNLIMITED);
		buf_adds(&why, h->problem);
		if (h->server != NULL)
			admin_trouble(h->server, &why);
		if (buf_len(&why) > 0 && n++ == 0)
			buf_printf(problem, "%s/%s: %s", h->ns, h->name, buf_str(&why));
	}
	return n;
}

void
agent_health_ports_state(const struct agent *a, struct buf *out)
{
	auto_buf struct buf problem;

	buf_init(&problem, BUF_UNLIMITED);
	buf_printf(out, "{\"troubled\":%zu,\"first\":", health_ports_troubled(a, &problem));
	json_add_text(out, buf_str(&problem));
	buf_adds(out, "}");
}

void
agent_health_ports_metrics(const struct agent *a, struct metrics *m)
{
	auto_buf struct buf problem;

	buf_init(&problem, BUF_UNLIMITED);
	metric_gauge(m, "edgeway_agent_health_check_ports_troubled",
		"healthCheckNodePorts of Services that this node cannot answer at; edgewayctl "
		"doctor names one.",
		NULL, (double)health_ports_troubled(a, &problem));
}

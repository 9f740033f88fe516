#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/core/log.h"
#include "model/mesh.h"
#include "src/agent/agent_private.h"

enum { FLUSH_MS = 2000 };

/* --- the collector as a service of the cluster ---------------------------------------------- */

/* Cuts one or more labels off the end. */
static bool
cut_end(const char *host, size_t *len, const char *end)
{
	size_t n = strlen(end);

	if (*len <= n + 1 || host[*len - n - 1] != '.' || strncasecmp(host + *len - n, end, n) != 0)
		return false;
	*len -= n + 1;
	return true;
}

/* name.namespace, also with .svc or .svc.<domain>. *ours: the name can only be a service of the
 * cluster, and DNS elsewhere cannot know it. */
static const struct service *
find_service(const struct agent *a, const char *host, bool *ours)
{
	size_t len = strlen(host);
	const char *dot;

	if (len > 0 && host[len - 1] == '.')
		len--;
	*ours = cut_end(host, &len, a->options->mesh_cluster_domain);
	if (cut_end(host, &len, "svc"))
		*ours = true;
	dot = memchr(host, '.', len);
	if (dot == NULL || memchr(dot + 1, '.', len - (size_t)(dot + 1 - host)) != NULL)
		return NULL;
	return snapshot_find(
		a->snapshot, dot + 1, len - (size_t)(dot + 1 - host), host, (size_t)(dot - host));
}

static int
agent_tracing_find(void *arg, struct tracing_way *way, struct err *err)
{
	struct agent *a = arg;
	bool ours;
	const struct service *s =
		a->snapshot != NULL ? find_service(a, way->host, &ours) : (ours = false, NULL);
	const struct service_port *port;
	struct endpoint e;
	struct addr to;
	int rc;

	if (s == NULL)
		return ours ? err_set(err, ENOENT, "no service of the cluster has this name") : 0;
	port = service_port_find(s, way->port, false);
	if (port == NULL || port->n_endpoints == 0)
		return err_set(err, EHOSTUNREACH, "service %s/%s has no endpoints at port %u",
			s->namespace, s->name, way->port);
	e = port->endpoints[way->attempt % port->n_endpoints];
	if (way->attempt / port->n_endpoints % 2 != 0 && endpoint_has_other(&e))
		e.ip = e.other;
	to = endpoint_addr(&e);
	way->far = e.via == VIA_TUNNEL;
	if (way->far)
		rc = agent_tunnel_wanted(a->options)
			? agent_tunnel_forward(
				  a, &(struct lb_forward){s, e.ip, e.port, 0}, &way->fd)
			: -EHOSTUNREACH;
	else if (dial_guard_check(a->guard, &e.ip, (e.flags & ENDPOINT_HOST_NETWORK) != 0) !=
		SPECIAL_NONE)
		rc = -EPERM;
	else
		rc = sock_connect(&to, MESH_MARK, &way->fd);
	return rc < 0 ? err_set(err, rc, "service %s/%s: %s", s->namespace, s->name, strerror(-rc))
		      : 1;
}

/* --- start and stop ------------------------------------------------------------------------- */

int
agent_tracing_open(struct agent *a, struct err *err)
{
	const struct tracing_keys keys = TRACING_KEYS(a->options);
	const struct tracing_config config = {
		.loop = a->loop,
		.who = {"edgeway-agent", a->options->node, true},
		.mark = MESH_MARK,
		.find = agent_tracing_find,
		.find_arg = a,
	};
	int rc = tracing_keys_open(&a->tracing, &config, &keys, err);

	if (rc == 0 && a->tracing != NULL)
		a->spans =
			(struct span_source){.on = true, .take = tracing_take, .arg = a->tracing};
	return rc;
}

void
agent_tracing_use(struct agent *a)
{
	const struct tracing_keys keys = TRACING_KEYS(a->options);
	struct lb_tracing tracing;

	if (a->tracing == NULL)
		return;
	tracing_keys_use(&keys, &a->spans);
	tracing = (struct lb_tracing){.below = a->spans.below, .per_s = a->spans.per_s};
	lb_trace(a->lb, &tracing);
}

void
agent_tracing_end(struct agent *a, loop_fn *ended)
{
	agent_tunnel_end_spans(a);
	a->spans.on = false;
	tracing_stop(&a->tracing, FLUSH_MS, ended, a);
}

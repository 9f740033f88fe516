#include "model/view.h"

#include <string.h>

#include "base/core/hash.h"
#include "model/check.h"
#include "model/http_route.h"
#include "model/mesh.h"

const char *
view_distribution_name(enum distribution distribution)
{
	static const char *const names[] = {
		[DISTRIBUTE_ALL] = "", [DISTRIBUTE_ZONE] = "zone", [DISTRIBUTE_NODE] = "node"};

	return names[distribution];
}

bool
view_names_add(struct view_names *names, const char *name)
{
	size_t at = 0;

	while (at < names->n && strcmp(names->list[at], name) < 0)
		at++;
	if (at < names->n && strcmp(names->list[at], name) == 0)
		return true;
	if (names->n == MESH_HINTS_MAX)
		return false;
	if (names->list == NULL)
		names->list = xcalloc(MESH_HINTS_MAX, sizeof *names->list);
	memmove(names->list + at + 1, names->list + at, (names->n - at) * sizeof *names->list);
	names->list[at] = xstrdup(name);
	names->n++;
	return true;
}

void
view_names_copy(struct view_names *to, const struct view_names *from)
{
	for (size_t i = 0; i < from->n; i++)
		view_names_add(to, from->list[i]);
}

bool
view_names_hold(const struct view_names *names, const char *name)
{
	for (size_t i = 0; i < names->n; i++)
		if (strcmp(names->list[i], name) == 0)
			return true;
	return false;
}

void
view_names_fini(struct view_names *names)
{
	for (size_t i = 0; i < names->n; i++)
		free(names->list[i]);
	free(names->list);
	*names = (struct view_names){0};
}

bool
view_endpoint_looks_host(const struct view_endpoint *e)
{
	struct in6_addr pod, host;

	return e->pod_port != 0 && e->pod_port == e->host_port && e->pod_ip != NULL &&
		e->host_ip != NULL && ip_parse(e->pod_ip, &pod) && ip_parse(e->host_ip, &host) &&
		memcmp(&pod, &host, sizeof pod) == 0;
}

void
view_endpoint_fini(struct view_endpoint *e)
{
	free(e->node);
	free(e->site);
	free(e->zone);
	free(e->hostname);
	free(e->pod);
	free(e->pod_ip);
	free(e->host_ip);
	free(e->public_ip);
	free(e->given_ip);
	free(e->other_pod_ip);
	free(e->other_host_ip);
	free(e->other_public_ip);
	free(e->other_given_ip);
	view_names_fini(&e->hint_zones);
	view_names_fini(&e->hint_nodes);
}

void
view_free(struct view **v)
{
	struct view *gone = take_ptr(v);

	if (gone == NULL)
		return;
	for (size_t i = 0; i < gone->n_ports; i++) {
		struct view_port *port = &gone->ports[i];

		for (size_t k = 0; k < port->n_endpoints; k++)
			view_endpoint_fini(&port->endpoints[k]);
		free(port->endpoints);
		free(port->name);
		free(port->why);
	}
	free(gone->ports);
	free(gone->ns);
	free(gone->name);
	free(gone->cluster_ip);
	free(gone->cluster_ip6);
	free(gone->external_name);
	free(gone->hash_key);
	free(gone->health_path);
	free(gone->allow_from);
	for (size_t i = 0; i < gone->n_gates; i++)
		free(gone->gates[i]);
	free(gone->gates);
	view_names_fini(&gone->external_ips);
	http_routes_unref(&gone->routes);
	for (size_t i = 0; i < gone->n_tls; i++)
		backend_tls_unref(&gone->tls[i]);
	free(gone->tls);
	free(gone);
}

bool
view_restricted(const struct view *v)
{
	return v->n_gates > 0 || (v->allow_from != NULL && *v->allow_from != '\0');
}

uint64_t
view_digest(const char *json, size_t len)
{
	return hash64(json, len, 0);
}

#include "model/view.h"

#include "base/hash.h"

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
	}
	free(gone->ports);
	free(gone->ns);
	free(gone->name);
	free(gone->cluster_ip);
	free(gone->external_name);
	free(gone->hash_key);
	free(gone->health_path);
	free(gone);
}

uint64_t
view_digest(const char *json, size_t len)
{
	return hash64(json, len, 0);
}

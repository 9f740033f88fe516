#include <arpa/inet.h>

#include "model/json.h"
#include "tunnel/node/egress_client_udp_private.h"

enum { SHOWN = 1000 };

static struct dgram_tally
egress_client_udp_tell_sum(const struct egress_client_udp *u)
{
	struct dgram_tally all = u->past;
	const struct egress_client_port *p = NULL;
	size_t slot = 0;

	while ((p = egress_client_udp_next(u, &slot, p)) != NULL) {
		struct dgram_tally t = {0};

		if (p->door != NULL)
			t = udp_door_tally(p->door);
		dgram_tally_add(&all, &t);
	}
	return all;
}

void
egress_client_udp_metrics(const struct egress_client_udp *u, struct metrics *m)
{
	const struct dgram_tally t = egress_client_udp_tell_sum(u);
	char label[64];

	for (unsigned i = 0; i < DROP_RATE; i++) /* rates are applied by the hub */
		metric_counter(m, "edgeway_tunnel_outward_udp_dropped_total",
			"Datagrams that were dropped, by why.",
			metric_label(label, sizeof label, "reason", dgram_drop_name(i)),
			t.dropped[i]);
}

static void
add_port(const struct egress_client_udp *u, const struct egress_client_port *p, struct buf *out)
{
	const struct addr a = addr_ipv4(u->address, p->door != NULL ? udp_door_port(p->door) : 0);
	auto_free char *name = xasprintf("%s/%s", p->service->namespace, p->service->name);
	char text[ADDR_TEXT_MAX];

	buf_adds(out, "{\"service\":");
	json_add_text(out, name);
	buf_printf(out, ",\"port\":%u,\"door\":\"%s\",\"flows\":%u}", p->port->port,
		p->door != NULL ? addr_text(&a, text) : "",
		p->door != NULL ? udp_door_flows(p->door) : 0);
}

void
egress_client_udp_state(const struct egress_client_udp *u, struct buf *out)
{
	const struct dgram_tally t = egress_client_udp_tell_sum(u);
	const struct egress_client_port *p = NULL;
	size_t slot = 0, shown = 0;

	buf_printf(out,
		"{\"flows\":%u,\"opened\":%llu,\"datagrams_to_hub\":%llu,\"datagrams_from_hub\":%"
		"llu,\"dropped\":%llu,\"loops\":%llu,\"ports\":[",
		u->n_flows, (unsigned long long)u->opened,
		(unsigned long long)t.to_stream.datagrams,
		(unsigned long long)t.from_stream.datagrams, (unsigned long long)dgram_dropped(&t),
		(unsigned long long)t.dropped[DROP_LOOP]);
	while (shown < SHOWN && (p = egress_client_udp_next(u, &slot, p)) != NULL) {
		buf_adds(out, shown++ > 0 ? "," : "");
		add_port(u, p, out);
	}
	buf_adds(out, "]}");
}

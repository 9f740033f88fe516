#include "iptables/maps/kernelpath.h"

#include <stdio.h>
#include <string.h>

#include "base/core/log.h"
#include "iptables/host/kubeproxy.h"
#include "iptables/maps/probe.h"
#include "iptables/maps/service_maps.h"

enum {
	FLOWS_PAUSE_MS = 100, /* between two checks of all flows, which may be many */
	TARGETS_PAUSE_MS = 250, /* between two updates of the probed targets */
	LOOK_MS = 6000, /* for other programs that serve ClusterIPs, and held ports */
};

struct kernelpath {
	struct loop *loop;
	loop_fn *changed;
	void *arg;
	struct snapshot *snapshot; /* NULL: none yet */
	struct service_maps *frontends;
	struct probes *probes;
	struct timer *flows, *targets, *look;
	uint64_t flows_ms; /* when they were last checked */
	bool resting;
	enum iptables_catch catch, external;
	bool caught;
	const char *foreign; /* the program that serves ClusterIPs, NULL: none */
	bool looked; /* `foreign` is known */
};

static bool
kernelpath_alive(void *arg, const struct slots_target *t)
{
	const struct kernelpath *d = arg;

	return probes_alive(d->probes, t);
}

/* --- flows and probes ----------------------------------------------------------------------- */

static void
end_flows(void *arg)
{
	struct kernelpath *d = arg;

	d->flows_ms = loop_now_ms(d->loop);
	service_maps_flows(d->frontends);
	if (service_maps_flows_due(d->frontends) && !d->resting)
		timer_start(d->flows, FLOWS_PAUSE_MS, 0);
}

void
kernelpath_settled(struct kernelpath *d)
{
	uint64_t since = loop_now_ms(d->loop) - d->flows_ms;
	const struct service_maps_counts *n = service_maps_counts(d->frontends);
	bool probing = n->tcp + n->external_kernel > 0 || probes_count(d->probes) > 0;

	if (service_maps_flows_due(d->frontends) && !timer_active(d->flows)) {
		if (since >= FLOWS_PAUSE_MS)
			end_flows(d);
		else
			timer_start(d->flows, FLOWS_PAUSE_MS - since, 0);
	}
	if (probing && !timer_active(d->targets))
		timer_start(d->targets, TARGETS_PAUSE_MS, 0);
}

bool
kernelpath_carries(const struct kernelpath *d)
{
	const struct service_maps_counts *n = service_maps_counts(d->frontends);

	return n->udp > 0 || n->tcp > 0 || n->external_kernel > 0;
}

static void
want_probe(void *probes, const struct slots_target *t)
{
	probes_want(probes, t);
}

static void
list_targets(void *arg)
{
	struct kernelpath *d = arg;

	probes_begin(d->probes);
	if (d->snapshot != NULL)
		service_maps_targets(d->frontends, d->snapshot, want_probe, d->probes);
	probes_end(d->probes);
}

static void
plan_again(struct kernelpath *d)
{
	if (d->resting || d->snapshot == NULL)
		return;
	service_maps_again(d->frontends, d->snapshot);
	d->changed(d->arg);
}

static void
on_health(void *arg)
{
	plan_again(arg);
}

/* --- ClusterIPs ----------------------------------------------------------------------------- */

static bool
is_ours(const struct kernelpath *d, enum iptables_catch catch)
{
	return catch == IPTABLES_CATCH_ALWAYS ||
		(catch == IPTABLES_CATCH_AUTO && d->looked && d->foreign == NULL);
}

bool
kernelpath_serves_external(const struct kernelpath *d)
{
	return is_ours(d, d->external);
}

/* Returns true if the ClusterIPs to serve, or whether NodePorts are, have changed. */
static bool
look_around(struct kernelpath *d)
{
	const char *before = d->foreign;
	bool caught, changed;

	/* If it cannot be determined now, the last result stays; the next look is soon. */
	if (d->catch == IPTABLES_CATCH_AUTO || d->external == IPTABLES_CATCH_AUTO) {
		if (kubeproxy_cluster_ips(&d->foreign) == 0)
			d->looked = true;
	}
	if (d->foreign != NULL && before == NULL)
		log_info("iptables", "another program serves ClusterIPs and NodePorts found=\"%s\"",
			d->foreign);
	else if (d->foreign == NULL && before != NULL)
		log_info("iptables", "no other program serves ClusterIPs and NodePorts any more");
	caught = is_ours(d, d->catch);
	changed = service_maps_serve_external(d->frontends, is_ours(d, d->external));
	if (caught == d->caught)
		return changed;
	d->caught = caught;
	service_maps_catch(d->frontends,
		!caught                                     ? SERVICE_MAPS_CATCH_NONE
			: d->catch == IPTABLES_CATCH_ALWAYS ? SERVICE_MAPS_CATCH_ALL
							    : SERVICE_MAPS_CATCH_MOST);
	return true;
}

static void
on_look(void *arg)
{
	struct kernelpath *d = arg;
	bool held = d->snapshot != NULL && service_maps_look_external(d->frontends, d->snapshot);

	if (look_around(d) || held)
		plan_again(d);
}

void
kernelpath_addresses(struct kernelpath *d, const struct address_list *own)
{
	if (service_maps_addresses(d->frontends, own))
		kernelpath_relays(d);
	if (!d->resting)
		d->changed(d->arg);
}

/* --- opening, following --------------------------------------------------------------------- */

void
kernelpath_new(struct kernelpath **out, const struct kernelpath_config *config)
{
	const struct iptables_config *c = config->iptables;
	struct kernelpath *d = xcalloc(1, sizeof *d);
	const struct service_maps_config frontends = {.kernel = c->kernel,
		.subnet = c->subnet,
		.mask = c->mask,
		.subnet6 = c->subnet6,
		.alive = kernelpath_alive,
		.relay = config->relay,
		.relay_arg = config->arg,
		.arg = d};

	d->loop = c->loop;
	d->changed = config->changed;
	d->arg = config->arg;
	d->catch = c->catch;
	d->external = c->node_ports;
	d->resting = true;
	service_maps_new(&d->frontends, &frontends);
	probes_new(&d->probes, c->loop, c->mark, on_health, d);
	d->flows = timer_new(c->loop, end_flows, d);
	d->targets = timer_new(c->loop, list_targets, d);
	d->look = timer_new(c->loop, on_look, d);
	*out = d;
}

void
kernelpath_free(struct kernelpath **out)
{
	struct kernelpath *d = take_ptr(out);

	if (d == NULL)
		return;
	timer_free(&d->flows);
	timer_free(&d->targets);
	timer_free(&d->look);
	probes_free(&d->probes);
	service_maps_free(&d->frontends);
	snapshot_unref(&d->snapshot);
	free(d);
}

void
kernelpath_use(struct kernelpath *d, const struct snapshot *s)
{
	struct snapshot *old = d->snapshot;

	d->snapshot = snapshot_ref(s);
	/* Only one of both: a key may differ only once in a transaction. */
	if (old != NULL && snapshot_callers(old) != snapshot_callers(s) &&
		snapshot_counts(s)->restricted > 0)
		service_maps_again(d->frontends, s);
	else
		service_maps_use(d->frontends, old, s);
	if (d->resting)
		service_maps_skip(d->frontends);
	snapshot_unref(&old);
}

void
kernelpath_all(struct kernelpath *d)
{
	if (d->resting) {
		d->resting = false;
		if (look_around(d) && d->snapshot != NULL)
			service_maps_again(d->frontends, d->snapshot);
		timer_start(d->look, LOOK_MS, LOOK_MS);
	}
	service_maps_all(d->frontends);
}

void
kernelpath_relays(struct kernelpath *d)
{
	if (d->snapshot != NULL)
		service_maps_again(d->frontends, d->snapshot);
	if (d->resting)
		service_maps_skip(d->frontends);
}

bool
kernelpath_put(struct kernelpath *d, struct batch *b, bool v6)
{
	return service_maps_put(d->frontends, b, v6);
}

void
kernelpath_rest(struct kernelpath *d)
{
	d->resting = true;
	timer_cancel(d->flows);
	timer_cancel(d->targets);
	timer_cancel(d->look);
	probes_begin(d->probes);
	probes_end(d->probes);
}

/* --- metrics and state ---------------------------------------------------------------------- */

static void
count_verdict(void *arg, const struct service *s, const struct service_port *p, const struct key *k,
	enum external_verdict v, bool by_kernel)
{
	size_t *n = arg;

	(void)s;
	(void)p;
	(void)k;
	(void)by_kernel;
	n[v]++;
}

static void
external_metrics(const struct kernelpath *d, struct metrics *m)
{
	const struct service_maps_counts *n = service_maps_counts(d->frontends);
	size_t verdicts[EXTERNAL_VERDICTS] = {0};

	metric_gauge(m, "edgeway_iptables_external_ports",
		"Addresses with a port that are called from outside, as NodePorts, and served.",
		"by=\"kernel\"", (double)n->external_kernel);
	metric_gauge(m, "edgeway_iptables_external_ports", NULL, "by=\"proxy\"",
		(double)n->external_proxy);
	if (d->snapshot != NULL)
		service_maps_external(d->frontends, d->snapshot, count_verdict, verdicts);
	for (int v = EXTERNAL_SERVED + 1; v < EXTERNAL_VERDICTS; v++) {
		char label[64];

		snprintf(label, sizeof label, "reason=\"%s\"",
			external_verdict_name((enum external_verdict)v));
		metric_gauge(m, "edgeway_iptables_external_ports_refused",
			v == EXTERNAL_SERVED + 1 ? "The same, not served." : NULL, label,
			(double)verdicts[v]);
	}
}

/* Rows of the state: the addresses of one port together. */
struct external_rows {
	struct buf *out;
	struct buf refused; /* of the row */
	const struct service_port *port;
	uint16_t number;
	bool first_address, by_kernel;
	size_t rows;
};

enum { EXTERNAL_ROWS_MAX = 500, EXTERNAL_TROUBLED_MAX = 100 };

static void
end_row(struct external_rows *r)
{
	if (r->port != NULL)
		buf_printf(r->out, "],\"by\":\"%s\",\"refused\":[%s]}",
			r->first_address       ? ""
				: r->by_kernel ? "kernel"
					       : "proxy",
			buf_str(&r->refused));
	buf_consume(&r->refused, buf_len(&r->refused));
}

static void
begin_row(struct external_rows *r, const struct service *s, const struct service_port *p,
	const struct key *k)
{
	end_row(r);
	/* names are checked: they need no escapes */
	buf_printf(r->out,
		"%s{\"service\":\"%s/%s\",\"port\":%u,\"number\":%u,\"protocol\":\"%s\","
		"\"local\":%s,\"addresses\":[",
		r->rows > 0 ? "," : "", s->namespace, s->name, p->port, k->port,
		p->mode == PORT_UDP ? "udp" : "tcp", s->external_local ? "true" : "false");
	r->port = p;
	r->number = k->port;
	r->first_address = true;
	r->by_kernel = false;
	r->rows++;
}

static void
tell_row(void *arg, const struct service *s, const struct service_port *p, const struct key *k,
	enum external_verdict v, bool by_kernel)
{
	struct external_rows *r = arg;
	char text[IP_TEXT_MAX];

	if (p != r->port || k->port != r->number) {
		if (r->rows == EXTERNAL_ROWS_MAX)
			return;
		begin_row(r, s, p, k);
	}
	ip_text(&k->ip, text);
	if (v != EXTERNAL_SERVED) {
		buf_printf(&r->refused, "%s{\"address\":\"%s\",\"reason\":\"%s\",\"why\":\"%s\"}",
			buf_len(&r->refused) > 0 ? "," : "", text, external_verdict_name(v),
			external_verdict_text(v));
		return;
	}
	buf_printf(r->out, "%s\"%s\"", r->first_address ? "" : ",", text);
	r->first_address = false;
	r->by_kernel |= by_kernel;
}

/* Services with a port that is troubled, each once: a service's ports come one after another. */
struct external_trouble {
	struct buf *out;
	const struct service *last;
	size_t n;
	char first[256];
};

static bool
is_trouble(enum external_verdict v)
{
	return v == EXTERNAL_HELD || v == EXTERNAL_TAKEN || v == EXTERNAL_RESTRICTED ||
		v == EXTERNAL_NO_ADDRESS;
}

static void
add_trouble(void *arg, const struct service *s, const struct service_port *p, const struct key *k,
	enum external_verdict v, bool by_kernel)
{
	struct external_trouble *t = arg;
	char text[IP_TEXT_MAX];

	(void)by_kernel;
	if (!is_trouble(v) || s == t->last)
		return;
	t->last = s;
	if (t->n == 0)
		snprintf(t->first, sizeof t->first, "%s/%s at %s port %u (%s): %s", s->namespace,
			s->name, ip_text(&k->ip, text), k->port,
			p->mode == PORT_UDP ? "udp" : "tcp", external_verdict_text(v));
	if (t->n++ < EXTERNAL_TROUBLED_MAX && t->out != NULL)
		buf_printf(t->out, "%s\"%s/%s\"", t->n > 1 ? "," : "", s->namespace, s->name);
}

size_t
kernelpath_external_troubled(struct kernelpath *d, struct buf *out)
{
	struct external_trouble t = {.out = out};

	if (d->snapshot != NULL && is_ours(d, d->external))
		service_maps_external(d->frontends, d->snapshot, add_trouble, &t);
	return t.n;
}

void
kernelpath_external_state(struct kernelpath *d, struct buf *out, bool whole)
{
	const struct service_maps_counts *n = service_maps_counts(d->frontends);
	struct external_trouble t = {.out = NULL};
	struct external_rows r = {.out = out};
	bool on = is_ours(d, d->external);

	buf_init(&r.refused, BUF_UNLIMITED);
	if (d->snapshot != NULL && on)
		service_maps_external(d->frontends, d->snapshot, add_trouble, &t);
	buf_printf(out,
		"{\"on\":%s,\"servedBy\":\"%s\",\"kernel\":%zu,\"proxy\":%zu,\"troubled\":%zu,"
		"\"first\":\"%s\",\"ports\":[",
		on ? "true" : "false",
		on                           ? "edgeway"
			: d->foreign != NULL ? d->foreign
					     : "",
		n->external_kernel, n->external_proxy, t.n, t.first);
	if (whole && d->snapshot != NULL)
		service_maps_external(d->frontends, d->snapshot, tell_row, &r);
	end_row(&r);
	buf_adds(out, "]}");
	buf_fini(&r.refused);
}

void
kernelpath_metrics(const struct kernelpath *d, struct metrics *m)
{
	metric_gauge(m, "edgeway_iptables_probed_endpoints", "Endpoints of the kernel's TCP ports.",
		"state=\"alive\"", (double)(probes_count(d->probes) - probes_dead(d->probes)));
	metric_gauge(m, "edgeway_iptables_probed_endpoints", NULL, "state=\"dead\"",
		(double)probes_dead(d->probes));
	external_metrics(d, m);
}

void
kernelpath_state(const struct kernelpath *d, struct buf *out)
{
	const struct service_maps_counts *n = service_maps_counts(d->frontends);

	buf_printf(out,
		"{\"udpPorts\":%zu,\"tcpPorts\":%zu,\"slots\":%zu,\"endpointsProbed\":%zu,"
		"\"endpointsDead\":%zu,\"flowsEnded\":%llu,",
		n->udp, n->tcp, n->slots, probes_count(d->probes), probes_dead(d->probes),
		(unsigned long long)n->flows_ended);
	buf_printf(out, "\"restrictedPorts\":%zu,\"callers\":%zu,\"portsOfTheNode\":%zu,",
		n->restricted, n->callers, n->hosts);
	buf_printf(out, "\"clusterIPs\":%zu,\"clusterIPsServedBy\":\"%s\"}", n->cluster_ips,
		d->caught                    ? "edgeway"
			: d->foreign != NULL ? d->foreign
					     : "");
}

#include "iptables/maps/service_maps.h"

#include <linux/netfilter.h>
#include <netinet/in.h>
#include <string.h>

#include "base/core/hash.h"
#include "base/core/log.h"
#include "iptables/host/iface.h"
#include "iptables/maps/conntrack.h"
#include "iptables/maps/difference.h"
#include "model/check.h"
#include "model/table.h"

/* Limits per transaction and per check of flows, to keep the load on the loop and the event queue
 * small. */
enum { ELEMENTS_AT_ONCE = 4000, FLOWS_AT_ONCE = 10000 };

static external_fn want_external;

struct frontend {
	struct table_node node;
	struct key key;
	bool suspect; /* its service has changed or is gone; to be confirmed */
	bool restricted; /* TCP: who may call its service is asked in the proxy from now on */
	struct slots plan;
};

struct service_maps {
	struct service_maps_config config;
	enum service_maps_catch catch;
	struct external external;
	const struct snapshot *now; /* being processed */
	const struct local_callers *callers; /* of it */
	struct table table;
	struct buf suspects; /* struct frontend * */
	/* struct key: what a changed service was called by from outside, and did not serve */
	struct buf vacant;
	struct buf differences; /* struct difference */
	struct table gone; /* frontends whose flows may still exist */
	/* endpoints went, or a UDP port began: flows may need another translation */
	bool udp_lost, tcp_lost;
	struct service_maps_counts counts;
};

void
service_maps_new(struct service_maps **out, const struct service_maps_config *config)
{
	struct service_maps *f = xcalloc(1, sizeof *f);

	f->config = *config;
	buf_init(&f->suspects, BUF_UNLIMITED);
	buf_init(&f->vacant, BUF_UNLIMITED);
	buf_init(&f->differences, BUF_UNLIMITED);
	buf_init(&f->external.held, BUF_UNLIMITED);
	buf_init(&f->external.addresses, BUF_UNLIMITED);
	f->external.subnet = config->subnet;
	f->external.mask = config->mask;
	f->external.subnet6 = config->subnet6;
	*out = f;
}

static void
frontend_free(struct frontend *one)
{
	slots_fini(&one->plan);
	free(one);
}

static void
service_maps_empty(struct table *t)
{
	for (size_t i = 0; i < t->n_slots; i++) {
		while (t->slots[i] != NULL) {
			struct frontend *one = container_of(t->slots[i], struct frontend, node);

			table_remove(t, &one->node);
			frontend_free(one);
		}
	}
	table_fini(t);
}

/* After ten thousand services at once they hold a megabyte that the next change does not need. */
static void
give_back(struct buf *b)
{
	if (buf_len(b) == 0)
		buf_release(b);
}

void
service_maps_skip(struct service_maps *f)
{
	while (buf_len(&f->differences) > 0) {
		struct difference *d = (void *)buf_at(&f->differences);

		slots_fini(&d->before);
		buf_consume(&f->differences, sizeof *d);
	}
	give_back(&f->differences);
}

void
service_maps_free(struct service_maps **out)
{
	struct service_maps *f = take_ptr(out);

	if (f == NULL)
		return;
	service_maps_skip(f);
	service_maps_empty(&f->table);
	service_maps_empty(&f->gone);
	buf_fini(&f->suspects);
	buf_fini(&f->vacant);
	buf_fini(&f->differences);
	buf_fini(&f->external.held);
	buf_fini(&f->external.addresses);
	free(f);
}

void
service_maps_catch(struct service_maps *f, enum service_maps_catch what)
{
	f->catch = what;
}

bool
service_maps_serve_external(struct service_maps *f, bool on)
{
	bool before = f->external.on;

	f->external.on = on;
	return on != before;
}

bool
service_maps_addresses(struct service_maps *f, const struct address_list *own)
{
	return external_addresses(&f->external, own);
}

const struct service_maps_counts *
service_maps_counts(const struct service_maps *f)
{
	return &f->counts;
}

/* --- the table ------------------------------------------------------------------------------ */

static uint64_t
key_hash(const struct key *k)
{
	return hash64(k, sizeof *k, 0);
}

static struct frontend *
service_maps_find(const struct table *t, const struct key *k)
{
	for (struct table_node *n = table_first(t, key_hash(k)); n != NULL; n = table_next(n)) {
		struct frontend *one = container_of(n, struct frontend, node);

		if (memcmp(&one->key, k, sizeof *k) == 0)
			return one;
	}
	return NULL;
}

static void
service_maps_count(struct service_maps *f, const struct frontend *one, int sign)
{
	size_t *what = one->plan.external
		? one->plan.n > 0 ? &f->counts.external_kernel : &f->counts.external_proxy
		: one->key.proto == 0           ? &f->counts.cluster_ips
		: one->key.proto == IPPROTO_UDP ? &f->counts.udp
						: &f->counts.tcp;

	*what += (size_t)sign;
	f->counts.slots += (size_t)(sign * one->plan.n);
	f->counts.restricted += (size_t)(sign * one->plan.restricted);
	f->counts.hosts += (size_t)(sign * one->plan.host);
	f->counts.callers += (size_t)sign * one->plan.n_callers;
}

static void
service_maps_differ(
	struct service_maps *f, const struct frontend *one, bool was, struct slots before)
{
	const struct difference d = {
		.key = one->key, .was = was, .is = true, .before = before, .after = one->plan};

	buf_add(&f->differences, &d, sizeof d);
}

/* Whether `after` lacks an endpoint or a caller of `before`. */
static bool
service_maps_lost(const struct slots *before, const struct slots *after)
{
	if (slots_excludes(before, after))
		return true;
	for (uint16_t i = 0; i < before->n; i++)
		if (!slots_has(after, &before->slots[i]))
			return true;
	return false;
}

static void
service_maps_want(struct service_maps *f, const struct key *k, struct slots plan)
{
	struct frontend *one = service_maps_find(&f->table, k);
	struct slots before = {0};
	bool was = one != NULL;

	if (was) {
		one->suspect = false;
		if (slots_same(&one->plan, &plan)) {
			slots_fini(&plan);
			return;
		}
		service_maps_count(f, one, -1);
		before = one->plan;
	} else {
		one = xcalloc(1, sizeof *one);
		one->key = *k;
		table_add(&f->table, &one->node, key_hash(k));
	}
	one->plan = plan;
	service_maps_count(f, one, 1);
	/* A flow that began before the port existed passed untranslated, and still does. */
	f->udp_lost |= k->proto == IPPROTO_UDP && (!was || service_maps_lost(&before, &plan));
	f->tcp_lost |= k->proto == IPPROTO_TCP && was && service_maps_lost(&before, &plan);
	service_maps_differ(f, one, was, before);
}

static void
service_maps_suspect(struct service_maps *f, struct frontend *one)
{
	if (one == NULL || one->suspect)
		return;
	one->suspect = true;
	buf_add(&f->suspects, &one, sizeof one);
}

static void
service_maps_drop(struct service_maps *f, struct frontend *one)
{
	struct difference d = {.key = one->key, .was = true, .before = one->plan};

	service_maps_count(f, one, -1);
	f->udp_lost |= one->key.proto == IPPROTO_UDP;
	f->tcp_lost |= one->key.proto == IPPROTO_TCP;
	buf_add(&f->differences, &d, sizeof d);
	one->plan = (struct slots){0};
	table_remove(&f->table, &one->node);
	table_add(&f->gone, &one->node, one->node.hash);
}

/* Another service may have been called from outside by the same address and port, behind it. */
static void
want_successor(struct service_maps *f, struct key k)
{
	const struct service_port *p;
	const struct service *s =
		snapshot_find_external(f->now, &k.ip, k.port, k.proto == IPPROTO_UDP, &p);

	if (s != NULL)
		want_external(f, s, p, &k);
}

static void
fill_vacant(struct service_maps *f)
{
	while (buf_len(&f->vacant) > 0) {
		struct key k;

		memcpy(&k, buf_at(&f->vacant), sizeof k);
		buf_consume(&f->vacant, sizeof k);
		want_successor(f, k);
	}
	give_back(&f->vacant);
}

static void
drop_suspects(struct service_maps *f)
{
	while (buf_len(&f->suspects) > 0) {
		struct frontend *one;

		memcpy(&one, buf_at(&f->suspects), sizeof one);
		buf_consume(&f->suspects, sizeof one);
		if (one->suspect && one->plan.external)
			want_successor(f, one->key);
		if (one->suspect)
			service_maps_drop(f, one);
	}
	give_back(&f->suspects);
}

/* --- what a service wants ------------------------------------------------------------------- */

/* Serves a pod's route to the apiserver, or the cluster's own DNS. */
static bool
is_delicate(const struct service *s)
{
	return service_is_apiserver(s->namespace, s->name) ||
		(strcmp(s->namespace, "kube-system") == 0 && strcmp(s->name, "kube-dns") == 0);
}

/* The kernel always carries UDP; TCP if it was requested and the kernel can reach all endpoints,
 * and speaks no TLS for us. */
static bool
is_kernels(const struct service_maps *f, const struct service *s, const struct service_port *p,
	bool v6)
{
	struct slots_target t;

	if (p->mode == PORT_UDP)
		return true;
	if (p->mode != PORT_TCP || p->n_endpoints == 0 || p->n_unreachable > 0 || s->restricted ||
		p->tls != NULL)
		return false;
	if (s->lb.datapath == DATAPATH_PROXY ||
		(s->lb.datapath == DATAPATH_DEFAULT && !f->config.kernel))
		return false;
	for (unsigned i = 0; i < p->n_endpoints; i++)
		if (!slots_direct(&p->endpoints[i], v6, &t))
			return false;
	return true;
}

static struct key
key_of(const struct in6_addr *ip, const struct service_port *p)
{
	return (struct key){.ip = *ip,
		.port = p->port,
		.proto = p->mode == PORT_UDP ? IPPROTO_UDP : IPPROTO_TCP};
}

static void
make_plan(struct service_maps *f, const struct service *s, const struct service_port *p, bool v6,
	bool local, struct slots *plan)
{
	bool udp = p->mode == PORT_UDP;
	const struct slots_ask ask = {.v6 = v6,
		.by_client = s->lb.affinity_s > 0,
		.local = local,
		.alive = udp ? NULL : f->config.alive,
		.arg = f->config.arg};
	struct slots_target to;

	slots_make(plan, p, &ask);
	if (plan->n == 0 && udp && !local && f->config.relay != NULL &&
		f->config.relay(f->config.relay_arg, s, p, v6, &to))
		slots_single(plan, &to);
	if (udp)
		slots_restrict(plan, s, p, f->callers, v6);
}

/* The addresses by which a service is called: its fake ones, and if they are caught its ClusterIPs,
 * IPv4 before IPv6. */
enum { ADDRESSES = 4, FIRST_CLUSTER_IP = 2 };

static size_t
addresses_of(const struct service_maps *f, const struct service *s, bool caught,
	struct in6_addr list[ADDRESSES])
{
	const bool v6 = f->config.subnet6.bits > 0;

	list[0] = ip_of_v4(s->fake_ip);
	list[1] = v6 && s->fake_ip != 0 ? fake6_of(&f->config.subnet6, s->fake_ip) : ip_of_v4(0);
	list[2] = ip_of_v4(caught ? s->cluster_ip : 0);
	list[3] = caught && v6 && !IN6_IS_ADDR_UNSPECIFIED(&s->cluster_ip6) ? s->cluster_ip6
									    : ip_of_v4(0);
	return ADDRESSES;
}

static bool
is_none(const struct in6_addr *ip)
{
	return IN6_IS_ADDR_V4MAPPED(ip) && ip_to_v4(ip) == 0;
}

/* The kernel carries it, or the proxy takes new connections; then what the kernel carries of a
 * restricted service would outlive the caller's right. */
static void
want_port(struct service_maps *f, const struct service *s, const struct service_port *p,
	const struct in6_addr *ip)
{
	const bool v6 = !IN6_IS_ADDR_V4MAPPED(ip);
	const struct key k = key_of(ip, p);
	struct frontend *one;
	struct slots plan;

	if (is_kernels(f, s, p, v6)) {
		make_plan(f, s, p, v6, false, &plan);
		if (plan.n > 0)
			service_maps_want(f, &k, plan);
		else
			slots_fini(&plan);
	} else if (s->restricted && (one = service_maps_find(&f->table, &k)) != NULL) {
		one->restricted = true;
	}
}

/* Of UDP always; of TCP that is neither HTTP nor in TLS from here on, where the source address is
 * to be kept, or the service is the kernel's anyway. */
static bool
is_external_kernels(const struct service_maps *f, const struct service *s,
	const struct service_port *p, const struct key *k)
{
	const bool v6 = !IN6_IS_ADDR_V4MAPPED(&k->ip);
	struct slots_target t;

	if (p->mode == PORT_UDP || !s->external_local)
		return is_kernels(f, s, p, v6) && !ip_is_loopback(&k->ip);
	if (p->mode != PORT_TCP || s->restricted || p->tls != NULL ||
		s->lb.datapath == DATAPATH_PROXY || ip_is_loopback(&k->ip))
		return false;
	for (unsigned i = 0; i < service_port_most(p, true); i++)
		if ((p->endpoints[i].flags & ENDPOINT_LOCAL) != 0 &&
			!slots_direct(&p->endpoints[i], v6, &t))
			return false;
	return true;
}

static enum external_verdict
judge_external(struct service_maps *f, const struct service *s, const struct service_port *p,
	const struct key *k, struct slots *plan)
{
	enum external_verdict v = external_judge(&f->external, f->now, s, p, k);

	*plan = (struct slots){0};
	if (v == EXTERNAL_SERVED && is_external_kernels(f, s, p, k))
		make_plan(f, s, p, !IN6_IS_ADDR_V4MAPPED(&k->ip), s->external_local, plan);
	plan->external = true;
	plan->kept = s->external_local && plan->n > 0;
	return v == EXTERNAL_SERVED && plan->n == 0 && p->mode == PORT_UDP ? EXTERNAL_NO_ENDPOINT
									   : v;
}

/* What the kernel carried would outlive the caller's right where the service is restricted now. */
static void
want_external(void *arg, const struct service *s, const struct service_port *p, const struct key *k)
{
	struct service_maps *f = arg;
	struct frontend *one = service_maps_find(&f->table, k);
	struct slots plan;
	enum external_verdict v = judge_external(f, s, p, k, &plan);

	if (v != EXTERNAL_SERVED) {
		slots_fini(&plan);
		/* it may be another service's, which comes behind this one from now on */
		if (v != EXTERNAL_TAKEN && one != NULL && one->plan.external)
			service_maps_suspect(f, one);
		return;
	}
	if (one != NULL && s->restricted && one->plan.n > 0) {
		one->restricted = true;
		one->suspect = false;
		service_maps_drop(f, one);
	}
	service_maps_want(f, k, plan);
}

static void
suspect_external(
	void *arg, const struct service *s, const struct service_port *p, const struct key *k)
{
	struct service_maps *f = arg;
	struct frontend *one = service_maps_find(&f->table, k);

	(void)s;
	(void)p;
	if (one == NULL)
		buf_add(&f->vacant, k, sizeof *k);
	service_maps_suspect(f, one);
}

/* Pods call the API server through the hub, by the address that kubelet has given them: whoever
 * else serves that on this node (kube-proxy) would send them to endpoints that it cannot reach. */
static bool
is_tunnelled_apiserver(const struct service *s)
{
	if (!service_is_apiserver(s->namespace, s->name))
		return false;
	for (unsigned p = 0; p < s->n_ports; p++)
		for (unsigned i = 0; i < s->ports[p].n_endpoints; i++)
			if (s->ports[p].endpoints[i].via == VIA_TUNNEL)
				return true;
	return false;
}

static void
want_service(struct service_maps *f, const struct service *s)
{
	bool caught = f->catch == SERVICE_MAPS_CATCH_ALL || is_tunnelled_apiserver(s) ||
		(f->catch == SERVICE_MAPS_CATCH_MOST && !is_delicate(s));
	struct in6_addr ips[ADDRESSES];
	size_t n = addresses_of(f, s, caught, ips);

	for (size_t k = 0; k < n; k++) {
		const struct key itself = {.ip = ips[k]};

		if (is_none(&ips[k]))
			continue;
		if (k >= FIRST_CLUSTER_IP)
			service_maps_want(f, &itself, (struct slots){0});
		for (unsigned i = 0; i < s->n_ports; i++)
			want_port(f, s, &s->ports[i], &ips[k]);
	}
	external_each(&f->external, s, want_external, f);
}

static void
suspect_service(struct service_maps *f, const struct service *s)
{
	struct in6_addr ips[ADDRESSES];
	size_t n = addresses_of(f, s, true, ips);

	for (size_t k = 0; k < n && f->table.n > 0; k++) {
		const struct key itself = {.ip = ips[k]};

		if (is_none(&ips[k]))
			continue;
		service_maps_suspect(f, service_maps_find(&f->table, &itself));
		for (unsigned i = 0; i < s->n_ports; i++) {
			const struct key key = key_of(&ips[k], &s->ports[i]);

			service_maps_suspect(f, service_maps_find(&f->table, &key));
		}
	}
	external_each(&f->external, s, suspect_external, f);
}

static void
on_old(void *arg, const struct service *old, const struct service *now)
{
	(void)now;
	if (old != NULL)
		suspect_service(arg, old);
}

static void
on_now(void *arg, const struct service *old, const struct service *now)
{
	(void)old;
	if (now != NULL)
		want_service(arg, now);
}

void
service_maps_use(struct service_maps *f, const struct snapshot *old, const struct snapshot *now)
{
	f->now = now;
	f->callers = snapshot_callers(now);
	if (snapshot_counts(now)->external > 0)
		external_read_held(&f->external);
	/* First mark the old ports as suspect: an address may pass from one service to another. */
	snapshot_diff(old, now, on_old, f);
	snapshot_diff(old, now, on_now, f);
	fill_vacant(f);
	drop_suspects(f);
}

void
service_maps_again(struct service_maps *f, const struct snapshot *now)
{
	struct table_node *n = NULL;
	size_t slot = 0;

	f->now = now;
	f->callers = snapshot_callers(now);
	if (snapshot_counts(now)->external > 0)
		external_read_held(&f->external);
	while ((n = table_walk(&f->table, &slot, n)) != NULL)
		service_maps_suspect(f, container_of(n, struct frontend, node));
	snapshot_diff(NULL, now, on_now, f);
	drop_suspects(f);
}

static void
target_port(const struct service_maps *f, const struct service *s, const struct service_port *p,
	bool v6, service_maps_target_fn *fn, void *arg)
{
	struct slots_target t;

	if (p->mode != PORT_TCP || (!s->external_local && !is_kernels(f, s, p, v6)))
		return;
	for (unsigned e = 0; e < service_port_most(p, s->external_local); e++)
		if (slots_direct(&p->endpoints[e], v6, &t))
			fn(arg, &t);
}

static bool
carries_tcp(const struct service_maps *f)
{
	return f->counts.tcp + f->counts.external_kernel > 0;
}

void
service_maps_targets(const struct service_maps *f, const struct snapshot *s,
	service_maps_target_fn *fn, void *arg)
{
	for (size_t i = 0; carries_tcp(f) && i < snapshot_count(s); i++) {
		const struct service *service = snapshot_at(s, i);

		for (unsigned k = 0; k < service->n_ports; k++) {
			target_port(f, service, &service->ports[k], false, fn, arg);
			if (f->config.subnet6.bits > 0)
				target_port(f, service, &service->ports[k], true, fn, arg);
		}
	}
}

struct told_external {
	const struct service_maps *maps;
	service_maps_external_fn *fn;
	void *arg;
};

static void
tell_external(void *arg, const struct service *s, const struct service_port *p, const struct key *k)
{
	const struct told_external *to = arg;
	const struct service_maps *f = to->maps;
	enum external_verdict v = external_judge(&f->external, f->now, s, p, k);
	const struct frontend *one = service_maps_find(&f->table, k);

	if (v == EXTERNAL_SERVED && (one == NULL || !one->plan.external))
		v = EXTERNAL_NO_ENDPOINT;
	to->fn(to->arg, s, p, k, v, one != NULL && one->plan.n > 0);
}

void
service_maps_external(
	struct service_maps *f, const struct snapshot *now, service_maps_external_fn *fn, void *arg)
{
	struct told_external to = {f, fn, arg};

	f->now = now;
	for (size_t i = 0; i < snapshot_count(now) && snapshot_counts(now)->external > 0; i++)
		external_each(&f->external, snapshot_at(now, i), tell_external, &to);
}

struct looked_external {
	struct service_maps *maps;
	bool differs;
};

static void
look_external(void *arg, const struct service *s, const struct service_port *p, const struct key *k)
{
	struct looked_external *l = arg;
	const struct frontend *one = service_maps_find(&l->maps->table, k);
	enum external_verdict v;
	struct slots plan;

	if (l->differs)
		return;
	v = judge_external(l->maps, s, p, k, &plan);
	slots_fini(&plan);
	if (v != EXTERNAL_TAKEN)
		l->differs = (v == EXTERNAL_SERVED) != (one != NULL && one->plan.external);
}

bool
service_maps_look_external(struct service_maps *f, const struct snapshot *now)
{
	struct looked_external l = {.maps = f};

	if (!f->external.on || snapshot_counts(now)->external == 0)
		return false;
	f->now = now;
	external_read_held(&f->external);
	for (size_t i = 0; i < snapshot_count(now); i++)
		external_each(&f->external, snapshot_at(now, i), look_external, &l);
	return l.differs;
}

/* --- differences into transactions ---------------------------------------------------------- */

void
service_maps_all(struct service_maps *f)
{
	struct table_node *n = NULL;
	size_t slot = 0;

	service_maps_skip(f);
	/* Flows that began while the table was missing have no translation, and each further packet
	 * would keep them so. */
	f->udp_lost = f->tcp_lost = true;
	while ((n = table_walk(&f->table, &slot, n)) != NULL)
		service_maps_differ(
			f, container_of(n, struct frontend, node), false, (struct slots){0});
}

bool
service_maps_put(struct service_maps *f, struct batch *b, bool v6)
{
	size_t all = buf_len(&f->differences) / sizeof(struct difference), n = 0, elements = 0;
	struct difference *list = (void *)buf_at(&f->differences);

	if (all == 0)
		return false;
	for (; n < all && elements < ELEMENTS_AT_ONCE; n++)
		elements += 2 + list[n].before.n + list[n].after.n + list[n].before.n_callers +
			list[n].after.n_callers;
	difference_put(list, n, b);
	if (v6) {
		b->family = NFPROTO_IPV6;
		difference_put(list, n, b);
		b->family = NFPROTO_IPV4;
	}
	for (size_t i = 0; i < n; i++)
		slots_fini(&list[i].before);
	buf_consume(&f->differences, n * sizeof *list);
	give_back(&f->differences);
	return true;
}

/* --- flows ---------------------------------------------------------------------------------- */

static bool
in_subnet(const struct service_maps *f, const struct in6_addr *ip)
{
	return IN6_IS_ADDR_V4MAPPED(ip) ? (ip_to_v4(ip) & f->config.mask) == f->config.subnet
					: fake6_inner(&f->config.subnet6, ip) != 0;
}

struct stale {
	const struct service_maps *maps;
	struct buf locals; /* addresses of this machine: its processes call from there */
};

static bool
is_stale(void *arg, const struct conntrack_flow *flow)
{
	const struct stale *s = arg;
	const struct service_maps *f = s->maps;
	const struct key k = {.ip = flow->dst, .port = flow->dport, .proto = flow->proto};
	const struct slots_target server = {flow->server, flow->server_port};
	const struct frontend *one, *gone;

	if (flow->proto == IPPROTO_UDP ? !f->udp_lost : flow->proto != IPPROTO_TCP || !f->tcp_lost)
		return false;
	gone = service_maps_find(&f->gone, &k);
	/* An established connection stays with its endpoint until it ends; only one that was never
	 * answered retries. */
	if (flow->proto == IPPROTO_TCP && flow->replied)
		return gone != NULL && gone->restricted;
	one = service_maps_find(&f->table, &k);
	if (one != NULL && one->plan.external && one->plan.n == 0)
		return false; /* the proxy's */
	if (one != NULL)
		return !slots_has(&one->plan, &server) ||
			(!slots_admits(&one->plan, &flow->src) &&
				!(one->plan.host && iface_addresses_have(&s->locals, &flow->src)));
	if (ip_same(&flow->server, &flow->dst))
		return flow->proto == IPPROTO_TCP && in_subnet(f, &flow->dst);
	return gone != NULL || (flow->proto == IPPROTO_UDP && in_subnet(f, &flow->dst));
}

bool
service_maps_flows_due(const struct service_maps *f)
{
	return f->udp_lost || f->tcp_lost;
}

void
service_maps_flows(struct service_maps *f)
{
	static struct log_limit limit;
	struct stale s = {.maps = f};
	struct err err = {0};
	int n;

	n = conntrack_delete(0, &s.locals, is_stale, &s, FLOWS_AT_ONCE, &err);
	if (n == FLOWS_AT_ONCE) {
		f->counts.flows_ended += FLOWS_AT_ONCE;
		return; /* there may be more */
	}
	f->udp_lost = f->tcp_lost = false;
	service_maps_empty(&f->gone);
	if (n >= 0) {
		f->counts.flows_ended += (uint64_t)n;
		return;
	}
	if (log_limit_pass(&limit, 6, "iptables"))
		log_warn("iptables", "flows stay with endpoints that are gone error=\"%s\"",
			err.text);
}

/*
 * BackendTLSPolicies: TLS towards the endpoints of a Service's ports. Of several policies for the
 * same Service and sectionName the oldest counts, at a port one that names it before one for the
 * whole Service. A policy that cannot be followed still counts: then calls fail, since the other
 * way would be in clear.
 */
#include <string.h>
#include <strings.h>

#include "base/core/buf.h"
#include "model/cluster/cluster_private.h"

/* --- the policies of a Service -------------------------------------------------------------- */

static const struct kube_route_parent *
policy_target(const struct record *r, const char *ns, const char *service, const char *section)
{
	const struct kube_route *route = &r->object->tls_policy.route;

	for (size_t i = 0; i < route->n_parents; i++) {
		const struct kube_route_parent *p = &route->parents[i];

		if (strcmp(p->ns, ns) == 0 && strcmp(p->name, service) == 0 &&
			strcmp(p->section, section) == 0)
			return p;
	}
	return NULL;
}

/* The policy that counts for exactly this target; NULL: none. */
static const struct record *
policy_find(const struct cluster *c, const char *ns, const char *service, const char *section)
{
	struct table_node *n =
		table_first(&c->policies_by_service, cluster_route_hash('t', ns, service));
	const struct record *best = NULL;

	for (; n != NULL; n = table_next(n)) {
		const struct record *r = link_record(n);

		if (policy_target(r, ns, service, section) != NULL &&
			(best == NULL || cluster_route_compare_age(r, best) < 0))
			best = r;
	}
	return best;
}

/* --- CAs ------------------------------------------------------------------------------------ */

static char *
policy_ca_problem(const struct cluster *c, const struct record *r, const struct kube_tls_ca *ca,
	const struct kube_config_map **map)
{
	const struct kube_object *o = cluster_find(c, KUBE_CONFIG_MAP, r->ns, ca->name);

	*map = NULL;
	if (*ca->kind != '\0')
		return xasprintf("caCertificateRef %s is a %s: only ConfigMaps are supported",
			ca->name, ca->kind);
	if (o == NULL)
		return xasprintf("ConfigMap %s/%s does not exist, or the hub may not read it",
			r->ns, ca->name);
	if (*o->config_map.wrong != '\0')
		return xasprintf("ConfigMap %s/%s %s", r->ns, ca->name, o->config_map.wrong);
	*map = &o->config_map;
	return NULL;
}

/* What a policy's references come to. */
struct policy_refs {
	struct buf ca; /* of those that are valid */
	struct buf wrong; /* the others, as sentences */
	const char *reason; /* of the first of these; NULL: all are valid */
	size_t n_valid;
};

static void
policy_resolve(const struct cluster *c, const struct record *r, struct policy_refs *to)
{
	const struct kube_tls_policy *p = &r->object->tls_policy;

	*to = (struct policy_refs){.reason = NULL};
	buf_init(&to->ca, BUF_UNLIMITED);
	buf_init(&to->wrong, BUF_UNLIMITED);
	for (size_t i = 0; i < p->n_cas; i++) {
		const struct kube_config_map *map;
		auto_free char *problem = policy_ca_problem(c, r, &p->cas[i], &map);

		if (problem == NULL && buf_len(&to->ca) + strlen(map->ca) >= BACKEND_TLS_CA_MAX)
			problem = xasprintf("ConfigMap %s/%s: with those before it more than %d "
					    "bytes of CAs",
				r->ns, p->cas[i].name, BACKEND_TLS_CA_MAX);
		if (problem == NULL) {
			buf_adds(&to->ca, map->ca);
			buf_adds(&to->ca, "\n");
			to->n_valid++;
			continue;
		}
		if (to->reason == NULL)
			to->reason =
				*p->cas[i].kind != '\0' ? "InvalidKind" : "InvalidCACertificateRef";
		buf_printf(&to->wrong, "%s%s", buf_len(&to->wrong) > 0 ? "; " : "", problem);
	}
}

static void
policy_refs_fini(struct policy_refs *refs)
{
	buf_fini(&refs->ca);
	buf_fini(&refs->wrong);
}

/* --- the view ------------------------------------------------------------------------------- */

/* room: for bytes of CAs. */
static struct backend_tls *
policy_build(const struct cluster *c, const struct record *r, size_t room)
{
	const struct kube_tls_policy *p = &r->object->tls_policy;
	struct backend_tls *t = backend_tls_new();
	struct policy_refs refs;

	policy_resolve(c, r, &refs);
	t->policy = xasprintf("%s/%s", r->ns, r->name);
	t->host = xstrdup(p->names->host != NULL ? p->names->host : "");
	if (*p->wrong != '\0')
		t->wrong = xstrndup(p->wrong, BACKEND_TLS_WRONG_MAX);
	else if (!p->system && refs.n_valid == 0)
		t->wrong = xstrndup(buf_str(&refs.wrong), BACKEND_TLS_WRONG_MAX);
	else if (!p->system && buf_len(&refs.ca) > room)
		t->wrong = xasprintf("for each hostname of a headless Service there may be %d KB "
				     "of CAs: let the ConfigMaps have fewer",
			BACKEND_TLS_HOSTNAME_CAS_BYTES / 1024);
	else if (!p->system)
		t->ca = buf_take_str(&refs.ca);
	for (char **at = p->names->hosts; *at != NULL; at++)
		backend_tls_add(&t->hosts, *at);
	for (char **at = p->names->uris; *at != NULL; at++)
		backend_tls_add(&t->uris, *at);
	backend_tls_seal(t);
	policy_refs_fini(&refs);
	return t;
}

static size_t
policy_ca_bytes(const struct view *v)
{
	size_t n = 0;

	for (size_t i = 0; i < v->n_tls; i++)
		n += strlen(v->tls[i]->ca);
	return n;
}

/* A headless Service has a view for each hostname, with a copy of the CAs. */
static size_t
policy_ca_room(const struct view *v)
{
	size_t used = policy_ca_bytes(v);

	if (strchr(v->name, '.') == NULL)
		return SIZE_MAX;
	return BACKEND_TLS_HOSTNAME_CAS_BYTES - MIN(used, (size_t)BACKEND_TLS_HOSTNAME_CAS_BYTES);
}

/* The number of the policy's entry in the view, which is added if need be. The last one is for all
 * policies beyond the limit. */
static uint8_t
attach_entry(const struct cluster *c, const struct record *r, struct view *v)
{
	auto_free char *policy = xasprintf("%s/%s", r->ns, r->name);
	bool full = v->n_tls + 1 >= BACKEND_TLS_MAX || policy_ca_bytes(v) > BACKEND_TLS_CAS_BYTES;
	struct backend_tls *t;

	for (size_t i = 0; i < v->n_tls; i++)
		if (strcmp(v->tls[i]->policy, policy) == 0 ||
			(full && strcmp(v->tls[i]->policy, "") == 0))
			return (uint8_t)(i + 1);
	if (full) {
		t = backend_tls_new();
		t->wrong = xstrdup("the Service has more BackendTLSPolicies than a node takes");
		backend_tls_seal(t);
	} else {
		t = policy_build(c, r, policy_ca_room(v));
	}
	v->tls = xrealloc(v->tls, (v->n_tls + 1) * sizeof(struct backend_tls *));
	v->tls[v->n_tls++] = t;
	return (uint8_t)v->n_tls;
}

/* HTTP in TLS, as the port says: the proxy adds the TLS, so what comes from callers is HTTP. */
static bool
port_is_https(const struct kube_service *s, uint16_t port)
{
	for (size_t i = 0; i < s->n_ports; i++) {
		const struct kube_service_port *p = &s->ports[i];

		if (p->port == port && p->protocol == KUBE_TCP)
			return *p->app_protocol != '\0' ? strcasecmp(p->app_protocol, "https") == 0
							: strncmp(p->name, "https", 5) == 0 &&
					(p->name[5] == '\0' || p->name[5] == '-');
	}
	return false;
}

void
cluster_backend_tls_attach(const struct cluster *c, const struct joint *j, struct joined *now)
{
	const struct kube_object *o = cluster_find(c, KUBE_SERVICE, j->ns, j->name);
	const struct record *all;
	struct view *v = now->view;

	if (o == NULL || c->policies_by_service.n == 0)
		return;
	all = policy_find(c, j->ns, j->name, "");
	for (size_t i = 0; i < v->n_ports; i++) {
		struct view_port *p = &v->ports[i];
		const struct record *r = p->name != NULL && *p->name != '\0'
			? policy_find(c, j->ns, j->name, p->name)
			: NULL;

		r = r != NULL ? r : all;
		if (r == NULL || p->mode == PORT_UDP)
			continue;
		p->tls = attach_entry(c, r, v);
		if (p->mode == PORT_TCP && port_is_https(&o->service, p->port))
			p->mode = PORT_HTTP;
		if (*v->tls[p->tls - 1]->wrong != '\0')
			cluster_reasons_set(&now->why, CLUSTER_PARTLY,
				xasprintf("port %u: calls fail, since BackendTLSPolicy %s cannot "
					  "be followed: %s",
					p->port, v->tls[p->tls - 1]->policy,
					v->tls[p->tls - 1]->wrong));
	}
}

/* --- what a change affects ------------------------------------------------------------------ */

void
cluster_backend_tls_touch(struct cluster *c, const char *ns, const char *service)
{
	struct table_node *n =
		table_first(&c->policies_by_service, cluster_route_hash('t', ns, service));

	for (; n != NULL; n = table_next(n))
		cluster_route_touch(c, link_record(n));
}

void
cluster_backend_tls_mark(struct cluster *c, const struct record *r)
{
	const struct kube_route *route = &r->object->tls_policy.route;

	c->tls_changes++;
	for (size_t i = 0; i < route->n_parents; i++) {
		const struct kube_route_parent *p = &route->parents[i];

		cluster_index_mark(c, cluster_find_joint(c, p->ns, p->name));
		cluster_backend_tls_touch(c, p->ns, p->name);
	}
	/* without a target it may have a status to lose */
	cluster_route_touch(c, cluster_find_record(c, r->kind, r->ns, r->name));
}

void
cluster_backend_tls_mark_map(struct cluster *c, const char *ns, const char *name)
{
	struct table_node *n = table_first(&c->policies_by_map, cluster_route_hash('m', ns, name));

	for (; n != NULL; n = table_next(n))
		cluster_backend_tls_mark(c, link_record(n));
}

/* --- the ConfigMaps ------------------------------------------------------------------------- */

void
cluster_each_config_map(const struct cluster *c, cluster_config_map_fn *fn, void *arg)
{
	struct table_node *n = NULL;
	size_t slot = 0;

	while ((n = table_walk(&c->policies_by_map, &slot, n)) != NULL) {
		const struct record *r = link_record(n);
		const struct kube_tls_policy *p = &r->object->tls_policy;

		for (size_t i = 0; i < p->n_cas; i++)
			if (*p->cas[i].kind == '\0' &&
				table_is(n, cluster_route_hash('m', r->ns, p->cas[i].name)))
				fn(arg, r->ns, p->cas[i].name);
	}
}

uint64_t
cluster_tls_changes(const struct cluster *c)
{
	return c->tls_changes;
}

/* --- status --------------------------------------------------------------------------------- */

static void
status_refuse_policy(struct cluster_route_parent *p, const char *reason, char *message)
{
	p->accepted = false;
	p->accepted_reason = reason;
	free(p->accepted_message);
	p->accepted_message = message;
}

static bool
target_has_port(const struct kube_service *s, const char *section)
{
	for (size_t i = 0; i < s->n_ports; i++)
		if (s->ports[i].protocol == KUBE_TCP &&
			(*section == '\0' || strcmp(s->ports[i].name, section) == 0))
			return true;
	return false;
}

static void
status_check_target(const struct cluster *c, const struct record *r, struct cluster_route_parent *p)
{
	const struct kube_route_parent *ref = p->ref;
	const struct kube_object *o = cluster_find(c, KUBE_SERVICE, ref->ns, ref->name);
	const struct record *first = policy_find(c, ref->ns, ref->name, ref->section);

	if (o == NULL)
		status_refuse_policy(p, "TargetNotFound",
			xasprintf("Service %s/%s does not exist", ref->ns, ref->name));
	else if (!target_has_port(&o->service, ref->section))
		status_refuse_policy(p, "TargetNotFound",
			xasprintf("Service %s/%s has no TCP port%s%s", ref->ns, ref->name,
				*ref->section != '\0' ? " called " : "", ref->section));
	else if (first != NULL && first != r)
		status_refuse_policy(p, "Conflicted",
			xasprintf("BackendTLSPolicy %s/%s is for the same target, and older",
				first->ns, first->name));
}

void
cluster_backend_tls_status(
	const struct cluster *c, const struct record *r, struct cluster_route_parent *p)
{
	const struct kube_tls_policy *policy = &r->object->tls_policy;
	struct policy_refs refs;

	policy_resolve(c, r, &refs);
	if (refs.reason != NULL) {
		p->resolved = false;
		p->resolved_reason = refs.reason;
		p->resolved_message = xstrdup(buf_str(&refs.wrong));
	}
	status_check_target(c, r, p);
	if (p->accepted && *policy->wrong != '\0')
		status_refuse_policy(
			p, "Invalid", xasprintf("%s; calls of the Service fail", policy->wrong));
	else if (p->accepted && !policy->system && refs.n_valid == 0)
		status_refuse_policy(p, "NoValidCACertificate",
			xasprintf("%s; calls of the Service fail", buf_str(&refs.wrong)));
	policy_refs_fini(&refs);
}

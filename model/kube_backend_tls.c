/*
 * BackendTLSPolicies, and the ConfigMaps that hold their CAs. What the CRD would refuse in a policy
 * does not make the object invalid, since nobody's older version, or none at all, may let calls go
 * in clear: the policy is told to be wrong, and calls of its Services fail.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/tls/pki.h"
#include "model/check.h"
#include "model/kube_private.h"

static void printf_like(4, 5) policy_wrong(struct decoder *d, const struct tree_node *at,
	struct kube_tls_policy *p, const char *fmt, ...)
{
	char text[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	kube_note(d, at, "%s", text);
	if (*p->wrong != '\0')
		return;
	free(p->wrong);
	p->wrong = xstrdup(text);
}

/* As DNS name, "*." before it allowed for what a certificate may say. */
static bool
policy_is_host(const char *text, bool wildcard)
{
	if (wildcard && strncmp(text, "*.", 2) == 0)
		text += 2;
	return check_subdomain(text, strlen(text));
}

static void
policy_read_targets(struct decoder *d, const struct tree_node *spec, struct kube_object *o)
{
	const struct tree_node *refs = kube_list(d, spec, "targetRefs");
	struct kube_route *r = &o->tls_policy.route;

	r->parents = xcalloc(kube_count(refs) + 1, sizeof *r->parents);
	tree_each(refs, n) {
		struct kube_route_parent *p = &r->parents[r->n_parents];

		if (strcmp(tree_text(tree_get(n, "group"), ""), "") != 0 ||
			strcmp(tree_text(tree_get(n, "kind"), ""), "Service") != 0 ||
			r->n_parents == ROUTE_PARENTS_MAX)
			continue;
		r->n_parents++;
		p->ns = xstrdup(o->ns);
		p->name = xstrdup(tree_text(tree_get(n, "name"), ""));
		p->section = xstrdup(tree_text(tree_get(n, "sectionName"), ""));
	}
}

static void
policy_read_cas(struct decoder *d, const struct tree_node *validation, struct kube_tls_policy *p)
{
	const struct tree_node *refs = kube_list(d, validation, "caCertificateRefs");
	const struct tree_node *known = tree_get(validation, "wellKnownCACertificates");

	p->cas = xcalloc(BACKEND_TLS_CAS_MAX, sizeof *p->cas);
	tree_each(refs, n) {
		const char *group = tree_text(tree_get(n, "group"), "");
		const char *kind = tree_text(tree_get(n, "kind"), "");
		struct kube_tls_ca *ca = &p->cas[p->n_cas];
		bool config_map = *group == '\0' && strcmp(kind, "ConfigMap") == 0;

		if (p->n_cas == BACKEND_TLS_CAS_MAX) {
			policy_wrong(d, validation, p, "caCertificateRefs: at most %d are allowed",
				BACKEND_TLS_CAS_MAX);
			return;
		}
		p->n_cas++;
		ca->kind = config_map
			? xstrdup("")
			: xasprintf("%.100s%s%.63s", group, *group != '\0' ? "/" : "", kind);
		ca->name = xstrdup(tree_text(tree_get(n, "name"), ""));
	}
	if (!tree_is_null(known) && *tree_text(known, "") != '\0') {
		p->system = strcmp(tree_text(known, ""), "System") == 0;
		if (!p->system)
			policy_wrong(d, validation, p,
				"wellKnownCACertificates: '%.63s' is not known, System expected",
				tree_text(known, ""));
		else if (p->n_cas > 0)
			policy_wrong(d, validation, p,
				"caCertificateRefs beside wellKnownCACertificates: leave one out");
	} else if (p->n_cas == 0) {
		policy_wrong(
			d, validation, p, "neither caCertificateRefs nor wellKnownCACertificates");
	}
}

static void
policy_read_name(struct decoder *d, const struct tree_node *n, struct kube_tls_policy *p)
{
	const char *type = tree_text(tree_get(n, "type"), "");
	bool uri = strcmp(type, "URI") == 0;
	const char *text = tree_text(tree_get(n, uri ? "uri" : "hostname"), "");

	if (uri && strchr(text, ':') != NULL && strlen(text) <= MESH_NODE_MAX)
		backend_tls_add(&p->names->uris, text);
	else if (strcmp(type, "Hostname") == 0 && policy_is_host(text, true))
		backend_tls_add(&p->names->hosts, text);
	else
		policy_wrong(d, n, p,
			"subjectAltNames: '%.63s' of type '%.16s', expected a name of type "
			"Hostname, or an absolute URI of type URI",
			text, type);
}

void
kube_tls_policy_decode(struct decoder *d, const struct tree_node *n, struct kube_object *o)
{
	const struct tree_node *spec = tree_get(n, "spec");
	const struct tree_node *validation = tree_get(spec, "validation");
	const struct tree_node *names = kube_list(d, validation, "subjectAltNames");
	const char *host = tree_text(tree_get(validation, "hostname"), "");
	struct kube_tls_policy *p = &o->tls_policy;

	kube_route_decode_meta(n, &p->route, "status.ancestors");
	p->wrong = xstrdup("");
	p->names = backend_tls_new();
	policy_read_targets(d, spec, o);
	policy_read_cas(d, validation, p);
	if (policy_is_host(host, false))
		p->names->host = xstrdup(host);
	else
		policy_wrong(
			d, validation, p, "hostname: '%.63s' is no DNS name in lower case", host);
	if (kube_count(names) > BACKEND_TLS_NAMES_MAX)
		policy_wrong(d, validation, p, "subjectAltNames: at most %d are allowed",
			BACKEND_TLS_NAMES_MAX);
	else
		tree_each(names, name)
			policy_read_name(d, name, p);
}

void
kube_tls_policy_fini(struct kube_tls_policy *p)
{
	for (size_t i = 0; i < p->n_cas; i++) {
		free(p->cas[i].name);
		free(p->cas[i].kind);
	}
	free(p->cas);
	free(p->wrong);
	backend_tls_unref(&p->names);
	kube_route_fini(&p->route);
}

/* --- ConfigMaps ----------------------------------------------------------------------------- */

/* Only its CAs are kept. */
void
kube_config_map_decode(struct decoder *d, const struct tree_node *n, struct kube_config_map *m)
{
	const struct tree_node *ca = tree_get(tree_get(n, "data"), "ca.crt");
	struct ssl_ctx_st *ctx = NULL;
	struct err err = {0};

	(void)d;
	if (tree_is_null(ca) || ca->kind != TREE_SCALAR) {
		m->wrong = xstrdup("has no key ca.crt");
	} else if (ca->len > BACKEND_TLS_CA_MAX) {
		m->wrong = xasprintf("has more than %d bytes in ca.crt", BACKEND_TLS_CA_MAX);
	} else if (pki_web_ctx(ca->text, &ctx, &err) < 0) {
		m->wrong = xasprintf("has no certificates in PEM in ca.crt: %s", err.text);
	} else {
		m->wrong = xstrdup("");
		m->ca = xstrdup(ca->text);
		pki_ctx_free(&ctx);
	}
	if (m->ca == NULL)
		m->ca = xstrdup("");
}

void
kube_config_map_fini(struct kube_config_map *m)
{
	free(m->ca);
	free(m->wrong);
}

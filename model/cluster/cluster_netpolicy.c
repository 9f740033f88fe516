#include <string.h>

#include "base/core/buf.h"
#include "model/allow_from.h"
#include "model/check.h"
#include "model/cluster/cluster_private.h"
#include "model/selector.h"

/*
 * Translates NetworkPolicies to texts of model/allow_from.h, one for each pod and port that they
 * restrict: the union of what all policies selecting the pod permit. Namespaces are resolved to
 * their names here, so that nodes need not know their labels.
 */

uint64_t
cluster_netpolicy_hash(const char *ns)
{
	return cluster_hash('P', ns, "", "");
}

/* Peers, sorted and unique. */
struct netpolicy_peers {
	size_t n;
	char **list;
};

static void
netpolicy_add(struct netpolicy_peers *to, char *text)
{
	size_t at = 0;

	while (at < to->n && strcmp(to->list[at], text) < 0)
		at++;
	if (at < to->n && strcmp(to->list[at], text) == 0) {
		free(text);
		return;
	}
	to->list = xrealloc(to->list, (to->n + 1) * sizeof *to->list);
	memmove(to->list + at + 1, to->list + at, (to->n - at) * sizeof *to->list);
	to->list[at] = text;
	to->n++;
}

static bool
netpolicy_selects(const char *text, const struct kube_labels *labels)
{
	struct selector *s = NULL;
	bool selects;

	if (strcmp(text, "*") == 0)
		return true;
	if (selector_parse(&s, text, NULL) < 0)
		return false; /* cannot happen: it was parsed before */
	selects = selector_matches(s, labels);
	selector_free(&s);
	return selects;
}

/* --- namespaces ----------------------------------------------------------------------------- */

static void
netpolicy_add_namespace(struct netpolicy_peers *names, const char *selector,
	const struct kube_labels *labels, const char *name)
{
	if (netpolicy_selects(selector, labels))
		netpolicy_add(names, xstrdup(name));
}

/* Where no Namespace object is known, as in most manifest folders, a namespace's only label is its
 * name, and only names in the selector itself can match. */
static void
netpolicy_guess(struct netpolicy_peers *names, const char *selector)
{
	static const char between[] = " ,()=!";

	for (const char *at = selector; *at != '\0';) {
		size_t len = strcspn(at, between);
		auto_free char *word = xstrndup(at, len);
		struct kube_label only = {(char[]){KUBE_NAMESPACE_NAME}, word};
		const struct kube_labels labels = {1, &only};

		if (check_label(word, len))
			netpolicy_add_namespace(names, selector, &labels, word);
		at += len;
		at += strspn(at, between);
	}
}

/* "a,b" on the heap, "*" for all, "" for none. */
static char *
netpolicy_namespaces(const struct cluster *c, const char *selector)
{
	struct netpolicy_peers names = {0};
	struct table_node *n = NULL;
	auto_buf struct buf text;
	size_t slot = 0;

	buf_init(&text, BUF_UNLIMITED);
	if (strcmp(selector, "*") == 0)
		return xstrdup("*");
	while ((n = table_walk(&c->namespaces, &slot, n)) != NULL) {
		const struct record *r = link_record(n);

		netpolicy_add_namespace(&names, selector, &r->object->namespace.labels, r->name);
	}
	if (c->namespaces.n == 0)
		netpolicy_guess(&names, selector);
	for (size_t i = 0; i < names.n; i++) {
		buf_printf(&text, "%s%s", i > 0 ? "," : "", names.list[i]);
		free(names.list[i]);
	}
	free(names.list);
	return buf_take_str(&text);
}

/* --- rules ---------------------------------------------------------------------------------- */

static void
netpolicy_add_peer(const struct cluster *c, const char *ns, const struct kube_netpolicy_peer *p,
	struct netpolicy_peers *to)
{
	auto_free char *namespaces = NULL;

	if (p->addresses != NULL) {
		netpolicy_add(to, xasprintf("addresses=%s", p->addresses));
		return;
	}
	namespaces = p->namespaces != NULL ? netpolicy_namespaces(c, p->namespaces) : xstrdup(ns);
	if (*namespaces == '\0')
		return;
	netpolicy_add(to,
		strcmp(p->pods, "*") == 0
			? xasprintf("namespaces=%s", namespaces)
			: xasprintf("namespaces=%s; pods=%s", namespaces, p->pods));
}

static bool
netpolicy_has_port(const struct kube_netpolicy_rule *rule, const struct kube_pod *pod,
	uint16_t port, uint8_t protocol)
{
	const struct kube_container_port *declared = NULL;

	if (rule->any_port)
		return true;
	for (size_t i = 0; i < rule->n_ports; i++) {
		const struct kube_netpolicy_port *p = &rule->ports[i];

		if (p->protocol != protocol)
			continue;
		if (*p->name == '\0' && port >= p->from && port <= p->to)
			return true;
		declared = *p->name != '\0' ? join_find_number(pod, port, protocol) : NULL;
		if (declared != NULL && strcmp(declared->name, p->name) == 0)
			return true;
	}
	return false;
}

static char *
netpolicy_text(const struct netpolicy_peers *peers)
{
	auto_buf struct buf text;
	struct allow_from *parsed;

	buf_init(&text, BUF_UNLIMITED);
	for (size_t i = 0; i < peers->n; i++)
		buf_printf(&text, "%s%s", i > 0 ? " | " : "", peers->list[i]);
	if (buf_len(&text) == 0 || buf_len(&text) > ALLOW_FROM_TEXT_MAX ||
		allow_from_parse(&parsed, buf_str(&text), "default", NULL) < 0)
		return xstrdup(ALLOW_FROM_NONE);
	allow_from_unref(&parsed);
	return buf_take_str(&text);
}

/* Adds the callers that the policy permits; true when that is everybody. */
static bool
netpolicy_open(const struct cluster *c, const struct record *policy, const struct kube_pod *pod,
	const uint16_t port, uint8_t protocol, struct netpolicy_peers *to)
{
	const struct kube_netpolicy *p = &policy->object->netpolicy;

	for (size_t i = 0; i < p->n_rules; i++) {
		if (!netpolicy_has_port(&p->rules[i], pod, port, protocol))
			continue;
		if (p->rules[i].anybody)
			return true;
		for (size_t k = 0; k < p->rules[i].n_peers; k++)
			netpolicy_add_peer(c, policy->ns, &p->rules[i].peers[k], to);
	}
	return false;
}

/* A hostNetwork pod has the node's address, and policies do not apply to nodes. */
char *
cluster_netpolicy_gate(
	const struct cluster *c, const struct kube_object *pod, uint16_t port, uint8_t protocol)
{
	struct table_node *n = c->policies.n > 0
		? table_first(&c->policies, cluster_netpolicy_hash(pod->ns))
		: NULL;
	struct netpolicy_peers peers = {0};
	bool selected = false, open = false;
	char *text = NULL;

	for (; n != NULL && !open && !pod->pod.host_network; n = table_next(n)) {
		const struct record *r = link_record(n);

		if (strcmp(r->ns, pod->ns) != 0 ||
			!netpolicy_selects(r->object->netpolicy.pods, &pod->pod.labels))
			continue;
		selected = true;
		open = netpolicy_open(c, r, &pod->pod, port, protocol, &peers);
	}
	if (selected && !open)
		text = netpolicy_text(&peers);
	for (size_t i = 0; i < peers.n; i++)
		free(peers.list[i]);
	free(peers.list);
	return text;
}

#include <string.h>

#include "base/core/buf.h"
#include "base/os/network.h"
#include "model/allow_from.h"
#include "model/check.h"
#include "model/kube_private.h"
#include "model/selector.h"

/*
 * NetworkPolicies: which pods they restrict, and which callers they permit. Only ingress matters
 * here. Anything beyond our limits restricts: an invalid pod selector selects all pods of the
 * namespace, an invalid peer permits nobody.
 */

enum { NETPOLICY_RULES_MAX = 256, NETPOLICY_PORTS_MAX = 256 };

/* --- label selectors ------------------------------------------------------------------------ */

static bool
netpolicy_add_expression(struct buf *to, const struct tree_node *e)
{
	static const struct {
		const char *name, *before, *behind;
		bool values;
	} operators[] = {{"In", "", " in (", true}, {"NotIn", "", " notin (", true},
		{"Exists", "", "", false}, {"DoesNotExist", "!", "", false}};
	const char *key = tree_text(tree_get(e, "key"), ""),
		   *operator= tree_text(tree_get(e, "operator"), "");
	const char *comma = "";

	for (size_t i = 0; i < ARRAY_LEN(operators); i++) {
		if (strcmp(operators[i].name, operator) != 0)
			continue;
		buf_printf(to, "%s%s%s%s", buf_len(to) > 0 ? "," : "", operators[i].before, key,
			operators[i].behind);
		if (!operators[i].values)
			return *key != '\0';
		tree_each(tree_get(e, "values"), v) {
			buf_printf(to, "%s%s", comma, tree_text(v, "?"));
			comma = ",";
		}
		buf_adds(to, ")");
		return *key != '\0' && *comma != '\0';
	}
	return false;
}

/* A LabelSelector as text of model/selector.h on the heap, "*" for one that selects everything;
 * NULL when it is invalid. */
static char *
netpolicy_selector(struct decoder *d, const struct tree_node *n)
{
	auto_buf struct buf text;
	struct selector *parsed = NULL;
	struct err err = {0};
	bool ok = true;

	buf_init(&text, BUF_UNLIMITED);
	tree_each(tree_get(n, "matchLabels"), l)
		buf_printf(
			&text, "%s%s=%s", buf_len(&text) > 0 ? "," : "", l->key, tree_text(l, "?"));
	tree_each(tree_get(n, "matchExpressions"), e)
		ok = ok && netpolicy_add_expression(&text, e);
	if (ok && buf_len(&text) == 0)
		return xstrdup("*");
	if (!ok)
		err_set(&err, 0, "an expression without key, operator or values");
	if (!ok || selector_parse(&parsed, buf_str(&text), &err) < 0) {
		kube_note(d, n, "%s: %s; it counts as closed", n->key, err.text);
		return NULL;
	}
	selector_free(&parsed);
	return buf_take_str(&text);
}

/* --- rules ---------------------------------------------------------------------------------- */

static char *
netpolicy_addresses(struct decoder *d, const struct tree_node *block)
{
	auto_buf struct buf text;
	struct network network;
	const char *cidr = tree_text(tree_get(block, "cidr"), "");
	bool ok = network_parse(&network, cidr);

	buf_init(&text, BUF_UNLIMITED);
	buf_adds(&text, cidr);
	tree_each(tree_get(block, "except"), e) {
		ok = ok && network_parse(&network, tree_text(e, ""));
		buf_printf(&text, ",!%s", tree_text(e, ""));
	}
	if (ok)
		return buf_take_str(&text);
	kube_note(d, block,
		"ipBlock: '%.60s' or what it excepts is no network; it counts as nobody", cidr);
	return NULL;
}

static bool
netpolicy_read_peer(struct decoder *d, const struct tree_node *n, struct kube_netpolicy_peer *p)
{
	const struct tree_node *pods = tree_get(n, "podSelector"),
			       *namespaces = tree_get(n, "namespaceSelector"),
			       *block = tree_get(n, "ipBlock");

	if (!tree_is_null(block))
		return (p->addresses = netpolicy_addresses(d, block)) != NULL;
	if (tree_is_null(pods) && tree_is_null(namespaces))
		return false;
	if (!tree_is_null(namespaces) &&
		(p->namespaces = netpolicy_selector(d, namespaces)) == NULL)
		return false;
	p->pods = tree_is_null(pods) ? xstrdup("*") : netpolicy_selector(d, pods);
	return p->pods != NULL;
}

static void
netpolicy_peer_fini(struct kube_netpolicy_peer *p)
{
	free(p->namespaces);
	free(p->pods);
	free(p->addresses);
}

static void
netpolicy_read_port(struct decoder *d, const struct tree_node *n, struct kube_netpolicy_port *port)
{
	const struct tree_node *number = tree_get(n, "port");
	int64_t from = 0, to = 0;

	port->protocol = kube_protocol(d, n);
	port->name = xstrdup("");
	if (tree_is_null(number)) {
		port->from = 1;
		port->to = UINT16_MAX;
	} else if (!number->quoted && tree_int(number, 1, UINT16_MAX, &from) == 0) {
		port->from = port->to = (uint16_t)from;
		if (tree_int(tree_get(n, "endPort"), from, UINT16_MAX, &to) == 0)
			port->to = (uint16_t)to;
	} else {
		free(port->name);
		port->name = xstrdup(tree_text(number, ""));
	}
}

static void
netpolicy_read_rule(struct decoder *d, const struct tree_node *n, struct kube_netpolicy_rule *rule)
{
	const struct tree_node *from = kube_list(d, n, "from"), *ports = kube_list(d, n, "ports");

	rule->anybody = kube_count(from) == 0;
	rule->peers = xcalloc(kube_count(from) + 1, sizeof *rule->peers);
	rule->ports = xcalloc(kube_count(ports) + 1, sizeof *rule->ports);
	tree_each(from, p) {
		if (rule->n_peers == ALLOW_FROM_PEERS_MAX) {
			kube_note(d, p, "more than %d peers in a rule, the rest counts as nobody",
				(int)ALLOW_FROM_PEERS_MAX);
			break;
		}
		if (netpolicy_read_peer(d, p, &rule->peers[rule->n_peers]))
			rule->n_peers++;
		else {
			netpolicy_peer_fini(&rule->peers[rule->n_peers]);
			rule->peers[rule->n_peers] = (struct kube_netpolicy_peer){0};
		}
	}
	rule->any_port = kube_count(ports) == 0;
	tree_each(ports, p) {
		if (rule->n_ports < NETPOLICY_PORTS_MAX)
			netpolicy_read_port(d, p, &rule->ports[rule->n_ports++]);
	}
}

/* Without policyTypes every policy applies to ingress. */
static bool
netpolicy_is_ingress(const struct tree_node *spec)
{
	const struct tree_node *types = tree_get(spec, "policyTypes");
	bool found = kube_count(types) == 0;

	tree_each(types, t)
		found = found || strcmp(tree_text(t, ""), "Ingress") == 0;
	return found;
}

void
kube_netpolicy_decode(struct decoder *d, const struct tree_node *n, struct kube_netpolicy *p)
{
	const struct tree_node *spec = tree_get(n, "spec"), *pods = tree_get(spec, "podSelector");
	const struct tree_node *rules = kube_list(d, spec, "ingress");

	p->ingress = netpolicy_is_ingress(spec);
	p->pods = tree_is_null(pods) ? NULL : netpolicy_selector(d, pods);
	if (p->pods == NULL)
		p->pods = xstrdup("*");
	p->rules = xcalloc(kube_count(rules) + 1, sizeof *p->rules);
	tree_each(rules, r) {
		if (p->n_rules == NETPOLICY_RULES_MAX) {
			kube_note(d, r, "more than %d rules, the rest does not open anything",
				(int)NETPOLICY_RULES_MAX);
			break;
		}
		netpolicy_read_rule(d, r, &p->rules[p->n_rules++]);
	}
}

void
kube_netpolicy_fini(struct kube_netpolicy *p)
{
	for (size_t i = 0; i < p->n_rules; i++) {
		struct kube_netpolicy_rule *rule = &p->rules[i];

		for (size_t k = 0; k < rule->n_peers; k++)
			netpolicy_peer_fini(&rule->peers[k]);
		for (size_t k = 0; k < rule->n_ports; k++)
			free(rule->ports[k].name);
		free(rule->peers);
		free(rule->ports);
	}
	free(p->rules);
	free(p->pods);
}

/* --- namespaces ----------------------------------------------------------------------------- */

void
kube_namespace_decode(struct decoder *d, const struct tree_node *n, struct kube_namespace *ns)
{
	ns->labels = kube_labels(d, tree_path(n, "metadata.labels"));
	kube_labels_default(
		&ns->labels, KUBE_NAMESPACE_NAME, tree_text(tree_path(n, "metadata.name"), ""));
}

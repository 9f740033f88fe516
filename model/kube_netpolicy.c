#include <string.h>

#include "base/core/buf.h"
#include "base/os/network.h"
#include "model/allow_from.h"
#include "model/check.h"
#include "model/kube_private.h"
#include "model/selector.h"

/*
 * NetworkPolicies: which pods they restrict, and which callers they permit. Only ingress matters
 * here. Anything beyond our limits, or of another kind than it must be, restricts: an invalid pod
 * selector selects all pods of the namespace, an invalid peer permits nobody, an invalid port none.
 */

enum { NETPOLICY_RULES_MAX = 256, NETPOLICY_PORTS_MAX = 256 };

/* Whether what is there is of this kind; if not, that is reported, and the caller closes. Unlike
 * with kube_list the object stays valid: a policy that is refused would restrict nothing. */
static bool
netpolicy_is(struct decoder *d, const struct tree_node *n, enum tree_kind kind)
{
	static const char *const names[] = {"text", "map", "list"};

	if (tree_is_null(n) || n->kind == kind)
		return true;
	kube_note(d, n, "%s: a %s expected; it counts as closed",
		n->key != NULL ? n->key : "an item of a list", names[kind]);
	return false;
}

/* --- label selectors ------------------------------------------------------------------------ */

static bool
netpolicy_add_expression(struct decoder *d, struct buf *to, const struct tree_node *e)
{
	static const struct {
		const char *name, *before, *behind;
		bool values;
	} operators[] = {{"In", "", " in (", true}, {"NotIn", "", " notin (", true},
		{"Exists", "", "", false}, {"DoesNotExist", "!", "", false}};
	const char *key = tree_text(tree_get(e, "key"), ""),
		   *operator= tree_text(tree_get(e, "operator"), "");
	const struct tree_node *values = tree_get(e, "values");
	const char *comma = "";

	if (!netpolicy_is(d, values, TREE_LIST))
		return false;
	for (size_t i = 0; i < ARRAY_LEN(operators); i++) {
		if (strcmp(operators[i].name, operator) != 0)
			continue;
		buf_printf(to, "%s%s%s%s", buf_len(to) > 0 ? "," : "", operators[i].before, key,
			operators[i].behind);
		if (!operators[i].values)
			return *key != '\0';
		tree_each(values, v) {
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
	const struct tree_node *labels = tree_get(n, "matchLabels"),
			       *expressions = tree_get(n, "matchExpressions");
	auto_buf struct buf text;
	struct selector *parsed = NULL;
	struct err err = {0};
	bool ok = true;

	buf_init(&text, BUF_UNLIMITED);
	if (!netpolicy_is(d, n, TREE_MAP) || !netpolicy_is(d, labels, TREE_MAP) ||
		!netpolicy_is(d, expressions, TREE_LIST))
		return NULL;
	tree_each(labels, l)
		buf_printf(
			&text, "%s%s=%s", buf_len(&text) > 0 ? "," : "", l->key, tree_text(l, "?"));
	tree_each(expressions, e)
		ok = ok && netpolicy_add_expression(d, &text, e);
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
	const struct tree_node *except = tree_get(block, "except");
	const char *cidr = tree_text(tree_get(block, "cidr"), "");
	bool ok = network_parse(&network, cidr);

	buf_init(&text, BUF_UNLIMITED);
	if (!netpolicy_is(d, except, TREE_LIST))
		return NULL;
	buf_adds(&text, cidr);
	tree_each(except, e) {
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

	if (!netpolicy_is(d, n, TREE_MAP))
		return false;
	if (!tree_is_null(block) && !(tree_is_null(pods) && tree_is_null(namespaces))) {
		kube_note(d, n, "ipBlock beside a selector; it counts as nobody");
		return false;
	}
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

/* False: it is none of ours, and opens nothing. */
static bool
netpolicy_read_protocol(struct decoder *d, const struct tree_node *n, uint8_t *protocol)
{
	int found = netpolicy_is(d, n, TREE_SCALAR) ? kube_find_protocol(tree_text(n, "TCP")) : -1;

	if (found < 0 && n->kind == TREE_SCALAR)
		kube_note(d, n, "protocol: '%.20s' is not TCP, UDP or SCTP; it counts as closed",
			n->text);
	*protocol = (uint8_t)found;
	return found >= 0;
}

static bool
netpolicy_read_port(struct decoder *d, const struct tree_node *n, struct kube_netpolicy_port *port)
{
	const struct tree_node *number = tree_get(n, "port");
	int64_t from = 0, to = 0;

	if (!netpolicy_is(d, n, TREE_MAP) || !netpolicy_is(d, number, TREE_SCALAR) ||
		!netpolicy_read_protocol(d, tree_get(n, "protocol"), &port->protocol))
		return false;
	if (tree_is_null(number)) {
		port->from = 1;
		port->to = UINT16_MAX;
	} else if (!number->quoted && tree_int(number, 1, UINT16_MAX, &from) == 0) {
		port->from = port->to = (uint16_t)from;
		if (tree_int(tree_get(n, "endPort"), from, UINT16_MAX, &to) == 0)
			port->to = (uint16_t)to;
	}
	port->name = xstrdup(from == 0 ? tree_text(number, "") : "");
	return true;
}

static void
netpolicy_read_peers(
	struct decoder *d, const struct tree_node *from, struct kube_netpolicy_rule *rule)
{
	rule->peers = xcalloc(kube_count(from) + 1, sizeof *rule->peers);
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
}

/* Only a list that is absent or empty means everybody, and every port. */
static void
netpolicy_read_rule(struct decoder *d, const struct tree_node *n, struct kube_netpolicy_rule *rule)
{
	const struct tree_node *from = tree_get(n, "from"), *ports = tree_get(n, "ports");

	if (!netpolicy_is(d, n, TREE_MAP) || !netpolicy_is(d, from, TREE_LIST) ||
		!netpolicy_is(d, ports, TREE_LIST))
		return;
	rule->anybody = kube_count(from) == 0;
	netpolicy_read_peers(d, from, rule);
	rule->any_port = kube_count(ports) == 0;
	rule->ports = xcalloc(kube_count(ports) + 1, sizeof *rule->ports);
	tree_each(ports, p) {
		if (rule->n_ports < NETPOLICY_PORTS_MAX &&
			netpolicy_read_port(d, p, &rule->ports[rule->n_ports]))
			rule->n_ports++;
	}
}

/* Without policyTypes every policy applies to ingress, and with a type that we do not know. */
static bool
netpolicy_is_ingress(struct decoder *d, const struct tree_node *types)
{
	bool found = !netpolicy_is(d, types, TREE_LIST) || kube_count(types) == 0;

	tree_each(types, t) {
		const char *type = tree_text(t, "");

		if (strcmp(type, "Egress") == 0)
			continue;
		found = true;
		if (strcmp(type, "Ingress") != 0)
			kube_note(d, t, "policyTypes: '%.20s' is not known; it counts as Ingress",
				type);
	}
	return found;
}

void
kube_netpolicy_decode(struct decoder *d, const struct tree_node *n, struct kube_netpolicy *p)
{
	const struct tree_node *spec = tree_get(n, "spec"), *pods = tree_get(spec, "podSelector");
	const struct tree_node *rules = tree_get(spec, "ingress");

	netpolicy_is(d, spec, TREE_MAP); /* any other has no rules, so it closes */
	p->ingress = netpolicy_is_ingress(d, tree_get(spec, "policyTypes"));
	p->pods = tree_is_null(pods) ? NULL : netpolicy_selector(d, pods);
	if (p->pods == NULL)
		p->pods = xstrdup("*");
	if (!netpolicy_is(d, rules, TREE_LIST))
		return;
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

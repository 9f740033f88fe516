#include "hub/port/acl.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "base/os/network.h"
#include "base/tls/pki.h"
#include "hub/hub.h"
#include "model/check.h"

/* One target of a rule: its kind and up to two globs. */
struct to {
	bool all;
	enum target_kind kind;
	char *first, *second; /* node; or namespace and name; or host. NULL: see `network` */
	struct network network;
	uint16_t from_port, to_port;
	char *text; /* as in the configuration, for explanations */
};

struct rule {
	bool local, by_network;
	struct network network;
	bool cert, token, node; /* by name */
	char *name;
	char *sha256; /* of the token; "": none */
	struct to *to;
	size_t n_to;
	char *from; /* as in the configuration */
	unsigned line;
};

struct acl {
	struct rule *rules;
	size_t n;
};

/* --- reading -------------------------------------------------------------------------------- */

static bool
read_port(const char *text, size_t len, uint16_t *port)
{
	unsigned n = 0;

	if (len == 0 || len > 5)
		return false;
	for (size_t i = 0; i < len; i++) {
		if (text[i] < '0' || text[i] > '9')
			return false;
		n = n * 10 + (unsigned)(text[i] - '0');
	}
	*port = (uint16_t)n;
	return n > 0 && n <= 65535;
}

/* "10250", "10250-10255" or "*". */
static bool
read_ports(const char *text, struct to *to)
{
	const char *dash = strchr(text, '-');

	if (strcmp(text, "*") == 0)
		return true;
	if (dash == NULL)
		dash = text + strlen(text);
	if (!read_port(text, (size_t)(dash - text), &to->from_port))
		return false;
	to->to_port = to->from_port;
	return *dash == '\0' ||
		(read_port(dash + 1, strlen(dash + 1), &to->to_port) &&
			to->to_port >= to->from_port);
}

/* Returns the text before ":PORTS"; with ports, an IPv6 address is in brackets. NULL: the ports are
 * invalid. */
static char *
split_ports(const char *text, struct to *to)
{
	const char *colon = strrchr(text, ':'), *end = text + strlen(text);
	const char *at = text[0] == '[' ? text + 1 : text;

	if (colon != NULL && memchr(text, ':', (size_t)(colon - text)) != NULL &&
		(colon == text || colon[-1] != ']'))
		colon = NULL; /* an IPv6 address alone */
	if (colon != NULL) {
		if (!read_ports(colon + 1, to))
			return NULL;
		end = colon;
	}
	if (at > text && end > at && end[-1] == ']')
		end--;
	return xstrndup(at, (size_t)(end - at));
}

/* SITE/CIDR[:PORTS]: site and network. */
static bool
read_site(const char *text, struct to *to)
{
	auto_free char *address = NULL;
	const char *slash = strchr(text, '/');

	to->kind = TARGET_SITE;
	if (slash == NULL || slash == text || (address = split_ports(slash + 1, to)) == NULL ||
		!network_parse(&to->network, address))
		return false;
	to->second = xstrndup(text, (size_t)(slash - text));
	return true;
}

/* NAMESPACE/NAME. */
static bool
read_service(const char *text, struct to *to)
{
	const char *slash = strchr(text, '/');

	to->first = xstrndup(text, (size_t)(slash - text));
	to->second = xstrdup(slash + 1);
	return *to->first != '\0' && *to->second != '\0' && strchr(to->second, '/') == NULL;
}

static bool
read_to(const char *text, struct to *to)
{
	auto_free char *name = NULL;

	*to = (struct to){.from_port = 1, .to_port = 65535, .all = strcmp(text, "*") == 0};
	if (to->all)
		return true;
	if (strcmp(text, "hub:web") == 0) {
		to->kind = TARGET_WEB;
		return true;
	}
	if (strncmp(text, "cloud/", 6) == 0) {
		to->kind = TARGET_CLOUD;
		if ((name = split_ports(text + 6, to)) == NULL || *name == '\0')
			return false;
		if (network_parse(&to->network, name))
			return true;
		if (strchr(name, '/') == NULL) {
			to->first = take_ptr(&name);
			return true;
		}
		to->kind = TARGET_CLOUD_SERVICE;
		/* no namespace, but a network that is none: cloud/10.0.0.0/33 */
		return read_service(name, to) && strpbrk(to->first, ".:") == NULL;
	}
	if (strncmp(text, "site/", 5) == 0)
		return read_site(text + 5, to);
	to->kind = strncmp(text, "pod/", 4) == 0 ? TARGET_POD : TARGET_SERVICE;
	if ((name = split_ports(text + (to->kind == TARGET_POD ? 4 : 0), to)) == NULL ||
		*name == '\0')
		return false;
	if (strchr(name, '/') == NULL) {
		to->kind = to->kind == TARGET_POD ? TARGET_POD : TARGET_NODE;
		to->first = take_ptr(&name);
		return to->kind == TARGET_NODE;
	}
	return read_service(name, to);
}

static bool
read_from(const char *text, struct rule *rule)
{
	const char *name = text;

	if (network_parse(&rule->network, text)) {
		rule->by_network = true;
		return true;
	}
	rule->local = strcmp(text, "local") == 0;
	rule->cert = strncmp(text, "cert:", 5) == 0;
	rule->token = strncmp(text, "token:", 6) == 0;
	rule->node = strncmp(text, "node:", 5) == 0;
	if (rule->cert || rule->token || rule->node)
		name = strchr(text, ':') + 1;
	else
		rule->cert = rule->token = true;
	rule->name = xstrdup(name);
	return *name != '\0' && strlen(name) <= ACCESS_NAME_MAX && strchr(name, '/') == NULL;
}

static bool
is_sha256(const char *text)
{
	return strlen(text) == PKI_HASH_TEXT - 1 &&
		strspn(text, "0123456789abcdef") == PKI_HASH_TEXT - 1;
}

/* The node being parsed, to locate an error. */
struct reading {
	const struct tree_node *at;
	struct err *err;
};

static int
acl_wrong(const struct reading *r, const char *text, const char *what)
{
	return err_set(r->err, EINVAL, "\"%.80s\": %s", text, what);
}

static int
read_rule(const struct tree_node *entry, struct rule *rule, struct reading *r)
{
	const struct tree_node *to = tree_get(entry, "to");
	const char *from = tree_text(tree_get(entry, "from"), "");
	const char *sha256 = tree_text(tree_get(entry, "tokenSHA256"), "");

	r->at = entry;
	if (!read_from(from, rule))
		return acl_wrong(r, from, "expected a network, cert:NAME, token:NAME or a name");
	if (*sha256 != '\0' && (!is_sha256(sha256) || !rule->token))
		return acl_wrong(r, sha256,
			"expected the sha256 of the token's secret, 64 digits of a-f and 0-9, with "
			"from: token:NAME");
	rule->sha256 = xstrdup(sha256);
	rule->from = xstrdup(from);
	rule->line = entry->line;
	tree_each(to, one) {
		const char *text = tree_text(one, "");

		r->at = one;
		rule->to = xrealloc(rule->to, (rule->n_to + 1) * sizeof *rule->to);
		rule->to[rule->n_to] = (struct to){0};
		if (!read_to(text, &rule->to[rule->n_to++]))
			return acl_wrong(r, text,
				"expected *, NODE[:PORTS], NAMESPACE/SERVICE[:PORTS], "
				"pod/NAMESPACE/POD[:PORTS], cloud/HOST[:PORTS], "
				"cloud/NAMESPACE/SERVICE[:PORTS], site/SITE/CIDR[:PORTS] or "
				"hub:web");
		if (rule->to[rule->n_to - 1].kind == TARGET_CLOUD_SERVICE && !rule->node)
			return acl_wrong(r, text,
				"opens endpoints to nodes alone: it needs from: node:NAME. Others "
				"have them by NAMESPACE/SERVICE[:PORTS]");
		rule->to[rule->n_to - 1].text = xstrdup(text);
	}
	return 0;
}

static int
read_rules(const struct tree_node *rules, struct acl **out, struct reading *r)
{
	struct acl *a = xcalloc(1, sizeof *a);
	int rc = 0;

	tree_each(rules, entry) {
		r->at = entry;
		if (a->n == ACL_RULES_MAX)
			rc = err_set(r->err, EINVAL, "more than %d rules", ACL_RULES_MAX);
		if (rc < 0)
			break;
		a->rules = xrealloc(a->rules, (a->n + 1) * sizeof *a->rules);
		a->rules[a->n] = (struct rule){0};
		rc = read_rule(entry, &a->rules[a->n++], r);
	}
	if (rc < 0)
		acl_free(&a);
	*out = a;
	return rc;
}

int
acl_new(const struct tree_node *rules, struct acl **out, struct err *err)
{
	struct reading r = {.err = err};
	int rc = read_rules(rules, out, &r);

	return rc < 0 ? err_wrap(err, rc, "line %u: access", r.at->line) : 0;
}

const struct tree_node *
hub_check_access(const struct tree_node *rules, struct err *err)
{
	struct reading r = {.err = err};
	struct acl *a;
	int rc = read_rules(rules, &a, &r);

	acl_free(&a);
	return rc < 0 ? r.at : NULL;
}

bool
hub_names_web(const struct tree_node *rules)
{
	struct reading r = {0};
	struct acl *a;
	bool named = read_rules(rules, &a, &r) == 0 && acl_names(a, TARGET_WEB);

	acl_free(&a);
	return named;
}

void
acl_free(struct acl **out)
{
	struct acl *a = take_ptr(out);

	if (a == NULL)
		return;
	for (size_t i = 0; i < a->n; i++) {
		struct rule *r = &a->rules[i];

		for (size_t k = 0; k < r->n_to; k++) {
			free(r->to[k].first);
			free(r->to[k].second);
			free(r->to[k].text);
		}
		free(r->to);
		free(r->name);
		free(r->from);
		free(r->sha256);
	}
	free(a->rules);
	free(a);
}

void
acl_adopt(struct acl *a, struct acl **fresh)
{
	struct acl old = *a;

	*a = **fresh;
	**fresh = old;
	acl_free(fresh);
}

size_t
acl_count(const struct acl *a)
{
	return a->n;
}

/* --- checking ------------------------------------------------------------------------------- */

/* The secret may have been changed since the caller came with it. */
static bool
acl_has_token(const struct acl *a, const struct caller *c)
{
	for (size_t i = 0; i < a->n; i++)
		if (a->rules[i].sha256[0] != '\0' && strcmp(a->rules[i].name, c->token) == 0 &&
			strncmp(a->rules[i].sha256, c->token_hash, CALLER_TOKEN_HASH - 1) == 0)
			return true;
	return false;
}

static bool
is_from(const struct acl *a, const struct rule *r, const struct caller *c)
{
	struct in6_addr ip;

	if (r->local)
		return c->local;
	if (r->by_network)
		return addr_ip(&c->addr, &ip) && network_holds(&r->network, &ip);
	if (r->node)
		return c->node[0] != '\0' && fnmatch(r->name, c->node, 0) == 0;
	return (r->cert && c->admitted && strcmp(r->name, c->cert) == 0) ||
		(r->token && c->token[0] != '\0' && strcmp(r->name, c->token) == 0 &&
			acl_has_token(a, c));
}

static bool
acl_glob(const char *pattern, const char *text)
{
	return fnmatch(pattern, text, 0) == 0;
}

static bool
acl_opens(const struct to *to, const struct acl_target *t)
{
	struct in6_addr ip;

	if (to->all)
		return t->kind != TARGET_WEB; /* the page is not reached through the hub */
	if ((to->kind != t->kind &&
		    !(to->kind == TARGET_SERVICE && t->kind == TARGET_CLOUD_SERVICE)) ||
		t->kind == TARGET_WEB)
		return to->kind == t->kind;
	if (t->port < to->from_port || t->port > to->to_port)
		return false;
	switch (t->kind) {
	case TARGET_NODE:
		return acl_glob(to->first, t->node);
	case TARGET_POD:
	case TARGET_SERVICE:
	case TARGET_CLOUD_SERVICE:
		return acl_glob(to->first, t->ns) && acl_glob(to->second, t->name);
	case TARGET_CLOUD:
		if (to->first != NULL)
			return acl_glob(to->first, t->host);
		return ip_parse(t->host, &ip) && network_holds(&to->network, &ip);
	case TARGET_SITE:
		return acl_glob(to->second, t->name) && ip_parse(t->host, &ip) &&
			network_holds(&to->network, &ip);
	case TARGET_WEB:
		break;
	}
	return false;
}

/* Why a target is open to a caller, or is not. */
enum acl_ground {
	ACL_RULE, /* a rule opens it */
	/* nodes know the services anyway, and the target is an endpoint of one */
	ACL_NODES_SERVICES,
	/* no rules exist, and the caller is a program of this host, or admitted by a clientCA */
	ACL_NO_RULES,
	ACL_NOBODY, /* no rule opens it */
	ACL_CLOUD_NEEDED, /* endpoints without a Pod are open to nodes by a rule alone */
	ACL_RULES_MISSING, /* no rules exist, and the caller comes from elsewhere */
	/* a target that no object of the cluster stands for is open only by a rule */
	ACL_RULE_NEEDED,
	ACL_OWN_DIAL,
};

struct acl_found {
	const struct rule *rule; /* with ACL_RULE */
	const struct to *to;
};

/* Searches the rules for nodes, or the other ones. */
static bool
acl_find_rule(const struct acl *a, const struct caller *c, const struct acl_target *t,
	struct acl_found *found)
{
	bool node = c->node[0] != '\0';

	for (size_t i = 0; i < a->n; i++) {
		const struct rule *r = &a->rules[i];

		for (size_t k = 0; (r->node || !node) && is_from(a, r, c) && k < r->n_to; k++)
			if (acl_opens(&r->to[k], t)) {
				*found = (struct acl_found){r, &r->to[k]};
				return true;
			}
	}
	return false;
}

/* What the hub itself dials adds to what nodes may have. */
static bool
acl_adds_alone(const struct rule *r)
{
	for (size_t k = 0; k < r->n_to; k++)
		if (r->to[k].all ||
			(r->to[k].kind != TARGET_CLOUD && r->to[k].kind != TARGET_CLOUD_SERVICE))
			return false;
	return r->n_to > 0;
}

bool
acl_names_nodes(const struct acl *a)
{
	for (size_t i = 0; a != NULL && i < a->n; i++)
		if (a->rules[i].node && !acl_adds_alone(&a->rules[i]))
			return true;
	return false;
}

bool
acl_opens_cloud_service(const struct acl *a, const char *ns, const char *name)
{
	struct acl_target t = {.kind = TARGET_CLOUD_SERVICE, .ns = ns, .name = name};

	for (size_t i = 0; a != NULL && i < a->n; i++)
		for (size_t k = 0; a->rules[i].node && k < a->rules[i].n_to; k++) {
			t.port = a->rules[i].to[k].from_port;
			if (acl_opens(&a->rules[i].to[k], &t))
				return true;
		}
	return false;
}

/* The page is not reached through the hub. */
static bool
acl_opens_some(const struct rule *r)
{
	for (size_t k = 0; k < r->n_to; k++)
		if (r->to[k].all || r->to[k].kind != TARGET_WEB)
			return true;
	return false;
}

bool
acl_admits(const struct acl *a, const struct caller *c)
{
	const bool node = c->node[0] != '\0';

	if (c->own_dial)
		return false;
	for (size_t i = 0; i < a->n; i++)
		if ((a->rules[i].node || !node) && is_from(a, &a->rules[i], c) &&
			acl_opens_some(&a->rules[i]))
			return true;
	return node ? !acl_names_nodes(a) : a->n == 0 && (c->local || c->admitted);
}

static enum acl_ground
acl_ground(const struct acl *a, const struct caller *c, const struct acl_target *t,
	struct acl_found *found)
{
	if (c->own_dial)
		return ACL_OWN_DIAL;
	if (c->node[0] != '\0') {
		if (acl_find_rule(a, c, t, found))
			return ACL_RULE;
		if (t->kind == TARGET_CLOUD_SERVICE)
			return ACL_CLOUD_NEEDED;
		return !acl_names_nodes(a) && t->kind == TARGET_SERVICE ? ACL_NODES_SERVICES
									: ACL_NOBODY;
	}
	if (a->n == 0 || (t->kind == TARGET_WEB && !acl_names(a, TARGET_WEB))) {
		if (t->kind == TARGET_CLOUD || t->kind == TARGET_SITE)
			return ACL_RULE_NEEDED;
		return c->local || c->admitted ? ACL_NO_RULES : ACL_RULES_MISSING;
	}
	return acl_find_rule(a, c, t, found) ? ACL_RULE : ACL_NOBODY;
}

bool
acl_check(const struct acl *a, const struct caller *c, const struct acl_target *t)
{
	struct acl_found found;

	return acl_ground(a, c, t, &found) <= ACL_NO_RULES;
}

bool
acl_explain(
	const struct acl *a, const struct caller *c, const struct acl_target *t, struct buf *why)
{
	static const char *const texts[] = {
		[ACL_NODES_SERVICES] =
			"no rule is for nodes: each may have the endpoints of all services",
		[ACL_NO_RULES] = "no rule says anything of this target: programs of the hub's "
				 "host, and who was admitted by a listener's clientCA, may",
		[ACL_CLOUD_NEEDED] = "endpoints that no Pod stands for are open to a node by a "
				     "rule alone: from node:NAME, to cloud/NAMESPACE/SERVICE",
		[ACL_NOBODY] = "no rule of access opens this target to this caller",
		[ACL_RULES_MISSING] = "there is no rule of access for this target: only programs "
				      "of the hub's host may",
		[ACL_RULE_NEEDED] =
			"a target that is no object of the cluster needs a rule of access",
		[ACL_OWN_DIAL] = "the hub has dialled itself: nothing is opened to it",
	};
	struct acl_found found;
	enum acl_ground ground = acl_ground(a, c, t, &found);

	if (ground == ACL_RULE)
		buf_printf(why, "access, line %u: from %s to %s", found.rule->line,
			found.rule->from, found.to->text);
	else
		buf_adds(why, texts[ground]);
	return ground <= ACL_NO_RULES;
}

bool
acl_names(const struct acl *a, enum target_kind kind)
{
	for (size_t i = 0; i < a->n; i++)
		for (size_t k = 0; k < a->rules[i].n_to; k++)
			if (!a->rules[i].to[k].all && a->rules[i].to[k].kind == kind)
				return true;
	return false;
}

bool
acl_names_cloud(const struct acl *a, const struct in6_addr *ip)
{
	for (size_t i = 0; i < a->n; i++)
		for (size_t k = 0; k < a->rules[i].n_to; k++) {
			const struct to *to = &a->rules[i].to[k];

			if (to->kind == TARGET_CLOUD && !to->all && to->first == NULL &&
				network_holds(&to->network, ip))
				return true;
		}
	return false;
}

bool
acl_names_address(
	const struct acl *a, const struct caller *c, const struct in6_addr *ip, uint16_t port)
{
	for (size_t i = 0; i < a->n; i++) {
		const struct rule *r = &a->rules[i];

		if (c != NULL &&
			(c->own_dial || r->node != (c->node[0] != '\0') || !is_from(a, r, c)))
			continue;
		for (size_t k = 0; k < r->n_to; k++) {
			const struct to *to = &r->to[k];
			bool ports = to->from_port > 1 || to->to_port < UINT16_MAX;

			if (to->kind == TARGET_CLOUD && !to->all && to->first == NULL && ports &&
				to->network.bits == 128 && port >= to->from_port &&
				port <= to->to_port && network_holds(&to->network, ip))
				return true;
		}
	}
	return false;
}

/* rule NULL: none. */
static bool
acl_set_token(struct caller *c, const struct rule *rule)
{
	snprintf(c->token, sizeof c->token, "%s", rule != NULL ? rule->name : "");
	snprintf(c->token_hash, sizeof c->token_hash, "%.*s", CALLER_TOKEN_HASH - 1,
		rule != NULL ? rule->sha256 : "");
	return rule != NULL;
}

bool
acl_use_token(const struct acl *a, const char *secret, size_t len, struct caller *c)
{
	const struct rule *found = NULL;
	char hash[PKI_HASH_TEXT];

	pki_sha256_hex(secret, len, hash);
	for (size_t i = 0; i < a->n; i++)
		if (a->rules[i].sha256[0] != '\0' && pki_equal(a->rules[i].sha256, hash))
			found = &a->rules[i];
	return acl_set_token(c, found);
}

bool
acl_use_token_name(const struct acl *a, const char *name, struct caller *c)
{
	const struct rule *found = NULL;

	for (size_t i = 0; i < a->n && found == NULL; i++)
		if (a->rules[i].sha256[0] != '\0' && strcmp(a->rules[i].name, name) == 0)
			found = &a->rules[i];
	return acl_set_token(c, found);
}

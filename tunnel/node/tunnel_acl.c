#include "tunnel/node/tunnel_acl.h"

#include <errno.h>
#include <string.h>

#include "base/core/special_addr.h"
#include "model/check.h"

struct rule {
	enum tunnel_acl_kind kind;
	bool deny;
	bool network; /* a network: any kind of target, by its address */
	uint16_t first, last; /* ports */
	struct in6_addr prefix;
	unsigned bits;
};

struct tunnel_acl {
	size_t n;
	struct rule rules[];
};

static const char *const kinds[] = {"node", "pods", "services", "agent"};

static bool
parse_port(const char **text, uint16_t *port)
{
	unsigned n = 0;
	const char *p = *text;

	for (; *p >= '0' && *p <= '9' && n <= UINT16_MAX; p++)
		n = n * 10 + (unsigned)(*p - '0');
	if (p == *text || n == 0 || n > UINT16_MAX)
		return false;
	*text = p;
	*port = (uint16_t)n;
	return true;
}

static bool
parse_ports(const char *p, struct rule *r)
{
	if (strcmp(p, "*") == 0) {
		r->first = 1;
		r->last = UINT16_MAX;
		return true;
	}
	if (!parse_port(&p, &r->first))
		return false;
	r->last = r->first;
	if (*p == '-') {
		p++;
		if (!parse_port(&p, &r->last))
			return false;
	}
	return *p == '\0' && r->first <= r->last;
}

/* Adds one rule, or two for a bare "node". */
static bool
add_rule(struct tunnel_acl *a, const char *text)
{
	struct rule r = {.first = 1, .last = UINT16_MAX};
	size_t len, kind;

	r.deny = *text == '!';
	text += r.deny;
	len = strcspn(text, ":");
	for (kind = 0; kind < ARRAY_LEN(kinds); kind++)
		if (strlen(kinds[kind]) == len && memcmp(kinds[kind], text, len) == 0)
			break;
	if (kind < ARRAY_LEN(kinds))
		r.kind = (enum tunnel_acl_kind)kind;
	else if (strchr(text, '/') == NULL || !ip_net_parse(text, &r.prefix, &r.bits))
		return false;
	else
		r.network = true;
	if (r.network) {
		a->rules[a->n++] = r;
		return true;
	}
	if (text[len] == ':' && r.kind == TUNNEL_ACL_AGENT)
		return false;
	if (text[len] == ':') {
		if (!parse_ports(text + len + 1, &r))
			return false;
	} else if (r.kind == TUNNEL_ACL_NODE && !r.deny) {
		r.first = r.last = 10250;
		a->rules[a->n++] = r;
		r.first = r.last = 10255;
	}
	a->rules[a->n++] = r;
	return true;
}

int
tunnel_acl_new(const char *const *rules, size_t n, struct tunnel_acl **out, struct err *err)
{
	struct tunnel_acl *a;

	if (n > TUNNEL_ACL_RULES_MAX)
		return err_set(err, EINVAL, "more than %d rules", TUNNEL_ACL_RULES_MAX);
	a = xcalloc(1, sizeof *a + 2 * n * sizeof a->rules[0]);
	for (size_t i = 0; i < n; i++)
		if (!add_rule(a, rules[i])) {
			tunnel_acl_free(&a);
			return err_set(err, EINVAL,
				"\"%.80s\": want [!]node, pods or services, with :PORT, "
				":FIRST-LAST or :*, agent, or a network",
				rules[i]);
		}
	*out = a;
	return 0;
}

void
tunnel_acl_free(struct tunnel_acl **a)
{
	free(take_ptr(a));
}

const char *
tunnel_acl_kind_name(enum tunnel_acl_kind kind)
{
	static const char *const names[] = {
		[TUNNEL_ACL_NODE] = "node",
		[TUNNEL_ACL_PODS] = "pod",
		[TUNNEL_ACL_SERVICES] = "service",
		[TUNNEL_ACL_AGENT] = "agent",
		[TUNNEL_ACL_BESIDE] = "beside",
	};

	return names[kind];
}

/* Why such addresses are never dialled; loopback is the node itself, which the rules judge by
 * port. */
static const char *refused_class(enum special_addr class)
{
	switch (class) {
	case SPECIAL_NONE:
	case SPECIAL_LOOPBACK:
		return NULL;
	case SPECIAL_METADATA:
		return "cloud metadata is never a target";
	case SPECIAL_LINK_LOCAL:
		return "link-local addresses are never targets";
	default:
		return "this address is no target";
	}
}

const char *
tunnel_acl_never(const struct addr *target)
{
	struct in6_addr ip;

	return refused_class(addr_ip(target, &ip) ? special_addr_class(&ip) : SPECIAL_UNSPECIFIED);
}

/* The rule that decides: a denial, wherever it stands, or else the last rule that allows; NULL:
 * none names the target. */
static const struct rule *
tunnel_acl_find(const struct tunnel_acl *a, enum tunnel_acl_kind kind, const struct in6_addr *ip,
	uint16_t port)
{
	const struct rule *found = NULL;

	for (size_t i = 0; i < a->n; i++) {
		const struct rule *r = &a->rules[i];

		if (r->network ? !special_addr_in_net(ip, &r->prefix, r->bits)
			       : r->kind != kind || port < r->first || port > r->last)
			continue;
		found = r;
		if (r->deny)
			break;
	}
	return found;
}

bool
tunnel_acl_agent(const struct tunnel_acl *a)
{
	bool named = false;

	for (size_t i = 0; i < a->n; i++) {
		if (a->rules[i].network || a->rules[i].kind != TUNNEL_ACL_AGENT)
			continue;
		if (a->rules[i].deny)
			return false;
		named = true;
	}
	return named;
}

void
tunnel_acl_explain(const struct tunnel_acl *a, enum tunnel_acl_kind kind, const struct addr *target,
	struct buf *out)
{
	const struct rule *r;
	struct in6_addr ip;

	if (!addr_ip(target, &ip) || (r = tunnel_acl_find(a, kind, &ip, addr_port(target))) == NULL)
		return;
	buf_printf(out, "tunnel.allow: %s%s", r->deny ? "!" : "",
		r->network ? "the network of this address" : kinds[r->kind]);
	if (!r->network && r->first == r->last)
		buf_printf(out, ":%u", r->first);
	else if (!r->network && (r->first != 1 || r->last != UINT16_MAX))
		buf_printf(out, ":%u-%u", r->first, r->last);
}

bool
tunnel_acl_check(const struct tunnel_acl *a, enum tunnel_acl_kind kind, const struct addr *target,
	const char **why)
{
	uint16_t port = addr_port(target);
	const struct rule *r;
	struct in6_addr ip;
	bool allowed;

	*why = tunnel_acl_never(target);
	addr_ip(target, &ip);
	if (*why == NULL && kind != TUNNEL_ACL_NODE && special_addr_class(&ip) == SPECIAL_LOOPBACK)
		*why = "loopback is the node's alone";
	if (*why != NULL)
		return false;
	r = tunnel_acl_find(a, kind, &ip, port);
	allowed = r != NULL ? !r->deny : kind == TUNNEL_ACL_BESIDE;
	*why = allowed                      ? NULL
		: kind == TUNNEL_ACL_BESIDE ? "tunnel.allow denies this target"
					    : "tunnel.allow does not name this target";
	return allowed;
}

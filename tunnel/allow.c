#include "tunnel/allow.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

struct rule {
	enum allow_kind kind;
	bool deny;
	bool network; /* of whatever kind, by its address */
	uint16_t first, last; /* ports */
	struct in6_addr prefix;
	unsigned bits;
};

struct allow {
	size_t n;
	struct rule rules[];
};

struct range { /* addresses as IPv6, IPv4 ones mapped */
	const char *prefix;
	unsigned bits;
	const char *why;
};

static const char metadata[] = "cloud metadata is never a target";
static const char link_local[] = "link-local addresses are never targets";
static const char no_target[] = "this address is no target";

static const struct range never[] = {
	{"::ffff:169.254.169.254", 128, metadata},
	{"::ffff:100.100.100.200", 128, metadata}, /* Alibaba */
	{"::ffff:168.63.129.16", 128, metadata}, /* Azure */
	{"::ffff:192.0.0.192", 128, metadata}, /* Oracle */
	{"fd00:ec2::", 32, metadata}, /* Amazon */
	{"fd20:ce::254", 128, metadata}, /* Google */
	{"::ffff:169.254.0.0", 112, link_local},
	{"fe80::", 10, link_local},
	{"::ffff:0.0.0.0", 104, no_target},
	{"::ffff:224.0.0.0", 99, no_target}, /* multicast, reserved, broadcast */
	{"ff00::", 8, no_target},
	{"::", 128, no_target},
};

static const struct range loopback[] = {
	{"::ffff:127.0.0.0", 104, "loopback is the node's alone"},
	{"::1", 128, "loopback is the node's alone"},
};

static const char *const kinds[] = {"node", "pods", "services"};

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

/* ADDRESS/BITS; the address may have bits beyond. */
static bool
parse_network(const char *text, struct rule *r)
{
	const char *slash = strchr(text, '/');
	char host[INET6_ADDRSTRLEN] = "";
	struct in_addr v4;
	unsigned most, bits = 0;

	if (slash == NULL || (size_t)(slash - text) >= sizeof host || slash[1] == '\0' ||
		slash[1 + strspn(slash + 1, "0123456789")] != '\0' || strlen(slash + 1) > 3)
		return false;
	memcpy(host, text, (size_t)(slash - text));
	if (inet_pton(AF_INET, host, &v4) == 1) {
		memset(&r->prefix, 0, sizeof r->prefix);
		r->prefix.s6_addr[10] = r->prefix.s6_addr[11] = 0xff;
		memcpy(&r->prefix.s6_addr[12], &v4, sizeof v4);
		most = 32;
	} else if (inet_pton(AF_INET6, host, &r->prefix) == 1) {
		most = 128;
	} else {
		return false;
	}
	for (slash++; *slash != '\0'; slash++)
		bits = bits * 10 + (unsigned)(*slash - '0');
	r->bits = bits + 128 - most;
	r->network = true;
	return bits <= most;
}

/* Adds one rule, or two for a bare "node". */
static bool
add_rule(struct allow *a, const char *text)
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
		r.kind = (enum allow_kind)kind;
	else if (!parse_network(text, &r))
		return false;
	if (r.network) {
		a->rules[a->n++] = r;
		return true;
	}
	if (text[len] == ':') {
		if (!parse_ports(text + len + 1, &r))
			return false;
	} else if (r.kind == ALLOW_NODE && !r.deny) {
		r.first = r.last = 10250;
		a->rules[a->n++] = r;
		r.first = r.last = 10255;
	}
	a->rules[a->n++] = r;
	return true;
}

int
allow_new(const char *const *rules, size_t n, struct allow **out, struct err *err)
{
	struct allow *a;

	if (n > ALLOW_RULES_MAX)
		return err_set(err, EINVAL, "more than %d rules", ALLOW_RULES_MAX);
	a = xcalloc(1, sizeof *a + 2 * n * sizeof a->rules[0]);
	for (size_t i = 0; i < n; i++)
		if (!add_rule(a, rules[i])) {
			allow_free(&a);
			return err_set(err, EINVAL,
				"\"%.80s\": want [!]node, pods or services, with :PORT, "
				":FIRST-LAST or :*, or a network",
				rules[i]);
		}
	*out = a;
	return 0;
}

void
allow_free(struct allow **a)
{
	free(take_ptr(a));
}

static bool
to_v6(const struct addr *a, struct in6_addr *to)
{
	if (a->sa.sa_family == AF_INET6) {
		*to = a->in6.sin6_addr;
		return true;
	}
	memset(to, 0, sizeof *to);
	to->s6_addr[10] = to->s6_addr[11] = 0xff;
	memcpy(&to->s6_addr[12], &a->in.sin_addr, 4);
	return a->sa.sa_family == AF_INET;
}

static bool
within(const struct in6_addr *a, const struct in6_addr *prefix, unsigned bits)
{
	unsigned whole = bits / 8, rest = bits % 8;

	if (memcmp(a, prefix, whole) != 0)
		return false;
	return rest == 0 || ((a->s6_addr[whole] ^ prefix->s6_addr[whole]) >> (8 - rest)) == 0;
}

static bool
inside(const struct in6_addr *a, const struct range *range)
{
	struct in6_addr prefix;

	inet_pton(AF_INET6, range->prefix, &prefix);
	return within(a, &prefix, range->bits);
}

static const char *
listed(const struct in6_addr *a, const struct range *ranges, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (inside(a, &ranges[i]))
			return ranges[i].why;
	return NULL;
}

const char *
allow_kind_name(enum allow_kind kind)
{
	static const char *const names[] = {
		[ALLOW_NODE] = "node",
		[ALLOW_PODS] = "pod",
		[ALLOW_SERVICES] = "service",
		[ALLOW_BESIDE] = "beside",
	};

	return names[kind];
}

const char *
allow_never(const struct addr *target)
{
	struct in6_addr v6;

	return to_v6(target, &v6) ? listed(&v6, never, ARRAY_LEN(never)) : no_target;
}

bool
allow_check(
	const struct allow *a, enum allow_kind kind, const struct addr *target, const char **why)
{
	uint16_t port = 0;
	struct in6_addr v6;
	bool allowed = kind == ALLOW_BESIDE;

	*why = to_v6(target, &v6) ? listed(&v6, never, ARRAY_LEN(never)) : no_target;
	if (*why == NULL && kind != ALLOW_NODE)
		*why = listed(&v6, loopback, ARRAY_LEN(loopback));
	if (*why != NULL)
		return false;
	port = addr_port(target);
	for (size_t i = 0; i < a->n; i++) {
		const struct rule *r = &a->rules[i];

		if (r->network ? !within(&v6, &r->prefix, r->bits)
			       : r->kind != kind || port < r->first || port > r->last)
			continue;
		allowed = !r->deny;
		if (r->deny)
			break;
	}
	*why = allowed                 ? NULL
		: kind == ALLOW_BESIDE ? "tunnel.allow denies this target"
				       : "tunnel.allow does not name this target";
	return allowed;
}

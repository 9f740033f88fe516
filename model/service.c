#include "model/service.h"

#include "base/core/hash.h"
#include "base/tls/pki.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "model/allow_from.h"
#include "model/backend_tls.h"
#include "model/check.h"
#include "model/http_route.h"

static const char *const policies[] = {
	[LB_DEFAULT] = "",
	[LB_ROUND_ROBIN] = "round-robin",
	[LB_RANDOM] = "random",
	[LB_LEAST_REQUEST] = "least-request",
	[LB_EWMA] = "ewma",
	[LB_CONSISTENT_HASH] = "consistent-hash",
};

static const char *const encrypts[] = {
	[ENCRYPT_DEFAULT] = "",
	[ENCRYPT_OFF] = "off",
	[ENCRYPT_SITE] = "site",
	[ENCRYPT_ALWAYS] = "always",
};

static const char *const datapaths[] = {
	[DATAPATH_DEFAULT] = "",
	[DATAPATH_PROXY] = "proxy",
	[DATAPATH_KERNEL] = "kernel",
};

static const char *const modes[] = {
	[PORT_HTTP] = "http",
	[PORT_TCP] = "tcp",
	[PORT_UDP] = "udp",
};

static int
find_word(const char *const *words, size_t n, const char *word)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(words[i], word) == 0)
			return (int)i;
	return -EINVAL;
}

const char *
lb_policy_name(enum lb_policy policy)
{
	return policies[policy];
}

int
lb_policy_parse(const char *word)
{
	return find_word(policies, ARRAY_LEN(policies), word);
}

int
hash_on_parse(const char *text, char **key)
{
	static const struct {
		const char *prefix;
		enum hash_on on;
	} kinds[] = {{"header:", HASH_ON_HEADER}, {"cookie:", HASH_ON_COOKIE}};
	const char *name = "";
	int on = HASH_ON_SOURCE_IP;

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		size_t len = strlen(kinds[i].prefix);

		if (strncmp(text, kinds[i].prefix, len) != 0)
			continue;
		name = text + len;
		on = (int)kinds[i].on;
	}
	if (on == HASH_ON_SOURCE_IP ? strcmp(text, "source-ip") != 0
				    : !check_token(name, strlen(name)))
		return -EINVAL;
	free(*key);
	*key = xstrdup(name);
	return on;
}

const char *
encrypt_name(enum encrypt encrypt)
{
	return encrypts[encrypt];
}

int
encrypt_parse(const char *word)
{
	return find_word(encrypts, ARRAY_LEN(encrypts), word);
}

const char *
datapath_name(enum datapath datapath)
{
	return datapaths[datapath];
}

int
datapath_parse(const char *word)
{
	return find_word(datapaths, ARRAY_LEN(datapaths), word);
}

const char *
port_mode_name(enum port_mode mode)
{
	return modes[mode];
}

int
port_mode_parse(const char *word)
{
	return find_word(modes, ARRAY_LEN(modes), word);
}

/* Only the reference count of a service is mutable; all else is const for its holders. */
static struct service *
service_counted(const struct service *s)
{
	return (struct service *)(uintptr_t)s;
}

static const struct {
	const char *word;
	unsigned status, bit;
} retry_rows[] = {{"500", 500, RETRY_ON_500}, {"502", 502, RETRY_ON_502},
	{"503", 503, RETRY_ON_503}, {"504", 504, RETRY_ON_504},
	{"unavailable", 0, RETRY_ON_UNAVAILABLE}};

unsigned
retry_on_bit(unsigned status)
{
	for (size_t i = 0; i < ARRAY_LEN(retry_rows); i++)
		if (status != 0 && retry_rows[i].status == status)
			return retry_rows[i].bit;
	return 0;
}

static unsigned
retry_on_word(const char *at, size_t len)
{
	for (size_t i = 0; i < ARRAY_LEN(retry_rows); i++)
		if (strlen(retry_rows[i].word) == len && memcmp(retry_rows[i].word, at, len) == 0)
			return retry_rows[i].bit;
	return 0;
}

int
retry_on_parse(const char *text)
{
	unsigned bits = 0;

	for (const char *at = text;; at++) {
		size_t len = strcspn(at += strspn(at, " "), " ,");
		unsigned bit = retry_on_word(at, len);

		at += len;
		at += strspn(at, " ");
		if (bit == 0 || (*at != '\0' && *at != ','))
			return -EINVAL;
		bits |= bit;
		if (*at == '\0')
			return (int)bits;
	}
}

const char *
retry_on_text(unsigned bits, char to[RETRY_ON_TEXT_MAX])
{
	int n = 0;

	to[0] = '\0';
	for (size_t i = 0; i < ARRAY_LEN(retry_rows); i++)
		if (bits & retry_rows[i].bit)
			n += snprintf(to + n, (size_t)(RETRY_ON_TEXT_MAX - n), "%s%s",
				n > 0 ? "," : "", retry_rows[i].word);
	return to;
}

struct service *
service_ref(const struct service *s)
{
	atomic_fetch_add_explicit(&service_counted(s)->refs, 1, memory_order_relaxed);
	return service_counted(s);
}

void
service_unref(struct service **s)
{
	struct service *gone = *s;

	*s = NULL;
	if (gone == NULL || atomic_fetch_sub_explicit(&gone->refs, 1, memory_order_acq_rel) != 1)
		return;
	service_drop_shared(gone);
	free(gone);
}

void
service_drop_shared(struct service *s)
{
	http_routes_unref(&s->routes);
	for (size_t i = 0; i < s->n_tls; i++)
		backend_tls_unref(&s->tls[i]);
	free(s->tls);
	allow_from_unref(&s->allow_from);
	for (size_t i = 0; i < s->n_gates; i++)
		allow_from_unref(&s->gates[i]);
	free(s->gates);
}

bool
service_permits(const struct service *s, const struct allow_caller *caller, uint64_t *closed)
{
	*closed = 0;
	for (size_t i = 0; i < s->n_gates; i++)
		if (!allow_from_permits(s->gates[i], caller))
			*closed |= UINT64_C(1) << i;
	return s->allow_from == NULL || allow_from_permits(s->allow_from, caller);
}

bool
service_permits_all(
	const struct service *s, const struct service_port *p, const struct allow_caller *caller)
{
	uint64_t closed;

	if (!service_permits(s, caller, &closed))
		return false;
	for (size_t i = 0; i < p->n_endpoints; i++)
		if (endpoint_is_closed(&p->endpoints[i], closed))
			return false;
	return true;
}

const struct service_port *
service_port_find(const struct service *s, uint16_t port, bool udp)
{
	for (size_t i = 0; i < s->n_ports; i++)
		if (s->ports[i].port == port && (s->ports[i].mode == PORT_UDP) == udp)
			return &s->ports[i];
	return NULL;
}

static bool
service_has_external(const struct service *s, const struct in6_addr *ip)
{
	for (size_t i = 0; i < s->n_external_ips; i++)
		if (ip_same(&s->external_ips[i], ip))
			return true;
	return false;
}

bool
service_is_external(const struct service *s)
{
	bool has = s->gateway || s->n_external_ips > 0;

	for (size_t i = 0; i < s->n_ports && !has; i++)
		has = s->ports[i].node_port != 0;
	return has && s->n_ports > 0;
}

const struct service_port *
service_port_external(const struct service *s, const struct in6_addr *ip, uint16_t port, bool udp)
{
	bool by_port = ip != NULL ? service_has_external(s, ip) : s->gateway;
	const struct service_port *found = NULL;

	for (size_t i = 0; i < s->n_ports; i++) {
		const struct service_port *p = &s->ports[i];

		if (p->extra || (p->mode == PORT_UDP) != udp)
			continue;
		if (ip == NULL && p->node_port != 0 && p->node_port == port)
			return p;
		if (by_port && p->port == port && found == NULL)
			found = p;
	}
	return found;
}

bool
endpoint_direct(const struct endpoint *e, bool v6, struct in6_addr *ip)
{
	bool other = IN6_IS_ADDR_V4MAPPED(&e->ip) == v6;
	uint32_t v4;

	*ip = other ? e->other : e->ip;
	v4 = ip_to_v4(ip);
	if (e->via == VIA_TUNNEL)
		return false;
	return v6 ? !IN6_IS_ADDR_UNSPECIFIED(ip) && !IN6_IS_ADDR_LOOPBACK(ip)
		  : v4 >> 24 != 0 && v4 >> 24 != IN_LOOPBACKNET;
}

/* The kernel translates UDP within a family, and nothing relays it to the other one or through the
 * hub: a name with an AAAA would send clients where nobody answers. */
bool
service_is_ipv4_alone(const struct service *s)
{
	for (size_t i = 0; i < s->n_ports; i++) {
		const struct service_port *p = &s->ports[i];
		struct in6_addr ip;
		bool six = p->mode != PORT_UDP;

		for (size_t k = 0; k < p->n_endpoints && !six; k++)
			six = endpoint_direct(&p->endpoints[k], true, &ip);
		if (!six)
			return true;
	}
	return false;
}

bool
endpoint_is_at(const struct endpoint *e, const struct in6_addr *ip, uint16_t port)
{
	return e->port == port &&
		(memcmp(&e->ip, ip, sizeof *ip) == 0 ||
			(endpoint_has_other(e) && memcmp(&e->other, ip, sizeof *ip) == 0));
}

const struct endpoint *
service_endpoint_find(
	const struct service *s, const struct in6_addr *ip, uint16_t port, unsigned flags)
{
	for (size_t p = 0; p < s->n_ports; p++)
		for (size_t i = 0; i < service_port_most(&s->ports[p], true); i++) {
			const struct endpoint *e = &s->ports[p].endpoints[i];

			if ((e->flags & flags) == flags && endpoint_is_at(e, ip, port))
				return e;
		}
	return NULL;
}

struct addr
endpoint_addr(const struct endpoint *e)
{
	return addr_of(&e->ip, e->port);
}

/* --- addresses valid on another node only --------------------------------------------------- */

enum { PREFIX = 3, KIND = PREFIX, REST = KIND + 1, FAR_V4 = 'w', FAR_V6 = '6' };

static const uint8_t far_prefix[PREFIX] = {0xfd, 'e', 'd'};

/* An IPv4 address can be recovered from the result. An IPv6 address does not fit beside the node,
 * so a digest of both replaces it: a cryptographic one, since nodes themselves report their pods'
 * addresses. */
struct in6_addr
endpoint_far(const char *node, const struct in6_addr *ip)
{
	struct in6_addr far;
	size_t len = strlen(node);

	memcpy(far.s6_addr, far_prefix, PREFIX);
	if (IN6_IS_ADDR_V4MAPPED(ip)) {
		uint64_t of_node = hash64(node, len, 0);

		far.s6_addr[KIND] = FAR_V4;
		memcpy(&far.s6_addr[REST], &of_node, sizeof of_node);
		memcpy(&far.s6_addr[12], &ip->s6_addr[12], 4);
	} else {
		auto_free uint8_t *both = xmalloc(sizeof *ip + len);
		uint8_t digest[PKI_SHA256_BYTES];

		memcpy(both, ip, sizeof *ip);
		memcpy(both + sizeof *ip, node, len);
		pki_sha256(both, sizeof *ip + len, digest);
		far.s6_addr[KIND] = FAR_V6;
		memcpy(&far.s6_addr[REST], digest, sizeof far - REST);
	}
	return far;
}

bool
endpoint_is_far(const struct in6_addr *ip)
{
	return memcmp(ip->s6_addr, far_prefix, PREFIX) == 0 &&
		(ip->s6_addr[KIND] == FAR_V4 || ip->s6_addr[KIND] == FAR_V6);
}

struct in6_addr
endpoint_ip(const struct endpoint *e)
{
	struct in6_addr ip = {0};

	if (!endpoint_is_far(&e->ip))
		return e->ip;
	if (e->ip.s6_addr[KIND] == FAR_V6) {
		ip_parse(e->far, &ip);
		return ip;
	}
	ip.s6_addr[10] = ip.s6_addr[11] = 0xff;
	memcpy(&ip.s6_addr[12], &e->ip.s6_addr[12], 4);
	return ip;
}

const char *
endpoint_text(const struct endpoint *e, char to[ADDR_TEXT_MAX])
{
	const struct endpoint seen = {.ip = endpoint_ip(e), .port = e->port};
	struct addr a = endpoint_addr(&seen);

	return addr_text(&a, to);
}

const char *
endpoint_other_text(const struct endpoint *e, char to[ADDR_TEXT_MAX])
{
	const struct endpoint other = {.ip = e->other, .port = e->port};

	return endpoint_text(&other, to);
}

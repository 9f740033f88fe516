#include "model/service.h"

#include "base/hash.h"

#include <errno.h>
#include <string.h>

#include "model/check.h"

static const char *const policies[] = {
	[LB_DEFAULT] = "",
	[LB_ROUND_ROBIN] = "round-robin",
	[LB_RANDOM] = "random",
	[LB_LEAST_REQUEST] = "least-request",
	[LB_EWMA] = "ewma",
	[LB_CONSISTENT_HASH] = "consistent-hash",
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

/* The count is the one part of a service that changes; all else stays const for its holders. */
static struct service *
counted(const struct service *s)
{
	return (struct service *)(uintptr_t)s;
}

struct service *
service_ref(const struct service *s)
{
	atomic_fetch_add_explicit(&counted(s)->refs, 1, memory_order_relaxed);
	return counted(s);
}

void
service_unref(struct service **s)
{
	struct service *gone = *s;

	*s = NULL;
	if (gone != NULL && atomic_fetch_sub_explicit(&gone->refs, 1, memory_order_acq_rel) == 1)
		free(gone);
}

const struct service_port *
service_port_find(const struct service *s, uint16_t port, bool udp)
{
	for (size_t i = 0; i < s->n_ports; i++)
		if (s->ports[i].port == port && (s->ports[i].mode == PORT_UDP) == udp)
			return &s->ports[i];
	return NULL;
}

struct addr
endpoint_addr(const struct endpoint *e)
{
	struct addr a = {.len = sizeof a.in6};
	uint32_t v4;

	if (IN6_IS_ADDR_V4MAPPED(&e->ip)) {
		memcpy(&v4, &e->ip.s6_addr[12], sizeof v4);
		return addr_ipv4(ntohl(v4), e->port);
	}
	a.in6.sin6_family = AF_INET6;
	a.in6.sin6_port = htons(e->port);
	a.in6.sin6_addr = e->ip;
	return a;
}

/* --- addresses of other nodes' own ------------------------------------------------ */

static const uint8_t far_prefix[4] = {0xfd, 'e', 'd', 'w'};

struct in6_addr
endpoint_far(const char *node, uint32_t v4)
{
	struct in6_addr ip;
	uint64_t of_node = hash64(node, strlen(node), 0);
	uint32_t wire = htonl(v4);

	memcpy(&ip.s6_addr[0], far_prefix, sizeof far_prefix);
	memcpy(&ip.s6_addr[4], &of_node, sizeof of_node);
	memcpy(&ip.s6_addr[12], &wire, sizeof wire);
	return ip;
}

bool
endpoint_is_far(const struct in6_addr *ip, uint32_t *v4)
{
	uint32_t wire;

	memcpy(&wire, &ip->s6_addr[12], sizeof wire);
	if (v4 != NULL)
		*v4 = ntohl(wire);
	return memcmp(ip->s6_addr, far_prefix, sizeof far_prefix) == 0;
}

const char *
endpoint_text(const struct in6_addr *ip, uint16_t port, char to[ADDR_TEXT_MAX])
{
	const struct endpoint e = {.ip = *ip, .port = port};
	struct addr a = endpoint_addr(&e);
	uint32_t v4;

	if (endpoint_is_far(ip, &v4))
		a = addr_ipv4(v4, port);
	return addr_text(&a, to);
}

#include "iptables/maps/capture.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#include "base/core/log.h"
#include "base/core/sock.h"
#include "iptables/host/iface.h"
#include "iptables/maps/conntrack.h"

enum { DNS_PORT = 53, FLOWS_MOST = 100000 };

static int
by_number(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct in6_addr));
}

static bool
capture_holds(const struct in6_addr *sorted, size_t n, const struct in6_addr *ip)
{
	return n > 0 && bsearch(ip, sorted, n, sizeof *ip, by_number) != NULL;
}

uint64_t
capture_left_ms(const struct capture *c, uint64_t now_ms)
{
	uint64_t end = c->renewed_ms + CAPTURE_LIVES_MS;

	return c->n == 0 || now_ms >= end ? 0 : end - now_ms;
}

bool
capture_adopt(struct capture *c, const struct in6_addr *upstreams, size_t n, uint64_t now_ms)
{
	struct in6_addr sorted[CAPTURE_UPSTREAMS_MAX];
	size_t kept = 0;
	bool lapsed = c->n > 0 && capture_left_ms(c, now_ms) == 0, same;

	n = MIN(n, (size_t)CAPTURE_UPSTREAMS_MAX);
	if (n > 0)
		memcpy(sorted, upstreams, n * sizeof *sorted);
	qsort(sorted, n, sizeof *sorted, by_number);
	for (size_t i = 0; i < n; i++) {
		if (kept == 0 || !ip_same(&sorted[kept - 1], &sorted[i]))
			sorted[kept++] = sorted[i];
	}
	same = !lapsed && kept == c->n &&
		(kept == 0 || memcmp(sorted, c->upstreams, kept * sizeof *sorted) == 0);
	if (kept > 0)
		memcpy(c->upstreams, sorted, kept * sizeof *sorted);
	c->n = kept;
	c->renewed_ms = now_ms;
	return !same;
}

void
capture_put(const struct capture *c, struct batch *b, uint64_t now_ms)
{
	uint64_t left = capture_left_ms(c, now_ms);

	rules_capture(b, c->upstreams, left > 0 ? c->n : 0, left);
}

struct stale {
	const struct capture *capture;
	const struct in6_addr *addresses; /* NULL: any of this machine */
	uint16_t dns_port;
	struct buf locals; /* addresses of this machine */
};

static bool
comes_to_us(const struct stale *s, const struct conntrack_flow *f)
{
	if (f->server_port != s->dns_port || ip_same(&f->server, &f->dst))
		return false;
	return s->addresses == NULL
		? iface_addresses_have(&s->locals, &f->server)
		: ip_same(&f->server, &s->addresses[!IN6_IS_ADDR_V4MAPPED(&f->server)]);
}

static bool
is_stale(void *arg, const struct conntrack_flow *f)
{
	const struct stale *s = arg;
	const struct capture *c = s->capture;

	if (f->dport != DNS_PORT)
		return false;
	if (!capture_holds(c->upstreams, c->n, &f->dst))
		return comes_to_us(s, f);
	return !comes_to_us(s, f) && !capture_holds(c->upstreams, c->n, &f->src) &&
		!iface_addresses_have(&s->locals, &f->src);
}

void
capture_flows(struct capture *c, const struct in6_addr *addresses, uint16_t dns_port)
{
	static struct log_limit limit;
	struct stale s = {.capture = c, .addresses = addresses, .dns_port = dns_port};
	struct err err = {0};
	int n;

	n = conntrack_delete(IPPROTO_UDP, &s.locals, is_stale, &s, FLOWS_MOST, &err);
	if (n >= 0) {
		c->flows_ended += (uint64_t)n;
		return;
	}
	if (log_limit_pass(&limit, 6, "iptables"))
		log_warn("iptables",
			"a resolver that keeps its port stays with its upstream for a while "
			"error=\"%s\"",
			err.text);
}

void
capture_state(const struct capture *c, struct buf *out, uint64_t now_ms)
{
	uint64_t left = capture_left_ms(c, now_ms);

	buf_adds(out, "{\"upstreams\":[");
	for (size_t i = 0; left > 0 && i < c->n; i++) {
		char text[IP_TEXT_MAX];

		buf_printf(out, "%s\"%s\"", i > 0 ? "," : "", ip_text(&c->upstreams[i], text));
	}
	buf_printf(out, "],\"left_ms\":%llu,\"flowsEnded\":%llu}", (unsigned long long)left,
		(unsigned long long)c->flows_ended);
}

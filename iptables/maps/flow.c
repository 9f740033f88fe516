#include <netinet/in.h>

#include "base/core/sock.h"
#include "iptables/iptables.h"
#include "iptables/maps/conntrack.h"

static bool
flow_is_meant(void *arg, const struct conntrack_flow *flow)
{
	const struct iptables_flow *wanted = arg;

	return ip_same(&flow->dst, &wanted->to) && flow->dport == wanted->to_port &&
		flow->sport == wanted->from_port;
}

int
iptables_flow(struct iptables_flow *flow, struct err *err)
{
	struct conntrack_flow found;
	int rc = conntrack_find(
		flow->udp ? IPPROTO_UDP : IPPROTO_TCP, flow_is_meant, flow, &found, err);

	if (rc != 1)
		return rc;
	flow->server = found.server;
	flow->server_port = found.server_port;
	flow->replied = found.replied;
	return 1;
}

struct unanswered {
	const struct in6_addr *to;
	const struct address_list *own;
};

static bool
flow_is_unanswered(void *arg, const struct conntrack_flow *flow)
{
	const struct unanswered *wanted = arg;

	if (flow->replied || !ip_same(&flow->dst, wanted->to))
		return false;
	for (size_t i = 0; i < wanted->own->n; i++)
		if (ip_same(&flow->src, &wanted->own->list[i].ip))
			return false;
	return true;
}

int
iptables_unanswered(const struct in6_addr *to, const struct address_list *own,
	struct in6_addr *from, struct err *err)
{
	struct unanswered wanted = {to, own};
	struct conntrack_flow found;
	int rc = conntrack_find(IPPROTO_TCP, flow_is_unanswered, &wanted, &found, err);

	if (rc == 1)
		*from = found.src;
	return rc;
}

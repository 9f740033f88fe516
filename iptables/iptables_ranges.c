#include "base/core/log.h"
#include "iptables/host/route.h"
#include "iptables/iptables_private.h"
#include "iptables/maps/rules.h"

/*
 * The addresses of other nodes' pods. Where this machine has a route to them, somebody else (a
 * CNI) carries them, or they are its own pods'; such routes come and go, so they are read again and
 * again.
 */

bool
iptables_ranges_look(struct iptables *ipt)
{
	struct pod_ranges now = {0};
	struct err err;
	bool differs;

	for (size_t i = 0; i < ipt->pod_ranges.n; i++)
		pod_ranges_add(&now, ipt->pod_ranges.list[i].first, ipt->pod_ranges.list[i].last);
	pod_ranges_subtract(&now, ipt->subnet, ipt->subnet | ~ipt->mask);
	if (now.n > 0 && route_subtract(&now, &err) < 0) {
		log_limited(LOG_LEVEL_WARN, 2, "iptables",
			"pods' own addresses are not served error=\"%s\"", err.text);
		pod_ranges_fini(&now);
	}
	differs = !pod_ranges_same(&now, &ipt->pod_ranges_put);
	pod_ranges_fini(&ipt->pod_ranges_put);
	ipt->pod_ranges_put = now;
	return differs;
}

void
iptables_ranges_tend(struct iptables *ipt)
{
	struct transaction c;

	if ((ipt->pod_ranges.n == 0 && ipt->pod_ranges_put.n == 0) || !iptables_ranges_look(ipt))
		return;
	guard_begin(&ipt->guard, &c);
	rules_pod_ranges(&c.batch, &ipt->pod_ranges_put);
	if (guard_commit(&ipt->guard, &c) < 0)
		guard_repair_later(&ipt->guard);
	log_info("iptables", "addresses of other nodes' pods are served ranges=%zu of=%zu",
		ipt->pod_ranges_put.n, ipt->pod_ranges.n);
}

void
iptables_pod_ranges(struct iptables *ipt, const struct pod_ranges *ranges)
{
	pod_ranges_fini(&ipt->pod_ranges);
	for (size_t i = 0; i < ranges->n; i++)
		pod_ranges_add(&ipt->pod_ranges, ranges->list[i].first, ranges->list[i].last);
	if (ipt->guard.armed)
		iptables_ranges_tend(ipt);
}

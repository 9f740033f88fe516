#include "lb/proxy/outlier.h"

#include "base/core/log.h"
#include "lb/proxy/outlier_share.h"
#include "lb/proxy/pool.h"
#include "lb/proxy/trace.h"

static const char *
outlier_remedy(enum target_fault fault)
{
	switch (fault) {
	case TARGET_REFUSED:
		return "refuses connections: does its container run and listen there?";
	case TARGET_SILENT:
		return "does not answer on the network: is its node up, does a firewall drop?";
	case TARGET_ERRORS:
		return "answers with 5xx again and again (edgeway.io/outlier-5xx): see its "
		       "container's log";
	case TARGET_TLS:
		return "fails at TLS: see its certificate and the BackendTLSPolicy";
	case TARGET_RESET:
		break;
	}
	return "hangs up before it answers: see its container's log";
}

void
outlier_target(struct worker *w, struct target *t, enum target_fault fault, struct exchange *ex)
{
	char text[ADDR_TEXT_MAX];

	if (fault != TARGET_ERRORS) /* those are visible in the span's status */
		trace_note(ex, trace_fault(fault), t);
	if (!target_failed(t, fault, w->now_ms, worker_random(w)))
		return;
	count(&w->counters.ejections, 1);
	trace_note(ex, TRACE_EJECTED, t);
	if (ex != NULL)
		count(&ex->group->cell->ejections, 1);
	outlier_share_ejected(w, t);
	pool_clear(t);
	log_limited(LOG_LEVEL_WARN, 20, "lb",
		"an endpoint is left out for a while, it %s address=%s wait_ms=%llu",
		outlier_remedy(fault), target_text(t, t->at_other, text),
		(unsigned long long)(t->node.down_until_ms - w->now_ms));
}

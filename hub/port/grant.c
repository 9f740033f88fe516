#include "hub/port/grant.h"

#include <stdio.h>
#include <string.h>

#include "tunnel/tunnel.h"

enum {
	TARGET_TEXT_MAX = 640, /* a node, namespace and name, or a host and what is dialled there */
	AUDIT_PER_MINUTE = 60,
};

const char grant_rules_changed[] = "the rules of access have changed";

/* --- how many, how fast --------------------------------------------------------------------- */

/* True if there are no limits, too. */
static bool
grant_account(struct grant *g, const struct grants *of, enum quota_kind kind, const char *name)
{
	g->of = of;
	if (of->quota == NULL)
		return true;
	g->accounts[kind] = quota_take(of->quota, kind, name, loop_now_ms(of->loop));
	return g->accounts[kind] != NULL;
}

const char *
grant_take(struct grant *g, const struct grants *of, const struct caller *caller)
{
	char name[ACCESS_NAME_MAX + 8];

	grant_end(g);
	if (grant_account(g, of, QUOTA_CALLER, caller_name(caller, name)))
		return NULL;
	log_limited(LOG_LEVEL_WARN, 6, "ingress",
		"a caller has as many streams as ingress.limits.callerStreams allows caller=%s",
		name);
	return "this caller has as many streams as it may";
}

const char *
grant_node(struct grant *g, const struct grants *of, const char *node)
{
	if (*node == '\0' || grant_account(g, of, QUOTA_NODE, node))
		return NULL;
	log_limited(LOG_LEVEL_WARN, 6, "ingress",
		"a node has as many streams as ingress.limits.nodeStreams allows node=%s", node);
	return "the node has as many streams as it may";
}

struct rate *
grant_rate(const struct grant *g, enum quota_kind kind)
{
	return g->accounts[kind] != NULL ? quota_rate(g->accounts[kind]) : NULL;
}

size_t
grant_room(const struct grant *g)
{
	size_t n = SIZE_MAX;

	for (unsigned k = 0; k < QUOTA_KINDS && n > 0; k++)
		if (g->accounts[k] != NULL)
			n = MIN(n, rate_room(quota_rate(g->accounts[k]), loop_now_ms(g->of->loop)));
	return n;
}

void
grant_spend(const struct grant *g, size_t n)
{
	for (unsigned k = 0; k < QUOTA_KINDS; k++)
		if (g->accounts[k] != NULL)
			rate_spend(quota_rate(g->accounts[k]), n);
}

/* --- who may -------------------------------------------------------------------------------- */

unsigned
grant_open(struct grant *g, const struct caller *caller, const struct acl_target *where,
	const char *via, const char **reason)
{
	*reason = grant_rules_changed;
	if (!acl_check(g->of->access, caller, where))
		return 403;
	if ((*reason = grant_node(g, g->of, via)) != NULL)
		return 429;
	g->open = true;
	g->where = *where;
	g->where_text = xmalloc(strlen(where->node) + strlen(where->name) + 2);
	g->where.name = stpcpy(g->where_text, where->node) + 1;
	strcpy(g->where_text + strlen(where->node) + 1, where->name);
	/* the same text, routes.h */
	g->where.node = g->where.ns = g->where.host = g->where_text;
	return 200;
}

bool
grant_revoked(struct grant *g, const struct caller *caller)
{
	if (!g->open || acl_check(g->of->access, caller, &g->where))
		return false;
	g->open = false;
	return true;
}

void
grant_end(struct grant *g)
{
	for (unsigned k = 0; k < QUOTA_KINDS; k++)
		if (g->accounts[k] != NULL)
			quota_give(&g->accounts[k], loop_now_ms(g->of->loop));
	free(take_ptr(&g->where_text));
	g->open = false;
}

/* --- audit ---------------------------------------------------------------------------------- */

void
grant_audit(const struct grants *of, const struct audit *a)
{
	char caller[ACCESS_NAME_MAX + 8], target[TARGET_TEXT_MAX], why[CALLER_REASON_MAX];
	char datagrams[128] = "";
	const char *quote = a->peer != NULL ? "\"" : ""; /* another program's words */
	const struct dgram_tally *t = a->datagrams;

	if (log_level_of("audit") < LOG_LEVEL_INFO ||
		(a->limit != NULL && !log_limit_pass(a->limit, AUDIT_PER_MINUTE, "audit")))
		return;
	if (t != NULL)
		snprintf(datagrams, sizeof datagrams,
			" datagrams_sent=%llu datagrams_received=%llu dropped=%llu",
			(unsigned long long)t->to_stream.datagrams,
			(unsigned long long)t->from_stream.datagrams,
			(unsigned long long)dgram_dropped(t));
	log_info("audit",
		"door=%s%s%s%s%s caller=%s%s%s target=\"%s\" status=%u sent=%llu received=%llu%s "
		"ms=%llu end=\"%s\"",
		a->door, a->listen != NULL ? " listen=" : "", a->listen != NULL ? a->listen : "",
		a->peer != NULL ? " peer=" : "", a->peer != NULL ? a->peer : "", quote,
		log_clean(caller, sizeof caller, a->caller), quote,
		log_clean(target, sizeof target, a->target != NULL ? a->target : ""), a->status,
		(unsigned long long)(t != NULL ? t->to_stream.bytes : a->sent),
		(unsigned long long)(t != NULL ? t->from_stream.bytes : a->received), datagrams,
		(unsigned long long)(loop_now_ms(of->loop) - a->since_ms),
		log_clean(why, sizeof why, a->end));
}

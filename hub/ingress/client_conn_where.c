#include <string.h>

#include "base/core/log.h"
#include "hub/ingress/client_conn.h"

/* The target that a connection was admitted to, kept so that changed rules can be checked again. */

void
client_conn_forget_target(struct client_conn *v)
{
	free(take_ptr(&v->where_text[0]));
	free(take_ptr(&v->where_text[1]));
	v->let_in = false;
}

bool
client_conn_let_in(struct client_conn *v, const struct acl_target *where)
{
	client_conn_forget_target(v);
	if (!acl_check(v->ingress->config.access, &v->caller, where))
		return false;
	v->where = *where;
	v->where_text[0] = xstrdup(where->node); /* the same text as ns and host, routes.h */
	v->where_text[1] = xstrdup(where->name);
	v->where.node = v->where.ns = v->where.host = v->where_text[0];
	v->where.name = v->where_text[1];
	v->let_in = true;
	return true;
}

unsigned
ingress_recheck(struct ingress *i)
{
	struct client_conn *v, *next;
	unsigned cut = 0;

	for (v = TAILQ_FIRST(&i->visits); v != NULL; v = next) {
		next = TAILQ_NEXT(v, entry);
		if (!v->let_in || acl_check(i->config.access, &v->caller, &v->where))
			continue;
		cut++;
		client_conn_forget_target(v);
		client_conn_break(v, "the rules of access have changed");
	}
	return cut;
}

/* --- accounts ------------------------------------------------------------------------------- */

void
client_conn_settle(struct client_conn *v)
{
	uint64_t now = loop_now_ms(v->ingress->config.loop);

	quota_give(&v->caller_account, now);
	quota_give(&v->node_account, now);
}

bool
client_conn_account(struct client_conn *v)
{
	char name[ACCESS_NAME_MAX + 8];

	client_conn_settle(v);
	v->caller_account = quota_take(v->ingress->config.quota, QUOTA_CALLER,
		caller_name(&v->caller, name), loop_now_ms(v->ingress->config.loop));
	if (v->caller_account == NULL)
		log_limited(LOG_LEVEL_WARN, 6, "ingress",
			"a caller has as many streams as ingress.limits.callerStreams allows "
			"caller=%s",
			name);
	return v->caller_account != NULL;
}

bool
client_conn_account_node(struct client_conn *v, const char *node)
{
	if (*node == '\0')
		return true;
	v->node_account = quota_take(
		v->ingress->config.quota, QUOTA_NODE, node, loop_now_ms(v->ingress->config.loop));
	if (v->node_account == NULL)
		log_limited(LOG_LEVEL_WARN, 6, "ingress",
			"a node has as many streams as ingress.limits.nodeStreams allows node=%s",
			node);
	return v->node_account != NULL;
}

size_t
client_conn_allowed(struct client_conn *v)
{
	uint64_t now = loop_now_ms(v->ingress->config.loop);
	size_t n = SIZE_MAX;

	if (v->caller_account != NULL)
		n = rate_room(quota_rate(v->caller_account), now);
	if (v->node_account != NULL)
		n = MIN(n, rate_room(quota_rate(v->node_account), now));
	return n;
}

void
client_conn_spend(struct client_conn *v, size_t n)
{
	if (v->caller_account != NULL)
		rate_spend(quota_rate(v->caller_account), n);
	if (v->node_account != NULL)
		rate_spend(quota_rate(v->node_account), n);
}

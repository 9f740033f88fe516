#include <errno.h>
#include <string.h>

#include "hub/sync/node_session_private.h"
#include "model/health.h"

int
node_session_ask(struct node_session *s, const char *service, struct question *q)
{
	const char *slash = strchr(service, '/');
	auto_free char *resource = NULL;
	int rc;

	if (s->ended || slash == NULL)
		return s->ended ? -ENOTCONN : -EINVAL;
	if (!s->config.answers)
		return -EOPNOTSUPP;
	if ((rc = questions_add(&s->questions, q)) < 0)
		return rc;
	resource = xasprintf("%.*s/" HEALTH_KIND "/%s", (int)(slash - service), service, slash + 1);
	node_session_say_as(s,
		&(struct saying){
			.source = "edgeway-hub", .operation = OP_QUERY, .resource = resource},
		q->id);
	outbox_send(&s->outbox);
	return 0;
}

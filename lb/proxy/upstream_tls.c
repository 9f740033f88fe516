#include "lb/proxy/upstream_tls.h"

#include <errno.h>
#include <stdio.h>

#include "base/core/log.h"
#include "base/tls/tls_stream.h"
#include "model/backend_tls.h"

/* Servers may end a handshake that offers nothing they know: so HTTP/1 is offered as well, and who
 * wants HTTP/2 looks at what was chosen. */
static const char *const *
upstream_tls_offers(enum upstream_protocol protocol)
{
	static const char *const http1[] = {"http/1.1", NULL};
	static const char *const http2[] = {"h2", "http/1.1", NULL};

	return protocol == UPSTREAM_ANY ? NULL : protocol == UPSTREAM_HTTP2 ? http2 : http1;
}

static int
upstream_tls_start(struct worker *w, struct peer *p, const struct upstream_tls *how,
	char why[UPSTREAM_TLS_WHY])
{
	struct backend_tls *t = how->tls;
	struct err err = {0};
	struct tls_setup setup = {.ctx = backend_tls_ctx(t, &err),
		.host = t->host,
		.names = &t->names,
		.session = how->session,
		.offers = upstream_tls_offers(how->protocol)};

	if (setup.ctx == NULL) {
		snprintf(why, UPSTREAM_TLS_WHY, "%.250s", err.text);
		return -EPROTO;
	}
	if (peer_start_tls(p, &setup, w->loop, how->fn, how->arg) == 0)
		return 0;
	snprintf(why, UPSTREAM_TLS_WHY, "%s", peer_tls_why(p));
	return -EPROTO;
}

int
upstream_tls_shake(struct worker *w, struct peer *p, const struct upstream_tls *how,
	char why[UPSTREAM_TLS_WHY])
{
	int rc = p->tls == NULL ? upstream_tls_start(w, p, how, why) : 0;

	if (rc == 0) {
		rc = peer_shake(p);
		if (rc == -EPROTO)
			snprintf(why, UPSTREAM_TLS_WHY, "%s", peer_tls_why(p));
	}
	if (rc == 0) {
		count(&w->counters.tls_handshakes, 1);
		count(&w->counters.tls_resumed, peer_tls_resumed(p));
	} else if (rc == -EPROTO) {
		count(&w->counters.tls_failed, 1);
	}
	return rc;
}

void
upstream_tls_report(struct target *t, const char *why)
{
	char text[ADDR_TEXT_MAX];

	free(t->tls_why);
	t->tls_why = xstrdup(why);
	log_limited(LOG_LEVEL_WARN, 6, "lb",
		"TLS with an endpoint failed, nothing was sent to it: see its certificate, and the "
		"policy address=%s policy=%s name=%s reason=\"%s\"",
		target_text(t, t->at_other, text), t->tls->policy, t->tls->host, why);
}

int
upstream_tls_connected(
	struct worker *w, struct target *t, struct peer *p, const struct upstream_tls *how)
{
	char why[UPSTREAM_TLS_WHY];
	int rc = p->tls == NULL ? worker_connected(t, p->fd) : 0;

	if (rc < 0 || how->tls == NULL)
		return rc;
	rc = upstream_tls_shake(w, p, how, why);
	if (rc == 0 && t->tls_why != NULL)
		free(take_ptr(&t->tls_why));
	if (rc == -EPROTO)
		upstream_tls_report(t, why);
	return rc;
}

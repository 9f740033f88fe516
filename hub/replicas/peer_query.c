#include <errno.h>
#include <string.h>

#include "hub/port/route.h"
#include "hub/replicas/peers_private.h"
#include "model/health.h"

/* A question of another replica to a node that is connected here: one stream, one answer. */
struct asked {
	LIST_ENTRY(asked) link;
	struct peers *of;
	struct stream *stream;
	struct question question;
	struct timer *deadline;
	struct buf out; /* rest of the answer that must still be sent */
	bool told, ended;
};

static void
asked_free(struct asked *a, unsigned code)
{
	LIST_REMOVE(a, link);
	a->of->n_asked--;
	question_drop(&a->question);
	timer_free(&a->deadline);
	stream_close(&a->stream, code);
	buf_fini(&a->out);
	free(a);
}

static void
peer_query_refuse(struct asked *a, unsigned status, const char *why)
{
	stream_answer(a->stream, status, why);
	asked_free(a, STREAM_CANCELLED);
}

static void
peer_query_flush(struct asked *a)
{
	size_t n;

	while ((n = MIN(stream_room(a->stream), buf_len(&a->out))) > 0) {
		stream_write(a->stream, buf_at(&a->out), n);
		buf_consume(&a->out, n);
	}
	if (!a->told || buf_len(&a->out) > 0)
		return;
	if (!a->ended)
		stream_end(a->stream);
	a->ended = true;
	if (stream_far_ended(a->stream))
		asked_free(a, STREAM_DONE);
}

/* Passes on the JSON exactly as the node sent it, since the replica parses it like a node's
 * answer. */
static void
on_told(void *arg, int rc, const char *text, size_t len)
{
	struct asked *a = arg;

	if (rc == -ENOTCONN) {
		peer_query_refuse(a, 421, "the node has gone meanwhile");
	} else if (rc < 0) {
		peer_query_refuse(a, 502, text);
	} else if (len == 0 || len > HEALTH_BYTES_MAX) {
		peer_query_refuse(a, 502, "its agent does not answer as agents do");
	} else {
		stream_answer(a->stream, 200, "");
		buf_add(&a->out, text, len);
		a->told = true;
		peer_query_flush(a);
	}
}

static void
on_late(void *arg)
{
	struct asked *a = arg;

	if (a->told)
		asked_free(a, STREAM_CANCELLED);
	else
		peer_query_refuse(a, 504, "the node does not answer");
}

static void
on_readable(void *arg)
{
	struct asked *a = arg;
	const void *data;
	size_t n;

	while ((n = stream_peek(a->stream, &data)) > 0)
		stream_consume(a->stream, n); /* nothing is expected on this stream */
	peer_query_flush(a);
}

static void
on_writable(void *arg)
{
	peer_query_flush(arg);
}

static void
on_reset(void *arg, unsigned code)
{
	(void)code;
	asked_free(arg, STREAM_CANCELLED);
}

static const struct stream_events events = {
	.readable = on_readable, .writable = on_writable, .reset = on_reset};

static void
pass_on(struct asked *a, const char *node, const char *service)
{
	const struct peers_config *c = &a->of->config;
	int rc = c->ask(c->arg, node, service, &a->question);

	if (rc == -EOPNOTSUPP)
		peer_query_refuse(a, 501, "its agent is older, and does not tell");
	else if (rc == -EBUSY)
		peer_query_refuse(a, 503, "too many questions wait for the node");
	else if (rc < 0)
		peer_query_refuse(a, 421, "the node is not connected here");
}

unsigned
asked_begin(struct guest *g, struct stream *st, const struct stream_request *request,
	const char **reason)
{
	struct peers *p = g->of;
	const char *node = stream_field_of(request, "edgeway-node"),
		   *service = stream_field_of(request, "edgeway-service");
	struct asked *a;

	*reason = "edgeway-node and edgeway-service say no node and no service";
	if (!node_name_ok(node) || strchr(service, '/') == NULL)
		return 400;
	*reason = "this hub passes on too many questions";
	if (p->n_asked >= PEERS_ASKED_MOST)
		return 503;
	a = xcalloc(1, sizeof *a);
	a->of = p;
	a->stream = st;
	a->question.answered = on_told;
	a->question.arg = a;
	a->deadline = timer_new(p->config.loop, on_late, a);
	timer_start(a->deadline, PEERS_ASKED_MS, 0);
	buf_init(&a->out, BUF_UNLIMITED);
	LIST_INSERT_HEAD(&p->asked_here, a, link);
	p->n_asked++;
	stream_accept(st, &events, a);
	pass_on(a, node, service);
	return 0;
}

void
asked_free_all(struct peers *p)
{
	while (!LIST_EMPTY(&p->asked_here))
		asked_free(LIST_FIRST(&p->asked_here), STREAM_CANCELLED);
}

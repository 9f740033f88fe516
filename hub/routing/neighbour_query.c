#include "hub/routing/neighbour_query.h"

#include <limits.h>
#include <string.h>
#include <sys/queue.h>

#include "base/core/log.h"

/* The query of one node, kept until that node may be queried again. */
struct neighbour_query {
	TAILQ_ENTRY(neighbour_query) link;
	struct neighbour_queries *of;
	char *node;
	struct stream *stream; /* NULL: it waits */
	struct buf in, out;
	struct timer *timer; /* for the stream's deadline, or for the pause */
	bool again; /* another query is wanted */
};

struct neighbour_queries {
	struct inquiries_config config;
	struct neighbours *neighbours;
	struct timer *look;
	TAILQ_HEAD(, neighbour_query) all;
};

static void
neighbour_query_free(struct neighbour_query *i)
{
	TAILQ_REMOVE(&i->of->all, i, link);
	stream_close(&i->stream, STREAM_CANCELLED);
	timer_free(&i->timer);
	buf_fini(&i->in);
	buf_fini(&i->out);
	free(i->node);
	free(i);
}

/* The next query comes after a pause, whoever wants it. */
static void
neighbour_query_rest(struct neighbour_query *i, unsigned code)
{
	stream_close(&i->stream, code);
	buf_consume(&i->in, buf_len(&i->in));
	buf_consume(&i->out, buf_len(&i->out));
	timer_start(i->timer, NEIGHBOUR_QUERY_PAUSE_MS, 0);
}

static void
on_answered(void *arg, unsigned status, const char *reason)
{
	struct neighbour_query *i = arg;

	if (status == 200)
		return;
	log_limited(LOG_LEVEL_WARN, 6, "hub",
		"a node does not tell what it reaches node=%s status=%u reason=\"%s\"", i->node,
		status, reason);
	neighbours_forget(i->of->neighbours, i->node);
	neighbour_query_rest(i, STREAM_DONE);
}

static void
neighbour_query_say(struct neighbour_query *i)
{
	size_t n = MIN(stream_room(i->stream), buf_len(&i->out));

	stream_write(i->stream, buf_at(&i->out), n);
	buf_consume(&i->out, n);
	if (buf_len(&i->out) > 0)
		return;
	stream_end(i->stream);
	neighbour_query_rest(i, STREAM_DONE);
}

static void
on_readable(void *arg)
{
	struct neighbour_query *i = arg;
	const void *bytes;
	size_t n;

	while ((n = stream_peek(i->stream, &bytes)) > 0) {
		if (buf_add(&i->in, bytes, n) < 0) {
			log_limited(LOG_LEVEL_WARN, 6, "hub",
				"a node tells of more neighbours than may be node=%s bytes=%d",
				i->node, REACHABLE_NETS_TEXT_MAX);
			neighbour_query_rest(i, STREAM_CANCELLED);
			return;
		}
		stream_consume(i->stream, n);
	}
	if (!stream_eof(i->stream))
		return;
	neighbours_declare(i->of->neighbours, i->node, buf_str(&i->in), buf_len(&i->in), &i->out);
	neighbour_query_say(i);
}

static void
on_writable(void *arg)
{
	struct neighbour_query *i = arg;

	if (stream_eof(i->stream) && buf_len(&i->out) > 0)
		neighbour_query_say(i);
}

static void
on_reset(void *arg, unsigned code)
{
	struct neighbour_query *i = arg;

	i->again |= code != STREAM_LOST;
	neighbour_query_rest(i, code);
}

static const struct stream_events stream_events = {on_answered, on_readable, on_writable, on_reset};

static void
neighbour_query_ask(struct neighbour_query *i)
{
	const struct stream_field field = {REACHABILITY_ASK, REACHABILITY_REACH};
	const struct stream_request request = {
		.authority = REACHABILITY_AUTHORITY, .fields = &field, .n_fields = 1};

	i->again = false;
	if (tunnels_open(i->of->config.tunnels, i->node, &request, &stream_events, i, &i->stream) ==
		0)
		timer_start(i->timer, NEIGHBOUR_QUERY_MS, 0);
	else
		neighbour_query_rest(i, STREAM_CANCELLED);
}

static void
on_timer(void *arg)
{
	struct neighbour_query *i = arg;

	if (i->stream != NULL) {
		i->again = true;
		neighbour_query_rest(i, STREAM_CANCELLED);
	} else if (i->again) {
		neighbour_query_ask(i);
	} else {
		neighbour_query_free(i);
	}
}

static void
neighbour_query_want(void *arg, const char *node)
{
	struct neighbour_queries *q = arg;
	struct neighbour_query *i;

	TAILQ_FOREACH(i, &q->all, link) {
		if (strcmp(i->node, node) == 0) {
			i->again = true;
			return;
		}
	}
	i = xcalloc(1, sizeof *i);
	i->of = q;
	i->node = xstrdup(node);
	i->timer = timer_new(q->config.loop, on_timer, i);
	buf_init(&i->in, REACHABLE_NETS_TEXT_MAX);
	/* one line for each of at most REACHABLE_NETS_MAX entries */
	buf_init(&i->out, BUF_UNLIMITED);
	TAILQ_INSERT_HEAD(&q->all, i, link);
	neighbour_query_ask(i);
}

static void
on_look(void *arg)
{
	struct neighbour_queries *q = arg;

	neighbours_outdated(q->neighbours, neighbour_query_want, q);
}

void
neighbour_query_news(struct neighbour_queries *q, const char *node, enum tunnel_news news)
{
	switch (news) {
	case TUNNEL_CAME:
		neighbours_own(q->neighbours, node);
		if (neighbours_declared(q->neighbours, node))
			neighbour_query_want(
				q, node); /* it may be a different agent, which announces nothing */
		break;
	case TUNNEL_ASKS:
		neighbour_query_want(q, node);
		break;
	case TUNNEL_GONE:
		neighbours_forget(q->neighbours, node);
		break;
	}
}

/* --- life ----------------------------------------------------------------------------------- */

static bool
neighbour_query_tunnelled(void *arg, const char *node)
{
	const struct neighbour_queries *q = arg;

	return q->config.tunnelled(q->config.arg, node);
}

static unsigned
streams_of(void *arg, const char *node)
{
	const struct neighbour_queries *q = arg;

	return tunnels_have(q->config.tunnels, node) ? tunnels_streams(q->config.tunnels, node)
						     : UINT_MAX;
}

static void
on_changed(void *arg, const char *node)
{
	const struct neighbour_queries *q = arg;

	if (q->config.changed != NULL)
		q->config.changed(q->config.arg, node);
}

/* An address that the hub itself dials, whatever nodes announce. */
static bool
neighbour_query_ours(void *arg, const struct in6_addr *ip)
{
	const struct neighbour_queries *q = arg;

	return addresses_on_net(q->config.addresses, ip) || acl_names_cloud(q->config.access, ip);
}

struct neighbour_queries *
inquiries_new(const struct inquiries_config *config)
{
	struct neighbour_queries *q = xcalloc(1, sizeof *q);

	q->config = *config;
	q->neighbours = neighbours_new(&(struct neighbours_config){
		.loop = config->loop,
		.cluster = config->cluster,
		.tunnelled = neighbour_query_tunnelled,
		.streams = streams_of,
		.changed = on_changed,
		.ours = neighbour_query_ours,
		.sites_only = config->sites_only,
		.arg = q,
	});
	q->look = timer_new(config->loop, on_look, q);
	TAILQ_INIT(&q->all);
	timer_start(q->look, NEIGHBOUR_QUERY_LOOK_MS, NEIGHBOUR_QUERY_LOOK_MS);
	return q;
}

struct neighbours *
inquiries_neighbours(const struct neighbour_queries *q)
{
	return q->neighbours;
}

void
inquiries_free(struct neighbour_queries **out)
{
	struct neighbour_queries *q = take_ptr(out);
	struct neighbour_query *i;

	if (q == NULL)
		return;
	while ((i = TAILQ_FIRST(&q->all)) != NULL)
		neighbour_query_free(i);
	timer_free(&q->look);
	neighbours_free(&q->neighbours);
	free(q);
}

#include "hub/web_probe.h"

#include <errno.h>
#include <string.h>
#include <sys/queue.h>

#include "model/json.h"

struct probe {
	TAILQ_ENTRY(probe) link;
	struct probes *of;
	char *key, *node, *service;
	struct reaching *reaching; /* one of these two while it is asked */
	struct stream *stream;
	struct timer *timer;
	struct buf in;
	char *said, *why; /* NULL: not known */
	uint64_t asked_ms, wanted_ms;
	bool asking;
};

struct probes {
	struct loop *loop;
	struct reach *reach;
	TAILQ_HEAD(, probe) all;
	size_t n, n_asking;
};

/* --- asking ------------------------------------------------------------------------------- */

static void
stop_asking(struct probe *p, unsigned code)
{
	p->of->n_asking -= p->asking;
	p->asking = false;
	reach_cancel(&p->reaching);
	stream_close(&p->stream, code);
	timer_cancel(p->timer);
	buf_consume(&p->in, buf_len(&p->in));
	buf_release(&p->in);
}

static void
probe_free(struct probe *p)
{
	stop_asking(p, STREAM_CANCELLED);
	TAILQ_REMOVE(&p->of->all, p, link);
	p->of->n--;
	timer_free(&p->timer);
	buf_fini(&p->in);
	free(p->key);
	free(p->node);
	free(p->service);
	free(p->said);
	free(p->why);
	free(p);
}

/* said, why: one of them is NULL. */
static void
learn(struct probe *p, char *said, const char *why)
{
	free(p->said);
	free(p->why);
	p->said = said;
	p->why = why != NULL ? xstrdup(why) : NULL;
	stop_asking(p, said != NULL ? STREAM_DONE : STREAM_CANCELLED);
}

static void
on_late(void *arg)
{
	learn(arg, NULL, "no answer in time");
}

static void
on_readable(void *arg)
{
	struct probe *p = arg;
	auto_buf struct buf said;
	const char *why;
	const void *bytes;
	size_t n;

	buf_init(&said, BUF_UNLIMITED);
	while ((n = stream_peek(p->stream, &bytes)) > 0) {
		if (buf_add(&p->in, bytes, n) < 0) {
			learn(p, NULL, "its agent says more than is listened to");
			return;
		}
		stream_consume(p->stream, n);
	}
	if (!stream_eof(p->stream))
		return;
	if (probe_read(buf_at(&p->in), buf_len(&p->in), &said, &why) == 0)
		learn(p, buf_take_str(&said), NULL);
	else
		learn(p, NULL, why);
}

static void
on_reset(void *arg, unsigned code)
{
	(void)code;
	learn(arg, NULL, "its tunnel ended meanwhile");
}

static void
on_answered(void *arg, unsigned status, const char *reason)
{
	(void)arg; /* reach has waited for it */
	(void)status;
	(void)reason;
}

static void
on_writable(void *arg)
{
	(void)arg; /* the request went whole */
}

static void
on_reached(void *arg, const struct reach_answer *answer)
{
	static const struct stream_events events = {
		on_answered, on_readable, on_writable, on_reset};
	struct probe *p = arg;
	auto_free char *why = NULL, *request = NULL;

	p->reaching = NULL;
	if (answer->status != 200) {
		why = xasprintf("%u: %s", answer->status, answer->reason);
		learn(p, NULL, why);
		return;
	}
	/* The names are of objects that the hub has: nothing in them is to be encoded. */
	request = xasprintf("GET /debug/endpoints?service=%s HTTP/1.1\r\nHost: %s\r\n"
			    "Connection: close\r\n\r\n",
		p->service, p->node);
	p->stream = answer->stream;
	stream_use(p->stream, &events, p);
	if (stream_room(p->stream) < strlen(request)) {
		learn(p, NULL, "its tunnel is full");
		return;
	}
	stream_write(p->stream, request, strlen(request));
	on_readable(p);
}

static void
ask_node(struct probe *p, const struct probe_ask *ask)
{
	const struct reach_request request = {
		.caller = ask->caller, .host = p->node, .port = PROBE_PORT};

	p->asking = true;
	p->of->n_asking++;
	p->asked_ms = loop_now_ms(p->of->loop);
	timer_start(p->timer, PROBE_MS, 0);
	p->reaching = reach_start(p->of->reach, &request, on_reached, p);
}

/* --- what is known -------------------------------------------------------------------------- */

/* Makes room: what nobody has looked at lately goes. False: there is none. */
static bool
make_room(struct probes *all, uint64_t now)
{
	struct probe *p, *next;

	for (p = TAILQ_FIRST(&all->all); p != NULL; p = next) {
		next = TAILQ_NEXT(p, link);
		if (now - p->wanted_ms >= PROBE_KEEP_MS)
			probe_free(p);
	}
	return all->n < PROBES_KEPT;
}

static struct probe *
find(struct probes *all, const struct probe_ask *ask)
{
	char caller[ACCESS_NAME_MAX + 8];
	auto_free char *key =
		xasprintf("%s\n%s\n%s", caller_name(ask->caller, caller), ask->node, ask->service);
	struct probe *p;

	TAILQ_FOREACH(p, &all->all, link)
	{
		if (strcmp(p->key, key) == 0)
			return p;
	}
	if (!make_room(all, loop_now_ms(all->loop)))
		return NULL;
	p = xcalloc(1, sizeof *p);
	p->of = all;
	p->key = take_ptr(&key);
	p->node = xstrdup(ask->node);
	p->service = xstrdup(ask->service);
	p->timer = timer_new(all->loop, on_late, p);
	buf_init(&p->in, PROBE_BYTES);
	TAILQ_INSERT_TAIL(&all->all, p, link);
	all->n++;
	return p;
}

void
probes_tell(struct probes *all, const struct probe_ask *ask, struct buf *out)
{
	uint64_t now = loop_now_ms(all->loop);
	struct probe *p = find(all, ask);

	if (p == NULL) {
		buf_adds(out, "null");
		return;
	}
	p->wanted_ms = now;
	if (!p->asking && all->n_asking < PROBES_AT_ONCE &&
		(p->asked_ms == 0 || now - p->asked_ms >= PROBE_FRESH_MS))
		ask_node(p, ask);
	if (p->said != NULL) {
		buf_printf(out, "{\"said\":%s}", p->said);
	} else if (p->why != NULL) {
		buf_adds(out, "{\"why\":");
		json_add_text(out, p->why);
		buf_adds(out, "}");
	} else {
		buf_adds(out, "null");
	}
}

/* --- life ------------------------------------------------------------------------------------- */

struct probes *
probes_new(struct loop *loop, struct reach *reach)
{
	struct probes *all = xcalloc(1, sizeof *all);

	all->loop = loop;
	all->reach = reach;
	TAILQ_INIT(&all->all);
	return all;
}

void
probes_forget(struct probes *all)
{
	while (!TAILQ_EMPTY(&all->all))
		probe_free(TAILQ_FIRST(&all->all));
}

void
probes_free(struct probes **out)
{
	struct probes *all = take_ptr(out);

	if (all == NULL)
		return;
	probes_forget(all);
	free(all);
}

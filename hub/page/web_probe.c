#include "hub/page/web_probe.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/core/hash.h"
#include "model/health.h"
#include "model/json.h"

static const char no_agent[] = "its agent does not answer as agents do",
		  older[] = "its agent is older, and does not tell",
		  late[] = "it does not answer in time", away[] = "it is connected to no hub";

enum result { TOLD, REFUSED, OLDER, LATE, AWAY, RESULTS };

struct probe {
	TAILQ_ENTRY(probe) link;
	struct probes *of;
	char *node, *service;
	uint64_t hash; /* of node and service */
	struct question question; /* the node's question, or the replica's stream, while asking */
	struct stream *stream;
	size_t turn; /* counts the replicas asked */
	struct timer *timer;
	struct buf in;
	char *said, *why; /* members of a JSON object, or a sentence; NULL: not known */
	char asked_at[PEER_NAME_TEXT], at[PEER_NAME_TEXT]; /* "": here */
	char older[PEER_NAME_TEXT]; /* a replica that does not ask the node for others; "": none */
	uint64_t asked_ms, away_ms, wanted_ms;
	bool asking;
};

struct probes {
	struct probes_config config;
	TAILQ_HEAD(, probe) all;
	size_t n, n_asking;
	uint64_t results[RESULTS];
};

/* --- results -------------------------------------------------------------------------------- */

static void
stop_asking(struct probe *p, unsigned code)
{
	p->of->n_asking -= p->asking;
	p->asking = false;
	question_drop(&p->question);
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
	free(p->node);
	free(p->service);
	free(p->said);
	free(p->why);
	free(p);
}

/* Takes over `said`; one of said and why is NULL. */
static void
web_probe_learn(struct probe *p, enum result result, char *said, const char *why)
{
	free(p->said);
	free(p->why);
	p->said = said;
	p->why = why != NULL ? xstrdup(why) : NULL;
	memcpy(p->at, p->asked_at, sizeof p->at);
	p->of->results[result]++;
	p->away_ms = 0;
	stop_asking(p, said != NULL ? STREAM_DONE : STREAM_CANCELLED);
}

static void
web_probe_fail(struct probe *p, enum result result, const char *why)
{
	web_probe_learn(p, result, NULL, why);
}

static void
on_late(void *arg)
{
	web_probe_fail(arg, LATE, late);
}

static void
web_probe_take(struct probe *p, const char *json, size_t len)
{
	struct health_said said;
	auto_buf struct buf text;

	buf_init(&text, BUF_UNLIMITED);
	if (health_read(&said, json, len, NULL) == 0) {
		buf_printf(&text, "\"known\":%s,\"more\":%u,\"said\":%s",
			said.known ? "true" : "false", said.more, buf_str(&said.list));
		web_probe_learn(p, TOLD, buf_take_str(&text), NULL);
	} else {
		web_probe_fail(p, REFUSED, no_agent);
	}
	health_fini(&said);
}

/* --- asking replicas ------------------------------------------------------------------------ */

static void ask_replicas(struct probe *p);

static void
on_answered(void *arg, unsigned status, const char *reason)
{
	struct probe *p = arg;

	if (status == 200)
		return;
	if (status == 421 || status == 508) {
		/* an older version, which takes the question for a forwarded stream */
		if (status == 508)
			memcpy(p->older, p->asked_at, sizeof p->older);
		stream_close(&p->stream, STREAM_CANCELLED);
		ask_replicas(p);
	} else if (status == 501) {
		web_probe_fail(p, OLDER, older);
	} else if (status == 504) {
		web_probe_fail(p, LATE, late);
	} else {
		web_probe_fail(p, REFUSED, *reason != '\0' ? reason : no_agent);
	}
}

static void
on_readable(void *arg)
{
	struct probe *p = arg;
	const void *bytes;
	size_t n;

	while ((n = stream_peek(p->stream, &bytes)) > 0) {
		if (buf_add(&p->in, bytes, n) < 0) {
			web_probe_fail(p, REFUSED, no_agent);
			return;
		}
		stream_consume(p->stream, n);
	}
	if (stream_eof(p->stream))
		web_probe_take(p, buf_at(&p->in), buf_len(&p->in));
}

static void
on_reset(void *arg, unsigned code)
{
	struct probe *p = arg;

	(void)code;
	stream_close(&p->stream, STREAM_CANCELLED);
	buf_consume(&p->in, buf_len(&p->in));
	ask_replicas(p);
}

static void
be_away(struct probe *p)
{
	auto_free char *why = NULL;

	if (p->older[0] != '\0')
		why = xasprintf("%s; or to %s, which is older and does not ask it", away, p->older);
	p->asked_at[0] = '\0';
	web_probe_fail(p, AWAY, why != NULL ? why : away);
	p->away_ms = loop_now_ms(p->of->config.loop);
}

/* Asks the next replica; skips those that cannot be asked. */
static void
ask_replicas(struct probe *p)
{
	static const struct stream_events events = {
		.answered = on_answered, .readable = on_readable, .reset = on_reset};
	struct peers_ask ask = {.node = p->node, .events = &events, .to = p};
	int rc;

	do
		rc = peers_ask_health(p->of->config.peers, &ask, p->service, p->turn++);
	while (rc < 0 && rc != -ENOENT);
	if (rc < 0) {
		be_away(p);
		return;
	}
	snprintf(p->asked_at, sizeof p->asked_at, "%s", ask.at);
	p->stream = ask.stream;
	stream_end(p->stream);
}

/* --- asking here ---------------------------------------------------------------------------- */

static void
on_told(void *arg, int rc, const char *text, size_t len)
{
	struct probe *p = arg;

	if (rc == 0)
		web_probe_take(p, text, len);
	else if (rc == -ENOTCONN)
		ask_replicas(p); /* it may have moved to another replica */
	else
		web_probe_fail(p, REFUSED, text);
}

static void
ask_node(struct probe *p)
{
	struct probes *all = p->of;
	uint64_t now = loop_now_ms(all->config.loop);
	int rc;

	p->asking = true;
	all->n_asking++;
	p->asked_ms = now;
	p->asked_at[0] = p->older[0] = '\0';
	p->turn = 0;
	timer_start(p->timer, PROBE_MS, 0);
	rc = all->config.ask(all->config.arg, p->node, p->service, &p->question);
	if (rc == -EOPNOTSUPP)
		web_probe_fail(p, OLDER, older);
	else if (rc == -EBUSY)
		web_probe_fail(p, REFUSED, "too many questions wait for it");
	else if (rc < 0 && p->away_ms != 0 && now - p->away_ms < PROBE_AWAY_MS)
		stop_asking(p, STREAM_CANCELLED); /* the last result stays */
	else if (rc < 0)
		ask_replicas(p);
}

/* --- the cache ------------------------------------------------------------------------------ */

/* Makes room: drops an answer that nobody has viewed lately. False: there is none. */
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
web_probe_find(struct probes *all, const char *node, const char *service)
{
	uint64_t hash = hash64(node, strlen(node), hash64(service, strlen(service), 0));
	struct probe *p;

	TAILQ_FOREACH(p, &all->all, link) {
		if (p->hash == hash && strcmp(p->node, node) == 0 &&
			strcmp(p->service, service) == 0)
			return p;
	}
	if (!make_room(all, loop_now_ms(all->config.loop)))
		return NULL;
	p = xcalloc(1, sizeof *p);
	p->of = all;
	p->hash = hash;
	p->node = xstrdup(node);
	p->service = xstrdup(service);
	p->question.answered = on_told;
	p->question.arg = p;
	p->timer = timer_new(all->config.loop, on_late, p);
	buf_init(&p->in, HEALTH_BYTES_MAX);
	TAILQ_INSERT_TAIL(&all->all, p, link);
	all->n++;
	return p;
}

void
probes_tell(struct probes *all, const char *node, const char *service, struct buf *out)
{
	uint64_t now = loop_now_ms(all->config.loop);
	struct probe *p = web_probe_find(all, node, service);

	if (p == NULL) {
		buf_adds(out, "null");
		return;
	}
	p->wanted_ms = now;
	if (!p->asking && all->n_asking < PROBES_AT_ONCE &&
		(p->asked_ms == 0 || now - p->asked_ms >= PROBE_FRESH_MS))
		ask_node(p);
	if (p->said == NULL && p->why == NULL) {
		buf_adds(out, "null");
		return;
	}
	buf_adds(out, "{\"at\":");
	json_add_text(out, p->at);
	if (p->said != NULL) {
		buf_printf(out, ",%s}", p->said);
		return;
	}
	buf_adds(out, ",\"why\":");
	json_add_text(out, p->why);
	buf_adds(out, "}");
}

void
probes_metrics(const struct probes *all, struct metrics *m)
{
	static const char *const labels[RESULTS] = {
		[TOLD] = "result=\"told\"",
		[REFUSED] = "result=\"refused\"",
		[OLDER] = "result=\"older\"",
		[LATE] = "result=\"late\"",
		[AWAY] = "result=\"away\"",
	};

	for (int i = 0; i < RESULTS; i++)
		metric_counter(m, "edgeway_web_questions_total",
			"Nodes asked how a service's endpoints do there, for those who look at it.",
			labels[i], all->results[i]);
}

/* --- life cycle ----------------------------------------------------------------------------- */

struct probes *
probes_new(const struct probes_config *config)
{
	struct probes *all = xcalloc(1, sizeof *all);

	all->config = *config;
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

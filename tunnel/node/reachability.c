#include "tunnel/node/reachability.h"

#include <string.h>

#include "base/core/log.h"
#include "model/json.h"

struct reachability {
	struct loop *loop;
	struct reachable_nets *vicinity;
	char *verdicts[REACHABLE_NETS_MAX]; /* "" accepted; NULL: no verdict yet */
	struct stream *stream; /* the hub's query; NULL: none now */
	struct timer *deadline;
	struct buf out, in; /* what is still to be sent, and what has come */
};

static void
forget_verdicts(struct reachability *d)
{
	for (size_t i = 0; i < REACHABLE_NETS_MAX; i++)
		free(take_ptr(&d->verdicts[i]));
}

static void
hang_up(struct reachability *d, unsigned code)
{
	timer_cancel(d->deadline);
	stream_close(&d->stream, code);
	buf_consume(&d->out, buf_len(&d->out));
	buf_consume(&d->in, buf_len(&d->in));
}

static void
on_deadline(void *arg)
{
	hang_up(arg, STREAM_CANCELLED);
}

struct reachability *
reachability_new(struct loop *loop)
{
	struct reachability *d = xcalloc(1, sizeof *d);

	d->loop = loop;
	d->vicinity = xcalloc(1, sizeof *d->vicinity);
	d->deadline = timer_new(loop, on_deadline, d);
	buf_init(&d->out, REACHABLE_NETS_TEXT_MAX);
	buf_init(&d->in, REACHABILITY_ANSWER_MAX);
	return d;
}

void
reachability_free(struct reachability **out)
{
	struct reachability *d = take_ptr(out);

	if (d == NULL)
		return;
	hang_up(d, STREAM_CANCELLED);
	timer_free(&d->deadline);
	forget_verdicts(d);
	reachable_nets_free(&d->vicinity);
	buf_fini(&d->out);
	buf_fini(&d->in);
	free(d);
}

void
reachability_use(struct reachability *d, struct reachable_nets **vicinity)
{
	hang_up(d, STREAM_CANCELLED);
	forget_verdicts(d);
	reachable_nets_free(&d->vicinity);
	d->vicinity = take_ptr(vicinity);
}

const struct reachable_nets *
reachability_vicinity(const struct reachability *d)
{
	return d->vicinity;
}

/* --- the hub's verdicts --------------------------------------------------------------------- */

static void
reachability_hear(struct reachability *d, size_t i, const char *line, size_t len)
{
	char clean[STREAM_REASON_MAX];
	auto_free char *text = xstrndup(line, MIN(len, sizeof clean - 1));
	bool fine = strcmp(text, REACHABILITY_OK) == 0;

	log_clean(clean, sizeof clean, fine ? "" : *text != '\0' ? text : "refused");
	if (d->verdicts[i] == NULL || strcmp(d->verdicts[i], clean) != 0) {
		if (fine)
			log_limited(LOG_LEVEL_INFO, 20, "tunnel",
				"the hub may reach through this node entry=%s",
				d->vicinity->list[i].text);
		else
			log_limited(LOG_LEVEL_WARN, 20, "tunnel",
				"the hub does not take an entry of tunnel.reach entry=%s "
				"reason=\"%s\"",
				d->vicinity->list[i].text, clean);
	}
	free(d->verdicts[i]);
	d->verdicts[i] = xstrdup(clean);
}

static void
read_verdicts(struct reachability *d)
{
	const char *at = buf_str(&d->in), *end;
	size_t n = 0;

	for (; n < d->vicinity->n && (end = strchr(at, '\n')) != NULL; at = end + 1)
		reachability_hear(d, n++, at, (size_t)(end - at));
	if (n < d->vicinity->n || *at != '\0')
		log_limited(LOG_LEVEL_WARN, 6, "tunnel",
			"the hub's answer to tunnel.reach is not one line for each entry");
}

static void
on_readable(void *arg)
{
	struct reachability *d = arg;
	const void *bytes;
	size_t n;

	while ((n = stream_peek(d->stream, &bytes)) > 0) {
		if (buf_add(&d->in, bytes, n) < 0) {
			hang_up(d, STREAM_CANCELLED);
			return;
		}
		stream_consume(d->stream, n);
	}
	if (!stream_eof(d->stream))
		return;
	read_verdicts(d);
	hang_up(d, STREAM_DONE);
}

static void
on_writable(void *arg)
{
	struct reachability *d = arg;
	size_t n = MIN(stream_room(d->stream), buf_len(&d->out));

	stream_write(d->stream, buf_at(&d->out), n);
	buf_consume(&d->out, n);
	if (buf_len(&d->out) == 0)
		stream_end(d->stream);
}

static void
on_reset(void *arg, unsigned code)
{
	hang_up(arg, code);
}

static const struct stream_events stream_events = {
	.readable = on_readable, .writable = on_writable, .reset = on_reset};

unsigned
reachability_opened(struct reachability *d, struct stream *st, const struct stream_request *request,
	const char **reason)
{
	for (size_t i = 0; i < request->n_fields; i++)
		if (strcmp(request->fields[i].name, REACHABILITY_ASK) == 0 &&
			strcmp(request->fields[i].value, REACHABILITY_REACH) != 0) {
			*reason = "this agent does not know the question";
			return 404;
		}
	hang_up(d, STREAM_CANCELLED);
	d->stream = st;
	reachable_nets_write(d->vicinity, &d->out);
	timer_start(d->deadline, REACHABILITY_MS, 0);
	stream_accept(st, &stream_events, d);
	stream_answer(st, 200, "");
	on_writable(d);
	return 0;
}

/* --- state and metrics ---------------------------------------------------------------------- */

static const char *
verdict_name(const char *verdict)
{
	if (verdict == NULL)
		return "has not answered";
	return *verdict == '\0' ? "accepted" : "refused";
}

void
reachability_metrics(const struct reachability *d, struct metrics *m)
{
	static const char *const states[] = {"accepted", "refused", "has not answered"};
	char label[64];

	for (size_t k = 0; k < ARRAY_LEN(states); k++) {
		size_t n = 0;

		for (size_t i = 0; i < d->vicinity->n; i++)
			n += strcmp(verdict_name(d->verdicts[i]), states[k]) == 0;
		metric_gauge(m, "edgeway_tunnel_reach_entries",
			"Entries of tunnel.reach by what the hub says to them.",
			metric_label(label, sizeof label, "hub", states[k]), (double)n);
	}
}

void
reachability_state(const struct reachability *d, struct buf *out)
{
	buf_adds(out, "[");
	for (size_t i = 0; i < d->vicinity->n; i++) {
		buf_printf(out, "%s{\"entry\":", i > 0 ? "," : "");
		json_add_text(out, d->vicinity->list[i].text);
		buf_printf(out, ",\"hub\":\"%s\",\"problem\":", verdict_name(d->verdicts[i]));
		json_add_text(out, d->verdicts[i] != NULL ? d->verdicts[i] : "");
		buf_adds(out, "}");
	}
	buf_adds(out, "]");
}

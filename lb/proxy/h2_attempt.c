/* Which endpoint is asked next. A request is sent again if the endpoint cannot have processed it,
 * or if it may be executed twice; and only while all of its body that was sent is kept. */
#include "lb/proxy/h2_stream_private.h"

#include "lb/proxy/access_log.h"
#include "lb/proxy/exchange.h"
#include "lb/proxy/h2_upstream.h"
#include "lb/proxy/pick.h"
#include "lb/proxy/routing.h"

bool
h2_stream_may_retry(const struct h2_stream *st, enum h2_lost how)
{
	const struct exchange *ex = st->ex;

	if (st->responded || !st->kept || pick_tries(ex) < 2)
		return false;
	return how == H2_LOST_UNPROCESSED || how == H2_LOST_HTTP1 ||
		(ex->idempotent && how != H2_LOST_RESET && how != H2_LOST_MALFORMED);
}

/* Looks for an endpoint again; the request is sent from its beginning. */
static bool
stream_dial_again(struct h2_stream *st)
{
	enum dial d;

	st->kept_sent = 0;
	d = dial_next(st->ex, true);
	if (d == DIAL_READY)
		st->ex->kind->connected(st->ex);
	return d != DIAL_FAILED;
}

/* Calls are no idempotent requests, but `unavailable` in edgeway.io/retry-on says that they may be
 * made again. */
bool
h2_stream_may_ask_another(struct h2_stream *st, unsigned status)
{
	struct exchange *ex = st->ex;
	unsigned bit = st->grpc && status == 503 ? RETRY_ON_UNAVAILABLE : retry_on_bit(status);

	return routing_retries(ex, status, bit) && st->kept && !st->responded &&
		(ex->idempotent || bit == RETRY_ON_UNAVAILABLE) && pick_may_charge(ex) &&
		(routing_repeats(ex) || pick_another(ex, st->target, false));
}

void
h2_stream_ask_now(struct h2_stream *st)
{
	if (st->has_timeout)
		exchange_due(st->ex, st->ex->whole_ms);
	if (!stream_dial_again(st))
		h2_stream_dial_failed(st->ex);
	else if (st->ex != NULL && st->ex->rule != NULL)
		h2_stream_touch(st);
}

void
h2_stream_ask_another(struct h2_stream *st)
{
	pick_leave(st->ex, st->target, false);
	st->ex->free_retry = false;
	st->ex->try_ms = 0;
	st->response_done = false;
	h2_upstream_leave(st, H2_CANCEL);
	if (routing_backs_off(st->ex))
		h2_stream_touch(st);
	else
		h2_stream_ask_now(st);
}

bool
h2_stream_try_again(struct h2_stream *st)
{
	struct exchange *ex = st->ex;

	if (!routing_try_is_over(ex) || !routing_repeats(ex) || st->up == NULL || !st->kept ||
		st->responded || !ex->idempotent || !pick_may_charge(ex))
		return false;
	dial_report_failure(ex, st->target, TARGET_RESET);
	h2_stream_ask_another(st);
	h2_link_touch(&st->client->link);
	return true;
}

/* --- lost -------------------------------------------------------------------------------- */

static void
stream_refuse_lost(struct h2_stream *st, enum h2_lost how, uint32_t code)
{
	struct exchange *ex = st->ex;

	if ((how == H2_LOST_RESET || how == H2_LOST_UNPROCESSED) && !st->responded) {
		count(&stream_worker(st)->counters.upstream_lost, 1);
		access_log_end(ex, "SH");
	} else if (st->responded) {
		count(&stream_worker(st)->counters.upstream_lost, 1);
		count(&ex->group->cell->failures, 1);
		access_log_end(ex, "SD");
	}
	if (how == H2_LOST_HTTP1) {
		count(&stream_worker(st)->counters.bad_response, 1);
		access_log_end(ex, "PH");
		ex->kind->refuse(ex, 502, STREAM_HTTP1);
	} else if (how == H2_LOST_MALFORMED && !st->responded) {
		h2_stream_bad_answer(st, "the endpoint's answer is not valid HTTP/2");
	} else if (how == H2_LOST_UNPROCESSED && st->kept) {
		ex->kind->refuse(ex, 503, "the endpoint refuses further streams");
	} else if (how == H2_LOST_RESET || how == H2_LOST_UNPROCESSED || st->responded) {
		h2_reset(st->client->link.h2, st->id,
			(how == H2_LOST_RESET || how == H2_LOST_UNPROCESSED) && code != H2_NO_ERROR
				? code
				: H2_INTERNAL_ERROR);
		h2_stream_end(st, code);
	} else {
		exchange_refuse_lost(ex, how == H2_LOST_SILENT);
	}
}

void
h2_stream_lost(struct h2_stream *st, enum h2_lost how, uint32_t code)
{
	struct exchange *ex = st->ex;
	struct target *t;
	bool again, sent_away, stale, alone;

	if (ex == NULL)
		return;
	alone = balance_count(&ex->group->balance) == 1;
	sent_away = st->up->retired;
	/* As with a kept connection of HTTP/1, which its server may close at any moment. */
	stale = how == H2_LOST_CONNECTION && st->up->answered && ex->n_stale == 0;
	t = target_ref(st->target);
	again = h2_stream_may_retry(st, how);
	h2_link_touch(&st->client->link);
	h2_upstream_leave(st, code);
	/* An endpoint that sends streams back drains, or has its limit: no fault. */
	ex->free_retry = again && how == H2_LOST_UNPROCESSED;
	if (!stale && (how == H2_LOST_CONNECTION || how == H2_LOST_SILENT))
		dial_report_failure(ex, t, how == H2_LOST_SILENT ? TARGET_SILENT : TARGET_RESET);
	else if (again && how == H2_LOST_HTTP1)
		pick_avoid(ex, t);
	else if (again && how == H2_LOST_UNPROCESSED && ex->n_stale >= (sent_away || alone ? 2 : 0))
		pick_avoid(ex, t);
	ex->n_stale += again && (stale || how == H2_LOST_UNPROCESSED);
	target_unref(&t);
	if (!again || !stream_dial_again(st))
		stream_refuse_lost(st, how, code);
}

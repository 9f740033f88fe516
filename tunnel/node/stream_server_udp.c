#include "tunnel/node/stream_server_udp.h"

#include <stdio.h>
#include <sys/queue.h>

#include "base/core/log.h"
#include "tunnel/node/stream_server.h"
#include "tunnel/udp/udp_relay.h"

struct flow {
	LIST_ENTRY(flow) link;
	struct stream_server_udp *of;
	struct udp_relay *relay;
	enum tunnel_acl_kind kind;
	bool by_peer;
	uint64_t since_ms;
	char *authority, *caller, *meant;
};

struct stream_server_udp {
	struct loop *loop;
	uint32_t mark;
	LIST_HEAD(, flow) flows;
	unsigned n_flows;
	bool draining;
	uint64_t opened;
	struct dgram_tally past; /* of ended flows */
};

static void
flow_free(struct flow *f)
{
	LIST_REMOVE(f, link);
	f->of->n_flows--;
	udp_relay_free(&f->relay);
	free(f->authority);
	free(f->caller);
	free(f->meant);
	free(f);
}

/* The audit line, as stream_server_tell has it. */
static void
stream_server_udp_tell(const struct flow *f, const struct udp_relay_report *report)
{
	const struct dgram_tally *t = report->tally;
	char to[ADDR_TEXT_MAX], text[1500];

	snprintf(text, sizeof text,
		"flow ended caller=\"%s\" target=\"%s\"%s%s kind=%s to=%s status=%u to_node=%llu "
		"from_node=%llu datagrams_to_node=%llu datagrams_from_node=%llu dropped=%llu "
		"ms=%llu end=\"%s\"",
		f->caller, f->authority, f->meant[0] != '\0' ? " for=" : "", f->meant,
		tunnel_acl_kind_name(f->kind), addr_text(udp_relay_to(f->relay), to),
		report->status, (unsigned long long)t->from_stream.bytes,
		(unsigned long long)t->to_stream.bytes,
		(unsigned long long)t->from_stream.datagrams,
		(unsigned long long)t->to_stream.datagrams, (unsigned long long)dgram_dropped(t),
		(unsigned long long)(loop_now_ms(f->of->loop) - f->since_ms), report->why);
	if (f->by_peer)
		log_limited(LOG_LEVEL_INFO, STREAM_SERVER_PEER_LINES, "tunnel", "%s", text);
	else
		log_info("tunnel", "%s", text);
}

static void
on_ended(void *arg, const struct udp_relay_report *report)
{
	struct flow *f = arg;

	dgram_tally_add(&f->of->past, report->tally);
	stream_server_udp_tell(f, report);
	flow_free(f);
}

unsigned
stream_server_udp_open(
	struct stream_server_udp *u, struct stream *st, const struct stream_server_udp_ask *ask)
{
	static const struct stream_events none = {0};
	struct flow *f = xcalloc(1, sizeof *f);

	f->of = u;
	f->kind = ask->target->kind;
	f->by_peer = ask->by_peer;
	f->since_ms = loop_now_ms(u->loop);
	f->authority = xstrdup(ask->authority);
	f->caller = xstrdup(ask->caller);
	f->meant = xstrdup(ask->meant);
	LIST_INSERT_HEAD(&u->flows, f, link);
	u->n_flows++;
	stream_accept(st, &none, f);
	f->relay = udp_relay_start(&(struct udp_relay_setup){
		.loop = u->loop,
		.stream = st,
		.to = ask->target->addrs,
		.n_to = ask->target->n_addrs,
		.mark = u->mark,
		.hops = ask->hops,
		.ended = on_ended,
		.arg = f,
	});
	u->opened += udp_relay_status(f->relay) == 200;
	if (u->draining)
		udp_relay_drain(f->relay);
	return udp_relay_status(f->relay);
}

/* --- life ----------------------------------------------------------------------------------- */

struct stream_server_udp *
stream_server_udp_new(struct loop *loop, uint32_t mark)
{
	struct stream_server_udp *u = xcalloc(1, sizeof *u);

	u->loop = loop;
	u->mark = mark;
	LIST_INIT(&u->flows);
	return u;
}

void
stream_server_udp_free(struct stream_server_udp **out)
{
	struct stream_server_udp *u = take_ptr(out);

	if (u == NULL)
		return;
	while (!LIST_EMPTY(&u->flows))
		flow_free(LIST_FIRST(&u->flows));
	free(u);
}

void
stream_server_udp_drain(struct stream_server_udp *u)
{
	struct flow *f;

	u->draining = true;
	LIST_FOREACH(f, &u->flows, link)
		udp_relay_drain(f->relay);
}

/* --- state and metrics ---------------------------------------------------------------------- */

static struct dgram_tally
stream_server_udp_sum(const struct stream_server_udp *u)
{
	struct dgram_tally all = u->past;
	const struct flow *f;

	LIST_FOREACH(f, &u->flows, link)
		dgram_tally_add(&all, udp_relay_tally(f->relay));
	return all;
}

void
stream_server_udp_metrics(const struct stream_server_udp *u, struct metrics *m)
{
	const struct dgram_tally t = stream_server_udp_sum(u);
	char label[64];

	for (unsigned i = 0; i <= DROP_SEND; i++) /* the other reasons occur only at the hub */
		metric_counter(m, "edgeway_tunnel_udp_dropped_total",
			"Datagrams that were dropped, by why.",
			metric_label(label, sizeof label, "reason", dgram_drop_name(i)),
			t.dropped[i]);
}

void
stream_server_udp_state(const struct stream_server_udp *u, struct buf *out)
{
	const struct dgram_tally t = stream_server_udp_sum(u);

	buf_printf(out,
		"{\"flows\":%u,\"opened\":%llu,\"datagrams_to_target\":%llu,\"datagrams_from_"
		"target\":%llu,\"dropped\":%llu}",
		u->n_flows, (unsigned long long)u->opened,
		(unsigned long long)t.from_stream.datagrams,
		(unsigned long long)t.to_stream.datagrams, (unsigned long long)dgram_dropped(&t));
}

#include "hub/udp_maps_private.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "model/json.h"

enum { DRAIN_QUIET_MS = 500 };

/* --- receiving ---------------------------------------------------------------------------------------- */

static struct flow_key
key_of(const struct pktinfo_way *way)
{
	struct flow_key key;

	memset(&key, 0, sizeof key);
	key.local = way->local;
	key.port = addr_port(&way->peer);
	if (way->peer.sa.sa_family == AF_INET6) {
		key.client = way->peer.in6.sin6_addr;
		key.scope = way->peer.in6.sin6_scope_id;
	} else {
		key.client.s6_addr[10] = key.client.s6_addr[11] = 0xff;
		memcpy(&key.client.s6_addr[12], &way->peer.in.sin_addr, 4);
	}
	return key;
}

static void
take(struct udp_map *m, const struct pktinfo_way *way, const void *data, size_t n)
{
	const struct flow_key key = key_of(way);
	struct flow_entry *e = flows_find(m->flows, &key);

	if (e != NULL)
		udp_flow_take((struct udp_flow *)e, data, n);
	else
		udp_flow_begin(m, &key, way, data, n);
}

static void
on_ready(void *arg, int fd, unsigned events)
{
	struct udp_map *m = arg;
	size_t bytes = 0;

	if (events &
		WATCH_HUP) { /* no error of one client ends a socket; the watch sleeps after it */
		sock_error(fd);
		watch_stop(&m->watch);
		m->watch = watch_start(m->maps->config.loop, fd, WATCH_READ, on_ready, m);
	}
	for (unsigned i = 0; i < DGRAM_TURN && bytes < DGRAM_TURN_BYTES; i++) {
		struct pktinfo_way way;
		ssize_t n = pktinfo_recv(fd, m->maps->buffer, DGRAM_BUFFER, &way);

		if (n < 0)
			return;
		bytes += (size_t)n;
		take(m, &way, m->maps->buffer, (size_t)n);
	}
}

static void
on_sweep(void *arg)
{
	struct udp_map *m = arg;
	uint64_t now = loop_now_ms(m->maps->config.loop);
	struct flow_entry *e;

	while ((e = flows_expired(m->flows, now)) != NULL)
		udp_flow_end((struct udp_flow *)e, "idle");
}

/* --- life ----------------------------------------------------------------------------------------------- */

struct udp_maps *
udp_maps_new(const struct udp_maps_config *config)
{
	struct udp_maps *m = xcalloc(1, sizeof *m);

	m->config = *config;
	if (m->config.idle_ms == 0)
		m->config.idle_ms = UDP_IDLE_MS;
	if (m->config.flows == 0)
		m->config.flows = UDP_FLOWS;
	TAILQ_INIT(&m->list);
	return m;
}

static void
map_free(struct udp_map *m)
{
	struct flow_entry *e;

	while ((e = flows_next(m->flows, NULL)) != NULL)
		udp_flow_end((struct udp_flow *)e, "the hub stops");
	TAILQ_REMOVE(&m->maps->list, m, entry);
	watch_stop(&m->watch);
	timer_free(&m->sweep);
	flows_free(&m->flows);
	close(m->fd);
	free(m->host);
	free(m->dest);
	free(m->listen);
	free(m);
}

void
udp_maps_free(struct udp_maps **out)
{
	struct udp_maps *m = take_ptr(out);

	if (m == NULL)
		return;
	while (!TAILQ_EMPTY(&m->list))
		map_free(TAILQ_FIRST(&m->list));
	free(m->buffer);
	free(m);
}

int
udp_maps_open(struct udp_maps *maps, const struct udp_map_setup *setup, struct err *err)
{
	const struct udp_maps_config *c = &maps->config;
	char text[ADDR_TEXT_MAX];
	struct udp_map *m;
	int fd, rc = sock_udp(&setup->listen, SOCK_INTERFACE, &fd, err);

	if (rc < 0)
		return rc;
	dgram_widen(fd);
	if (maps->buffer == NULL)
		maps->buffer = xmalloc(DGRAM_BUFFER);
	m = xcalloc(1, sizeof *m);
	m->maps = maps;
	m->fd = fd;
	m->host = xstrdup(setup->host);
	m->dest = setup->dest != NULL ? xstrdup(setup->dest) : NULL;
	m->port = setup->port;
	m->listen = xstrdup(addr_text(&setup->listen, text));
	m->flows = flows_new(&(struct flows_limits){
		.most = c->flows,
		.of_source = MAX(c->flows / 4, 1u),
		.idle_ms = {[FLOW_REFUSED] = MIN((uint64_t)UDP_REFUSED_MS, c->idle_ms),
			[FLOW_BRIEF] = MIN((uint64_t)UDP_BRIEF_MS, c->idle_ms),
			[FLOW_LASTING] = c->idle_ms},
	});
	m->sweep = timer_new(c->loop, on_sweep, m);
	m->watch = watch_start(c->loop, fd, WATCH_READ, on_ready, m);
	TAILQ_INSERT_TAIL(&maps->list, m, entry);
	log_info("ingress", "serving door=ingress.udp listen=%s", m->listen);
	return 0;
}

/* What was not opened yet is judged at its answer. */
unsigned
udp_maps_recheck(struct udp_maps *maps)
{
	struct flow_entry *e, *next;
	struct udp_map *m;
	unsigned cut = 0;

	TAILQ_FOREACH(m, &maps->list, entry)
	for (e = flows_next(m->flows, NULL); e != NULL; e = next) {
		struct udp_flow *f = (struct udp_flow *)e;

		next = flows_next(m->flows, e);
		if (f->stream == NULL || udp_flow_allowed(f))
			continue;
		cut++;
		udp_flow_end(f, "the rules of access have changed");
	}
	return cut;
}

void
udp_maps_drain(struct udp_maps *maps)
{
	struct udp_map *m;

	maps->draining = true;
	TAILQ_FOREACH(m, &maps->list, entry)
	flows_hurry(m->flows, DRAIN_QUIET_MS);
}

/* --- telling ------------------------------------------------------------------------------------------ */

static uint64_t
dropped(const struct udp_map *m, enum dgram_drop why)
{
	return m->tally.dropped[why] + (why == DROP_SOCKET ? dgram_lost(m->fd) : 0);
}

enum figure { FLOWS, OPENED, SENT, RECEIVED, BYTES_SENT, BYTES_RECEIVED, FIGURES };

static uint64_t
figure(const struct udp_map *m, enum figure what)
{
	const uint64_t all[FIGURES] = {flows_count(m->flows), m->opened,
		m->tally.to_stream.datagrams, m->tally.from_stream.datagrams,
		m->tally.to_stream.bytes, m->tally.from_stream.bytes};

	return all[what];
}

static void
add_figures(const struct udp_maps *maps, enum figure what, struct metrics *out)
{
	static const struct {
		const char *name, *help, *direction;
	} rows[FIGURES] = {
		{"edgeway_ingress_udp_flows", "Flows of UDP maps now.", ""},
		{"edgeway_ingress_udp_flows_total", "Flows that reached their target.", ""},
		{"edgeway_ingress_udp_datagrams_total", "Datagrams carried.",
			",direction=\"to-edge\""},
		{"edgeway_ingress_udp_datagrams_total", "Datagrams carried.",
			",direction=\"from-edge\""},
		{"edgeway_ingress_udp_bytes_total", "Their payload.", ",direction=\"to-edge\""},
		{"edgeway_ingress_udp_bytes_total", "Their payload.", ",direction=\"from-edge\""},
	};
	const struct udp_map *m;

	TAILQ_FOREACH(m, &maps->list, entry)
	{
		char listen[ADDR_TEXT_MAX + 16], label[ADDR_TEXT_MAX + 64];

		metric_label(listen, sizeof listen, "listen", m->listen);
		snprintf(label, sizeof label, "%s%s", listen, rows[what].direction);
		if (what == FLOWS)
			metric_gauge(out, rows[what].name, rows[what].help, label,
				(double)figure(m, what));
		else
			metric_counter(
				out, rows[what].name, rows[what].help, label, figure(m, what));
	}
}

void
udp_maps_metrics(const struct udp_maps *maps, struct metrics *out)
{
	const struct udp_map *m;

	for (unsigned what = 0; what < FIGURES; what++)
		add_figures(maps, what, out);
	TAILQ_FOREACH(m, &maps->list, entry)
	for (unsigned why = 0; why < DROPS; why++) {
		char listen[ADDR_TEXT_MAX + 16], label[ADDR_TEXT_MAX + 64];

		metric_label(listen, sizeof listen, "listen", m->listen);
		snprintf(label, sizeof label, "%s,reason=\"%s\"", listen, dgram_drop_name(why));
		metric_counter(out, "edgeway_ingress_udp_dropped_total",
			"Datagrams that were dropped, by why.", label, dropped(m, why));
	}
}

static void
add_target(const struct udp_map *m, struct buf *out)
{
	auto_free char *plain = xasprintf("%s:%u", m->host, m->port),
		       *at = m->dest != NULL ? xasprintf("%s at %s", m->dest, m->host) : NULL;

	json_add_text(out, at != NULL ? at : plain);
}

void
udp_maps_state(const struct udp_maps *maps, struct buf *out)
{
	const struct udp_map *m;
	const char *comma = "";

	buf_adds(out, "[");
	TAILQ_FOREACH(m, &maps->list, entry)
	{
		buf_printf(out, "%s{\"listen\":\"%s\",\"target\":", comma, m->listen);
		add_target(m, out);
		buf_printf(out,
			",\"flows\":%u,\"opened\":%llu,\"sent\":%llu,\"received\":%llu,"
			"\"dropped\":{",
			flows_count(m->flows), (unsigned long long)m->opened,
			(unsigned long long)m->tally.to_stream.datagrams,
			(unsigned long long)m->tally.from_stream.datagrams);
		for (unsigned why = 0; why < DROPS; why++)
			buf_printf(out, "%s\"%s\":%llu", why > 0 ? "," : "", dgram_drop_name(why),
				(unsigned long long)dropped(m, why));
		buf_adds(out, "}}");
		comma = ",";
	}
	buf_adds(out, "]");
}

static void
add_flow(const struct udp_flow *f, uint64_t now, struct buf *out)
{
	const struct dgram_tally *t = &f->tally;
	char caller[ACCESS_NAME_MAX + 8];

	buf_printf(out, "{\"listen\":\"%s\",\"caller\":", f->map->listen);
	json_add_text(out, udp_flow_caller(f, caller));
	buf_adds(out, ",\"target\":");
	json_add_text(out, f->target != NULL ? f->target : "");
	buf_printf(out,
		",\"state\":\"%s\",\"age_ms\":%llu,\"idle_ms\":%llu,\"sent\":%llu,\"received\":"
		"%llu,\"bytes_sent\":%llu,\"bytes_received\":%llu,\"dropped\":%llu}",
		f->stream != NULL             ? "open"
			: f->reaching != NULL ? "dialling"
					      : dgram_drop_name(f->refusal),
		(unsigned long long)(now - f->started_ms),
		(unsigned long long)(now - f->entry.moved_ms),
		(unsigned long long)t->to_stream.datagrams,
		(unsigned long long)t->from_stream.datagrams,
		(unsigned long long)t->to_stream.bytes, (unsigned long long)t->from_stream.bytes,
		(unsigned long long)dgram_dropped(t));
}

void
udp_maps_flows(const struct udp_maps *maps, struct buf *out)
{
	uint64_t now = loop_now_ms(maps->config.loop);
	const struct udp_map *m;
	const char *comma = "";

	buf_adds(out, "[");
	TAILQ_FOREACH(m, &maps->list, entry)
	for (struct flow_entry *e = flows_next(m->flows, NULL); e != NULL;
		e = flows_next(m->flows, e)) {
		buf_adds(out, comma);
		add_flow((const struct udp_flow *)e, now, out);
		comma = ",";
	}
	buf_adds(out, "]");
}

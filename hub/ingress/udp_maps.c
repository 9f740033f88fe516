#include "hub/ingress/udp_maps_private.h"

#include <stdio.h>

#include "base/core/log.h"
#include "model/json.h"

struct udp_maps *
udp_maps_new(const struct udp_maps_config *config)
{
	struct udp_maps *m = xcalloc(1, sizeof *m);

	m->config = *config;
	TAILQ_INIT(&m->list);
	return m;
}

static void
map_free(struct udp_map *m)
{
	udp_door_close(&m->door, "the hub stops");
	TAILQ_REMOVE(&m->maps->list, m, entry);
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
	struct udp_map *m = xcalloc(1, sizeof *m);
	int rc;

	if (maps->buffer == NULL)
		maps->buffer = xmalloc(DGRAM_BUFFER);
	rc = udp_door_open(&(struct udp_door_setup){.loop = c->loop,
				   .listen = &setup->listen,
				   .buffer = maps->buffer,
				   .idle_ms = c->idle_ms,
				   .flows = c->flows,
				   .events = &udp_map_events,
				   .arg = m},
		&m->door, err);
	if (rc < 0) {
		free(m);
		return rc;
	}
	m->maps = maps;
	m->host = xstrdup(setup->host);
	m->dest = setup->dest != NULL ? xstrdup(setup->dest) : NULL;
	m->names = setup->names;
	m->port = setup->port;
	m->listen = xstrdup(addr_text(&setup->listen, text));
	TAILQ_INSERT_TAIL(&maps->list, m, entry);
	log_info("ingress", "serving door=ingress.udp listen=%s", m->listen);
	return 0;
}

/* Flows that are not open yet are checked when their answer comes. */
unsigned
udp_maps_recheck(struct udp_maps *maps)
{
	struct udp_flow *f, *next;
	struct udp_map *m;
	unsigned cut = 0;

	TAILQ_FOREACH(m, &maps->list, entry)
		for (f = udp_door_next(m->door, NULL); f != NULL; f = next) {
			next = udp_door_next(m->door, f);
			if (f->stream == NULL || !udp_flow_revoked(f))
				continue;
			cut++;
			udp_flow_end(f, grant_rules_changed);
		}
	return cut;
}

void
udp_maps_drain(struct udp_maps *maps)
{
	struct udp_map *m;

	TAILQ_FOREACH(m, &maps->list, entry)
		udp_door_drain(m->door);
}

/* --- state and metrics ---------------------------------------------------------------------- */

enum udp_maps_figure { FLOWS, SENT, RECEIVED, BYTES_SENT, BYTES_RECEIVED, UDP_FIGURES };

static uint64_t
udp_maps_figure(const struct udp_map *m, enum udp_maps_figure what)
{
	const struct dgram_tally t = udp_door_tally(m->door);
	const uint64_t all[UDP_FIGURES] = {udp_door_flows(m->door), t.to_stream.datagrams,
		t.from_stream.datagrams, t.to_stream.bytes, t.from_stream.bytes};

	return all[what];
}

static void
add_figures(const struct udp_maps *maps, enum udp_maps_figure what, struct metrics *out)
{
	static const struct {
		const char *name, *help, *direction;
	} rows[UDP_FIGURES] = {
		{"edgeway_ingress_udp_flows", "Flows of UDP maps now.", ""},
		{"edgeway_ingress_udp_datagrams_total", "Datagrams carried.",
			",direction=\"to-edge\""},
		{"edgeway_ingress_udp_datagrams_total", "Datagrams carried.",
			",direction=\"from-edge\""},
		{"edgeway_ingress_udp_bytes_total", "Their payload.", ",direction=\"to-edge\""},
		{"edgeway_ingress_udp_bytes_total", "Their payload.", ",direction=\"from-edge\""},
	};
	const struct udp_map *m;

	TAILQ_FOREACH(m, &maps->list, entry) {
		char listen[ADDR_TEXT_MAX + 16], label[ADDR_TEXT_MAX + 64];

		metric_label(listen, sizeof listen, "listen", m->listen);
		snprintf(label, sizeof label, "%s%s", listen, rows[what].direction);
		if (what == FLOWS)
			metric_gauge(out, rows[what].name, rows[what].help, label,
				(double)udp_maps_figure(m, what));
		else
			metric_counter(out, rows[what].name, rows[what].help, label,
				udp_maps_figure(m, what));
	}
}

void
udp_maps_metrics(const struct udp_maps *maps, struct metrics *out)
{
	const struct udp_map *m;

	for (unsigned what = 0; what < UDP_FIGURES; what++)
		add_figures(maps, what, out);
	TAILQ_FOREACH(m, &maps->list, entry)
		for (unsigned why = 0; why < DROPS; why++) {
			const struct dgram_tally t = udp_door_tally(m->door);
			char listen[ADDR_TEXT_MAX + 16], label[ADDR_TEXT_MAX + 64];

			metric_label(listen, sizeof listen, "listen", m->listen);
			snprintf(label, sizeof label, "%s,reason=\"%s\"", listen,
				dgram_drop_name(why));
			metric_counter(out, "edgeway_ingress_udp_dropped_total",
				"Datagrams that were dropped, by why.", label, t.dropped[why]);
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
	TAILQ_FOREACH(m, &maps->list, entry) {
		const struct dgram_tally t = udp_door_tally(m->door);

		buf_printf(out, "%s{\"listen\":\"%s\",\"target\":", comma, m->listen);
		add_target(m, out);
		buf_printf(out,
			",\"flows\":%u,\"opened\":%llu,\"sent\":%llu,\"received\":%llu,\"dropped\":"
			"{",
			udp_door_flows(m->door), (unsigned long long)udp_door_opened(m->door),
			(unsigned long long)t.to_stream.datagrams,
			(unsigned long long)t.from_stream.datagrams);
		for (unsigned why = 0; why < DROPS; why++)
			buf_printf(out, "%s\"%s\":%llu", why > 0 ? "," : "", dgram_drop_name(why),
				(unsigned long long)t.dropped[why]);
		buf_adds(out, "}}");
		comma = ",";
	}
	buf_adds(out, "]");
}

static void
add_flow(const struct udp_flow *f, uint64_t now, struct buf *out)
{
	const struct udp_map *m = udp_door_owner(f->door);
	const struct udp_trip *trip = f->own; /* NULL: it was refused */
	const struct dgram_tally *t = &f->tally;
	char caller[ACCESS_NAME_MAX + 8];

	buf_printf(out, "{\"listen\":\"%s\",\"caller\":", m->listen);
	json_add_text(out, udp_flow_caller(f, caller));
	buf_adds(out, ",\"target\":");
	json_add_text(out, trip != NULL && trip->target != NULL ? trip->target : "");
	buf_printf(out,
		",\"state\":\"%s\",\"age_ms\":%llu,\"idle_ms\":%llu,\"sent\":%llu,\"received\":%"
		"llu,\"bytes_sent\":%llu,\"bytes_received\":%llu,\"dropped\":%llu}",
		udp_flow_state(f), (unsigned long long)(now - f->started_ms),
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
		for (const struct udp_flow *f = udp_door_next(m->door, NULL); f != NULL;
			f = udp_door_next(m->door, f)) {
			buf_adds(out, comma);
			add_flow(f, now, out);
			comma = ",";
		}
	buf_adds(out, "]");
}

#include "hub/ingress/ingress.h"

#include <string.h>

#include "base/core/descriptors.h"
#include "base/core/figures.h"
#include "base/core/log.h"
#include "hub/ingress/client_conn.h"
#include "model/json.h"

/*
 * Callers get a part of the descriptors, and never the last ones: nodes, replicas, files and the
 * API keep working whatever callers do.
 */
enum {
	VISITS_PART = 4, /* one client connection per this many descriptors of the process */
	KEPT_PART = 8, /* one of this many descriptors is kept from callers */
};

struct ingress *
ingress_new(const struct ingress_config *config)
{
	struct ingress *i = xcalloc(1, sizeof *i);

	i->config = *config;
	/* Each uses at most three descriptors, including its dial or its TLS. */
	i->visits_most =
		(size_t)MIN(descriptors_limit() / VISITS_PART, (uint64_t)INGRESS_VISITS_MAX);
	TAILQ_INIT(&i->ways_in);
	TAILQ_INIT(&i->visits);
	TAILQ_INIT(&i->legs);
	return i;
}

static void
free_way_in(struct way_in *w)
{
	TAILQ_REMOVE(&w->ingress->ways_in, w, entry);
	listen_stop(&w->listen);
	free(w->name);
	free(w->host);
	free(w->dest);
	pki_ctx_free(&w->door.tls);
	pki_ctx_free(&w->door.onward);
	free(w);
}

void
ingress_free(struct ingress **out)
{
	struct ingress *i = take_ptr(out);
	struct way_in *w;
	struct client_conn *v;
	struct leg *l;

	if (i == NULL)
		return;
	while ((v = TAILQ_FIRST(&i->visits)) != NULL)
		client_conn_abort(v);
	while ((l = TAILQ_FIRST(&i->legs)) != NULL)
		leg_free(l);
	while ((w = TAILQ_FIRST(&i->ways_in)) != NULL)
		free_way_in(w);
	free(i);
}

/* Strangers, at whatever port, have places of their own (base/core/preauth.h), and one address may
 * use all of these: they take no visit from callers that a rule has let in. */
static bool
ingress_has_room(struct ingress *i, const char *door, int fd)
{
	bool descriptors = descriptors_left(fd, KEPT_PART);
	uint64_t most = i->visits_most +
		(i->config.preauth != NULL ? preauth_waiting(i->config.preauth) : 0);

	if (!i->draining && i->n_visits + i->n_legs < most && descriptors)
		return true;
	i->full++;
	log_limited(LOG_LEVEL_WARN, 1, "ingress",
		"a caller is turned away%s door=%s visits=%zu of=%zu",
		descriptors
			? ""
			: ": the descriptors that are left are for nodes; raise LimitNOFILE, up to "
			  "65536, or add a replica",
		door, i->n_visits, i->visits_most);
	return false;
}

/* A caller that is gone without a word is found out, also where nothing is sent to it. */
static void
ingress_keep_alive(int fd)
{
	const int on = 1;

	(void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
}

static bool
on_socket(void *arg, int fd)
{
	struct way_in *w = arg;
	struct ingress *i = w->ingress;
	struct caller caller;

	if (!ingress_has_room(i, w->name, fd))
		return false;
	ingress_keep_alive(fd);
	if (caller_accept(&caller, fd, CALLER_LISTENER, i->config.guard) < 0)
		return false;
	w->visits++;
	if (w->door.tls != NULL)
		leg_take(i, &w->door, fd, &caller);
	else
		ingress_begin(i, &w->door, fd, &caller, NULL, NULL);
	return true;
}

bool
ingress_lead(struct ingress *i, const struct door *door, const struct ingress_led *led)
{
	struct client_conn *v;

	if (!ingress_has_room(i, door->name, led->fd))
		return false;
	ingress_keep_alive(led->fd);
	v = ingress_begin(i, door, led->fd, led->caller, NULL, NULL);
	if (v == NULL)
		return true;
	client_conn_reach(v, led->host, led->port, NULL);
	client_conn_update(v);
	return true;
}

int
ingress_listen(struct ingress *i, const struct door *door, struct err *err)
{
	struct way_in *w = xcalloc(1, sizeof *w);
	char text[ADDR_TEXT_MAX];
	int rc;

	w->ingress = i;
	w->door = *door;
	w->door.name = w->name = xstrdup(door->name);
	w->door.host = w->host = xstrdup(door->host != NULL ? door->host : "");
	w->door.dest = w->dest = door->dest != NULL ? xstrdup(door->dest) : NULL;
	TAILQ_INSERT_TAIL(&i->ways_in, w, entry);
	rc = listen_start(&w->listen, i->config.loop, &door->listen, on_socket, w, err);
	if (rc < 0) {
		err_wrap(err, rc, "%s", door->name);
		free_way_in(w);
		return rc;
	}
	listen_room(w->listen, !i->held);
	log_info("ingress", "serving door=%s listen=%s", w->name, addr_text(&door->listen, text));
	return 0;
}

void
ingress_hold(struct ingress *i, bool held)
{
	struct way_in *w;

	i->held = held;
	TAILQ_FOREACH(w, &i->ways_in, entry)
		listen_room(w->listen, !held);
}

void
ingress_renew(struct ingress *i, const char *name, unsigned nth, struct ssl_ctx_st *tls,
	struct ssl_ctx_st *onward)
{
	struct way_in *w;

	TAILQ_FOREACH(w, &i->ways_in, entry)
		if (strcmp(w->name, name) == 0 && nth-- == 0) {
			pki_ctx_free(&w->door.tls);
			pki_ctx_free(&w->door.onward);
			w->door.tls = tls;
			w->door.onward = onward;
			return;
		}
	pki_ctx_free(&tls);
	pki_ctx_free(&onward);
}

void
ingress_drain(struct ingress *i)
{
	struct way_in *w;

	i->draining = true;
	connector_settle(i->config.reach);
	TAILQ_FOREACH(w, &i->ways_in, entry)
		listen_stop(&w->listen);
}

unsigned
ingress_settle(struct ingress *i)
{
	struct client_conn *v, *next;
	const struct leg *l;
	unsigned n = 0;

	for (v = TAILQ_FIRST(&i->visits); v != NULL; v = next) {
		next = TAILQ_NEXT(v, entry);
		if (v->state == CLIENT_CONN_HEAD && v->talked && v->exchange == NULL &&
			buf_len(&v->in) + buf_len(&v->out) == 0)
			client_conn_free(v);
		else
			n += v->state == CLIENT_CONN_HEAD || v->state == CLIENT_CONN_REACHING;
	}
	TAILQ_FOREACH(l, &i->legs, entry)
		n += preauth_has_place(&l->place);
	return n;
}

/* Sums the connections of all listeners with this one's name. False: this one is not the first of
 * them. */
static bool
sum_of(const struct ingress *i, const struct way_in *first, uint64_t *visits)
{
	const struct way_in *w;

	TAILQ_FOREACH(w, &i->ways_in, entry) {
		if (w == first)
			break;
		if (strcmp(w->name, first->name) == 0)
			return false;
	}
	for (*visits = 0; w != NULL; w = TAILQ_NEXT(w, entry))
		*visits += strcmp(w->name, first->name) == 0 ? w->visits : 0;
	return true;
}

/* Several listeners may have the same name: one sample for all. */
static void
metrics_of_doors(const struct ingress *i, struct metrics *m)
{
	const struct way_in *w;
	char label[160];
	uint64_t visits;

	TAILQ_FOREACH(w, &i->ways_in, entry) {
		if (sum_of(i, w, &visits))
			metric_counter(m, "edgeway_ingress_connections_total",
				"Callers' connections.",
				metric_label(label, sizeof label, "door", w->name), visits);
	}
}

unsigned
ingress_recheck(struct ingress *i)
{
	struct client_conn *v, *next;
	struct caller caller;
	unsigned cut = 0;

	connector_settle(i->config.reach);
	for (v = TAILQ_FIRST(&i->visits); v != NULL; v = next) {
		next = TAILQ_NEXT(v, entry);
		if (!grant_revoked(&v->grant, caller_load(v->caller, &caller)))
			continue;
		cut++;
		client_conn_break(v, grant_rules_changed);
	}
	return cut;
}

void
ingress_count(const struct ingress *i, uint64_t *requests, uint64_t *refused)
{
	*requests = i->requests;
	*refused = i->refused;
}

#define INGRESS(member, metric, labels, help)                                                      \
	FIGURE(struct ingress, member, metric, labels, help, NULL)

static const struct figure ingress_figures[] = {
	INGRESS(n_visits, "edgeway_ingress_connections", NULL, "Callers' connections now."),
	INGRESS(requests, "edgeway_ingress_requests_total", NULL,
		"Targets asked for: by CONNECT, a request, or a connection to a map."),
	INGRESS(refused, "edgeway_ingress_refused_total", NULL,
		"Answered with something else than a stream."),
	INGRESS(full, "edgeway_ingress_turned_away_total", NULL,
		"Connections closed at once: too many, or while draining."),
	INGRESS(handshakes_failed, "edgeway_ingress_handshakes_failed_total", NULL,
		"TLS handshakes with callers, or with targets, that failed."),
	INGRESS(bytes_to_edge, "edgeway_ingress_bytes_total", "direction=\"to-edge\"", "Payload."),
	FIGURE_ALSO(struct ingress, bytes_from_edge, "direction=\"from-edge\"", NULL),
};

void
ingress_metrics(const struct ingress *i, struct metrics *m)
{
	metrics_of_doors(i, m);
	figures_metrics(FIGURES(ingress_figures), i, m);
}

void
ingress_state(const struct ingress *i, struct buf *out)
{
	char text[ACCESS_NAME_MAX + 8];
	const char *comma = "";
	struct client_conn *v;
	struct caller caller;

	buf_adds(out, "[");
	TAILQ_FOREACH(v, &i->visits, entry) {
		buf_printf(out, "%s{\"door\":", comma);
		json_add_text(out, v->door->name);
		buf_adds(out, ",\"caller\":");
		json_add_text(out, caller_text(caller_load(v->caller, &caller), text));
		buf_adds(out, ",\"target\":");
		json_add_text(out, v->target != NULL ? v->target : "");
		buf_printf(out, ",\"relay\":%s,\"age_ms\":%llu}",
			v->state == CLIENT_CONN_RELAY ? "true" : "false",
			(unsigned long long)(loop_now_ms(i->config.loop) - v->started_ms));
		comma = ",";
	}
	buf_adds(out, "]");
}

#include "hub/page/web_private.h"

#include <errno.h>
#include <string.h>

#include "base/core/figures.h"
#include "base/core/log.h"
#include "base/tls/pki.h"
#include "model/json.h"

enum {
	PEM_MAX = 256 * 1024,
	TURN_MS = 1,
	HURRY_MS = 50,
};

/* --- turns: a survey, then one viewer after the other, each in a loop turn of its own ------- */

static struct survey_sources
sources_of(const struct web *w)
{
	struct survey_sources from = {0};

	w->config.sources(w->config.arg, &from);
	return from;
}

/* The due viewer whose last turn is the longest ago; NULL: none is due. */
static struct web_conn *
find_due(const struct web *w)
{
	struct web_conn *c, *found = NULL;
	struct http_conn *http;

	TAILQ_FOREACH(http, &w->server.conns, link) {
		c = web_conn_of(http);
		if (c->viewer != NULL && c->viewer->due &&
			(found == NULL || c->viewer->told_ms < found->viewer->told_ms))
			found = c;
	}
	return found;
}

static void
on_turn(void *arg)
{
	struct web *w = arg;
	struct survey_sources from = sources_of(w);
	const struct tell tell = {
		w->survey, &from, w->started_ms, w->n_viewers, w->probes, w->dead};
	struct web_conn *c = find_due(w);

	if (c == NULL)
		return;
	c->viewer->due = false;
	c->viewer->told_ms = loop_now_ms(w->config.loop);
	timer_start(w->turn, TURN_MS, 0);
	(void)web_live_turn(c, &tell);
}

static void
on_tick(void *arg)
{
	struct web *w = arg;
	struct survey_sources from = sources_of(w);
	struct http_conn *http;

	survey_take(w->survey, &from, loop_now_ms(w->config.loop));
	dead_sweep(w->dead, w->survey, loop_now_ms(w->config.loop));
	TAILQ_FOREACH(http, &w->server.conns, link) {
		if (http->stage == HTTP_UPGRADED)
			web_conn_of(http)->viewer->due = true;
	}
	timer_start(w->turn, TURN_MS, 0);
	timer_start(w->tick, WEB_TICK_MS, 0);
}

void
web_viewers_changed(struct web *w)
{
	if (w->n_viewers > 0 && w->survey == NULL) {
		w->survey = survey_new();
		timer_start(w->tick, TURN_MS, 0);
	} else if (w->n_viewers == 0 && w->survey != NULL) {
		timer_cancel(w->tick);
		timer_cancel(w->turn);
		survey_free(&w->survey);
		probes_forget(w->probes);
		dead_forget(w->dead);
	}
}

void
web_drop(const struct web_conn *c, const char *why)
{
	char from[ACCESS_NAME_MAX + 8];

	c->web->dropped++;
	log_limited(LOG_LEVEL_WARN, 6, "web", "a viewer is dropped caller=%s why=\"%s\"",
		caller_text(&c->caller, from), why);
}

void
web_hurry(struct web_conn *c)
{
	c->viewer->due = true;
	if (!timer_active(c->web->turn) && survey_taken_ms(c->web->survey) != 0)
		timer_start(c->web->turn, HURRY_MS, 0);
}

/* --- the listener --------------------------------------------------------------------------- */

static int
read_pem(const char *path, const char *key, char **pem, struct err *err)
{
	int rc = 0;

	if (path[0] != '\0')
		rc = file_read(path, PEM_MAX, pem, NULL);
	return rc < 0 ? err_set(err, rc, "%s: %s: %s", key, path, strerror(-rc)) : 0;
}

int
web_renew(struct web *w, struct err *err)
{
	auto_free char *cert = NULL, *key = NULL, *ca = NULL;
	const struct web_options *o;
	struct ssl_ctx_st *fresh = NULL;
	int rc;

	if (w == NULL || w->config.options.cert[0] == '\0')
		return 0;
	o = &w->config.options;
	if ((rc = read_pem(o->cert, "web.cert", &cert, err)) < 0 ||
		(rc = read_pem(o->key, "web.key", &key, err)) < 0 ||
		(rc = read_pem(o->client_ca, "web.clientCA", &ca, err)) < 0)
		return rc;
	if ((rc = pki_listener_ctx(cert, key, ca, &fresh, err)) < 0)
		return err_wrap(err, rc, "web");
	pki_ctx_free(&w->server.tls);
	w->server.tls = fresh;
	w->server.proven = ca != NULL;
	return 0;
}

/* Whoever it is has not shown yet that he may see the page: so who has most makes room. False:
 * viewers have all places. */
static bool
web_make_room(struct web *w)
{
	struct http_conn *victim;

	if (w->server.n_conns < WEB_CONNECTIONS_MAX)
		return true;
	w->refused_full++;
	log_limited(LOG_LEVEL_WARN, 1, "web",
		"too many connections, one of whoever has most is ended connections=%u",
		w->server.n_conns);
	victim = http_server_victim(&w->server);
	if (victim != NULL)
		http_conn_free(victim);
	return victim != NULL;
}

static bool
on_socket(void *arg, int fd)
{
	struct web *w = arg;
	struct caller caller;

	if (caller_accept(&caller, fd, CALLER_LISTENER, w->config.guard) < 0 || !web_make_room(w))
		return false;
	web_conn_take(w, fd, &caller);
	return true;
}

int
web_start(struct web **out, const struct web_config *config, struct err *err)
{
	struct web *w = xcalloc(1, sizeof *w);
	char text[ADDR_TEXT_MAX];
	struct addr addr;
	int rc;

	w->config = *config;
	web_conn_server(w);
	w->started_ms = wall_ms();
	w->probes = probes_new(&(struct probes_config){.loop = config->loop,
		.peers = config->peers,
		.ask = config->ask,
		.arg = config->arg});
	w->dead = dead_new(config->ask, config->arg);
	w->tick = timer_new(config->loop, on_tick, w);
	w->turn = timer_new(config->loop, on_turn, w);
	rc = web_renew(w, err);
	if (rc == 0 && (rc = addr_parse(&addr, config->options.listen, 0, err)) == 0)
		rc = listen_start(&w->listen, config->loop, &addr, on_socket, w, err);
	if (rc < 0) {
		web_stop(&w);
		return err_wrap(err, rc, "web.listen");
	}
	log_info("web", "serving listen=%s tls=%s", addr_text(&addr, text),
		w->server.tls != NULL ? "yes" : "no");
	*out = w;
	return 0;
}

void
web_stop(struct web **out)
{
	struct web *w = take_ptr(out);

	if (w == NULL)
		return;
	http_server_fini(&w->server);
	listen_stop(&w->listen);
	timer_free(&w->tick);
	timer_free(&w->turn);
	survey_free(&w->survey);
	probes_free(&w->probes);
	dead_free(&w->dead);
	pki_ctx_free(&w->server.tls);
	free(w);
}

void
web_leave(struct web *w)
{
	struct http_conn *http, *next;

	if (w == NULL)
		return;
	listen_stop(&w->listen);
	for (http = TAILQ_FIRST(&w->server.conns); http != NULL; http = next) {
		next = TAILQ_NEXT(http, link);
		if (http->stage == HTTP_UPGRADED)
			(void)web_live_close(web_conn_of(http), WSFRAME_LEAVING, NULL);
	}
}

unsigned
web_recheck(struct web *w)
{
	const struct acl_target page = {.kind = TARGET_WEB};
	struct http_conn *http, *next;
	unsigned cut = 0;

	for (http = w != NULL ? TAILQ_FIRST(&w->server.conns) : NULL; http != NULL; http = next) {
		struct web_conn *c = web_conn_of(http);

		next = TAILQ_NEXT(http, link);
		if (c->viewer == NULL || acl_check(w->config.access, &c->caller, &page))
			continue;
		(void)web_live_close(
			c, WSFRAME_POLICY, "the rules of access do not let him look any more");
		cut++;
	}
	return cut;
}

/* --- metrics and state ---------------------------------------------------------------------- */

static const struct figure web_figures[] = {
	FIGURE(struct web, n_viewers, "edgeway_web_viewers", NULL, "Who looks at the page now.",
		NULL),
	FIGURE(struct web, refused_who, "edgeway_web_refused_total", "why=\"who\"",
		"Requests to the page, and connections, that were refused: who asks is not known "
		"or "
		"not let in, how it asks, or too many do.",
		NULL),
	FIGURE_ALSO(struct web, refused_how, "why=\"how\"", NULL),
	FIGURE_ALSO(struct web, refused_full, "why=\"full\"", NULL),
	FIGURE(struct web, skipped, "edgeway_web_skipped_total", NULL,
		"Times that a viewer had not read what he was told before, and was passed over.",
		NULL),
	FIGURE(struct web, dropped, "edgeway_web_dropped_total", NULL,
		"Viewers who were dropped: silent, not let in any more, or against the rules.",
		NULL),
};

void
web_metrics(const struct web *w, struct metrics *m)
{
	if (w == NULL)
		return;
	figures_metrics(FIGURES(web_figures), w, m);
	probes_metrics(w->probes, m);
}

void
web_state(const struct web *w, struct buf *out)
{
	if (w == NULL) {
		buf_adds(out, "null");
		return;
	}
	buf_adds(out, "{\"listen\":");
	json_add_text(out, w->config.options.listen);
	buf_printf(out,
		",\"tls\":%s,\"viewers\":%zu,\"most\":%u,\"connections\":%u,\"refused\":%llu}",
		w->server.tls != NULL ? "true" : "false", w->n_viewers, w->config.options.viewers,
		w->server.n_conns,
		(unsigned long long)(w->refused_who + w->refused_how + w->refused_full));
}

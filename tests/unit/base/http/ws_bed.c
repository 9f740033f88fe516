#include "tests/unit/base/http/ws_bed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/core/log.h"

static const char *const hub_names[] = {"hub.example", "127.0.0.1", "::1", NULL};

static void
note(char to[NOTE_MAX], const char *text)
{
	snprintf(to, NOTE_MAX, "%s", text);
}

static int
on_accept(void *arg, struct ws_conn *c)
{
	struct side *s = arg;

	s->accepts++;
	note(s->path, ws_path(c));
	note(s->name, ws_peer_name(c));
	note(s->node_id, ws_header(c, "node_id"));
	note(s->auth, ws_header(c, "authorization"));
	note(s->absent, ws_header(c, "x-absent"));
	if (s->retry_after_s > 0)
		ws_ask_to_wait(c, s->retry_after_s);
	return s->refuse_with;
}

static void
on_open(void *arg, struct ws_conn *c)
{
	struct side *s = arg;

	s->opens++;
	s->conn = c;
}

static void
on_text(void *arg, struct ws_conn *c, const char *text, size_t len)
{
	struct side *s = arg;

	s->texts++;
	free(s->text);
	s->text = xmemdup(text, len + 1);
	s->len = len;
	if (s->echo)
		ws_send(c, text, len);
}

static void
on_drained(void *arg, struct ws_conn *c)
{
	(void)c;
	((struct side *)arg)->drains++;
}

static void
on_closed(void *arg, struct ws_conn *c, const char *why)
{
	struct side *s = arg;

	s->closes++;
	s->asked_to_wait_ms = ws_asked_to_wait_ms(c);
	if (s->conn == c)
		s->conn = NULL;
	note(s->why, why);
}

static const struct ws_events events = {
	.accept = on_accept,
	.open = on_open,
	.text = on_text,
	.drained = on_drained,
	.closed = on_closed,
};

static void
on_socket(void *arg, int fd, unsigned ready)
{
	struct world *w = arg;
	int conn = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	(void)ready;
	if (w->server == NULL) /* ws_free turns the loop */
		close(conn);
	else if (conn >= 0)
		ws_adopt(w->server, conn, NULL);
}

char *
bed_issue(const char *ca, const char *ca_key, const char *name, bool server, const char *key)
{
	struct pki_issue issue = {.ca_cert_pem = ca,
		.ca_key_pem = ca_key,
		.common_name = name,
		.names = server ? hub_names : NULL,
		.server = server,
		.client = !server,
		.days = 1};
	char *cert = NULL;

	assert_int_equal(pki_sign_key(&issue, key, &cert, NULL), 0);
	return cert;
}

int
bed_make(void **state)
{
	struct world *w = xcalloc(1, sizeof *w);

	log_setup(getenv("WS_TEST_VERBOSE") != NULL ? LOG_LEVEL_DEBUG : LOG_LEVEL_ERROR,
		LOG_FORMAT_TEXT);
	assert_int_equal(pki_ca_new("CA", 10, &w->ca, &w->ca_key, NULL), 0);
	assert_int_equal(pki_ca_new("other", 10, &w->other_ca, &w->other_ca_key, NULL), 0);
	assert_int_equal(pki_key_new(&w->hub_key, NULL), 0);
	assert_int_equal(pki_key_new(&w->node_key, NULL), 0);
	w->hub = bed_issue(w->ca, w->ca_key, "hub", true, w->hub_key);
	w->node = bed_issue(w->ca, w->ca_key, "edge-1", false, w->node_key);
	assert_int_equal(pki_server_ctx(w->hub, w->hub_key, w->ca, &w->hub_tls, NULL), 0);
	assert_int_equal(pki_client_ctx(w->ca, w->node, w->node_key, &w->node_tls, NULL), 0);
	*state = w;
	return 0;
}

int
bed_free(void **state)
{
	struct world *w = *state;

	pki_ctx_free(&w->hub_tls);
	pki_ctx_free(&w->node_tls);
	free(w->ca);
	free(w->ca_key);
	free(w->other_ca);
	free(w->other_ca_key);
	free(w->hub);
	free(w->hub_key);
	free(w->node);
	free(w->node_key);
	free(w);
	return 0;
}

void
bed_stop_listening(struct world *w)
{
	watch_stop(&w->listener);
	if (w->listen_fd >= 0)
		close(take_fd(&w->listen_fd));
}

int
bed_listen(struct world *w, struct err *err)
{
	if (sock_listen(&w->addr, 0, &w->listen_fd, err) < 0)
		return -1;
	assert_int_equal(getsockname(w->listen_fd, &w->addr.sa, &w->addr.len), 0);
	w->listener = watch_start(w->loop, w->listen_fd, WATCH_READ, on_socket, w);
	return 0;
}

void
bed_start_with(struct world *w, uint64_t server_heartbeat_ms, uint64_t handshake_ms)
{
	struct ws_config config = {.events = &events,
		.arg = &w->at_server,
		.server_tls = w->hub_tls,
		.heartbeat_ms = server_heartbeat_ms,
		.handshake_ms = handshake_ms,
		.message_limit = LIMIT,
		.high_water = 64 * 1024};
	struct err err = {0};

	memset(&w->at_server, 0, sizeof w->at_server);
	memset(&w->at_client, 0, sizeof w->at_client);
	assert_int_equal(loop_new(&w->loop, &err), 0);
	assert_int_equal(loop_new(&w->client_loop, &err), 0);
	if (ws_new(&w->server, w->loop, &config, &err) < 0)
		fail_msg("%s", err.text);
	config.arg = &w->at_client;
	config.server_tls = NULL;
	config.heartbeat_ms = 4000;
	if (ws_new(&w->client, w->client_loop, &config, &err) < 0)
		fail_msg("%s", err.text);
	w->addr = addr_ipv4(INADDR_LOOPBACK, 0);
	if (bed_listen(w, &err) < 0)
		fail_msg("%s", err.text);
}

void
bed_start(struct world *w)
{
	bed_start_with(w, 4000, 0);
}

void
bed_stop(struct world *w)
{
	bed_stop_listening(w);
	ws_free(&w->client);
	ws_free(&w->server);
	loop_free(&w->client_loop);
	loop_free(&w->loop);
	free(w->at_server.text);
	free(w->at_client.text);
}

void
bed_turn(struct world *w)
{
	loop_turn(w->loop);
	if (!w->frozen)
		loop_turn(w->client_loop);
	usleep(PATIENCE_PAUSE_US);
}

void
bed_wait_for(struct world *w, const int *count, int want)
{
	for (unsigned turns = 0; *count < want; turns++) {
		if (turns >= PATIENCE_TURNS)
			fail_msg("waited in vain: have %d, want %d; client says \"%s\", server "
				 "says \"%s\"",
				*count, want, w->at_client.why, w->at_server.why);
		bed_turn(w);
	}
}

void
bed_turn_some(struct world *w, int turns)
{
	while (turns-- > 0)
		bed_turn(w);
}

struct ws_conn *
bed_dial(struct world *w, const char *host, struct ssl_ctx_st *tls)
{
	static const char *const headers[] = {
		"node_id: edge-1", "Authorization: Bearer secret", NULL};
	struct ws_dial d = {.addr = w->addr,
		.host = host,
		.path = "/project/edge-1/events",
		.headers = headers,
		.tls = tls};
	struct err err = {0};
	struct ws_conn *c = ws_dial(w->client, &d, &err);

	if (c == NULL)
		fail_msg("%s", err.text);
	return c;
}

void
bed_open_pair(struct world *w)
{
	bed_dial(w, "hub.example", w->node_tls);
	bed_wait_for(w, &w->at_client.opens, 1);
	bed_wait_for(w, &w->at_server.opens, 1);
}

void
bed_dial_must_fail(struct world *w, const char *host, struct ssl_ctx_st *tls, const char *why)
{
	bed_dial(w, host, tls);
	bed_wait_for(w, &w->at_client.closes, 1);
	assert_int_equal(w->at_client.opens, 0);
	if (strstr(w->at_client.why, why) == NULL)
		fail_msg("\"%s\" does not say \"%s\"", w->at_client.why, why);
	bed_turn_some(w, 20);
	assert_int_equal(w->at_server.opens, 0);
}

int
bed_plain_socket(struct world *w)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(connect(fd, &w->addr.sa, w->addr.len), 0);
	return fd;
}

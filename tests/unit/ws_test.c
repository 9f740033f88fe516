/*
 * Websockets of base/ws: server and client in one process on the loopback, on ports that the kernel
 * chooses. Every wait has an upper bound (PATIENCE_MS) and ends as soon as its condition holds.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <openssl/ssl.h>

#include "base/log.h"
#include "base/loop.h"
#include "base/pki.h"
#include "base/sock.h"
#include "base/ws.h"

enum { PATIENCE_MS = 15000, BIG = 5 * 1024 * 1024, LIMIT = 6 * 1024 * 1024, NOTE_MAX = 512 };

static const char *const hub_names[] = {"hub.example", "127.0.0.1", "::1", NULL};

struct side {
	int accepts, opens, texts, drains, closes;
	int refuse_with; /* HTTP status */
	bool echo;
	struct ws_conn *conn; /* the last that opened */
	char why[NOTE_MAX], path[NOTE_MAX], name[NOTE_MAX], node_id[NOTE_MAX], auth[NOTE_MAX];
	char absent[NOTE_MAX];
	char *text;
	size_t len;
};

struct world {
	char *ca, *ca_key, *other_ca, *other_ca_key;
	char *hub, *hub_key, *node, *node_key;
	struct ssl_ctx_st *hub_tls, *node_tls;
	struct loop *loop, *client_loop;
	struct ws *server, *client;
	struct side at_server, at_client;
	struct watch *listener;
	int listen_fd;
	bool frozen; /* the client's loop stands still */
	struct addr addr;
};

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
		ws_adopt(w->server, conn);
}

static char *
issue(const char *ca, const char *ca_key, const char *name, bool server, const char *key)
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

static int
make_world(void **state)
{
	struct world *w = xcalloc(1, sizeof *w);

	log_setup(getenv("WS_TEST_VERBOSE") != NULL ? LOG_LEVEL_DEBUG : LOG_LEVEL_ERROR,
		LOG_FORMAT_TEXT);
	assert_int_equal(pki_ca_new("CA", 10, &w->ca, &w->ca_key, NULL), 0);
	assert_int_equal(pki_ca_new("other", 10, &w->other_ca, &w->other_ca_key, NULL), 0);
	assert_int_equal(pki_key_new(&w->hub_key, NULL), 0);
	assert_int_equal(pki_key_new(&w->node_key, NULL), 0);
	w->hub = issue(w->ca, w->ca_key, "hub", true, w->hub_key);
	w->node = issue(w->ca, w->ca_key, "edge-1", false, w->node_key);
	assert_int_equal(pki_server_ctx(w->hub, w->hub_key, w->ca, &w->hub_tls, NULL), 0);
	assert_int_equal(pki_client_ctx(w->ca, w->node, w->node_key, &w->node_tls, NULL), 0);
	*state = w;
	return 0;
}

static int
free_world(void **state)
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

static void
start_with(struct world *w, uint64_t server_heartbeat_ms, uint64_t handshake_ms)
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
	assert_int_equal(sock_listen(&w->addr, 0, &w->listen_fd, &err), 0);
	assert_int_equal(getsockname(w->listen_fd, &w->addr.sa, &w->addr.len), 0);
	w->listener = watch_start(w->loop, w->listen_fd, WATCH_READ, on_socket, w);
}

static void
start(struct world *w)
{
	start_with(w, 4000, 0);
}

static void
stop(struct world *w)
{
	watch_stop(&w->listener);
	close(w->listen_fd);
	ws_free(&w->client);
	ws_free(&w->server);
	loop_free(&w->client_loop);
	loop_free(&w->loop);
	free(w->at_server.text);
	free(w->at_client.text);
}

static void
turn(struct world *w)
{
	loop_turn(w->loop);
	if (!w->frozen)
		loop_turn(w->client_loop);
	usleep(500);
}

/* Turns the loops until *count reaches `want` or patience ends. */
static void
wait_for(struct world *w, const int *count, int want)
{
	uint64_t until = mono_ms() + PATIENCE_MS;

	while (*count < want) {
		if (mono_ms() > until)
			fail_msg("waited in vain: have %d, want %d; client says \"%s\", server "
				 "says \"%s\"",
				*count, want, w->at_client.why, w->at_server.why);
		turn(w);
	}
}

static void
turn_some(struct world *w, int turns)
{
	while (turns-- > 0)
		turn(w);
}

static struct ws_conn *
dial(struct world *w, const char *host, struct ssl_ctx_st *tls)
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

static void
open_pair(struct world *w)
{
	dial(w, "hub.example", w->node_tls);
	wait_for(w, &w->at_client.opens, 1);
	wait_for(w, &w->at_server.opens, 1);
}

static void
dial_must_fail(struct world *w, const char *host, struct ssl_ctx_st *tls, const char *why)
{
	dial(w, host, tls);
	wait_for(w, &w->at_client.closes, 1);
	assert_int_equal(w->at_client.opens, 0);
	if (strstr(w->at_client.why, why) == NULL)
		fail_msg("\"%s\" does not say \"%s\"", w->at_client.why, why);
	turn_some(w, 20);
	assert_int_equal(w->at_server.opens, 0);
}

static void
test_open_shows_who_and_what(void **state)
{
	struct world *w = *state;

	start(w);
	open_pair(w);
	assert_int_equal(w->at_server.accepts, 1);
	assert_string_equal(w->at_server.path, "/project/edge-1/events");
	assert_string_equal(w->at_server.name, "edge-1");
	assert_string_equal(w->at_server.node_id, "edge-1");
	assert_string_equal(w->at_server.auth, "Bearer secret");
	assert_string_equal(w->at_server.absent, "");
	assert_non_null(strstr(ws_peer_addr(w->at_server.conn), "127.0.0.1:"));
	stop(w);
}

static void
test_echo(void **state)
{
	struct world *w = *state;

	start(w);
	w->at_server.echo = true;
	open_pair(w);
	assert_int_equal(ws_send(w->at_client.conn, "hello", 5), 0);
	wait_for(w, &w->at_client.texts, 1);
	assert_string_equal(w->at_client.text, "hello");
	assert_int_equal(ws_send(w->at_client.conn, "", 0), 0);
	wait_for(w, &w->at_client.texts, 2);
	assert_int_equal(w->at_client.len, 0);
	stop(w);
}

static void
test_big_message_both_ways(void **state)
{
	struct world *w = *state;
	char *big = xmalloc(BIG);
	size_t i;

	for (i = 0; i < BIG; i++)
		big[i] = (char)('a' + i % 23);
	start(w);
	w->at_server.echo = true;
	open_pair(w);
	assert_int_equal(ws_send(w->at_client.conn, big, BIG), 1);
	assert_int_equal(ws_queued(w->at_client.conn), BIG);
	assert_int_equal(ws_send(w->at_client.conn, "small", 5), 1);
	wait_for(w, &w->at_client.texts, 1);
	assert_int_equal(w->at_client.len, BIG);
	assert_memory_equal(w->at_client.text, big, BIG);
	wait_for(w, &w->at_client.texts, 2);
	assert_string_equal(w->at_client.text, "small");
	assert_int_equal(w->at_client.drains, 1);
	assert_int_equal(ws_queued(w->at_client.conn), 0);
	free(big);
	stop(w);
}

static void
test_too_big_message_closes(void **state)
{
	struct world *w = *state;
	char *big = xmalloc(LIMIT + 1);

	memset(big, 'x', LIMIT + 1);
	start(w);
	open_pair(w);
	ws_send(w->at_client.conn, big, LIMIT + 1);
	wait_for(w, &w->at_client.closes, 1);
	wait_for(w, &w->at_server.closes, 1);
	assert_int_equal(w->at_server.texts, 0);
	assert_non_null(strstr(w->at_server.why, "too large"));
	free(big);
	stop(w);
}

static void
test_refused_upgrade(void **state)
{
	struct world *w = *state;
	int status[] = {401, 403};
	size_t i;

	for (i = 0; i < ARRAY_LEN(status); i++) {
		char want[32];

		start(w);
		w->at_server.refuse_with = status[i];
		snprintf(want, sizeof want, "HTTP status %d", status[i]);
		dial_must_fail(w, "hub.example", w->node_tls, want);
		assert_int_equal(w->at_server.closes, 0);
		stop(w);
	}
}

static void
test_close_tells_code_and_reason(void **state)
{
	struct world *w = *state;

	start(w);
	open_pair(w);
	ws_send(w->at_server.conn, "last words", 10);
	ws_close(w->at_server.conn, 4001, "replaced by a newer connection");
	assert_int_equal(ws_send(w->at_server.conn, "too late", 8), -ENOTCONN);
	wait_for(w, &w->at_client.closes, 1);
	wait_for(w, &w->at_server.closes, 1);
	assert_string_equal(w->at_client.text, "last words");
	assert_string_equal(
		w->at_client.why, "the peer closed it: replaced by a newer connection (4001)");
	assert_string_equal(w->at_server.why, "we closed it: replaced by a newer connection");
	turn_some(w, 20);
	assert_int_equal(w->at_client.closes, 1);
	assert_int_equal(w->at_server.closes, 1);
	stop(w);
}

static void
test_close_while_dialling(void **state)
{
	struct world *w = *state;

	start(w);
	ws_close(dial(w, "hub.example", w->node_tls), 1000, "changed my mind");
	wait_for(w, &w->at_client.closes, 1);
	assert_int_equal(w->at_client.opens, 0);
	assert_non_null(strstr(w->at_client.why, "changed my mind"));
	stop(w);
}

static void
test_no_certificate_has_no_name(void **state)
{
	struct world *w = *state;
	struct ssl_ctx_st *tls = NULL;

	assert_int_equal(pki_client_ctx(w->ca, NULL, NULL, &tls, NULL), 0);
	start(w);
	dial(w, "127.0.0.1", tls);
	pki_ctx_free(&tls); /* the connection keeps it */
	wait_for(w, &w->at_server.opens, 1);
	assert_string_equal(w->at_server.name, "");
	stop(w);
}

static void
test_ipv6(void **state)
{
	struct world *w = *state;
	struct addr six = {0};
	struct err err = {0};
	int fd;

	start(w);
	assert_int_equal(addr_parse(&six, "[::1]:0", 0, &err), 0);
	if (sock_listen(&six, 0, &fd, &err) < 0) {
		stop(w);
		skip();
	}
	assert_int_equal(getsockname(fd, &six.sa, &six.len), 0);
	watch_stop(&w->listener);
	close(w->listen_fd);
	w->listen_fd = fd;
	w->addr = six;
	w->listener = watch_start(w->loop, fd, WATCH_READ, on_socket, w);
	dial(w, "::1", w->node_tls);
	wait_for(w, &w->at_client.opens, 1);
	stop(w);
}

static void
test_wrong_ca_is_refused(void **state)
{
	struct world *w = *state;
	struct ssl_ctx_st *tls = NULL;

	assert_int_equal(pki_client_ctx(w->other_ca, NULL, NULL, &tls, NULL), 0);
	start(w);
	dial_must_fail(w, "hub.example", tls, "not signed by the CA");
	assert_int_equal(w->at_server.accepts, 0);
	stop(w);
	pki_ctx_free(&tls);
}

static void
test_wrong_client_certificate_is_refused(void **state)
{
	struct world *w = *state;
	char *cert = issue(w->other_ca, w->other_ca_key, "edge-1", false, w->node_key);
	struct ssl_ctx_st *tls = NULL;

	assert_int_equal(pki_client_ctx(w->ca, cert, w->node_key, &tls, NULL), 0);
	start(w);
	dial_must_fail(w, "hub.example", tls, "the peer refused the TLS connection");
	assert_int_equal(w->at_server.accepts, 0);
	stop(w);
	pki_ctx_free(&tls);
	free(cert);
}

static void
test_wrong_host_is_refused(void **state)
{
	const char *hosts[] = {"hub.example.org", "hub", "127.0.0.2", "2001:db8::1"};
	struct world *w = *state;
	size_t i;

	for (i = 0; i < ARRAY_LEN(hosts); i++) {
		start(w);
		dial_must_fail(w, hosts[i], w->node_tls, "not made for the name");
		assert_int_equal(w->at_server.accepts, 0);
		stop(w);
	}
}

static void
test_join_by_hash(void **state)
{
	struct world *w = *state;
	char hash[PKI_HASH_TEXT], *ca = NULL;
	struct ssl_ctx_st *tls = NULL;

	assert_int_equal(pki_cert_hash(w->ca, hash, NULL), 0);
	assert_int_equal(pki_join_ctx(hash, &ca, &tls, NULL), 0);
	start(w);
	dial(w, "hub.example", tls);
	wait_for(w, &w->at_client.opens, 1);
	assert_string_equal(ca, w->ca);
	stop(w);
	pki_ctx_free(&tls);
	free(take_ptr(&ca));
	assert_int_equal(pki_cert_hash(w->other_ca, hash, NULL), 0);
	assert_int_equal(pki_join_ctx(hash, &ca, &tls, NULL), 0);
	start(w);
	dial_must_fail(w, "hub.example", tls, "join token");
	assert_int_equal(w->at_server.accepts, 0);
	assert_null(ca);
	stop(w);
	pki_ctx_free(&tls);
}

static void
test_nobody_listens(void **state)
{
	struct world *w = *state;
	int i;

	start(w);
	watch_stop(&w->listener);
	close(w->listen_fd);
	w->listen_fd = -1;
	for (i = 1; i <= 3; i++) {
		struct ws_dial d = {
			.addr = w->addr, .host = "hub.example", .path = "/", .tls = w->node_tls};

		if (ws_dial(w->client, &d, NULL) == NULL)
			note(w->at_client.why, "cannot connect to 127.0.0.1, at once"),
				w->at_client.closes++;
		wait_for(w, &w->at_client.closes, i);
		assert_non_null(strstr(w->at_client.why, "cannot connect to 127.0.0.1"));
		turn_some(w, 5);
	}
	stop(w);
}

/* connect(2) itself says no, as without a route. */
static void
test_no_route(void **state)
{
	struct world *w = *state;
	struct ws_dial d = {.addr = addr_ipv4(INADDR_BROADCAST, 1),
		.host = "hub.example",
		.path = "/",
		.tls = w->node_tls};
	struct err err = {0};
	int i;

	start(w);
	for (i = 0; i < 3; i++) {
		assert_null(ws_dial(w->client, &d, &err));
		assert_non_null(strstr(err.text, "cannot connect to 255.255.255.255:1: "));
		turn_some(w, 3);
	}
	dial(w, "hub.example", w->node_tls);
	wait_for(w, &w->at_client.opens, 1);
	assert_int_equal(w->at_client.closes, 0);
	stop(w);
}

static void
test_silent_peer_is_closed(void **state)
{
	struct world *w = *state;

	start_with(w, 100, 0);
	open_pair(w);
	w->frozen = true;
	wait_for(w, &w->at_server.closes, 1);
	assert_non_null(strstr(w->at_server.why, "no sign of life for "));
	w->frozen = false;
	wait_for(w, &w->at_client.closes, 1);
	stop(w);
}

static void
test_server_that_does_not_answer(void **state)
{
	struct world *w = *state;

	start_with(w, 4000, 300);
	watch_stop(&w->listener); /* connections wait in the kernel's queue */
	dial_must_fail(w, "hub.example", w->node_tls, "within 300 ms");
	stop(w);
}

static void
test_peer_that_ignores_the_close(void **state)
{
	struct world *w = *state;

	start_with(w, 4000, 300);
	open_pair(w);
	w->frozen = true;
	ws_close(w->at_server.conn, 1000, "bye");
	wait_for(w, &w->at_server.closes, 1);
	assert_string_equal(w->at_server.why, "we closed it: bye");
	w->frozen = false;
	wait_for(w, &w->at_client.closes, 1);
	stop(w);
}

/* --- strangers ------------------------------------------------------------ */

static int
plain_socket(struct world *w)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(connect(fd, &w->addr.sa, w->addr.len), 0);
	return fd;
}

static void
test_garbage_is_dropped(void **state)
{
	static const char *const garbage[] = {"GET / HTTP/1.1\r\nhost: x\r\n\r\n",
		"\x16\x03\x01\xff\xff garbage that looks like TLS",
		"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00",
		"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", ""};
	struct world *w = *state;
	size_t i;

	start(w);
	for (i = 0; i < ARRAY_LEN(garbage); i++) {
		int fd = plain_socket(w);
		char junk[64];
		uint64_t until = mono_ms() + PATIENCE_MS;
		ssize_t n = 1;

		assert_int_equal(write(fd, garbage[i], strlen(garbage[i])), strlen(garbage[i]));
		shutdown(fd, SHUT_WR);
		while (n != 0 && !(n < 0 && errno == ECONNRESET)) {
			assert_true(mono_ms() < until);
			turn_some(w, 1);
			n = recv(fd, junk, sizeof junk, MSG_DONTWAIT);
		}
		close(fd);
	}
	open_pair(w);
	assert_int_equal(w->at_server.accepts, 1);
	stop(w);
}

static void
test_mute_stranger_is_dropped(void **state)
{
	struct world *w = *state;
	uint64_t until = mono_ms() + PATIENCE_MS;
	char junk[8];
	int fd;

	start_with(w, 4000, 300);
	fd = plain_socket(w);
	while (recv(fd, junk, sizeof junk, MSG_DONTWAIT) < 0 && errno == EAGAIN) {
		assert_true(mono_ms() < until);
		turn(w);
	}
	close(fd);
	stop(w);
}

/* Says `request` over TLS and returns all that comes back until the server ends the connection. */
static size_t
talk_tls(struct world *w, const void *request, size_t len, char *reply, size_t size)
{
	SSL *ssl = SSL_new(w->node_tls);
	int fd = plain_socket(w), n = -1;
	uint64_t until = mono_ms() + PATIENCE_MS;
	bool said = false;
	size_t got = 0;

	assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	SSL_set_fd(ssl, fd);
	SSL_set_connect_state(ssl);
	while (n < 0 || got < size - 1) {
		int why;

		assert_true(mono_ms() < until);
		turn(w);
		if (!said && SSL_do_handshake(ssl) == 1)
			said = SSL_write(ssl, request, (int)len) == (int)len;
		n = SSL_read(ssl, reply + got, (int)(size - 1 - got));
		why = SSL_get_error(ssl, n);
		if (n > 0)
			got += (size_t)n;
		else if (why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE)
			break;
	}
	SSL_free(ssl);
	close(fd);
	reply[got] = '\0';
	return got;
}

static void
test_plain_http_gets_426(void **state)
{
	static const char get[] = "GET /metrics HTTP/1.1\r\nhost: hub.example\r\n\r\n";
	struct world *w = *state;
	char reply[512];

	start(w);
	talk_tls(w, get, sizeof get - 1, reply, sizeof reply);
	assert_int_equal(strncmp(reply, "HTTP/1.1 426 ", 13), 0);
	assert_int_equal(w->at_server.accepts, 0);
	stop(w);
}

static void
test_garbage_over_tls_is_dropped(void **state)
{
	struct world *w = *state;
	char junk[6000], reply[2048];
	size_t i;

	start_with(w, 4000, 500);
	for (i = 0; i < sizeof junk; i++)
		junk[i] = (char)(i * 7 + i / 256);
	talk_tls(w, junk, sizeof junk, reply, sizeof reply);
	memset(junk, 'a', sizeof junk);
	memcpy(junk, "GET /", 5); /* a path without end */
	talk_tls(w, junk, sizeof junk, reply, sizeof reply);
	assert_int_equal(w->at_server.accepts, 0);
	open_pair(w);
	stop(w);
}

#define UPGRADE                                                                                    \
	"GET /p/n/events HTTP/1.1\r\nhost: hub.example\r\nupgrade: websocket\r\nconnection: "      \
	"upgrade\r\n"                                                                              \
	"sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\nsec-websocket-version: 13\r\n\r\n"

static void
test_bad_frames_end_the_connection(void **state)
{
	static const char *const frames[] = {
		UPGRADE "\x83\x80"
			"abcd", /* reserved opcode */
		UPGRADE "\x82\x81"
			"abcd"
			"x", /* binary */
		UPGRADE "\x81\x81"
			"abcd"
			"\x9d", /* not UTF-8 */
		UPGRADE "\xf1\x81"
			"abcd"
			"x", /* reserved bits */
		UPGRADE "\x81\xff\x7f\xff\xff\xff\xff\xff\xff\xff"
			"abcdefgh", /* 2^63 bytes */
	};
	struct world *w = *state;
	char reply[4096];
	size_t i;

	start_with(w, 4000, 500);
	for (i = 0; i < ARRAY_LEN(frames); i++) {
		talk_tls(w, frames[i], strlen(frames[i]), reply, sizeof reply);
		wait_for(w, &w->at_server.closes, (int)i + 1);
		assert_int_equal(w->at_server.opens, (int)i + 1);
	}
	assert_int_equal(w->at_server.texts, 0);
	stop(w);
}

static void
test_free_with_open_connections(void **state)
{
	struct world *w = *state;
	int i, stranger;

	start(w);
	for (i = 0; i < 3; i++)
		dial(w, "hub.example", w->node_tls);
	wait_for(w, &w->at_client.opens, 3);
	wait_for(w, &w->at_server.opens, 3);
	ws_send(w->at_client.conn, "unsent", 6);
	stranger = plain_socket(w);
	turn_some(w, 5);
	dial(w, "hub.example", w->node_tls);
	ws_free(&w->client);
	ws_free(&w->server);
	assert_int_equal(w->at_client.closes, 4);
	assert_int_equal(w->at_server.closes, 3);
	close(stranger);
	stop(w);
}

enum { NEW_FDS = 16 };

static void
open_some(void *arg)
{
	int *fds = arg, i;

	for (i = 0; i < NEW_FDS; i++)
		fds[i] = fcntl(0, F_DUPFD_CLOEXEC, 0);
}

/* libwebsockets closes a descriptor of its own twice; what others open in between must survive. */
static void
test_free_leaves_other_descriptors_alone(void **state)
{
	struct world *w = *state;
	int fds[NEW_FDS], i, lost = 0;

	start(w);
	loop_post(w->loop, open_some, fds);
	ws_free(&w->server);
	for (i = 0; i < NEW_FDS; i++) {
		if (close(fds[i]) < 0)
			lost++;
	}
	assert_int_equal(lost, 0);
	stop(w);
}

static void
test_many_connections_come_and_go(void **state)
{
	struct world *w = *state;
	int i;

	start(w);
	for (i = 1; i <= 30; i++) {
		dial(w, "hub.example", w->node_tls);
		wait_for(w, &w->at_client.opens, i);
		ws_close(w->at_client.conn, 1000, "done");
		wait_for(w, &w->at_client.closes, i);
		wait_for(w, &w->at_server.closes, i);
	}
	stop(w);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_open_shows_who_and_what),
		cmocka_unit_test(test_echo),
		cmocka_unit_test(test_big_message_both_ways),
		cmocka_unit_test(test_too_big_message_closes),
		cmocka_unit_test(test_refused_upgrade),
		cmocka_unit_test(test_close_tells_code_and_reason),
		cmocka_unit_test(test_close_while_dialling),
		cmocka_unit_test(test_no_certificate_has_no_name),
		cmocka_unit_test(test_ipv6),
		cmocka_unit_test(test_wrong_ca_is_refused),
		cmocka_unit_test(test_wrong_client_certificate_is_refused),
		cmocka_unit_test(test_wrong_host_is_refused),
		cmocka_unit_test(test_join_by_hash),
		cmocka_unit_test(test_nobody_listens),
		cmocka_unit_test(test_no_route),
		cmocka_unit_test(test_silent_peer_is_closed),
		cmocka_unit_test(test_server_that_does_not_answer),
		cmocka_unit_test(test_peer_that_ignores_the_close),
		cmocka_unit_test(test_garbage_is_dropped),
		cmocka_unit_test(test_mute_stranger_is_dropped),
		cmocka_unit_test(test_plain_http_gets_426),
		cmocka_unit_test(test_garbage_over_tls_is_dropped),
		cmocka_unit_test(test_bad_frames_end_the_connection),
		cmocka_unit_test(test_free_with_open_connections),
		cmocka_unit_test(test_free_leaves_other_descriptors_alone),
		cmocka_unit_test(test_many_connections_come_and_go),
	};

	return cmocka_run_group_tests(tests, make_world, free_world);
}

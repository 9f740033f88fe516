/* Websockets of base/http/ws between peers that mean well: messages, closing, freeing. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/base/http/ws_bed.h"

enum { BIG = 5 * 1024 * 1024 };

/* libwebsockets' own: called by the library in place of it. `timer` begins with a list entry of
 * three pointers, then comes the time in us. */
int __lws_sul_insert(void *all, void *timer);

static const int64_t MINUTE_US = 60000000, DAILY_US = 86000000000;
static int64_t farthest_us;

int
__lws_sul_insert(void *all, void *timer)
{
	static int (*real)(void *, void *);
	int64_t at_us, in_us;

	if (real == NULL)
		*(void **)&real = dlsym(RTLD_NEXT, "__lws_sul_insert");
	memcpy(&at_us, (char *)timer + 3 * sizeof(void *), sizeof at_us);
	in_us = at_us - (int64_t)mono_ms() * 1000;
	if (in_us < DAILY_US) /* when it looks at its own certificates */
		farthest_us = MAX(farthest_us, in_us);
	return real(all, timer);
}

/* Its timers are one sorted list: those of open connections would be walked at every insertion. */
static void
test_open_connections_keep_no_timer_of_the_library(void **state)
{
	struct world *w = *state;

	bed_start(w);
	bed_open_pair(w);
	assert_in_range(farthest_us, 1, MINUTE_US);
	bed_stop(w);
}

static void
test_open_shows_who_and_what(void **state)
{
	struct world *w = *state;

	bed_start(w);
	bed_open_pair(w);
	assert_int_equal(w->at_server.accepts, 1);
	assert_string_equal(w->at_server.path, "/project/edge-1/events");
	assert_string_equal(w->at_server.name, "edge-1");
	assert_string_equal(w->at_server.node_id, "edge-1");
	assert_string_equal(w->at_server.auth, "Bearer secret");
	assert_string_equal(w->at_server.absent, "");
	assert_non_null(strstr(ws_peer_addr(w->at_server.conn), "127.0.0.1:"));
	bed_stop(w);
}

static void
test_echo(void **state)
{
	struct world *w = *state;

	bed_start(w);
	w->at_server.echo = true;
	bed_open_pair(w);
	assert_int_equal(ws_send(w->at_client.conn, "hello", 5), 0);
	bed_wait_for(w, &w->at_client.texts, 1);
	assert_string_equal(w->at_client.text, "hello");
	assert_int_equal(ws_send(w->at_client.conn, "", 0), 0);
	bed_wait_for(w, &w->at_client.texts, 2);
	assert_int_equal(w->at_client.len, 0);
	bed_stop(w);
}

static void
test_big_message_both_ways(void **state)
{
	struct world *w = *state;
	char *big = xmalloc(BIG);
	size_t i;

	for (i = 0; i < BIG; i++)
		big[i] = (char)('a' + i % 23);
	bed_start(w);
	w->at_server.echo = true;
	bed_open_pair(w);
	assert_int_equal(ws_send(w->at_client.conn, big, BIG), 1);
	assert_int_equal(ws_queued(w->at_client.conn), BIG);
	assert_int_equal(ws_send(w->at_client.conn, "small", 5), 1);
	bed_wait_for(w, &w->at_client.texts, 1);
	assert_int_equal(w->at_client.len, BIG);
	assert_memory_equal(w->at_client.text, big, BIG);
	bed_wait_for(w, &w->at_client.texts, 2);
	assert_string_equal(w->at_client.text, "small");
	assert_int_equal(w->at_client.drains, 1);
	assert_int_equal(ws_queued(w->at_client.conn), 0);
	free(big);
	bed_stop(w);
}

static void
test_too_big_message_closes(void **state)
{
	struct world *w = *state;
	char *big = xmalloc(LIMIT + 1);

	memset(big, 'x', LIMIT + 1);
	bed_start(w);
	bed_open_pair(w);
	ws_send(w->at_client.conn, big, LIMIT + 1);
	bed_wait_for(w, &w->at_client.closes, 1);
	bed_wait_for(w, &w->at_server.closes, 1);
	assert_int_equal(w->at_server.texts, 0);
	assert_non_null(strstr(w->at_server.why, "too large"));
	free(big);
	bed_stop(w);
}

static void
test_refused_upgrade(void **state)
{
	struct world *w = *state;
	int status[] = {401, 403};
	size_t i;

	for (i = 0; i < ARRAY_LEN(status); i++) {
		char want[32];

		bed_start(w);
		w->at_server.refuse_with = status[i];
		snprintf(want, sizeof want, "HTTP status %d", status[i]);
		bed_dial_must_fail(w, "hub.example", w->node_tls, want);
		assert_int_equal(w->at_server.closes, 0);
		bed_stop(w);
	}
}

/* 503 says when to come again; another status does not. */
static void
test_told_to_wait(void **state)
{
	struct world *w = *state;

	bed_start(w);
	w->at_server.refuse_with = 503;
	w->at_server.retry_after_s = 7;
	bed_dial_must_fail(w, "hub.example", w->node_tls, "HTTP status 503");
	assert_in_range(w->at_client.asked_to_wait_ms, 7000, 10500);
	bed_stop(w);
	bed_start(w);
	w->at_server.refuse_with = 403;
	w->at_server.retry_after_s = 7;
	bed_dial_must_fail(w, "hub.example", w->node_tls, "HTTP status 403");
	assert_int_equal(w->at_client.asked_to_wait_ms, 0);
	bed_stop(w);
}

static void
test_close_tells_code_and_reason(void **state)
{
	struct world *w = *state;

	bed_start(w);
	bed_open_pair(w);
	ws_send(w->at_server.conn, "last words", 10);
	ws_close(w->at_server.conn, 4001, "replaced by a newer connection");
	assert_int_equal(ws_send(w->at_server.conn, "too late", 8), -ENOTCONN);
	bed_wait_for(w, &w->at_client.closes, 1);
	bed_wait_for(w, &w->at_server.closes, 1);
	assert_string_equal(w->at_client.text, "last words");
	assert_string_equal(
		w->at_client.why, "the peer closed it: replaced by a newer connection (4001)");
	assert_string_equal(w->at_server.why, "we closed it: replaced by a newer connection");
	bed_turn_some(w, 20);
	assert_int_equal(w->at_client.closes, 1);
	assert_int_equal(w->at_server.closes, 1);
	bed_stop(w);
}

static void
test_close_while_dialling(void **state)
{
	struct world *w = *state;

	bed_start(w);
	ws_close(bed_dial(w, "hub.example", w->node_tls), 1000, "changed my mind");
	bed_wait_for(w, &w->at_client.closes, 1);
	assert_int_equal(w->at_client.opens, 0);
	assert_non_null(strstr(w->at_client.why, "changed my mind"));
	bed_stop(w);
}

static void
test_no_certificate_has_no_name(void **state)
{
	struct world *w = *state;
	struct ssl_ctx_st *tls = NULL;

	assert_int_equal(pki_client_ctx(w->ca, NULL, NULL, &tls, NULL), 0);
	bed_start(w);
	bed_dial(w, "127.0.0.1", tls);
	pki_ctx_free(&tls); /* the connection keeps it */
	bed_wait_for(w, &w->at_server.opens, 1);
	assert_string_equal(w->at_server.name, "");
	bed_stop(w);
}

static void
test_ipv6(void **state)
{
	struct world *w = *state;
	struct err err = {0};

	bed_start(w);
	bed_stop_listening(w);
	assert_int_equal(addr_parse(&w->addr, "[::1]:0", 0, &err), 0);
	if (bed_listen(w, &err) < 0) {
		bed_stop(w);
		skip();
	}
	bed_dial(w, "::1", w->node_tls);
	bed_wait_for(w, &w->at_client.opens, 1);
	bed_stop(w);
}

static void
test_join_by_hash(void **state)
{
	struct world *w = *state;
	char hash[PKI_HASH_TEXT], *ca = NULL;
	struct ssl_ctx_st *tls = NULL;

	assert_int_equal(pki_cert_hash(w->ca, hash, NULL), 0);
	assert_int_equal(pki_join_ctx(hash, &ca, &tls, NULL), 0);
	bed_start(w);
	bed_dial(w, "hub.example", tls);
	bed_wait_for(w, &w->at_client.opens, 1);
	assert_string_equal(ca, w->ca);
	bed_stop(w);
	pki_ctx_free(&tls);
	free(take_ptr(&ca));
	assert_int_equal(pki_cert_hash(w->other_ca, hash, NULL), 0);
	assert_int_equal(pki_join_ctx(hash, &ca, &tls, NULL), 0);
	bed_start(w);
	bed_dial_must_fail(w, "hub.example", tls, "join token");
	assert_int_equal(w->at_server.accepts, 0);
	assert_null(ca);
	bed_stop(w);
	pki_ctx_free(&tls);
}

static void
test_free_with_open_connections(void **state)
{
	struct world *w = *state;
	int i, stranger;

	bed_start(w);
	for (i = 0; i < 3; i++)
		bed_dial(w, "hub.example", w->node_tls);
	bed_wait_for(w, &w->at_client.opens, 3);
	bed_wait_for(w, &w->at_server.opens, 3);
	ws_send(w->at_client.conn, "unsent", 6);
	stranger = bed_plain_socket(w);
	bed_turn_some(w, 5);
	bed_dial(w, "hub.example", w->node_tls);
	ws_free(&w->client);
	ws_free(&w->server);
	assert_int_equal(w->at_client.closes, 4);
	assert_int_equal(w->at_server.closes, 3);
	close(stranger);
	bed_stop(w);
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

	bed_start(w);
	loop_post(w->loop, open_some, fds);
	ws_free(&w->server);
	for (i = 0; i < NEW_FDS; i++) {
		if (close(fds[i]) < 0)
			lost++;
	}
	assert_int_equal(lost, 0);
	bed_stop(w);
}

static void
test_many_connections_come_and_go(void **state)
{
	struct world *w = *state;
	int i;

	bed_start(w);
	for (i = 1; i <= 30; i++) {
		bed_dial(w, "hub.example", w->node_tls);
		bed_wait_for(w, &w->at_client.opens, i);
		ws_close(w->at_client.conn, 1000, "done");
		bed_wait_for(w, &w->at_client.closes, i);
		bed_wait_for(w, &w->at_server.closes, i);
	}
	bed_stop(w);
}

enum { AHEAD_MS = 20, TICKS_MS = 3 * LIVENESS_LOOK_MS };

/* A connection of the same peer on another loop, whose clock was read later, has just heard it. */
static void
test_heard_later_than_its_own_clock(void **state)
{
	struct world *w = *state;
	struct liveness *all = liveness_new();
	struct liveness_line other;
	uint64_t now;

	bed_start(w);
	bed_open_pair(w);
	now = loop_now_ms(w->loop);
	liveness_join(all, "edge-1", &other, now);
	ws_share_life(w->at_server.conn, all, "edge-1", false);
	ws_ask(w->at_server.conn); /* so that the next tick looks at it */
	for (uint64_t until = now + TICKS_MS; now < until; now = loop_now_ms(w->loop)) {
		liveness_heard(&other, now + AHEAD_MS);
		bed_turn(w);
		assert_string_equal(w->at_server.why, "");
	}
	bed_stop(w);
	liveness_leave(&other);
	liveness_free(&all);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_open_shows_who_and_what),
		cmocka_unit_test(test_echo),
		cmocka_unit_test(test_open_connections_keep_no_timer_of_the_library),
		cmocka_unit_test(test_big_message_both_ways),
		cmocka_unit_test(test_too_big_message_closes),
		cmocka_unit_test(test_refused_upgrade),
		cmocka_unit_test(test_told_to_wait),
		cmocka_unit_test(test_close_tells_code_and_reason),
		cmocka_unit_test(test_close_while_dialling),
		cmocka_unit_test(test_no_certificate_has_no_name),
		cmocka_unit_test(test_ipv6),
		cmocka_unit_test(test_join_by_hash),
		cmocka_unit_test(test_free_with_open_connections),
		cmocka_unit_test(test_free_leaves_other_descriptors_alone),
		cmocka_unit_test(test_many_connections_come_and_go),
		cmocka_unit_test(test_heard_later_than_its_own_clock),
	};

	return cmocka_run_group_tests(tests, bed_make, bed_free);
}

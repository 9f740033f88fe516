/* Websockets of base/http/ws against peers that are wrong, silent, absent or hostile. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <openssl/ssl.h>

#include "tests/unit/base/http/ws_bed.h"

static void
test_wrong_ca_is_refused(void **state)
{
	struct world *w = *state;
	struct ssl_ctx_st *tls = NULL;

	assert_int_equal(pki_client_ctx(w->other_ca, NULL, NULL, &tls, NULL), 0);
	bed_start(w);
	bed_dial_must_fail(w, "hub.example", tls, "not signed by the CA");
	assert_int_equal(w->at_server.accepts, 0);
	bed_stop(w);
	pki_ctx_free(&tls);
}

static void
test_wrong_client_certificate_is_refused(void **state)
{
	struct world *w = *state;
	char *cert = bed_issue(w->other_ca, w->other_ca_key, "edge-1", false, w->node_key);
	struct ssl_ctx_st *tls = NULL;

	assert_int_equal(pki_client_ctx(w->ca, cert, w->node_key, &tls, NULL), 0);
	bed_start(w);
	bed_dial_must_fail(w, "hub.example", tls, "the peer refused the TLS connection");
	assert_int_equal(w->at_server.accepts, 0);
	bed_stop(w);
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
		bed_start(w);
		bed_dial_must_fail(w, hosts[i], w->node_tls, "not made for the name");
		assert_int_equal(w->at_server.accepts, 0);
		bed_stop(w);
	}
}

static void
test_nobody_listens(void **state)
{
	struct world *w = *state;
	int i;

	bed_start(w);
	bed_stop_listening(w);
	for (i = 1; i <= 3; i++) {
		struct ws_dial d = {
			.addr = w->addr, .host = "hub.example", .path = "/", .tls = w->node_tls};
		struct err err = {0};
		struct ws_conn *c = ws_dial(w->client, &d, &err);

		if (c == NULL)
			w->at_client.closes++; /* refused at once */
		bed_wait_for(w, &w->at_client.closes, i);
		assert_non_null(strstr(
			c == NULL ? err.text : w->at_client.why, "cannot connect to 127.0.0.1"));
		bed_turn_some(w, 5);
	}
	bed_stop(w);
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

	bed_start(w);
	for (i = 0; i < 3; i++) {
		assert_null(ws_dial(w->client, &d, &err));
		assert_non_null(strstr(err.text, "cannot connect to 255.255.255.255:1: "));
		bed_turn_some(w, 3);
	}
	bed_dial(w, "hub.example", w->node_tls);
	bed_wait_for(w, &w->at_client.opens, 1);
	assert_int_equal(w->at_client.closes, 0);
	bed_stop(w);
}

static void
test_silent_peer_is_closed(void **state)
{
	struct world *w = *state;

	bed_start_with(w, 100, 0);
	bed_open_pair(w);
	w->frozen = true;
	bed_wait_for(w, &w->at_server.closes, 1);
	assert_non_null(strstr(w->at_server.why, "no sign of life for "));
	w->frozen = false;
	bed_wait_for(w, &w->at_client.closes, 1);
	bed_stop(w);
}

static void
test_server_that_does_not_answer(void **state)
{
	struct world *w = *state;

	bed_start_with(w, 4000, 300);
	watch_stop(&w->listener); /* connections wait in the kernel's queue */
	bed_dial_must_fail(w, "hub.example", w->node_tls, "within 300 ms");
	bed_stop(w);
}

static void
test_peer_that_ignores_the_close(void **state)
{
	struct world *w = *state;

	bed_start_with(w, 4000, 3000);
	bed_open_pair(w);
	w->frozen = true;
	ws_close(w->at_server.conn, 1000, "bye");
	bed_wait_for(w, &w->at_server.closes, 1);
	assert_string_equal(w->at_server.why, "we closed it: bye");
	w->frozen = false;
	bed_wait_for(w, &w->at_client.closes, 1);
	bed_stop(w);
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

	bed_start(w);
	for (i = 0; i < ARRAY_LEN(garbage); i++) {
		int fd = bed_plain_socket(w);
		char junk[64];
		ssize_t n = 1;

		assert_int_equal(write(fd, garbage[i], strlen(garbage[i])), strlen(garbage[i]));
		shutdown(fd, SHUT_WR);
		patience_until(bed_turn(w),
			(n = recv(fd, junk, sizeof junk, MSG_DONTWAIT)) == 0 ||
				(n < 0 && errno == ECONNRESET));
		close(fd);
	}
	bed_open_pair(w);
	assert_int_equal(w->at_server.accepts, 1);
	bed_stop(w);
}

static void
test_mute_stranger_is_dropped(void **state)
{
	struct world *w = *state;
	char junk[8];
	int fd;

	bed_start_with(w, 4000, 300);
	fd = bed_plain_socket(w);
	patience_until(
		bed_turn(w), recv(fd, junk, sizeof junk, MSG_DONTWAIT) >= 0 || errno != EAGAIN);
	close(fd);
	bed_stop(w);
}

/* Says `request` over TLS and returns all that comes back until the server ends the connection. */
static size_t
talk_tls(struct world *w, const void *request, size_t len, char *reply, size_t size)
{
	SSL *ssl = SSL_new(w->node_tls);
	int fd = bed_plain_socket(w), n = -1;
	bool said = false;
	size_t got = 0;

	assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	SSL_set_fd(ssl, fd);
	SSL_set_connect_state(ssl);
	for (unsigned turns = 0; n < 0 || got < size - 1; turns++) {
		int why;

		assert_true(turns < PATIENCE_TURNS);
		bed_turn(w);
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

	bed_start(w);
	talk_tls(w, get, sizeof get - 1, reply, sizeof reply);
	assert_int_equal(strncmp(reply, "HTTP/1.1 426 ", 13), 0);
	assert_int_equal(w->at_server.accepts, 0);
	bed_stop(w);
}

static void
test_garbage_over_tls_is_dropped(void **state)
{
	struct world *w = *state;
	char junk[6000], reply[2048];
	size_t i;

	bed_start_with(w, 4000, 3000);
	for (i = 0; i < sizeof junk; i++)
		junk[i] = (char)(i * 7 + i / 256);
	talk_tls(w, junk, sizeof junk, reply, sizeof reply);
	memset(junk, 'a', sizeof junk);
	memcpy(junk, "GET /", 5); /* a path without end */
	talk_tls(w, junk, sizeof junk, reply, sizeof reply);
	assert_int_equal(w->at_server.accepts, 0);
	bed_open_pair(w);
	bed_stop(w);
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

	bed_start_with(w, 4000, 3000);
	for (i = 0; i < ARRAY_LEN(frames); i++) {
		talk_tls(w, frames[i], strlen(frames[i]), reply, sizeof reply);
		bed_wait_for(w, &w->at_server.closes, (int)i + 1);
		assert_int_equal(w->at_server.opens, (int)i + 1);
	}
	assert_int_equal(w->at_server.texts, 0);
	bed_stop(w);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_wrong_ca_is_refused),
		cmocka_unit_test(test_wrong_client_certificate_is_refused),
		cmocka_unit_test(test_wrong_host_is_refused),
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
	};

	return cmocka_run_group_tests(tests, bed_make, bed_free);
}

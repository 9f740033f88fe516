/* TLS streams on loopback: who is let in, what is agreed on, and what the sockets are told. */
#include <errno.h>
#include <netinet/tcp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <openssl/ssl.h>

#include "base/core/sock.h"
#include "base/tls/tls_session.h"
#include "base/tls/tls_stream.h"
#include "tests/fake/clock.h"
#include "tests/unit/base/tls/tls_keys.h"
#include "tests/unit/patience.h"

struct side {
	struct tls_stream *stream;
	bool open, failed;
	unsigned readable;
};

struct pair {
	struct loop *loop;
	struct side node, hub;
	int fd[2]; /* node's, hub's */
};

static struct tls_keys ours, strangers;
static enum tls_proof proof;
static uint64_t key_records;
static struct preauth_conn *place; /* the hub's */
static unsigned new_keys; /* seen by who reads */

static int
setup(void **state)
{
	(void)state;
	signal(SIGPIPE, SIG_IGN);
	tls_keys_make(&ours);
	tls_keys_make(&strangers);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	tls_keys_free(&ours);
	tls_keys_free(&strangers);
	return 0;
}

static void
on_tls(void *arg, enum tls_event event)
{
	struct side *s = arg;

	s->open |= event == TLS_OPEN;
	s->failed |= event == TLS_FAILED;
	s->readable += event == TLS_READABLE;
}

#define until(p, condition) patience_until(patience_turn((p)->loop), condition)

static void
connect_pair(struct pair *p)
{
	struct addr a = addr_ipv4(INADDR_LOOPBACK, 0);
	int listener;

	memset(p, 0, sizeof *p);
	assert_int_equal(loop_new(&p->loop, NULL), 0);
	assert_int_equal(sock_listen(&a, 0, &listener, NULL), 0);
	assert_int_equal(getsockname(listener, &a.sa, &a.len), 0);
	assert_int_equal(sock_connect(&a, 0, &p->fd[0]), 0);
	do
		p->fd[1] = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	while (p->fd[1] < 0 && errno == EAGAIN);
	close(listener);
}

/* The handshake messages that come; RFC 8446 section 4.6.3: key_update is 24. */
static void
on_message(int written, int version, int type, const void *bytes, size_t n, SSL *ssl, void *arg)
{
	(void)version;
	(void)ssl;
	(void)arg;
	if (!written && type == SSL3_RT_HANDSHAKE && n > 0 &&
		*(const uint8_t *)bytes == SSL3_MT_KEY_UPDATE)
		new_keys++;
}

static void
start(struct pair *p, bool hub, struct ssl_ctx_st *ctx, const char *host, const char *alpn)
{
	struct side *side = hub ? &p->hub : &p->node;
	struct tls_setup s = {.loop = p->loop,
		.fd = p->fd[hub],
		.ctx = ctx,
		.host = host,
		.alpn = alpn,
		.deadline_ms = 30000,
		.proof = proof,
		.place = hub ? place : NULL,
		.key_records = key_records,
		.on = on_tls,
		.arg = side};

	SSL_CTX_set_msg_callback(ctx, on_message);
	assert_int_equal(tls_stream_new(&s, &side->stream, NULL), 0);
	pki_ctx_free(&ctx);
}

static void
stop(struct pair *p)
{
	tls_stream_free(&p->node.stream);
	tls_stream_free(&p->hub.stream);
	loop_free(&p->loop);
}

static struct ssl_ctx_st *
hub_ctx(const struct tls_keys *k)
{
	struct ssl_ctx_st *ctx;

	assert_int_equal(pki_server_ctx(k->hub, k->hub_key, k->ca, &ctx, NULL), 0);
	return ctx;
}

/* The node trusts one CA and shows a certificate of another. */
static struct ssl_ctx_st *
node_ctx(const struct tls_keys *trusted, const struct tls_keys *own)
{
	struct ssl_ctx_st *ctx;

	assert_int_equal(pki_client_ctx(trusted->ca, own != NULL ? own->node : NULL,
				 own != NULL ? own->node_key : NULL, &ctx, NULL),
		0);
	return ctx;
}

static void
open_pair(struct pair *p)
{
	connect_pair(p);
	start(p, false, node_ctx(&ours, &ours), "hub.example", "a/1");
	start(p, true, hub_ctx(&ours), NULL, "a/1");
	until(p, p->node.open && p->hub.open);
}

static void
test_both_are_known(void **state)
{
	struct pair p;
	char bytes[100];

	(void)state;
	open_pair(&p);
	assert_string_equal(tls_stream_peer(p.hub.stream), "edge-1");
	assert_string_equal(tls_stream_peer(p.node.stream), "hub.example");
	assert_int_equal(tls_stream_read(p.hub.stream, bytes, sizeof bytes), -EAGAIN);
	assert_int_equal(tls_stream_write(p.node.stream, "hello", 5), 5);
	until(&p, p.hub.readable > 0);
	assert_int_equal(tls_stream_read(p.hub.stream, bytes, 2), 2);
	assert_int_equal(tls_stream_read(p.hub.stream, bytes + 2, sizeof bytes - 2), 3);
	assert_memory_equal(bytes, "hello", 5);
	tls_stream_free(&p.node.stream); /* says close_notify */
	until(&p, tls_stream_read(p.hub.stream, bytes, sizeof bytes) == 0);
	stop(&p);
}

static unsigned connections; /* TLS objects there are */

static void
on_connection_new(void *ssl, void *data, CRYPTO_EX_DATA *all, int index, long arg, void *of)
{
	(void)ssl, (void)data, (void)all, (void)index, (void)arg, (void)of;
	connections++;
}

static void
on_connection_free(void *ssl, void *data, CRYPTO_EX_DATA *all, int index, long arg, void *of)
{
	(void)ssl, (void)data, (void)all, (void)index, (void)arg, (void)of;
	connections--;
}

/* A stranger who says nothing, or whose turn has not come, costs a server no TLS object. */
static void
test_none_before_the_first_step(void **state)
{
	const struct addr from = addr_ipv4(INADDR_LOOPBACK, 1);
	struct preauth_conn stranger = {.of = NULL};
	struct preauth *preauth;
	struct pair p;

	(void)state;
	assert_true(
		SSL_get_ex_new_index(0, NULL, on_connection_new, NULL, on_connection_free) >= 0);
	connect_pair(&p);
	preauth = preauth_new(p.loop, 1, 1);
	assert_true(preauth_enter(preauth, &stranger, &from, loop_now_ms(p.loop)));
	place = &stranger;
	start(&p, true, hub_ctx(&ours), NULL, "a/1");
	place = NULL;
	loop_turn(p.loop);
	assert_int_equal(connections, 0);
	start(&p, false, node_ctx(&ours, &ours), "hub.example", "a/1");
	until(&p, stranger.step != NULL);
	assert_int_equal(connections, 1); /* the client's */
	until(&p, p.node.open && p.hub.open);
	assert_int_equal(connections, 2);
	preauth_leave(&stranger);
	preauth_free(&preauth);
	stop(&p);
	assert_int_equal(connections, 0);
}

/* A killed process says nothing: its socket just ends. */
static void
test_end_without_a_word(void **state)
{
	struct pair p;
	char bytes[100];
	ssize_t n;

	(void)state;
	open_pair(&p);
	shutdown(p.fd[0], SHUT_WR);
	until(&p, (n = tls_stream_read(p.hub.stream, bytes, sizeof bytes)) != -EAGAIN);
	assert_int_equal(n, 0);
	stop(&p);
}

enum { TOTAL = 8 << 20, PIECE = 100000 };

static ssize_t
write_at_once(struct tls_stream *s, const uint8_t *data, size_t n)
{
	return tls_stream_write(s, data, n);
}

/* Records of all sizes, small ones among whole ones, that go together. */
static ssize_t
write_gathered(struct tls_stream *s, const uint8_t *data, size_t n)
{
	size_t total = 0;
	ssize_t did;
	int rc;

	while (total < n) {
		size_t most = 1 + (total * 31 + n * 7) % TLS_RECORD_BYTES;

		did = tls_stream_gather(s, data + total,
			MIN(n - total, total % 3 == 0 ? most : (size_t)TLS_RECORD_BYTES));
		if (did < 0)
			return total > 0 && did == -EAGAIN ? (ssize_t)total : did;
		total += (size_t)did;
	}
	rc = tls_stream_send(s);
	assert_true(rc == 0 || rc == -EAGAIN);
	return (ssize_t)total;
}

/* As much as the socket takes, nothing lost and nothing twice. */
static void
pass_bulk(ssize_t (*write)(struct tls_stream *s, const uint8_t *data, size_t n))
{
	static uint8_t out[PIECE], in[PIECE];
	struct pair p;
	size_t sent = 0, got = 0;
	bool blocked = false;

	open_pair(&p);
	while (got < TOTAL) {
		ssize_t n = 0;

		if (sent < TOTAL) {
			size_t most = MIN((size_t)PIECE, TOTAL - sent);

			for (size_t i = 0; i < most; i++)
				out[i] = (uint8_t)((sent + i) * 7 >> 3);
			n = write(p.node.stream, out, most);
			assert_true(n > 0 || n == -EAGAIN);
			blocked |= n == -EAGAIN;
			sent += n > 0 ? (size_t)n : 0;
		} else {
			(void)tls_stream_send(p.node.stream);
		}
		if (n <= 0)
			while ((n = tls_stream_read(p.hub.stream, in, sizeof in)) > 0) {
				for (ssize_t i = 0; i < n; i++)
					assert_int_equal(
						in[i], (uint8_t)((got + (size_t)i) * 7 >> 3));
				got += (size_t)n;
			}
	}
	assert_true(blocked);
	assert_int_equal(got, TOTAL);
	stop(&p);
}

static void
test_bulk(void **state)
{
	(void)state;
	pass_bulk(write_at_once);
}

static void
test_bulk_that_is_gathered(void **state)
{
	(void)state;
	pass_bulk(write_gathered);
}

/* RFC 8446 section 5.5: no key writes for ever. */
static void
test_keys_are_renewed(void **state)
{
	(void)state;
	key_records = 7;
	new_keys = 0;
	pass_bulk(write_at_once);
	assert_true(new_keys >= TOTAL / TLS_RECORD_BYTES / 8);
	new_keys = 0;
	pass_bulk(write_gathered);
	assert_true(new_keys >= TOTAL / TLS_RECORD_BYTES / 8);
	key_records = 0;
	new_keys = 0;
	pass_bulk(write_gathered);
	assert_int_equal(new_keys, 0);
}

static void
test_who_is_refused(void **state)
{
	static const struct {
		const char *what;
		const struct tls_keys *trusted, *shown, *hub;
		const char *host, *alpn;
	} cases[] = {
		{"no certificate", &ours, NULL, &ours, "hub.example", "a/1"},
		{"a stranger's certificate", &ours, &strangers, &ours, "hub.example", "a/1"},
		{"a stranger's hub", &ours, &ours, &strangers, "hub.example", "a/1"},
		{"another name of the hub", &ours, &ours, &ours, "other.example", "a/1"},
		{"another protocol", &ours, &ours, &ours, "hub.example", "b/1"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct pair p;

		connect_pair(&p);
		start(&p, false, node_ctx(cases[i].trusted, cases[i].shown), cases[i].host,
			cases[i].alpn);
		start(&p, true, hub_ctx(cases[i].hub), NULL, "a/1");
		until(&p, p.hub.failed);
		if (p.hub.open)
			fail_msg("%s: let in", cases[i].what);
		assert_true(tls_stream_why(p.hub.stream)[0] != '\0');
		stop(&p);
	}
}

/* Between hubs it counts that it is one, on both sides; a node is none, and a hub is no node. */
static void
test_hubs_among_themselves(void **state)
{
	static const char *const what[] = {
		"a hub", "a node", "another server", "a hub of another CA"};
	struct tls_keys hub[4] = {ours, ours, ours, strangers};
	struct pki_issue issue = {.ca_cert_pem = ours.ca,
		.ca_key_pem = ours.ca_key,
		.days = 2,
		.server = true,
		.client = true,
		.hub = true,
		.common_name = "edge-1"};
	char *good, *other, *strange;

	(void)state;
	assert_int_equal(pki_sign_key(&issue, ours.hub_key, &good, NULL), 0);
	issue.hub = false;
	assert_int_equal(pki_sign_key(&issue, ours.hub_key, &other, NULL), 0);
	issue = (struct pki_issue){.ca_cert_pem = strangers.ca,
		.ca_key_pem = strangers.ca_key,
		.days = 2,
		.server = true,
		.client = true,
		.hub = true,
		.common_name = "hub"};
	assert_int_equal(pki_sign_key(&issue, strangers.hub_key, &strange, NULL), 0);
	hub[0].hub = good;
	hub[1].hub = ours.node;
	hub[1].hub_key = ours.node_key;
	hub[2].hub = other;
	hub[3].hub = strange;
	for (int i = 0; i < 8; i++) { /* who dials, then who is dialled */
		const struct tls_keys *dials = i < 4 ? &hub[i] : &hub[0],
				      *dialled = i < 4 ? &hub[0] : &hub[i - 4];
		struct ssl_ctx_st *client;
		struct pair p;

		connect_pair(&p);
		assert_int_equal(
			pki_client_ctx(ours.ca, dials->hub, dials->hub_key, &client, NULL), 0);
		proof = TLS_HUB;
		start(&p, false, client, "192.0.2.1", "a/1");
		start(&p, true, hub_ctx(dialled), NULL, "a/1");
		proof = TLS_PROVEN;
		if (i % 4 == 0)
			until(&p, p.hub.open && p.node.open);
		else
			until(&p, i < 4 ? p.hub.failed : p.node.failed);
		if (i % 4 != 0 && (i < 4 ? p.hub.open : p.node.open))
			fail_msg("%s is taken for a hub", what[i % 4]);
		if (i % 4 != 0)
			assert_non_null(strstr(tls_stream_why(i < 4 ? p.hub.stream : p.node.stream),
				"certificate is refused"));
		else
			assert_string_equal(tls_stream_peer(p.hub.stream), "");
		stop(&p);
	}
	free(good);
	free(other);
	free(strange);
}

static void
test_silent_client_is_dropped(void **state)
{
	struct pair p;
	struct tls_setup s = {.alpn = "a/1", .deadline_ms = 50, .on = on_tls};

	(void)state;
	connect_pair(&p);
	s.loop = p.loop;
	s.fd = p.fd[1];
	s.ctx = hub_ctx(&ours);
	s.arg = &p.hub;
	assert_int_equal(tls_stream_new(&s, &p.hub.stream, NULL), 0);
	pki_ctx_free(&s.ctx);
	until(&p, p.hub.failed);
	assert_string_equal(tls_stream_why(p.hub.stream), "the TLS handshake took too long");
	close(p.fd[0]);
	stop(&p);
}

static int
option(int fd, int name)
{
	int value = -1;
	socklen_t len = sizeof value;

	assert_int_equal(getsockopt(fd, IPPROTO_TCP, name, &value, &len), 0);
	return value;
}

/* Both ends: small messages do not wait behind bulk in the kernel, and a peer that is gone is
 * noticed by what we send. */
static void
test_sockets_are_told(void **state)
{
	struct pair p;

	(void)state;
	open_pair(&p);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(option(p.fd[i], TCP_NOTSENT_LOWAT), 128 * 1024);
		assert_int_equal(option(p.fd[i], TCP_USER_TIMEOUT), 10000);
		assert_int_not_equal(option(p.fd[i], TCP_NODELAY), 0);
	}
	stop(&p);
}

/* --- a passive client ----------------------------------------------------------------------- */

/* tls_stream_step's result, once it is not -EAGAIN. */
static int
shake(struct pair *p, struct ssl_ctx_st *server, struct ssl_ctx_st *client, SSL_SESSION **session,
	const struct pki_names *names)
{
	unsigned events = 0;
	int rc;

	connect_pair(p);
	assert_int_equal(tls_stream_new(&(struct tls_setup){.loop = p->loop,
						.fd = p->fd[1],
						.ctx = server,
						.proof = TLS_ANYBODY,
						.on = on_tls,
						.arg = &p->hub},
				 &p->hub.stream, NULL),
		0);
	assert_int_equal(tls_stream_new(&(struct tls_setup){.fd = p->fd[0],
						.ctx = client,
						.host = "sni.example",
						.session = session,
						.names = names},
				 &p->node.stream, NULL),
		0);
	while ((rc = tls_stream_step(p->node.stream, &events)) == -EAGAIN)
		loop_turn(p->loop);
	return rc;
}

/* Its handshake with a server that has the hub's certificate: shake's result. */
static int
shake_passively(const struct pki_names *names, const char *ca, char *why, size_t size)
{
	struct ssl_ctx_st *server = NULL, *client = NULL;
	struct pair p;
	int rc;

	assert_int_equal(pki_listener_ctx(ours.hub, ours.hub_key, NULL, &server, NULL), 0);
	assert_int_equal(tls_backend_ctx(ca, &client, NULL), 0);
	rc = shake(&p, server, client, NULL, names);
	snprintf(why, size, "%s", tls_stream_why(p.node.stream));
	if (rc == 0) {
		until(&p, p.hub.open);
		assert_string_equal(tls_stream_sni(p.hub.stream), "sni.example");
		assert_true(tls_stream_is_quiet(p.node.stream));
		assert_int_equal(tls_stream_write(p.hub.stream, "hello", 5), 5);
		assert_false(tls_stream_is_quiet(p.node.stream));
	}
	tls_stream_free(&p.node.stream);
	tls_stream_free(&p.hub.stream);
	close(p.fd[0]); /* borrowed */
	pki_ctx_free(&server);
	pki_ctx_free(&client);
	loop_free(&p.loop);
	return rc;
}

static void
a_passive_client_and_names(void **state)
{
	static const char *const none[] = {NULL},
				 *const right[] = {"other.example", "hub.example", NULL};
	static const char *const wrong[] = {"other.example", NULL},
				 *const uris[] = {"spiffe://a/b", NULL};
	const struct pki_issue common = {.ca_cert_pem = ours.ca,
		.ca_key_pem = ours.ca_key,
		.days = 2,
		.server = true,
		.common_name = "hub.example"};
	char *with_names = ours.hub, why[256];

	(void)state;
	assert_int_equal(
		shake_passively(&(struct pki_names){right, none}, ours.ca, why, sizeof why), 0);
	assert_int_equal(
		shake_passively(&(struct pki_names){wrong, none}, ours.ca, why, sizeof why),
		-EPROTO);
	assert_string_equal(why,
		"the certificate of hub.example, signed by test CA, is refused: it is not made for "
		"the "
		"name other.example");
	assert_int_equal(shake_passively(&(struct pki_names){none, uris}, ours.ca, why, sizeof why),
		-EPROTO);
	assert_non_null(strstr(why, "it is not made for the name spiffe://a/b"));
	assert_int_equal(
		shake_passively(&(struct pki_names){right, none}, strangers.ca, why, sizeof why),
		-EPROTO);
	assert_non_null(strstr(why, "it is not signed by the CA that we trust"));
	/* the common name is none of its names */
	assert_int_equal(pki_sign_key(&common, ours.hub_key, &ours.hub, NULL), 0);
	assert_int_equal(
		shake_passively(&(struct pki_names){right, none}, ours.ca, why, sizeof why),
		-EPROTO);
	free(ours.hub);
	ours.hub = with_names;
}

static bool
shake_again(struct ssl_ctx_st *server, struct ssl_ctx_st *client, SSL_SESSION **session)
{
	static const char *const names[] = {"hub.example", NULL}, *const none[] = {NULL};
	struct pair p;
	char byte;
	bool resumed;
	int rc;

	rc = shake(&p, server, client, session, &(struct pki_names){names, none});
	assert_int_equal(rc, 0);
	until(&p, p.hub.open);
	assert_int_equal(tls_stream_write(p.hub.stream, "b", 1), 1); /* behind its tickets */
	while (tls_stream_read(p.node.stream, &byte, 1) != 1)
		;
	resumed = tls_stream_resumed(p.node.stream);
	tls_stream_free(&p.node.stream);
	tls_stream_free(&p.hub.stream);
	close(p.fd[0]); /* borrowed */
	loop_free(&p.loop);
	return resumed;
}

/* The tickets of a resumed connection do not make the hour longer. */
static void
sessions_end_an_hour_after_the_handshake(void **state)
{
	struct ssl_ctx_st *server = NULL, *client = NULL;
	SSL_SESSION *session = NULL;

	(void)state;
	assert_int_equal(pki_listener_ctx(ours.hub, ours.hub_key, NULL, &server, NULL), 0);
	SSL_CTX_clear_options(server, SSL_OP_NO_TICKET);
	SSL_CTX_set_num_tickets(server, 2);
	assert_int_equal(tls_backend_ctx(ours.ca, &client, NULL), 0);
	assert_false(shake_again(server, client, &session));
	clock_pass(3000 * 1000000ull);
	assert_true(shake_again(server, client, &session));
	clock_pass(1000 * 1000000ull);
	assert_false(shake_again(server, client, &session));
	clock_pass(3000 * 1000000ull);
	assert_true(shake_again(server, client, &session));
	tls_session_free(&session);
	pki_ctx_free(&server);
	pki_ctx_free(&client);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_passive_client_and_names),
		cmocka_unit_test(sessions_end_an_hour_after_the_handshake),
		cmocka_unit_test(test_both_are_known),
		cmocka_unit_test(test_none_before_the_first_step),
		cmocka_unit_test(test_end_without_a_word),
		cmocka_unit_test(test_bulk),
		cmocka_unit_test(test_bulk_that_is_gathered),
		cmocka_unit_test(test_keys_are_renewed),
		cmocka_unit_test(test_who_is_refused),
		cmocka_unit_test(test_hubs_among_themselves),
		cmocka_unit_test(test_silent_client_is_dropped),
		cmocka_unit_test(test_sockets_are_told),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}

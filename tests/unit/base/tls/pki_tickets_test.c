#include "base/tls/pki_tickets.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <openssl/ssl.h>

#include "base/tls/pki.h"
#include "base/tls/pki_tls.h"
#include "tests/fake/clock.h"

static char *ca_pem, *ca_key, *hub_pem, *hub_key;
static const uint8_t secret[PKI_TICKET_SECRET] = {1}, another[PKI_TICKET_SECRET] = {2};

static int
make_ca(void **state)
{
	struct err err;
	struct pki_issue issue = {.server = true, .client = true, .days = 9, .common_name = "hub"};

	(void)state;
	assert_int_equal(pki_ca_new("test CA", 10, &ca_pem, &ca_key, &err), 0);
	issue.ca_cert_pem = ca_pem;
	issue.ca_key_pem = ca_key;
	assert_int_equal(pki_key_new(&hub_key, &err), 0);
	assert_int_equal(pki_sign_key(&issue, hub_key, &hub_pem, &err), 0);
	return 0;
}

static int
free_ca(void **state)
{
	(void)state;
	free(ca_pem);
	free(ca_key);
	free(hub_pem);
	free(hub_key);
	return 0;
}

static SSL_CTX *
server_with(const uint8_t *with)
{
	struct err err;
	SSL_CTX *ctx = NULL;

	assert_int_equal(pki_server_ctx(hub_pem, hub_key, ca_pem, &ctx, &err), 0);
	pki_tickets_serve(ctx, with);
	return ctx;
}

static SSL_CTX *
node_for(uint64_t life_s)
{
	auto_free char *key = NULL, *pem = NULL;
	struct err err;
	SSL_CTX *ctx = NULL;
	struct pki_issue issue = {.ca_cert_pem = ca_pem,
		.ca_key_pem = ca_key,
		.common_name = "edge-1",
		.client = true,
		.life_s = life_s};

	assert_int_equal(pki_key_new(&key, &err), 0);
	assert_int_equal(pki_sign_key(&issue, key, &pem, &err), 0);
	assert_int_equal(pki_client_ctx(ca_pem, pem, key, &ctx, &err), 0);
	pki_tickets_keep(ctx);
	return ctx;
}

enum outcome { FULL, RESUMED, REFUSED };

/* One connection, with a byte from the server so that the ticket is read; cut: the client ends
 * right after the handshake. */
static enum outcome
connect_once_or(SSL_CTX *server_ctx, SSL_CTX *client_ctx, bool allowed, bool cut)
{
	SSL *server = SSL_new(server_ctx), *client = SSL_new(client_ctx);
	enum outcome outcome = REFUSED;
	BIO *a, *b;
	char byte;

	assert_int_equal(BIO_new_bio_pair(&a, 0, &b, 0), 1);
	SSL_set_bio(server, a, a);
	SSL_set_bio(client, b, b);
	SSL_set_accept_state(server);
	SSL_set_connect_state(client);
	if (allowed)
		pki_tickets_allow(server);
	for (int i = 0; i < 20; i++) {
		(void)SSL_do_handshake(client);
		(void)SSL_do_handshake(server);
	}
	if (SSL_is_init_finished(server) && SSL_get_verify_result(server) == X509_V_OK &&
		SSL_write(server, "x", 1) == 1 && (cut || SSL_read(client, &byte, 1) == 1)) {
		auto_free char *name = pki_peer_name(server);

		assert_string_equal(name, "edge-1"); /* known, resumed or not */
		assert_int_equal(pki_resumed(server), pki_resumed(client));
		outcome = pki_resumed(server) ? RESUMED : FULL;
	}
	SSL_free(server);
	SSL_free(client);
	return outcome;
}

static enum outcome
connect_once(SSL_CTX *server_ctx, SSL_CTX *client_ctx, bool allowed)
{
	return connect_once_or(server_ctx, client_ctx, allowed, false);
}

/* A hub that is killed, or refuses the node after its handshake, does not take the ticket away. */
static void
the_ticket_outlives_what_was_cut(void **state)
{
	SSL_CTX *server = server_with(secret), *node = node_for(3600);

	(void)state;
	assert_int_equal(connect_once(server, node, true), FULL);
	assert_int_equal(connect_once_or(server, node, true, true), RESUMED);
	assert_int_equal(connect_once_or(server, node, true, true), RESUMED);
	assert_int_equal(connect_once(server, node, true), RESUMED);
	SSL_CTX_free(server);
	SSL_CTX_free(node);
}

static void
any_replica_resumes(void **state)
{
	SSL_CTX *first = server_with(secret), *second = server_with(secret);
	SSL_CTX *other = server_with(another), *node = node_for(3600);

	(void)state;
	assert_int_equal(connect_once(first, node, true), FULL);
	assert_int_equal(connect_once(first, node, true), RESUMED);
	assert_int_equal(connect_once(second, node, true), RESUMED);
	assert_int_equal(connect_once(second, node, false), FULL); /* did not opt in */
	assert_int_equal(connect_once(other, node, true), FULL);
	assert_int_equal(connect_once(other, node, true), RESUMED);
	assert_int_equal(connect_once(first, node, true), FULL);
	pki_tickets_forget(node);
	assert_int_equal(connect_once(first, node, true), FULL);
	assert_int_equal(connect_once(first, node, true), RESUMED);
	pki_ctx_floor(node, (int64_t)time(NULL)); /* once a day, as the hub tells the time */
	assert_int_equal(connect_once(first, node, true), RESUMED);
	pki_ctx_refuse(node, "0123"); /* a hub was revoked: each shows its certificate */
	assert_int_equal(connect_once(first, node, true), FULL);
	assert_int_equal(connect_once(first, node, true), FULL);
	pki_ctx_refuse(node, "");
	assert_int_equal(connect_once(first, node, true), FULL);
	assert_int_equal(connect_once(first, node, true), RESUMED);
	SSL_CTX_free(first);
	SSL_CTX_free(second);
	SSL_CTX_free(other);
	SSL_CTX_free(node);
}

/* By what the node knows to be the least that its clock may be, the hub's certificate is over. */
static void
the_hubs_certificate_ends_by_the_floor(void **state)
{
	SSL_CTX *server = server_with(secret), *node = node_for(3600);

	(void)state;
	assert_int_equal(connect_once(server, node, true), FULL);
	pki_ctx_floor(node, (int64_t)time(NULL) + 9 * 24 * 3600);
	assert_int_equal(connect_once(server, node, true), REFUSED);
	SSL_CTX_free(server);
	SSL_CTX_free(node);
}

static void
an_expired_certificate_does_not_resume(void **state)
{
	SSL_CTX *server = server_with(secret), *node = node_for(3);
	time_t until = time(NULL) + 4;

	(void)state;
	assert_int_equal(connect_once(server, node, true), FULL);
	assert_int_equal(connect_once(server, node, true), RESUMED);
	while (time(NULL) < until)
		usleep(50 * 1000);
	assert_int_equal(connect_once(server, node, true), REFUSED);
	SSL_CTX_free(server);
	SSL_CTX_free(node);
}

/* Tickets are renewed with each connection, under keys of six hours, until the last full handshake
 * is a day ago; who was away for longer than a key and the next one makes a full one. */
static void
a_full_handshake_each_day(void **state)
{
	SSL_CTX *server = server_with(secret), *node = node_for(5 * 24 * 3600);

	(void)state;
	for (unsigned day = 0; day < 2; day++) {
		assert_int_equal(connect_once(server, node, true), FULL);
		for (unsigned hours = 5; hours < TICKET_FULL_S / 3600; hours += 5) {
			clock_pass(5ull * 3600 * 1000000);
			assert_int_equal(connect_once(server, node, true), RESUMED);
		}
		clock_pass(5ull * 3600 * 1000000);
	}
	assert_int_equal(connect_once(server, node, true), FULL);
	clock_pass(2ull * TICKET_PERIOD_S * 1000000);
	assert_int_equal(connect_once(server, node, true), FULL);
	SSL_CTX_free(server);
	SSL_CTX_free(node);
}

static void
secrets_differ(void **state)
{
	uint8_t a[PKI_TICKET_SECRET], b[PKI_TICKET_SECRET];

	(void)state;
	pki_tickets_secret(ca_pem, ca_key, "a\n", a);
	pki_tickets_secret(ca_pem, ca_key, "a\n", b);
	assert_memory_equal(a, b, sizeof a);
	pki_tickets_secret(ca_pem, hub_key, "a\n", b);
	assert_memory_not_equal(a, b, sizeof a);
	pki_tickets_secret(hub_pem, ca_key, "a\n", b);
	assert_memory_not_equal(a, b, sizeof a);
	pki_tickets_secret(ca_pem, ca_key, "b\n", b);
	assert_memory_not_equal(a, b, sizeof a);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_replica_resumes),
		cmocka_unit_test(the_ticket_outlives_what_was_cut),
		cmocka_unit_test(the_hubs_certificate_ends_by_the_floor),
		cmocka_unit_test(an_expired_certificate_does_not_resume),
		cmocka_unit_test(a_full_handshake_each_day),
		cmocka_unit_test(secrets_differ),
	};

	return cmocka_run_group_tests(tests, make_ca, free_ca);
}

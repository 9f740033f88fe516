/* TLS bridges on worker threads, and without any: bytes, ends and breaks. TSan runs this, too. */
#include <errno.h>
#include <linux/sockios.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "base/core/util.h"
#include "base/tls/pki.h"
#include "base/tls/pki_tickets.h"
#include "hub/ingress/bridge_worker.h"
#include "tests/unit/base/tls/workers_bed.h"

enum { SOON = 40 /* turns */ };

struct bridged {
	struct bridge_worker *bridge;
	struct tls_stream *tls; /* of the other side, passive */
	int fd, other; /* its socket; the owner's end of the plain side */
	struct preauth_conn place; /* on the owner's loop */
	unsigned opened, ended, dropped;
	bool keeps; /* the bridge, at its end */
	bool broken; /* not whole */
	enum tls_bridge_end end;
	char why[256], sni[64], peer[64];
};

static struct tls_workers *workers; /* NULL in a test without them */

#define until(condition) patience_until(patience_turn(loop), condition)

static int
with_workers(void **state)
{
	(void)state;
	workers = pool;
	return 0;
}

static int
without(void **state)
{
	(void)state;
	workers = NULL;
	return 0;
}

static void
on_opened(void *arg, const char *why, const char *sni, const char *peer)
{
	struct bridged *b = arg;

	b->opened++;
	snprintf(b->why, sizeof b->why, "%s", why != NULL ? why : "");
	snprintf(b->sni, sizeof b->sni, "%s", sni);
	snprintf(b->peer, sizeof b->peer, "%s", peer);
}

static void
on_ended(void *arg, enum tls_bridge_end end)
{
	struct bridged *b = arg;

	b->ended++;
	b->end = end;
	b->broken = end != TLS_BRIDGE_WHOLE;
	if (!b->keeps)
		bridge_worker_free(&b->bridge);
}

static void
on_place_needed(void *arg)
{
	struct bridged *b = arg;

	b->dropped++;
}

static bool
take_place(struct bridged *b, uint64_t now_ms)
{
	const struct addr from = addr_ipv4(INADDR_LOOPBACK + 1, 1);

	b->place = (struct preauth_conn){.drop = on_place_needed, .arg = b};
	return preauth_enter(preauth, &b->place, &from, now_ms);
}

/* ctx: of the other side, a client if `host`, whose server the bridge is then; else the reverse. */
static void
bridge(struct bridged *b, struct ssl_ctx_st *ctx, const char *host)
{
	const struct addr from = addr_ipv4(INADDR_LOOPBACK + 1, 1);
	int net[2], plain[2];

	memset(b, 0, sizeof *b);
	assert_true(host == NULL || take_place(b, 0));
	assert_int_equal(
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, net), 0);
	assert_int_equal(
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, plain), 0);
	b->fd = net[0];
	b->other = plain[0];
	assert_int_equal(
		tls_stream_new(
			&(struct tls_setup){
				.fd = b->fd, .ctx = ctx, .host = host, .resumes = host == NULL},
			&b->tls, NULL),
		0);
	assert_int_equal(
		bridge_worker_new(&(struct bridge_worker_setup){.loop = loop,
					  .workers = workers,
					  .other = plain[0],
					  .from = host != NULL ? &from : NULL,
					  .bridge = {.fd = net[1],
						  .plain = plain[1],
						  .ctx = host != NULL ? server : client,
						  .host = host != NULL ? NULL : "hub.example",
						  .place = host != NULL ? &b->place : NULL,
						  .opened = on_opened,
						  .ended = on_ended,
						  .arg = b}},
			&b->bridge, NULL),
		0);
}

static int
step(struct bridged *b)
{
	unsigned events;

	return tls_stream_step(b->tls, &events);
}

static void
open_bridge(struct bridged *b, struct ssl_ctx_st *ctx, const char *host)
{
	bool done = false;

	bridge(b, ctx, host);
	until((done = done || step(b) == 0) && b->opened == 1);
	assert_string_equal(b->why, "");
}

static void
close_all(struct bridged *b)
{
	preauth_leave(&b->place);
	bridge_worker_free(&b->bridge);
	tls_stream_free(&b->tls);
	if (b->fd >= 0)
		close(b->fd);
	if (b->other >= 0)
		close(b->other);
}

static void
send_all(struct bridged *b, bool out)
{
	static char got[BULK];
	size_t sent = 0, n = 0;
	ssize_t rc;

	while (n < BULK) {
		while (sent < BULK &&
			(rc = out ? tls_stream_write(b->tls, bulk + sent, BULK - sent)
				  : write(b->other, bulk + sent, BULK - sent)) > 0)
			sent += (size_t)rc;
		patience_turn(loop);
		while (n < BULK &&
			(rc = out ? read(b->other, got + n, BULK - n)
				  : tls_stream_read(b->tls, got + n, BULK - n)) > 0)
			n += (size_t)rc;
	}
	assert_memory_equal(got, bulk, BULK);
}

/* Bytes and half-closes in both directions, whichever side the bridge is of. */
static void
test_passes(void **state)
{
	struct bridged b;
	char byte;

	(void)state;
	for (int i = 0; i < 2; i++) {
		open_bridge(&b, i == 0 ? client : server, i == 0 ? "hub.example" : NULL);
		assert_string_equal(b.sni, "hub.example");
		assert_string_equal(b.peer, i == 0 ? "edge-1" : "hub.example");
		send_all(&b, true);
		assert_int_equal(tls_stream_end(b.tls), 0);
		until(read(b.other, &byte, 1) == 0);
		send_all(&b, false);
		assert_int_equal(b.ended, 0);
		shutdown(b.other, SHUT_WR);
		until(tls_stream_read(b.tls, &byte, 1) == 0);
		until(b.ended == 1);
		assert_false(b.broken);
		close_all(&b);
	}
}

/* Who leaves has said all: it goes out, and then the end. */
static void
test_left(void **state)
{
	struct bridged b;
	char got[8];
	ssize_t n;

	(void)state;
	open_bridge(&b, client, "hub.example");
	assert_int_equal(write(b.other, "bye", 3), 3);
	bridge_worker_leave(b.bridge);
	close(take_fd(&b.other));
	until((n = tls_stream_read(b.tls, got, sizeof got)) != -EAGAIN);
	assert_int_equal(n, 3);
	until((n = tls_stream_read(b.tls, got, sizeof got)) != -EAGAIN);
	assert_int_equal(n, 0);
	until(b.ended == 1);
	assert_false(b.broken);
	close_all(&b);
}

/* A descriptor that is closed before the bridge is broken off does not look like an end. */
static void
test_owner_breaks(void **state)
{
	struct bridged b;
	ssize_t n;
	char byte;

	(void)state;
	open_bridge(&b, client, "hub.example");
	close(take_fd(&b.other));
	for (unsigned i = 0; i < SOON && workers != NULL; i++) {
		patience_turn(loop);
		assert_int_equal(tls_stream_read(b.tls, &byte, 1), -EAGAIN);
	}
	bridge_worker_free(&b.bridge);
	until((n = tls_stream_read(b.tls, &byte, 1)) != -EAGAIN);
	assert_int_equal(n, -ENODATA);
	assert_int_equal(b.ended, 0);
	close_all(&b);
}

/* Nor does the other side's break: the plain side is open until the owner frees the bridge. */
static void
test_other_breaks(void **state)
{
	struct bridged b;
	char byte;

	(void)state;
	open_bridge(&b, client, "hub.example");
	b.keeps = true;
	assert_int_equal(
		write(b.fd, "\x17\x03\x03\x00\x20 this is no record of its keys...", 37), 37);
	until(b.ended == 1);
	assert_true(b.broken);
	for (unsigned i = 0; i < SOON; i++) {
		patience_turn(loop);
		assert_int_equal(read(b.other, &byte, 1), -1);
		assert_int_equal(errno, EAGAIN);
	}
	bridge_worker_free(&b.bridge);
	until(read(b.other, &byte, 1) >= 0 || errno != EAGAIN);
	close_all(&b);
}

/* A target's FIN alone may be somebody's on the way: all that came before it is handed over, and
 * then it is no end. */
static void
test_cut_by_the_target(void **state)
{
	static char got[BULK];
	struct bridged b;
	size_t sent = 0, n = 0;
	ssize_t rc;

	(void)state;
	open_bridge(&b, server, NULL);
	for (bool shut = false; n < BULK; shut = shut || sent == BULK) {
		while (sent < BULK && (rc = tls_stream_write(b.tls, bulk + sent, BULK - sent)) > 0)
			sent += (size_t)rc;
		if (sent == BULK && !shut)
			shutdown(b.fd, SHUT_WR);
		patience_turn(loop);
		while (n < BULK && (rc = read(b.other, got + n, BULK - n)) > 0)
			n += (size_t)rc;
		assert_int_equal(b.ended, 0);
	}
	assert_memory_equal(got, bulk, BULK);
	until(b.ended == 1);
	assert_int_equal(b.end, TLS_BRIDGE_CUT);
	close_all(&b);
}

/* Nor does a reset behind that FIN take anything of it. */
static void
test_cut_and_reset_by_the_target(void **state)
{
	enum { LENGTH = 1 << 14 };
	static char got[LENGTH];
	struct bridged b;
	int unread = 0;

	(void)state;
	open_bridge(&b, server, NULL);
	assert_int_equal(tls_stream_write(b.tls, bulk, LENGTH), LENGTH);
	until(ioctl(b.other, FIONREAD, &unread) == 0 && unread == LENGTH);
	assert_int_equal(write(b.other, "x", 1), 1); /* closing over it resets */
	until(ioctl(b.fd, FIONREAD, &unread) == 0 && unread > 0);
	shutdown(b.fd, SHUT_WR);
	for (unsigned i = 0; i < 2 * SOON; i++) {
		patience_turn(loop);
		assert_int_equal(b.ended, 0);
		if (i == SOON) {
			tls_stream_free(&b.tls);
			close(take_fd(&b.fd));
		}
	}
	assert_int_equal(read(b.other, got, LENGTH), LENGTH);
	assert_memory_equal(got, bulk, LENGTH);
	until(b.ended == 1);
	assert_int_equal(b.end, TLS_BRIDGE_CUT);
	close_all(&b);
}

/* A caller's FIN alone, which many send, is an end. */
static void
test_fin_of_the_caller(void **state)
{
	struct bridged b;
	char byte;

	(void)state;
	open_bridge(&b, client, "hub.example");
	shutdown(b.fd, SHUT_WR);
	until(read(b.other, &byte, 1) == 0);
	assert_int_equal(b.ended, 0);
	close_all(&b);
}

/* The caller gets what is on its way, and then no end. */
static void
test_cut_for_the_caller(void **state)
{
	static char got[BULK];
	struct bridged b;
	size_t sent = 0, n = 0;
	ssize_t rc;

	(void)state;
	open_bridge(&b, client, "hub.example");
	while (sent < BULK / 2 && (rc = write(b.other, bulk + sent, BULK / 2 - sent)) > 0)
		sent += (size_t)rc;
	for (int unread = 1; unread > 0;) {
		patience_turn(loop);
		assert_int_equal(ioctl(b.other, SIOCOUTQ, &unread), 0);
		while (unread > 0 && (rc = tls_stream_read(b.tls, got + n, BULK - n)) > 0)
			n += (size_t)rc;
	}
	bridge_worker_cut(b.bridge);
	close(take_fd(&b.other));
	until((rc = tls_stream_read(b.tls, got + n, BULK - n)) != -EAGAIN &&
		(n += (size_t)MAX(rc, 0), rc <= 0));
	assert_int_equal(rc, -ENODATA);
	assert_int_equal(n, sent);
	until(b.ended == 1);
	assert_int_equal(b.end, TLS_BRIDGE_WHOLE);
	close_all(&b);
}

static void
test_refused(void **state)
{
	struct bridged b;

	(void)state;
	bridge(&b, stranger, "hub.example");
	until((step(&b), b.ended == 1));
	assert_int_equal(b.opened, 1);
	assert_non_null(strstr(b.why, "certificate"));
	assert_true(b.broken);
	close_all(&b);
}

/* Each target shows its certificate. A node that was a target before may have given its secret of
 * tickets to the one that is asked now, or may itself carry the connections of a neighbour. */
static void
test_no_ticket_of_another_target(void **state)
{
	static const uint8_t secret[PKI_TICKET_SECRET] = {1};
	struct ssl_ctx_st *targets[2];
	struct bridged b;
	char byte;

	(void)state;
	assert_int_equal(pki_server_ctx(ours.hub, ours.hub_key, ours.ca, &targets[0], NULL), 0);
	assert_int_equal(
		pki_server_ctx(strangers.hub, strangers.hub_key, ours.ca, &targets[1], NULL), 0);
	for (int i = 0; i < 2; i++)
		pki_tickets_serve(targets[i], secret);
	open_bridge(&b, targets[0], NULL);
	assert_int_equal(tls_stream_write(b.tls, "x", 1), 1);
	until(read(b.other, &byte, 1) == 1); /* behind the ticket */
	close_all(&b);
	bridge(&b, targets[1], NULL);
	until((step(&b), b.opened == 1));
	assert_non_null(strstr(b.why, "certificate"));
	close_all(&b);
	pki_ctx_free(&targets[0]);
	pki_ctx_free(&targets[1]);
}

/* At whatever moment its owner gives it up, the other end sees that, and nobody is told. */
static void
test_given_up(void **state)
{
	struct bridged b;
	char byte;

	(void)state;
	for (unsigned turns = 0; turns < SOON; turns++) {
		bool open = false;
		unsigned opened;
		ssize_t n;

		bridge(&b, client, "hub.example");
		for (unsigned i = 0; i < turns; i++) {
			open = open || step(&b) == 0;
			turns % 2 == 0 ? patience_turn(loop) : loop_turn(loop);
		}
		if (turns % 3 == 0)
			bridge_worker_leave(b.bridge);
		bridge_worker_free(&b.bridge);
		opened = b.opened;
		until((n = open ? tls_stream_read(b.tls, &byte, 1) : step(&b)) != -EAGAIN ||
			(open = !open && n == 0, false));
		assert_int_equal(b.opened, opened);
		assert_int_equal(b.ended, 0);
		close_all(&b);
	}
}

/* Who waits for a worker keeps its place; who keeps the worker waiting does not. */
static void
test_place_of_waiting(void **state)
{
	struct bridged all[PLACES], late = {.opened = 0};
	unsigned dropped = 0;

	(void)state;
	workers_bed_hold();
	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		bridge(&all[i], client, "hub.example"); /* which says nothing */
	assert_false(take_place(&late, 60 * 1000));
	workers_bed_release();
	until(take_place(&late, 60 * 1000));
	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		dropped += all[i].dropped;
		close_all(&all[i]);
	}
	assert_int_equal(dropped, 1);
	preauth_leave(&late.place);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
#define BOTH(test)                                                                                 \
	{#test, test, with_workers, NULL, NULL},                                                   \
		{#test " without workers", test, without, NULL, NULL}
		BOTH(test_passes),
		BOTH(test_left),
		BOTH(test_owner_breaks),
		BOTH(test_other_breaks),
		BOTH(test_cut_by_the_target),
		BOTH(test_fin_of_the_caller),
		BOTH(test_cut_for_the_caller),
		BOTH(test_refused),
		BOTH(test_no_ticket_of_another_target),
		{"test_cut_and_reset_by_the_target", test_cut_and_reset_by_the_target, without,
			NULL, NULL},
		{"test_given_up", test_given_up, with_workers, NULL, NULL},
		{"test_place_of_waiting", test_place_of_waiting, with_workers, NULL, NULL},
	};

	return cmocka_run_group_tests(tests, workers_bed_make, workers_bed_free);
}

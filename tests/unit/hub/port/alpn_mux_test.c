/*
 * The hub's one port: what a ClientHello asks for, in however many pieces and records it comes, and
 * what becomes of those who never say it whole. The ClientHellos are real ones.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/http/ws_tunnels.h"
#include "base/tls/tls_stream.h"
#include "hub/port/alpn_mux.h"
#include "tests/fake/clock.h"
#include "tests/unit/patience.h"
#include "tests/unit/tunnel/h2/tunnel_bed.h"

struct shape { /* bytes of a ClientHello */
	uint8_t bytes[CLIENT_HELLO_MAX];
	size_t n;
};

static void
on_tls(void *arg, enum tls_event event)
{
	(void)arg;
	(void)event;
}

/* What a client that asks for this protocol says first. */
static void
make_named_hello(const char *host, const char *alpn, struct shape *to)
{
	auto_free char *ca = NULL, *key = NULL;
	struct tls_stream *stream;
	struct ssl_ctx_st *ctx;
	struct loop *loop;
	struct tls_setup setup = {.host = host, .alpn = alpn, .on = on_tls};
	ssize_t n;
	int fd[2];

	assert_int_equal(pki_ca_new("test CA", 2, &ca, &key, NULL), 0);
	assert_int_equal(pki_client_ctx(ca, NULL, NULL, &ctx, NULL), 0);
	assert_int_equal(loop_new(&loop, NULL), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd), 0);
	setup.loop = loop;
	setup.fd = fd[0];
	setup.ctx = ctx;
	assert_int_equal(tls_stream_new(&setup, &stream, NULL), 0);
	do
		loop_turn(loop);
	while ((n = read(fd[1], to->bytes, sizeof to->bytes)) < 0);
	to->n = (size_t)n;
	tls_stream_free(&stream);
	loop_free(&loop);
	pki_ctx_free(&ctx);
	close(fd[1]);
}

static void
make_hello(const char *alpn, struct shape *to)
{
	make_named_hello("hub.example", alpn, to);
}

/* The same message in records of one byte, then of the rest. */
static void
cut_records(const struct shape *from, struct shape *to)
{
	size_t n = from->n - 5, at = 0;

	to->n = 0;
	while (at < n) {
		size_t part = at < 300 ? 1 : n - at;
		uint8_t head[] = {22, 3, 1, (uint8_t)(part >> 8), (uint8_t)part};

		memcpy(to->bytes + to->n, head, sizeof head);
		memcpy(to->bytes + to->n + 5, from->bytes + 5 + at, part);
		to->n += 5 + part;
		at += part;
	}
}

/* Every shorter beginning asks for more, and never for what is there already or beyond the end. */
static void
check_beginnings(const struct shape *s, enum client_hello whole)
{
	size_t need = 0;

	for (size_t n = 0; n < s->n; n++) {
		assert_int_equal(client_hello_read(s->bytes, n, &need), CLIENT_HELLO_MORE);
		assert_true(need > n && need <= s->n);
	}
	assert_int_equal(client_hello_read(s->bytes, s->n, &need), whole);
}

static void
test_real_hellos(void **state)
{
	struct shape tunnel, other, cut;

	(void)state;
	make_hello(TUNNEL_ALPN_REVERSE, &tunnel);
	make_hello("http/1.1", &other);
	check_beginnings(&tunnel, CLIENT_HELLO_REVERSE);
	check_beginnings(&other, CLIENT_HELLO_OTHER);
	make_hello(TUNNEL_ALPN_FORWARD, &other);
	check_beginnings(&other, CLIENT_HELLO_FORWARD);
	make_hello("http/1.1", &other);
	cut_records(&tunnel, &cut);
	check_beginnings(&cut, CLIENT_HELLO_REVERSE);
	cut_records(&other, &cut);
	check_beginnings(&cut, CLIENT_HELLO_OTHER);
}

/* Carriers: straight from a node, by TLS of a proxy, by a proxy without TLS. */
static void
test_carriers(void **state)
{
	struct shape s = {.bytes = "GET /x HTTP/1.1\r\n", .n = 5}, cut;

	(void)state;
	check_beginnings(&s, CLIENT_HELLO_PLAIN);
	make_hello(CARRIER_ALPN, &s);
	check_beginnings(&s, CLIENT_HELLO_CARRIER);
	make_named_hello("carrier.EDGEWAY.io", "http/1.1", &s);
	check_beginnings(&s, CLIENT_HELLO_CARRIER_NAMED);
	cut_records(&s, &cut);
	check_beginnings(&cut, CLIENT_HELLO_CARRIER_NAMED);
	make_named_hello("carrier.edgeway.io", TUNNEL_ALPN_REVERSE, &s);
	check_beginnings(&s, CLIENT_HELLO_REVERSE);
	make_named_hello("carrier.edgeway.iox", "http/1.1", &s);
	check_beginnings(&s, CLIENT_HELLO_OTHER);
}

/* The name is found in the whole of it, and not before enough of it is there. */
static void
test_names(void **state)
{
	char name[CLIENT_HELLO_NAME_MAX + 1] = "";
	struct shape whole, cut;
	uint8_t *at;
	size_t n;

	(void)state;
	make_hello("http/1.1", &whole);
	cut_records(&whole, &cut);
	for (n = 0; n < whole.n; n++)
		assert_int_equal(client_hello_name(whole.bytes, n, name), 0);
	assert_int_equal(client_hello_name(whole.bytes, whole.n, name), 1);
	assert_string_equal(name, "hub.example");
	name[0] = '\0';
	assert_int_equal(client_hello_name(cut.bytes, cut.n, name), 1);
	assert_string_equal(name, "hub.example");
	assert_true(client_hello_is_tls(whole.bytes, whole.n) &&
		!client_hello_is_tls((const uint8_t *)"GET ", 4));
	assert_int_equal(
		client_hello_name((const uint8_t *)"GET / HTTP/1.1\r\n", 16, name), -ENOENT);
	/* what no host is called is no name: it would stand in our log */
	at = memmem(whole.bytes, whole.n, "hub.example", 11);
	assert_non_null(at);
	for (n = 0; n < 3; n++) {
		at[3] = (uint8_t) "\n\0/"[n];
		assert_int_equal(client_hello_name(whole.bytes, whole.n, name), -ENOENT);
	}
	at[3] = '.';
	at[-3] = 1; /* a type of name that is not host_name */
	assert_int_equal(client_hello_name(whole.bytes, whole.n, name), -ENOENT);
	at[-3] = 0;
	at[-1]++; /* longer than its list */
	assert_int_equal(client_hello_name(whole.bytes, whole.n, name), -ENOENT);
}

static void
test_no_hellos(void **state)
{
	static const uint8_t endless[] = {22, 3, 1, 0, 4, 1, 0xff, 0xff, 0xff};
	static const uint8_t empty[] = {22, 3, 1, 0, 0}, finished[] = {22, 3, 1, 0, 4, 20, 0, 0, 0};
	char name[CLIENT_HELLO_NAME_MAX + 1];
	struct shape tunnel;
	size_t need;

	(void)state;
	assert_int_equal(client_hello_read((const uint8_t *)"PUT / HTTP/1.1", 14, &need),
		CLIENT_HELLO_OTHER);
	assert_int_equal(client_hello_read((const uint8_t *)"GET x", 5, &need), CLIENT_HELLO_OTHER);
	assert_int_equal(client_hello_read(empty, sizeof empty, &need), CLIENT_HELLO_OTHER);
	assert_int_equal(client_hello_read(finished, sizeof finished, &need), CLIENT_HELLO_OTHER);
	/* one that says it is longer than anybody's: as far as it is looked at, it is waited for */
	assert_int_equal(client_hello_read(endless, sizeof endless, &need), CLIENT_HELLO_MORE);
	assert_int_equal(need, sizeof endless + 5);
	make_hello(TUNNEL_ALPN_REVERSE, &tunnel);
	for (size_t i = 0; i < tunnel.n; i++) { /* whatever is bent, it is read within its bounds */
		struct shape bent = tunnel;

		for (unsigned bit = 0; bit < 8; bit++) {
			bent.bytes[i] = (uint8_t)(tunnel.bytes[i] ^ 1u << bit);
			client_hello_read(bent.bytes, bent.n, &need);
			client_hello_name(bent.bytes, bent.n, name);
		}
	}
}

/* --- connections ---------------------------------------------------------------------------- */

struct desk {
	struct loop *loop;
	struct preauth *preauth;
	struct alpn_mux *peek;
	int fd[2]; /* ours, and the one that was handed over */
	enum client_hello kind;
	char from[64]; /* "-": none */
	unsigned n;
};

static void
on_known(void *arg, int fd, enum client_hello kind, const char *from)
{
	struct desk *d = arg;

	d->fd[1] = fd;
	d->kind = kind;
	snprintf(d->from, sizeof d->from, "%s", from != NULL ? from : "-");
	d->n++;
}

/* A TLS alert: agents come later. */
static const uint8_t internal_error[] = {21, 3, 3, 0, 2, 2, 80};

static void
open_desk(struct desk *d, size_t most)
{
	memset(d, 0, sizeof *d);
	assert_int_equal(loop_new(&d->loop, NULL), 0);
	d->preauth = preauth_new(d->loop, most, 1); /* for all of one address */
	d->peek = alpn_mux_new(d->loop, d->preauth, on_known, d);
}

static void
close_desk(struct desk *d)
{
	alpn_mux_free(&d->peek);
	preauth_free(&d->preauth);
	loop_free(&d->loop);
}

static double
metric(const struct desk *d, const char *name)
{
	struct metrics m;
	const char *at;
	double value = -1;

	metrics_init(&m);
	alpn_mux_metrics(d->peek, &m);
	at = strstr(buf_str(&m.out), name);
	if (at != NULL)
		value = strtod(at + strlen(name), NULL);
	metrics_fini(&m);
	return value;
}

#define until(d, condition) patience_until(patience_turn((d)->loop), condition)

/* Byte by byte it is known at the last one, and not a byte is gone. */
static void
test_pieces(void **state)
{
	struct shape tunnel, got;
	struct desk d;
	int fd[2];

	(void)state;
	make_hello(TUNNEL_ALPN_REVERSE, &tunnel);
	open_desk(&d, 10);
	bed_tcp_pair(fd);
	alpn_mux_take(d.peek, fd[1], NULL);
	for (size_t i = 0; i < tunnel.n; i++) {
		assert_int_equal(d.n, 0);
		assert_int_equal(write(fd[0], tunnel.bytes + i, 1), 1);
		loop_turn(d.loop);
		loop_turn(d.loop);
	}
	until(&d, d.n == 1);
	assert_int_equal(d.kind, CLIENT_HELLO_REVERSE);
	assert_int_equal(read(d.fd[1], got.bytes, sizeof got.bytes), tunnel.n);
	assert_memory_equal(got.bytes, tunnel.bytes, tunnel.n);
	assert_true(metric(&d, "total{is=\"tunnel\"} ") == 1);
	close(fd[0]);
	close(d.fd[1]);
	close_desk(&d);
}

/* What is half there costs no turns of the loop, and ends with its sender. */
static void
test_half(void **state)
{
	struct shape tunnel;
	struct desk d;
	int fd[2];

	(void)state;
	make_hello(TUNNEL_ALPN_REVERSE, &tunnel);
	open_desk(&d, 10);
	bed_tcp_pair(fd);
	alpn_mux_take(d.peek, fd[1], NULL);
	assert_int_equal(write(fd[0], tunnel.bytes, 100), 100);
	for (unsigned i = 0; i < 100; i++)
		loop_turn(d.loop);
	assert_true(metric(&d, "\nedgeway_hub_strangers_waiting ") == 1);
	shutdown(fd[0], SHUT_WR);
	until(&d, metric(&d, "total{is=\"gone\"} ") == 1);
	assert_int_equal(d.n, 0);
	close(fd[0]);
	close_desk(&d);
}

/* No more than `most` wait; what comes on top is asked to come later, and those that wait go with
 * the desk. */
static void
test_silent(void **state)
{
	int fd[30][2], before = bed_descriptors();
	uint8_t alert[sizeof internal_error];
	struct desk d;

	(void)state;
	open_desk(&d, 10);
	for (unsigned i = 0; i < ARRAY_LEN(fd); i++) {
		bed_tcp_pair(fd[i]);
		alpn_mux_take(d.peek, fd[i][1], NULL);
	}
	assert_true(metric(&d, "\nedgeway_hub_strangers_waiting ") == 10);
	assert_true(metric(&d, "total{is=\"too_many\"} ") == 20);
	for (unsigned i = 10; i < ARRAY_LEN(fd); i++) {
		assert_int_equal(read(fd[i][0], alert, sizeof alert), sizeof alert);
		assert_memory_equal(alert, internal_error, sizeof alert);
	}
	/* a second later they make room */
	until(&d,
		loop_now_ms(d.loop) > 0 &&
			(usleep(1000), alpn_mux_take(d.peek, dup(fd[29][0]), NULL),
				metric(&d, "total{is=\"silent\"} ") > 0));
	close_desk(&d);
	for (unsigned i = 0; i < ARRAY_LEN(fd); i++)
		close(fd[i][0]);
	assert_int_equal(bed_descriptors(), before);
}

static void
on_other_step(void *arg)
{
	(void)arg;
}

/* Who said late what it is, and waits for its turn then, is not taken for one who said nothing. */
static void
test_waits_for_turn(void **state)
{
	struct preauth_conn others[20];
	struct desk d;
	int fd[2];

	(void)state;
	open_desk(&d, 40);
	bed_tcp_pair(fd);
	alpn_mux_take(d.peek, fd[1], NULL);
	clock_pass((ALPN_MUX_MS - 100) * 1000);
	loop_turn(d.loop);
	for (uint32_t i = 0; i < ARRAY_LEN(others); i++) {
		const struct addr a = addr_ipv4(0x0a000100 + i, 1);

		others[i] = (struct preauth_conn){.drop = on_other_step};
		assert_true(preauth_enter(d.preauth, &others[i], &a, loop_now_ms(d.loop)));
		assert_true(preauth_step(&others[i], on_other_step, NULL));
	}
	assert_int_equal(write(fd[0], "SSH-2.0-x\r\n", 11), 11);
	loop_turn(d.loop);
	loop_turn(d.loop);
	clock_pass(200 * 1000);
	loop_turn(d.loop);
	loop_turn(d.loop);
	assert_true(metric(&d, "total{is=\"silent\"} ") == 0);
	assert_true(metric(&d, "\nedgeway_hub_strangers_waiting ") == 1);
	clock_pass(ALPN_MUX_MS * 1000);
	loop_turn(d.loop);
	loop_turn(d.loop);
	assert_true(metric(&d, "total{is=\"silent\"} ") == 0);
	assert_true(metric(&d, "total{is=\"unserved\"} ") == 1);
	assert_int_equal(d.n, 0);
	for (uint32_t i = 0; i < ARRAY_LEN(others); i++)
		preauth_leave(&others[i]);
	close(fd[0]);
	close_desk(&d);
}

/* Whose handshake would begin too late gets a TLS alert, and no handshake. */
static void
test_turned_away(void **state)
{
	struct preauth_conn others[20];
	struct shape tunnel, got;
	struct desk d;
	int fd[2];

	(void)state;
	make_hello(TUNNEL_ALPN_REVERSE, &tunnel);
	open_desk(&d, 40);
	for (uint32_t i = 0; i < ARRAY_LEN(others); i++) {
		const struct addr a = addr_ipv4(0x7f000001, (uint16_t)(1 + i));

		others[i] = (struct preauth_conn){.drop = on_other_step};
		assert_true(preauth_enter(d.preauth, &others[i], &a, loop_now_ms(d.loop)));
		assert_true(preauth_step(&others[i], on_other_step, NULL));
	}
	for (unsigned i = 0; i < 16; i++) { /* a step takes as long as all are to wait */
		clock_pass(PREAUTH_STEP_MS * 1000);
		loop_turn(d.loop);
	}
	bed_tcp_pair(fd);
	assert_int_equal(write(fd[0], tunnel.bytes, tunnel.n), tunnel.n);
	alpn_mux_take(d.peek, fd[1], NULL);
	until(&d, recv(fd[0], got.bytes, sizeof got.bytes, MSG_PEEK | MSG_DONTWAIT) > 0);
	assert_int_equal(read(fd[0], got.bytes, sizeof got.bytes), sizeof internal_error);
	assert_memory_equal(got.bytes, internal_error, sizeof internal_error);
	assert_int_equal(read(fd[0], got.bytes, sizeof got.bytes), 0);
	assert_int_equal(d.n, 0);
	assert_true(metric(&d, "total{is=\"turned_away\"} ") == 1);
	for (uint32_t i = 0; i < ARRAY_LEN(others); i++)
		preauth_leave(&others[i]);
	close(fd[0]);
	close_desk(&d);
}

static void
test_garbage(void **state)
{
	struct desk d;
	int fd[2];

	(void)state;
	open_desk(&d, 10);
	bed_tcp_pair(fd);
	assert_int_equal(write(fd[0], "SSH-2.0-x\r\n", 11), 11);
	alpn_mux_take(d.peek, fd[1], NULL);
	until(&d, d.n == 1);
	assert_int_equal(d.kind, CLIENT_HELLO_OTHER);
	assert_string_equal(d.from, "-");
	close(d.fd[1]);
	close(fd[0]);
	close_desk(&d);
}

/* What comes inside of a websocket keeps its address, and is none itself. */
static void
test_nested(void **state)
{
	static const char *const alpn[] = {TUNNEL_ALPN_REVERSE, CARRIER_ALPN, NULL};
	struct shape s;
	struct desk d;
	int fd[2];

	(void)state;
	open_desk(&d, 10);
	for (unsigned i = 0; i < ARRAY_LEN(alpn); i++) {
		bed_tcp_pair(fd);
		if (alpn[i] != NULL)
			make_hello(alpn[i], &s);
		else
			memcpy(s.bytes, "GET /x", s.n = 6);
		assert_int_equal(write(fd[0], s.bytes, s.n), s.n);
		alpn_mux_take(d.peek, fd[1], "via:192.0.2.8:1");
		until(&d, d.n == 1 && metric(&d, "total{is=\"gone\"} ") == i);
		close(fd[0]);
	}
	assert_int_equal(d.kind, CLIENT_HELLO_REVERSE);
	assert_string_equal(d.from, "via:192.0.2.8:1");
	close(d.fd[1]);
	close_desk(&d);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_real_hellos),
		cmocka_unit_test(test_carriers),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_no_hellos),
		cmocka_unit_test(test_pieces),
		cmocka_unit_test(test_half),
		cmocka_unit_test(test_silent),
		cmocka_unit_test(test_waits_for_turn),
		cmocka_unit_test(test_turned_away),
		cmocka_unit_test(test_garbage),
		cmocka_unit_test(test_nested),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

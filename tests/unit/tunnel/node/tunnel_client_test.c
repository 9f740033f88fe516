/*
 * Tunnels between real ends over real TLS: what a node answers, which of its connections takes a
 * stream, and what ends them.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/core/hops.h"
#include "tests/unit/tunnel/node/tunnel_client_bed.h"

static void
on_done(void *arg)
{
	*(bool *)arg = true;
}

/* Waits until a visitor's stream is up and has echoed. */
static void
exchange(struct bed *b, struct visitor *v, const char *text)
{
	size_t want = v->got + strlen(text);

	bed_until(b, v->status == 200 || v->reset);
	assert_int_equal(v->status, 200);
	bed_say(v, text);
	bed_until(b, v->got == want || v->reset);
	if (v->reset)
		fail_msg("reset with code %u", v->code);
}

static void
finish(struct bed *b, struct visitor *v)
{
	stream_end(v->st);
	bed_until(b, v->eof || v->reset);
	assert_false(v->reset);
	stream_close(&v->st, STREAM_DONE);
}

static void
test_stream(void **state)
{
	struct bed b;
	struct bed_node n;
	struct visitor v;

	(void)state;
	link_bed_open(&b);
	bed_node_start(&b, &n, "edge-1", "node:*");
	assert_int_equal(bed_ask(&b, &v, "edge-1", NULL), 0);
	exchange(&b, &v, "hello");
	finish(&b, &v); /* the target hears of the half-close, and answers it */
	assert_string_equal(v.text, "hellobye");
	bed_until(&b, bed_counted(&n, "joined") == 0);
	assert_true(bed_metric(&b, &n, "edgeway_tunnel_dials_total{result=\"ok\"}") == 1);
	assert_true(bed_metric(&b, NULL, "edgeway_tunnel_streams") == 0);
	assert_true(
		bed_metric(&b, NULL, "edgeway_tunnel_bytes_total{direction=\"from_node\"}") == 8);
	bed_node_stop(&n);
	link_bed_close(&b);
}

/* What is asked for, and what comes of it, judged by the node alone. */
static void
test_answers(void **state)
{
	static const struct {
		const char *authority;
		unsigned status;
		const char *reason;
	} table[] = {
		{"edge-1:1", 403, "tunnel.allow"},
		{"127.0.0.1:1", 403, "tunnel.allow"},
		{"edge-2:7", 404, "another node"},
		{"192.0.2.77:7", 404, "no such address"},
		{"169.254.169.254:7", 404, "no such address"},
		{"edge-1", 400, "host:port"},
		{"edge-1:0", 400, "host:port"},
		{"edge-1:65536", 400, "host:port"},
		{":7", 400, "host:port"},
		{"edge-1:7", 502, "Connection refused"},
		{"EDGE-1:7", 502, "Connection refused"},
		{"127.0.0.1:7", 502, "127.0.0.1:7"},
	};
	struct bed b;
	struct bed_node n;

	(void)state;
	link_bed_open(&b);
	bed_node_start(&b, &n, "edge-1", "node:7");
	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		struct visitor v;

		assert_int_equal(bed_ask(&b, &v, "edge-1", table[i].authority), 0);
		bed_until(&b, v.status != 0 || v.reset);
		if (v.status != table[i].status || strstr(v.reason, table[i].reason) == NULL)
			fail_msg("%s: %u %s", table[i].authority, v.status, v.reason);
	}
	assert_true(bed_metric(&b, &n, "edgeway_tunnel_dials_total{result=\"denied\"}") == 2);
	assert_true(bed_counted(&n, "dialling") == 0);
	bed_node_stop(&n);
	link_bed_close(&b);
}

/* What the hub says, and this node added, is in the TTL of the dial; as often as it may be, and
 * nothing is dialled. */
static void
test_hops(void **state)
{
	static const struct {
		const char *said;
		unsigned came; /* 0: refused */
	} table[] = {{NULL, 1}, {"0", 1}, {"3", 4}, {"11", HOPS_MAX}, {"12", 0}, {"999999999", 0},
		{"1000000000000", 0}, {"-1", 0}};
	struct bed b;
	struct bed_node n;

	(void)state;
	link_bed_open(&b);
	bed_node_start(&b, &n, "edge-1", "node:*");
	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		struct visitor v;

		b.hops = table[i].said;
		b.came_hops = 0;
		assert_int_equal(bed_ask(&b, &v, "edge-1", NULL), 0);
		bed_until(&b, v.status != 0);
		assert_int_equal(v.status, table[i].came > 0 ? 200 : 508);
		if (table[i].came > 0)
			finish(&b, &v);
		else
			assert_string_equal(v.reason, HOPS_REASON);
		assert_int_equal(b.came_hops, table[i].came);
	}
	assert_true(bed_metric(&b, &n, "edgeway_tunnel_dials_total{result=\"loop\"}") == 4);
	bed_node_stop(&n);
	link_bed_close(&b);
}

/* A stream with a traceparent that says so has a span, whatever became of it; others have none. */
static void
test_spans(void **state)
{
	static const char parent[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
	static const char *const none[] = {
		NULL, "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00", "01", ""};
	struct bed_node n;
	struct visitor v;
	struct bed b;

	(void)state;
	link_bed_open(&b);
	bed_node_start(&b, &n, "edge-1", "node:*");
	b.traceparent = parent;
	assert_int_equal(bed_ask(&b, &v, "edge-1", NULL), 0); /* while nobody wants any */
	bed_until(&b, v.status == 200);
	stream_close(&v.st, STREAM_CANCELLED);
	bed_until(&b, bed_counted(&n, "joined") == 0);
	assert_null(b.told);
	bed_spans(&b, 2);
	for (size_t i = 0; i < ARRAY_LEN(none); i++) {
		b.traceparent = none[i];
		assert_int_equal(bed_ask(&b, &v, "edge-1", NULL), 0);
		bed_until(&b, v.status == 200);
		stream_close(&v.st, STREAM_CANCELLED);
		bed_until(&b, bed_counted(&n, "joined") == 0);
		assert_null(b.told);
	}
	b.traceparent = parent;
	assert_int_equal(bed_ask(&b, &v, "edge-1", NULL), 0);
	bed_until(&b, v.status == 200);
	bed_say(&v, "hello");
	stream_end(v.st);
	bed_until(&b, v.eof && b.told != NULL);
	assert_int_equal(b.told->part, TRACE_SERVED);
	assert_int_equal(b.told->status, 200);
	assert_int_equal(b.told->bytes_up, 5);
	assert_int_equal(b.told->bytes_down, 8);
	assert_int_equal(b.told->port, b.port);
	assert_string_equal(b.told->host, "edge-1");
	assert_string_equal(b.told->carried->node, "edge-1");
	assert_string_equal(b.told->carried->kind, "node");
	assert_string_equal(b.told->carried->caller, "a ?test?");
	assert_string_equal(b.told->carried->why, "done");
	assert_false(b.told->carried->broken);
	assert_true(b.told->has_parent && b.told->parent[7] == 0xb7 &&
		b.told->context.trace[0] == 0x4b);
	assert_memory_not_equal(b.told->context.span, b.told->parent, TRACE_SPAN_BYTES);
	stream_close(&v.st, STREAM_DONE);
	assert_int_equal(bed_ask(&b, &v, "edge-1", "nobody:1"), 0);
	bed_until(&b, v.status == 404);
	assert_int_equal(b.told->status, 404);
	stream_close(&v.st, STREAM_DONE);
	assert_int_equal(
		bed_ask(&b, &v, "edge-1", NULL), 0); /* a third one: more than there may be */
	bed_until(&b, v.status == 200);
	stream_server_end_spans(n.serve);
	assert_int_equal(b.told->status, 404);
	assert_int_equal(b.spans.limited, 1);
	b.spans.per_s = 100;
	stream_close(&v.st, STREAM_CANCELLED);
	assert_int_equal(bed_ask(&b, &v, "edge-1", NULL), 0);
	bed_until(&b, v.status == 200);
	stream_server_end_spans(n.serve); /* the agent stops, and the stream goes on */
	assert_string_equal(b.told->carried->why, "goes on while the agent stops");
	stream_server_end_spans(n.serve);
	assert_int_equal(b.told->next->status, 404);
	stream_close(&v.st, STREAM_CANCELLED);
	bed_node_stop(&n);
	link_bed_close(&b);
}

static void
test_no_tunnel(void **state)
{
	struct bed b;
	struct bed_node n;
	struct visitor v;

	(void)state;
	link_bed_open(&b);
	bed_node_start(&b, &n, "edge-1", "node:*");
	assert_int_equal(bed_ask(&b, &v, "edge-2", NULL), -ENOTCONN);
	assert_int_equal(bed_ask(&b, &v, "edge-", NULL), -ENOTCONN);
	assert_true(bed_metric(&b, NULL, "edgeway_tunnel_missed_total") == 2);
	bed_node_stop(&n);
	bed_until(&b, !tunnels_have(b.tunnels, "edge-1"));
	assert_int_equal(bed_ask(&b, &v, "edge-1", NULL), -ENOTCONN);
	link_bed_close(&b);
}

/* A target that swallows SYNs: whoever asked goes away, and so does the dial; who waits is told
 * 504. */
static void
test_silent_target(void **state)
{
	int full[4], target;
	struct addr a = addr_ipv4(INADDR_LOOPBACK, 0);
	struct visitor gone, waits;
	struct bed_node n;
	struct bed b;
	char authority[64];

	(void)state;
	link_bed_open(&b);
	target = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(target, &a.sa, a.len), 0);
	assert_int_equal(listen(target, 0), 0);
	assert_int_equal(getsockname(target, &a.sa, &a.len), 0);
	for (size_t i = 0; i < ARRAY_LEN(full); i++)
		assert_int_equal(sock_connect(&a, 0, &full[i]), 0);
	snprintf(authority, sizeof authority, "127.0.0.1:%u", addr_port(&a));
	bed_node_start(&b, &n, "edge-1", "node:*");
	assert_int_equal(bed_ask(&b, &gone, "edge-1", authority), 0);
	assert_int_equal(bed_ask(&b, &waits, "edge-1", authority), 0);
	bed_until(&b, bed_counted(&n, "dialling") == 2);
	stream_close(&gone.st, STREAM_CANCELLED);
	bed_until(&b, bed_counted(&n, "dialling") == 1);
	bed_until(&b, waits.status != 0);
	assert_int_equal(waits.status, 504);
	assert_true(bed_metric(&b, &n, "edgeway_tunnel_dials_total{result=\"cancelled\"}") == 1);
	assert_true(bed_metric(&b, &n, "edgeway_tunnel_dials_total{result=\"timeout\"}") == 1);
	bed_node_stop(&n);
	for (size_t i = 0; i < ARRAY_LEN(full); i++)
		close(full[i]);
	close(target);
	link_bed_close(&b);
}

/* The same node again, as after a restart: new streams go to the newer, and the end of the older
 * harms nothing. */
static void
test_newer(void **state)
{
	struct bed b;
	struct bed_node older, newer;
	struct visitor v, w;

	(void)state;
	link_bed_open(&b);
	bed_node_start(&b, &older, "edge-1", "node:*");
	assert_int_equal(bed_ask(&b, &v, "edge-1", NULL), 0);
	exchange(&b, &v, "old");
	bed_node_start(&b, &newer, "edge-1", "node:*");
	bed_until(&b, bed_metric(&b, NULL, "edgeway_tunnel_replaced_total") == 1);
	assert_int_equal(bed_ask(&b, &w, "edge-1", NULL), 0);
	exchange(&b, &w, "new");
	assert_true(bed_counted(&newer, "joined") == 1);
	exchange(&b, &v, "er"); /* what was open goes on */
	bed_node_stop(&older);
	bed_until(&b, v.reset);
	assert_int_equal(v.code, STREAM_LOST);
	assert_true(tunnels_have(b.tunnels, "edge-1"));
	exchange(&b, &w, "s");
	finish(&b, &w);
	bed_node_stop(&newer);
	link_bed_close(&b);
}

/* A standby tunnel takes streams where no other one does, and replaces none but its like. */
static void
test_standby(void **state)
{
	struct bed b;
	struct bed_node standby, first, newer, again;
	struct visitor v, w;

	(void)state;
	link_bed_open(&b);
	bed_standby_start(&b, &standby, "edge-1");
	assert_true(tunnels_epoch(b.tunnels, "edge-1") < wall_ms() * 2 / 3);
	assert_int_equal(tunnels_count(b.tunnels), 0);
	assert_int_equal(bed_ask(&b, &v, "edge-1", NULL), 0);
	exchange(&b, &v, "alone");
	bed_node_start(&b, &first, "edge-1", "node:*");
	bed_until(&b, tunnels_count(b.tunnels) == 1);
	assert_true(tunnels_epoch(b.tunnels, "edge-1") > wall_ms() * 2 / 3);
	assert_int_equal(bed_ask(&b, &w, "edge-1", NULL), 0);
	exchange(&b, &w, "first");
	assert_true(bed_counted(&first, "joined") == 1);
	bed_node_start(&b, &newer, "edge-1", "node:*");
	bed_until(&b, bed_metric(&b, NULL, "edgeway_tunnel_replaced_total") == 1);
	bed_standby_start(&b, &again, "edge-1");
	bed_until(&b, bed_metric(&b, NULL, "edgeway_tunnel_replaced_total") == 2);
	exchange(&b, &v, "!"); /* what was open in the former one goes on */
	finish(&b, &v);
	finish(&b, &w);
	/* Another hub has a newer tunnel: that says nothing about the standby one. */
	tunnels_yield(b.tunnels, "edge-1", UINT64_MAX);
	assert_true(bed_metric(&b, NULL, "edgeway_tunnel_replaced_total") == 3);
	assert_int_equal(tunnels_count(b.tunnels), 0);
	assert_int_equal(bed_ask(&b, &v, "edge-1", NULL), 0);
	exchange(&b, &v, "alone again");
	assert_true(bed_counted(&again, "joined") == 1);
	finish(&b, &v);
	bed_node_stop(&first);
	bed_node_stop(&newer);
	bed_node_stop(&standby);
	bed_node_stop(&again);
	link_bed_close(&b);
}

/* The standby tunnel follows to another address as soon as one is named, and the former one stays
 * until it is open there. */
static void
test_standby_moves(void **state)
{
	struct addr at = addr_ipv4(INADDR_LOOPBACK, 0);
	struct bed b;
	struct bed_node n;
	struct listen *other = NULL;
	char address[ADDR_TEXT_MAX];
	struct buf text;

	(void)state;
	link_bed_open(&b);
	bed_standby_start(&b, &n, "edge-1");
	assert_int_equal(listen_start(&other, b.loop, &at, bed_on_socket, &b, NULL), 0);
	at = listen_addr(other);
	tunnel_client_use(n.link,
		&(struct tunnel_client_hub){.addr = at,
			.host = "hub.example",
			.tls = n.tls,
			.certificate = n.certificate});
	assert_false(tunnel_client_open_to(n.link, &at));
	assert_true(tunnel_client_open(n.link));
	bed_until(&b, tunnel_client_open_to(n.link, &at));
	buf_init(&text, BUF_UNLIMITED);
	tunnel_client_state(n.link, &text);
	assert_non_null(strstr(buf_str(&text), addr_text(&at, address)));
	buf_fini(&text);
	assert_true(tunnels_have(b.tunnels, "edge-1"));
	bed_node_stop(&n);
	listen_stop(&other);
	link_bed_close(&b);
}

/* Two nodes, one address: a stream goes to the node that is named. */
static void
test_two_nodes(void **state)
{
	struct bed b;
	struct bed_node one, two;
	struct visitor v, w;

	(void)state;
	link_bed_open(&b);
	bed_node_start(&b, &one, "edge-1", "node:*");
	bed_node_start(&b, &two, "edge-2", "node:7");
	assert_int_equal(bed_ask(&b, &v, "edge-1", "127.0.0.1:7"), 0);
	assert_int_equal(bed_ask(&b, &w, "edge-2", "127.0.0.1:8"), 0);
	bed_until(&b, v.status != 0 && w.status != 0);
	assert_int_equal(v.status, 502);
	assert_int_equal(w.status, 403);
	/* and a name leads to no other node than the one that bears it */
	assert_int_equal(bed_ask(&b, &v, "edge-1", "edge-2:7"), 0);
	bed_until(&b, v.status != 0);
	assert_int_equal(v.status, 404);
	assert_int_equal(tunnels_count(b.tunnels), 2);
	bed_node_stop(&one);
	bed_node_stop(&two);
	link_bed_close(&b);
}

static void
test_revoked(void **state)
{
	char serial[PKI_SERIAL_TEXT];
	struct bed b;
	struct bed_node n;
	struct visitor v;

	(void)state;
	link_bed_open(&b);
	bed_node_start(&b, &n, "edge-1", "node:*");
	bed_node_certify(&n, 3600, serial);
	bed_until(&b, bed_metric(&b, &n, "edgeway_tunnel_renewed_total") == 1);
	bed_until(&b, bed_metric(&b, NULL, "edgeway_tunnel_replaced_total") == 1);
	assert_int_equal(bed_ask(&b, &v, "edge-1", NULL), 0);
	exchange(&b, &v, "x");
	b.revoked = serial;
	assert_int_equal(tunnels_revoked(b.tunnels, "edge-1"), 1);
	assert_true(v.reset);
	assert_int_equal(v.code, STREAM_LOST);
	assert_int_equal(tunnels_count(b.tunnels), 0);
	bed_until(&b,
		bed_metric(&b, NULL, "edgeway_tunnel_connections_total{result=\"refused\"}") > 0);
	bed_until(&b, bed_ask(&b, &v, "edge-1", NULL) == -ENOTCONN);
	bed_node_stop(&n);
	link_bed_close(&b);
}

static void
test_expired(void **state)
{
	struct bed b;
	struct bed_node n;
	struct visitor v;

	(void)state;
	link_bed_open(&b);
	bed_node_start(&b, &n, "edge-1", "node:*");
	bed_node_certify(&n, 3, NULL);
	bed_until(&b, bed_metric(&b, NULL, "edgeway_tunnel_replaced_total") == 1);
	assert_int_equal(bed_ask(&b, &v, "edge-1", NULL), 0);
	exchange(&b, &v, "x");
	bed_until(&b, v.reset);
	assert_int_equal(v.code, STREAM_LOST);
	assert_true(bed_metric(&b, NULL, "edgeway_tunnel_cut_total") == 1);
	bed_node_stop(&n);
	link_bed_close(&b);
}

/* After the start every node is, then those whose tunnel breaks; who leaves in good order by those
 * alone who have no other to ask. */
static void
test_who_is_expected(void **state)
{
	struct bed b;
	struct bed_node n;

	(void)state;
	link_bed_open(&b);
	assert_true(tunnels_await(b.tunnels, "edge-1", true));
	bed_node_start(&b, &n, "edge-1", "node:*");
	bed_node_stop(&n);
	bed_until(&b, !tunnels_have(b.tunnels, "edge-1"));
	assert_true(tunnels_await(b.tunnels, "edge-1", false));
	bed_node_start(&b, &n, "edge-1", "node:*");
	tunnel_client_drain(n.link, on_done, &n.drained);
	bed_until(&b, n.drained && tunnels_count(b.tunnels) == 0);
	bed_until(&b, !tunnels_await(b.tunnels, "edge-1", false));
	assert_true(tunnels_await(b.tunnels, "edge-1", true));
	assert_true(tunnels_await(b.tunnels, "edge-2", false)); /* that has not come yet */
	bed_node_stop(&n);
	link_bed_close(&b);
}

/* A certificate of somebody else, none at all, another CA: never a tunnel. */
/* The node has renewed: what runs under the certificate before goes on when that ends, but not when
 * it is revoked. */
static void
test_outlives_its_certificate(void **state)
{
	char serial[PKI_SERIAL_TEXT];
	uint64_t ends_ms = mono_ms() + 3000;
	struct bed b;
	struct bed_node n;
	struct visitor v;

	(void)state;
	link_bed_open(&b);
	bed_node_start(&b, &n, "edge-1", "node:*");
	bed_node_certify(&n, 3, serial);
	bed_until(&b, bed_metric(&b, NULL, "edgeway_tunnel_replaced_total") == 1);
	assert_int_equal(bed_ask(&b, &v, "edge-1", NULL), 0);
	exchange(&b, &v, "x");
	bed_node_certify(&n, 3600, NULL);
	bed_until(&b, bed_metric(&b, NULL, "edgeway_tunnel_replaced_total") == 2);
	bed_until(&b, v.reset || mono_ms() > ends_ms + 2500); /* it was looked at since */
	exchange(&b, &v, "y");
	assert_true(bed_metric(&b, NULL, "edgeway_tunnel_cut_total") == 0);
	b.revoked = serial;
	tunnels_check(b.tunnels);
	assert_true(v.reset);
	assert_true(bed_metric(&b, NULL, "edgeway_tunnel_cut_total") == 1);
	assert_true(tunnels_have(b.tunnels, "edge-1"));
	bed_node_stop(&n);
	link_bed_close(&b);
}

static void
test_strangers(void **state)
{
	auto_free char *ca = NULL, *ca_key = NULL, *key = NULL, *cert = NULL;
	struct pki_issue issue = {.common_name = "edge-1", .client = true, .days = 2};
	struct tunnel_client_config config = {.opened = stream_server_opened, .heartbeat_ms = 4000};
	struct tunnel_client_hub hub = {.host = "hub.example", .certificate = 1};
	struct tunnel_client *link;
	struct bed b;

	(void)state;
	link_bed_open(&b);
	assert_int_equal(pki_ca_new("test CA", 2, &ca, &ca_key, NULL), 0);
	assert_int_equal(pki_key_new(&key, NULL), 0);
	issue.ca_cert_pem = ca;
	issue.ca_key_pem = ca_key;
	assert_int_equal(pki_sign_key(&issue, key, &cert, NULL), 0);
	config.loop = b.loop;
	hub.addr = b.addr;
	for (unsigned i = 0; i < 2; i++) {
		const char *metric = "edgeway_tunnel_connections_total{result=\"failed\"}";
		double before = bed_metric(&b, NULL, metric);

		assert_int_equal(pki_client_ctx(b.ca, i == 0 ? cert : NULL, i == 0 ? key : NULL,
					 &hub.tls, NULL),
			0);
		link = tunnel_client_new(&config);
		tunnel_client_use(link, &hub);
		bed_until(&b, bed_metric(&b, NULL, metric) > before + 1); /* it tries again */
		assert_int_equal(tunnels_count(b.tunnels), 0);
		tunnel_client_free(&link);
		pki_ctx_free(&hub.tls);
	}
	link_bed_close(&b);
}

/* A new certificate under a hundred streams: none of them notices, and new ones go by the new
 * connection. */
static void
test_rotation(void **state)
{
	static struct visitor v[100];
	struct visitor fresh;
	struct bed_node n;
	struct bed b;

	(void)state;
	link_bed_open(&b);
	bed_node_start(&b, &n, "edge-1", "node:*");
	for (size_t i = 0; i < ARRAY_LEN(v); i++) {
		assert_int_equal(bed_ask(&b, &v[i], "edge-1", NULL), 0);
		exchange(&b, &v[i], "before");
	}
	for (unsigned i = 1; i <= 3; i++) {
		bed_node_certify(&n, 3600, NULL);
		bed_until(&b, bed_metric(&b, NULL, "edgeway_tunnel_replaced_total") == i);
		for (size_t k = 0; k < ARRAY_LEN(v); k++)
			exchange(&b, &v[k], "after");
	}
	assert_int_equal(bed_ask(&b, &fresh, "edge-1", NULL), 0);
	exchange(&b, &fresh, "fresh");
	assert_int_equal(tunnel_client_streams(n.link), ARRAY_LEN(v) + 1);
	for (size_t i = 0; i < ARRAY_LEN(v); i++)
		finish(&b, &v[i]);
	/* the old connections end with their last streams */
	bed_until(&b, bed_counted(&n, "joined") == 1);
	exchange(&b, &fresh, "ly");
	finish(&b, &fresh);
	assert_true(bed_metric(&b, &n, "edgeway_tunnel_lost_total") == 0);
	assert_true(bed_metric(&b, &n, "edgeway_tunnel_open") == 1);
	bed_node_stop(&n);
	link_bed_close(&b);
}

static void
test_hub_returns(void **state)
{
	struct bed b;
	struct bed_node n;
	struct visitor v;

	(void)state;
	link_bed_open(&b);
	bed_node_start(&b, &n, "edge-1", "node:*");
	assert_int_equal(bed_ask(&b, &v, "edge-1", NULL), 0);
	exchange(&b, &v, "x");
	bed_hub_stop(&b); /* the same address afterwards */
	assert_true(v.reset);
	bed_until(&b, bed_metric(&b, &n, "edgeway_tunnel_lost_total") == 1);
	bed_until(
		&b, bed_metric(&b, &n, "edgeway_tunnel_connections_total{result=\"failed\"}") > 1);
	bed_hub_start(&b);
	bed_until(&b, tunnels_have(b.tunnels, "edge-1"));
	assert_int_equal(bed_ask(&b, &v, "edge-1", NULL), 0);
	exchange(&b, &v, "again");
	finish(&b, &v);
	bed_node_stop(&n);
	link_bed_close(&b);
}

/* A frozen hub's kernel accepts, and nothing more comes: once another hub has greeted nobody waits
 * for it. */
static void
test_another_hub(void **state)
{
	struct addr at = addr_ipv4(INADDR_LOOPBACK, 0), real;
	auto_fd int frozen = -1, fd = -1;
	struct bed b;
	struct bed_node n;
	char byte;

	(void)state;
	assert_int_equal(sock_listen(&at, 0, &frozen, NULL), 0);
	assert_int_equal(getsockname(frozen, &at.sa, &at.len), 0);
	link_bed_open(&b);
	real = b.addr;
	bed_hub_stop(&b);
	b.addr = at;
	bed_node_start(&b, &n, "edge-1", "node:*");
	bed_until(&b, fd >= 0 || (fd = accept(frozen, NULL, NULL)) >= 0);
	bed_until(&b, recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1);
	b.addr = real;
	bed_hub_start(&b);
	tunnel_client_use(n.link,
		&(struct tunnel_client_hub){.addr = real,
			.host = "hub.example",
			.tls = n.tls,
			.certificate = n.certificate});
	bed_until(&b, tunnels_have(b.tunnels, "edge-1"));
	assert_true(bed_metric(&b, &n, "edgeway_tunnel_connections_total{result=\"failed\"}") == 0);
	bed_node_stop(&n);
	close(take_fd(&fd));
	link_bed_close(&b);
}

/* The node stops: no new stream, and what is open finishes. */
static void
test_node_drains(void **state)
{
	struct bed b;
	struct bed_node n;
	struct visitor v, w;

	(void)state;
	link_bed_open(&b);
	bed_node_start(&b, &n, "edge-1", "node:*");
	assert_int_equal(bed_ask(&b, &v, "edge-1", NULL), 0);
	exchange(&b, &v, "x");
	tunnel_client_drain(n.link, on_done, &n.drained);
	bed_until(&b, !tunnels_have(b.tunnels, "edge-1"));
	assert_int_equal(bed_ask(&b, &w, "edge-1", NULL), -ESHUTDOWN);
	exchange(&b, &v, "y");
	assert_false(n.drained);
	finish(&b, &v);
	bed_until(&b, n.drained);
	bed_node_stop(&n);
	link_bed_close(&b);
}

static void
test_hub_drains(void **state)
{
	struct bed b;
	struct bed_node n;
	struct visitor v, w;

	(void)state;
	link_bed_open(&b);
	bed_node_start(&b, &n, "edge-1", "node:*");
	assert_int_equal(bed_ask(&b, &v, "edge-1", NULL), 0);
	exchange(&b, &v, "x");
	tunnels_drain(b.tunnels, on_done, &b.drained);
	assert_int_equal(bed_ask(&b, &w, "edge-1", NULL), -ESHUTDOWN);
	exchange(&b, &v, "y");
	assert_false(b.drained);
	finish(&b, &v);
	bed_until(&b, b.drained);
	bed_node_stop(&n);
	link_bed_close(&b);
}

/* --- another way to the hub ----------------------------------------------------------------- */

static bool way_is_another;

bool __wrap_sock_rerouted(int fd);
bool
__wrap_sock_rerouted(int fd)
{
	(void)fd;
	return way_is_another;
}

/* It says nothing of the hub. While no new connection can be made, what works goes on; one is made
 * as soon as that is possible. */
static void
test_rerouted(void **state)
{
	struct bed b;
	struct bed_node n;
	unsigned ups;

	(void)state;
	link_bed_open(&b);
	bed_node_start(&b, &n, "edge-1", "node:*");
	ups = n.ups;
	tunnel_client_network(n.link);
	assert_non_null(tunnel_client_session(n.link));
	listen_stop(&b.listen);
	way_is_another = true;
	tunnel_client_network(n.link);
	assert_null(tunnel_client_session(n.link));
	bed_until(&b, n.ups > ups);
	assert_non_null(tunnel_client_session(n.link));
	assert_int_equal(tunnel_client_opened(n.link), 1);
	assert_int_equal(n.reroutes, 1);
	tunnel_client_network(n.link); /* the same once more: the connection is known to work */
	assert_non_null(tunnel_client_session(n.link));
	assert_int_equal(listen_start(&b.listen, b.loop, &b.addr, bed_on_socket, &b, NULL), 0);
	bed_until(&b, tunnel_client_opened(n.link) == 2);
	assert_non_null(tunnel_client_session(n.link));
	assert_int_equal(n.doubts, 0);
	way_is_another = false;
	bed_node_stop(&n);
	link_bed_close(&b);
}

/* It is the old way again before another connection is there. */
static void
test_way_is_back(void **state)
{
	struct bed b;
	struct bed_node n;
	unsigned ups;

	(void)state;
	link_bed_open(&b);
	bed_node_start(&b, &n, "edge-1", "node:*");
	ups = n.ups;
	way_is_another = true;
	tunnel_client_network(n.link);
	way_is_another = false;
	tunnel_client_network(n.link);
	assert_non_null(tunnel_client_session(n.link));
	assert_int_equal(n.ups, ups + 1);
	bed_node_stop(&n);
	link_bed_close(&b);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stream),
		cmocka_unit_test(test_answers),
		cmocka_unit_test(test_hops),
		cmocka_unit_test(test_spans),
		cmocka_unit_test(test_no_tunnel),
		cmocka_unit_test(test_silent_target),
		cmocka_unit_test(test_newer),
		cmocka_unit_test(test_standby),
		cmocka_unit_test(test_standby_moves),
		cmocka_unit_test(test_two_nodes),
		cmocka_unit_test(test_revoked),
		cmocka_unit_test(test_expired),
		cmocka_unit_test(test_outlives_its_certificate),
		cmocka_unit_test(test_who_is_expected),
		cmocka_unit_test(test_strangers),
		cmocka_unit_test(test_rotation),
		cmocka_unit_test(test_hub_returns),
		cmocka_unit_test(test_another_hub),
		cmocka_unit_test(test_rerouted),
		cmocka_unit_test(test_way_is_back),
		cmocka_unit_test(test_node_drains),
		cmocka_unit_test(test_hub_drains),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

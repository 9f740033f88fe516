#include "tests/unit/tunnel/h2/tunnel_bed.h"

#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

unsigned bed_resets_per_s;

/* --- owners of streams ---------------------------------------------------------------------- */

static void
on_answered(void *arg, unsigned status, const char *reason)
{
	struct end *e = arg;

	e->status = status;
	snprintf(e->reason, sizeof e->reason, "%s", reason);
}

void
bed_move(struct end *e)
{
	const void *data;
	size_t n;

	while (e->st != NULL && !e->stalled && (n = stream_peek(e->st, &data)) > 0) {
		if (e->echo) {
			n = MIN(n, stream_room(e->st));
			if (n == 0)
				return;
			stream_write(e->st, data, n);
		}
		for (size_t i = 0; i < n; i++)
			e->sum += ((const unsigned char *)data)[i];
		e->got += n;
		stream_consume(e->st, n);
	}
	if (e->st != NULL && !e->eof && stream_eof(e->st)) {
		e->eof = true;
		if (e->echo)
			stream_end(e->st);
	}
}

static void
on_move(void *arg)
{
	bed_move(arg);
}

static void
on_reset(void *arg, unsigned code)
{
	struct end *e = arg;

	assert_false(e->reset); /* the last that is told */
	e->reset = true;
	e->code = code;
	if (e->close_on_reset)
		stream_close(&e->st, STREAM_DONE);
}

static const struct stream_events stream_events = {on_answered, on_move, on_move, on_reset};

static unsigned
on_opened(void *arg, struct stream *st, const struct stream_request *request, const char **reason)
{
	struct bed *b = arg;
	struct end *e;

	if (b->refuse_with != 0) {
		*reason = "not today\nnor tomorrow";
		return b->refuse_with;
	}
	if (b->take != NULL && b->take(b, st))
		return 0;
	assert_true(b->n_ends < BED_STREAMS);
	e = b->ends[b->n_ends++] = xcalloc(1, sizeof *e);
	e->bed = b;
	e->st = st;
	e->echo = true;
	e->close_on_reset = true;
	snprintf(e->authority, sizeof e->authority, "%s", request->authority);
	if (request->n_fields > 0)
		snprintf(e->field, sizeof e->field, "%s=%s", request->fields[0].name,
			request->fields[0].value);
	stream_accept(st, &stream_events, e);
	if (!b->silent)
		stream_answer(st, 200, "");
	return 0;
}

static void
on_draining(void *arg)
{
	((struct bed *)arg)->drains++;
}

static void
on_near_ended(void *arg, int rc, const char *why)
{
	struct bed *b = arg;

	b->near_rc = rc;
	snprintf(b->near_why, sizeof b->near_why, "%s", why);
	session_free(&b->near);
}

static void
on_far_ended(void *arg, int rc, const char *why)
{
	struct bed *b = arg;

	b->far_rc = rc;
	snprintf(b->far_why, sizeof b->far_why, "%s", why);
	session_free(&b->far);
}

static void
on_asked(void *arg)
{
	((struct bed *)arg)->asks++;
}

static const struct session_events near_events = {
	.opened = on_opened, .draining = on_draining, .asked = on_asked, .ended = on_near_ended};
static const struct session_events far_events = {
	.opened = on_opened, .draining = on_draining, .asked = on_asked, .ended = on_far_ended};

/* --- TLS: the node dials, the hub accepts and is the client of HTTP/2 ----------------------- */

struct tls_side {
	struct tls_stream *stream;
	bool open, failed;
};

static void
on_tls(void *arg, enum tls_event event)
{
	struct tls_side *s = arg;

	s->open |= event == TLS_OPEN;
	s->failed |= event == TLS_FAILED;
}

static void
make_ctx(struct ssl_ctx_st **server, struct ssl_ctx_st **client)
{
	static const char *const names[] = {"hub.example", NULL};
	auto_free char *ca = NULL, *ca_key = NULL, *hub = NULL, *hub_key = NULL, *node = NULL;
	auto_free char *node_key = NULL;
	struct pki_issue issue = {.days = 2, .names = names, .server = true};

	assert_int_equal(pki_ca_new("test CA", 2, &ca, &ca_key, NULL), 0);
	assert_int_equal(pki_key_new(&hub_key, NULL), 0);
	assert_int_equal(pki_key_new(&node_key, NULL), 0);
	issue.ca_cert_pem = ca;
	issue.ca_key_pem = ca_key;
	issue.common_name = "hub.example";
	assert_int_equal(pki_sign_key(&issue, hub_key, &hub, NULL), 0);
	issue.common_name = "edge-1";
	issue.names = NULL;
	issue.server = false;
	issue.client = true;
	assert_int_equal(pki_sign_key(&issue, node_key, &node, NULL), 0);
	assert_int_equal(pki_server_ctx(hub, hub_key, ca, server, NULL), 0);
	assert_int_equal(pki_client_ctx(ca, node, node_key, client, NULL), 0);
}

void
bed_tcp_pair(int fd[2])
{
	struct addr a = addr_ipv4(INADDR_LOOPBACK, 0);
	int listener;

	assert_int_equal(sock_listen(&a, 0, &listener, NULL), 0);
	assert_int_equal(getsockname(listener, &a.sa, &a.len), 0);
	assert_int_equal(sock_connect(&a, 0, &fd[0]), 0);
	do
		fd[1] = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	while (fd[1] < 0 && errno == EAGAIN);
	assert_true(fd[1] >= 0);
	close(listener);
}

static void
shake(struct bed *b, struct transport *wires[2])
{
	struct ssl_ctx_st *server, *client;
	struct tls_side hub = {0}, node = {0};
	struct tls_setup setup = {
		.loop = b->loop, .alpn = TUNNEL_ALPN_REVERSE, .on = on_tls, .arg = &node};
	int fd[2];

	make_ctx(&server, &client);
	bed_tcp_pair(fd);
	setup.fd = fd[0];
	setup.ctx = client;
	setup.host = "hub.example";
	assert_int_equal(tls_stream_new(&setup, &node.stream, NULL), 0);
	setup.fd = fd[1];
	setup.ctx = server;
	setup.host = NULL;
	setup.arg = &hub;
	assert_int_equal(tls_stream_new(&setup, &hub.stream, NULL), 0);
	pki_ctx_free(&server);
	pki_ctx_free(&client);
	bed_until(b, hub.open && node.open);
	assert_string_equal(tls_stream_peer(hub.stream), "edge-1");
	wires[0] = transport_tls(&hub.stream);
	wires[1] = transport_tls(&node.stream);
}

/* --- the bed -------------------------------------------------------------------------------- */

int
bed_descriptors(void)
{
	struct loop *loop;
	DIR *d;
	int n = 0;

	/* The first loop of a process opens a pipe for signals, which stays. */
	assert_int_equal(loop_new(&loop, NULL), 0);
	loop_free(&loop);
	d = opendir("/proc/self/fd");
	assert_non_null(d);
	while (readdir(d) != NULL)
		n++;
	closedir(d);
	return n;
}

void
bed_init(struct bed *b, bool tls)
{
	bed_init_limits(b, tls, 1500, 1500);
}

void
bed_fini_open(struct bed *b, struct end *ends, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		stream_close(&ends[i].st, STREAM_CANCELLED);
	bed_fini(b);
}

static void
set_up(struct bed *b, bool tls, unsigned near, unsigned far, bool squeeze)
{
	struct session_setup setup = {.arg = b, .squeeze = squeeze, .udp = !squeeze};
	struct transport *wires[2];
	int fd[2];

	signal(SIGPIPE, SIG_IGN);
	memset(b, 0, sizeof *b);
	b->descriptors = bed_descriptors();
	b->near_rc = b->far_rc = 1;
	b->near_budget.limit = b->far_budget.limit = 64 << 20;
	b->limits = (struct session_limits){.max_streams = near, .ping_ms = 4000, .dead_ms = 9000};
	assert_int_equal(loop_new(&b->loop, NULL), 0);
	if (tls) {
		shake(b, wires);
	} else {
		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd), 0);
		wires[0] = transport_socket(b->loop, fd[0]);
		wires[1] = transport_socket(b->loop, fd[1]);
	}
	setup.loop = b->loop;
	setup.limits = &b->limits;
	setup.role = SESSION_CLIENT;
	setup.wire = wires[0];
	setup.budget = &b->near_budget;
	setup.events = &near_events;
	assert_int_equal(session_new(&setup, &b->near), 0);
	b->limits.max_streams = far; /* copied by session_new */
	b->limits.resets_per_s = bed_resets_per_s;
	setup.role = SESSION_SERVER;
	setup.wire = wires[1];
	setup.budget = &b->far_budget;
	setup.events = &far_events;
	assert_int_equal(session_new(&setup, &b->far), 0);
}

void
bed_init_limits(struct bed *b, bool tls, unsigned near, unsigned far)
{
	set_up(b, tls, near, far, false);
}

void
bed_init_squeezed(struct bed *b)
{
	set_up(b, true, 100, 100, true);
}

void
bed_fini(struct bed *b)
{
	session_free(&b->near);
	session_free(&b->far);
	for (unsigned i = 0; i < b->n_ends; i++) {
		if (b->ends[i]->st != NULL)
			stream_close(&b->ends[i]->st, STREAM_DONE);
		free(b->ends[i]);
	}
	assert_int_equal(b->near_budget.held + b->near_budget.granted, 0);
	assert_int_equal(b->far_budget.held + b->far_budget.granted, 0);
	assert_int_equal(b->near_budget.queued + b->far_budget.queued, 0);
	loop_free(&b->loop);
	assert_int_equal(bed_descriptors(), b->descriptors);
}

void
bed_open(struct bed *b, struct end *e, const char *authority)
{
	struct stream_field field = {"edgeway-caller", "test"};
	struct stream_request request = {.authority = authority, .fields = &field, .n_fields = 1};

	memset(e, 0, sizeof *e);
	e->bed = b;
	assert_int_equal(session_open(b->near, &request, &stream_events, e, &e->st), 0);
}

void
bed_write(struct end *e, size_t n)
{
	static char zeros[65536];

	while (n > 0) {
		size_t piece = MIN(MIN(n, sizeof zeros), stream_room(e->st));

		stream_write(e->st, zeros, piece);
		n -= piece;
		if (piece == 0)
			bed_wait(e->bed);
	}
}

void
bed_wait(struct bed *b)
{
	patience_turn(b->loop);
}

/*
 * A relay through a tunnel, with both ends in separate processes: plain TCP into the hub, one TLS
 * connection dialled by the agent, plain TCP out of the agent. It is tunnel/ unchanged, without
 * names, rules or Kubernetes: this is what bench/bench_tunnel measures.
 *
 *	bench/tunnel keys DIR			writes ca.pem, hub.pem, node.pem (with keys)
 *	bench/tunnel hub DIR LISTEN-TLS LISTEN-TCP
 *	bench/tunnel agent DIR HUB TARGET [TUNNELS [AT-ONCE]]
 *
 * TUNNEL_SQUEEZE in the environment of both: clear text is compressed (tunnel.compress).
 * TUNNEL_CARRIER in that of both: everything runs inside a websocket inside TLS, as with
 * tunnel.carrier websocket. Each process prints "ready" once it can serve.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/core/loop.h"
#include "base/http/ws_tunnel.h"
#include "base/tls/pki.h"
#include "tunnel/h2/relay.h"

static struct {
	struct loop *loop;
	struct ssl_ctx_st *ctx;
	struct session_budget budget;
	struct session *session; /* hub: the newest */
	struct addr target, hub;
	unsigned tunnels, dialled, open;
} me;

struct visit { /* hub: a client, until the far end has answered */
	struct stream *st;
	int fd;
};

static void
check(int rc, const struct err *err)
{
	if (rc < 0) {
		fprintf(stderr, "tunnel: %s\n", err->text[0] != '\0' ? err->text : strerror(-rc));
		exit(1);
	}
}

static void
ready(void)
{
	puts("ready");
	fflush(stdout);
}

/* --- keys ----------------------------------------------------------------------------------- */

static void
save(const char *dir, const char *name, const char *cert, const char *key)
{
	auto_free char *path = xasprintf("%s/%s", dir, name);
	auto_free char *text = xasprintf("%s%s", cert, key);

	check(file_write(path, text, strlen(text), 0600), &(struct err){0});
}

static int
make_keys(const char *dir)
{
	static const char *const names[] = {"127.0.0.1", "hub", NULL};
	auto_free char *ca = NULL, *ca_key = NULL;
	struct pki_issue issue = {.days = 2};
	struct err err = {0};

	check(pki_ca_new("bench CA", 2, &ca, &ca_key, &err), &err);
	save(dir, "ca.pem", ca, "");
	issue.ca_cert_pem = ca;
	issue.ca_key_pem = ca_key;
	for (int node = 0; node < 2; node++) {
		auto_free char *key = NULL, *cert = NULL;

		issue.common_name = node ? "edge-1" : "hub";
		issue.names = node ? NULL : names;
		issue.server = !node;
		issue.client = node;
		check(pki_key_new(&key, &err), &err);
		check(pki_sign_key(&issue, key, &cert, &err), &err);
		save(dir, node ? "node.pem" : "hub.pem", cert, key);
	}
	return 0;
}

static void
load_keys(const char *dir, bool node)
{
	auto_free char *ca_path = xasprintf("%s/ca.pem", dir), *ca = NULL;
	auto_free char *path = xasprintf("%s/%s.pem", dir, node ? "node" : "hub"), *own = NULL;
	struct err err = {0};

	check(file_read(ca_path, 1 << 16, &ca, NULL), &err);
	check(file_read(path, 1 << 16, &own, NULL), &err);
	check((node ? pki_client_ctx(ca, own, own, &me.ctx, &err)
		    : pki_server_ctx(own, own, ca, &me.ctx, &err)),
		&err);
}

/* --- sessions ------------------------------------------------------------------------------- */

static void
on_ended(void *arg, int rc, const char *why)
{
	(void)arg;
	(void)rc;
	fprintf(stderr, "tunnel: %s\n", why);
	exit(1);
}

static void
on_relay_end(void *arg, const struct relay_report *report)
{
	(void)report;
	relay_free(arg);
	free(arg);
}

static unsigned
on_opened(void *arg, struct stream *st, const struct stream_request *request, const char **reason)
{
	static const struct stream_events none;
	struct relay **r = xcalloc(1, sizeof(struct relay *));
	struct relay_setup setup = {.loop = me.loop, .stream = st, .ended = on_relay_end, .arg = r};

	(void)arg;
	(void)request;
	(void)reason;
	stream_accept(st, &none, NULL);
	*r = relay_dial(&setup, &me.target, 0);
	return 0;
}

static const struct session_events session_events = {.opened = on_opened, .ended = on_ended};

static void dial(void);

static void
on_tls(void *arg, enum tls_event event)
{
	struct tls_stream *tls = *(struct tls_stream **)arg;
	bool hub = me.tunnels == 0;
	struct session_limits limits = {.max_streams = 10000, .ping_ms = 4000, .dead_ms = 9000};
	struct session_setup setup = {.loop = me.loop,
		.role = hub ? SESSION_CLIENT : SESSION_SERVER,
		.budget = &me.budget,
		.limits = &limits,
		.squeeze = getenv("TUNNEL_SQUEEZE") != NULL,
		.events = &session_events};

	if (event != TLS_OPEN) {
		fprintf(stderr, "tunnel: %s\n", tls_stream_why(tls));
		exit(1);
	}
	free(arg);
	setup.wire = transport_tls(&tls);
	check(session_new(&setup, &me.session), &(struct err){0});
	me.open++;
	if (me.dialled < me.tunnels)
		dial();
	if (me.open == MAX(me.tunnels, 1u))
		ready();
}

static void
start_tls(int fd, const char *host)
{
	struct tls_stream **tls = xcalloc(1, sizeof(struct tls_stream *));
	struct tls_setup setup = {.loop = me.loop,
		.fd = fd,
		.ctx = me.ctx,
		.host = host,
		.alpn = TUNNEL_ALPN_REVERSE,
		.on = on_tls,
		.arg = tls};
	struct err err = {0};

	check(tls_stream_new(&setup, tls, &err), &err);
}

/* --- inside a websocket --------------------------------------------------------------------- */

struct outer {
	struct tls_stream *tls;
	struct ws_tunnel *carrier;
	const char *host;
};

static void
on_carrier_end(void *arg, bool fault, const char *why)
{
	(void)arg;
	fprintf(stderr, "tunnel: carrier%s: %s\n", fault ? " broken" : "", why);
	exit(1);
}

static void
on_outer(void *arg, enum tls_event event)
{
	struct outer *o = arg;
	struct ws_tunnel_setup setup = {
		.loop = me.loop, .client = o->host != NULL, .ended = on_carrier_end, .arg = o};
	int fd;

	if (event != TLS_OPEN) {
		fprintf(stderr, "tunnel: %s\n", tls_stream_why(o->tls));
		exit(1);
	}
	setup.wire = transport_tls(&o->tls);
	check(ws_tunnel_start(&setup, &o->carrier, &fd), &(struct err){0});
	start_tls(fd, o->host);
}

static void
start(int fd, const char *host)
{
	static const char *const none[] = {NULL};
	struct outer *o;
	struct err err = {0};

	if (getenv("TUNNEL_CARRIER") == NULL) {
		start_tls(fd, host);
		return;
	}
	o = xcalloc(1, sizeof *o);
	o->host = host;
	check(tls_stream_new(&(struct tls_setup){.loop = me.loop,
				     .fd = fd,
				     .ctx = me.ctx,
				     .host = host,
				     .offers = none,
				     .proof = host != NULL ? TLS_PROVEN : TLS_ANYBODY,
				     .on = on_outer,
				     .arg = o},
		      &o->tls, &err),
		&err);
}

/* --- the hub -------------------------------------------------------------------------------- */

static void
let_go(struct visit *v)
{
	stream_close(&v->st, STREAM_CANCELLED);
	if (v->fd >= 0)
		close(v->fd);
	free(v);
}

static void
on_answered(void *arg, unsigned status, const char *reason)
{
	struct visit *v = arg;
	struct relay **r;
	struct relay_setup setup = {.loop = me.loop, .ended = on_relay_end};

	(void)reason;
	if (status != 200) {
		let_go(v);
		return;
	}
	r = xcalloc(1, sizeof(struct relay *));
	setup.stream = take_ptr(&v->st);
	setup.arg = r;
	*r = relay_join(&setup, take_fd(&v->fd));
	let_go(v);
}

static void
on_reset(void *arg, unsigned code)
{
	(void)code;
	let_go(arg);
}

static const struct stream_events visit_events = {.answered = on_answered, .reset = on_reset};

static void
on_client(void *arg, int listener, unsigned events)
{
	struct stream_request request = {.authority = "127.0.0.1:10250"};
	int fd;

	(void)arg;
	(void)events;
	while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
		struct visit *v = xcalloc(1, sizeof *v);

		v->fd = fd;
		if (me.session == NULL ||
			session_open(me.session, &request, &visit_events, v, &v->st) < 0)
			let_go(v);
	}
}

static void
on_node(void *arg, int listener, unsigned events)
{
	int fd;

	(void)arg;
	(void)events;
	while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0)
		start(fd, NULL);
}

static void
listen_at(const char *text, watch_fn *fn)
{
	struct err err = {0};
	struct addr at;
	int fd;

	check(addr_parse(&at, text, 0, &err), &err);
	check(sock_listen(&at, 0, &fd, &err), &err);
	watch_start(me.loop, fd, WATCH_READ, fn, NULL);
}

static void
dial(void)
{
	int fd;

	check(sock_connect(&me.hub, 0, &fd), &(struct err){0});
	me.dialled++;
	start(fd, "127.0.0.1");
}

static void
run_agent(int argc, char **argv)
{
	struct err err = {0};
	unsigned at_once;

	check(addr_parse(&me.hub, argv[3], 0, &err), &err);
	check(addr_parse(&me.target, argv[4], 0, &err), &err);
	me.tunnels = argc > 5 ? (unsigned)strtoul(argv[5], NULL, 10) : 1;
	at_once = argc > 6 ? (unsigned)strtoul(argv[6], NULL, 10) : 1;
	while (me.dialled < MIN(at_once, me.tunnels))
		dial();
}

int
main(int argc, char **argv)
{
	struct err err = {0};
	bool agent = argc >= 5 && strcmp(argv[1], "agent") == 0;

	signal(SIGPIPE, SIG_IGN);
	if (argc == 3 && strcmp(argv[1], "keys") == 0)
		return make_keys(argv[2]);
	if (!agent && (argc != 5 || strcmp(argv[1], "hub") != 0)) {
		fprintf(stderr, "usage: see the head of bench/tunnel.c\n");
		return 2;
	}
	me.budget.limit = 256 << 20;
	check(loop_new(&me.loop, &err), &err);
	load_keys(argv[2], agent);
	if (agent) {
		run_agent(argc, argv);
	} else {
		listen_at(argv[3], on_node);
		listen_at(argv[4], on_client);
	}
	loop_run(me.loop);
	return 0;
}

#include "tests/unit/tunnel/node/tunnel_client_bed.h"

#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/core/hops.h"
#include "base/core/log.h"
#include "base/tls/pki.h"

static int
descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	assert_non_null(d);
	while (readdir(d) != NULL)
		n++;
	closedir(d);
	return n;
}

/* --- certificates --------------------------------------------------------------------------- */

static char *
sign(struct bed *b, const char *name, bool server, unsigned life_s, char **key)
{
	static const char *const names[] = {"hub.example", NULL};
	struct pki_issue issue = {
		.ca_cert_pem = b->ca,
		.ca_key_pem = b->ca_key,
		.common_name = name,
		.names = server ? names : NULL,
		.server = server,
		.client = !server,
		.life_s = life_s,
	};
	char *cert;

	assert_int_equal(pki_key_new(key, NULL), 0);
	assert_int_equal(pki_sign_key(&issue, *key, &cert, NULL), 0);
	return cert;
}

void
bed_node_certify(struct bed_node *n, unsigned life_s, char serial[PKI_SERIAL_TEXT])
{
	auto_free char *key = NULL, *cert = sign(n->bed, n->name, false, life_s, &key);
	struct tunnel_client_hub hub = {.addr = n->bed->addr, .host = "hub.example"};

	pki_ctx_free(&n->tls);
	assert_int_equal(pki_client_ctx(n->bed->ca, cert, key, &n->tls, NULL), 0);
	if (serial != NULL)
		assert_int_equal(pki_cert_serial(cert, serial, NULL), 0);
	hub.tls = n->tls;
	hub.certificate = ++n->certificate;
	tunnel_client_use(n->link, &hub);
}

/* --- the target ----------------------------------------------------------------------------- */

static void
echo_free(struct echo *e)
{
	struct echo **at = &e->bed->echoes;

	while (*at != e)
		at = &(*at)->next;
	*at = e->next;
	e->bed->n_echoes--;
	watch_stop(&e->watch);
	close(e->fd);
	free(e);
}

static void
on_echo(void *arg, int fd, unsigned events)
{
	struct echo *e = arg;
	char bytes[4096];
	ssize_t n = read(fd, bytes, sizeof bytes);

	(void)events;
	if (n > 0) {
		assert_int_equal(send(fd, bytes, (size_t)n, MSG_NOSIGNAL), n);
	} else if (n == 0) {
		assert_int_equal(send(fd, "bye", 3, MSG_NOSIGNAL), 3);
		echo_free(e);
	} else if (errno != EAGAIN) {
		echo_free(e);
	}
}

static void
on_accept(void *arg, int fd, unsigned events)
{
	struct bed *b = arg;
	struct echo *e = xcalloc(1, sizeof *e);

	(void)events;
	e->bed = b;
	e->fd = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	assert_true(e->fd >= 0);
	b->came_hops = hops_of_socket(e->fd, AF_INET);
	e->next = b->echoes;
	b->echoes = e;
	b->n_echoes++;
	e->watch = watch_start(b->loop, e->fd, WATCH_READ, on_echo, e);
}

/* --- the hub -------------------------------------------------------------------------------- */

static bool
refuses(void *arg, const char *node, const char *serial)
{
	const struct bed *b = arg;

	(void)node;
	return b->revoked != NULL && strcmp(b->revoked, serial) == 0;
}

static void
on_known(void *arg, int fd, enum client_hello kind, const char *from)
{
	struct bed *b = arg;

	if (kind == CLIENT_HELLO_REVERSE || kind == CLIENT_HELLO_STANDBY)
		tunnels_adopt(b->tunnels, fd, from, kind == CLIENT_HELLO_STANDBY);
	else if (kind == CLIENT_HELLO_FORWARD && b->outward != NULL)
		tunnels_adopt(b->outward, fd, from, false);
	else
		close(fd);
}

bool
bed_on_socket(void *arg, int fd)
{
	struct bed *b = arg;

	alpn_mux_take(b->peek, fd, NULL);
	return true;
}

void
bed_hub_start(struct bed *b)
{
	struct tunnels_setup setup = {
		.loop = b->loop, .tls = b->tls, .heartbeat_ms = 4000, .refuses = refuses, .arg = b};

	b->tunnels = tunnels_new(&setup);
	b->peek = alpn_mux_new(b->loop, NULL, on_known, b);
	assert_int_equal(listen_start(&b->listen, b->loop, &b->addr, bed_on_socket, b, NULL), 0);
	b->addr = listen_addr(b->listen);
}

void
bed_hub_outward(struct bed *b,
	unsigned (*opened)(void *bed, const char *node, struct stream *st,
		const struct stream_request *request, const char **reason))
{
	b->outward = tunnels_new(&(struct tunnels_setup){.loop = b->loop,
		.tls = b->tls,
		.heartbeat_ms = 4000,
		.refuses = refuses,
		.opened = opened,
		.opened_arg = b,
		.arg = b});
}

void
bed_hub_stop(struct bed *b)
{
	listen_stop(&b->listen);
	alpn_mux_free(&b->peek);
	tunnels_free(&b->tunnels);
	tunnels_free(&b->outward);
}

/* --- nodes ---------------------------------------------------------------------------------- */

static void
on_node_up(void *arg)
{
	((struct bed_node *)arg)->ups++;
}

static void
on_node_doubted(void *arg)
{
	((struct bed_node *)arg)->doubts++;
}

static void
on_node_rerouted(void *arg)
{
	((struct bed_node *)arg)->reroutes++;
}

static void
node_start(struct bed *b, struct bed_node *n, const char *name, const char *allow, bool standby)
{
	const char *const rules[] = {allow, NULL}, *const bridges[] = {"nothing*", NULL};
	struct stream_server_config serve = {.loop = b->loop,
		.node = name,
		.bridges = bridges,
		.allow = rules,
		.addresses = b->addresses,
		.spans = &b->spans};
	struct tunnel_client_config link = {.loop = b->loop,
		.heartbeat_ms = 4000,
		.standby = standby,
		.opened = stream_server_opened,
		.up = on_node_up,
		.doubted = on_node_doubted,
		.rerouted = on_node_rerouted,
		.up_arg = n};

	memset(n, 0, sizeof *n);
	n->bed = b;
	n->name = xstrdup(name);
	assert_int_equal(stream_server_new(&serve, &n->serve, NULL), 0);
	link.arg = n->serve;
	n->link = tunnel_client_new(&link);
	bed_node_certify(n, 3600, NULL);
	if (b->tunnels != NULL)
		bed_until(b, tunnels_have(b->tunnels, name) && tunnel_client_open(n->link));
}

void
bed_node_start(struct bed *b, struct bed_node *n, const char *name, const char *allow)
{
	node_start(b, n, name, allow, false);
}

void
bed_standby_start(struct bed *b, struct bed_node *n, const char *name)
{
	node_start(b, n, name, "node:*", true);
}

void
bed_node_stop(struct bed_node *n)
{
	tunnel_client_free(&n->link);
	for (unsigned i = 0; i < 3; i++)
		loop_turn(n->bed->loop);
	stream_server_free(&n->serve);
	pki_ctx_free(&n->tls);
	free(n->name);
}

/* --- visitors ------------------------------------------------------------------------------- */

static void
on_answered(void *arg, unsigned status, const char *reason)
{
	struct visitor *v = arg;

	v->status = status;
	snprintf(v->reason, sizeof v->reason, "%s", reason);
	if (status != 200)
		stream_close(&v->st, STREAM_DONE);
}

static void
on_moved(void *arg)
{
	struct visitor *v = arg;
	const void *data;
	size_t n;

	while ((n = stream_peek(v->st, &data)) > 0) {
		size_t keep = v->got < sizeof v->text - 1 ? sizeof v->text - 1 - v->got : 0;

		memcpy(v->text + MIN(v->got, sizeof v->text - 1), data, MIN(n, keep));
		v->got += n;
		stream_consume(v->st, n);
	}
	v->eof = stream_eof(v->st);
}

static void
on_reset(void *arg, unsigned code)
{
	struct visitor *v = arg;

	v->reset = true;
	v->code = code;
	stream_close(&v->st, STREAM_DONE);
}

static const struct stream_events events = {on_answered, on_moved, on_moved, on_reset};

int
bed_ask(struct bed *b, struct visitor *v, const char *node, const char *authority)
{
	auto_free char *own = xasprintf("%s:%u", node, b->port);
	struct stream_field fields[3] = {{"edgeway-caller", "a \"test\""}};
	struct stream_request request = {
		.authority = authority != NULL ? authority : own, .fields = fields, .n_fields = 1};

	if (b->traceparent != NULL)
		fields[request.n_fields++] = (struct stream_field){"traceparent", b->traceparent};
	if (b->hops != NULL)
		fields[request.n_fields++] = (struct stream_field){HOPS_FIELD, b->hops};
	memset(v, 0, sizeof *v);
	v->bed = b;
	return tunnels_open(b->tunnels, node, &request, &events, v, &v->st);
}

static void
on_spans(void *arg, struct trace_span *spans, unsigned dropped)
{
	struct bed *b = arg;

	assert_true(spans != NULL && spans->next == NULL && dropped == 0);
	spans->next = b->told;
	b->told = spans;
}

void
bed_spans(struct bed *b, uint32_t per_s)
{
	b->spans = (struct span_source){.on = true, .per_s = per_s, .take = on_spans, .arg = b};
}

void
bed_say(struct visitor *v, const char *text)
{
	assert_true(stream_room(v->st) >= strlen(text));
	stream_write(v->st, text, strlen(text));
}

double
bed_metric(struct bed *b, const struct bed_node *n, const char *name)
{
	auto_free char *line = xasprintf("\n%s ", name);
	struct metrics m;
	const char *at;
	double value;

	metrics_init(&m);
	buf_adds(&m.out, "\n");
	if (n != NULL) {
		tunnel_client_metrics(n->link, NULL, &m);
		stream_server_metrics(n->serve, &m);
	} else {
		tunnels_metrics(b->tunnels, &m);
	}
	at = strstr(buf_str(&m.out), line);
	if (at == NULL)
		fail_msg("no metric %s in:\n%s", name, buf_str(&m.out));
	value = strtod(at + strlen(line), NULL);
	metrics_fini(&m);
	return value;
}

/* --- the bed -------------------------------------------------------------------------------- */

void
link_bed_open(struct bed *b)
{
	auto_free char *key = NULL, *cert = NULL;
	struct addr a = addr_ipv4(INADDR_LOOPBACK, 0);

	signal(SIGPIPE, SIG_IGN);
	log_setup(LOG_LEVEL_ERROR, LOG_FORMAT_TEXT);
	memset(b, 0, sizeof *b);
	assert_int_equal(loop_new(&b->loop, NULL), 0); /* libuv opens some for itself, once */
	loop_free(&b->loop);
	b->descriptors = descriptors();
	b->addr = a;
	assert_int_equal(loop_new(&b->loop, NULL), 0);
	b->addresses = addresses_new(b->loop, NULL, NULL);
	assert_int_equal(pki_ca_new("test CA", 2, &b->ca, &b->ca_key, NULL), 0);
	cert = sign(b, "hub.example", true, 3600, &key);
	assert_int_equal(pki_server_ctx(cert, key, b->ca, &b->tls, NULL), 0);
	assert_int_equal(sock_listen(&a, 0, &b->target, NULL), 0);
	assert_int_equal(getsockname(b->target, &a.sa, &a.len), 0);
	b->port = addr_port(&a);
	b->accept = watch_start(b->loop, b->target, WATCH_READ, on_accept, b);
	bed_hub_start(b);
}

void
link_bed_close(struct bed *b)
{
	bed_until(b, b->n_echoes == 0); /* whoever was connected has gone */
	bed_hub_stop(b);
	watch_stop(&b->accept);
	close(b->target);
	pki_ctx_free(&b->tls);
	while (b->told != NULL) {
		struct trace_span *s = b->told;

		b->told = s->next;
		free(s);
	}
	addresses_free(&b->addresses);
	loop_free(&b->loop);
	free(b->ca);
	free(b->ca_key);
	assert_int_equal(descriptors(), b->descriptors);
}

unsigned
bed_counted(const struct bed_node *n, const char *name)
{
	auto_free char *member = xasprintf("\"%s\":", name);
	auto_buf struct buf out;
	const char *at;

	buf_init(&out, BUF_UNLIMITED);
	stream_server_state(n->serve, &out);
	at = strstr(buf_str(&out), member);
	assert_non_null(at);
	return (unsigned)strtoul(at + strlen(member), NULL, 10);
}

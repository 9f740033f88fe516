#include "tests/unit/meta/client/feed_hub.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/core/sock.h"
#include "base/http/ws.h"
#include "base/tls/pki.h"
#include "meta/state/store.h"
#include "model/digest.h"
#include "model/envelope.h"
#include "model/json.h"
#include "model/mesh.h"
#include "model/view.h"

enum { SERVICES_MAX = 700 };

struct entry {
	char *key, *view; /* view NULL: deleted */
	uint64_t digest;
};

struct hub {
	pthread_t thread;
	pthread_mutex_t lock; /* guards all that both threads touch */
	struct loop *loop;
	struct ws *ws;
	struct watch *listener;
	int fd;
	uint16_t port;
	char *ca, *ca_key, *cert, *key, token[PKI_HASH_TEXT + 32];
	struct ssl_ctx_st *tls;
	struct ws_conn *conn; /* of the node, events only */
	struct entry services[SERVICES_MAX];
	size_t n;
	int refuse, protocol;
	char site[64];
	char address[64];
	char cas[PKI_HASH_TEXT]; /* said in hello, "" not */
	bool drops; /* closes each connection behind its hello */
	char *database;
	struct hub_saw saw;
};

struct call { /* a function on the hub's thread that the test waits for */
	struct hub *hub;
	void (*fn)(struct hub *hub, const char *text);
	const char *text;
	bool done;
};

static void
must(int rc, const struct err *err)
{
	if (rc < 0) {
		fprintf(stderr, "# hub of the test: %s\n", err->text);
		abort();
	}
}

static void
run_call(void *arg)
{
	struct call *call = arg;

	pthread_mutex_lock(&call->hub->lock);
	call->fn(call->hub, call->text);
	call->done = true;
	pthread_mutex_unlock(&call->hub->lock);
}

/* The agent's loop does not turn meanwhile; nothing here waits for it. */
static void
on_hub(struct hub *hub, void (*fn)(struct hub *hub, const char *text), const char *text)
{
	struct call call = {.hub = hub, .fn = fn, .text = text};
	bool done = false;

	loop_post(hub->loop, run_call, &call);
	while (!done) {
		usleep(200);
		pthread_mutex_lock(&hub->lock);
		done = call.done;
		pthread_mutex_unlock(&hub->lock);
	}
}

static void
send_to(struct ws_conn *c, enum operation op, const char *resource, const char *parent,
	const char *content)
{
	auto_free char *r = xstrdup(resource), *p = xstrdup(parent),
		       *text = content ? xstrdup(content) : NULL;
	char id[37], source[] = "edgeway-hub", group[] = "resource";
	struct envelope e = {.id = id,
		.parent_id = p,
		.source = source,
		.group = group,
		.resource = r,
		.operation = op,
		.content = text,
		.content_len = text != NULL ? strlen(text) : 0};
	auto_buf struct buf out;

	buf_init(&out, BUF_UNLIMITED);
	envelope_new_id(id);
	envelope_build(&out, &e);
	ws_send(c, buf_at(&out), buf_len(&out));
}

static void
send_service(struct hub *hub, const struct entry *e)
{
	auto_free char *resource = xstrdup(e->key);
	char *slash = strchr(resource, '/');
	auto_free char *whole = NULL;

	if (hub->conn == NULL)
		return;
	*slash = '\0';
	whole = xasprintf("%s/service/%s", resource, slash + 1);
	send_to(hub->conn, e->view != NULL ? OP_UPDATE : OP_DELETE, whole, "", e->view);
	*(e->view != NULL ? &hub->saw.updates_sent : &hub->saw.deletes_sent) += 1;
}

/* --- answers -------------------------------------------------------------------------------- */

static void
answer_join(struct hub *hub, struct ws_conn *c, const struct envelope *e)
{
	static const struct field fields[] = {{"csr", FIELD_TEXT, 0, 65536, NULL, NULL}};
	char *csr = NULL;
	auto_free char *cert = NULL,
		       *name = xstrndup(ws_path(c) + 1 + strlen(MESH_PROJECT) + 1, 253);
	struct pki_issue issue = {
		.ca_cert_pem = hub->ca, .ca_key_pem = hub->ca_key, .client = true, .days = 30};
	auto_buf struct buf out;
	struct json j;
	struct err err = {0};

	*strchr(name, '/') = '\0';
	issue.common_name = name;
	json_init(&j, e->content, e->content_len);
	json_fields(&j, fields, 1, &csr);
	must(json_finish(&j, &err), &err);
	must(pki_sign(&issue, csr, &cert, &err), &err);
	free(csr);
	buf_init(&out, BUF_UNLIMITED);
	buf_adds(&out, "{\"cert\":");
	json_add_text(&out, cert);
	buf_adds(&out, ",\"ca\":");
	json_add_text(&out, hub->ca);
	buf_adds(&out, "}");
	send_to(c, OP_RESPONSE, e->resource, e->id, buf_str(&out));
	hub->saw.joins++;
}

static void
answer_buckets(struct hub *hub, const struct envelope *e)
{
	struct digests theirs, ours = {0};
	bool want[DIGEST_BUCKETS] = {false};
	bool differs = false;
	auto_buf struct buf out;
	struct err err = {0};

	must(digests_parse(&theirs, e->content, e->content_len, &err), &err);
	for (size_t i = 0; i < hub->n; i++) {
		if (hub->services[i].view != NULL)
			digest_toggle(&ours, hub->services[i].key, strlen(hub->services[i].key),
				hub->services[i].digest);
	}
	for (unsigned i = 0; i < DIGEST_BUCKETS; i++) {
		want[i] = theirs.bucket[i] != ours.bucket[i];
		differs |= want[i];
	}
	buf_init(&out, BUF_UNLIMITED);
	digest_want_build(&out, want);
	send_to(hub->conn, OP_RESPONSE, e->resource, e->id,
		differs ? buf_str(&out) : "{\"buckets\":[],\"synced\":true}");
	hub->saw.buckets++;
	hub->saw.synced += !differs;
}

static struct entry *
find(struct hub *hub, const char *key)
{
	for (size_t i = 0; i < hub->n; i++) {
		if (strcmp(hub->services[i].key, key) == 0)
			return &hub->services[i];
	}
	return NULL;
}

static void
answer_services(struct hub *hub, const struct envelope *e)
{
	bool of[DIGEST_BUCKETS];
	struct digest_entry *held;
	size_t n;
	struct err err = {0};

	must(digest_entries_parse(of, &held, &n, e->content, e->content_len, &err), &err);
	for (size_t i = 0; i < n; i++) {
		struct entry *mine = find(hub, held[i].key), gone = {.key = held[i].key};

		if (mine == NULL || mine->view == NULL)
			send_service(hub, &gone);
	}
	for (size_t i = 0; i < hub->n; i++) {
		bool same = hub->services[i].view == NULL ||
			!of[digest_bucket(hub->services[i].key, strlen(hub->services[i].key))];

		for (size_t k = 0; k < n && !same; k++)
			same = strcmp(held[k].key, hub->services[i].key) == 0 &&
				held[k].digest == hub->services[i].digest;
		if (!same)
			send_service(hub, &hub->services[i]);
	}
	digest_entries_free(&held, n);
	send_to(hub->conn, OP_RESPONSE, e->resource, e->id, "{\"synced\":true}");
	hub->saw.synced++;
}

struct looking {
	const char *key;
	uint64_t digest;
	bool found;
};

static void
look(void *arg, const struct store_row *row)
{
	struct looking *l = arg;

	if (strcmp(row->key, l->key) == 0)
		l->found = true;
}

/* The ack promised that the change is in the file. */
static void
check_ack(struct hub *hub, const char *resource)
{
	char ns[64], name[64];
	auto_free char *key = NULL;
	struct looking l = {0};
	struct store_report report;
	struct store *store;
	struct entry *mine;

	hub->saw.acks++;
	if (hub->database == NULL || sscanf(resource, "%63[^/]/service/%63s", ns, name) != 2)
		return;
	key = xasprintf("%s/%s", ns, name);
	mine = find(hub, key);
	l.key = key;
	if (store_open(&store, hub->database, &report, NULL) < 0)
		return;
	store_load(store, look, &l, NULL);
	store_close(&store);
	if (mine != NULL && l.found != (mine->view != NULL))
		hub->saw.acks_too_early++;
}

/* --- the websocket -------------------------------------------------------------------------- */

static int
on_accept(void *arg, struct ws_conn *c)
{
	struct hub *hub = arg;
	const char *bearer = ws_header(c, "authorization");
	int status = 0;

	pthread_mutex_lock(&hub->lock);
	if (hub->refuse == 426) {
		status = hub->refuse;
	} else if (strstr(ws_path(c), "/join") != NULL) {
		if (hub->refuse != 0)
			status = hub->refuse;
		else if (ws_peer_name(c)[0] != '\0') /* renews */
			status = 0;
		else if (strncmp(bearer, "Bearer ", 7) != 0 ||
			strcmp(bearer + 7, strchr(hub->token, '.') + 1) != 0)
			status = 401;
	} else if (ws_peer_name(c)[0] == '\0' || strstr(ws_path(c), ws_peer_name(c)) == NULL) {
		status = 403;
	}
	pthread_mutex_unlock(&hub->lock);
	return status;
}

static void
on_open(void *arg, struct ws_conn *c)
{
	struct hub *hub = arg;
	auto_free char *hello = NULL;

	if (strstr(ws_path(c), "/join") != NULL)
		return;
	pthread_mutex_lock(&hub->lock);
	hub->conn = c;
	hub->saw.opens++;
	hello = xasprintf(
		"{\"hub\":\"test\",\"protocol\":%d,\"node\":\"%s\",\"site\":\"%s\",\"zone\":\"\","
		"\"ca\":\"%s\",\"clusterDomain\":\"cluster.local\",\"addresses\":[\"%s\"]}",
		hub->protocol, ws_peer_name(c), hub->site, hub->cas, hub->address);
	send_to(c, OP_INSERT, "node/hello", "", hello);
	if (hub->drops)
		ws_close(c, 1012, "come again");
	pthread_mutex_unlock(&hub->lock);
}

static void
on_text(void *arg, struct ws_conn *c, const char *text, size_t len)
{
	struct hub *hub = arg;
	struct envelope e;
	struct err err = {0};

	must(envelope_parse(&e, text, len, &err), &err);
	pthread_mutex_lock(&hub->lock);
	if (e.operation == OP_INSERT && strncmp(e.resource, "certificate/", 12) == 0)
		answer_join(hub, c, &e);
	else if (e.operation == OP_QUERY && strcmp(e.resource, "digest/buckets") == 0)
		answer_buckets(hub, &e);
	else if (e.operation == OP_QUERY && strcmp(e.resource, "digest/services") == 0)
		answer_services(hub, &e);
	else if (e.operation == OP_RESPONSE && strstr(e.resource, "/health/") != NULL)
		hub->saw.answers++;
	else if (e.operation == OP_RESPONSE)
		check_ack(hub, e.resource);
	else if (e.operation == OP_ERROR) {
		hub->saw.errors++;
		snprintf(hub->saw.error, sizeof(hub->saw.error), "%s", e.content);
	}
	pthread_mutex_unlock(&hub->lock);
	envelope_fini(&e);
}

static void
on_closed(void *arg, struct ws_conn *c, const char *why)
{
	struct hub *hub = arg;

	(void)why;
	pthread_mutex_lock(&hub->lock);
	if (c == hub->conn) {
		hub->conn = NULL;
		hub->saw.closes++;
	}
	pthread_mutex_unlock(&hub->lock);
}

static const struct ws_events events = {
	.accept = on_accept, .open = on_open, .text = on_text, .closed = on_closed};

static void
on_incoming(void *arg, int fd, unsigned ready)
{
	struct hub *hub = arg;
	int client = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	(void)ready;
	if (client >= 0)
		ws_adopt(hub->ws, client, NULL);
}

static void *
run(void *arg)
{
	struct hub *hub = arg;

	loop_run(hub->loop);
	return NULL;
}

struct hub *
hub_new(void)
{
	struct hub *hub = xcalloc(1, sizeof(*hub));
	const char *names[] = {"127.0.0.1", "localhost", "hub.example.test", NULL};
	struct pki_issue issue = {.common_name = "hub", .names = names, .server = true, .days = 30};
	struct ws_config config = {.events = &events,
		.arg = hub,
		.heartbeat_ms = 1000,
		.message_limit = 1 << 23,
		.high_water = 1 << 23};
	char hash[PKI_HASH_TEXT];
	pthread_mutexattr_t attr;
	struct err err = {0};

	hub->fd = -1;
	hub->protocol = 1;
	snprintf(hub->site, sizeof(hub->site), "east");
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE); /* ws_close may call back */
	pthread_mutex_init(&hub->lock, &attr);
	pthread_mutexattr_destroy(&attr);
	must(pki_ca_new("test CA", 30, &hub->ca, &hub->ca_key, &err), &err);
	must(pki_key_new(&hub->key, &err), &err);
	issue.ca_cert_pem = hub->ca;
	issue.ca_key_pem = hub->ca_key;
	must(pki_sign_key(&issue, hub->key, &hub->cert, &err), &err);
	must(pki_cert_hash(hub->ca, hash, &err), &err);
	snprintf(hub->token, sizeof(hub->token), "%s.secret-of-the-test", hash);
	must(pki_server_ctx(hub->cert, hub->key, hub->ca, &hub->tls, &err), &err);
	must(loop_new(&hub->loop, &err), &err);
	config.server_tls = hub->tls;
	must(ws_new(&hub->ws, hub->loop, &config, &err), &err);
	hub_start(hub);
	if (pthread_create(&hub->thread, NULL, run, hub) != 0)
		abort();
	return hub;
}

static void
listen_now(struct hub *hub, const char *text)
{
	struct addr a = addr_ipv4(INADDR_LOOPBACK, hub->port);
	struct err err = {0};
	socklen_t len = sizeof(a.in);

	(void)text;
	must(sock_listen(&a, 0, &hub->fd, &err), &err);
	getsockname(hub->fd, &a.sa, &len);
	hub->port = ntohs(a.in.sin_port);
	hub->listener = watch_start(hub->loop, hub->fd, WATCH_READ, on_incoming, hub);
}

void
hub_start(struct hub *hub)
{
	if (hub->thread == 0)
		listen_now(hub, NULL);
	else
		on_hub(hub, listen_now, NULL);
}

static void
drop_now(struct hub *hub, const char *text)
{
	(void)text;
	if (hub->conn != NULL)
		ws_close(hub->conn, 1001, "going away");
}

static void
stop_now(struct hub *hub, const char *text)
{
	drop_now(hub, text);
	if (hub->listener == NULL)
		return;
	watch_stop(&hub->listener);
	close(hub->fd);
}

void
hub_stop(struct hub *hub)
{
	on_hub(hub, stop_now, NULL);
}

static void
end_now(struct hub *hub, const char *text)
{
	stop_now(hub, text);
	loop_stop(hub->loop);
}

void
hub_free(struct hub **out)
{
	struct hub *hub = take_ptr(out);

	on_hub(hub, end_now, NULL);
	pthread_join(hub->thread, NULL);
	ws_free(&hub->ws);
	loop_free(&hub->loop);
	pki_ctx_free(&hub->tls);
	for (size_t i = 0; i < hub->n; i++) {
		free(hub->services[i].key);
		free(hub->services[i].view);
	}
	free(hub->ca);
	free(hub->ca_key);
	free(hub->cert);
	free(hub->key);
	free(hub->database);
	pthread_mutex_destroy(&hub->lock);
	free(hub);
}

uint16_t
hub_port(const struct hub *hub)
{
	return hub->port;
}

const char *
hub_token(const struct hub *hub)
{
	return hub->token;
}

void
hub_protocol(struct hub *hub, int protocol)
{
	pthread_mutex_lock(&hub->lock);
	hub->protocol = protocol;
	pthread_mutex_unlock(&hub->lock);
}

void
hub_refuse(struct hub *hub, int status)
{
	pthread_mutex_lock(&hub->lock);
	hub->refuse = status;
	pthread_mutex_unlock(&hub->lock);
}

void
hub_other_cas(struct hub *hub, const char *hash, bool drops)
{
	pthread_mutex_lock(&hub->lock);
	snprintf(hub->cas, sizeof(hub->cas), "%s", hash);
	hub->drops = drops;
	pthread_mutex_unlock(&hub->lock);
}

void
hub_site(struct hub *hub, const char *site)
{
	pthread_mutex_lock(&hub->lock);
	snprintf(hub->site, sizeof(hub->site), "%s", site);
	pthread_mutex_unlock(&hub->lock);
}

void
hub_address(struct hub *hub, const char *address)
{
	pthread_mutex_lock(&hub->lock);
	snprintf(hub->address, sizeof(hub->address), "%s", address);
	pthread_mutex_unlock(&hub->lock);
}

void
hub_check_database(struct hub *hub, const char *path)
{
	pthread_mutex_lock(&hub->lock);
	free(hub->database);
	hub->database = path != NULL ? xstrdup(path) : NULL;
	pthread_mutex_unlock(&hub->lock);
}

static char *
make_view(const char *key, unsigned version, uint64_t *digest)
{
	auto_free char *copy = xstrdup(key);
	char *slash = strchr(copy, '/');
	char empty[] = "", http[] = "http", node[] = "edge-2", site[] = "east",
	     host[] = "192.0.2.7";
	struct view_endpoint e = {.node = node,
		.site = site,
		.zone = empty,
		.hostname = empty,
		.pod = empty,
		.flags = ENDPOINT_READY | ENDPOINT_SERVING,
		.pod_ip = empty,
		.host_ip = host,
		.host_port = (uint16_t)(30000 + version),
		.given_ip = empty};
	struct view_port port = {
		.name = http, .port = 80, .mode = PORT_HTTP, .n_endpoints = 1, .endpoints = &e};
	struct view v = {.cluster_ip = empty, .external_name = empty, .n_ports = 1, .ports = &port};
	struct buf out;

	*slash = '\0';
	v.ns = copy;
	v.name = slash + 1;
	buf_init(&out, BUF_UNLIMITED);
	*digest = view_build(&out, &v);
	return buf_take_str(&out);
}

static void
send_key(struct hub *hub, const char *key)
{
	send_service(hub, find(hub, key));
}

void
hub_put(struct hub *hub, const char *key, unsigned version)
{
	struct entry *e;

	pthread_mutex_lock(&hub->lock);
	e = find(hub, key);
	if (e == NULL) {
		e = &hub->services[hub->n++];
		e->key = xstrdup(key);
	}
	free(e->view);
	e->view = make_view(key, version, &e->digest);
	pthread_mutex_unlock(&hub->lock);
	on_hub(hub, send_key, key);
}

void
hub_delete(struct hub *hub, const char *key)
{
	struct entry *e;

	pthread_mutex_lock(&hub->lock);
	e = find(hub, key);
	free(e->view);
	e->view = NULL;
	pthread_mutex_unlock(&hub->lock);
	on_hub(hub, send_key, key);
}

static void
raw_now(struct hub *hub, const char *text)
{
	if (hub->conn != NULL)
		ws_send(hub->conn, text, strlen(text));
}

void
hub_raw(struct hub *hub, const char *text)
{
	on_hub(hub, raw_now, text);
}

void
hub_send(struct hub *hub, const char *operation, const char *resource, const char *content)
{
	auto_free char *text = xasprintf("{\"header\":{\"msg_id\":\"m-1\",\"parent_msg_id\":\"\","
					 "\"timestamp\":1,\"resourceversion\":\"\","
					 "\"sync\":false},\"route\":{\"source\":\"hub\",\"group\":"
					 "\"resource\",\"operation\":\"%s\","
					 "\"resource\":\"%s\"},\"content\":%s}",
		operation, resource, content);

	hub_raw(hub, text);
}

void
hub_drop(struct hub *hub)
{
	on_hub(hub, drop_now, NULL);
}

struct hub_saw
hub_saw(struct hub *hub)
{
	struct hub_saw saw;

	pthread_mutex_lock(&hub->lock);
	saw = hub->saw;
	pthread_mutex_unlock(&hub->lock);
	return saw;
}

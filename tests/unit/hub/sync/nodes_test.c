/* The hub's certificate is renewed while nodes are served: seen by the name that it is good for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/core/log.h"
#include "base/tls/pki.h"
#include "hub/sync/nodes.h"
#include "tests/unit/patience.h"

struct bed {
	char dir[64];
	struct loop *loop;
	struct certs *certs;
	struct ssl_ctx_st *server, *client;
	struct nodes *nodes;
	struct ws *ws;
	char why[256]; /* of the last connection that closed */
};

static void
on_closed(void *arg, struct ws_conn *c, const char *why)
{
	struct bed *b = arg;

	(void)c;
	snprintf(b->why, sizeof b->why, "%s", why);
}

static const struct ws_events events = {.closed = on_closed};

static void
open_certs(struct bed *b, const char *name)
{
	const char *names[] = {name, NULL};
	struct certs_config config = {.data_dir = b->dir,
		.cert = "",
		.key = "",
		.ca = "",
		.ca_key = "",
		.names = names,
		.listen = ""};
	struct err err = {0};

	certs_close(&b->certs);
	assert_int_equal(certs_open(&b->certs, &config, &err), 0);
	assert_int_equal(
		certs_server_ctx(b->certs, (int64_t)(wall_ms() / 1000), &b->server, &err), 0);
}

/* How the attempt to connect to the hub by this name ends. */
static const char *
try_name(struct bed *b, const char *host)
{
	struct ws_dial d = {
		.addr = nodes_addr(b->nodes),
		.host = host,
		.path = "/nowhere",
		.headers = (const char *const[]){NULL},
		.tls = b->client,
	};
	struct err err = {0};

	b->why[0] = '\0';
	assert_non_null(ws_dial(b->ws, &d, &err));
	patience_until(patience_turn(b->loop), b->why[0] != '\0');
	return b->why;
}

static void
new_connections_see_the_new_certificate(void **state)
{
	struct bed b = {.dir = "/tmp/nodes-test-XXXXXX"};
	struct fanout *fanout = fanout_new();
	struct cluster *cluster = cluster_new();
	struct ws_config ws = {.events = &events,
		.arg = &b,
		.heartbeat_ms = 2000,
		.message_limit = 65536,
		.high_water = 65536};
	struct nodes_config config = {
		.heartbeat_ms = 2000, .cluster_domain = "", .fanout = fanout, .cluster = cluster};
	struct ssl_ctx_st *first;
	struct err err = {0};
	const char *const files[] = {"ca.pem", "ca.key", "ca.list", "hub.pem", "hub.key",
		"hub.names", "revoked.json", "nodes", ""};

	(void)state;
	log_setup(LOG_LEVEL_ERROR, LOG_FORMAT_TEXT);
	assert_non_null(mkdtemp(b.dir));
	open_certs(&b, "first.example");
	config.tls = b.server;
	config.certs = b.certs;
	config.listen = addr_ipv4(0x7f000001, 0);
	assert_int_equal(loop_new(&b.loop, &err), 0);
	assert_int_equal(nodes_start(&b.nodes, b.loop, &config, &err), 0);
	assert_int_equal(ws_new(&b.ws, b.loop, &ws, &err), 0);
	assert_int_equal(pki_client_ctx(certs_ca_pem(b.certs), NULL, NULL, &b.client, &err), 0);
	assert_non_null(strstr(try_name(&b, "first.example"), "404"));
	assert_null(strstr(try_name(&b, "second.example"), "404"));

	first = take_ptr(&b.server);
	open_certs(&b, "second.example");
	assert_int_equal(nodes_renew(b.nodes, b.server), 0);
	pki_ctx_free(&first);
	assert_non_null(strstr(try_name(&b, "second.example"), "404"));
	assert_null(strstr(try_name(&b, "first.example"), "404"));

	ws_free(&b.ws);
	nodes_stop(&b.nodes);
	loop_free(&b.loop);
	pki_ctx_free(&b.client);
	pki_ctx_free(&b.server);
	certs_close(&b.certs);
	fanout_free(&fanout);
	cluster_free(&cluster);
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		auto_free char *path = xasprintf("%s/%s", b.dir, files[i]);

		if (unlink(path) < 0)
			rmdir(path);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(new_connections_see_the_new_certificate),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

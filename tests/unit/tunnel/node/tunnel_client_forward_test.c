/*
 * Tunnels in which the nodes open the streams, between real ends over real TLS: what a certificate
 * that has ended is still good for.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/tunnel/node/tunnel_client_bed.h"
#include "tunnel/node/tunnel_client.h"

static struct stream *taken; /* at the hub */
static unsigned n_taken;

static void
on_answered(void *arg, unsigned status, const char *reason)
{
	(void)reason;
	((struct visitor *)arg)->status = status;
}

static void
on_moved(void *arg)
{
	(void)arg;
}

static void
on_reset(void *arg, unsigned code)
{
	struct visitor *v = arg;

	(void)code;
	v->reset = true;
	stream_close(&v->st, STREAM_DONE);
}

static void
on_taken_reset(void *arg, unsigned code)
{
	(void)arg;
	(void)code;
	stream_close(&taken, STREAM_DONE);
}

static unsigned
on_opened(void *bed, const char *node, struct stream *st, const struct stream_request *request,
	const char **reason)
{
	static const struct stream_events events = {
		on_answered, on_moved, on_moved, on_taken_reset};

	(void)bed;
	(void)node;
	(void)request;
	(void)reason;
	assert_null(taken);
	taken = st;
	n_taken++;
	stream_accept(st, &events, NULL);
	stream_answer(st, 200, "");
	return 0;
}

static void
start(struct bed *b, struct bed_node *n, unsigned life_s)
{
	*n = (struct bed_node){.bed = b, .name = xstrdup("edge-1")};
	n->link = tunnel_client_new(&(struct tunnel_client_config){
		.loop = b->loop, .heartbeat_ms = 4000, .forward = true});
	tunnel_client_want(n->link, true);
	bed_node_certify(n, life_s, NULL);
	bed_until(b, tunnel_client_open(n->link));
}

static int
ask(struct bed_node *n, struct visitor *v)
{
	static const struct stream_events events = {on_answered, on_moved, on_moved, on_reset};
	const struct stream_request request = {.authority = "192.0.2.1:7"};

	*v = (struct visitor){.bed = n->bed};
	return session_open(tunnel_client_session(n->link), &request, &events, v, &v->st);
}

/* The node has a newer one beside it: what runs goes on, and nothing begins in it any more. Whoever
 * has stolen the old certificate has no more of it. */
static void
test_gets_nothing_new(void **state)
{
	struct bed_node old, now;
	struct visitor v;
	struct bed b;

	(void)state;
	link_bed_open(&b);
	bed_hub_outward(&b, on_opened);
	start(&b, &old, 3);
	start(&b, &now, 3600);
	assert_int_equal(ask(&old, &v), 0);
	bed_until(&b, v.status == 200);
	bed_until(&b, tunnel_client_session(old.link) == NULL);
	assert_false(v.reset);
	assert_non_null(taken);
	assert_int_equal(n_taken, 1);
	assert_non_null(tunnel_client_session(now.link));
	tunnel_client_free(&old.link);
	bed_until(&b, taken == NULL);
	assert_int_equal(ask(&now, &v), 0);
	bed_until(&b, v.status == 200);
	assert_int_equal(n_taken, 2);
	tunnel_client_free(&now.link);
	bed_until(&b, taken == NULL);
	pki_ctx_free(&old.tls);
	pki_ctx_free(&now.tls);
	free(old.name);
	free(now.name);
	link_bed_close(&b);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_gets_nothing_new)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

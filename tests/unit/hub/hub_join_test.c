/* Joining, and who is let in. */
#include "tests/unit/hub/hub_bed.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/tls/pki.h"

static void
assert_refused(struct bed *b, struct client *c, const char *status)
{
	wait_for(b, c->closed);
	assert_false(c->open);
	if (strstr(c->why, status) == NULL)
		fail_msg("\"%s\" does not say %s", c->why, status);
}

static void
assert_says(const struct envelope *e, const char *why)
{
	assert_int_equal(e->operation, OP_ERROR);
	if (strstr(e->content, why) == NULL)
		fail_msg("%s does not say \"%s\"", e->content, why);
}

static char *
new_key(void)
{
	struct err err = {0};
	char *key = NULL;

	assert_int_equal(pki_key_new(&key, &err), 0);
	return key;
}

static void
join_gives_a_certificate_of_the_node(void **state)
{
	struct bed *b = *state;
	struct identity id;
	char *name = NULL;
	struct err err = {0};

	bed_start_hub(b);
	id = bed_join(b, "edge-1");
	assert_int_equal(pki_cert_info(id.cert, &name, NULL, NULL, &err), 0);
	assert_string_equal(name, "edge-1");
	assert_int_equal(pki_pair_check(id.cert, id.key, &err), 0);
	free(name);
	bed_connect(b, "edge-1", &id);
	identity_fini(&id);
}

static void
join_refuses_wrong_tokens(void **state)
{
	struct bed *b = *state;
	auto_free char *good = NULL, *other = NULL, *wrong = NULL;
	char *last;

	bed_start_hub(b);
	good = bed_token(b, "", 60);
	other = bed_token(b, "edge-2", 60);
	wrong = xstrdup(good);
	last = wrong + strlen(wrong) - 1;
	*last = *last == '0' ? '1' : '0';
	assert_refused(b, bed_dial_join(b, "edge-1", wrong), "401");
	assert_refused(b, bed_dial_join(b, "edge-1", other), "401");
	wrong[65 + 5] = '\0';
	assert_refused(b, bed_dial_join(b, "edge-1", wrong), "401");
}

static void
join_refuses_an_expired_token(void **state)
{
	struct bed *b = *state;
	auto_free char *token = NULL;

	bed_start_hub(b);
	token = bed_token(b, "", 1);
	bed_idle(b, 2100);
	assert_refused(b, bed_dial_join(b, "edge-1", token), "401");
}

static void
join_refuses_a_name_that_is_taken(void **state)
{
	struct bed *b = *state;
	auto_free char *any = NULL, *other = new_key();
	struct identity id, again;

	bed_start_hub(b);
	id = bed_join(b, "edge-1");
	any = bed_token(b, "", 60);
	assert_says(bed_ask_cert(b, "edge-1", any, other), "holds a certificate already");
	again = bed_join(b, "edge-1"); /* by a token made for the name */
	assert_string_not_equal(again.cert, id.cert);
	identity_fini(&id);
	identity_fini(&again);
}

static void
join_answers_a_bad_request(void **state)
{
	struct bed *b = *state;
	auto_free char *token = NULL;
	struct client *c;
	struct envelope *e;

	bed_start_hub(b);
	token = bed_token(b, "", 60);
	c = bed_dial_join(b, "edge-1", token);
	wait_for(b, c->open);
	bed_send(c, OP_INSERT, "certificate/edge-1", "x", "", "{\"csr\":\"nonsense\"}");
	e = bed_next(b, c);
	assert_int_equal(e->operation, OP_ERROR);
	assert_string_equal(e->parent_id, "x");
	wait_for(b, c->closed);
}

static void
a_good_certificate_renews_itself_alone(void **state)
{
	struct bed *b = *state;
	struct identity id;
	struct client *c;

	bed_start_hub(b);
	id = bed_join(b, "edge-1");
	assert_refused(b, bed_dial_renew(b, "edge-2", &id), "401");
	c = bed_dial_renew(b, "edge-1", &id);
	wait_for(b, c->open || c->closed);
	assert_true(c->open);
	bed_request_cert(c, "edge-1", id.key);
	assert_int_equal(bed_next(b, c)->operation, OP_RESPONSE);
	identity_fini(&id);
}

static void
events_need_the_certificate_of_the_name(void **state)
{
	struct bed *b = *state;
	struct identity id;

	bed_start_hub(b);
	id = bed_join(b, "edge-1");
	assert_refused(b, bed_dial_events(b, "edge-2", &id, id.cert), "403");
	assert_refused(b, bed_dial_events(b, "edge-1", &id, NULL), "403");
	b->protocol = "2"; /* of a newer agent: it must not be told half of what it expects */
	assert_refused(b, bed_dial_events(b, "edge-1", &id, id.cert), "426");
	b->protocol = NULL;
	identity_fini(&id);
}

/* CA, tokens and names outlive the process. */
static void
a_restart_keeps_what_matters(void **state)
{
	struct bed *b = *state;
	auto_free char *token = NULL, *key = new_key();
	struct identity id;

	bed_start_hub(b);
	id = bed_join(b, "edge-1");
	token = bed_token(b, "", 60);
	hub_stop(&b->hub);
	bed_start_hub(b);
	bed_connect(b, "edge-1", &id);
	assert_says(bed_ask_cert(b, "edge-1", token, key), "holds a certificate already");
	identity_fini(&id);
}

/* Bound to the key that asked first: the answer may be lost, the token may not be used by anybody
 * else, nor for another name. */
static void
a_token_is_for_one_key(void **state)
{
	static const char *const nodes[] = {"", "edge-1"};
	struct bed *b = *state;

	for (size_t i = 0; i < ARRAY_LEN(nodes); i++) {
		auto_free char *key = new_key(), *thief = new_key(), *token = NULL, *first = NULL;
		const char *node = i == 0 ? "edge-0" : "edge-1";
		const struct envelope *e;

		bed_start_hub(b);
		token = bed_token(b, nodes[i], 60);
		e = bed_ask_cert(b, node, token, key);
		assert_int_equal(e->operation, OP_RESPONSE);
		first = xstrdup(e->content);
		e = bed_ask_cert(b, node, token, key);
		assert_int_equal(e->operation, OP_RESPONSE);
		assert_string_equal(e->content, first);
		assert_says(bed_ask_cert(b, node, token, thief), "is used up");
		if (nodes[i][0] == '\0')
			assert_says(bed_ask_cert(b, "edge-9", token, thief), "is used up");
		hub_stop(&b->hub);
		bed_start_hub(b);
		assert_says(bed_ask_cert(b, node, token, thief), "is used up");
		e = bed_ask_cert(b, node, token, key);
		assert_string_equal(e->content, first);
		/* Whoever was revoked is not the same again. */
		assert_int_equal(hub_node_revoke(b->hub, node, NULL), 0);
		if (nodes[i][0] == '\0')
			assert_says(bed_ask_cert(b, node, token, key), "is used up");
		else
			assert_refused(b, bed_dial_join(b, node, token), "401");
		hub_stop(&b->hub);
	}
}

/* Nobody has a certificate that the disk has not, on whatever connection. A pipe without a reader
 * stands for a disk that keeps writers waiting; one with a reader cannot be synced. */
static void
nobody_is_ahead_of_the_disk(void **state)
{
	struct bed *b = *state;
	auto_free char *key = new_key(), *token = NULL, *journal = NULL, *slow = NULL;
	struct client *c;
	struct envelope *e;
	int fd;

	bed_start_hub(b);
	token = bed_token(b, "", 60);
	journal = xasprintf("%s/joins.journal", b->data);
	slow = xasprintf("%s/nodes/edge-1.tmp.%d", b->data, (int)getpid());
	assert_int_equal(mkfifo(slow, 0600), 0);
	alarm(60); /* it would wait forever */
	c = bed_dial_join(b, "edge-1", token);
	wait_for(b, c->open);
	bed_request_cert(c, "edge-1", key);
	wait_for(b, access(journal, F_OK) == 0);
	assert_says(bed_ask_cert(b, "edge-1", token, key), "waits for the hub's disk");
	assert_false(c->closed);
	fd = open(slow, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	assert_return_code(fd, errno);
	e = bed_next(b, c);
	assert_says(e, "cannot write the node's record");
	close(fd);
	assert_int_equal(bed_ask_cert(b, "edge-1", token, key)->operation, OP_RESPONSE);
	alarm(0);
}

/* The name is free for another key; the key and the certificate of before are nobody's. */
static void
a_forgotten_name_is_free(void **state)
{
	struct bed *b = *state;
	auto_free char *key = new_key(), *other = new_key(), *token = NULL, *again = NULL;

	bed_start_hub(b);
	token = bed_token(b, "", 60);
	assert_int_equal(bed_ask_cert(b, "edge-1", token, key)->operation, OP_RESPONSE);
	again = bed_token(b, "", 60);
	assert_says(bed_ask_cert(b, "edge-1", again, other), "holds a certificate already");
	assert_int_equal(hub_node_forget(b->hub, "edge-1", NULL), 0);
	assert_true(hub_node_forget(b->hub, "edge-1", NULL) < 0);
	assert_says(bed_ask_cert(b, "edge-1", token, key), "is used up");
	assert_int_equal(bed_ask_cert(b, "edge-1", again, other)->operation, OP_RESPONSE);
	hub_stop(&b->hub);
}

static void
a_token_serves_as_often_as_it_says(void **state)
{
	static const uint64_t uses[] = {2, 0};
	struct bed *b = *state;

	bed_start_hub(b);
	for (size_t i = 0; i < ARRAY_LEN(uses); i++) {
		const struct hub_token wish = {.node = "", .uses = uses[i], .ttl_s = 60};
		auto_free char *token = bed_token_of(b, &wish);

		for (unsigned n = 0; n < 3; n++) {
			auto_free char *node = xasprintf("edge-%zu-%u", i, n), *key = new_key();
			const struct envelope *e = bed_ask_cert(b, node, token, key);

			if (uses[i] != 0 && n >= uses[i])
				assert_says(e, "is used up");
			else
				assert_int_equal(e->operation, OP_RESPONSE);
		}
	}
}

/* What pods the hub dials itself, and what a Service's name at the ingress leads to, is no
 * stranger's to say. */
static void
a_token_for_any_name_takes_no_cloud_node(void **state)
{
	static const char objects[] =
		"{apiVersion: v1, kind: Node, metadata: {name: cloud-1, labels: {role: db}}}\n"
		"---\n{apiVersion: v1, kind: Node, metadata: {name: edge-1, labels: "
		"{node-role.kubernetes.io/edge: ''}}}\n"
		"---\n{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: default}, spec: "
		"{nodeName: cloud-2, containers: [{name: c}]}, status: {phase: Running, podIP: "
		"10.0.0.1}}\n"
		"---\n{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, addressType: IPv4, "
		"metadata: {name: db-1, namespace: default, labels: {kubernetes.io/service-name: "
		"db}}, "
		"ports: [{name: db, port: 5432}], endpoints: [{addresses: [10.0.0.2], nodeName: "
		"cloud-3}]}\n"
		"---\n{apiVersion: v1, kind: Service, metadata: {name: web, namespace: default}, "
		"spec: {ports: [{port: 80}]}}\n";
	static const struct {
		const char *node, *why; /* NULL: it is given */
	} cases[] = {
		{"cloud-1", "is not one of the edge, by join.nodes"},
		{"cloud-2", "the hub dials the pods of cloud-2 itself"},
		{"cloud-3", "the hub dials the pods of cloud-3 itself"},
		{"web.default", "web.default is the name of the Service default/web"},
		{"web.default.svc", "web.default.svc is the name of the Service default/web"},
		{"edge-1", NULL}, {"edge-2", NULL}, {"db.default", NULL}, /* no Service */
	};
	struct bed *b = *state;
	auto_free char *any = NULL, *key = new_key();
	struct identity id;

	bed_write(b, "nodes.yaml", objects);
	bed_start_hub(b);
	any = bed_token_of(b, &(struct hub_token){.node = "", .ttl_s = 60});
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const struct envelope *e = bed_ask_cert(b, cases[i].node, any, key);

		if (cases[i].why == NULL)
			assert_int_equal(e->operation, OP_RESPONSE);
		else
			assert_says(e, cases[i].why);
	}
	id = bed_join(b, "cloud-1"); /* by an operator's own word */
	identity_fini(&id);
}

/* Signed with the CA by an operator or by a replica that tells nobody: once it was seen its name is
 * taken, connected or not. */
static void
a_certificate_that_was_seen_takes_its_name(void **state)
{
	struct bed *b = *state;
	auto_free char *ca_path = xasprintf("%s/ca.pem", b->data),
		       *key_path = xasprintf("%s/ca.key", b->data), *ca_key = NULL, *csr = NULL,
		       *any = NULL, *other = new_key();
	struct identity id = {.key = new_key()};
	struct pki_issue issue = {.common_name = "edge-1", .client = true, .days = 1};
	struct client *c;
	struct err err = {0};

	bed_start_hub(b);
	assert_int_equal(file_read(ca_path, 1 << 16, &id.ca, NULL), 0);
	assert_int_equal(file_read(key_path, 1 << 16, &ca_key, NULL), 0);
	issue.ca_cert_pem = id.ca;
	issue.ca_key_pem = ca_key;
	assert_int_equal(pki_csr_new(id.key, "edge-1", &csr, &err), 0);
	assert_int_equal(pki_sign(&issue, csr, &id.cert, &err), 0);
	c = bed_connect(b, "edge-1", &id);
	any = bed_token(b, "", 60);
	assert_says(bed_ask_cert(b, "edge-1", any, other), "holds a certificate already");
	ws_close(c->conn, 1000, "gone");
	wait_for(b, c->closed);
	assert_says(bed_ask_cert(b, "edge-1", any, other), "holds a certificate already");
	identity_fini(&id);
}

#define case_of(f) cmocka_unit_test_setup_teardown(f, bed_setup, bed_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		case_of(join_gives_a_certificate_of_the_node),
		case_of(join_refuses_wrong_tokens),
		case_of(join_refuses_an_expired_token),
		case_of(join_refuses_a_name_that_is_taken),
		case_of(join_answers_a_bad_request),
		case_of(a_good_certificate_renews_itself_alone),
		case_of(events_need_the_certificate_of_the_name),
		case_of(a_restart_keeps_what_matters),
		case_of(a_token_is_for_one_key),
		case_of(nobody_is_ahead_of_the_disk),
		case_of(a_forgotten_name_is_free),
		case_of(a_token_serves_as_often_as_it_says),
		case_of(a_token_for_any_name_takes_no_cloud_node),
		case_of(a_certificate_that_was_seen_takes_its_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The hub's certificates: made once, kept, made anew when due, and what is signed for nodes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/core/log.h"
#include "base/tls/pki_crl.h"
#include "hub/identity/certs.h"
#include "tests/unit/patience.h"

struct bed {
	char dir[64];
	struct certs *certs;
	struct certs_config config;
};

static int64_t
now(void)
{
	return (int64_t)(wall_ms() / 1000);
}

static char *
path_of(struct bed *b, const char *name)
{
	return xasprintf("%s/%s", b->dir, name);
}

static int
setup(void **state)
{
	struct bed *b = xcalloc(1, sizeof *b);
	const char *tmp = getenv("TMPDIR");

	log_setup(LOG_LEVEL_ERROR, LOG_FORMAT_TEXT);
	snprintf(b->dir, sizeof b->dir, "%.40s/certs-XXXXXX", tmp != NULL ? tmp : "/tmp");
	assert_non_null(mkdtemp(b->dir));
	b->config = (struct certs_config){
		.data_dir = b->dir, .cert = "", .key = "", .ca = "", .ca_key = "", .listen = ""};
	*state = b;
	return 0;
}

static int
teardown(void **state)
{
	static const char *const files[] = {"ca.pem", "ca.key", "ca.list", "hub.pem", "hub.key",
		"hub.names", "nodes/edge-1", "nodes/edge-2", "nodes/edgeway-hub", "revoked.json",
		"joins.json", JOINS_JOURNAL, "mine.pem", "mine.key"};
	struct bed *b = *state;
	auto_free char *nodes = path_of(b, "nodes");

	certs_close(&b->certs);
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		auto_free char *path = path_of(b, files[i]);

		unlink(path);
	}
	rmdir(nodes);
	rmdir(b->dir);
	free(b);
	return 0;
}

static void
open_certs(struct bed *b)
{
	struct err err = {0};

	certs_close(&b->certs);
	if (certs_open(&b->certs, &b->config, &err) < 0)
		fail_msg("%s", err.text);
}

static char *
hub_pem(struct bed *b, int64_t at)
{
	auto_free char *path = path_of(b, "hub.pem");
	struct ssl_ctx_st *ctx = NULL;
	struct err err = {0};
	char *pem = NULL;

	if (certs_server_ctx(b->certs, at, &ctx, &err) < 0)
		fail_msg("%s", err.text);
	pki_ctx_free(&ctx);
	assert_int_equal(file_read(path, 1 << 20, &pem, NULL), 0);
	return pem;
}

static void
the_ca_is_made_once_and_kept(void **state)
{
	struct bed *b = *state;
	auto_free char *key = path_of(b, "ca.key"), *cert = path_of(b, "ca.pem");
	char hash[PKI_HASH_TEXT];
	struct stat st;

	open_certs(b);
	snprintf(hash, sizeof hash, "%.64s", certs_ca_hash(b->certs));
	assert_int_equal(stat(key, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	open_certs(b);
	assert_string_equal(certs_ca_hash(b->certs), hash);
	/* Half made by a start that was killed: nobody can hold anything of it. */
	unlink(cert);
	open_certs(b);
	assert_string_not_equal(certs_ca_hash(b->certs), hash);
	/* A CA without its key is lost, and never replaced in silence. */
	unlink(key);
	certs_close(&b->certs);
	assert_int_equal(certs_open(&b->certs, &b->config, NULL), -ENOENT);
}

/* Another CA in its place would turn away every node, and its key would be written over. */
static void
a_lost_ca_is_not_replaced_while_nodes_hold_certificates(void **state)
{
	struct bed *b = *state;
	auto_free char *ca = path_of(b, "ca.pem"), *key = path_of(b, "ca.key");
	auto_free char *record = path_of(b, "nodes/edge-1"), *before = NULL, *after = NULL;
	struct err err = {0};

	open_certs(b);
	certs_close(&b->certs);
	assert_int_equal(file_write(record, "x", 1, 0644), 0);
	assert_int_equal(file_read(key, 65536, &before, NULL), 0);
	assert_int_equal(unlink(ca), 0);
	assert_int_equal(certs_open(&b->certs, &b->config, &err), -ENOENT);
	assert_non_null(strstr(err.text, "ca.pem is gone"));
	assert_int_equal(file_read(key, 65536, &after, NULL), 0);
	assert_string_equal(before, after);
	assert_int_equal(unlink(record), 0);
	open_certs(b);
}

static void
the_hub_certificate_is_made_anew_when_due(void **state)
{
	static const char *const names[] = {"hub.example", NULL}, *const fewer[] = {NULL};
	struct bed *b = *state;
	auto_free char *first = NULL, *second = NULL, *third = NULL, *fourth = NULL, *fifth = NULL;

	open_certs(b);
	first = hub_pem(b, now());
	assert_false(certs_renew_due(b->certs, now()));
	assert_false(certs_renew_due(b->certs, now() + (int64_t)59 * 86400));
	assert_true(certs_renew_due(b->certs, now() + (int64_t)61 * 86400));
	open_certs(b);
	second = hub_pem(b, now());
	assert_string_equal(first, second);
	b->config.names = names;
	open_certs(b);
	third = hub_pem(b, now());
	assert_string_not_equal(second, third);
	b->config.names = fewer;
	open_certs(b);
	fourth = hub_pem(b, now());
	assert_string_equal(third, fourth);
	fifth = hub_pem(b, now() + (int64_t)300 * 86400);
	assert_string_not_equal(fourth, fifth);
}

static int
sign_csr(struct bed *b, const char *node, const char *csr, char **cert, struct err *err)
{
	int rc = certs_issue(b->certs, node, csr, cert, err);

	return rc < 0 ? rc : ledger_record(certs_ledger(b->certs), node, *cert, err);
}

static void
a_node_is_signed_under_its_name_and_remembered(void **state)
{
	struct bed *b = *state;
	auto_free char *key = NULL, *csr = NULL, *cert = NULL, *name = NULL;
	struct err err = {0};
	char **names;

	open_certs(b);
	assert_false(certs_taken(b->certs, "edge-1"));
	assert_int_equal(pki_key_new(&key, &err), 0);
	assert_int_equal(pki_csr_new(key, "root", &csr, &err), 0);
	assert_int_equal(sign_csr(b, "edge-1", csr, &cert, &err), 0);
	assert_int_equal(pki_cert_info(cert, &name, NULL, NULL, &err), 0);
	assert_string_equal(name, "edge-1");
	assert_true(certs_taken(b->certs, "edge-1"));
	assert_false(certs_taken(b->certs, "edge-2"));
	open_certs(b);
	assert_true(certs_taken(b->certs, "edge-1"));
	assert_int_equal(certs_nodes(b->certs, &names), 1);
	assert_string_equal(names[0], "edge-1");
	free(names[0]);
	free(names);
	free(take_ptr(&cert));
	assert_true(sign_csr(b, "edge-2", "nonsense", &cert, &err) < 0);
	assert_false(certs_taken(b->certs, "edge-2"));
}

static void
sign(struct bed *b, const char *node, char **cert, char serial[PKI_SERIAL_TEXT])
{
	auto_free char *key = NULL, *csr = NULL;
	struct err err = {0};

	assert_int_equal(pki_key_new(&key, &err), 0);
	assert_int_equal(pki_csr_new(key, node, &csr, &err), 0);
	assert_int_equal(sign_csr(b, node, csr, cert, &err), 0);
	assert_int_equal(pki_cert_serial(*cert, serial, &err), 0);
}

/* Opening a pipe without a reader stands for a disk that keeps writers waiting. */
static void
noting_a_node_waits_for_no_disk(void **state)
{
	struct bed *b = *state;
	auto_free char *key = NULL, *csr = NULL, *cert = NULL, *kept = NULL;
	auto_free char *slow = xasprintf("%s/nodes/edge-1.tmp.%d", b->dir, (int)getpid());
	auto_free char *record = path_of(b, "nodes/edge-1");
	char **names, serial[PKI_SERIAL_TEXT];
	struct err err = {0};
	struct ledger *l;
	int64_t until_s;

	open_certs(b);
	l = certs_ledger(b->certs);
	assert_int_equal(pki_key_new(&key, &err), 0);
	assert_int_equal(pki_csr_new(key, "edge-1", &csr, &err), 0);
	assert_int_equal(certs_issue(b->certs, "edge-1", csr, &cert, &err), 0);
	assert_int_equal(mkfifo(slow, 0600), 0);
	alarm(60); /* it would wait forever */
	assert_int_equal(ledger_note(l, "edge-1", cert, &err), 0);
	assert_int_equal(access(record, F_OK), -1);
	assert_true(certs_taken(b->certs, "edge-1"));
	assert_int_equal(certs_nodes(b->certs, &names), 1);
	assert_string_equal(names[0], "edge-1");
	free(names[0]);
	free(names);
	/* Nor does what comes with the same connection, nor who looks. */
	assert_int_equal(certs_note_cas(b->certs, "edge-1", cert, certs_ca_list(b->certs)), 0);
	assert_true(certs_node_info(b->certs, "edge-1", serial, &until_s));
	kept = ledger_cert(l, "edge-1");
	assert_string_equal(kept, cert);
	free(take_ptr(&kept));
	/* A pipe cannot be synced: the record is given up, and that is told. */
	assert_return_code(open(slow, O_RDONLY | O_NONBLOCK | O_CLOEXEC), 0);
	while (certs_taken(b->certs, "edge-1"))
		usleep(1000);
	assert_null(ledger_cert(l, "edge-1"));
	assert_non_null(strstr(ledger_problem(l), "cannot be noted"));
	assert_int_equal(certs_nodes(b->certs, &names), 0);
	free(names);
	assert_int_equal(ledger_note(l, "edge-1", cert, &err), 0);
	while (*ledger_problem(l) != '\0')
		usleep(1000);
	assert_int_equal(access(record, F_OK), 0);
	kept = ledger_cert(l, "edge-1");
	assert_string_equal(kept, cert);
	/* Nor does a node that has other CAs at each connection. */
	assert_int_equal(mkfifo(slow, 0600), 0);
	ledger_note_cas(l, "edge-1", cert, "00000000");
	ledger_note_cas(l, "edge-1", cert, "11111111");
	assert_return_code(open(slow, O_RDONLY | O_NONBLOCK | O_CLOEXEC), 0);
	alarm(0);
}

struct given {
	int n, rc;
};

static void
on_written(void *arg, int rc)
{
	struct given *g = arg;

	g->n++;
	g->rc = rc;
}

static void
give(struct bed *b, struct loop *loop, const char *node, struct given *g)
{
	auto_free char *key = NULL, *csr = NULL, *cert = NULL;
	struct joins_entry use = {.token = "01234567", .until_s = now() + 600};
	struct ledger_write *write;
	struct err err = {0};

	snprintf(use.key, sizeof use.key, "%032d", 1);
	snprintf(use.node, sizeof use.node, "%s", node);
	*g = (struct given){.n = 0};
	assert_int_equal(pki_key_new(&key, &err), 0);
	assert_int_equal(pki_csr_new(key, node, &csr, &err), 0);
	assert_int_equal(certs_issue(b->certs, node, csr, &cert, &err), 0);
	assert_int_equal(ledger_give(certs_ledger(b->certs),
				 &(struct ledger_gift){.loop = loop,
					 .node = node,
					 .cert_pem = cert,
					 .use = &use,
					 .written = on_written,
					 .arg = g},
				 &write, &err),
		0);
}

static size_t
uses(struct bed *b)
{
	return joins_count(ledger_registry(certs_ledger(b->certs)), "01234567");
}

/* A join with a token of limited use: nobody has an answer before name and use are on the disk, and
 * the hub's loop does not wait for that. */
static void
joining_waits_for_the_disk_alone(void **state)
{
	struct bed *b = *state;
	auto_free char *slow = xasprintf("%s/nodes/edge-1.tmp.%d", b->dir, (int)getpid());
	auto_free char *journal = path_of(b, JOINS_JOURNAL), *list = path_of(b, "joins.json");
	auto_free char *lines = NULL, *text = NULL;
	struct given one, two;
	struct loop *loop;

	open_certs(b);
	assert_int_equal(loop_new(&loop, NULL), 0);
	assert_int_equal(mkfifo(slow, 0600), 0);
	alarm(60); /* it would wait forever */
	give(b, loop, "edge-1", &one);
	assert_true(certs_taken(b->certs, "edge-1"));
	assert_int_equal(uses(b), 1);
	patience_until(patience_turn(loop), file_read(journal, 4096, &lines, NULL) == 0);
	assert_int_equal(one.n, 0);
	assert_return_code(access(journal, F_OK), errno);
	/* A pipe cannot be synced: name and use are given back. */
	assert_return_code(open(slow, O_RDONLY | O_NONBLOCK | O_CLOEXEC), 0);
	patience_until(patience_turn(loop), one.n == 1);
	assert_true(one.rc < 0);
	assert_false(certs_taken(b->certs, "edge-1"));
	assert_int_equal(uses(b), 0);
	assert_non_null(strstr(ledger_problem(certs_ledger(b->certs)), "cannot be noted"));
	/* What was not written for long is one line for each join, not the whole list. */
	assert_return_code(unlink(list), errno);
	give(b, loop, "edge-1", &one);
	give(b, loop, "edge-2", &two);
	patience_until(patience_turn(loop), one.n == 1 && two.n == 1);
	assert_true(one.rc == 0 && two.rc == 0);
	assert_string_equal(ledger_problem(certs_ledger(b->certs)), "");
	assert_int_equal(access(list, F_OK), -1);
	free(take_ptr(&lines));
	assert_int_equal(file_read(journal, 4096, &lines, NULL), 0);
	assert_non_null(strstr(lines, "\"edge-1\""));
	assert_non_null(strstr(lines, "\"edge-2\""));
	/* As after kill -9: the journal is all there is. */
	text = xstrdup(lines);
	certs_close(&b->certs);
	assert_return_code(unlink(list), errno);
	assert_int_equal(file_write(journal, text, strlen(text), 0600), 0);
	open_certs(b);
	assert_int_equal(uses(b), 2);
	loop_free(&loop);
	alarm(0);
}

/* Another hub takes over, and this one finishes its work meanwhile. */
static void
a_join_at_the_next_hub_is_not_forgotten(void **state)
{
	struct bed *b = *state, next = *b;
	auto_free char *journal = path_of(b, JOINS_JOURNAL), *record = path_of(b, "nodes/edge-1");
	struct given one, two;
	struct ledger_write *write;
	struct err err = {0};
	struct loop *loop;
	struct ledger *l;

	open_certs(b);
	l = certs_ledger(b->certs);
	assert_int_equal(loop_new(&loop, NULL), 0);
	give(b, loop, "edge-1", &one);
	assert_true(ledger_gives(l, "edge-1"));
	assert_false(ledger_gives(l, "edge-2"));
	ledger_hold(l, true);
	assert_int_equal(access(record, F_OK), 0);
	patience_until(patience_turn(loop), one.n == 1);
	assert_int_equal(one.rc, 0);
	assert_false(ledger_gives(l, "edge-1"));
	assert_int_equal(
		ledger_give(l, &(struct ledger_gift){.node = "edge-2"}, &write, &err), -EAGAIN);
	next.certs = NULL;
	open_certs(&next);
	assert_int_equal(uses(&next), 1);
	/* A line behind what was being written when the disk was full. */
	assert_int_equal(file_write(journal, ",{\"tok", 6, 0600), 0);
	give(&next, loop, "edge-2", &two);
	patience_until(patience_turn(loop), two.n == 1);
	assert_int_equal(two.rc, 0);
	assert_true(joins_drop_ended(ledger_registry(l), now() + 3600));
	registry_keep(ledger_registry(l), REGISTRY_JOINS);
	ledger_keep(l);
	certs_close(&b->certs);
	/* As after kill -9 of the next one. */
	open_certs(b);
	assert_int_equal(uses(b), 2);
	certs_close(&next.certs);
	loop_free(&loop);
}

static void
the_life_of_nodes_certificates_is_chosen(void **state)
{
	struct bed *b = *state;
	auto_free char *cert = NULL, *second = NULL;
	char serial[PKI_SERIAL_TEXT], other[PKI_SERIAL_TEXT], listed[PKI_SERIAL_TEXT];
	int64_t from, to, listed_to;

	open_certs(b);
	sign(b, "edge-1", &cert, serial);
	assert_int_equal(pki_cert_info(cert, NULL, &from, &to, NULL), 0);
	assert_in_range(to - now(), 364 * 86400, 365 * 86400);
	assert_in_range(now() - from, 86400, 86460); /* clocks differ */
	b->config.node_life_s = 600;
	open_certs(b);
	sign(b, "edge-1", &second, other);
	assert_string_not_equal(serial, other);
	assert_int_equal(pki_cert_info(second, NULL, &from, &to, NULL), 0);
	assert_in_range(to - from, 659, 661);
	assert_true(certs_node_info(b->certs, "edge-1", listed, &listed_to));
	assert_string_equal(listed, other);
	assert_int_equal(listed_to, to);
	assert_false(certs_node_info(b->certs, "edge-2", listed, &listed_to));
}

static void
what_was_revoked_stays_revoked(void **state)
{
	struct bed *b = *state;
	auto_free char *cert[12] = {NULL}, *path = path_of(b, "revoked.json");
	char serial[12][PKI_SERIAL_TEXT];
	struct err err = {0};
	struct stat st;

	open_certs(b);
	sign(b, "edge-1", &cert[0], serial[0]);
	sign(b, "edge-2", &cert[1], serial[1]);
	assert_int_equal(ledger_revoke(certs_ledger(b->certs), "edge-3", now(), &err), -ENOENT);
	assert_non_null(strstr(err.text, "edge-3"));
	assert_false(certs_refuses(b->certs, "edge-1", serial[0]));
	assert_int_equal(ledger_revoke(certs_ledger(b->certs), "edge-1", now(), &err), 0);
	assert_true(certs_refuses(b->certs, "edge-1", serial[0]));
	assert_true(certs_refuses(b->certs, "edge-1", ""));
	assert_false(certs_refuses(b->certs, "edge-2", serial[1]));
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	open_certs(b);
	assert_true(certs_refuses(b->certs, "edge-1", serial[0]));
	for (int i = 2; i < 12; i++) /* more than are remembered: the newest count */
		sign(b, "edge-1", &cert[i], serial[i]);
	open_certs(b);
	assert_int_equal(certs_revoked_count(b->certs), 1);
	assert_true(certs_refuses(b->certs, "edge-1", serial[0]));
	assert_true(certs_refuses(b->certs, "edge-1", serial[3]));
	for (int i = 4; i < 12; i++)
		assert_false(certs_refuses(b->certs, "edge-1", serial[i]));
	assert_int_equal(ledger_revoke(certs_ledger(b->certs), "edge-1", now(), &err), 0);
	for (int i = 2; i < 12; i++)
		assert_true(certs_refuses(b->certs, "edge-1", serial[i]));
	for (int i = 1; i < 12; i++)
		free(take_ptr(&cert[i]));
}

/* A folder in the way stands for a full disk. */
static void
revoking_needs_no_disk(void **state)
{
	struct bed *b = *state;
	auto_free char *cert = NULL, *path = path_of(b, "revoked.json");
	char serial[PKI_SERIAL_TEXT];
	struct err err = {0};

	open_certs(b);
	sign(b, "edge-1", &cert, serial);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(ledger_revoke(certs_ledger(b->certs), "edge-1", now(), &err), 0);
	assert_true(certs_refuses(b->certs, "edge-1", serial));
	assert_non_null(strstr(ledger_problem(certs_ledger(b->certs)), "revoked.json"));
	assert_int_equal(rmdir(path), 0);
	ledger_keep(certs_ledger(b->certs));
	assert_string_equal(ledger_problem(certs_ledger(b->certs)), "");
	open_certs(b);
	assert_true(certs_refuses(b->certs, "edge-1", serial));
}

static void
count_serial(void *arg, const char *serial)
{
	const char *wanted = arg;

	assert_string_equal(serial, wanted);
}

static void
a_hubs_certificate_is_revoked_alone(void **state)
{
	struct bed *b = *state;
	struct ssl_ctx_st *ctx = NULL;
	struct certs_term ca, hub;
	struct err err = {0};
	char former[PKI_SERIAL_TEXT];

	open_certs(b);
	assert_int_equal(certs_server_ctx(b->certs, now(), &ctx, &err), 0);
	pki_ctx_free(&ctx);
	certs_terms(b->certs, &ca, &hub);
	memcpy(former, hub.serial, sizeof former);
	assert_string_equal(certs_crl(b->certs), "");
	assert_false(certs_renew_due(b->certs, now()));
	assert_int_equal(certs_revoke_hub(b->certs, "not-a-serial", now(), &err), -EINVAL);
	assert_int_equal(certs_revoke_hub(b->certs, former, now(), &err), 0);
	assert_true(certs_refuses_hub(b->certs, former));
	/* Its own is made anew at once, and by a restart as well. */
	assert_true(certs_renew_due(b->certs, now()));
	open_certs(b);
	assert_true(certs_refuses_hub(b->certs, former));
	assert_int_equal(certs_server_ctx(b->certs, now(), &ctx, &err), 0);
	pki_ctx_free(&ctx);
	certs_terms(b->certs, &ca, &hub);
	assert_string_not_equal(hub.serial, former);
	assert_false(certs_renew_due(b->certs, now()));
	assert_int_equal(pki_crl_read(certs_crl(b->certs), certs_ca_pem(b->certs), count_serial,
				 former, &err),
		0);
}

static void assert_refused(struct bed *b, const char *why);

static void
a_damaged_list_of_the_revoked_is_an_error(void **state)
{
	static const char *const texts[] = {"", "{}", "{\"revoked\":{}}", "{\"revoked\":[{}]}",
		"{\"revoked\":[{\"node\":\"edge-1\"}]}",
		"{\"revoked\":[{\"node\":\"edge-1\",\"at\":1",
		"{\"revoked\":[{\"node\":\"edge-1\",\"at\":1,\"good\":[\"xyz\"]}]}"};
	struct bed *b = *state;
	auto_free char *path = path_of(b, "revoked.json");

	open_certs(b);
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		certs_close(&b->certs);
		assert_int_equal(file_write(path, texts[i], strlen(texts[i]), 0600), 0);
		assert_refused(b, "cannot be told which nodes are revoked");
	}
}

/* A replica takes a connection for another replica's by what no node can have. */
static void
a_node_is_never_taken_for_a_hub(void **state)
{
	struct bed *b = *state;
	auto_free char *key = NULL, *csr = NULL, *cert = NULL, *hub = NULL, *again = NULL,
		       *old = NULL, *old_key = NULL, *path = path_of(b, "hub.pem"),
		       *key_path = path_of(b, "hub.key");
	static const char *const names[] = {"edgeway-hub", PKI_HUB_MARK, NULL};
	struct pki_issue issue = {
		.common_name = "edgeway-hub", .names = names, .server = true, .days = 365};
	auto_free char *ca_key = NULL, *ca_path = path_of(b, "ca.key");
	struct ssl_ctx_st *ctx = NULL;
	struct err err = {0};

	open_certs(b);
	assert_int_equal(pki_key_new(&key, &err), 0);
	assert_int_equal(pki_csr_new(key, "edgeway-hub", &csr, &err), 0);
	assert_int_equal(sign_csr(b, "edgeway-hub", csr, &cert, &err), 0);
	assert_false(pki_cert_is_hub(cert));
	hub = hub_pem(b, now());
	assert_true(pki_cert_is_hub(hub));
	assert_int_equal(certs_check_peers(b->certs, &err), 0);
	assert_int_equal(certs_client_ctx(b->certs, &ctx, &err), 0);
	pki_ctx_free(&ctx);
	/* What an older version has left is not good enough, whatever names it has. */
	assert_int_equal(file_read(ca_path, 1 << 20, &ca_key, NULL), 0);
	issue.ca_cert_pem = certs_ca_pem(b->certs);
	issue.ca_key_pem = ca_key;
	assert_int_equal(pki_key_new(&old_key, &err), 0);
	assert_int_equal(pki_sign_key(&issue, old_key, &old, &err), 0);
	assert_false(pki_cert_is_hub(old));
	assert_int_equal(file_write(path, old, strlen(old), 0644), 0);
	assert_int_equal(file_write(key_path, old_key, strlen(old_key), 0600), 0);
	open_certs(b);
	again = hub_pem(b, now());
	assert_string_not_equal(again, old);
	assert_true(pki_cert_is_hub(again));
	/* Nor is one that is good for one side only. */
	issue.hub = true;
	issue.ca_cert_pem = certs_ca_pem(b->certs);
	free(take_ptr(&old));
	assert_int_equal(pki_sign_key(&issue, old_key, &old, &err), 0);
	assert_false(pki_cert_is_hub(old));
}

static void
assert_refused(struct bed *b, const char *why)
{
	struct err err = {0};

	assert_true(certs_open(&b->certs, &b->config, &err) < 0);
	assert_null(b->certs);
	if (strstr(err.text, why) == NULL)
		fail_msg("\"%s\" does not say %s", err.text, why);
}

static void
files_that_do_not_fit_are_refused(void **state)
{
	struct bed *b = *state;
	auto_free char *pem = path_of(b, "mine.pem"), *key = path_of(b, "mine.key"), *ca = NULL,
		       *ca_key = NULL, *other = NULL;
	struct err err = {0};

	b->config.cert = pem;
	assert_refused(b, "tls.key");
	b->config.key = key;
	assert_refused(b, "tls.ca");
	b->config.cert = b->config.key = "";
	b->config.ca_key = key;
	assert_refused(b, "tls.caKey needs tls.ca");
	b->config.ca = pem;
	assert_refused(b, "mine.pem");
	assert_int_equal(pki_ca_new("mine", 10, &ca, &ca_key, &err), 0);
	assert_int_equal(pki_key_new(&other, &err), 0);
	assert_int_equal(file_write(pem, ca, strlen(ca), 0644), 0);
	assert_int_equal(file_write(key, other, strlen(other), 0600), 0);
	assert_refused(b, "do not belong together");
	assert_int_equal(file_write(key, ca_key, strlen(ca_key), 0600), 0);
	open_certs(b);
	assert_true(certs_can_sign(b->certs));
	assert_string_equal(certs_ca_pem(b->certs), ca);
	certs_close(&b->certs);
	b->config.ca_key = "";
	assert_refused(b, "tls.ca alone");
}

#define case_of(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

/* By what each was given: whether it trusts the CA that signs from then on, and whether its own is
 * still trusted. */
static void
lists_say_who_is_cut_off(void **state)
{
	static const char a[] = "aaaaaaaa", ab[] = "aaaaaaaa,bbbbbbbb", ba[] = "bbbbbbbb,aaaaaaaa",
			  b[] = "bbbbbbbb";

	(void)state;
	assert_true(ca_list_keeps(a, a, ab)); /* one more harms nobody */
	assert_false(ca_list_keeps(a, ab, ba)); /* it has not got the one that signs */
	assert_true(ca_list_keeps(ab, ab, ba));
	assert_false(ca_list_keeps(ab, ba, b)); /* its certificate is of the one that goes */
	assert_true(ca_list_keeps(ba, ba, b));
	assert_false(ca_list_keeps(a, a, b));
	/* Of a hub of before: as if it had no more than what was in use. */
	assert_true(ca_list_keeps("", a, ab));
	assert_false(ca_list_keeps("", ab, ba));
	assert_false(ca_list_keeps("", ab, a));
	assert_true(ca_list_keeps("", "", b)); /* at a start nothing is known */
	assert_true(ca_list_is_current("", a));
	assert_false(ca_list_is_current("", ab));
	assert_false(ca_list_is_current(ab, ba));
	assert_true(ca_list_is_current(ba, ba));
}

static void
another_ca_cuts_nobody_off_unsaid(void **state)
{
	struct bed *b = *state;
	auto_free char *ca = NULL, *ca_key = NULL, *key = NULL, *csr = NULL, *cert = NULL;
	auto_free char *both = NULL, *turned = NULL, *signer = NULL, *second = NULL;
	auto_free char *path = path_of(b, "ca.key");
	char list[CA_LIST_TEXT];
	struct ledger *ledger;
	int64_t now_s = (int64_t)(wall_ms() / 1000);
	auto_buf struct buf names;
	struct err err = {0};

	buf_init(&names, BUF_UNLIMITED);
	assert_int_equal(certs_ca_new(&ca, &ca_key, NULL), 0);
	open_certs(b);
	ledger = certs_ledger(b->certs);
	assert_int_equal(file_read(path, 1 << 20, &signer, NULL), 0);
	assert_int_equal(pki_key_new(&key, NULL), 0);
	assert_int_equal(pki_csr_new(key, "edge-1", &csr, NULL), 0);
	assert_int_equal(sign_csr(b, "edge-1", csr, &cert, NULL), 0);
	both = xasprintf("%s%s", certs_ca_pem(b->certs), ca);
	turned = xasprintf("%s%s", ca, certs_ca_pem(b->certs));
	assert_int_equal(certs_cut_off(b->certs, both, now_s, &names), 0);
	assert_int_equal(certs_cut_off(b->certs, turned, now_s, &names), 1);
	assert_string_equal(buf_str(&names), "edge-1");
	/* Who was given both is not. */
	assert_int_equal(certs_use_ca(b->certs, both, signer, &err), 0);
	assert_int_equal(certs_ca_holders(b->certs, now_s, 0, NULL).lack, 1);
	free(take_ptr(&cert));
	assert_int_equal(sign_csr(b, "edge-1", csr, &cert, NULL), 0);
	assert_int_equal(certs_ca_holders(b->certs, now_s, 0, NULL).have, 1);
	assert_int_equal(certs_cut_off(b->certs, turned, now_s, &names), 0);
	assert_int_equal(certs_cut_off(b->certs, ca, now_s, &names), 1);
	/* Of what somebody else has signed nothing is known before the node says it. */
	free(take_ptr(&csr));
	assert_int_equal(pki_csr_new(key, "edge-2", &csr, NULL), 0);
	assert_int_equal(certs_issue(b->certs, "edge-2", csr, &second, NULL), 0);
	assert_int_equal(ledger_note(ledger, "edge-2", second, &err), 0);
	assert_int_equal(certs_ca_holders(b->certs, now_s, 0, NULL).lack, 1);
	certs_note_cas(
		b->certs, "edge-2", cert, certs_ca_list(b->certs)); /* by another certificate */
	assert_int_equal(certs_ca_holders(b->certs, now_s, 0, NULL).lack, 1);
	ca_list_of(list, both, second);
	assert_string_equal(list, certs_ca_list(b->certs));
	ca_list_of(list, turned, second);
	assert_string_equal(list, certs_ca_list(b->certs));
	certs_note_cas(b->certs, "edge-2", second, list);
	assert_int_equal(certs_ca_holders(b->certs, now_s, 0, NULL).have, 2);
	/* The same at a start, by the files. */
	certs_close(&b->certs);
	assert_int_equal(certs_ca_save(b->dir, ca, ca_key, &err), 0);
	assert_int_equal(certs_open(&b->certs, &b->config, &err), -EBUSY);
	assert_non_null(strstr(err.text, "would cut off 2 nodes"));
	assert_non_null(strstr(err.text, "edge-1"));
	b->config.ca_force = true;
	open_certs(b);
	/* Who was lost by then is lost: the next start with these CAs asks nobody. */
	b->config.ca_force = false;
	open_certs(b);
	/* A revoked one is nobody's loss. */
	assert_int_equal(ledger_revoke(certs_ledger(b->certs), "edge-1", now_s, &err), 0);
	assert_int_equal(ledger_forget(certs_ledger(b->certs), "edge-2", now_s, &err), 0);
	assert_int_equal(certs_ca_save(b->dir, both, signer, &err), 0);
	open_certs(b);
}

/* With a good certificate one says what one likes: it counts as far as the certificate bears it
 * out, and keeps no hub from starting. */
static void
a_lie_about_cas_keeps_no_hub_from_starting(void **state)
{
	struct bed *b = *state;
	auto_free char *key = NULL, *csr = NULL, *cert = NULL, *ca = NULL, *ca_key = NULL,
		       *both = NULL, *signer = NULL, *path = path_of(b, "ca.key");
	int64_t now_s = (int64_t)(wall_ms() / 1000);

	open_certs(b);
	assert_int_equal(pki_key_new(&key, NULL), 0);
	assert_int_equal(pki_csr_new(key, "edge-1", &csr, NULL), 0);
	assert_int_equal(sign_csr(b, "edge-1", csr, &cert, NULL), 0);
	assert_int_equal(certs_note_cas(b->certs, "edge-1", cert, "00000000"), -EINVAL);
	assert_int_equal(certs_note_cas(b->certs, "edge-1", cert, "no list"), -EINVAL);
	assert_int_equal(certs_note_cas(b->certs, "edge-1", cert, ""), -EINVAL);
	/* What a hub of before believed, and what is true of one that another CA would lose. */
	ledger_note_cas(certs_ledger(b->certs), "edge-1", cert, "00000000");
	assert_int_equal(certs_ca_holders(b->certs, now_s, 0, NULL).lack, 1);
	open_certs(b);
	/* It counts where the CAs are other ones. */
	assert_int_equal(certs_ca_new(&ca, &ca_key, NULL), 0);
	both = xasprintf("%s%s", certs_ca_pem(b->certs), ca);
	assert_int_equal(file_read(path, 1 << 20, &signer, NULL), 0);
	certs_close(&b->certs);
	assert_int_equal(certs_ca_save(b->dir, both, signer, NULL), 0);
	assert_refused(b, "would cut off 1 nodes");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		case_of(the_ca_is_made_once_and_kept),
		case_of(a_lost_ca_is_not_replaced_while_nodes_hold_certificates),
		case_of(the_hub_certificate_is_made_anew_when_due),
		case_of(a_node_is_signed_under_its_name_and_remembered),
		case_of(a_node_is_never_taken_for_a_hub),
		case_of(files_that_do_not_fit_are_refused),
		case_of(noting_a_node_waits_for_no_disk),
		case_of(joining_waits_for_the_disk_alone),
		case_of(a_join_at_the_next_hub_is_not_forgotten),
		case_of(the_life_of_nodes_certificates_is_chosen),
		case_of(what_was_revoked_stays_revoked),
		case_of(revoking_needs_no_disk),
		case_of(a_hubs_certificate_is_revoked_alone),
		case_of(a_damaged_list_of_the_revoked_is_an_error),
		case_of(lists_say_who_is_cut_off),
		case_of(another_ca_cuts_nobody_off_unsaid),
		case_of(a_lie_about_cas_keeps_no_hub_from_starting),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

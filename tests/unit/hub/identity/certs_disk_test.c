/* The hub's certificates and the disk: what waits for it, what is done without it, and what is
 * found on it at a start. */
#include "tests/unit/hub/identity/certs_bed.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/tls/pki.h"
#include "hub/identity/tokens.h"
#include "tests/unit/patience.h"

/* Opening a pipe without a reader stands for a disk that keeps writers waiting. */
static void
noting_a_node_waits_for_no_disk(void **state)
{
	struct bed *b = *state;
	auto_free char *key = NULL, *csr = NULL, *cert = NULL, *kept = NULL;
	auto_free char *slow = xasprintf("%s/nodes/edge-1.tmp.%d", b->dir, (int)getpid());
	auto_free char *record = bed_path(b, "nodes/edge-1");
	char **names, serial[PKI_SERIAL_TEXT];
	struct err err = {0};
	struct ledger *l;
	int64_t until_s;

	bed_open(b);
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
	/* A pipe cannot be synced: the record is not written, and that is told. */
	assert_return_code(open(slow, O_RDONLY | O_NONBLOCK | O_CLOEXEC), 0);
	while (certs_taken(b->certs, "edge-1"))
		usleep(1000);
	assert_null(ledger_cert(l, "edge-1"));
	assert_non_null(strstr(ledger_problem(l), "cannot be noted"));
	assert_int_equal(certs_nodes(b->certs, &names), 0);
	free(names);
	/* The disk takes it again, before the node comes again. */
	ledger_keep(l, bed_now());
	while (*ledger_problem(l) != '\0')
		usleep(1000);
	assert_int_equal(access(record, F_OK), 0);
	assert_int_equal(certs_nodes(b->certs, &names), 1);
	free(names[0]);
	free(names);
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
	struct joins_entry use = {.token = "01234567", .until_s = bed_now() + 600};
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
	auto_free char *journal = bed_path(b, JOINS_JOURNAL), *list = bed_path(b, "joins.json");
	auto_free char *lines = NULL, *text = NULL;
	struct given one, two;
	struct loop *loop;
	char **names;

	bed_open(b);
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
	/* Nobody asks again: that the disk takes files again is found without. */
	ledger_keep(certs_ledger(b->certs), bed_now());
	while (*ledger_problem(certs_ledger(b->certs)) != '\0')
		usleep(1000);
	assert_false(certs_taken(b->certs, "edge-1"));
	assert_int_equal(certs_nodes(b->certs, &names), 0);
	free(names);
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
	bed_open(b);
	assert_int_equal(uses(b), 2);
	loop_free(&loop);
	alarm(0);
}

/* Another hub takes over, and this one finishes its work meanwhile. */
static void
a_join_at_the_next_hub_is_not_forgotten(void **state)
{
	struct bed *b = *state, next = *b;
	auto_free char *journal = bed_path(b, JOINS_JOURNAL), *record = bed_path(b, "nodes/edge-1");
	struct given one, two;
	struct ledger_write *write;
	struct err err = {0};
	struct loop *loop;
	struct ledger *l;

	bed_open(b);
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
	bed_open(&next);
	assert_int_equal(uses(&next), 1);
	/* A line behind what was being written when the disk was full. */
	assert_int_equal(file_write(journal, ",{\"tok", 6, 0600), 0);
	give(&next, loop, "edge-2", &two);
	patience_until(patience_turn(loop), two.n == 1);
	assert_int_equal(two.rc, 0);
	assert_true(joins_drop_ended(ledger_registry(l), bed_now() + 3600));
	registry_keep(ledger_registry(l), REGISTRY_JOINS);
	ledger_keep(l, bed_now());
	certs_close(&b->certs);
	/* As after kill -9 of the next one. */
	bed_open(b);
	assert_int_equal(uses(b), 2);
	certs_close(&next.certs);
	loop_free(&loop);
}

/* A token for edge-1 that lives for a day, and has been used. */
static struct joins_entry
use_up(struct bed *b, char secret[TOKEN_SECRET_LEN + 1])
{
	struct registry *r = ledger_registry(certs_ledger(b->certs));
	struct joins_entry use = {.node = "edge-1", .until_s = bed_now() + 86400};

	assert_int_equal(tokens_create(r, &(struct tokens_wish){"edge-1", 1, 86400}, bed_now(),
				 secret, NULL),
		0);
	snprintf(use.token, sizeof use.token, "%.8s", secret);
	snprintf(use.key, sizeof use.key, "%032d", 1);
	joins_enter(r, &use);
	registry_keep(r, REGISTRY_JOINS);
	return use;
}

static int
check_later(struct bed *b, const char *secret)
{
	struct tokens_terms terms;

	return tokens_check(ledger_registry(certs_ledger(b->certs)), secret, "edge-1",
		bed_now() + 3600, &terms, NULL);
}

/* The hub's clock is two days ahead, and then set right: what the used token's joins said is
 * forgotten, so the token must be as well, also after a restart. */
static void
a_clock_that_was_ahead_gives_no_token_back(void **state)
{
	struct bed *b = *state;
	auto_free char *path = bed_path(b, "tokens.json");
	char secret[TOKEN_SECRET_LEN + 1];
	struct joins_entry use;

	bed_open(b);
	use = use_up(b, secret);
	assert_int_equal(check_later(b, secret), 0);
	ledger_keep(certs_ledger(b->certs), bed_now() + 2 * 86400);
	assert_int_equal(check_later(b, secret), -EACCES);
	assert_false(joins_has(ledger_registry(certs_ledger(b->certs)), &use));
	bed_open(b);
	assert_int_equal(check_later(b, secret), -EACCES);
	/* A folder in the way stands for a full disk: the joins wait for it. */
	use = use_up(b, secret);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkdir(path, 0700), 0);
	ledger_keep(certs_ledger(b->certs), bed_now() + 2 * 86400);
	assert_true(joins_has(ledger_registry(certs_ledger(b->certs)), &use));
	assert_int_equal(check_later(b, secret), -EACCES);
	assert_int_equal(rmdir(path), 0);
	ledger_keep(certs_ledger(b->certs), bed_now() + 2 * 86400);
	assert_false(joins_has(ledger_registry(certs_ledger(b->certs)), &use));
	bed_open(b);
	assert_int_equal(check_later(b, secret), -EACCES);
}

/* A folder in the way stands for a full disk. */
static void
revoking_needs_no_disk(void **state)
{
	struct bed *b = *state;
	auto_free char *cert = NULL, *path = bed_path(b, "revoked.json");
	char serial[PKI_SERIAL_TEXT];
	struct err err = {0};

	bed_open(b);
	bed_sign(b, "edge-1", &cert, serial);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(ledger_revoke(certs_ledger(b->certs), "edge-1", bed_now(), &err), 0);
	assert_true(certs_refuses(b->certs, "edge-1", serial));
	assert_non_null(strstr(ledger_problem(certs_ledger(b->certs)), "revoked.json"));
	assert_int_equal(rmdir(path), 0);
	ledger_keep(certs_ledger(b->certs), bed_now());
	assert_string_equal(ledger_problem(certs_ledger(b->certs)), "");
	bed_open(b);
	assert_true(certs_refuses(b->certs, "edge-1", serial));
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
a_damaged_list_of_the_revoked_is_an_error(void **state)
{
	static const char *const texts[] = {"", "{}", "{\"revoked\":{}}", "{\"revoked\":[{}]}",
		"{\"revoked\":[{\"node\":\"edge-1\"}]}",
		"{\"revoked\":[{\"node\":\"edge-1\",\"at\":1",
		"{\"revoked\":[{\"node\":\"edge-1\",\"at\":1,\"good\":[\"xyz\"]}]}"};
	struct bed *b = *state;
	auto_free char *path = bed_path(b, "revoked.json");

	bed_open(b);
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		certs_close(&b->certs);
		assert_int_equal(file_write(path, texts[i], strlen(texts[i]), 0600), 0);
		assert_refused(b, "cannot be told which nodes are revoked");
	}
}

static void
files_that_do_not_fit_are_refused(void **state)
{
	struct bed *b = *state;
	auto_free char *pem = bed_path(b, "mine.pem"), *key = bed_path(b, "mine.key"), *ca = NULL,
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
	bed_open(b);
	assert_true(certs_can_sign(b->certs));
	assert_string_equal(certs_ca_pem(b->certs), ca);
	certs_close(&b->certs);
	b->config.ca_key = "";
	assert_refused(b, "tls.ca alone");
}

/* With a good certificate one says what one likes: it counts as far as the certificate bears it
 * out, and keeps no hub from starting. */
static void
a_lie_about_cas_keeps_no_hub_from_starting(void **state)
{
	struct bed *b = *state;
	auto_free char *key = NULL, *csr = NULL, *cert = NULL, *ca = NULL, *ca_key = NULL,
		       *both = NULL, *signer = NULL, *path = bed_path(b, "ca.key");
	int64_t now_s = (int64_t)(wall_ms() / 1000);

	bed_open(b);
	assert_int_equal(pki_key_new(&key, NULL), 0);
	assert_int_equal(pki_csr_new(key, "edge-1", &csr, NULL), 0);
	assert_int_equal(bed_sign_csr(b, "edge-1", csr, &cert, NULL), 0);
	assert_int_equal(certs_note_cas(b->certs, "edge-1", cert, "00000000"), -EINVAL);
	assert_int_equal(certs_note_cas(b->certs, "edge-1", cert, "no list"), -EINVAL);
	assert_int_equal(certs_note_cas(b->certs, "edge-1", cert, ""), -EINVAL);
	/* What a hub of before believed, and what is true of one that another CA would lose. */
	ledger_note_cas(certs_ledger(b->certs), "edge-1", cert, "00000000");
	assert_int_equal(certs_ca_holders(b->certs, now_s, 0, NULL).lack, 1);
	bed_open(b);
	/* It counts where the CAs are other ones. */
	assert_int_equal(certs_ca_new(&ca, &ca_key, NULL), 0);
	both = xasprintf("%s%s", certs_ca_pem(b->certs), ca);
	assert_int_equal(file_read(path, 1 << 20, &signer, NULL), 0);
	certs_close(&b->certs);
	assert_int_equal(certs_ca_save(b->dir, both, signer, NULL), 0);
	assert_refused(b, "would cut off 1 nodes");
}

#define case_of(f) cmocka_unit_test_setup_teardown(f, bed_setup, bed_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		case_of(files_that_do_not_fit_are_refused),
		case_of(noting_a_node_waits_for_no_disk),
		case_of(joining_waits_for_the_disk_alone),
		case_of(a_join_at_the_next_hub_is_not_forgotten),
		case_of(a_clock_that_was_ahead_gives_no_token_back),
		case_of(revoking_needs_no_disk),
		case_of(a_damaged_list_of_the_revoked_is_an_error),
		case_of(a_lie_about_cas_keeps_no_hub_from_starting),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

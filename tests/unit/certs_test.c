/* The hub's certificates: made once, kept, made anew when due, and what is signed for nodes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/pki.h"
#include "hub/certs.h"

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
	b->config = (struct certs_config){b->dir, "", "", "", "", NULL, ""};
	*state = b;
	return 0;
}

static int
teardown(void **state)
{
	static const char *const files[] = {"ca.pem", "ca.key", "hub.pem", "hub.key", "hub.names",
		"nodes/edge-1", "nodes/edge-2", "mine.pem", "mine.key"};
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
	assert_true(certs_renew_due(b->certs, now() + (int64_t)300 * 86400));
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
	assert_int_equal(certs_sign(b->certs, "edge-1", csr, &cert, &err), 0);
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
	assert_true(certs_sign(b->certs, "edge-2", "nonsense", &cert, &err) < 0);
	assert_false(certs_taken(b->certs, "edge-2"));
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

int
main(void)
{
	const struct CMUnitTest tests[] = {
		case_of(the_ca_is_made_once_and_kept),
		case_of(a_lost_ca_is_not_replaced_while_nodes_hold_certificates),
		case_of(the_hub_certificate_is_made_anew_when_due),
		case_of(a_node_is_signed_under_its_name_and_remembered),
		case_of(files_that_do_not_fit_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The hub's certificates: made once, kept, made anew when due, and what is signed for nodes. */
#include "tests/unit/hub/identity/certs_bed.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/tls/pki_crl.h"

static char *
hub_pem(struct bed *b, int64_t at)
{
	auto_free char *path = bed_path(b, "hub.pem");
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
	auto_free char *key = bed_path(b, "ca.key"), *cert = bed_path(b, "ca.pem");
	char hash[PKI_HASH_TEXT];
	struct stat st;

	bed_open(b);
	snprintf(hash, sizeof hash, "%.64s", certs_ca_hash(b->certs));
	assert_int_equal(stat(key, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	bed_open(b);
	assert_string_equal(certs_ca_hash(b->certs), hash);
	/* Half made by a start that was killed: nobody can hold anything of it. */
	unlink(cert);
	bed_open(b);
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
	auto_free char *ca = bed_path(b, "ca.pem"), *key = bed_path(b, "ca.key");
	auto_free char *record = bed_path(b, "nodes/edge-1"), *before = NULL, *after = NULL;
	struct err err = {0};

	bed_open(b);
	certs_close(&b->certs);
	assert_int_equal(file_write(record, "x", 1, 0644), 0);
	assert_int_equal(file_read(key, 65536, &before, NULL), 0);
	assert_int_equal(unlink(ca), 0);
	assert_int_equal(certs_open(&b->certs, &b->config, &err), -ENOENT);
	assert_non_null(strstr(err.text, "ca.pem is gone"));
	assert_int_equal(file_read(key, 65536, &after, NULL), 0);
	assert_string_equal(before, after);
	assert_int_equal(unlink(record), 0);
	bed_open(b);
}

static void
the_hub_certificate_is_made_anew_when_due(void **state)
{
	static const char *const names[] = {"hub.example", NULL}, *const fewer[] = {NULL};
	struct bed *b = *state;
	auto_free char *first = NULL, *second = NULL, *third = NULL, *fourth = NULL, *fifth = NULL;

	bed_open(b);
	first = hub_pem(b, bed_now());
	assert_false(certs_renew_due(b->certs, bed_now()));
	assert_false(certs_renew_due(b->certs, bed_now() + (int64_t)59 * 86400));
	assert_true(certs_renew_due(b->certs, bed_now() + (int64_t)61 * 86400));
	bed_open(b);
	second = hub_pem(b, bed_now());
	assert_string_equal(first, second);
	b->config.names = names;
	bed_open(b);
	third = hub_pem(b, bed_now());
	assert_string_not_equal(second, third);
	b->config.names = fewer;
	bed_open(b);
	fourth = hub_pem(b, bed_now());
	assert_string_equal(third, fourth);
	fifth = hub_pem(b, bed_now() + (int64_t)300 * 86400);
	assert_string_not_equal(fourth, fifth);
}

static void
a_node_is_signed_under_its_name_and_remembered(void **state)
{
	struct bed *b = *state;
	auto_free char *key = NULL, *csr = NULL, *cert = NULL, *name = NULL;
	struct err err = {0};
	char **names;

	bed_open(b);
	assert_false(certs_taken(b->certs, "edge-1"));
	assert_int_equal(pki_key_new(&key, &err), 0);
	assert_int_equal(pki_csr_new(key, "root", &csr, &err), 0);
	assert_int_equal(bed_sign_csr(b, "edge-1", csr, &cert, &err), 0);
	assert_int_equal(pki_cert_info(cert, &name, NULL, NULL, &err), 0);
	assert_string_equal(name, "edge-1");
	assert_true(certs_taken(b->certs, "edge-1"));
	assert_false(certs_taken(b->certs, "edge-2"));
	bed_open(b);
	assert_true(certs_taken(b->certs, "edge-1"));
	assert_int_equal(certs_nodes(b->certs, &names), 1);
	assert_string_equal(names[0], "edge-1");
	free(names[0]);
	free(names);
	free(take_ptr(&cert));
	assert_true(bed_sign_csr(b, "edge-2", "nonsense", &cert, &err) < 0);
	assert_false(certs_taken(b->certs, "edge-2"));
}

static void
the_life_of_nodes_certificates_is_chosen(void **state)
{
	struct bed *b = *state;
	auto_free char *cert = NULL, *second = NULL;
	char serial[PKI_SERIAL_TEXT], other[PKI_SERIAL_TEXT], listed[PKI_SERIAL_TEXT];
	int64_t from, to, listed_to;

	bed_open(b);
	bed_sign(b, "edge-1", &cert, serial);
	assert_int_equal(pki_cert_info(cert, NULL, &from, &to, NULL), 0);
	assert_in_range(to - bed_now(), 364 * 86400, 365 * 86400);
	assert_in_range(bed_now() - from, 86400, 86460); /* clocks differ */
	b->config.node_life_s = 600;
	bed_open(b);
	bed_sign(b, "edge-1", &second, other);
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
	auto_free char *cert[12] = {NULL}, *path = bed_path(b, "revoked.json");
	char serial[12][PKI_SERIAL_TEXT];
	struct err err = {0};
	struct stat st;

	bed_open(b);
	bed_sign(b, "edge-1", &cert[0], serial[0]);
	bed_sign(b, "edge-2", &cert[1], serial[1]);
	assert_int_equal(ledger_revoke(certs_ledger(b->certs), "edge-3", bed_now(), &err), -ENOENT);
	assert_non_null(strstr(err.text, "edge-3"));
	assert_false(certs_refuses(b->certs, "edge-1", serial[0]));
	assert_int_equal(ledger_revoke(certs_ledger(b->certs), "edge-1", bed_now(), &err), 0);
	assert_true(certs_refuses(b->certs, "edge-1", serial[0]));
	assert_true(certs_refuses(b->certs, "edge-1", ""));
	assert_false(certs_refuses(b->certs, "edge-2", serial[1]));
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	bed_open(b);
	assert_true(certs_refuses(b->certs, "edge-1", serial[0]));
	for (int i = 2; i < 12; i++) /* more than are remembered: the newest count */
		bed_sign(b, "edge-1", &cert[i], serial[i]);
	bed_open(b);
	assert_int_equal(certs_revoked_count(b->certs), 1);
	assert_true(certs_refuses(b->certs, "edge-1", serial[0]));
	assert_true(certs_refuses(b->certs, "edge-1", serial[3]));
	for (int i = 4; i < 12; i++)
		assert_false(certs_refuses(b->certs, "edge-1", serial[i]));
	assert_int_equal(ledger_revoke(certs_ledger(b->certs), "edge-1", bed_now(), &err), 0);
	for (int i = 2; i < 12; i++)
		assert_true(certs_refuses(b->certs, "edge-1", serial[i]));
	for (int i = 1; i < 12; i++)
		free(take_ptr(&cert[i]));
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

	bed_open(b);
	assert_int_equal(certs_server_ctx(b->certs, bed_now(), &ctx, &err), 0);
	pki_ctx_free(&ctx);
	certs_terms(b->certs, &ca, &hub);
	memcpy(former, hub.serial, sizeof former);
	assert_string_equal(certs_crl(b->certs), "");
	assert_false(certs_renew_due(b->certs, bed_now()));
	assert_int_equal(certs_revoke_hub(b->certs, "not-a-serial", bed_now(), &err), -EINVAL);
	assert_int_equal(certs_revoke_hub(b->certs, former, bed_now(), &err), 0);
	assert_true(certs_refuses_hub(b->certs, former));
	/* Its own is made anew at once, and by a restart as well. */
	assert_true(certs_renew_due(b->certs, bed_now()));
	bed_open(b);
	assert_true(certs_refuses_hub(b->certs, former));
	assert_int_equal(certs_server_ctx(b->certs, bed_now(), &ctx, &err), 0);
	pki_ctx_free(&ctx);
	certs_terms(b->certs, &ca, &hub);
	assert_string_not_equal(hub.serial, former);
	assert_false(certs_renew_due(b->certs, bed_now()));
	assert_int_equal(pki_crl_read(certs_crl(b->certs), certs_ca_pem(b->certs), count_serial,
				 former, &err),
		0);
}

/* A replica takes a connection for another replica's by what no node can have. */
static void
a_node_is_never_taken_for_a_hub(void **state)
{
	struct bed *b = *state;
	auto_free char *key = NULL, *csr = NULL, *cert = NULL, *hub = NULL, *again = NULL,
		       *old = NULL, *old_key = NULL, *path = bed_path(b, "hub.pem"),
		       *key_path = bed_path(b, "hub.key");
	static const char *const names[] = {"edgeway-hub", PKI_HUB_MARK, NULL};
	struct pki_issue issue = {
		.common_name = "edgeway-hub", .names = names, .server = true, .days = 365};
	auto_free char *ca_key = NULL, *ca_path = bed_path(b, "ca.key");
	struct ssl_ctx_st *ctx = NULL;
	struct err err = {0};

	bed_open(b);
	assert_int_equal(pki_key_new(&key, &err), 0);
	assert_int_equal(pki_csr_new(key, "edgeway-hub", &csr, &err), 0);
	assert_int_equal(bed_sign_csr(b, "edgeway-hub", csr, &cert, &err), 0);
	assert_false(pki_cert_is_hub(cert));
	hub = hub_pem(b, bed_now());
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
	bed_open(b);
	again = hub_pem(b, bed_now());
	assert_string_not_equal(again, old);
	assert_true(pki_cert_is_hub(again));
	/* Nor is one that is good for one side only. */
	issue.hub = true;
	issue.ca_cert_pem = certs_ca_pem(b->certs);
	free(take_ptr(&old));
	assert_int_equal(pki_sign_key(&issue, old_key, &old, &err), 0);
	assert_false(pki_cert_is_hub(old));
}

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
	auto_free char *path = bed_path(b, "ca.key");
	char list[CA_LIST_TEXT];
	struct ledger *ledger;
	int64_t now_s = (int64_t)(wall_ms() / 1000);
	auto_buf struct buf names;
	struct err err = {0};

	buf_init(&names, BUF_UNLIMITED);
	assert_int_equal(certs_ca_new(&ca, &ca_key, NULL), 0);
	bed_open(b);
	ledger = certs_ledger(b->certs);
	assert_int_equal(file_read(path, 1 << 20, &signer, NULL), 0);
	assert_int_equal(pki_key_new(&key, NULL), 0);
	assert_int_equal(pki_csr_new(key, "edge-1", &csr, NULL), 0);
	assert_int_equal(bed_sign_csr(b, "edge-1", csr, &cert, NULL), 0);
	both = xasprintf("%s%s", certs_ca_pem(b->certs), ca);
	turned = xasprintf("%s%s", ca, certs_ca_pem(b->certs));
	assert_int_equal(certs_cut_off(b->certs, both, now_s, &names), 0);
	assert_int_equal(certs_cut_off(b->certs, turned, now_s, &names), 1);
	assert_string_equal(buf_str(&names), "edge-1");
	/* Who was given both is not. */
	assert_int_equal(certs_use_ca(b->certs, both, signer, &err), 0);
	assert_int_equal(certs_ca_holders(b->certs, now_s, 0, NULL).lack, 1);
	free(take_ptr(&cert));
	assert_int_equal(bed_sign_csr(b, "edge-1", csr, &cert, NULL), 0);
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
	bed_open(b);
	/* Who was lost by then is lost: the next start with these CAs asks nobody. */
	b->config.ca_force = false;
	bed_open(b);
	/* A revoked one is nobody's loss. */
	assert_int_equal(ledger_revoke(certs_ledger(b->certs), "edge-1", now_s, &err), 0);
	assert_int_equal(ledger_forget(certs_ledger(b->certs), "edge-2", now_s, &err), 0);
	assert_int_equal(certs_ca_save(b->dir, both, signer, &err), 0);
	bed_open(b);
}

#define case_of(f) cmocka_unit_test_setup_teardown(f, bed_setup, bed_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		case_of(the_ca_is_made_once_and_kept),
		case_of(a_lost_ca_is_not_replaced_while_nodes_hold_certificates),
		case_of(the_hub_certificate_is_made_anew_when_due),
		case_of(a_node_is_signed_under_its_name_and_remembered),
		case_of(a_node_is_never_taken_for_a_hub),
		case_of(the_life_of_nodes_certificates_is_chosen),
		case_of(what_was_revoked_stays_revoked),
		case_of(a_hubs_certificate_is_revoked_alone),
		case_of(lists_say_who_is_cut_off),
		case_of(another_ca_cuts_nobody_off_unsaid),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "tests/unit/hub/identity/certs_bed.h"

#include <stdio.h>
#include <unistd.h>

#include "base/core/log.h"
#include "base/tls/pki.h"

int64_t
bed_now(void)
{
	return (int64_t)(wall_ms() / 1000);
}

char *
bed_path(struct bed *b, const char *name)
{
	return xasprintf("%s/%s", b->dir, name);
}

int
bed_setup(void **state)
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

int
bed_teardown(void **state)
{
	static const char *const files[] = {"ca.pem", "ca.key", "ca.list", "hub.pem", "hub.key",
		"hub.names", "nodes/edge-1", "nodes/edge-2", "nodes/edgeway-hub", "revoked.json",
		"joins.json", JOINS_JOURNAL, "tokens.json", "mine.pem", "mine.key"};
	struct bed *b = *state;
	auto_free char *nodes = bed_path(b, "nodes");

	certs_close(&b->certs);
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		auto_free char *path = bed_path(b, files[i]);

		unlink(path);
	}
	rmdir(nodes);
	rmdir(b->dir);
	free(b);
	return 0;
}

void
bed_open(struct bed *b)
{
	struct err err = {0};

	certs_close(&b->certs);
	if (certs_open(&b->certs, &b->config, &err) < 0)
		fail_msg("%s", err.text);
}

int
bed_sign_csr(struct bed *b, const char *node, const char *csr, char **cert, struct err *err)
{
	int rc = certs_issue(b->certs, node, csr, cert, err);

	return rc < 0 ? rc : ledger_record(certs_ledger(b->certs), node, *cert, err);
}

void
bed_sign(struct bed *b, const char *node, char **cert, char serial[PKI_SERIAL_TEXT])
{
	auto_free char *key = NULL, *csr = NULL;
	struct err err = {0};

	assert_int_equal(pki_key_new(&key, &err), 0);
	assert_int_equal(pki_csr_new(key, node, &csr, &err), 0);
	assert_int_equal(bed_sign_csr(b, node, csr, cert, &err), 0);
	assert_int_equal(pki_cert_serial(*cert, serial, &err), 0);
}

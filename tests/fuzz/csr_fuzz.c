/*
 * Requests for certificates, as a node sends them and as anybody may put them into the API server:
 * the bytes are the PEM text, and a CertificateSigningRequest with it or with what is a JSON object
 * itself. What may be signed has a node's name, and comes back from what the hub would write. The
 * same text as a certificate, a list of CAs and a list of revoked certificates.
 */
#include <assert.h>
#include <string.h>

#include "base/core/base64.h"
#include "base/tls/pki_crl.h"
#include "hub/identity/csr.h"
#include "hub/port/route.h"
#include "model/ca_list.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static bool
object_read(struct csr *csr, const char *json, size_t len)
{
	struct tree *tree = NULL;
	bool read = tree_parse(&tree, "csr", json, len, NULL) == 0 && tree_count(tree) == 1 &&
		csr_read(csr, tree_document(tree, 0));

	tree_free(&tree);
	return read;
}

static void
check_body(const char *json, size_t len)
{
	struct tree *tree = NULL;
	struct err err = {0};

	assert(tree_parse(&tree, "body", json, len, &err) == 0);
	tree_free(&tree);
}

/* As the API server has what is created: with a version. */
static void
object_build(struct buf *out, const struct csr *csr)
{
	auto_buf struct buf body;
	const char *rest;

	buf_init(&body, BUF_UNLIMITED);
	csr_build(&body, csr);
	rest = strstr(buf_str(&body), "\"labels\"");
	assert(rest != NULL);
	buf_add(out, buf_str(&body), (size_t)(rest - buf_str(&body)));
	buf_printf(out, "\"resourceVersion\":\"1\",%s", rest);
}

static void
check_again(const struct csr *csr)
{
	auto_buf struct buf out;
	struct csr again;

	buf_init(&out, BUF_UNLIMITED);
	object_build(&out, csr);
	assert(object_read(&again, buf_str(&out), buf_len(&out)));
	assert(again.ours && again.state == CSR_PENDING && again.replaces == csr->replaces);
	assert(strcmp(again.request, csr->request) == 0);
	assert(again.wrong == NULL && strcmp(again.node, csr->node) == 0);
	assert(strcmp(again.key, csr->key) == 0);
	csr_fini(&again);
}

static void
check_object(const char *json, size_t len)
{
	auto_buf struct buf out;
	struct csr csr;

	buf_init(&out, BUF_UNLIMITED);
	if (!object_read(&csr, json, len))
		return;
	if (csr.wrong == NULL) {
		assert(node_name_ok(csr.node) && strlen(csr.key) == PKI_HASH_TEXT - 1);
		csr_name(csr.name, csr.node, csr.key, csr.replaces);
		check_again(&csr);
	} else {
		csr_build_failed(&out, &csr);
		check_body(buf_str(&out), buf_len(&out));
	}
	assert(csr.cert[0] == '\0' || csr.state == CSR_ISSUED);
	csr_fini(&csr);
}

static void
as_request(const char *pem)
{
	auto_free char *name = NULL, *plain = NULL, *again = NULL;
	char key[PKI_HASH_TEXT], other[PKI_HASH_TEXT];
	struct csr csr = {.name = "edgeway-edge-1",
		.request = (char *)(uintptr_t)pem,
		.node = (char *)(uintptr_t) "edge-1",
		.address = (char *)(uintptr_t) ""};
	auto_buf struct buf out;

	buf_init(&out, BUF_UNLIMITED);
	object_build(&out, &csr);
	check_object(buf_str(&out), buf_len(&out));
	if (pki_csr_info(pem, &name, key, NULL) < 0)
		return;
	if (pki_csr_plain(pem, &plain, NULL) < 0)
		return;
	assert(pki_csr_info(plain, &again, other, NULL) == 0);
	assert(strcmp(name, again) == 0 && strcmp(key, other) == 0);
}

static void
on_serial(void *arg, const char *serial)
{
	(void)arg;
	assert(strlen(serial) < PKI_SERIAL_TEXT);
}

static void
as_certificate(const char *pem)
{
	char hash[PKI_HASH_TEXT], serial[PKI_SERIAL_TEXT], cas[CA_LIST_TEXT];
	int64_t from_s, until_s;
	char *name = NULL;

	if (pki_cert_info(pem, &name, &from_s, &until_s, NULL) == 0)
		free(name);
	(void)pki_cert_serial(pem, serial, NULL);
	(void)pki_cert_key(pem, hash, NULL);
	(void)pki_cert_is_hub(pem);
	ca_list(cas, pem);
	assert(ca_list_ok(cas));
	ca_list_of(cas, pem, pem);
	assert(ca_list_ok(cas));
	(void)pki_crl_read(pem, pem, on_serial, NULL, NULL);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	auto_free char *text = xstrndup((const char *)data, len);

	if (len > 64 * 1024)
		return 0;
	if (text[0] == '{') {
		check_object(text, strlen(text));
		return 0;
	}
	as_request(text);
	as_certificate(text);
	return 0;
}

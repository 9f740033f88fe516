#include "hub/identity/csr.h"

#include <stdio.h>
#include <string.h>

#include "base/core/base64.h"
#include "hub/port/route.h"
#include "model/json.h"

enum { WHY_MAX = 200, NODE_IN_NAME_MAX = 200, KEY_IN_NAME = 16 };

#define ADDRESS_KEY "edgeway.io/address"
#define OURS_KEY "app.kubernetes.io/managed-by"
#define OURS "edgeway-hub"

/* --- reading -------------------------------------------------------------------------------- */

static bool
is_true(const struct tree_node *condition, const char *type)
{
	return strcmp(tree_text(tree_get(condition, "type"), ""), type) == 0 &&
		strcmp(tree_text(tree_get(condition, "status"), "True"), "True") == 0;
}

static char *
words_of(const struct tree_node *condition)
{
	const char *message = tree_text(tree_get(condition, "message"), "");
	const char *reason = tree_text(tree_get(condition, "reason"), "");

	return xstrndup(message[0] != '\0' ? message : reason, WHY_MAX);
}

/* The conditions Denied and Failed are final, whatever else is set. */
static void
read_status(struct csr *csr, const struct tree_node *object)
{
	auto_free char *cert = base64_text(tree_text(tree_path(object, "status.certificate"), ""));

	tree_each(tree_path(object, "status.conditions"), c) {
		bool denied = is_true(c, "Denied"), failed = is_true(c, "Failed");

		if (denied || failed) {
			free(csr->why);
			csr->why = words_of(c);
			csr->state = denied ? CSR_DENIED : CSR_FAILED;
		} else if (csr->state == CSR_PENDING && is_true(c, "Approved")) {
			csr->state = CSR_APPROVED;
		}
	}
	if (csr->state == CSR_APPROVED && cert != NULL) {
		csr->state = CSR_ISSUED;
		csr->cert = take_ptr(&cert);
	}
}

static const char *
wrong_usage(const struct tree_node *spec)
{
	static const char *const known[] = {"client auth", "digital signature", "key encipherment"};
	bool client = false;

	tree_each(tree_get(spec, "usages"), u) {
		const char *text = tree_text(u, "");
		bool found = false;

		for (size_t i = 0; i < ARRAY_LEN(known); i++)
			found |= strcmp(text, known[i]) == 0;
		if (!found)
			return "usages: only client auth, digital signature and key encipherment "
			       "are signed";
		client |= strcmp(text, known[0]) == 0;
	}
	return client ? NULL : "usages: client auth is missing";
}

static void
csr_check(struct csr *csr, const struct tree_node *spec)
{
	const char *usage = wrong_usage(spec);
	const char *signer = tree_text(tree_get(spec, "signerName"), "");
	struct err err = {0};

	csr->wrong = NULL;
	csr->replaces = strcmp(signer, CSR_SIGNER_REPLACEMENT) == 0;
	if (!csr->replaces && strcmp(signer, CSR_SIGNER) != 0)
		csr->wrong = xstrdup("the signer is another");
	else if (pki_csr_info(csr->request, &csr->node, csr->key, &err) < 0)
		csr->wrong = xstrdup(err.text);
	else if (!node_name_ok(csr->node))
		csr->wrong = xstrdup(
			"its common name is not the name of a node: a-z, 0-9, '-' and '.' only");
	else if (usage != NULL)
		csr->wrong = xstrdup(usage);
	if (csr->node == NULL)
		csr->node = xstrdup("");
}

bool
csr_read(struct csr *csr, const struct tree_node *object)
{
	const struct tree_node *meta = tree_get(object, "metadata"),
			       *spec = tree_get(object, "spec");
	const char *name = tree_text(tree_get(meta, "name"), "");

	*csr = (struct csr){0};
	if (name[0] == '\0' || strlen(name) > CSR_NAME_MAX || !follow_version(csr->version, object))
		return false;
	snprintf(csr->name, sizeof csr->name, "%s", name);
	csr->request = base64_text(tree_text(tree_get(spec, "request"), ""));
	if (csr->request == NULL)
		csr->request = xstrdup("");
	csr->ours = strcmp(tree_text(tree_get(tree_get(meta, "labels"), OURS_KEY), ""), OURS) == 0;
	csr->address = xstrdup(tree_text(tree_get(tree_get(meta, "annotations"), ADDRESS_KEY), ""));
	csr->why = xstrdup("");
	csr_check(csr, spec);
	read_status(csr, object);
	if (csr->cert == NULL)
		csr->cert = xstrdup("");
	return true;
}

void
csr_fini(struct csr *csr)
{
	free(csr->request);
	free(csr->node);
	free(csr->cert);
	free(csr->why);
	free(csr->address);
	free(csr->wrong);
	free(csr->warning);
	*csr = (struct csr){0};
}

const char *
csr_state_text(enum csr_state state)
{
	static const char *const texts[] = {
		[CSR_PENDING] = "pending",
		[CSR_APPROVED] = "approved",
		[CSR_ISSUED] = "issued",
		[CSR_DENIED] = "denied",
		[CSR_FAILED] = "failed",
	};

	return texts[state];
}

/* --- writing -------------------------------------------------------------------------------- */

void
csr_name(char name[CSR_NAME_MAX + 1], const char *node, const char *key, bool replaces)
{
	int len = (int)strnlen(node, NODE_IN_NAME_MAX);

	while (len > 0 && (node[len - 1] == '.' || node[len - 1] == '-'))
		len--;
	snprintf(name, CSR_NAME_MAX + 1, "edgeway-%.*s-%.*s%s", len, node, KEY_IN_NAME, key,
		replaces ? "-replacement" : "");
}

void
csr_build(struct buf *out, const struct csr *csr)
{
	buf_printf(out,
		"{\"apiVersion\":\"certificates.k8s.io/"
		"v1\",\"kind\":\"CertificateSigningRequest\",\"metadata\":{\"name\":\"%s\","
		"\"labels\":{\"" OURS_KEY "\":\"" OURS "\"},\"annotations\":{\"edgeway.io/node\":",
		csr->name);
	json_add_text(out, csr->node);
	buf_adds(out, ",\"" ADDRESS_KEY "\":");
	json_add_text(out, csr->address);
	if (csr->warning != NULL) {
		buf_adds(out, ",\"edgeway.io/warning\":");
		json_add_text(out, csr->warning);
	}
	buf_printf(out,
		"}},\"spec\":{\"signerName\":\"%s\",\"usages\":[\"client auth\",\"digital "
		"signature\"],\"request\":\"",
		csr->replaces ? CSR_SIGNER_REPLACEMENT : CSR_SIGNER);
	base64_add(out, csr->request, strlen(csr->request));
	buf_adds(out, "\"}}");
}

void
csr_build_issued(struct buf *out, const struct csr *csr, const char *cert_pem)
{
	buf_printf(out, "{\"metadata\":{\"resourceVersion\":\"%s\"},\"status\":{\"certificate\":\"",
		csr->version);
	base64_add(out, cert_pem, strlen(cert_pem));
	buf_adds(out, "\"}}");
}

static void
csr_add_failed(struct buf *out, const char *reason, const char *message)
{
	int64_t now_s = (int64_t)(wall_ms() / 1000);

	buf_printf(out,
		"{\"type\":\"Failed\",\"status\":\"True\",\"reason\":\"%s\",\"message\":", reason);
	json_add_text(out, message);
	buf_adds(out, ",\"lastUpdateTime\":\"");
	buf_add_utc(out, now_s);
	buf_adds(out, "\",\"lastTransitionTime\":\"");
	buf_add_utc(out, now_s);
	buf_adds(out, "\"}");
}

void
csr_build_failed(struct buf *out, const struct csr *csr)
{
	buf_printf(out,
		"[{\"op\":\"test\",\"path\":\"/metadata/"
		"resourceVersion\",\"value\":\"%s\"},{\"op\":\"add\",\"path\":\"/status/conditions/"
		"-\",\"value\":",
		csr->version);
	csr_add_failed(out, "SignerValidationFailure", csr->wrong);
	buf_adds(out, "}]");
}

void
csr_build_given_up(struct buf *out, const struct csr *csr)
{
	buf_printf(out, "{\"metadata\":{\"resourceVersion\":\"%s\"},\"status\":{\"conditions\":[",
		csr->version);
	csr_add_failed(out, "NotApproved",
		"nobody approved it, and too many others wait: delete it (kubectl delete csr NAME) "
		"and its node asks again");
	buf_adds(out, "]}}");
}

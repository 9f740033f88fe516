#include "tests/unit/base/tls/tls_keys.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/tls/pki.h"

void
tls_keys_make(struct tls_keys *k)
{
	static const char *const names[] = {"hub.example", NULL};
	struct pki_issue issue = {
		.days = 2, .names = names, .server = true, .common_name = "hub.example"};

	assert_int_equal(pki_ca_new("test CA", 2, &k->ca, &k->ca_key, NULL), 0);
	issue.ca_cert_pem = k->ca;
	issue.ca_key_pem = k->ca_key;
	assert_int_equal(pki_key_new(&k->hub_key, NULL), 0);
	assert_int_equal(pki_sign_key(&issue, k->hub_key, &k->hub, NULL), 0);
	issue = (struct pki_issue){.ca_cert_pem = k->ca,
		.ca_key_pem = k->ca_key,
		.days = 2,
		.client = true,
		.common_name = "edge-1"};
	assert_int_equal(pki_key_new(&k->node_key, NULL), 0);
	assert_int_equal(pki_sign_key(&issue, k->node_key, &k->node, NULL), 0);
}

void
tls_keys_free(struct tls_keys *k)
{
	free(k->ca);
	free(k->ca_key);
	free(k->hub);
	free(k->hub_key);
	free(k->node);
	free(k->node_key);
}

/* Which certificates of hubs a node refuses once it has heard of more than it keeps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/core/buf.h"
#include "base/tls/pki_crl.h"
#include "meta/client/hub_client_private.h"

enum { KEPT = 256 };

static char *ca, *ca_key;
static unsigned notes; /* written to the database */

void __wrap_apply_note(struct apply *a, const char *key, const char *value);

void
__wrap_apply_note(struct apply *a, const char *key, const char *value)
{
	(void)a;
	(void)value;
	assert_string_equal(key, HUB_CLIENT_REFUSED_NOTE);
	notes++;
}

/* The hub sends a list of these two, in this order. */
static void
take_crl(struct hub_client *f, const char *first, const char *second)
{
	const char *const serials[] = {first, second};
	struct pki_crl list = {ca, ca_key, serials, ARRAY_LEN(serials)};
	struct envelope e = {.content = NULL};
	auto_free char *pem = NULL;
	auto_buf struct buf content;

	assert_int_equal(pki_crl_new(&list, &pem, NULL), 0);
	buf_init(&content, BUF_UNLIMITED);
	buf_adds(&content, "{\"crl\":\"");
	for (const char *at = pem; *at != '\0'; at++)
		buf_printf(&content, *at == '\n' ? "\\n" : "%c", *at);
	buf_adds(&content, "\"}");
	e.content_len = buf_len(&content);
	e.content = (char *)(uintptr_t)buf_str(&content);
	hub_client_take_crl(f, &e);
}

static bool
refuses(const struct hub_client *f, const char *serial)
{
	auto_free char *all = xasprintf(",%s,", f->refused_hubs);
	auto_free char *one = xasprintf(",%s,", serial);

	return strstr(all, one) != NULL;
}

/* A new one takes the place of one that the list does not name. */
static void
test_more_than_are_kept(void **state)
{
	struct hub_client f = {.identity = {.ca = ca}, .revoked_nodes = xstrdup("")};
	auto_buf struct buf held;

	(void)state;
	buf_init(&held, BUF_UNLIMITED);
	for (unsigned i = 0; i < KEPT; i++)
		buf_printf(&held, "%s%x", i > 0 ? "," : "", 0xa000 + i);
	f.refused_hubs = xstrdup(buf_str(&held));
	take_crl(&f, "a000", "b000");
	assert_true(refuses(&f, "a000") && refuses(&f, "b000"));
	take_crl(&f, "b001", "a002");
	assert_true(refuses(&f, "b001") && refuses(&f, "a002"));
	assert_int_equal(hub_client_count_refused(&f), KEPT);
	assert_true(notes == 2 && f.certificates == 2);
	take_crl(&f, "a002", "a000"); /* nothing new, in whatever order: no new connections */
	assert_true(refuses(&f, "a000") && refuses(&f, "a002"));
	assert_true(notes == 2 && f.certificates == 2);
	free(f.refused_hubs);
	free(f.revoked_nodes);
}

static int
make_ca(void **state)
{
	(void)state;
	return pki_ca_new("edgeway", 30, &ca, &ca_key, NULL);
}

static int
free_ca(void **state)
{
	(void)state;
	free(ca);
	free(ca_key);
	return 0;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_more_than_are_kept),
	};

	return cmocka_run_group_tests(tests, make_ca, free_ca);
}

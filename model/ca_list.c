#include "model/ca_list.h"

#include <stdio.h>
#include <string.h>

#include "base/tls/pki.h"

enum { CA_SHORT = 8 };

static void
ca_list_add(void *arg, const char *hash)
{
	char *to = arg;
	size_t len = strlen(to);

	if (len + 1 + CA_SHORT < CA_LIST_TEXT)
		snprintf(
			to + len, CA_LIST_TEXT - len, "%s%.*s", len > 0 ? "," : "", CA_SHORT, hash);
}

void
ca_list(char to[CA_LIST_TEXT], const char *bundle_pem)
{
	to[0] = '\0';
	pki_bundle_each(bundle_pem, ca_list_add, to);
}

struct ca_rest {
	char *to;
	const char *first;
};

static void
ca_list_add_other(void *arg, const char *hash)
{
	const struct ca_rest *rest = arg;

	if (strcmp(hash, rest->first) != 0)
		ca_list_add(rest->to, hash);
}

void
ca_list_of(char to[CA_LIST_TEXT], const char *bundle_pem, const char *cert_pem)
{
	char signer[PKI_HASH_TEXT];
	struct ca_rest rest = {.to = to, .first = signer};

	to[0] = '\0';
	if (!pki_bundle_signer(bundle_pem, cert_pem, signer))
		return;
	ca_list_add(to, signer);
	pki_bundle_each(bundle_pem, ca_list_add_other, &rest);
}

bool
ca_list_ok(const char *text)
{
	return strlen(text) < CA_LIST_TEXT && strspn(text, "0123456789abcdef,") == strlen(text);
}

bool
ca_list_same_first(const char *a, const char *b)
{
	return strlen(a) >= CA_SHORT && strncmp(a, b, CA_SHORT) == 0;
}

/* All have the same length. */
static bool
ca_list_has(const char *list, const char *ca)
{
	for (const char *at = list; strlen(at) >= CA_SHORT; at += CA_SHORT + 1) {
		if (memcmp(at, ca, CA_SHORT) == 0)
			return true;
		if (at[CA_SHORT] == '\0')
			break;
	}
	return false;
}

static bool
ca_list_holds(const char *list, const char *part)
{
	for (const char *at = part; strlen(at) >= CA_SHORT; at += CA_SHORT + 1) {
		if (!ca_list_has(list, at))
			return false;
		if (at[CA_SHORT] == '\0')
			break;
	}
	return true;
}

bool
ca_list_is_current(const char *node, const char *now)
{
	if (node[0] == '\0') /* an unknown list counts as current while there is only one CA */
		return strlen(now) <= CA_SHORT;
	return strcmp(node, now) == 0;
}

bool
ca_list_keeps(const char *node, const char *now, const char *next)
{
	if (strlen(next) < CA_SHORT)
		return false;
	if (node[0] != '\0')
		return ca_list_has(node, next) && ca_list_has(next, node);
	return now[0] == '\0' || (ca_list_same_first(now, next) && ca_list_holds(next, now));
}

/* What a node declares, as the hub reads it: what is accepted can be written and read again, and
 * stands for nothing that is never dialled by its being a network. */
#include <assert.h>
#include <string.h>

#include "model/check.h"
#include "tunnel/node/reachable_nets.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void
check_entry(const struct reachable_nets_entry *e)
{
	static const char *const never[] = {"127.0.0.1", "::1", "169.254.169.254", "fe80::1",
		"8.8.8.8", "224.0.0.1", "2001:db8::1"};
	struct in6_addr ip;

	assert(strlen(e->text) > 0 && strlen(e->text) <= REACHABLE_NETS_ENTRY_MAX);
	for (size_t i = 0; i < ARRAY_LEN(never); i++)
		assert(ip_parse(never[i], &ip) &&
			!reachable_nets_covers(e, REACHABLE_NETS_ANY, &ip));
	if (e->wrong != NULL)
		return;
	assert(!reachable_nets_opens(e, 0));
	if (e->node != NULL)
		assert(reachable_nets_covers(e, e->node, &ip) &&
			check_subdomain(e->node, strlen(e->node)));
	else
		assert(e->bits <= 128 && reachable_nets_covers(e, REACHABLE_NETS_ANY, &e->prefix));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct reachable_nets *v, *again;
	auto_buf struct buf text;

	buf_init(&text, REACHABLE_NETS_TEXT_MAX);
	if (reachable_nets_parse((const char *)data, len, &v, NULL) < 0)
		return 0;
	assert(v->n <= REACHABLE_NETS_MAX);
	for (size_t i = 0; i < v->n; i++)
		check_entry(&v->list[i]);
	reachable_nets_write(v, &text);
	assert(buf_len(&text) == len && memcmp(buf_str(&text), data, len) == 0);
	assert(reachable_nets_parse(buf_str(&text), buf_len(&text), &again, NULL) == 0);
	assert(reachable_nets_same(v, again));
	reachable_nets_free(&again);
	reachable_nets_free(&v);
	return 0;
}

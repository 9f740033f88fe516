/* What a node declares, as the hub reads it: what is accepted can be written and read again, and
 * stands for nothing that is never dialled by its being a network. */
#include <assert.h>
#include <string.h>

#include "model/check.h"
#include "tunnel/node/vicinity.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void
check_entry(const struct vicinity_entry *e)
{
	static const char *const never[] = {"127.0.0.1", "::1", "169.254.169.254", "fe80::1",
		"8.8.8.8", "224.0.0.1", "2001:db8::1"};
	struct in6_addr ip;

	assert(strlen(e->text) > 0 && strlen(e->text) <= VICINITY_ENTRY_MAX);
	for (size_t i = 0; i < ARRAY_LEN(never); i++)
		assert(ip_parse(never[i], &ip) && !vicinity_covers(e, VICINITY_ANY, &ip));
	if (e->wrong != NULL)
		return;
	assert(!vicinity_opens(e, 0));
	if (e->node != NULL)
		assert(vicinity_covers(e, e->node, &ip) &&
			check_subdomain(e->node, strlen(e->node)));
	else
		assert(e->bits <= 128 && vicinity_covers(e, VICINITY_ANY, &e->prefix));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct vicinity *v, *again;
	auto_buf struct buf text;

	buf_init(&text, VICINITY_TEXT_MAX);
	if (vicinity_parse((const char *)data, len, &v, NULL) < 0)
		return 0;
	assert(v->n <= VICINITY_MAX);
	for (size_t i = 0; i < v->n; i++)
		check_entry(&v->list[i]);
	vicinity_write(v, &text);
	assert(buf_len(&text) == len && memcmp(buf_str(&text), data, len) == 0);
	assert(vicinity_parse(buf_str(&text), buf_len(&text), &again, NULL) == 0);
	assert(vicinity_same(v, again));
	vicinity_free(&again);
	vicinity_free(&v);
	return 0;
}

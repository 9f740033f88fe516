/* Who calls from a node, as its hub tells it, and who may call a service: what is read of the
 * former is written and read again as the same; the latter is read or refused with a reason, and
 * asked about each caller. */
#include <assert.h>
#include <string.h>

#include "model/check.h"
#include "model/local_callers.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void
write_callers(struct buf *out, const struct local_callers *c)
{
	local_callers_begin(out, local_callers_node(c));
	for (size_t i = 0; i < local_callers_count(c); i++) {
		const struct local_pod pod = local_callers_at(c, i);

		local_callers_add(out, &pod);
	}
	local_callers_end(out);
}

static void
ask(const char *text, const struct local_callers *c)
{
	struct err err = {0};
	struct allow_from *a;

	if (allow_from_parse(&a, text, "default", &err) < 0) {
		assert(a == NULL && err.text[0] != '\0');
		return;
	}
	for (size_t i = 0; i < local_callers_count(c); i++) {
		struct allow_caller who;
		struct in6_addr ip;

		assert(ip_parse(local_callers_at(c, i).ip, &ip));
		local_callers_find(c, &ip, &who);
		assert(who.ns != NULL);
		allow_from_permits(a, &who);
	}
	allow_from_unref(&a);
}

/* The JSON up to the first line feed, behind it the rule. */
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	auto_free char *all = xstrndup((const char *)data, len);
	char *rule = strchr(all, '\n');
	struct local_callers *c, *again;
	auto_buf struct buf first, second;

	buf_init(&first, BUF_UNLIMITED);
	buf_init(&second, BUF_UNLIMITED);
	if (rule != NULL)
		*rule++ = '\0';
	if (local_callers_parse(&c, all, strlen(all), NULL) == 0) {
		write_callers(&first, c);
		assert(local_callers_parse(&again, buf_at(&first), buf_len(&first), NULL) == 0);
		write_callers(&second, again);
		assert(strcmp(buf_str(&first), buf_str(&second)) == 0);
		local_callers_unref(&again);
	}
	ask(rule != NULL ? rule : all, c);
	local_callers_unref(&c);
	return 0;
}

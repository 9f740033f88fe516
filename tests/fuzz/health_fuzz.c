/* What a node answers to the question how a service's endpoints do there: passed on in our own
 * words, which mean the same when they are read again, or not at all. */
#include <assert.h>
#include <string.h>

#include "model/health.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct health_said said, again;
	auto_buf struct buf text;
	struct err err = {0};

	buf_init(&text, BUF_UNLIMITED);
	if (health_read(&said, (const char *)data, len, &err) == 0) {
		buf_printf(&text, "{\"known\":%s,\"endpoints\":%s,\"more\":%u}",
			said.known ? "true" : "false", buf_str(&said.list), said.more);
		if (buf_len(&text) <= HEALTH_BYTES_MAX) {
			assert(health_read(&again, buf_at(&text), buf_len(&text), &err) == 0);
			assert(again.known == said.known && again.more == said.more);
			assert(strcmp(buf_str(&again.list), buf_str(&said.list)) == 0);
			health_fini(&again);
		}
	} else {
		assert(err.text[0] != '\0');
	}
	health_fini(&said);
	return 0;
}

/* A hosts file in a ConfigMap, whoever wrote it: ours on top of it has every node or says what is
 * left out, fits, and is written over itself as the same. The first byte says whether it is ours
 * already, and how much fits. */
#include <assert.h>
#include <string.h>

#include "hub/names/hosts_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

enum { NODES = 3 };

static struct hosts_made
write_over(struct buf *out, const char *old, bool ours, size_t limit)
{
	struct hosts_lines lines = {0};
	struct hosts_made made;

	hosts_lines_add(&lines, "10.96.0.9", "edge-1");
	hosts_lines_add(&lines, "10.96.0.9", "edge-2.example");
	hosts_lines_add(&lines, "fd00::9", "a");
	made = hosts_text(out, &lines, old, ours, limit);
	hosts_lines_fini(&lines);
	return made;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	auto_free char *old = NULL;
	auto_buf struct buf once = {0}, twice = {0};
	struct hosts_made made, again;
	size_t limit;

	if (len == 0)
		return 0;
	old = xstrndup((const char *)data + 1, len - 1);
	limit = data[0] & 2 ? 64 * 1024 : len + data[0];
	buf_init(&once, BUF_UNLIMITED);
	buf_init(&twice, BUF_UNLIMITED);
	made = write_over(&once, old, data[0] & 1, limit);
	assert(made.names + made.left_out == NODES);
	assert(made.left_out == 0 || strstr(buf_str(&once), " more do not fit\n") != NULL);
	assert(buf_len(&once) <= MAX(limit, len + 128)); /* what others wrote stays */
	again = write_over(&twice, buf_str(&once), true, limit);
	assert(strcmp(buf_str(&once), buf_str(&twice)) == 0);
	assert(again.names == made.names && again.kept == made.kept);
	return 0;
}

/* The list of reserved ports: whatever it holds, an edit is refused or can be undone. */
#include <assert.h>

#include "iptables/host/reserve.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	auto_free char *list = xstrndup((const char *)data, len);
	auto_buf struct buf with, without, again;
	int rc;

	buf_init(&with, BUF_UNLIMITED);
	buf_init(&without, BUF_UNLIMITED);
	buf_init(&again, BUF_UNLIMITED);
	rc = reserve_edit(&with, list, 40001, true);
	if (rc < 0)
		return 0;
	assert(reserve_edit(&without, buf_str(&with), 40001, false) == 1);
	assert(reserve_edit(&again, buf_str(&without), 40001, true) == 1);
	assert(strcmp(buf_str(&with), buf_str(&again)) == 0);
	return 0;
}

#include "base/http/retry_after.h"

#include <string.h>

#include "base/core/util.h"

unsigned
retry_after_s(uint64_t random)
{
	return (unsigned)(RETRY_AFTER_SAID_S + random % (2 * RETRY_AFTER_SAID_S + 1));
}

/* A date would need this machine's clock, which may be wrong; no hub of ours says one. */
uint64_t
retry_after_read(const char *text, uint64_t random)
{
	size_t len = strlen(text);
	uint64_t s = 0, ms;

	if (len == 0 || len > 9 || strspn(text, "0123456789") != len)
		return 0;
	for (; *text != '\0'; text++)
		s = s * 10 + (uint64_t)(*text - '0');
	ms = MIN(s, (uint64_t)RETRY_AFTER_MOST_S) * 1000;
	return ms == 0 ? 0 : ms + random % (ms / 2);
}

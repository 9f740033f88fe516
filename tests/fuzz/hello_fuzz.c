/* What a stranger says first at the ports of TLS: every beginning asks for more within bounds, or
 * is decided for good. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "hub/port/hello.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	char whole[HELLO_NAME_MAX + 1] = "", part[HELLO_NAME_MAX + 1];
	int decided = hello_name(data, len, whole);
	size_t need = 0;

	if (hello_read(data, len, &need) == HELLO_MORE)
		assert(need > len && need <= HELLO_MAX && (decided == 0 || data[0] == 'G'));
	if (decided == 1)
		assert(whole[0] != '\0' && hello_is_tls(data, len));
	for (size_t n = 0; n < len && n < 600; n++) {
		int rc = hello_name(data, n, part);

		if (rc == 1)
			assert(decided == 1 && strcmp(part, whole) == 0);
		else if (rc < 0)
			assert(decided == rc);
	}
	return 0;
}

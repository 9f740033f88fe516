/* What a stranger says first at the ports of TLS: every beginning asks for more within bounds, or
 * is decided for good. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "hub/port/client_hello.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	char whole[CLIENT_HELLO_NAME_MAX + 1] = "", part[CLIENT_HELLO_NAME_MAX + 1];
	int decided = client_hello_name(data, len, whole);
	size_t need = 0;

	if (client_hello_read(data, len, &need) == CLIENT_HELLO_MORE)
		assert(need > len && need <= CLIENT_HELLO_MAX && (decided == 0 || data[0] == 'G'));
	if (decided == 1)
		assert(whole[0] != '\0' && client_hello_is_tls(data, len));
	for (size_t n = 0; n < len && n < 600; n++) {
		int rc = client_hello_name(data, n, part);

		if (rc == 1)
			assert(decided == 1 && strcmp(part, whole) == 0);
		else if (rc < 0)
			assert(decided == rc);
	}
	return 0;
}

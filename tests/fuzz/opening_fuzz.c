/* How a stranger's HTTP/2 begins: more bytes never take back what was decided, and what is cut out
 * is an acknowledgement. */
#include <assert.h>
#include <string.h>

#include "tunnel/h2/opening.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static const uint8_t ack[OPENING_FRAME_HEAD] = {[3] = 4, [4] = 1};
	struct opening whole, part;
	enum opening_state state = opening_read(data, len, &whole);

	assert(strlen(whole.authority) <= OPENING_AUTHORITY_MAX);
	if (whole.ack_at != SIZE_MAX && state != OPENING_BAD) {
		assert(whole.ack_at + OPENING_FRAME_HEAD <= len);
		assert(memcmp(data + whole.ack_at, ack, 4) == 0 && (data[whole.ack_at + 4] & 1));
	}
	for (size_t n = 0; n < len && n < 300; n++) {
		enum opening_state before = opening_read(data, n, &part);

		assert(before != OPENING_NONE || state == OPENING_NONE);
		if (before == OPENING_BAD)
			assert(state == OPENING_BAD);
		if (before == OPENING_ASKED && state == OPENING_ASKED)
			assert(part.stream == whole.stream &&
				strcmp(part.authority, whole.authority) == 0);
	}
	return 0;
}

/* How a stranger's HTTP/2 begins: more bytes never take back what was decided, and what is cut out
 * is an acknowledgement. */
#include <assert.h>
#include <string.h>

#include "base/http/h2_preface.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static const uint8_t ack[H2_PREFACE_FRAME_HEAD] = {[3] = 4, [4] = 1};
	struct h2_preface whole = {0}, grown = {0};
	enum h2_preface_state state = h2_preface_read(data, len, &whole);

	assert(strlen(whole.authority) <= H2_PREFACE_AUTHORITY_MAX);
	if (whole.ack_at != 0 && state != H2_PREFACE_BAD) {
		assert(whole.ack_at + H2_PREFACE_FRAME_HEAD <= len);
		assert(memcmp(data + whole.ack_at, ack, 4) == 0 && (data[whole.ack_at + 4] & 1));
	}
	for (size_t n = 0; n < len && n < 300; n++) {
		struct h2_preface part = {0};
		enum h2_preface_state before = h2_preface_read(data, n, &part);

		/* byte by byte it is the same */
		assert(h2_preface_read(data, n, &grown) == before);
		assert(grown.stream == part.stream && grown.ack_at == part.ack_at &&
			strcmp(grown.authority, part.authority) == 0);
		assert(before != H2_PREFACE_NONE || state == H2_PREFACE_NONE);
		if (before == H2_PREFACE_BAD)
			assert(state == H2_PREFACE_BAD);
		if (before == H2_PREFACE_ASKED && state == H2_PREFACE_ASKED)
			assert(part.stream == whole.stream &&
				strcmp(part.authority, whole.authority) == 0);
	}
	return 0;
}

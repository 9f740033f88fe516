/* Messages of D-Bus: whatever comes, what is read lies within the bytes of its message. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/core/util.h"
#include "base/os/dbus_message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	auto_free char *bytes = xmalloc(len + 1); /* a copy, so that ASan sees its end */
	const char *at = bytes;
	struct dbus_message m;

	if (len > 0)
		memcpy(bytes, data, len);
	while (dbus_message_read(&m, at, len) > 0) {
		size_t n = strlen(m.text);

		assert(m.size > 0 && m.size <= len && m.size <= DBUS_MESSAGE_MAX);
		assert(m.reply || !m.error);
		assert(n == 0 || (m.text > at && m.text + n < at + m.size));
		at += m.size;
		len -= m.size;
	}
	return 0;
}

/* Lines of a rendezvous, as hub and node read them: what is one is written as the same one. */
#include <assert.h>
#include <string.h>

#include "tunnel/node/rendezvous_line.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct rendezvous_line line, again;
	auto_buf struct buf text;
	ssize_t n = rendezvous_line_read((const char *)data, len, &line);

	buf_init(&text, BUF_UNLIMITED);
	assert(n <= (ssize_t)len && n <= RENDEZVOUS_LINE_MAX + 1);
	if (n <= 0)
		return 0;
	rendezvous_line_write(&line, &text);
	assert(rendezvous_line_read(buf_str(&text), buf_len(&text), &again) ==
		(ssize_t)buf_len(&text));
	assert(again.word == line.word && strcmp(again.text, line.text) == 0);
	assert(line.word != RENDEZVOUS_GO ||
		(addr_same(&line.own, &again.own) && addr_same(&line.other, &again.other) &&
			line.delay_ms == again.delay_ms && addr_port(&line.other) != 0));
	return 0;
}

#include "src/ctl/ctl_tar.h"

#include <assert.h>

enum { TAR_BLOCK = 512, TAR_SUM_AT = 148, TAR_SUM_BYTES = 8 };

/* Octal digits and NUL, as every number in the header. */
static void
tar_number(char *to, size_t size, uint64_t value)
{
	for (size_t i = size - 1; i-- > 0; value >>= 3)
		to[i] = (char)('0' + (value & 7));
}

static void
tar_pad(struct buf *out, size_t len)
{
	static const char zeros[TAR_BLOCK];

	buf_add(out, zeros, (TAR_BLOCK - len % TAR_BLOCK) % TAR_BLOCK);
}

void
tar_add(struct buf *out, const char *name, const void *data, size_t len, uint64_t modified_s)
{
	char header[TAR_BLOCK] = {0};
	unsigned sum = 0;

	assert(strlen(name) <= TAR_NAME_MAX);
	memcpy(header, name, strlen(name));
	tar_number(header + 100, 8, 0600); /* mode */
	tar_number(header + 108, 8, 0); /* user */
	tar_number(header + 116, 8, 0); /* group */
	tar_number(header + 124, 12, len);
	tar_number(header + 136, 12, modified_s);
	/* the checksum counts its own field as blanks */
	memset(header + TAR_SUM_AT, ' ', TAR_SUM_BYTES);
	header[156] = '0'; /* a regular file */
	memcpy(header + 257,
		"ustar\0"
		"00",
		8);
	for (size_t i = 0; i < sizeof header; i++)
		sum += (unsigned char)header[i];
	tar_number(header + TAR_SUM_AT, TAR_SUM_BYTES - 1, sum);
	buf_add(out, header, sizeof header);
	buf_add(out, data, len);
	tar_pad(out, len);
}

void
tar_end(struct buf *out)
{
	static const char zeros[2 * TAR_BLOCK];

	buf_add(out, zeros, sizeof zeros);
}

#include <string.h>

#include "model/json_private.h"

/* Length of the leading bytes that need no escape. */
static size_t
plain_len(const char *p)
{
	size_t n = 0;

	while (p[n] >= ' ' && p[n] < 0x7f && p[n] != '"' && p[n] != '\\')
		n++;
	return n;
}

void
json_add_text(struct buf *out, const char *text)
{
	static const char escaped[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
	const char *p = text != NULL ? text : "", *found;
	size_t left = strlen(p), n;

	buf_add(out, "\"", 1);
	for (; left > 0; p += n, left -= n) {
		n = plain_len(p);
		if (n > 0) {
			buf_add(out, p, n);
			continue;
		}
		n = json_utf8_len(p, left);
		if (n == 0) {
			n = 1;
			buf_adds(out, "\xef\xbf\xbd");
		} else if ((found = strchr(escaped, *p)) != NULL) {
			buf_printf(out, "\\%c", letters[found - escaped]);
		} else if ((unsigned char)*p < ' ') {
			buf_printf(out, "\\u%04x", (unsigned)*p);
		} else {
			buf_add(out, p, n);
		}
	}
	buf_add(out, "\"", 1);
}

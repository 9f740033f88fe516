#include <string.h>

#include "model/json_private.h"

void
json_add_text(struct buf *out, const char *text)
{
	static const char escaped[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
	const char *p = text != NULL ? text : "", *found;
	size_t left = strlen(p), n;

	buf_add(out, "\"", 1);
	for (; left > 0; p += n, left -= n) {
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

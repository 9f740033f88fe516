/*
 * The files of the hub's page (hub/page/web/), which are part of the program: the build turns each
 * into a list of bytes. Constant; any thread.
 *
 *	file = web_file_find("/app.js", 7);
 */
#ifndef EDGEWAY_HUB_PAGE_WEB_FILES_H
#define EDGEWAY_HUB_PAGE_WEB_FILES_H

#include "base/core/util.h"

enum { WEB_ETAG_TEXT = 19 }; /* 16 hex digits in quotes, and NUL */

struct web_file {
	const char *path, *type;
	const uint8_t *data;
	size_t len;
};

/* NULL: there is none. */
const struct web_file *web_file_find(const char *path, size_t len);
/* RFC 9110 section 8.8.3: changes with the content. */
void web_file_etag(const struct web_file *file, char to[WEB_ETAG_TEXT]);

#endif

#include "hub/page/web_files.h"

#include <stdio.h>
#include <string.h>

#include "base/core/hash.h"

static const uint8_t page[] = {
#include "hub/page/web/index.inc"
};
static const uint8_t style[] = {
#include "hub/page/web/style.inc"
};
static const uint8_t script[] = {
#include "hub/page/web/app.inc"
};
static const uint8_t draw[] = {
#include "hub/page/web/draw.inc"
};
static const uint8_t icon[] = {
#include "hub/page/web/icon.inc"
};

static const struct web_file files[] = {
	{"/", "text/html; charset=utf-8", page, sizeof page},
	{"/style.css", "text/css; charset=utf-8", style, sizeof style},
	{"/app.js", "text/javascript; charset=utf-8", script, sizeof script},
	{"/draw.js", "text/javascript; charset=utf-8", draw, sizeof draw},
	{"/icon.svg", "image/svg+xml", icon, sizeof icon},
};

const struct web_file *
web_file_find(const char *path, size_t len)
{
	for (size_t i = 0; i < ARRAY_LEN(files); i++)
		if (strlen(files[i].path) == len && memcmp(files[i].path, path, len) == 0)
			return &files[i];
	return NULL;
}

void
web_file_etag(const struct web_file *file, char to[WEB_ETAG_TEXT])
{
	snprintf(to, WEB_ETAG_TEXT, "\"%016llx\"",
		(unsigned long long)hash64(file->data, file->len, 0));
}

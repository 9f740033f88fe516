#include "base/core/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static int
code_of(int code)
{
	if (code == 0)
		return EINVAL;
	return code < 0 ? -code : code;
}

int
err_set(struct err *err, int code, const char *fmt, ...)
{
	va_list ap;

	code = code_of(code);
	if (err == NULL)
		return -code;
	err->code = code;
	va_start(ap, fmt);
	vsnprintf(err->text, sizeof err->text, fmt, ap);
	va_end(ap);
	return -code;
}

int
err_wrap(struct err *err, int code, const char *fmt, ...)
{
	char inner[sizeof err->text];
	va_list ap;
	size_t used;

	code = code_of(code);
	if (err == NULL)
		return -code;
	memcpy(inner, err->text, sizeof inner);
	va_start(ap, fmt);
	vsnprintf(err->text, sizeof err->text, fmt, ap);
	va_end(ap);
	used = strlen(err->text);
	snprintf(err->text + used, sizeof err->text - used, ": %s", inner);
	err->code = code;
	return -code;
}

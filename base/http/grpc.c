#include "base/http/grpc.h"

#include <stdio.h>
#include <string.h>

static const struct http1_field *
grpc_find(const struct http1_head *h, const char *name)
{
	for (size_t i = 0; i < h->n_fields; i++)
		if (http1_is(h->fields[i].name, name))
			return &h->fields[i];
	return NULL;
}

bool
grpc_is_call(const struct http1_head *request)
{
	static const char type[] = "application/grpc";
	const struct http1_field *f = grpc_find(request, "content-type");
	const size_t n = sizeof type - 1;

	return f != NULL && f->value.len >= n && memcmp(f->value.at, type, n) == 0 &&
		(f->value.len == n || strchr("+; ", f->value.at[n]) != NULL);
}

uint64_t
grpc_timeout_ms(const struct http1_head *request)
{
	static const char units[] = "HMSmun";
	static const uint64_t us[] = {3600000000, 60000000, 1000000, 1000, 1, 0};
	const struct http1_field *f = grpc_find(request, "grpc-timeout");
	const char *unit;
	uint64_t n = 0;

	if (f == NULL || f->value.len < 2 || f->value.len > 9)
		return 0;
	for (size_t i = 0; i + 1 < f->value.len; i++) {
		if (f->value.at[i] < '0' || f->value.at[i] > '9')
			return 0;
		n = n * 10 + (uint64_t)(f->value.at[i] - '0');
	}
	unit = memchr(units, f->value.at[f->value.len - 1], sizeof units - 1);
	if (unit == NULL)
		return 0;
	n = *unit == 'n' ? n / 1000 : n * us[unit - units];
	return n / 1000 + 1;
}

enum grpc_status
grpc_status_of(int http)
{
	switch (http) {
	case 400:
	case 405:
	case 508:
		return GRPC_INTERNAL;
	case 403:
		return GRPC_PERMISSION_DENIED;
	case 404:
		return GRPC_UNIMPLEMENTED;
	case 408:
		return GRPC_DEADLINE_EXCEEDED;
	case 414:
	case 431:
		return GRPC_RESOURCE_EXHAUSTED;
	case 501:
		return GRPC_UNIMPLEMENTED;
	case 429:
	case 502:
	case 503:
	case 504:
		return GRPC_UNAVAILABLE;
	default:
		return GRPC_UNKNOWN;
	}
}

unsigned
grpc_http_of(unsigned status)
{
	switch (status) {
	case GRPC_OK:
		return 200;
	case GRPC_UNKNOWN:
	case GRPC_INTERNAL:
	case GRPC_DATA_LOSS:
		return 500;
	case GRPC_UNAVAILABLE:
		return 503;
	case GRPC_DEADLINE_EXCEEDED:
		return 504;
	default: /* the caller's: an argument, a right, a method that is not there, a quota */
		return 400;
	}
}

int
grpc_status_parse(struct http1_str value)
{
	int n = 0;

	if (value.len == 0 || value.len > 2)
		return -1;
	for (size_t i = 0; i < value.len; i++) {
		if (value.at[i] < '0' || value.at[i] > '9')
			return -1;
		n = n * 10 + value.at[i] - '0';
	}
	return n;
}

const char *
grpc_message(const char *text, char to[GRPC_MESSAGE_MAX])
{
	size_t at = 0;

	for (; *text != '\0' && at + 4 < GRPC_MESSAGE_MAX; text++) {
		unsigned char c = (unsigned char)*text;

		if (c >= ' ' && c <= '~' && c != '%')
			to[at++] = (char)c;
		else
			at += (size_t)snprintf(to + at, 4, "%%%02X", c);
	}
	to[at] = '\0';
	return to;
}
